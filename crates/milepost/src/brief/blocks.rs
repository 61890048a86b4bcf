//! Splits the content of a section into blocks: list items, table rows, paragraphs, fences and comments. Also
//! extracts the text of list items, table cells and code spans, and formats code spans.

use std::borrow::Cow;
use std::ops::Range;

use memchr::{memchr, memchr3};

use super::parse::parse_fence;
use crate::front_matter::lines;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Block {
    Blank,
    /// A list item with its continuation lines.
    Item,
    /// The header row of a table and the delimiter row below it.
    TableHead,
    TableRow,
    Paragraph,
    Code,
    Comment,
    /// A heading inside the section's content.
    Heading,
    ThematicBreak,
}

impl Block {
    pub(super) fn has_content(self) -> bool {
        matches!(self, Self::Item | Self::TableRow | Self::Paragraph | Self::Code)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Granularity {
    /// An item and its nested items are one block.
    Items,
    /// Each nested item is a separate block.
    Lines,
}

/// Splits content into blocks, which together cover all of it.
pub(super) fn split_blocks(content: &str, granularity: Granularity) -> Vec<(Block, &str)> {
    let mut found: Vec<(Block, Range<usize>)> = Vec::with_capacity(content.len() / 48);
    let mut open: Option<(char, usize)> = None;
    let mut comment = false;
    // The indentation of the current item.
    let mut base = 0;
    let mut lines = lines(content, 0);
    while let Some((at, line)) = lines.next() {
        let end = at + line.len();
        let below = content.get(end..).unwrap_or_default();
        let last = found.last().map(|(block, _)| *block);
        let begins = line.trim_start();
        let bare = begins.trim_end();
        let indent = line.len() - begins.len();
        let first = bare.as_bytes().first();
        let inside = last == Some(Block::Item) && indent >= base + 2;
        let has_pipe = || first == Some(&b'|') || line.contains('|');
        // A line inside an open fence or comment belongs to the previous block.
        let continues = if let Some((mark, n)) = open {
            if parse_fence(line).is_some_and(|(m, k)| m == mark && k >= n) && bare.chars().all(|c| c == mark)
            {
                open = None;
            }
            true
        } else if comment {
            comment = !line.contains("-->");
            true
        } else {
            false
        };
        let block = if continues {
            None
        } else if bare.is_empty() && last != Some(Block::Item) {
            Some(Block::Blank)
        } else if bare.is_empty() {
            let blanks = below.len() - below.trim_start_matches([' ', '\t', '\r', '\n']).len();
            let indented =
                below.get(..blanks).unwrap_or_default().rsplit('\n').next().map_or(0, str::len) >= base + 2;
            let is_item = granularity == Granularity::Lines && is_list_item(below.trim_start());
            (!indented || blanks == below.len() || is_item).then_some(Block::Blank)
        } else if let Some(b'`' | b'~') = first
            && let Some(mark) = parse_fence(bare)
        {
            open = Some(mark);
            (!inside).then_some(Block::Code)
        } else if bare.starts_with("<!--") && !inside {
            comment = !line.contains("-->");
            Some(Block::Comment)
        } else if is_thematic_break(bare) && last != Some(Block::TableHead) {
            Some(Block::ThematicBreak)
        } else if is_list_item(bare)
            && (indent < base + 2 || granularity == Granularity::Lines || last != Some(Block::Item))
        {
            base = indent;
            Some(Block::Item)
        } else if matches!(last, Some(Block::TableHead | Block::TableRow)) && has_pipe() {
            Some(Block::TableRow)
        } else if has_pipe() && is_delimiter_row(below) {
            Some(Block::TableHead)
        } else if is_heading(bare) && indent < 4 {
            Some(Block::Heading)
        } else {
            match last {
                Some(Block::Item | Block::Paragraph) => None,
                _ => Some(Block::Paragraph),
            }
        };
        match (block, found.last_mut()) {
            (None, Some((_, range))) => range.end = end,
            (Some(Block::Blank), Some((Block::Blank, range))) => range.end = end,
            (Some(Block::TableHead), _) => {
                let rule = lines.next().map_or(end, |(at, line)| at + line.len());
                found.push((Block::TableHead, at..rule));
            }
            (block, _) => found.push((block.unwrap_or(Block::Paragraph), at..end)),
        }
    }
    found.into_iter().map(|(block, range)| (block, content.get(range).unwrap_or_default())).collect()
}

/// The blocks that have content, without blank lines and structure. An item and its nested items are one
/// block.
pub(super) fn split_entries(content: &str) -> impl Iterator<Item = (Block, &str)> {
    split_blocks(content, Granularity::Items).into_iter().filter(|(block, _)| block.has_content())
}

/// Joins the words of a text with single spaces.
pub(super) fn join_words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn is_heading(bare: &str) -> bool {
    let text = bare.trim_start_matches('#');
    (1..=6).contains(&(bare.len() - text.len())) && (text.is_empty() || text.starts_with([' ', '\t']))
}

fn is_thematic_break(bare: &str) -> bool {
    let Some(mark @ (b'-' | b'*' | b'_')) = bare.bytes().next() else { return false };
    bare.bytes().all(|b| b == mark || b == b' ') && bare.bytes().filter(|b| *b == mark).count() >= 3
}

fn is_list_item(bare: &str) -> bool {
    list_marker_len(bare).is_some()
}

/// The length of a list item's marker, including the space after it.
fn list_marker_len(bare: &str) -> Option<usize> {
    let digits = bare.bytes().take_while(u8::is_ascii_digit).count();
    let mark = match bare.as_bytes().get(digits) {
        Some(b'-' | b'*' | b'+') if digits == 0 => 1,
        Some(b'.' | b')') if (1..=9).contains(&digits) => digits + 1,
        _ => return None,
    };
    match bare.as_bytes().get(mark) {
        Some(b' ' | b'\t') => Some(mark + 1),
        None => Some(mark),
        Some(_) => None,
    }
}

fn is_delimiter_row(rest: &str) -> bool {
    let line = rest.lines().next().unwrap_or_default().trim();
    line.contains('-')
        && line.contains('|')
        && line.chars().all(|c| matches!(c, '-' | '|' | ':' | ' ' | '\t'))
}

/// The text of a list item, without its marker and checkbox.
pub(super) fn item_text(item: &str) -> &str {
    let bare = item.trim();
    let text = list_marker_len(bare).and_then(|n| bare.get(n..)).unwrap_or(bare).trim_start();
    ["[ ] ", "[x] ", "[X] "].iter().find_map(|tick| text.strip_prefix(tick)).unwrap_or(text).trim()
}

/// Trims whitespace; fast for the usual case of one space at each end.
pub(super) fn trim_blanks(text: &str) -> &str {
    let inner = text.strip_prefix(' ').unwrap_or(text);
    let inner = inner.strip_suffix([' ', '\n']).unwrap_or(inner);
    match inner.as_bytes() {
        [b'!'..=b'~', .., b'!'..=b'~'] => inner,
        _ => inner.trim(),
    }
}

/// Splits a table row into cells. Escaped pipes and pipes in code spans do not separate cells.
pub(super) fn split_cells(row: &str) -> Vec<&str> {
    let row = trim_blanks(row);
    let row = row.strip_prefix('|').unwrap_or(row);
    let mut found = Vec::with_capacity(4);
    let (mut start, mut at) = (0, 0);
    let bytes = row.as_bytes();
    while let Some(n) = bytes.get(at..).and_then(|rest| memchr3(b'\\', b'`', b'|', rest)) {
        at += n;
        match bytes.get(at) {
            Some(b'\\') => at += 1,
            Some(b'`') => {
                // A code span ends at the same number of backticks; without them, it is plain text.
                let n = bytes.get(at..).unwrap_or_default().iter().take_while(|b| **b == b'`').count();
                at += n;
                let close = find_code_end(bytes.get(at..).unwrap_or_default(), n);
                at += close.unwrap_or(0);
                continue;
            }
            _ => {
                found.push(trim_blanks(row.get(start..at).unwrap_or_default()));
                start = at + 1;
            }
        }
        at += 1;
    }
    let rest = trim_blanks(row.get(start..).unwrap_or_default());
    if !rest.is_empty() || start == 0 {
        found.push(rest);
    }
    found
}

/// The end of a code span that was opened by `n` backticks; `None` if it is not closed.
fn find_code_end(bytes: &[u8], n: usize) -> Option<usize> {
    let mut at = 0;
    while let Some(next) = memchr(b'`', bytes.get(at..)?) {
        at += next;
        let marks = bytes.get(at..)?.iter().take_while(|b| **b == b'`').count();
        at += marks;
        if marks == n {
            return Some(at);
        }
    }
    None
}

/// Formats text as a CommonMark code span. The delimiters are longer than any run of backticks inside. The
/// text is padded with spaces if it starts or ends with a backtick, or if it starts and ends with a space.
pub(super) fn code_span(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    let marks = "`".repeat(longest + 1);
    let between_blanks = text.starts_with(' ') && text.ends_with(' ') && !text.trim().is_empty();
    let pad = if text.starts_with('`') || text.ends_with('`') || between_blanks { " " } else { "" };
    format!("{marks}{pad}{text}{pad}{marks}")
}

/// Splits text into the code span at its start, without delimiters, and the rest.
pub(super) fn split_leading_code(text: &str) -> Option<(&str, &str)> {
    let marks = text.bytes().take_while(|b| *b == b'`').count();
    let inside = text.get(marks..)?;
    let end = if marks == 0 { None } else { find_code_end(inside.as_bytes(), marks) }?;
    let code = inside.get(..end - marks)?;
    let padded = code.strip_prefix(' ').and_then(|code| code.strip_suffix(' '));
    let bare = padded.filter(|_| !code.trim().is_empty()).unwrap_or(code);
    Some((bare, inside.get(end..)?))
}

/// The range of the backticks that open a code span without a closing delimiter.
pub(super) fn find_unclosed_code(text: &str) -> Option<Range<usize>> {
    let mut at = 0;
    while let Some(next) = text.get(at..)?.find('`') {
        at += next;
        let rest = text.get(at..)?;
        match split_leading_code(rest) {
            Some((_, after)) => at = text.len() - after.len(),
            None => return Some(at..at + rest.bytes().take_while(|b| *b == b'`').count()),
        }
    }
    None
}

/// Removes the Markdown marks around links, code and emphasis, and unescapes pipes.
pub(super) fn strip_markup(text: &str) -> Cow<'_, str> {
    let text = trim_blanks(text);
    let link = text.strip_prefix('[').and_then(|rest| rest.split_once("](")).map(|(name, _)| name);
    let bare = link.unwrap_or(text).trim_matches(|c| matches!(c, '*' | ' '));
    let bare = match split_leading_code(bare) {
        Some((code, "")) => code,
        _ => bare.trim_matches(|c| matches!(c, '`' | '*' | ' ')),
    };
    if bare.contains('\\') { Cow::Owned(bare.replace("\\|", "|")) } else { Cow::Borrowed(bare) }
}

/// Text in a comparable form: lower case, single spaces, no Markdown marks, one kind of arrow.
pub(crate) fn normalize_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let arrows = text.contains("->") || text.contains("=>");
    let text = if arrows { &text.replace("->", "→").replace("=>", "→") } else { text };
    for word in text.split_whitespace() {
        let before = out.len();
        if before > 0 {
            out.push(' ');
        }
        let kept = word.chars().filter(|c| !matches!(c, '`' | '*' | '~' | '\\'));
        out.extend(kept.flat_map(char::to_lowercase));
        if out.len() == before + usize::from(before > 0) {
            out.truncate(before);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(content: &str, granularity: Granularity) -> Vec<(Block, &str)> {
        let found = split_blocks(content, granularity);
        let joined: String = found.iter().map(|(_, source)| *source).collect();
        assert_eq!(joined, content, "no byte is lost");
        found.into_iter().map(|(block, source)| (block, source.trim_end())).collect()
    }

    #[test]
    fn content_is_taken_apart() {
        let content = "text\nmore\n\n- a\n  - b\n    more of b\n- c\n\n  still c\n\n<!-- no\n- x -->\n| A | B |\n|---|---|\n| 1 | 2 |\n~~~\n- no\n~~~\n";
        let items = kinds(content, Granularity::Items);
        let content_blocks: Vec<_> = items.iter().filter(|(b, _)| *b != Block::Blank).collect();
        assert_eq!(
            content_blocks,
            [
                &(Block::Paragraph, "text\nmore"),
                &(Block::Item, "- a\n  - b\n    more of b"),
                &(Block::Item, "- c\n\n  still c"),
                &(Block::Comment, "<!-- no\n- x -->"),
                &(Block::TableHead, "| A | B |\n|---|---|"),
                &(Block::TableRow, "| 1 | 2 |"),
                &(Block::Code, "~~~\n- no\n~~~"),
            ]
        );
        let lines = kinds(content, Granularity::Lines);
        assert!(lines.contains(&(Block::Item, "  - b\n    more of b")), "{lines:?}");
    }

    #[test]
    fn pipes_in_cells() {
        assert_eq!(split_cells(r"| `a|b` | x \| y | z |"), ["`a|b`", r"x \| y", "z"]);
        assert_eq!(split_cells("| a | | c"), ["a", "", "c"]);
        assert_eq!(split_cells("| `a | b |"), ["`a", "b"], "an unclosed code span is plain text");
        assert_eq!(split_cells("| ``a`|`b`` | c |"), ["``a`|`b``", "c"]);
        assert_eq!(strip_markup(r"`a\|b`"), "a|b");
    }

    #[test]
    fn backticks_in_code() {
        for (text, span) in [
            ("a.rs", "`a.rs`"),
            ("a`b.rs", "``a`b.rs``"),
            ("`a.rs", "`` `a.rs ``"),
            ("a```b`", "```` a```b` ````"),
            (" a ", "`  a  `"),
            (" a", "` a`"),
        ] {
            assert_eq!(code_span(text), span);
            assert_eq!(split_leading_code(&format!("{span} (new)")), Some((text, " (new)")), "{span}");
            assert_eq!(strip_markup(&format!("**{span}**")), text);
        }
        assert_eq!(split_leading_code("`a``"), None, "the span is not closed");
        assert_eq!(find_unclosed_code("- ``a`b`` and `c`"), None);
        assert_eq!(find_unclosed_code("- ``a`b`` and `c"), Some(14..15));
    }

    #[test]
    fn text_is_compared_without_its_marks() {
        assert_eq!(normalize_text("**Use**  `SQLite`\n -> now"), "use sqlite → now");
        assert_eq!(normalize_text("a ** b"), "a b");
    }
}
