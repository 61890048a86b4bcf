//! Compares one line of a page with one line of output. Values that vary from run to run, such as ids, times
//! and sizes, are equal if they are of the same kind. An id on the page must match the same id throughout the
//! page.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use regex::{Captures, Regex};

/// Marks text or lines that a page elides.
pub(super) const ELLIPSIS: &str = "…";

/// The values that vary from run to run, in order of precedence. Patterns that begin or end with plain words
/// are recognised by these words.
const KINDS: &[&str] = &[
    CHECKPOINT_ID,
    RUN_ID,
    r"\bst_[0-9a-hjkmnp-tv-z]{16}\b",
    // UUIDs.
    r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b",
    // Times: RFC 3339, in file names, for people, in tables.
    r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)",
    r"\b\d{8}T\d{6}(?:\d{3})?Z",
    r"\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC\b",
    r"\b\d{4}-\d\d-\d\d \d\d:\d\d\b",
    r"\b\d\d-\d\d \d\d:\d\d:\d\d\b",
    r"\bjust now\b|\b\d+ (?:s|min|h|d) ago\b",
    // Durations.
    r"\b(?:\d+h \d+m|\d+m \d+s|\d+(?:\.\d+)? ?m?s|\d+ d \d+ h|\d+ h \d+ min|\d+ min)\b",
    // Digests and commits.
    r"\bsha256 [0-9a-f]{12,64}",
    r"\b[0-9a-f]{64}\b",
    r"\b[0-9a-f]{40}\b",
    r"\b[0-9a-f]{32}\b",
    r"\bcommit [0-9a-f]{7,40}\b",
    // Sizes and counts of tokens.
    r"\b\d[\d,]*(?:\.\d+)? (?:B|KiB|MiB|GiB|bytes?)\b",
    r"\b[\d,]+ tokens?\b",
    r"[▁▂▃▄▅▆▇█]+",
    // Process ids.
    r"\bpid \d+\b",
    r"\bprocess \d+\b",
    r"\balive \(\d+\)",
    r"\bdead \(\d+\)",
    // Members of JSON documents.
    r#""bytes": ?\d+"#,
    r#""bytes_freed": ?\d+"#,
    r#""size": ?\d+"#,
    r#""tokens": ?\d+"#,
    r#""owner_pid": ?\d+"#,
    r#""pid": ?\d+"#,
    r#""(?:peak_)?rss": ?(?:\d+|null)"#,
    r#""duration": ?\d+"#,
    r#""duration_ms": ?\d+"#,
    r#""total_duration": ?\d+"#,
    r#""elapsed_ms": ?\d+"#,
    SHORT_ID,
    SHORTER_ID,
];

const CHECKPOINT_ID: &str = r"\bcp_\d{8}T\d{9}Z_[0-9a-hjkmnp-tv-z]{12}\b";
const RUN_ID: &str = r"\brun_\d{8}T\d{6}Z_[0-9a-hjkmnp-tv-z]{8}\b";
/// The random part of a checkpoint's id.
const SHORT_ID: &str = r"\b[0-9a-hjkmnp-tv-z]{12}\b";
/// The random part of a run's id, and the part of a checkpoint's id that tables show.
const SHORTER_ID: &str = r"\b[0-9a-hjkmnp-tv-z]{8}\b";

static ANY_KIND: LazyLock<Regex> = LazyLock::new(|| {
    let groups: Vec<_> = KINDS.iter().map(|pattern| format!("({pattern})")).collect();
    Regex::new(&groups.join("|")).unwrap()
});

static ANY_ID: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(&[CHECKPOINT_ID, RUN_ID, SHORT_ID, SHORTER_ID].join("|")).unwrap());

/// A word of a command that may be the start of an id.
static START_OF_ID: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\b[0-9A-Za-z_]{4,}\b").unwrap());

/// An expected line: a pattern for the line of output.
pub(super) struct Pattern {
    regex: Regex,
    /// The ids of the page, one for each group of the pattern.
    ids: Vec<String>,
}

