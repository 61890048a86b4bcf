//! The first demotion sequence. Removes the entries with the least value per token first. Files are removed
//! last, and the newest active files keep their names. Most steps start with the oldest entries. Must not
//! change the sections that must be kept.

use std::ops::ControlFlow;

use super::entry::Shortening;
use super::notice::NoticeDetail;
use super::page::Page;
use super::{FitFlow, Rank, SectionKind};

/// Number of newest steps, and of newest files, that count as recent.
const RECENT_ENTRIES: usize = 5;
/// Maximum number of finished files, and of active files, once lists are cut; more are of little use.
const MAX_PATHS: usize = 24;
/// Number of newest active files that stay listed even if sections that must be kept are shortened.
const ALWAYS_NAMED_FILES: usize = 12;
/// Number of opening lines that state the topic of a text without sections, and are removed last.
const OPENING_LINES: usize = 4;

/// Applies demotion steps until the page fits.
pub(super) fn demote_until_fits(page: &mut Page<'_>) -> FitFlow {
    let nothing_known = !page.parts.iter().any(|part| part.kind.must_keep());
    let delta = entries_with_rank(page, |rank| rank == Rank::Delta);
    let code = entries_with_rank(page, |rank| rank == Rank::Code);
    let other = entries_with_rank(page, |rank| rank == Rank::Other);
    let crumbs = entries_with_rank(page, |rank| rank == Rank::Breadcrumb);
    let steps = entries_with_rank(page, |rank| rank == Rank::Step);
    let technical = entries_with_rank(page, |rank| rank == Rank::Technical);
    let finished = entries_with_rank(page, |rank| rank == Rank::Artifact { finished: true });
    let active = entries_with_rank(page, |rank| rank == Rank::Artifact { finished: false });
    let (older_steps, recent_steps) = split_newest(&steps, RECENT_ENTRIES);
    let (older_files, recent_files) = split_newest(&active, RECENT_ENTRIES);

    let (many_finished, few_finished) = split_newest(&finished, MAX_PATHS);
    let (many_active, few_active) = split_newest(&active, MAX_PATHS);
    let (unnamed, _) = split_newest(&active, ALWAYS_NAMED_FILES);
    let technical = reversed(&technical);
    // If no section must be kept, other text is kept as long as possible.
    let (other, text) = if nothing_known {
        (Vec::new(), middle_then_opening(&other))
    } else {
        (reversed(&other), Vec::new())
    };
    // In order of removal.
    page.set_count_order(
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
    page.stop_if_fits()?;
    page.drop_containers();
    page.stop_if_fits()?;
    reduce_front_matter(page, &["checkpoint:", "created:"])?;
    page.plan_folder_lines();
    group_files(page, &[finished.as_slice(), &active].concat())?;
    compact_sections(page)?;
    remove_entries(page, &delta)?;
    remove_entries(page, &code)?;
    remove_entries(page, &other)?;
    remove_entries(page, &crumbs)?;
    shorten_entries(page, older_steps, &[Shortening::DropOutcome])?;
    remove_entries(page, older_steps)?;
    keep_only_paths(page, &finished)?;
    remove_entries(page, many_finished)?;
    remove_entries(page, many_active)?;
    reduce_front_matter(page, &["checkpoint:"])?;
    page.notice_detail = NoticeDetail::Brief;
    page.stop_if_fits()?;
    reduce_front_matter(page, &[])?;
    remove_entries(page, &technical)?;
    remove_entries(page, recent_steps)?;
    keep_only_paths(page, older_files)?;
    keep_only_paths(page, recent_files)?;
    remove_entries(page, &finished)?;
    remove_entries(page, if nothing_known { &active } else { unnamed })?;
    remove_entries(page, &text)
}

/// Removes the file names too, so that only the sections that must be kept remain.
pub(super) fn remove_all_files(page: &mut Page<'_>) -> FitFlow {
    let files = entries_with_rank(page, |rank| matches!(rank, Rank::Artifact { .. }));
    remove_entries(page, &files)
}

/// The lines of a text without sections in order of removal: first those after the opening, then the opening.
fn middle_then_opening(lines: &[usize]) -> Vec<usize> {
    let (opening, rest) = lines.split_at(OPENING_LINES.min(lines.len()));
    [rest, &reversed(opening)].concat()
}

/// Joins the lines of facts, steps and files into one line per section, under short headings.
fn compact_sections(page: &mut Page<'_>) -> FitFlow {
    for kind in [SectionKind::Technical, SectionKind::PlayByPlay, SectionKind::Artifacts] {
        parts_of_kind(page, kind).into_iter().for_each(|part| page.compact_part(part));
    }
    page.stop_if_fits()
}

/// The entries of a rank, oldest first.
pub(super) fn entries_with_rank(page: &Page<'_>, wanted: impl Fn(Rank) -> bool) -> Vec<usize> {
    let all = page.entries.iter().enumerate();
    all.filter(|(_, entry)| wanted(entry.rank)).map(|(at, _)| at).collect()
}

fn split_newest(all: &[usize], newest: usize) -> (&[usize], &[usize]) {
    all.split_at(all.len().saturating_sub(newest))
}

fn reversed(all: &[usize]) -> Vec<usize> {
    all.iter().rev().copied().collect()
}

/// Applies each shortening to all entries before it applies the next one.
pub(super) fn shorten_entries(page: &mut Page<'_>, entries: &[usize], shortenings: &[Shortening]) -> FitFlow {
    for shortening in shortenings {
        for at in entries {
            page.shorten_entry(*at, *shortening);
            page.stop_if_fits()?;
        }
    }
    ControlFlow::Continue(())
}

pub(super) fn remove_entries(page: &mut Page<'_>, entries: &[usize]) -> FitFlow {
    entries.iter().try_for_each(|at| page.remove_entry(*at))
}

fn group_files(page: &mut Page<'_>, entries: &[usize]) -> FitFlow {
    entries.iter().try_for_each(|at| page.group_file(*at))
}

fn keep_only_paths(page: &mut Page<'_>, entries: &[usize]) -> FitFlow {
    entries.iter().try_for_each(|at| page.keep_only_path(*at))
}

/// Reduces the front matter to the lines with these keys.
pub(super) fn reduce_front_matter(page: &mut Page<'_>, keys: &[&str]) -> FitFlow {
    let line = |key: &&str| {
        let found = page.front_matter.text.lines().find(|line| line.starts_with(key));
        found.filter(|line| line.len() <= 160).map(|line| format!("{}\n", line.trim_end()))
    };
    let kept: String = keys.iter().filter_map(line).collect();
    let new = if kept.is_empty() { String::new() } else { format!("---\n{kept}---\n") };
    if new.len() < page.front_matter.text.len() {
        page.set_front_matter(new);
    }
    page.stop_if_fits()
}

pub(super) fn parts_of_kind(page: &Page<'_>, kind: SectionKind) -> Vec<usize> {
    let all = page.parts.iter().enumerate();
    all.filter(|(_, part)| part.kind == kind).map(|(at, _)| at).collect()
}
