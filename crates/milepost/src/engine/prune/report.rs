//! Prune: its options, and the report of what it did or would do. Holds data only; decides and changes
//! nothing.

use derive_getters::Getters;
use jiff::Timestamp;
use serde::Serialize;

use crate::Error;
use crate::model::{CheckpointId, RunId, RunRecord, closed_enum};
use crate::retain::Reason;
use crate::store::RetentionEntry;

options! {
    /// What to prune, according to the engine's settings.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub struct PruneOptions {
        /// Prunes only this run, and ignores the store's size limit.
        pub(crate) run: Option<RunId>,
        /// Only plans, and changes nothing.
        pub(crate) dry_run: bool,
    }
}

closed_enum! {
    /// What happens to a checkpoint.
    pub enum PruneAction {
        /// It is kept unchanged.
        Keep = "keep",
        /// It is kept and compressed.
        Compress = "compress",
        /// It is removed.
        Remove = "remove",
    }
}

/// What happens to one checkpoint, and why.
#[derive(Getters, Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PruneStep {
    /// The checkpoint id.
    pub(crate) snapshot_id: CheckpointId,
    /// The run id.
    pub(crate) run_id: RunId,
    /// The sequence number within the run.
    pub(crate) sequence: u64,
    /// When it was saved.
    #[getter(copy)]
    pub(crate) created_at: Timestamp,
    /// What happens to it.
    #[getter(copy)]
    pub(crate) action: PruneAction,
    /// The reasons; never empty.
    pub(crate) reasons: Vec<Reason>,
    /// Bytes that it occupies in the store.
    pub(crate) bytes: u64,
}

/// An operation that failed.
#[derive(Getters, Debug, Serialize)]
pub struct PruneFailure {
    /// The run concerned; `None` if the failure does not concern a single run.
    pub(crate) run_id: Option<RunId>,
    /// The error.
    #[serde(flatten)]
    pub(crate) error: Error,
}

/// What was pruned, or would be pruned.
#[derive(Getters, Debug, Default, Serialize)]
pub struct PruneReport {
    /// Number of removed checkpoints.
    pub(crate) removed: u64,
    /// Number of compressed checkpoints.
    pub(crate) compressed: u64,
    /// Number of kept checkpoints, compressed or not.
    pub(crate) kept: u64,
    /// Bytes freed; in a dry run, the bytes that the checkpoints to remove occupy.
    pub(crate) bytes_freed: u64,
    /// All readable checkpoints, run by run, least recently written run first.
    pub(crate) plan: Vec<PruneStep>,
    /// Whether this was a dry run.
    pub(crate) dry_run: bool,
    /// Runs that were removed completely.
    pub(crate) runs_removed: Vec<RunId>,
    /// Operations that failed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) failed: Vec<PruneFailure>,
    /// The store's size in bytes, if it still exceeds the limit and no more ended runs can be reduced.
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

/// Bytes that a step frees. What compression saves is not known in advance.
pub(super) fn bytes_freed(step: &PruneStep) -> u64 {
    if step.action == PruneAction::Remove { step.bytes } else { 0 }
}

/// Creates a step for a checkpoint, without reasons.
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
