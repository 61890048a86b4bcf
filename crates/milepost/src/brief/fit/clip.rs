//! Shorter forms of a line: its first clause, its first words. What is cut ends in `…`.

use memchr::{memchr_iter, memchr2_iter};

/// Takes text apart at the ends of its sentences.
pub(super) fn sentences(text: &str) -> Vec<&str> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let (mut start, mut at) = (0, 0);
    let mark = |b: &u8| matches!(b, b'.' | b'!' | b'?' | 0xe3 | 0xef);
    while let Some(n) = bytes.get(at..).and_then(|rest| rest.iter().position(mark)) {
        at += n;
        let (before, rest) = text.split_at(at);
        let len = rest.chars().next().map_or(1, char::len_utf8);
        let ends = match len {
            // Not after a mark, as in "etc.).", nor within a number.
            1 => {
                bytes.get(at + 1) == Some(&b' ')
                    && before.chars().next_back().is_some_and(char::is_alphanumeric)
                    && begins_sentence(text, at + 1)
            }
            _ => rest.starts_with(['。', '！', '？']),
        };
        at += len;
        if ends {
            found.push(text.get(start..at).unwrap_or_default().trim());
            start = at;
        }
    }
    found.push(text.get(start..).unwrap_or_default().trim());
    found.retain(|sentence| !sentence.is_empty());
    found
}

/// Whether what follows begins like a sentence.
fn begins_sentence(text: &str, at: usize) -> bool {
    let rest = text.get(at..).unwrap_or_default().trim_start();
    rest.chars().next().is_some_and(|c| !c.is_lowercase() && !c.is_ascii_digit())
}

/// What can follow a blank where a clause ends that can stand alone.
const AFTER_BLANK: [&str; 15] = [
    "(",
    "— ",
    "– ",
    "-- ",
    "because ",
    "since ",
    "so that ",
    "which ",
    "instead of ",
    "rather than ",
    "after ",
    "weil ",
    "porque ",
    "parce que ",
    "потому ",
];

/// Whether a clause ends here: what stands before can stand alone.
fn ends_clause(text: &str, at: usize) -> bool {
    let bytes = text.as_bytes();
    match bytes.get(at) {
        Some(b' ') => match bytes.get(at + 1) {
            Some(b'(' | b'-' | b'b' | b's' | b'w' | b'i' | b'r' | b'a' | b'p' | 0xd0 | 0xe2) => {
                let rest = text.get(at + 1..).unwrap_or_default();
                AFTER_BLANK.iter().any(|word| rest.starts_with(word))
            }
            _ => false,
        },
        Some(b';') => bytes.get(at + 1) == Some(&b' '),
        Some(b'.' | b'!' | b'?') => {
            let before =
                at.checked_sub(1).and_then(|before| bytes.get(before)).is_some_and(u8::is_ascii_alphanumeric);
            before && bytes.get(at + 1) == Some(&b' ') && begins_sentence(text, at + 1)
        }
        Some(0xe3 | 0xef) => {
            let rest = text.get(at..).unwrap_or_default();
            rest.starts_with(['。', '；', '（', '！', '？'])
        }
        _ => false,
    }
}

/// The first clause of a line, if there is more: at least three words of it, or eight letters without blanks.
pub(super) fn lead(line: &str) -> Option<String> {
    let text = line.trim_end();
    let from = least(text).saturating_sub(1);
    let may_end = |byte| matches!(byte, b' ' | b';' | b'.' | b'!' | b'?' | 0xe3 | 0xef);
    let mut ends = text.bytes().enumerate().skip(from).filter(|(_, byte)| may_end(*byte));
    shortened(text, ends.find(|(at, _)| ends_clause(text, *at))?.0)
}

/// A step without its outcome: up to the second arrow.
pub(super) fn without_outcome(line: &str) -> Option<String> {
    let text = line.trim_end();
    let bytes = text.as_bytes();
    let is_arrow = |at: &usize| {
        let rest = bytes.get(*at..).unwrap_or_default();
        rest.starts_with("→".as_bytes()) || rest.starts_with(b"->")
    };
    let second = memchr2_iter(0xe2, b'-', bytes).filter(is_arrow).nth(1)?;
    shortened(text, second)
}

/// The first words of a line, if there are more.
pub(super) fn words(line: &str, most: usize) -> Option<String> {
    let text = line.trim_end();
    // A character takes at least two bytes where it counts for three.
    if text.len() * 3 / 2 <= most * 9 && memchr_iter(b' ', text.as_bytes()).count() <= most {
        return None;
    }
    let (mut n, mut letters) = (0, 0);
    for (at, byte) in text.bytes().enumerate() {
        // The bytes of a character after its first count for nothing.
        letters += match byte {
            ..0x80 => 1,
            0x80..0xc0 => 0,
            0xc0.. => 3,
        };
        n += usize::from(byte == b' ');
        if n > most || letters > most * 9 {
            return shortened(text, at);
        }
    }
    None
}

/// How much of a line has to stay: its mark and three words.
fn least(text: &str) -> usize {
    let begins = text.len() - text.trim_start_matches(['-', '*', '+', ' ']).len();
    let mut words = 0;
    let mut wide = 0;
    for (at, byte) in text.bytes().enumerate().skip(begins) {
        words += usize::from(byte == b' ');
        // The first byte of a character beyond ASCII.
        wide += usize::from(byte >= 0xc0);
        if words >= 3 || wide >= 8 {
            return at;
        }
    }
    text.len()
}

/// The line up to a place, with a sign that it was cut, if that is worth it.
fn shortened(text: &str, end: usize) -> Option<String> {
    let kept = text.get(..end)?.trim_end_matches([' ', ',', ';', ':', '(', '→', '-', '.', '—', '–']);
    // Marks that were opened and not closed would swallow what follows.
    let is_bold = kept.contains('*') && kept.matches("**").count() % 2 == 1;
    let bold = if is_bold { kept.find("**") } else { None };
    let mut short = String::with_capacity(kept.len() + 4);
    short.push_str(kept.get(..bold.unwrap_or(0)).unwrap_or_default());
    short.push_str(kept.get(bold.map_or(0, |at| at + 2)..).unwrap_or_default());
    if kept.matches('`').count() % 2 == 1 {
        short.retain(|c| c != '`');
    }
    if short.len() + 4 >= text.len() || short.trim().is_empty() {
        return None;
    }
    short.push_str("…\n");
    Some(short)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_get_shorter() {
        assert_eq!(
            lead("- Use SQLite for storage because it is one file\n").unwrap(),
            "- Use SQLite for storage…\n"
        );
        assert_eq!(lead("- Short one (really)\n"), None, "too little would be left, or gained");
        assert_eq!(lead("One sentence here. Another sentence there.").unwrap(), "One sentence here…\n");
        assert_eq!(lead("Version 1.5 e.g. is fine and stays whole"), None);
        assert_eq!(without_outcome("- P1 → built it → all green\n").unwrap(), "- P1 → built it…\n");
        assert_eq!(words("- one two three four five six", 3).unwrap(), "- one two three…\n");
        assert_eq!(words("- one two", 3), None);
        assert_eq!(sentences("A b. C d! E 1.5 f? No"), ["A b.", "C d!", "E 1.5 f?", "No"]);
        assert_eq!(sentences("データを保存する。次に読む。"), ["データを保存する。", "次に読む。"]);
    }
}
