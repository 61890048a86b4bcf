//! Splits what a user said into sentences and pasted blocks, and ranks them by how much is lost if they are
//! left out. Takes plain text in any language. Pure.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

/// How much is lost if a part of a prompt is left out, lowest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Weight {
    /// A pasted log or a code block, which is shortened rather than left out.
    Paste,
    /// A prompt that only confirms or says to continue.
    Acknowledgement,
    /// A question.
    Question,
    /// Any other sentence.
    Sentence,
    /// The first sentence of a prompt, or one that states a preference.
    Lead,
    /// A sentence that states a rule, and everything in the newest prompts.
    Rule,
}

/// A sentence or a pasted block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) text: String,
    pub(super) weight: Weight,
    /// Whether the part starts a new line.
    pub(super) starts_line: bool,
}

/// Words and phrases in several languages, one per line: `rule` or `preference`, then the word. A word in a
/// script without spaces matches anywhere in a sentence, any other only as a whole word.
const RULE_WORDS: &str = include_str!("rule_words.txt");

/// Prompts that only confirm, in lower case and without punctuation.
const ACKNOWLEDGEMENTS: &str = include_str!("acknowledgements.txt");

/// Minimum number of consecutive lines that count as pasted output.
const PASTE_LINES: usize = 5;
/// Maximum length of each line of a shortened paste, in characters.
const PASTE_CHARS: usize = 160;

/// Splits a prompt into parts.
pub(super) fn split_prompt(prompt: &str) -> Vec<Part> {
    let prompt = prompt.trim();
    if is_acknowledgement(prompt) {
        let text = prompt.to_owned();
        return vec![Part { text, weight: Weight::Acknowledgement, starts_line: true }];
    }
    let lines: Vec<&str> = prompt.lines().collect();
    let mut parts = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let paste = paste_length(&lines[at..]);
        if paste > 0 {
            let text = lines[at..at + paste].join("\n");
            parts.push(Part { text, weight: Weight::Paste, starts_line: true });
            at += paste;
            continue;
        }
        let mut starts_line = true;
        for sentence in split_sentences(lines[at]) {
            let has_lead = parts.iter().any(|part: &Part| part.weight > Weight::Paste);
            let weight = weigh(sentence, !has_lead);
            // The indentation of a line shows its place in a list.
            let indent = if starts_line { indentation(lines[at]) } else { "" };
            parts.push(Part { text: format!("{indent}{sentence}"), weight, starts_line });
            starts_line = false;
        }
        at += 1;
    }
    parts
}

/// A pasted block in two lines: its first line and its last one.
pub(super) fn shorten_paste(paste: &str) -> String {
    let lines: Vec<_> = paste.lines().filter(|line| !line.trim_start().starts_with("```")).collect();
    let filled: Vec<_> = lines.iter().filter(|line| !line.trim().is_empty()).collect();
    let clip = |line: &str| {
        let line = line.trim();
        match line.char_indices().nth(PASTE_CHARS) {
            Some((at, _)) => format!("{}…", &line[..at]),
            None => line.to_owned(),
        }
    };
    match filled[..] {
        [] => String::new(),
        [one] => clip(one),
        [first, last] => format!("{}\n{}", clip(first), clip(last)),
        [first, .., last] => {
            format!("{}\n[{} more lines]\n{}", clip(first), filled.len() - 2, clip(last))
        }
    }
}

/// Number of lines at the start that are pasted: a fenced block, or several lines of program output.
fn paste_length(lines: &[&str]) -> usize {
    let Some(first) = lines.first() else { return 0 };
    if first.trim_start().starts_with("```") {
        let end = lines.iter().skip(1).position(|line| line.trim_start().starts_with("```"));
        let length = end.map_or(lines.len(), |end| end + 2);
        return if length >= PASTE_LINES { length } else { 0 };
    }
    // Lines of a log often start with the same word.
    let first_word = |line: &str| line.split_whitespace().next().map(str::to_owned);
    let word = first_word(first).filter(|word| word.len() > 1);
    let alike = lines.iter().take_while(|line| word.is_some() && first_word(line) == word).count();
    if alike >= PASTE_LINES {
        return alike;
    }
    if !is_output(first) {
        return 0;
    }
    // An empty line does not end the output.
    let continues = |line: &&&str| is_output(line) || line.trim().is_empty();
    let length = lines.iter().take_while(continues).count();
    let length = length - lines[..length].iter().rev().take_while(|line| line.trim().is_empty()).count();
    if length >= PASTE_LINES { length } else { 0 }
}

