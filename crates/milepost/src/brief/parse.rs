//! From Markdown to sections: headings as CommonMark has them, by their place in the text; nothing is rendered anew.
//! In: any text. Out: a layout whose pieces, put together, are that text byte for byte. Never fails.

use std::ops::Range;

use super::headings::{Heading, headings};
use super::{Kind, Warning};
use crate::front_matter::{self, FrontMatter, lines};

/// Bytes that are no text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid UTF-8 at byte {at}")]
pub struct NotText {
    /// The first byte that is wrong.
    pub at: usize,
}

/// One section: a heading and all that follows it up to the next one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    /// What it is.
    pub kind: Kind,
    /// Its heading, without marks.
    pub heading: String,
    /// How deep the heading is.
    pub level: u8,
    /// Whether the heading is in the format's own words.
    pub own_words: bool,
    /// Whether it belongs to a delta.
    pub in_delta: bool,
    /// The heading and its content.
    pub(super) range: Range<usize>,
    /// The content.
    pub(super) content: Range<usize>,
}

/// Where everything lies.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) front: Option<FrontMatter>,
    /// What stands after the front matter and before the first section.
    pub(super) preamble: Range<usize>,
    /// In their order, each beginning where the one before it ends.
    pub(super) sections: Vec<Section>,
    pub(super) warnings: Vec<Warning>,
}

/// Finds the sections of a text.
pub(super) fn layout(text: &str) -> Layout {
    let mut warnings = Vec::new();
    let mut start = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    let mut end = text.len();
    if let Some(inside) = unwrapped(text, start) {
        warnings.push(Warning::new(None, "the whole document stands inside a code fence"));
        (start, end) = (inside.start, inside.end);
    }
    let whole = text.get(..end).unwrap_or(text);
    let front = front_matter::read(whole, start, &mut warnings);
    let body = front.as_ref().map_or(start, |front| front.range.end);
    let mut sections: Vec<Section> = Vec::new();
    for heading in headings(whole, body) {
        let (kind, own_words) = Kind::of(&heading.text);
        let before = sections.last();
        if !begins_section(kind, &heading, before) {
            continue;
        }
        let in_delta = before.is_some_and(|s| s.kind == Kind::Delta || s.in_delta)
            && heading.level > 2
            && !matches!(kind, Kind::Delta);
        if let Some(last) = sections.last_mut() {
            last.range.end = heading.range.start;
            last.content.end = heading.range.start;
        }
        sections.push(Section {
            kind: if in_delta { in_a_delta(kind) } else { in_its_own_right(kind) },
            heading: heading.text,
            level: heading.level,
            own_words,
            in_delta,
            range: heading.range.start..end,
            content: heading.range.end..end,
        });
    }
    let preamble = body..sections.first().map_or(end, |first| first.range.start);
    Layout { front, preamble, sections, warnings }
}

/// Parts of a delta are nothing in particular outside of one.
fn in_its_own_right(kind: Kind) -> Kind {
    match kind {
        Kind::Changed | Kind::Transitions => Kind::Other,
        kind => kind,
    }
}

/// A delta's words for its parts.
fn in_a_delta(kind: Kind) -> Kind {
    match kind {
        Kind::Container | Kind::LeftOut => Kind::Other,
        kind => kind,
    }
}

/// Whether a heading begins a section, or belongs to the content of the one before it.
fn begins_section(kind: Kind, heading: &Heading, before: Option<&Section>) -> bool {
    if kind != Kind::Other {
        return heading.level <= 3;
    }
    if heading.is_sloppy_rule {
        return false;
    }
    match before {
        None => heading.level <= 2,
        // Titles and headings that only hold others give way to what is below them.
        Some(s) if s.kind == Kind::Container || s.kind == Kind::Delta || s.level == 1 => heading.level <= 3,
        Some(s) => heading.level <= s.level,
    }
}

/// What an outer fence holds, where all of the document stands in one.
fn unwrapped(text: &str, start: usize) -> Option<Range<usize>> {
    let (open, line) = lines(text, start).find(|(_, line)| !line.trim().is_empty())?;
    let mark = fence(line)?;
    let inside = open + line.len();
    let word = line.trim().trim_start_matches(['`', '~']).trim().to_ascii_lowercase();
    let rest = text.get(inside..)?;
    let first = rest.lines().map(str::trim_end).find(|line| !line.is_empty())?;
    let looks_like_one = first == "---" || first.starts_with("# ") || first.starts_with("## ");
    if !looks_like_one || !matches!(word.as_str(), "" | "markdown" | "md") {
        return None;
    }
    let bare = rest.trim_end();
    let last = bare.rfind('\n').map_or(0, |at| at + 1);
    let closes = fence(bare.get(last..)?).is_some_and(|m| m.0 == mark.0 && m.1 >= mark.1)
        && bare.get(last..)?.trim().chars().all(|c| c == mark.0);
    let inner = if closes { inside..inside + last } else { inside..text.len() };
    // A block of code that a document begins with is not the document.
    let beyond = headings(text, start);
    let has_sections = |all: &[Heading]| all.iter().any(|h| Kind::of(&h.text).0 != Kind::Other);
    let own = text.get(..inner.end)?;
    (closes || !has_sections(&beyond)).then_some(())?;
    has_sections(&headings(own, inside)).then_some(inner)
}

/// The mark of a fence and how long it is.
pub(super) fn fence(line: &str) -> Option<(char, usize)> {
    let bare = line.trim_start();
    let mark = bare.chars().next().filter(|c| matches!(c, '`' | '~'))?;
    let n = bare.chars().take_while(|c| *c == mark).count();
    let info = bare.get(n..).unwrap_or_default();
    (n >= 3 && !(mark == '`' && info.contains('`'))).then_some((mark, n))
}
