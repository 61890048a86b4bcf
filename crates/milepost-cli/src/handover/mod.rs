//! What a person or an agent needs to go on: what it was doing, why it stopped, what comes next, and the brief.
//! In: a run that was looked at. Out: facts, and text that fits. Reads the workspace as it is now; changes nothing.

mod overview;
mod wrap;

use std::path::PathBuf;

use milepost::Milepost;
use milepost::brief::{Brief, FitOptions, FittedBrief, Overflow};
use milepost::internal::engine::RunAssessment;

pub(crate) use self::overview::{Overview, distance, workspace};
#[cfg(feature = "mcp")]
pub(crate) use self::wrap::between_markers;
pub(crate) use self::wrap::{OVERHEAD, RecordOrigin, wrapped};
use crate::context::Context;
use crate::error::Result;

/// Fewer tokens than these hold nothing that is worth reading.
const FEWEST: u64 = 60;

/// Where the work of a run is. What a foreign run or store says about that is not followed: it is looked at here.
pub(crate) fn root(from: &RunAssessment, context: &Context<'_>) -> PathBuf {
    let foreign = is_foreign(from) || context.foreign().is_some();
    let record = from.detail.summary().intact().filter(|_| !foreign);
    let recorded = record.and_then(|record| record.project().as_ref().or(record.worktree().as_ref()));
    recorded.map_or_else(|| context.config.paths.root.clone(), PathBuf::from)
}

/// Whether a run came from elsewhere.
pub(crate) fn is_foreign(from: &RunAssessment) -> bool {
    from.detail.summary().intact().is_some_and(|record| record.is_foreign())
}

/// The brief of a run as it stands, within so many tokens and bytes. It shrinks rather than fails: who goes on must be
/// told something.
pub(crate) fn brief(
    mp: &Milepost,
    from: &RunAssessment,
    context: &Context<'_>,
    tokens: u64,
    bytes: usize,
) -> Result<FittedBrief> {
    let manifests = milepost::internal::capture::read_manifests(&root(from, context));
    let whole = Brief::parse(mp.current_brief(from, &manifests)?);
    let show = format!("milepost brief show latest --run {}", from.detail.summary().run_id());
    let mut budget = tokens.max(FEWEST);
    loop {
        let how =
            FitOptions::default().budget(budget).overflow(Overflow::Shrink).full_command(Some(show.clone()));
        let fitted = whole.fit(&how).map_err(milepost::Error::from)?;
        if fitted.markdown().len() <= bytes || budget <= FEWEST {
            return Ok(fitted);
        }
        // A token is seldom less than a byte; a few rounds are enough.
        budget = (budget * 4 / 5).max(FEWEST);
    }
}
