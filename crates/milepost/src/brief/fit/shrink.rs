//! The second demotion sequence, for budgets that are too small for the sections that must be kept. Joins
//! lines, drops the reasons of decisions, then removes the most expensive lines, and marks the page as
//! shrunk. Reaches any budget of 60 tokens or more.

use std::cmp::Reverse;
use std::ops::ControlFlow;

use super::super::blocks::{Block, Granularity, split_blocks};
use super::super::{Brief, QUARTERS_PER_TOKEN, SECTION_ORDER, SectionKind};
use super::demote::{entries_with_rank, parts_of_kind, reduce_front_matter, remove_entries, shorten_entries};
use super::entry::{Entry, Shortening};
use super::notice::NoticeDetail;
use super::page::Page;
use super::{FitFlow, Rank, build_page};

/// The sections that must be kept, in the order they are split.
fn kept_sections() -> impl Iterator<Item = SectionKind> {
    SECTION_ORDER.into_iter().filter(|kind| kind.must_keep())
}

/// Sections whose first line is removed after everything else, in this order.
const REMOVED_LAST: [SectionKind; 4] =
    [SectionKind::Intent, SectionKind::State, SectionKind::Next, SectionKind::Problem];
/// Maximum cost counted for a sentence of the problem or the intent.
const SENTENCE_QUARTERS: u64 = 16 * QUARTERS_PER_TOKEN;

pub(super) fn shrink_until_fits<'a>(page: &mut Page<'a>, brief: &'a Brief) -> FitFlow {
    page.notice_detail = NoticeDetail::BriefShrunk;
    for part in parts_of_kind(page, SectionKind::LeftOut) {
        page.clear_verbatim(part);
    }
    split_kept_sections(page, brief)?;
    reduce_front_matter(page, &["checkpoint:"])?;
    reduce_front_matter(page, &[])?;
    join_lines(page)?;
    page.count_all_entries();
    drop_reasons(page)?;
    page.notice_detail = NoticeDetail::Minimal;
    remove_costliest_lines(page)?;
    for kind in REMOVED_LAST {
        let lines = entries_with_rank(page, |rank| rank == Rank::MustKeep(kind));
        shorten_entries(page, &lines, &[Shortening::FirstClause, Shortening::FirstWords])?;
        remove_entries(page, &lines)?;
    }
    page.stop_if_fits()
}

/// Joins the lines of each section under a one-word heading, which parses as the same section.
fn join_lines(page: &mut Page<'_>) -> FitFlow {
    for kind in kept_sections() {
        parts_of_kind(page, kind).into_iter().for_each(|part| page.compact_part(part));
    }
    page.stop_if_fits()
}

/// Splits every section that must be kept into lines; drops empty lines and comments.
fn split_kept_sections<'a>(page: &mut Page<'a>, brief: &'a Brief) -> FitFlow {
    for kind in kept_sections() {
        let sections = brief.sections().iter().filter(|section| section.kind == kind);
        for (section, part) in sections.zip(parts_of_kind(page, kind)) {
            page.clear_verbatim(part);
            for (block, source) in split_blocks(brief.content(section), Granularity::Lines) {
                if (block.has_content() || block == Block::Heading) && !source.trim().is_empty() {
                    build_page::split_lines(block, source, &mut |text| {
                        page.add_entry(Entry::from_line(part, Rank::MustKeep(kind), text))
                    });
                }
            }
        }
        page.stop_if_fits()?;
    }
    ControlFlow::Continue(())
}

/// Drops the reasons of decisions, longest first; the full brief still contains them.
fn drop_reasons(page: &mut Page<'_>) -> FitFlow {
    let decisions = entries_with_rank(page, |rank| rank == Rank::MustKeep(SectionKind::Decisions));
    let mut reasons: Vec<_> =
        decisions.into_iter().map(|at| (page.savings(at, Shortening::FirstClause), at)).collect();
    reasons.sort_by_key(|(saved, at)| (Reverse(*saved), *at));
    let decisions: Vec<_> = reasons.into_iter().map(|(_, at)| at).collect();
    shorten_entries(page, &decisions, &[Shortening::FirstClause])
}

/// Removes whole lines, most expensive first: half a line costs as much as a short one and says less. The
/// cost of a sentence of the problem or the intent is capped, because a long sentence makes several
/// statements. Lines of the state and rules count as cheaper than they are, files as more expensive. Skips
/// the first line of each section in `REMOVED_LAST`.
fn remove_costliest_lines(page: &mut Page<'_>) -> FitFlow {
    let mut lines: Vec<(u64, usize)> = Vec::new();
    for kind in kept_sections() {
        let all = entries_with_rank(page, |rank| rank == Rank::MustKeep(kind));
        let rest = all.iter().skip(usize::from(REMOVED_LAST.contains(&kind)));
        lines.extend(rest.map(|at| {
            let cost = page.cost(*at);
            let price = match kind {
                SectionKind::Problem | SectionKind::Intent => cost.min(SENTENCE_QUARTERS) * 10,
                SectionKind::State => cost * 9,
                SectionKind::Rules => cost * 7,
                _ => cost * 10,
            };
            (price, *at)
        }));
    }
    let files = entries_with_rank(page, |rank| matches!(rank, Rank::Artifact { .. }));
    lines.extend(files.iter().map(|at| (page.cost(*at) * 20, *at)));
    lines.sort_by_key(|(price, at)| (Reverse(*price), *at));
    lines.into_iter().try_for_each(|(_, at)| page.remove_entry(at))
}
