//! Finds the headings of a document by CommonMark's rules. Ignores headings inside fences, quotes, lists and
//! comments. Takes any text and returns headings with their byte ranges. A line scanner handles the
//! unambiguous lines; from the first ambiguous line on, pulldown-cmark parses the rest. Both must find the
//! same headings.

use std::ops::Range;

use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag};

use crate::front_matter::lines;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Heading {
    pub(super) text: String,
    pub(super) level: u8,
    /// From the start of its first line to the end of its last line.
    pub(super) range: Range<usize>,
    /// Whether it is a paragraph directly above `---`, which is usually intended as a thematic break.
    pub(super) has_dash_underline: bool,
}

/// Finds the top-level headings of a document, from `start` on.
pub(super) fn find_headings(text: &str, start: usize) -> Vec<Heading> {
    let mut found = Vec::new();
    if scan_headings(text, start, &mut found).is_none() {
        // No block is open at a heading in the first column, so parsing can start there.
        let from = found.pop().map_or(start, |last| last.range.start);
        found.extend(parse_headings(text, from));
    }
    found
}

/// Finds the headings from `start` on with pulldown-cmark.
pub(super) fn parse_headings(text: &str, start: usize) -> Vec<Heading> {
    let mut found = Vec::new();
    let mut depth = 0_usize;
    let rest = text.get(start..).unwrap_or_default();
    for (event, range) in Parser::new_ext(rest, Options::empty()).into_offset_iter() {
        match event {
            Event::Start(tag) => {
                if let (0, Tag::Heading { level, .. }) = (depth, &tag) {
                    let lines = covering_lines(rest, &range);
                    found.extend(read_heading(text, start + lines.start..start + lines.end, *level as u8));
                }
                depth += 1;
            }
            Event::End(_) => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    found
}

/// Extends a range to whole lines. A lone carriage return also ends a line.
fn covering_lines(text: &str, range: &Range<usize>) -> Range<usize> {
    let ends = |b: &u8| matches!(b, b'\n' | b'\r');
    let bytes = text.as_bytes();
    let before = bytes.get(..range.start).unwrap_or_default();
    let start = before.iter().rposition(ends).map_or(0, |at| at + 1);
    let last = range.end.max(range.start + 1) - 1;
    let after = bytes.get(last..).unwrap_or_default();
    let end = after.iter().position(ends).map_or(text.len(), |n| {
        let at = last + n;
        at + if bytes.get(at..at + 2) == Some(b"\r\n") { 2 } else { 1 }
    });
    start..end
}

/// Reads the heading on the lines of `range`.
fn read_heading(text: &str, range: Range<usize>, level: u8) -> Option<Heading> {
    let source = text.get(range.clone())?.trim();
    let (name, is_sloppy_rule) = match source.strip_prefix('#') {
        Some(_) => {
            let inside = source.trim_start_matches('#').trim();
            let open = inside.trim_end_matches('#');
            let closed = open.len() < inside.len() && (open.is_empty() || open.ends_with([' ', '\t']));
            (if closed { open.trim() } else { inside }, false)
        }
        None => {
            let (name, line) = source.rsplit_once(['\n', '\r'])?;
            (name.trim(), line.trim() == "---")
        }
    };
    Some(Heading { text: name.to_owned(), level, range, has_dash_underline: is_sloppy_rule })
}

/// The kind of a line, judged by its first characters.
enum LineKind {
    Blank,
    /// Text, a list item or a quote. A heading in the first column is never part of it.
    Text,
    ThematicBreak,
    Heading(HeadingLevel),
    Fence(u8, usize),
    Comment,
    /// Its kind depends on the lines around it.
    Ambiguous,
}

impl LineKind {
    /// Classifies a line, which is passed without its line end.
    fn classify(line: &[u8], below_text: bool) -> Self {
        let indent = line.iter().take_while(|b| matches!(b, b' ' | b'\t')).count();
        let rest = line.get(indent..).unwrap_or_default();
        let Some(first) = rest.first() else { return Self::Blank };
        let same = || rest.iter().take_while(|b| *b == first).count();
        let found = match first {
            b'#' => {
                let n = same();
                match (HeadingLevel::try_from(n), rest.get(n)) {
                    (Ok(level), None | Some(b' ' | b'\t')) => Self::Heading(level),
                    (_, Some(..b' ')) => Self::Ambiguous,
                    _ => Self::Text,
                }
            }
            b'`' | b'~' => match same() {
                n if n < 3 || *first == b'`' && rest.iter().skip(n).any(|b| b == first) => Self::Text,
                n => Self::Fence(*first, n),
            },
            b'<' if rest.starts_with(b"<!--") => Self::Comment,
            b'<' if matches!(rest.get(1), Some(b' ' | b'=' | b'0'..=b'9')) => Self::Text,
            b'[' if may_be_link_definition(rest) => Self::Ambiguous,
            b'=' if below_text && rest.iter().skip(same()).all(|b| *b <= b' ') => Self::Ambiguous,
            b'-' | b'*' | b'+' | b'>' | b'0'..=b'9' => {
                let is_mark =
                    |b: &u8| matches!(b, b'-' | b'*' | b'+' | b'>' | b'.' | b')' | b'0'..=b'9' | ..=b' ');
                match rest.iter().position(|b| !is_mark(b)) {
                    Some(n) if may_be_link_definition(rest.get(n..).unwrap_or_default()) => Self::Ambiguous,
                    Some(_) => Self::Text,
                    // Only marks: a thematic break, empty list items, or the underline of a heading.
                    None if same() >= 3 && same() == rest.trim_ascii_end().len() && !below_text => {
                        Self::ThematicBreak
                    }
                    None => Self::Ambiguous,
                }
            }
            b'<' | ..b' ' => Self::Ambiguous,
            _ => Self::Text,
        };
        match found {
            // It may be part of a list item.
            Self::Heading(_) | Self::Fence(..) | Self::Comment if indent > 0 => Self::Ambiguous,
            found => found,
        }
    }
}

/// Whether this may be the start of a link definition: `[name]: address`.
fn may_be_link_definition(text: &[u8]) -> bool {
    if text.first() != Some(&b'[') {
        return false;
    }
    let Some(end) = text.iter().position(|b| *b == b']') else { return true };
    text.get(end + 1) == Some(&b':') || text.get(end - 1) == Some(&b'\\')
}

/// Finds headings line by line; `None` if an ambiguous line stopped the scan.
fn scan_headings(text: &str, start: usize, found: &mut Vec<Heading>) -> Option<()> {
    let all = text.as_bytes().get(start..).unwrap_or_default();
    // The scan does not support lone carriage returns, which also end a line.
    if memchr::memchr_iter(b'\r', all).any(|n| all.get(n + 1) != Some(&b'\n')) {
        return None;
    }
    let mut fence = None;
    let mut comment = false;
    let mut below_text = false;
    for (at, whole) in lines(text, start) {
        let line = whole.strip_suffix('\n').unwrap_or(whole);
        let line = line.strip_suffix('\r').unwrap_or(line);
        if let Some((mark, n)) = fence {
            fence = (!closes_fence(line, mark, n)?).then_some((mark, n));
            continue;
        }
        let kind = if comment { LineKind::Comment } else { LineKind::classify(line.as_bytes(), below_text) };
        below_text = matches!(kind, LineKind::Text);
        match kind {
            LineKind::Blank | LineKind::Text | LineKind::ThematicBreak => {}
            LineKind::Heading(level) => found.extend(read_heading(text, at..at + whole.len(), level as u8)),
            LineKind::Fence(mark, n) => fence = Some((mark, n)),
            LineKind::Comment => comment = !line.contains("-->"),
            LineKind::Ambiguous => return None,
        }
    }
    Some(())
}

/// Whether a line closes a fence; `None` if that is ambiguous.
fn closes_fence(line: &str, mark: u8, n: usize) -> Option<bool> {
    let bare = line.trim_ascii();
    if bare.len() < n || bare.bytes().any(|b| b != mark) {
        return Some(false);
    }
    let indent = line.len() - line.trim_start_matches(' ').len();
    (indent < 4 && line.trim_matches(' ').len() == bare.len()).then_some(true)
}
