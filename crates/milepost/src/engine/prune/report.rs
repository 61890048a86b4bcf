//! What prune is asked for, and what it says it has done or would do.

use derive_getters::Getters;
use jiff::Timestamp;
use serde::Serialize;

use crate::Error;
use crate::model::{CheckpointId, RunId, RunRecord, closed_enum};
use crate::retain::Reason;
use crate::store::RetentionEntry;

options! {
    /// What to prune, by the engine's settings.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub struct PruneOptions {
        /// Only this run; the store's size is then left alone.
        pub(crate) run: Option<RunId>,
        /// Whether to plan alone and change nothing.
        pub(crate) dry_run: bool,
    }
}

closed_enum! {
    /// What becomes of a checkpoint.
    pub enum PruneAction {
        /// It stays as it is.
        Keep = "keep",
        /// It stays, compressed.
        Compress = "compress",
        /// It goes.
        Remove = "remove",
    }
}

/// What becomes of one checkpoint, and why.
#[derive(Getters, Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PruneStep {
    /// Its id.
    pub(crate) snapshot_id: CheckpointId,
    /// Its run.
    pub(crate) run_id: RunId,
    /// Its number within the run.
    pub(crate) sequence: u64,
    /// When it was made.
    #[getter(copy)]
    pub(crate) created_at: Timestamp,
    /// What becomes of it.
    #[getter(copy)]
    pub(crate) action: PruneAction,
    /// Why; never empty.
    pub(crate) reasons: Vec<Reason>,
    /// Bytes that the store holds for it.
    pub(crate) bytes: u64,
}

/// Something that could not be done.
#[derive(Getters, Debug, Serialize)]
pub struct PruneFailure {
    /// In which run; `None` where it is no matter of one run.
    pub(crate) run_id: Option<RunId>,
    /// Why.
    #[serde(flatten)]
    pub(crate) error: Error,
}

/// What was done, or would be.
#[derive(Getters, Debug, Default, Serialize)]
pub struct PruneReport {
    /// How many checkpoints went.
    pub(crate) removed: u64,
    /// How many were compressed.
    pub(crate) compressed: u64,
    /// How many stay, compressed or not.
    pub(crate) kept: u64,
    /// Bytes that came back; in a plan, what the store holds for what goes.
    pub(crate) bytes_freed: u64,
    /// Every checkpoint that could be read, run by run, oldest write first.
    pub(crate) plan: Vec<PruneStep>,
    /// Whether nothing was changed.
    pub(crate) dry_run: bool,
    /// Runs that went as a whole.
    pub(crate) runs_removed: Vec<RunId>,
    /// What could not be done.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) failed: Vec<PruneFailure>,
    /// Bytes that the store takes, where that is still more than it may and no ended run is left to go.
    #[getter(copy)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) too_large: Option<u64>,
}

impl PruneReport {
    pub(super) fn add_failures(&mut self, run: &RunId, errors: Vec<Error>) {
        let failures = errors.into_iter().map(|error| PruneFailure { run_id: Some(run.clone()), error });
        self.failed.extend(failures);
    }
}

/// Bytes that come back with a step; what compression wins is not known before.
pub(super) fn bytes_freed(step: &PruneStep) -> u64 {
    if step.action == PruneAction::Remove { step.bytes } else { 0 }
}

/// A step about a checkpoint, without its reasons.
pub(super) fn step_for(record: &RunRecord, entry: &RetentionEntry, action: PruneAction) -> PruneStep {
    PruneStep {
        run_id: record.run_id.clone(),
        sequence: entry.sequence,
        snapshot_id: entry.snapshot_id.clone(),
        created_at: entry.created_at,
        action,
        reasons: Vec::new(),
        bytes: entry.bytes,
    }
}
