//! Splits Markdown into front matter, preamble and sections. Takes any text and returns byte ranges that
//! together cover it. Must not fail or change the text.

use std::ops::Range;

use super::headings::{Heading, find_headings};
use super::{SectionKind, Warning};
use crate::front_matter::{self, FrontMatter, lines};

/// The error for bytes that are not UTF-8.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid UTF-8 at byte {at}")]
pub struct InvalidUtf8 {
    /// Offset of the first invalid byte.
    pub at: usize,
}

/// A section: a heading and the content up to the next section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    /// The kind of the section.
    pub kind: SectionKind,
    /// The text of the heading, without `#` marks and underline.
    pub heading: String,
    /// The level of the heading.
    pub level: u8,
    /// Whether the heading is a standard name; also true for headings of no known kind.
    pub has_standard_name: bool,
    /// Whether it is part of a delta.
    pub in_delta: bool,
    /// The range of the heading and its content.
    pub(super) range: Range<usize>,
    /// The range of the content.
    pub(super) content: Range<usize>,
}

/// The byte ranges of a brief's parts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) front_matter: Option<FrontMatter>,
    /// The text between the front matter and the first section.
    pub(super) preamble: Range<usize>,
    /// In document order; each starts where the previous one ends.
    pub(super) sections: Vec<Section>,
    pub(super) warnings: Vec<Warning>,
}

pub(super) fn parse_layout(text: &str) -> Layout {
    let mut warnings = Vec::new();
    let mut start = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    let mut end = text.len();
    if let Some(inside) = find_outer_fence_content(text, start) {
        warnings.push(Warning::new(None, "the whole document is inside a code fence"));
        (start, end) = (inside.start, inside.end);
    }
    let whole = text.get(..end).unwrap_or(text);
    let front = front_matter::read(whole, start, &mut warnings);
    let body = front.as_ref().map_or(start, |front| front.range.end);
    let mut sections: Vec<Section> = Vec::new();
    for heading in find_headings(whole, body) {
        let (kind, has_standard_name) = SectionKind::from_heading(&heading.text);
        let before = sections.last();
        if !begins_section(kind, &heading, before) {
            continue;
        }
        let in_delta = before.is_some_and(|s| s.kind == SectionKind::Delta || s.in_delta)
            && heading.level > 2
            && !matches!(kind, SectionKind::Delta);
        if let Some(last) = sections.last_mut() {
            last.range.end = heading.range.start;
            last.content.end = heading.range.start;
        }
        sections.push(Section {
            kind: if in_delta { kind_inside_delta(kind) } else { kind_outside_delta(kind) },
            heading: heading.text,
            level: heading.level,
            has_standard_name,
            in_delta,
            range: heading.range.start..end,
            content: heading.range.end..end,
        });
    }
    let preamble = body..sections.first().map_or(end, |first| first.range.start);
    Layout { front_matter: front, preamble, sections, warnings }
}

/// Sections that only exist in deltas count as `Other` outside a delta.
fn kind_outside_delta(kind: SectionKind) -> SectionKind {
    match kind {
        SectionKind::WhatChanged | SectionKind::Transitions => SectionKind::Other,
        kind => kind,
    }
}

/// Containers and omission notices count as `Other` inside a delta.
fn kind_inside_delta(kind: SectionKind) -> SectionKind {
    match kind {
        SectionKind::Container | SectionKind::LeftOut => SectionKind::Other,
        kind => kind,
    }
}

/// Whether a heading starts a section; otherwise it is part of the previous section's content.
fn begins_section(kind: SectionKind, heading: &Heading, before: Option<&Section>) -> bool {
    if kind != SectionKind::Other {
        return heading.level <= 3;
    }
    if heading.has_dash_underline {
        return false;
    }
    match before {
        None => heading.level <= 2,
        // A title, a container or a delta ends at the first heading below it.
        Some(s) if s.kind == SectionKind::Container || s.kind == SectionKind::Delta || s.level == 1 => {
            heading.level <= 3
        }
        Some(s) => heading.level <= s.level,
    }
}

/// The content of a fence that wraps the whole document.
fn find_outer_fence_content(text: &str, start: usize) -> Option<Range<usize>> {
    let (open, line) = lines(text, start).find(|(_, line)| !line.trim().is_empty())?;
    let mark = parse_fence(line)?;
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
    let closes = parse_fence(bare.get(last..)?).is_some_and(|m| m.0 == mark.0 && m.1 >= mark.1)
        && bare.get(last..)?.trim().chars().all(|c| c == mark.0);
    let inner = if closes { inside..inside + last } else { inside..text.len() };
    // A document that merely starts with a code block is not wrapped in a fence.
    let beyond = find_headings(text, start);
    let has_sections =
        |all: &[Heading]| all.iter().any(|h| SectionKind::from_heading(&h.text).0 != SectionKind::Other);
    let inner_text = text.get(..inner.end)?;
    (closes || !has_sections(&beyond)).then_some(())?;
    has_sections(&find_headings(inner_text, inside)).then_some(inner)
}

/// The character and the length of the fence marker that a line starts with.
pub(super) fn parse_fence(line: &str) -> Option<(char, usize)> {
    let bare = line.trim_start();
    let mark = bare.chars().next().filter(|c| matches!(c, '`' | '~'))?;
    let n = bare.chars().take_while(|c| *c == mark).count();
    let info = bare.get(n..).unwrap_or_default();
    (n >= 3 && !(mark == '`' && info.contains('`'))).then_some((mark, n))
}
