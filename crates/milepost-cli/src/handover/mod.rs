//! What a person or an agent needs to continue a run: what it was doing, why it stopped, what comes next, and
//! the brief. Takes an assessed run and returns facts and text within a size limit. Reads the current
//! workspace and changes nothing.

mod overview;
mod wrap;

use std::path::PathBuf;

use milepost::Milepost;
use milepost::brief::{Brief, FitOptions, FittedBrief, Overflow};
use milepost::internal::brief::{BriefLimit, TokenCounter};
use milepost::internal::engine::RunAssessment;

pub(crate) use self::overview::{Overview, distance, workspace};
#[cfg(feature = "mcp")]
pub(crate) use self::wrap::between_markers;
pub(crate) use self::wrap::{RecordOrigin, wrapped};
use crate::context::Context;
use crate::error::Result;

/// Minimum token budget of a brief. A smaller budget has no room for anything useful.
const FEWEST: u64 = 60;

/// Tells an agent that earlier files can be brought back.
const FILES_LINE: &str = "Milepost stores changed files: `milepost restore prompt` goes back to before the newest \
prompt, `prompt~1` to before the previous one; `milepost undo` undoes that.\n";

/// The line about files for an agent; empty unless hooks store files and the store has some.
pub(crate) fn files_line(mp: &Milepost, context: &Context<'_>) -> &'static str {
    let capture = &context.config.capture;
    let has_files = || mp.store().blob_roots().is_ok_and(|roots| !roots.is_empty());
    if capture.capture && capture.files && has_files() { FILES_LINE } else { "" }
}

/// The folder a run works in. For a foreign run or store, this is the current project, not the recorded
/// folder.
pub(crate) fn root(from: &RunAssessment, context: &Context<'_>) -> PathBuf {
    let foreign = is_foreign(from) || context.foreign().is_some();
    let record = from.detail.summary().intact().filter(|_| !foreign);
    let recorded = record.and_then(|record| record.project().as_ref().or(record.worktree().as_ref()));
    recorded.map_or_else(|| context.config.paths.root.clone(), PathBuf::from)
}

/// Whether a run came from elsewhere: an import, a bundle or a copy.
pub(crate) fn is_foreign(from: &RunAssessment) -> bool {
    from.detail.summary().intact().is_some_and(|record| record.is_foreign())
}

/// The current brief of a run, within the limits. It shrinks rather than fails, because the reader needs at
/// least something. Only the shortest possible brief may exceed them.
pub(crate) fn brief(
    mp: &Milepost,
    from: &RunAssessment,
    context: &Context<'_>,
    limit: &BriefLimit,
) -> Result<FittedBrief> {
    let composed = mp.current_brief(from, Some(&root(from, context)), Some(limit))?;
    let show = format!("milepost brief show latest --run {}", from.detail.summary().run_id());
    let needed = TokenCounter::default().tokens(&composed);
    let mut budget = limit.tokens.unwrap_or(needed).max(FEWEST);
    let whole = Brief::parse(composed);
    loop {
        let how =
            FitOptions::default().budget(budget).overflow(Overflow::Shrink).full_command(Some(show.clone()));
        let fitted = whole.fit(&how).map_err(milepost::Error::from)?;
        if limit.fits(fitted.markdown()) || budget <= FEWEST {
            return Ok(fitted);
        }
        budget = (budget.min(needed) * 4 / 5).max(FEWEST);
    }
}

/// What an agent is given to continue a run: who speaks, the brief between markers, and whether files can be
/// restored, within the agent's limits.
pub(crate) fn text_for_agent(
    mp: &Milepost,
    from: &RunAssessment,
    overview: &Overview,
    context: &Context<'_>,
    limit: &BriefLimit,
) -> Result<String> {
    let origin = RecordOrigin::of(is_foreign(from));
    let head = overview.introduction();
    let frame = format!("{head}{}", wrapped("", origin));
    let brief = brief(mp, from, context, &limit.without(&frame))?;
    let text = format!("{head}{}", wrapped(brief.markdown(), origin));
    // What the user said and what is open matter more than this line.
    let with_files = format!("{text}{}", files_line(mp, context));
    Ok(if limit.fits(&with_files) { with_files } else { text })
}
