//! The front matter of a brief: `key: value` lines between two `---` lines. Takes the start of a document and
//! returns the range of the block and its fields, with warnings about unusual input. Values are raw strings,
//! never dates or numbers.

use std::ops::Range;

/// A message about a problem in a brief.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Warning {
    /// The section that it is about, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub section: Option<String>,
    /// A description of the problem.
    pub message: String,
}

impl Warning {
    pub(crate) fn new(section: Option<&str>, message: impl Into<String>) -> Self {
        Self { section: section.map(str::to_owned), message: message.into() }
    }
}

/// A key and its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// The key, in its original case.
    pub key: String,
    /// The value, without quotes.
    pub value: String,
    /// The range of its lines in the document.
    pub(crate) lines: Range<usize>,
}

/// The front matter at the start of a document.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FrontMatter {
    /// The fields in document order.
    pub fields: Vec<Field>,
    /// The range of the whole block, including both `---` lines.
    pub(crate) range: Range<usize>,
    /// The range between the `---` lines.
    pub(crate) inside: Range<usize>,
}

impl FrontMatter {
    /// The value of a key, ignoring case; `None` if it is missing or empty.
    pub fn get(&self, key: &str) -> Option<&str> {
        let field = self.fields.iter().find(|field| field.key.eq_ignore_ascii_case(key))?;
        Some(field.value.as_str()).filter(|value| !value.is_empty())
    }
}

/// The id of a brief, read from its front matter without parsing the rest.
pub(crate) fn brief_id(text: &str) -> Option<String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let front = read(text, 0, &mut Vec::new())?;
    front.get("checkpoint").map(str::to_owned)
}

/// Reads the front matter that begins at `start`; `None` if there is none.
pub(crate) fn read(text: &str, start: usize, warnings: &mut Vec<Warning>) -> Option<FrontMatter> {
    let mut lines = lines(text, start).skip_while(|(_, line)| line.trim().is_empty());
    let (open, first) = lines.next()?;
    if first.trim_end() != "---" {
        return None;
    }
    let inside = open + first.len();
    let mut front = FrontMatter { range: open..inside, inside: inside..inside, ..FrontMatter::default() };
    let mut has_keys = false;
    for (at, line) in self::lines(text, inside) {
        let bare = line.trim_end();
        if bare == "---" || bare == "..." {
            front.range.end = at + line.len();
            front.inside.end = at;
            // Two `---` lines are front matter only if there is a key or nothing between them.
            return (has_keys || front.inside.is_empty()).then_some(front);
        }
        match key_of(bare) {
            Some((key, value)) => {
                has_keys = true;
                let value = value_of(key, value, warnings);
                front.fields.push(Field { key: key.to_owned(), value, lines: at..at + line.len() });
            }
            // Lists, folded text and comments belong to the previous key and stay unchanged.
            None if bare.is_empty() || line.starts_with([' ', '\t', '-', '#']) && !bare.starts_with("##") => {
                if let Some(field) = front.fields.last_mut() {
                    field.lines.end = at + line.len();
                }
            }
            None if has_keys => {
                warnings.push(Warning::new(None, "the front matter has no closing --- line"));
                front.range.end = at;
                front.inside.end = at;
                return Some(front);
            }
            None => return None,
        }
    }
    None
}

/// The lines from `start` on with their offsets, including line ends.
pub(crate) fn lines(text: &str, start: usize) -> impl Iterator<Item = (usize, &str)> {
    let rest = text.get(start..).unwrap_or_default();
    let last = (!rest.is_empty() && !rest.ends_with('\n')).then_some(text.len());
    let ends = memchr::memchr_iter(b'\n', rest.as_bytes()).map(move |n| start + n + 1).chain(last);
    let mut at = start;
    ends.map(move |end| {
        let begins = std::mem::replace(&mut at, end);
        (begins, text.get(begins..end).unwrap_or_default())
    })
}

