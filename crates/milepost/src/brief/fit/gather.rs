//! From a brief to a page whose entries can be demoted: what must be kept as it stands, everything else line by line.
//! Nothing is lost here: empty lines, comments, the rules of tables and exact repetitions go, and parts of deltas join
//! the sections they belong to.

use std::borrow::Cow;

use foldhash::{HashSet, HashSetExt as _};

use super::super::artifact::Artifact;
use super::super::blocks::{Block, Grain, blocks, cells, said, trimmed};
use super::super::parse::fence;
use super::super::{Brief, Kind, Section};
use super::clip::{inert, sentences};
use super::entry::Entry;
use super::page::Page;
use super::{Fit, PREAMBLE, Rank};

pub(super) fn page<'a>(brief: &'a Brief, how: &'a Fit<'_>) -> Page<'a> {
    // About as many lines as there are.
    let lines = brief.text().len() / 64;
    let mut page = Page::new(how.counter, how.budget, how.whole.as_deref(), lines);
    if let Some(front) = brief.front_matter() {
        page.set_front(brief.slice(front.range.clone()));
    }
    let mut seen = Seen::with_capacity(lines);
    let preamble = brief.preamble();
    if !preamble.trim().is_empty() {
        let part = page.add_part(Kind::Other, PREAMBLE, "", None);
        entries(&mut page, &mut seen, part, Rank::Other, preamble);
    }
    for section in brief.sections() {
        let content = brief.content(section);
        match section.kind {
            kind if kind.must_keep() || kind == Kind::LeftOut => {
                page.add_part(
                    kind,
                    &section.heading,
                    heading(brief, section),
                    Some(verbatim(brief, section)),
                );
            }
            kind => {
                let (kind, rank) = match kind {
                    Kind::Delta | Kind::Changed => (Kind::Play, Rank::Delta),
                    Kind::Transitions => (Kind::Play, Rank::Delta),
                    Kind::Technical => (kind, Rank::Technical),
                    Kind::Breadcrumbs => (kind, Rank::Crumb),
                    Kind::Play => (kind, Rank::Step),
                    Kind::Artifacts => (kind, Rank::Artifact { finished: false }),
                    _ => (kind, Rank::Other),
                };
                let known = page.parts.iter().position(|part| part.kind == kind && kind != Kind::Other);
                let own = section.kind == kind;
                let part = match known {
                    Some(part) => part,
                    None if own => page.add_part(kind, &section.heading, heading(brief, section), None),
                    None => page.add_part(kind, kind.as_str(), "### Play-By-Play\n", None),
                };
                entries(&mut page, &mut seen, part, rank, content);
            }
        }
    }
    page
}

/// Lines that stand there already, by their part.
type Seen<'a> = HashSet<(usize, &'a str)>;

/// The heading's lines.
fn heading<'a>(brief: &'a Brief, section: &Section) -> &'a str {
    brief.slice(section.range.start..section.content.start)
}

/// A section as it stands, but for empty lines at its end, of which one stays: it may end what stands above it.
fn verbatim<'a>(brief: &'a Brief, section: &Section) -> &'a str {
    let source = brief.source(section);
    let bare = source.trim_end();
    let after = source.get(bare.len()..).unwrap_or_default();
    let kept: usize = after.split_inclusive('\n').take(2).map(str::len).sum();
    source.get(..bare.len() + kept).unwrap_or(source)
}

/// Adds the lines of some content to a part, those that stand there already left aside.
fn entries<'a>(page: &mut Page<'a>, seen: &mut Seen<'a>, part: usize, rank: Rank, content: &'a str) {
    for (block, range) in blocks(content, Grain::Lines) {
        let source = content.get(range).unwrap_or_default();
        let bare = trimmed(source);
        let says_something = block.says_something() || block == Block::Heading;
        if !says_something || bare.is_empty() || !seen.insert((part, bare)) {
            continue;
        }
        if let Rank::Artifact { .. } = rank
            && let Some(artifact) = Artifact::read(block, source)
        {
            page.add_entry(Entry::file(part, artifact));
            continue;
        }
        let rank = if block == Block::Code { Rank::Code } else { rank };
        lines(block, source, &mut |text| page.add_entry(Entry::line(part, rank, text)));
    }
}

/// A text without its line breaks.
pub(super) fn in_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A block as lines that can go one by one, the end of the line left aside: rows without the marks of a table, text
/// sentence by sentence.
pub(super) fn lines<'a>(block: Block, source: &'a str, add: &mut dyn FnMut(Cow<'a, str>)) {
    match block {
        Block::Row => {
            let cells = cells(source);
            let (first, rest) = cells.split_first().map_or(("", &[][..]), |(first, rest)| (*first, rest));
            let rest: Vec<_> = rest.iter().filter(|cell| !cell.is_empty()).copied().collect();
            let colon = if rest.is_empty() { "" } else { ": " };
            add(Cow::Owned(format!("- {first}{colon}{}", rest.join("; "))));
        }
        Block::Paragraph if source.trim().contains('\n') => {
            let flat = in_one_line(source);
            sentences(&flat).into_iter().for_each(|sentence| add(Cow::Owned(inert(sentence).into_owned())));
        }
        Block::Paragraph => {
            sentences(source.trim()).into_iter().for_each(|sentence| add(inert(sentence)));
        }
        Block::Item => {
            let bare = source.trim_end();
            if memchr::memchr(b'\n', bare.as_bytes()).is_some() {
                let indent = source.get(..source.len() - source.trim_start().len()).unwrap_or_default();
                add(Cow::Owned(format!("{indent}- {}", in_one_line(said(bare)))));
            } else if source.get(bare.len()..) == Some("\n") {
                add(Cow::Borrowed(source));
            } else {
                add(Cow::Borrowed(bare));
            }
        }
        // Indented, a line of code is never read as a mark, and none needs the fence.
        Block::Code => {
            let mut inside: Vec<_> = source.lines().map(str::trim_end).collect();
            let opened = inside.first().and_then(|line| fence(line));
            if inside.len() > 1 && inside.last().is_some_and(|line| fence(line) >= opened) {
                inside.pop();
            }
            let lines = inside.into_iter().skip(1).filter(|line| !line.is_empty());
            lines.for_each(|line| add(Cow::Owned(format!("    {line}"))));
        }
        _ => add(Cow::Borrowed(source)),
    }
}
