//! Counts tokens exactly with published vocabularies. An optional feature, because loading them takes memory
//! and time.

use std::sync::LazyLock;

use tiktoken_rs::CoreBPE;

use super::{QUARTERS_PER_TOKEN, Tokenizer};

/// A tokenizer with a published vocabulary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExactTokenizer {
    /// `o200k_base`.
    O200k,
    /// `cl100k_base`.
    Cl100k,
}

static O200K: LazyLock<Option<CoreBPE>> = LazyLock::new(|| tiktoken_rs::o200k_base().ok());
static CL100K: LazyLock<Option<CoreBPE>> = LazyLock::new(|| tiktoken_rs::cl100k_base().ok());

impl ExactTokenizer {
    /// The tokenizer with this name; `None` if there is none.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "o200k" | "o200k_base" => Some(Self::O200k),
            "cl100k" | "cl100k_base" => Some(Self::Cl100k),
            _ => None,
        }
    }
}

impl Tokenizer for ExactTokenizer {
    fn name(&self) -> &str {
        match self {
            Self::O200k => "o200k_base",
            Self::Cl100k => "cl100k_base",
        }
    }

    fn quarters(&self, text: &str) -> u64 {
        let vocabulary = match self {
            Self::O200k => &*O200K,
            Self::Cl100k => &*CL100K,
        };
        // The vocabulary is compiled in. If it fails to load anyway, each byte counts as a token.
        let n = vocabulary.as_ref().map_or(text.len(), |bpe| bpe.encode_ordinary(text).len());
        QUARTERS_PER_TOKEN * n as u64
    }
}

#[cfg(test)]
mod tests {
    use super::super::tokens::{HeuristicTokenizer, TokenCounter};
    use super::*;

    /// Samples of text whose tokens the default tokenizer must not underestimate by more than 3%.
    const TEXTS: [(&str, &str); 12] = [
        ("a brief", include_str!("tests/example.md")),
        ("code", include_str!("parse.rs")),
        ("documentation", include_str!("../../../../docs/commands.md")),
        ("tables of paths", include_str!("../../../../ARCHITECTURE.md")),
        ("JSON", include_str!("../seal/golden-v1.json")),
        ("digests", include_str!("../../../../Cargo.lock")),
        (
            "Japanese",
            "データベースの移行を完了した。次はテストを実行し、結果を確認する。認証サービスの再起動が必要。",
        ),
        ("Chinese", "把数据库迁移到新版本，然后运行测试并检查结果。用户要求不要提交代码，除非明确请求。"),
        ("Korean", "데이터베이스 마이그레이션을 완료했다. 다음 단계는 테스트 실행이다."),
        ("Russian", "Перенести базу данных на новую версию, затем запустить тесты и проверить результаты."),
        (
            "German",
            "Nächste Schritte: Datenbankmigration abschließen, anschließend Integrationstests ausführen.",
        ),
        ("emoji", "🎯🚀✅❌🔥👩‍💻🏳️‍🌈 done ✓ — “quoted” … → ⇒ ─── ░"),
    ];

    #[test]
    fn the_default_errs_on_the_safe_side() {
        for (name, text) in TEXTS {
            let ours = TokenCounter::new(&HeuristicTokenizer).tokens(text) as f64;
            for exact in [ExactTokenizer::O200k, ExactTokenizer::Cl100k] {
                let tokens = TokenCounter::new(&exact).tokens(text) as f64;
                assert!(ours >= 0.97 * tokens, "{name}: {ours}, {} {tokens}", exact.name());
            }
        }
    }

    #[test]
    fn a_brief_fits_by_an_exact_count() {
        let brief = crate::brief::Brief::parse(include_str!("tests/example.md"));
        for budget in [100, 150, 200, 250, 300] {
            let counter = TokenCounter::new(&ExactTokenizer::O200k);
            let options = crate::brief::FitOptions {
                budget,
                overflow: crate::brief::Overflow::Shrink,
                counter,
                full_command: None,
            };
            let fitted = brief.fit(&options).unwrap();
            assert!(fitted.tokens <= budget && fitted.counter == "o200k_base", "{fitted:?}");
        }
    }

    #[test]
    fn counts_of_the_default_that_tests_without_this_feature_rely_on() {
        for (text, tokens) in crate::brief::tests::COUNTED {
            assert_eq!(TokenCounter::new(&ExactTokenizer::Cl100k).tokens(text), tokens, "{text}");
        }
    }
}
