//! The second ladder, for where that which must be kept does not fit beside the names of files. It puts lines together,
//! leaves out why something was decided, lets the dearest lines go, and is marked on the page. It reaches any budget from
//! 60 tokens up.

use std::cmp::Reverse;
use std::ops::ControlFlow;

use super::super::blocks::{Block, Grain, blocks};
use super::super::{Brief, Kind, QUARTERS};
use super::entry::{Entry, Way};
use super::ladder::{front, of, parts_of, remove, shorten};
use super::notice::Telling;
use super::page::Page;
use super::{Flow, Rank, gather};

/// What must be kept, in the order in which it is taken apart.
const ORDER: [Kind; 6] = [Kind::Problem, Kind::Intent, Kind::Decisions, Kind::State, Kind::Next, Kind::Rules];

/// Sections whose first line goes when nothing else is left, in this order.
const LAST: [Kind; 4] = [Kind::Intent, Kind::State, Kind::Next, Kind::Problem];
/// Quarters of a token in which a sentence tells one thing.
const A_THING: u64 = 16 * QUARTERS;

pub(super) fn descend<'a>(page: &mut Page<'a>, brief: &'a Brief) -> Flow {
    page.telling = Telling::Marked;
    for part in parts_of(page, Kind::LeftOut) {
        page.open(part);
    }
    open(page, brief)?;
    front(page, &["checkpoint:"])?;
    front(page, &[])?;
    join(page)?;
    page.weigh_all();
    without_reasons(page)?;
    page.telling = Telling::Shrunk;
    dearest_first(page)?;
    for kind in LAST {
        let lines = of(page, |rank| rank == Rank::Must(kind));
        shorten(page, &lines, &[Way::Claim, Way::Few])?;
        remove(page, &lines)?;
    }
    page.landed()
}

/// Lines of a section on one line, under a heading of one word, which is read too.
fn join(page: &mut Page<'_>) -> Flow {
    for kind in ORDER {
        parts_of(page, kind).into_iter().for_each(|part| page.densify(part));
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

/// Leaves of decisions what was decided: why is told one command away. The longest reasons go first.
fn without_reasons(page: &mut Page<'_>) -> Flow {
    let decisions = of(page, |rank| rank == Rank::Must(Kind::Decisions));
    let mut reasons: Vec<_> = decisions.into_iter().map(|at| (page.saved(at, Way::Claim), at)).collect();
    reasons.sort_by_key(|(saved, at)| (Reverse(*saved), *at));
    let decisions: Vec<_> = reasons.into_iter().map(|(_, at)| at).collect();
    shorten(page, &decisions, &[Way::Claim])
}

/// Lets go, whole, the lines that cost most for what they say. Half a line costs as much as a short one and says less.
/// A line says one thing, but those of the problem and the intent, which are sentences, one in some tokens. The first
/// of the problem, the intent, the state and what comes next go last; rules count as shorter than they are, paths as
/// longer.
fn dearest_first(page: &mut Page<'_>) -> Flow {
    let mut lines: Vec<(u64, usize)> = Vec::new();
    for kind in ORDER {
        let all = of(page, |rank| rank == Rank::Must(kind));
        let rest = all.iter().skip(usize::from(LAST.contains(&kind)));
        lines.extend(rest.map(|at| {
            let cost = page.cost(*at);
            let price = match kind {
                Kind::Problem | Kind::Intent => cost.min(A_THING) * 10,
                Kind::State => cost * 9,
                Kind::Rules => cost * 7,
                _ => cost * 10,
            };
            (price, *at)
        }));
    }
    let files = of(page, |rank| matches!(rank, Rank::Artifact { .. }));
    lines.extend(files.iter().map(|at| (page.cost(*at) * 20, *at)));
    lines.sort_by_key(|(price, at)| (Reverse(*price), *at));
    lines.into_iter().try_for_each(|(_, at)| page.remove(at))
}
