//! The second ladder, for where that which must be kept is larger than the budget. It puts lines together, cuts the very
//! long ones to their first clause, lets the longest go, and is marked on the page. It reaches any budget from 60 tokens up.

use std::ops::ControlFlow;

use super::super::blocks::{Block, Grain, blocks};
use super::super::{Brief, Kind, QUARTERS};
use super::entry::{Entry, Way};
use super::ladder::{front, of, parts_of, remove, shorten};
use super::notice::Telling;
use super::page::Page;
use super::{Flow, Rank, gather};

/// In the order in which they give way.
const ORDER: [Kind; 6] = [Kind::Problem, Kind::Intent, Kind::Decisions, Kind::State, Kind::Next, Kind::Rules];

/// Quarters of a token beyond which a line may tell more than one thing.
const LONG: u64 = 30 * QUARTERS;

pub(super) fn descend<'a>(page: &mut Page<'a>, brief: &'a Brief) -> Flow {
    page.telling = Telling::Shrunk;
    for part in parts_of(page, Kind::LeftOut) {
        page.open(part);
    }
    open(page, brief)?;
    front(page, &["checkpoint:"])?;
    front(page, &[])?;
    join(page)?;
    page.weigh_all();
    let all = of(page, |rank| matches!(rank, Rank::Must(_)));
    let long: Vec<_> = all.into_iter().filter(|at| page.cost(*at) > LONG).collect();
    shorten(page, &long, &[Way::Lead])?;
    longest_first(page)?;
    for kind in [Kind::Next, Kind::Problem] {
        let lines = of(page, |rank| rank == Rank::Must(kind));
        shorten(page, &lines, &[Way::Lead, Way::Few])?;
        remove(page, &lines)?;
    }
    page.landed()
}

/// Lines of a section on one line, under a heading of one word, which is read too.
fn join(page: &mut Page<'_>) -> Flow {
    for (kind, word) in [
        (Kind::Problem, "# Problem\n"),
        (Kind::Intent, "# Intent\n"),
        (Kind::Decisions, "# Decisions\n"),
        (Kind::State, "# State\n"),
        (Kind::Next, "# Next\n"),
        (Kind::Rules, "# Rules\n"),
    ] {
        parts_of(page, kind).into_iter().for_each(|part| page.join(part, Some(word)));
    }
    page.landed()
}

/// Takes every section that must be kept apart, line by line; empty lines and comments go.
fn open<'a>(page: &mut Page<'a>, brief: &'a Brief) -> Flow {
    for kind in ORDER {
        let sections = brief.sections().iter().filter(|section| section.kind == kind);
        for (section, part) in sections.zip(parts_of(page, kind)) {
            page.open(part);
            let content = brief.content(section);
            for (block, range) in blocks(content, Grain::Lines) {
                let source = content.get(range).unwrap_or_default();
                if (block.says_something() || block == Block::Heading) && !source.trim().is_empty() {
                    gather::lines(block, source, &mut |text| {
                        page.add_entry(Entry::line(part, Rank::Must(kind), text))
                    });
                }
            }
        }
        page.landed()?;
    }
    ControlFlow::Continue(())
}

/// Lets the longest lines go, whole: half a line costs as much as a short one and says less. The first of the problem and
/// of what comes next go last; what comes next and rules count as shorter than they are, what is told at length elsewhere
/// as longer.
fn longest_first(page: &mut Page<'_>) -> Flow {
    let mut lines: Vec<(u64, usize)> = Vec::new();
    for kind in ORDER {
        let factor = match kind {
            Kind::Next | Kind::Rules => 3,
            Kind::Decisions => 4,
            _ => 5,
        };
        let all = of(page, |rank| rank == Rank::Must(kind));
        let rest = all.iter().skip(usize::from(matches!(kind, Kind::Problem | Kind::Next)));
        lines.extend(rest.map(|at| (page.cost(*at) * factor, *at)));
    }
    lines.sort_by_key(|(weight, at)| (std::cmp::Reverse(*weight), *at));
    lines.into_iter().try_for_each(|(_, at)| page.remove(at))
}