/// Whether a line looks like the output of a program rather than something a person wrote.
fn is_output(line: &str) -> bool {
    const STARTS: [&str; 23] = [
        "at ",
        "File \"",
        "Traceback",
        "Caused by",
        "[",
        "$ ",
        "E  ",
        "E   ",
        "+",
        "-->",
        "|",
        "INFO",
        "WARN",
        "ERROR",
        "DEBUG",
        "FATAL",
        "npm ERR!",
        "npm WARN",
        "error:",
        "error[",
        "Error:",
        "panicked",
        "thread '",
    ];
    let text = line.trim_start();
    if text.is_empty() {
        return false;
    }
    let is_list = ["- ", "* ", "• "].iter().any(|mark| text.starts_with(mark));
    let is_numbered = text.split_once(['.', ')']).is_some_and(|(n, rest)| {
        n.len() <= 2 && n.chars().all(|c| c.is_ascii_digit()) && rest.starts_with(' ')
    });
    if is_list || is_numbered {
        return false;
    }
    if STARTS.iter().any(|start| text.starts_with(start)) {
        return true;
    }
    let indented = line.len() - text.len() >= 4;
    let total = text.chars().count();
    let words = text.chars().filter(|c| c.is_alphabetic() || *c == ' ' || !c.is_ascii()).count();
    let starts_with_time = text.chars().take(4).filter(char::is_ascii_digit).count() >= 2;
    indented || words * 10 < total * 7 || (starts_with_time && total > 20)
}

/// The white space at the start of a line.
fn indentation(line: &str) -> &str {
    &line[..line.len() - line.trim_start().len()]
}

/// Splits a line into sentences. A full stop ends a sentence only before a space, so that versions, paths
/// and file names stay whole.
fn split_sentences(line: &str) -> Vec<&str> {
    let mut sentences = Vec::new();
    let mut start = 0;
    let mut chars = line.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let end = at + c.len_utf8();
        let next = chars.peek().map(|(_, next)| *next);
        let ends = match c {
            '。' | '！' | '？' => true,
            '!' | '?' | ';' => next.is_none_or(char::is_whitespace),
            '.' => {
                let word = line[start..at].rsplit(char::is_whitespace).next().unwrap_or_default();
                let short = word.chars().count() <= 2 || word.contains('.');
                next.is_none_or(char::is_whitespace) && !(short && next.is_some())
            }
            _ => false,
        };
        if ends {
            sentences.push(line[start..end].trim());
            start = end;
        }
    }
    sentences.push(line[start..].trim());
    sentences.retain(|sentence| !sentence.is_empty());
    sentences
}

fn weigh(sentence: &str, is_first: bool) -> Weight {
    let strength = rule_strength(sentence);
    match strength {
        Some(weight) => weight,
        None if is_first => Weight::Lead,
        None if sentence.ends_with(['?', '？']) => Weight::Question,
        None => Weight::Sentence,
    }
}

/// The rule words, grouped by how they are looked up.
struct RuleWords {
    /// Single words, which must match a whole word of the sentence.
    words: HashMap<&'static str, Weight>,
    /// Phrases, and words of scripts without spaces, which are searched for in the sentence.
    phrases: Vec<(&'static str, Weight)>,
}

static RULES: LazyLock<RuleWords> = LazyLock::new(|| {
    let mut rules = RuleWords { words: HashMap::new(), phrases: Vec::new() };
    for (kind, word) in RULE_WORDS.lines().filter_map(|line| line.split_once(' ')) {
        let weight = if kind == "rule" { Weight::Rule } else { Weight::Lead };
        if word.chars().all(|c| c.is_alphanumeric() && !is_unspaced(c)) {
            let known = rules.words.entry(word).or_insert(weight);
            *known = weight.max(*known);
        } else {
            rules.phrases.push((word, weight));
        }
    }
    rules
});

/// The weight of a sentence that states a rule or a preference.
fn rule_strength(sentence: &str) -> Option<Weight> {
    let lower = sentence.to_lowercase().replace('’', "'");
    let words = lower.split(|c: char| !c.is_alphanumeric()).filter_map(|word| RULES.words.get(word));
    let by_word = words.copied().max();
    if by_word == Some(Weight::Rule) {
        return by_word;
    }
    let phrases = RULES.phrases.iter().filter(|(phrase, _)| contains_phrase(&lower, phrase));
    by_word.max(phrases.map(|(_, weight)| *weight).max())
}

/// Whether a text contains a phrase. In a script with spaces, a match must not be part of a longer word.
fn contains_phrase(text: &str, phrase: &str) -> bool {
    let is_spaced = !phrase.contains(is_unspaced);
    text.match_indices(phrase).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + phrase.len()..].chars().next();
        let is_letter = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
        !is_spaced || !(is_letter(before) || is_letter(after))
    })
}

