//! Removes the oldest checkpoints of a run in the commit that adds new ones, so that the cost does not grow with the
//! history.

use jiff::Timestamp;

use super::super::Settings;
use crate::model::CheckpointId;
use crate::retain::{self, RunFacts};
use crate::store::{CheckpointEntry, Commit, RetentionEntry};

/// The checkpoints of a run after a commit.
pub(in crate::engine) struct RunAfterCommit {
    /// How many there are.
    pub(in crate::engine) count: u64,
    /// The sequence number of the newest one.
    pub(in crate::engine) newest: u64,
    /// When it was saved.
    pub(in crate::engine) at: Timestamp,
}

/// Adds to the commit the removal of each of the oldest few checkpoints that retention no longer keeps. Returns their
/// ids.
pub(in crate::engine) fn drop_oldest(
    commit: &mut Commit,
    oldest: &[CheckpointEntry],
    after: &RunAfterCommit,
    settings: &Settings,
) -> Vec<CheckpointId> {
    let record = &commit.record;
    let facts = RunFacts {
        count: after.count,
        newest: after.newest,
        newest_at: Some(after.at),
        latest_failed: record.latest_failed,
        latest_completed: record.latest_completed,
        latest_state: record.latest_state,
        latest_capture: record.captures.latest,
    };
    let retention = settings.retention(record.profile);
    let oldest: Vec<_> = oldest.iter().map(RetentionEntry::of).collect();
    let plan = retain::plan(&facts, &oldest, &retention, after.at);
    let removed = oldest.into_iter().zip(plan).filter(|(_, planned)| !planned.keep);
    let (drops, ids) = removed.map(|(entry, _)| (entry.sequence, entry.snapshot_id)).unzip();
    commit.drops = drops;
    ids
}