impl Pattern {
    pub(super) fn new(line: &str) -> Self {
        let line = line.trim_end();
        let (mut pattern, mut ids, mut end) = ("^".to_owned(), Vec::new(), 0);
        for found in ANY_KIND.captures_iter(line) {
            let whole = found.get(0).unwrap();
            let kind = (0..KINDS.len()).find(|kind| found.get(kind + 1).is_some()).unwrap();
            let kind = KINDS[kind];
            if matches!(kind, SHORT_ID | SHORTER_ID) && !looks_random(whole.as_str()) {
                continue;
            }
            pattern += &literal(&line[end..whole.start()]);
            if is_id(kind) {
                pattern += &format!("({kind})");
                ids.push(whole.as_str().to_owned());
            } else {
                pattern += &format!("(?:{kind})");
            }
            end = whole.end();
        }
        pattern += &literal(&line[end..]);
        Self { regex: Regex::new(&(pattern + r"\s*$")).unwrap(), ids }
    }

    /// If a line of output matches, returns the ids of the page, bound to those of the output.
    pub(super) fn fits(&self, actual: &str, ids: &Ids) -> Option<Ids> {
        let found = self.regex.captures(actual)?;
        let mut ids = ids.clone();
        let mut pairs = self.ids.iter().zip(found.iter().skip(1));
        pairs
            .all(|(page, output)| output.is_some_and(|output| ids.bind(page, output.as_str())))
            .then_some(ids)
    }
}

fn is_id(kind: &str) -> bool {
    matches!(kind, CHECKPOINT_ID | RUN_ID | SHORT_ID | SHORTER_ID)
}

/// Distinguishes a short id from a word, such as `accepted`, and from a number.
fn looks_random(word: &str) -> bool {
    word.contains(|c: char| c.is_ascii_digit()) && word.contains(|c: char| c.is_ascii_alphabetic())
}

/// A pattern for literal text. The width of the space between words does not matter, and an ellipsis matches
/// any text.
fn literal(text: &str) -> String {
    let mut pattern = String::new();
    let mut spaces = false;
    for c in text.chars() {
        match c {
            ' ' | '\t' if spaces => {}
            ' ' | '\t' => pattern += r"\s+",
            '…' => pattern += ".*?",
            _ => pattern += &regex::escape(&c.to_string()),
        }
        spaces = matches!(c, ' ' | '\t');
    }
    pattern
}

/// A one-to-one mapping between the ids of the page and those of the output.
#[derive(Clone, Debug, Default)]
pub(super) struct Ids {
    output_of_page: BTreeMap<String, String>,
    page_of_output: BTreeMap<String, String>,
}

impl Ids {
    /// Binds an id of the page to one of the output. Returns false if one of them is already bound to
    /// another.
    pub(super) fn bind(&mut self, page: &str, output: &str) -> bool {
        let pairs: Vec<_> = forms(page).into_iter().zip(forms(output)).collect();
        let free =
            |map: &BTreeMap<String, String>, key: &str, value: &str| map.get(key).is_none_or(|v| v == value);
        let agree = pairs.iter().all(|(page, output)| {
            free(&self.output_of_page, page, output) && free(&self.page_of_output, output, page)
        });
        if agree {
            for (page, output) in pairs {
                self.output_of_page.insert(page.to_owned(), output.to_owned());
                self.page_of_output.insert(output.to_owned(), page.to_owned());
            }
        }
        agree
    }

    /// A command of the page with the ids of the output. Also replaces the start of an id, if it is unique.
    pub(super) fn in_command(&self, command: &str) -> String {
        let replace = |found: &Captures<'_>| {
            let word = &found[0];
            let ids = self.output_of_page.iter().filter(|(page, _)| page.starts_with(word));
            let starts: BTreeSet<_> = ids.map(|(_, output)| &output[..word.len()]).collect();
            let known =
                starts.first().filter(|_| starts.len() == 1 && word.contains(|c: char| c.is_ascii_digit()));
            known.map_or(word, |start| *start).to_owned()
        };
        START_OF_ID.replace_all(command, replace).into_owned()
    }

    /// A line of output with the ids of the page. An id that is not on the page yet is bound to itself.
    pub(super) fn in_page(&mut self, line: &str) -> String {
        let replace = |found: &Captures<'_>| {
            let id = &found[0];
            if let Some(page) = self.page_of_output.get(id) {
                return page.clone();
            }
            if looks_random(id) {
                self.bind(id, id);
            }
            id.to_owned()
        };
        ANY_ID.replace_all(line, replace).into_owned()
    }
}

/// An id and its short forms.
fn forms(id: &str) -> Vec<&str> {
    let random = id.rsplit('_').next().unwrap_or(id);
    let mut forms = vec![id, random];
    forms.extend(random.get(..8));
    forms
}
