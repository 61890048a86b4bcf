//! Other forms of a line: what it claims, its first words, as it stands among others on one. What is cut ends in `…`.

use std::borrow::Cow;

use memchr::{memchr_iter, memchr2_iter};

use super::super::blocks::unclosed_code;

/// Takes text apart at the ends of its sentences.
pub(super) fn sentences(text: &str) -> Vec<&str> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let (mut start, mut at) = (0, 0);
    let mark = |b: &u8| matches!(b, b'.' | b'!' | b'?' | 0xe3 | 0xef);
    while let Some(n) = bytes.get(at..).and_then(|rest| rest.iter().position(mark)) {
        at += n;
        let rest = text.get(at..).unwrap_or_default();
        let len = rest.chars().next().map_or(1, char::len_utf8);
        let ends = if len == 1 { ends_sentence(text, at) } else { rest.starts_with(['。', '！', '？']) };
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

/// Whether a mark ends a sentence: not after another mark, as in "etc.).", nor within a number, nor after one of two
/// digits at most, which may be a day ("3. März") or that of an item.
fn ends_sentence(text: &str, at: usize) -> bool {
    let (before, rest) = (text.get(..at).unwrap_or_default(), text.get(at + 1..).unwrap_or_default());
    let digits = before.bytes().rev().take_while(u8::is_ascii_digit).count();
    let ordinal = matches!(digits, 1 | 2) && before.bytes().rev().nth(digits).is_none_or(|b| b == b' ');
    let begins = |c: char| !c.is_lowercase() && !c.is_ascii_digit();
    rest.starts_with(' ')
        && !ordinal
        && before.chars().next_back().is_some_and(char::is_alphanumeric)
        && rest.trim_start().chars().next().is_some_and(begins)
}

/// What follows a blank where a line begins to say why, or goes on about something else.
const ASIDE: [&str; 11] = [
    "— ",
    "– ",
    "-- ",
    "because ",
    "since ",
    "so that ",
    "which ",
    "weil ",
    "porque ",
    "parce que ",
    "потому ",
];
/// Bytes of a line that stay before an aside, before the end of a clause, and before a comma: what is claimed takes as
/// many in nearly all lines.
const BEFORE_ASIDE: usize = 20;
const BEFORE_CLAUSE: usize = 40;
const BEFORE_COMMA: usize = 55;

/// What a line claims, without why: its first clause, if there is more. What stands behind a colon, a question or an
/// arrow is not why.
pub(super) fn claim(line: &str) -> Option<String> {
    let text = line.trim_end();
    if text.contains("~~") || text.contains('→') || text.contains("->") {
        return None;
    }
    let begins = text.len() - text.trim_start_matches(['-', '*', '+', ' ']).len();
    let may_end = |byte| matches!(byte, b' ' | b';' | b',' | b'.' | b'!' | 0xe3 | 0xef);
    let mut ends = text.bytes().enumerate().skip(begins + BEFORE_ASIDE).filter(|(_, byte)| may_end(*byte));
    shortened(text, ends.find(|(at, byte)| ends_claim(text, *at, *byte, at - begins))?.0)
}

/// Whether a claim of so many bytes ends at this byte.
fn ends_claim(text: &str, at: usize, byte: u8, len: usize) -> bool {
    let rest = text.get(at + 1..).unwrap_or_default();
    // Chinese and Japanese have no blanks.
    let breaks = rest.starts_with(|c: char| c == ' ' || c >= '\u{2e80}');
    match byte {
        b' ' => ASIDE.iter().any(|word| rest.starts_with(word)),
        b',' => len >= BEFORE_COMMA && breaks,
        b';' => len >= BEFORE_CLAUSE && breaks,
        b'.' | b'!' => len >= BEFORE_CLAUSE && ends_sentence(text, at),
        _ => {
            let mark = text.get(at..).and_then(|rest| rest.chars().next());
            len >= BEFORE_CLAUSE && matches!(mark, Some('。' | '；' | '！'))
                || len >= BEFORE_COMMA && matches!(mark, Some('、' | '，'))
        }
    }
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

/// A line as it stands among others on one: without its mark and full stop, and a heading without its marks. Code stays
/// as it is.
pub(super) fn joined(line: &str) -> String {
    if line.starts_with("    ") {
        return [line, "; "].concat();
    }
    let marked = line.trim_start();
    let bare = ["- ", "* ", "+ "].iter().find_map(|mark| marked.strip_prefix(mark));
    let bare = bare.unwrap_or_else(|| marked.trim_start_matches('#').trim_start());
    let mut end = bare.trim_end_matches([';', '；', '。']);
    if let Some(sentence) = end.strip_suffix('.').filter(|text| text.ends_with(char::is_alphanumeric)) {
        end = sentence;
    }
    [&inert(end.trim_start()), "; "].concat()
}

/// A text that can stand at the beginning of a line without being read as a mark of something else.
pub(super) fn inert(text: &str) -> Cow<'_, str> {
    if text.starts_with(['#', '<', '>', '|', '=']) || text.starts_with("~~~") || text.starts_with("```") {
        return Cow::Owned(["- ", text].concat());
    }
    Cow::Borrowed(text)
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

/// The line up to a place, with a sign that it was cut, if that is worth it.
fn shortened(text: &str, end: usize) -> Option<String> {
    let kept = text.get(..end)?.trim_end_matches([' ', ',', ';', ':', '(', '→', '-', '.', '—', '–']);
    // Marks that were opened and not closed would swallow what follows.
    let is_bold = kept.contains('*') && kept.matches("**").count() % 2 == 1;
    let bold = if is_bold { kept.find("**") } else { None };
    let mut short = String::with_capacity(kept.len() + 4);
    short.push_str(kept.get(..bold.unwrap_or(0)).unwrap_or_default());
    short.push_str(kept.get(bold.map_or(0, |at| at + 2)..).unwrap_or_default());
    if let Some(marks) = unclosed_code(&short) {
        short.replace_range(marks, "");
    }
    if short.len() + 4 >= text.len() || short.trim().is_empty() {
        return None;
    }
    // On one line with others, it stays there.
    short.push_str(if text.ends_with(';') { "… " } else { "…\n" });
    Some(short)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_get_shorter() {
        for (line, short) in [
            ("- Use SQLite for storage because it is one file\n", Some("- Use SQLite for storage…\n")),
            ("Use SQLite for storage because it is one file; ", Some("Use SQLite for storage… ")),
            ("- ~~Use MySQL for the event store, which everybody knows~~ → Use Postgres 16\n", None),
            ("- Which database should hold the event store in production? PostgreSQL 16\n", None),
            ("- Package manager for every workspace of the monorepo: pnpm 9\n", None),
            ("- Short one (really), for once\n", None),
            ("Version 1.5 e.g. is fine, and stays whole for that, all of it", None),
            (
                "- Feed pages by keyset on (published_at, id); the offset cost 700 ms\n",
                Some("- Feed pages by keyset on (published_at, id)…\n"),
            ),
            (
                "Policies are loaded ahead, a batch of records at a time, which was the most",
                Some("Policies are loaded ahead, a batch of records at a time…\n"),
            ),
            (
                "Beginnt am 3. März. Danach nie wieder, es sei denn auf Wunsch der Leitung. Ende.",
                Some("Beginnt am 3. März. Danach nie wieder, es sei denn auf Wunsch der Leitung…\n"),
            ),
            (
                "对账以柜机记录为准共1,800组,服务器只追加不修改,每90天核对一次",
                Some("对账以柜机记录为准共1,800组,服务器只追加不修改…\n"),
            ),
            (
                "決定はすべて記録し、後から変更しないものとする。理由は監査のため。",
                Some("決定はすべて記録し、後から変更しないものとする…\n"),
            ),
        ] {
            assert_eq!(claim(line).as_deref(), short, "{line}");
        }
        assert_eq!(without_outcome("- P1 → built it → all green\n").unwrap(), "- P1 → built it…\n");
        assert_eq!(words("- one two three four five six", 3).unwrap(), "- one two three…\n");
        assert_eq!(words("- one two", 3), None);
        assert_eq!(sentences("A b. C d! E 1.5 f? No"), ["A b.", "C d!", "E 1.5 f?", "No"]);
        assert_eq!(
            sentences("Ab 1. Januar gilt es. Am 24. nicht"),
            ["Ab 1. Januar gilt es.", "Am 24. nicht"]
        );
        assert_eq!(sentences("データを保存する。次に読む。"), ["データを保存する。", "次に読む。"]);
    }
}
