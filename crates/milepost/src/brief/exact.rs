//! Exact counters, with the vocabularies that some models publish. A feature, since they take memory and time to load.

use std::sync::LazyLock;

use tiktoken_rs::CoreBPE;

use super::{Counter, QUARTERS};

/// A published vocabulary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exact {
    /// `o200k_base`.
    O200k,
    /// `cl100k_base`.
    Cl100k,
}

static O200K: LazyLock<Option<CoreBPE>> = LazyLock::new(|| tiktoken_rs::o200k_base().ok());
static CL100K: LazyLock<Option<CoreBPE>> = LazyLock::new(|| tiktoken_rs::cl100k_base().ok());

impl Exact {
    /// The counter of a name.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "o200k" | "o200k_base" => Some(Self::O200k),
            "cl100k" | "cl100k_base" => Some(Self::Cl100k),
            _ => None,
        }
    }
}

impl Counter for Exact {
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
        // A vocabulary is part of the program: where it cannot be loaded, each byte is one.
        let n = vocabulary.as_ref().map_or(text.len(), |bpe| bpe.encode_ordinary(text).len());
        QUARTERS * n as u64
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Gauge, Heuristic};
    use super::*;

    #[test]
    fn the_default_errs_on_the_safe_side() {
        for (name, text) in [
            ("brief", include_str!("tests/example.md")),
            ("code", include_str!("parse.rs")),
            ("code2", include_str!("compose.rs")),
            ("aliases", include_str!("section.rs")),
            ("doc", include_str!("../../../../docs/commands.md")),
            ("json", include_str!("../seal/golden-v1.json")),
            ("arch", include_str!("../../../../ARCHITECTURE.md")),
            ("lock", include_str!("../../../../Cargo.lock")),
            (
                "cjk",
                "データベースの移行を完了した。次はテストを実行し、結果を確認する。認証サービスの再起動が必要。把数据库迁移到新版本，然后运行测试并检查结果。用户要求不要提交代码，除非明确请求。데이터베이스 마이그레이션을 완료했다. 다음 단계는 테스트 실행이다.",
            ),
            (
                "jp",
                "データベースの移行を完了した。次はテストを実行し、結果を確認する。認証サービスの再起動が必要。",
            ),
            ("zh", "把数据库迁移到新版本，然后运行测试并检查结果。用户要求不要提交代码，除非明确请求。"),
            ("ko", "데이터베이스 마이그레이션을 완료했다. 다음 단계는 테스트 실행이다."),
            (
                "ru",
                "Перенести базу данных на новую версию, затем запустить тесты и проверить результаты. Пользователь просил не делать коммитов без явного запроса.",
            ),
            ("el", "Μεταφορά της βάσης δεδομένων στη νέα έκδοση και εκτέλεση των δοκιμών."),
            ("ar", "نقل قاعدة البيانات إلى الإصدار الجديد ثم تشغيل الاختبارات والتحقق من النتائج."),
            ("hi", "डेटाबेस को नए संस्करण में ले जाएँ और फिर परीक्षण चलाएँ।"),
            (
                "de",
                "Nächste Schritte: Datenbankmigration abschließen, anschließend Integrationstests ausführen und Ergebnisse überprüfen. Größere Änderungen an der Benutzeroberfläche vermeiden.",
            ),
            (
                "fr",
                "Terminer la migration de la base de données, puis exécuter les tests d'intégration et vérifier les résultats. Éviter les modifications d'interface.",
            ),
            (
                "es",
                "Terminar la migración de la base de datos, después ejecutar las pruebas de integración y verificar los resultados.",
            ),
            ("hash", "a93b4c5f2dcf972f019e670fca048e4735798174270d4c6ec2cc2ee2f4b15217f30360c6a160eaeb"),
            ("b64", "aGVsbG8gd29ybGQgdGhpcyBpcyBiYXNlNjQgdGV4dCB0aGF0IGlzIGxvbmc9PQ"),
            ("emoji", "🎯🚀✅❌🔥👩‍💻🏳️‍🌈 done ✓ — “quoted” … → ⇒ ─── ░"),
            ("hashes", "- fix 3f2a9c1: 2026-11-15T18:13:57Z 10.0.0.1:8080 v1.2.3-rc.4+build.5\n"),
            ("caps", "MILEPOST_RUN CHECKPOINT_SCHEMA_INVALID HTTP GET POST README TODO FIXME\n"),
            ("camel", "useImageGeneration PaintByNumbers getElementById XMLHttpRequest imageProcessor\n"),
            ("snake", "checkpoint_schema_invalid resume_run_active source_details window_pressure\n"),
            (
                "paths",
                "- src/services/: gemini.ts, imageProcessor.ts, useImageGeneration.ts\n- crates/milepost/src/brief/fit/: ladder.rs, shrink.rs, page.rs\n",
            ),
        ] {
            let ours = Gauge::new(&Heuristic).tokens(text) as f64;
            let (o, c) = (
                Gauge::new(&Exact::O200k).tokens(text) as f64,
                Gauge::new(&Exact::Cl100k).tokens(text) as f64,
            );
            println!(
                "{name:8} ours {ours:6} o200k {o:6} {:+.1}% cl100k {c:6} {:+.1}%",
                (ours / o - 1.0) * 100.0,
                (ours / c - 1.0) * 100.0
            );
        }
    }
}
