//! Builds the page to be fitted. Sections that must be kept stay verbatim; all others are split into one
//! entry per line. Parts of deltas are added to the sections they belong to. Must not drop anything except
//! empty lines, comments, thematic breaks, table headers and exact duplicates.

use std::borrow::Cow;

use foldhash::{HashSet, HashSetExt as _};

use super::super::artifact::Artifact;
use super::super::blocks::{
    Block, Granularity, item_text, join_words, split_blocks, split_cells, trim_blanks,
};
use super::super::parse::parse_fence;
use super::super::{Brief, Section, SectionKind};
use super::clip::{escape_line_start, split_sentences};
use super::entry::Entry;
use super::page::Page;
use super::{FitOptions, PREAMBLE_NAME, Rank};

pub(super) fn build_page<'a>(brief: &'a Brief, options: &'a FitOptions<'_>) -> Page<'a> {
    // A rough estimate of the number of lines.
    let lines = brief.text().len() / 64;
    let mut page = Page::new(options.counter, options.budget, options.full_command.as_deref(), lines);
    if let Some(front) = brief.front_matter() {
        page.set_front_matter(brief.slice(front.range.clone()));
    }
    let mut seen = SeenLines::with_capacity(lines);
    let preamble = brief.preamble();
    if !preamble.trim().is_empty() {
        let part = page.add_part(SectionKind::Other, PREAMBLE_NAME, "", None);
        add_entries(&mut page, &mut seen, part, Rank::Other, preamble);
    }
    for section in brief.sections() {
        let content = brief.content(section);
        match section.kind {
            kind if kind.must_keep() || kind == SectionKind::LeftOut => {
                page.add_part(
                    kind,
                    &section.heading,
                    heading_lines(brief, section),
                    Some(verbatim_source(brief, section)),
                );
            }
            kind => {
                let (kind, rank) = match kind {
                    SectionKind::Delta | SectionKind::WhatChanged | SectionKind::Transitions => {
                        (SectionKind::PlayByPlay, Rank::Delta)
                    }
                    SectionKind::Technical => (kind, Rank::Technical),
                    SectionKind::Breadcrumbs => (kind, Rank::Breadcrumb),
                    SectionKind::PlayByPlay => (kind, Rank::Step),
                    SectionKind::Artifacts => (kind, Rank::Artifact { finished: false }),
                    _ => (kind, Rank::Other),
                };
                let known =
                    page.parts.iter().position(|part| part.kind == kind && kind != SectionKind::Other);
                let has_own_part = section.kind == kind;
                let part = match known {
                    Some(part) => part,
                    None if has_own_part => {
                        page.add_part(kind, &section.heading, heading_lines(brief, section), None)
                    }
                    None => page.add_part(kind, kind.as_str(), "### Play-By-Play\n", None),
                };
                add_entries(&mut page, &mut seen, part, rank, content);
            }
        }
    }
    page
}

/// The lines added so far, each with the index of its part.
type SeenLines<'a> = HashSet<(usize, &'a str)>;

fn heading_lines<'a>(brief: &'a Brief, section: &Section) -> &'a str {
    brief.slice(section.range.start..section.content.start)
}

/// A section's source with at most one trailing empty line, which may be needed to end the last block.
fn verbatim_source<'a>(brief: &'a Brief, section: &Section) -> &'a str {
    let source = brief.source(section);
    let bare = source.trim_end();
    let after = source.get(bare.len()..).unwrap_or_default();
    let kept: usize = after.split_inclusive('\n').take(2).map(str::len).sum();
    source.get(..bare.len() + kept).unwrap_or(source)
}

/// Adds the lines of `content` to a part, without duplicates.
fn add_entries<'a>(page: &mut Page<'a>, seen: &mut SeenLines<'a>, part: usize, rank: Rank, content: &'a str) {
    for (block, source) in split_blocks(content, Granularity::Lines) {
        let bare = trim_blanks(source);
        let says_something = block.has_content() || block == Block::Heading;
        if !says_something || bare.is_empty() || !seen.insert((part, bare)) {
            continue;
        }
        if let Rank::Artifact { .. } = rank
            && let Some(artifact) = Artifact::parse(block, source)
        {
            page.add_entry(Entry::from_file(part, artifact));
            continue;
        }
        let rank = if block == Block::Code { Rank::Code } else { rank };
        split_lines(block, source, &mut |text| page.add_entry(Entry::from_line(part, rank, text)));
    }
}

/// Splits a block into lines that can be removed individually. Table rows become list items, and paragraphs
/// become one line per sentence.
pub(super) fn split_lines<'a>(block: Block, source: &'a str, add: &mut dyn FnMut(Cow<'a, str>)) {
    match block {
        Block::TableRow => {
            let cells = split_cells(source);
            let (first, rest) = cells.split_first().map_or(("", &[][..]), |(first, rest)| (*first, rest));
            let rest: Vec<_> = rest.iter().filter(|cell| !cell.is_empty()).copied().collect();
            let colon = if rest.is_empty() { "" } else { ": " };
            add(Cow::Owned(format!("- {first}{colon}{}", rest.join("; "))));
        }
        Block::Paragraph if source.trim().contains('\n') => {
            let flat = join_words(source);
            split_sentences(&flat)
                .into_iter()
                .for_each(|sentence| add(Cow::Owned(escape_line_start(sentence).into_owned())));
        }
        Block::Paragraph => {
            split_sentences(source.trim()).into_iter().for_each(|sentence| add(escape_line_start(sentence)));
        }
        Block::Item => {
            let bare = source.trim_end();
            if memchr::memchr(b'\n', bare.as_bytes()).is_some() {
                let indent = source.get(..source.len() - source.trim_start().len()).unwrap_or_default();
                add(Cow::Owned(format!("{indent}- {}", join_words(item_text(bare)))));
            } else if source.get(bare.len()..) == Some("\n") {
                add(Cow::Borrowed(source));
            } else {
                add(Cow::Borrowed(bare));
            }
        }
        // Indented code needs no fence and is never parsed as Markdown.
        Block::Code => {
            let mut inside: Vec<_> = source.lines().map(str::trim_end).collect();
            let opened = inside.first().and_then(|line| parse_fence(line));
            if inside.len() > 1 && inside.last().is_some_and(|line| parse_fence(line) >= opened) {
                inside.pop();
            }
            let lines = inside.into_iter().skip(1).filter(|line| !line.is_empty());
            lines.for_each(|line| add(Cow::Owned(format!("    {line}"))));
        }
        _ => add(Cow::Borrowed(source)),
    }
}
