//! What prune is asked for, and what it says it has done or would do.

use jiff::Timestamp;

use crate::Error;
use crate::model::{CheckpointId, RunId, RunRecord, closed_enum};
use crate::retain::Reason;
use crate::store::RetentionEntry;

/// What to prune, by the engine's settings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PruneOptions {
    /// Only this run; the store's size is then left alone.
    pub run: Option<RunId>,
    /// Whether to plan alone and change nothing.
    pub dry_run: bool,
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
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PruneStep {
    /// Its run.
    pub run_id: RunId,
    /// Its number within the run.
    pub sequence: u64,
    /// Its id.
    pub snapshot_id: CheckpointId,
    /// When it was made.
    pub created_at: Timestamp,
    /// What becomes of it.
    pub action: PruneAction,
    /// Why; never empty.
    pub reasons: Vec<Reason>,
    /// Bytes that the store holds for it.
    pub bytes: u64,
}

/// Something that could not be done.
#[derive(Debug)]
pub struct PruneFailure {
    /// In which run; `None` where it is no matter of one run.
    pub run_id: Option<RunId>,
    /// Why.
    pub error: Error,
}

/// What was done, or would be.
#[derive(Debug, Default)]
pub struct PruneReport {
    /// Whether nothing was changed.
    pub dry_run: bool,
    /// How many checkpoints went.
    pub removed: u64,
    /// How many were compressed.
    pub compressed: u64,
    /// How many stay, compressed or not.
    pub kept: u64,
    /// Runs that went as a whole.
    pub runs_removed: Vec<RunId>,
    /// Bytes that came back; in a plan, what the store holds for what goes.
    pub bytes_freed: u64,
    /// Every checkpoint that could be read, run by run, oldest write first.
    pub plan: Vec<PruneStep>,
    /// What could not be done.
    pub failed: Vec<PruneFailure>,
    /// Bytes that the store takes, where that is still more than it may and no ended run is left to go.
    pub too_large: Option<u64>,
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
