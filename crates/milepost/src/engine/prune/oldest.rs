//! Removes the oldest checkpoints of a run in the commit that adds new ones, so that the cost does not grow with the
//! history.

use jiff::Timestamp;

use super::super::Settings;
use crate::clock;
use crate::model::{CheckpointId, KeepCount};
use crate::retain::{self, RunFacts};
use crate::store::{CheckpointEntry, Commit, RetentionEntry, RunView};

/// The checkpoints of a run after a commit.
pub(in crate::engine) struct RunAfterCommit {
    /// How many there are.
    pub(in crate::engine) count: u64,
    /// The sequence number of the newest one.
    pub(in crate::engine) newest: u64,
    /// When it was saved.
    pub(in crate::engine) at: Timestamp,
}

/// Whether retention may no longer keep one of the oldest checkpoints once a run has one more. If not, they need not be
/// read.
pub(in crate::engine) fn may_drop(view: &RunView, now: Timestamp, settings: &Settings) -> bool {
    let Some(record) = &view.record else { return true };
    let retention = settings.retention(record.profile);
    let is_beyond_last = match retention.keep_last {
        KeepCount::Last(n) => view.count + 1 > n,
        KeepCount::All => false,
    };
    // Unless a clock was wrong, no checkpoint is older than its run. `prune` looks at each checkpoint.
    let age = clock::age(record.started_at, now);
    is_beyond_last || retention.max_age.is_some_and(|limit| age.is_none_or(|age| age > limit))
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
