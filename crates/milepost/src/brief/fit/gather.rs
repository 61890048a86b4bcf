//! From a brief to a page whose entries can be demoted: what must be kept as it stands, everything else line by line.
//! Nothing is lost here: empty lines, comments, the rules of tables and exact repetitions go, and parts of deltas join
//! the sections they belong to.

use std::borrow::Cow;
use std::collections::HashMap;

use super::super::artifact::Artifact;
use super::super::blocks::{Block, Grain, blocks, cells, said};
use super::super::{Brief, Kind, Section};
use super::clip::sentences;
use super::page::Page;
use super::{Fit, PREAMBLE, Rank};

pub(super) fn page<'a>(brief: &'a Brief, how: &Fit<'a>) -> Page<'a> {
    let mut page = Page::new(how.gauge, how.budget, how.whole.as_deref());
    if let Some(front) = brief.front() {
        page.set_front(brief.slice(front.range.clone()));
    }
    let mut seen = Seen::default();
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
    page.reserve();
    page
}

/// Lines that stand there already, found by their length and their ends, which is cheaper than by all of them.
#[derive(Default)]
struct Seen<'a>(HashMap<Ends, &'a str>);

/// A part, a line's length, its first bytes and its last.
type Ends = (usize, usize, [u8; 8], [u8; 8]);

impl<'a> Seen<'a> {
    fn repeats(&mut self, part: usize, line: &'a str) -> bool {
        let bytes = line.as_bytes();
        let (mut first, mut last) = ([0; 8], [0; 8]);
        bytes.iter().take(8).zip(&mut first).for_each(|(from, to)| *to = *from);
        bytes.iter().rev().take(8).zip(&mut last).for_each(|(from, to)| *to = *from);
        self.0.insert((part, bytes.len(), first, last), line) == Some(line)
    }
}

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
        let bare = source.trim();
        if !(block.says_something() || block == Block::Heading) || bare.is_empty() || seen.repeats(part, bare)
        {
            continue;
        }
        if let Rank::Artifact { .. } = rank
            && let Some(artifact) = Artifact::read(block, source)
        {
            let finished = artifact.is_finished();
            let rank = Rank::Artifact { finished };
            page.add_entry(part, rank, Cow::Owned(artifact.dense()), Some(artifact.path));
            continue;
        }
        lines(block, source, &mut |text| page.add_entry(part, rank, text, None));
    }
}

/// A block as lines that can go one by one: rows without the marks of a table, text sentence by sentence.
pub(super) fn lines<'a>(block: Block, source: &'a str, add: &mut dyn FnMut(Cow<'a, str>)) {
    match block {
        Block::Row => {
            let cells = cells(source);
            let (first, rest) = cells.split_first().map_or(("", &[][..]), |(first, rest)| (*first, rest));
            let rest: Vec<_> = rest.iter().filter(|cell| !cell.is_empty()).copied().collect();
            let colon = if rest.is_empty() { "" } else { ": " };
            add(Cow::Owned(format!("- {first}{colon}{}\n", rest.join("; "))));
        }
        Block::Paragraph => {
            let flat: Cow<'a, str> = match source.trim().contains('\n') {
                true => Cow::Owned(source.split_whitespace().collect::<Vec<_>>().join(" ")),
                false => Cow::Borrowed(source.trim()),
            };
            for sentence in sentences(&flat) {
                add(Cow::Owned(format!("{sentence}\n")));
            }
        }
        Block::Item => {
            let bare = source.trim_end();
            if bare.contains('\n') {
                let indent = source.get(..source.len() - source.trim_start().len()).unwrap_or_default();
                let text = said(bare).split_whitespace().collect::<Vec<_>>().join(" ");
                add(Cow::Owned(format!("{indent}- {text}\n")));
            } else if source.ends_with('\n') && bare.len() + 1 == source.len() {
                add(Cow::Borrowed(source));
            } else {
                add(Cow::Owned(format!("{bare}\n")));
            }
        }
        _ if source.ends_with('\n') => add(Cow::Borrowed(source)),
        _ => add(Cow::Owned(format!("{source}\n"))),
    }
}