/// Whether a character belongs to a script that is written without spaces, or whose words carry endings.
fn is_unspaced(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}' | '\u{0e00}'..='\u{0e7f}')
}

/// Whether a prompt only confirms: a known phrase, or a few words that all occur in such phrases.
pub(super) fn is_acknowledgement(prompt: &str) -> bool {
    const MOST_WORDS: usize = 6;
    if prompt.len() > 60 || prompt.contains(['/', '`', '?']) {
        return false;
    }
    let words: String =
        prompt.to_lowercase().chars().map(|c| if c.is_alphanumeric() { c } else { ' ' }).collect();
    let words: Vec<_> = words.split_whitespace().collect();
    let phrase = words.join(" ");
    let (phrases, known_words) = &*CONFIRMATIONS;
    let is_known = |word: &&str| known_words.contains(*word);
    phrases.contains(phrase.as_str()) || (words.len() <= MOST_WORDS && words.iter().all(is_known))
}

/// The known confirmations, and the words that occur in them.
static CONFIRMATIONS: LazyLock<(HashSet<&'static str>, HashSet<&'static str>)> = LazyLock::new(|| {
    let words = ACKNOWLEDGEMENTS.lines().flat_map(|line| line.split(' '));
    (ACKNOWLEDGEMENTS.lines().collect(), words.collect())
});

#[cfg(test)]
mod tests {
    use super::*;

    fn weights(prompt: &str) -> Vec<(String, Weight)> {
        split_prompt(prompt).into_iter().map(|part| (part.text, part.weight)).collect()
    }

    #[test]
    fn rules_are_found_in_several_languages() {
        for rule in [
            "Never touch the billing folder.",
            "use postgres 16 only",
            "Don’t commit without asking",
            "Bitte nichts am Schema ändern",
            "ne touche pas au dossier facturation",
            "no toques la carpeta de facturación",
            "billingフォルダは絶対に触らないで",
            "不要修改数据库结构",
            "не трогай папку billing",
            "결제 폴더는 건드리지 마세요",
            "não mexa na pasta de cobrança",
        ] {
            let parts = split_prompt(&format!("Fix the login page first of all.\n{rule}"));
            assert_eq!(parts.last().unwrap().weight, Weight::Rule, "{rule}");
        }
    }

    #[test]
    fn sentences_keep_versions_and_paths_whole() {
        let parts =
            split_prompt("Use node 18.2 in src/a.b.ts, e.g. the loader. Then test it! Why? It broke.");
        let texts: Vec<_> = parts.iter().map(|part| part.text.as_str()).collect();
        assert_eq!(
            texts,
            ["Use node 18.2 in src/a.b.ts, e.g. the loader.", "Then test it!", "Why?", "It broke."]
        );
    }

    #[test]
    fn confirmations_are_recognised() {
        for text in [
            "ok",
            "OK!",
            "yes, continue",
            "weiter",
            "続けて",
            "go ahead.",
            "great, continue",
            "looks good, next",
            "carry on please",
            "👍",
            "Implement the plan.",
        ] {
            assert_eq!(weights(text), [(text.to_owned(), Weight::Acknowledgement)]);
        }
        assert_ne!(split_prompt("ok but keep the old API")[0].weight, Weight::Acknowledgement);
    }

    #[test]
    fn pasted_output_is_one_part() {
        let trace = "Traceback (most recent call last):\n  File \"/a/b.py\", line 3, in f\n    g()\n  \
                     File \"/a/c.py\", line 9, in g\n    raise ValueError(1)\n";
        let parts = split_prompt(&format!("this happens:\n{trace}the staging db is shared"));
        assert_eq!(parts.len(), 3, "{parts:?}");
        assert_eq!(parts[1].weight, Weight::Paste);
        assert_eq!(
            shorten_paste(&parts[1].text),
            "Traceback (most recent call last):\n[3 more lines]\nraise ValueError(1)"
        );
        assert_eq!(parts[2].text, "the staging db is shared");
        let list = "do this:\n- rename a\n- rename b\n- rename c\n- rename d\n- rename e";
        assert!(split_prompt(list).iter().all(|part| part.weight != Weight::Paste));
    }
}
