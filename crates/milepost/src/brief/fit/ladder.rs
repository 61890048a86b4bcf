//! The first ladder. What must be kept stays as it is; of everything else, what is worth least per token goes first, so
//! that files, which are worth most, go last, and the newest names of those still worked on not on this ladder. Oldest
//! first within each rung, so that what is recent is detailed longest.

use std::ops::ControlFlow;

use super::entry::Way;
use super::notice::Telling;
use super::page::Page;
use super::{Flow, Kind, Rank};

/// So many of the newest steps, and of the newest files, are recent.
const RECENT: usize = 5;
/// More than so many paths tell a reader little.
const MANY: usize = 24;
/// So many of the newest files are named even where what must be kept shrinks.
const NAMED: usize = 12;
/// So many lines of a text without sections say what it is about; where it stands, its last ones do.
const OPENING: usize = 4;

/// Goes down until it fits.
pub(super) fn descend(page: &mut Page<'_>) -> Flow {
    let nothing_known = !page.parts.iter().any(|part| part.kind.must_keep());
    let delta = of(page, |rank| rank == Rank::Delta);
    let code = of(page, |rank| rank == Rank::Code);
    let other = of(page, |rank| rank == Rank::Other);
    let crumbs = of(page, |rank| rank == Rank::Crumb);
    let steps = of(page, |rank| rank == Rank::Step);
    let technical = of(page, |rank| rank == Rank::Technical);
    let finished = of(page, |rank| rank == Rank::Artifact { finished: true });
    let active = of(page, |rank| rank == Rank::Artifact { finished: false });
    let (older_steps, recent_steps) = split(&steps, RECENT);
    let (older_files, recent_files) = split(&active, RECENT);

    let (many_finished, few_finished) = split(&finished, MANY);
    let (many_active, few_active) = split(&active, MANY);
    let (unnamed, _) = split(&active, NAMED);
    let technical = reversed(&technical);
    // Where no section is known that must be kept, everything else is, as far as it can be.
    let (other, text) =
        if nothing_known { (Vec::new(), between_first(&other)) } else { (reversed(&other), Vec::new()) };
    // In the order in which they go.
    page.weigh_last(
        [
            delta.as_slice(),
            &code,
            &other,
            &crumbs,
            older_steps,
            many_finished,
            many_active,
            &technical,
            recent_steps,
            few_finished,
            few_active,
            &text,
        ]
        .concat(),
    );
    page.landed()?;
    page.drop_containers();
    page.landed()?;
    front(page, &["checkpoint:", "created:"])?;
    page.expect_files();
    grouped(page, &[finished.as_slice(), &active].concat())?;
    dense(page)?;
    remove(page, &delta)?;
    remove(page, &code)?;
    remove(page, &other)?;
    remove(page, &crumbs)?;
    shorten(page, older_steps, &[Way::WithoutOutcome])?;
    remove(page, older_steps)?;
    paths(page, &finished)?;
    remove(page, many_finished)?;
    remove(page, many_active)?;
    front(page, &["checkpoint:"])?;
    page.telling = Telling::Brief;
    page.landed()?;
    front(page, &[])?;
    remove(page, &technical)?;
    remove(page, recent_steps)?;
    paths(page, older_files)?;
    paths(page, recent_files)?;
    remove(page, &finished)?;
    remove(page, if nothing_known { &active } else { unnamed })?;
    remove(page, &text)
}

/// Lets the names of files go too: nothing is left but what must be kept.
pub(super) fn bare(page: &mut Page<'_>) -> Flow {
    let files = of(page, |rank| matches!(rank, Rank::Artifact { .. }));
    remove(page, &files)
}

/// Lines of a text without sections, as they go: those between its first and its last ones, then the first ones.
fn between_first(lines: &[usize]) -> Vec<usize> {
    let (opening, rest) = lines.split_at(OPENING.min(lines.len()));
    [rest, &reversed(opening)].concat()
}

/// Steps on one line, and facts of the environment; short headings.
fn dense(page: &mut Page<'_>) -> Flow {
    for kind in [Kind::Technical, Kind::Play, Kind::Artifacts] {
        parts_of(page, kind).into_iter().for_each(|part| page.densify(part));
    }
    page.landed()
}

/// The entries of a rank, oldest first.
pub(super) fn of(page: &Page<'_>, wanted: impl Fn(Rank) -> bool) -> Vec<usize> {
    let all = page.entries.iter().enumerate();
    all.filter(|(_, entry)| wanted(entry.rank)).map(|(at, _)| at).collect()
}

/// The newest ones apart from those before them.
fn split(all: &[usize], newest: usize) -> (&[usize], &[usize]) {
    all.split_at(all.len().saturating_sub(newest))
}

fn reversed(all: &[usize]) -> Vec<usize> {
    all.iter().rev().copied().collect()
}

/// Makes entries shorter, all of them in one way before the next.
pub(super) fn shorten(page: &mut Page<'_>, entries: &[usize], ways: &[Way]) -> Flow {
    for way in ways {
        for at in entries {
            page.change(*at, *way);
            page.landed()?;
        }
    }
    ControlFlow::Continue(())
}

pub(super) fn remove(page: &mut Page<'_>, entries: &[usize]) -> Flow {
    entries.iter().try_for_each(|at| page.remove(*at))
}

fn grouped(page: &mut Page<'_>, entries: &[usize]) -> Flow {
    entries.iter().try_for_each(|at| page.group(*at))
}

fn paths(page: &mut Page<'_>, entries: &[usize]) -> Flow {
    entries.iter().try_for_each(|at| page.leave_path(*at))
}

/// Leaves of the front matter the lines of some keys.
pub(super) fn front(page: &mut Page<'_>, keys: &[&str]) -> Flow {
    let line = |key: &&str| {
        let found = page.front.text.lines().find(|line| line.starts_with(key));
        found.filter(|line| line.len() <= 160).map(|line| format!("{}\n", line.trim_end()))
    };
    let kept: String = keys.iter().filter_map(line).collect();
    let new = if kept.is_empty() { String::new() } else { format!("---\n{kept}---\n") };
    if new.len() < page.front.text.len() {
        page.set_front(new);
    }
    page.landed()
}

/// The parts of a kind.
pub(super) fn parts_of(page: &Page<'_>, kind: Kind) -> Vec<usize> {
    let all = page.parts.iter().enumerate();
    all.filter(|(_, part)| part.kind == kind).map(|(at, _)| at).collect()
}
