//! What reaches the model: each agent cuts a text that exceeds its limit. Takes the whole text and returns
//! the part that the model sees. Also cuts comparison texts to the same limits. Pure.

use milepost::brief::ExactTokenizer;
use milepost::internal::brief::TokenCounter;

use super::agents::AgentKind;

/// Claude Code passes on a text of up to this many characters, and only a preview of a longer one.
const CLAUDE_CHARACTERS: usize = 10_000;
const CLAUDE_PREVIEW: usize = 2_000;
const GEMINI_BYTES: usize = 30_000;
/// Codex passes on a text of up to this many tokens, and only the start and the end of a longer one.
const CODEX_TOKENS: u64 = 2_400;
/// OpenCode does not cut. Comparison texts need a limit all the same.
const OPENCODE_CHARACTERS: usize = CLAUDE_CHARACTERS;

/// The part of a text that reaches the model.
pub fn delivered(agent: AgentKind, text: &str) -> String {
    if agent == AgentKind::OpenCode || Limit::of(agent).fits(text) {
        return text.to_owned();
    }
    match agent {
        AgentKind::ClaudeCode => text.chars().take(CLAUDE_PREVIEW).collect(),
        AgentKind::Codex => {
            let half = Limit::Tokens(CODEX_TOKENS / 2);
            format!("{}\n[…]\n{}", half.start(text), half.end(text))
        }
        AgentKind::Gemini | AgentKind::OpenCode => Limit::of(agent).start(text).to_owned(),
    }
}

/// A maximum size of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    Characters(usize),
    Bytes(usize),
    Tokens(u64),
}

impl Limit {
    /// The size of a text that the agent passes on completely.
    pub fn of(agent: AgentKind) -> Self {
        match agent {
            AgentKind::ClaudeCode => Self::Characters(CLAUDE_CHARACTERS),
            AgentKind::Codex => Self::Tokens(CODEX_TOKENS),
            AgentKind::Gemini => Self::Bytes(GEMINI_BYTES),
            AgentKind::OpenCode => Self::Characters(OPENCODE_CHARACTERS),
        }
    }

    pub fn half(self) -> Self {
        match self {
            Self::Characters(n) => Self::Characters(n / 2),
            Self::Bytes(n) => Self::Bytes(n / 2),
            Self::Tokens(n) => Self::Tokens(n / 2),
        }
    }

    pub fn fits(self, text: &str) -> bool {
        match self {
            Self::Characters(n) => text.chars().count() <= n,
            Self::Bytes(n) => text.len() <= n,
            Self::Tokens(n) => tokens(text) <= n,
        }
    }

    /// The longest start of a text that fits.
    pub fn start(self, text: &str) -> &str {
        let ends = boundaries(text);
        &text[..ends[most(ends.len() - 1, |n| self.fits(&text[..ends[n]]))]]
    }

    /// The longest end of a text that fits.
    pub fn end(self, text: &str) -> &str {
        let starts = boundaries(text);
        let last = starts.len() - 1;
        &text[starts[last - most(last, |n| self.fits(&text[starts[last - n]..]))]..]
    }
}

/// The number of tokens of a text in the vocabulary of Codex's models.
pub fn tokens(text: &str) -> u64 {
    TokenCounter::new(&ExactTokenizer::O200k).tokens(text)
}

/// The positions between the characters of a text, including its start and its end.
fn boundaries(text: &str) -> Vec<usize> {
    text.char_indices().map(|(at, _)| at).chain([text.len()]).collect()
}

/// The largest n up to `of` for which `fits` is true. If some n fits, every smaller n must fit too.
fn most(of: usize, fits: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, of);
    while low < high {
        let middle = (low + high).div_ceil(2);
        if fits(middle) { low = middle } else { high = middle - 1 }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_text_arrives_complete() {
        for agent in AgentKind::ALL {
            assert_eq!(delivered(agent, "a\nß"), "a\nß");
        }
    }

    #[test]
    fn a_long_text_is_cut_as_the_agent_cuts_it() {
        let long: String = (0..20_000).map(|n| format!("word{n} ")).collect();
        let claude = delivered(AgentKind::ClaudeCode, &long);
        assert_eq!((claude.chars().count(), long.starts_with(&claude)), (2_000, true));
        let gemini = delivered(AgentKind::Gemini, &long);
        assert_eq!((gemini.len(), long.starts_with(&gemini)), (30_000, true));
        assert_eq!(delivered(AgentKind::OpenCode, &long), long);
        let codex = delivered(AgentKind::Codex, &long);
        let (start, end) = codex.split_once("\n[…]\n").unwrap();
        assert!(long.starts_with(start) && long.ends_with(end));
        for part in [start, end] {
            assert!((1_190..=1_200).contains(&tokens(part)), "{}", tokens(part));
        }
    }

    #[test]
    fn the_limit_itself_still_fits() {
        let text = "ß".repeat(10_000);
        assert_eq!(delivered(AgentKind::ClaudeCode, &text), text);
        assert_eq!(delivered(AgentKind::ClaudeCode, &(text + "x")).chars().count(), 2_000);
        assert!(Limit::Bytes(3).fits("ßa") && !Limit::Bytes(2).fits("ßa"));
        assert_eq!((Limit::Bytes(3).start("aßß"), Limit::Bytes(3).end("aßß")), ("aß", "ß"));
    }
}