fn key_of(line: &str) -> Option<(&str, &str)> {
    let (key, value) = line.split_once(':')?;
    let word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    (!key.is_empty() && key.chars().all(word) && !key.starts_with('-')).then_some((key, value))
}

fn value_of(key: &str, raw: &str, warnings: &mut Vec<Warning>) -> String {
    let raw = raw.trim();
    if let Some(inside) = raw.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        return unescaped(inside);
    }
    if let Some(inside) = raw.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')) {
        return inside.replace("''", "'");
    }
    let value = raw.split_once(" #").map_or(raw, |(value, _)| value.trim_end());
    if needs_quotes(value) {
        warnings.push(Warning::new(None, format!("{key}: the value \"{value}\" should be in quotes")));
    }
    value.to_owned()
}

fn unescaped(inside: &str) -> String {
    let mut value = String::with_capacity(inside.len());
    let mut chars = inside.chars();
    while let Some(c) = chars.next() {
        let escaped = if c == '\\' { chars.next() } else { None };
        value.push(match escaped {
            Some('n') => '\n',
            Some('t') => '\t',
            Some('r') => '\r',
            other => other.unwrap_or(c),
        });
    }
    value
}

/// Whether a value would be ambiguous without quotes.
fn needs_quotes(value: &str) -> bool {
    const MARKS: [char; 17] =
        ['[', ']', '{', '}', '&', '*', '!', '|', '>', '%', '@', '`', '"', '\'', '#', ',', '?'];
    value.contains(": ")
        || value.ends_with(':')
        || value.contains(" #")
        || value.contains("---")
        || value.starts_with(MARKS)
        || value.starts_with("- ")
        || value != value.trim()
        || value.chars().any(char::is_control)
}

/// Formats a value, in quotes if it would be ambiguous without them.
pub(crate) fn written(value: &str) -> String {
    if !value.is_empty() && !needs_quotes(value) {
        return value.to_owned();
    }
    let mut quoted = String::from("\"");
    for c in value.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            '\r' => quoted.push_str("\\r"),
            c => quoted.push(c),
        }
    }
    quoted + "\""
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> (Option<FrontMatter>, usize) {
        let mut warnings = Vec::new();
        (read(text, 0, &mut warnings), warnings.len())
    }

    #[test]
    fn values_are_read_as_they_stand() {
        let (front, warned) =
            of("---\ncheckpoint: chk-1\ncreated: 2026-01-02 # later\nanchor: a---b\ntags:\n  - x\n---\nbody");
        let front = front.unwrap();
        assert_eq!((front.get("checkpoint"), front.get("created")), (Some("chk-1"), Some("2026-01-02")));
        assert_eq!((front.get("anchor"), front.get("tags")), (Some("a---b"), None));
        assert_eq!(warned, 1, "dashes in a value need quotes");
        let (front, warned) = of("---\r\nanchor: feat: x\r\n---\r\n");
        assert_eq!((front.unwrap().get("anchor"), warned), (Some("feat: x"), 1));
    }

    #[test]
    fn what_is_written_is_read_back() {
        for value in
            ["x", "feat: x", "a --- b", "", " padded ", "say \"hi\" \\ there", "# no", "two\nlines", "'q'"]
        {
            let text = format!("---\nanchor: {}\n---\n", written(value));
            let (front, warned) = of(&text);
            assert_eq!(front.unwrap().fields[0].value, value, "{text}");
            assert_eq!(warned, 0, "{text}");
        }
    }

    #[test]
    fn a_line_of_dashes_alone_is_no_front_matter() {
        assert_eq!(of("---\n\n## Problem\nx\n\n---\n").0, None);
        assert_eq!(of("--- x\na: b\n---\n").0, None);
        let (open, warned) = of("---\ncheckpoint: a\n\n## Problem\n");
        assert_eq!((open.unwrap().get("checkpoint"), warned), (Some("a"), 1), "not closed");
    }
}
