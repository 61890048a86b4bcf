//! Shortens lines: to the first clause, to the first words, or to the form used when lines are joined. A
//! line that was cut ends in `…`. Also splits text into sentences.

use std::borrow::Cow;

use memchr::{memchr_iter, memchr2_iter};

use super::super::blocks::find_unclosed_code;

pub(super) fn split_sentences(text: &str) -> Vec<&str> {
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

/// Whether the punctuation at `at` ends a sentence. It does not after other punctuation (`etc.).`), inside a
/// number, or after a number of one or two digits, which may be a date (`3. März`) or the number of a list
/// item.
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

/// Words that start a reason or an aside if they follow a space.
const ASIDE_MARKERS: [&str; 11] = [
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
/// Minimum number of bytes before a cut at an aside, at the end of a clause, or at a comma. In nearly all
/// lines, the main statement is at least this long.
const MIN_BEFORE_ASIDE: usize = 20;
const MIN_BEFORE_CLAUSE: usize = 40;
const MIN_BEFORE_COMMA: usize = 55;

/// The first clause of a line, without reasons; `None` if nothing can be cut. Text after a colon, a question
/// mark or an arrow is not a reason.
pub(super) fn first_clause(line: &str) -> Option<String> {
    let text = line.trim_end();
    if text.contains("~~") || text.contains('→') || text.contains("->") {
        return None;
    }
    let begins = text.len() - text.trim_start_matches(['-', '*', '+', ' ']).len();
    let may_end = |byte| matches!(byte, b' ' | b';' | b',' | b'.' | b'!' | 0xe3 | 0xef);
    let mut ends =
        text.bytes().enumerate().skip(begins + MIN_BEFORE_ASIDE).filter(|(_, byte)| may_end(*byte));
    cut_at(text, ends.find(|(at, byte)| ends_clause(text, *at, *byte, at - begins))?.0)
}

/// Whether a clause of `len` bytes ends at this byte.
fn ends_clause(text: &str, at: usize, byte: u8, len: usize) -> bool {
    let rest = text.get(at + 1..).unwrap_or_default();
    // Chinese and Japanese have no spaces between words.
    let breaks = rest.starts_with(|c: char| c == ' ' || c >= '\u{2e80}');
    match byte {
        b' ' => ASIDE_MARKERS.iter().any(|word| rest.starts_with(word)),
        b',' => len >= MIN_BEFORE_COMMA && breaks,
        b';' => len >= MIN_BEFORE_CLAUSE && breaks,
        b'.' | b'!' => len >= MIN_BEFORE_CLAUSE && ends_sentence(text, at),
        _ => {
            let mark = text.get(at..).and_then(|rest| rest.chars().next());
            len >= MIN_BEFORE_CLAUSE && matches!(mark, Some('。' | '；' | '！'))
                || len >= MIN_BEFORE_COMMA && matches!(mark, Some('、' | '，'))
        }
    }
}

/// A step without its outcome, which follows the second arrow; `None` if it has none.
pub(super) fn drop_outcome(line: &str) -> Option<String> {
    let text = line.trim_end();
    let bytes = text.as_bytes();
    let is_arrow = |at: &usize| {
        let rest = bytes.get(*at..).unwrap_or_default();
        rest.starts_with("→".as_bytes()) || rest.starts_with(b"->")
    };
    let second = memchr2_iter(0xe2, b'-', bytes).filter(is_arrow).nth(1)?;
    cut_at(text, second)
}

/// A line in the form used when joined with others: without list marker, heading marks and full stop. Code
/// stays unchanged.
pub(super) fn to_joined_form(line: &str) -> String {
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
    [&escape_line_start(end.trim_start()), "; "].concat()
}

/// Makes text a list item if it would be Markdown syntax at the start of a line.
pub(super) fn escape_line_start(text: &str) -> Cow<'_, str> {
    if text.starts_with(['#', '<', '>', '|', '=']) || text.starts_with("~~~") || text.starts_with("```") {
        return Cow::Owned(["- ", text].concat());
    }
    Cow::Borrowed(text)
}

/// The first `most` words of a line; `None` if it is not longer.
pub(super) fn first_words(line: &str, most: usize) -> Option<String> {
    let text = line.trim_end();
    // A character that counts as three letters takes at least two bytes.
    if text.len() * 3 / 2 <= most * 9 && memchr_iter(b' ', text.as_bytes()).count() <= most {
        return None;
    }
    let (mut n, mut letters) = (0, 0);
    for (at, byte) in text.bytes().enumerate() {
        // Continuation bytes of a character do not count.
        letters += match byte {
            ..0x80 => 1,
            0x80..0xc0 => 0,
            0xc0.. => 3,
        };
        n += usize::from(byte == b' ');
        if n > most || letters > most * 9 {
            return cut_at(text, at);
        }
    }
    None
}

/// The line cut at `end`, with an ellipsis; `None` if that saves too little.
fn cut_at(text: &str, end: usize) -> Option<String> {
    let kept = text.get(..end)?.trim_end_matches([' ', ',', ';', ':', '(', '→', '-', '.', '—', '–']);
    // Unclosed marks would affect the text that follows.
    let is_bold = kept.contains('*') && kept.matches("**").count() % 2 == 1;
    let bold = if is_bold { kept.find("**") } else { None };
    let mut short = String::with_capacity(kept.len() + 4);
    short.push_str(kept.get(..bold.unwrap_or(0)).unwrap_or_default());
    short.push_str(kept.get(bold.map_or(0, |at| at + 2)..).unwrap_or_default());
    if let Some(marks) = find_unclosed_code(&short) {
        short.replace_range(marks, "");
    }
    if short.len() + 4 >= text.len() || short.trim().is_empty() {
        return None;
    }
    // A joined line must not end in a newline.
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
            assert_eq!(first_clause(line).as_deref(), short, "{line}");
        }
        assert_eq!(drop_outcome("- P1 → built it → all green\n").unwrap(), "- P1 → built it…\n");
        assert_eq!(first_words("- one two three four five six", 3).unwrap(), "- one two three…\n");
        assert_eq!(first_words("- one two", 3), None);
        assert_eq!(split_sentences("A b. C d! E 1.5 f? No"), ["A b.", "C d!", "E 1.5 f?", "No"]);
        assert_eq!(
            split_sentences("Ab 1. Januar gilt es. Am 24. nicht"),
            ["Ab 1. Januar gilt es.", "Am 24. nicht"]
        );
        assert_eq!(split_sentences("データを保存する。次に読む。"), ["データを保存する。", "次に読む。"]);
    }
}
