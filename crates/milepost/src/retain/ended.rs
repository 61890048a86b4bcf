//! Decides which ended runs may lose more than their own retention rules allow. Runs that ended long ago are
//! removed completely if the user requests it. In a store that is too large, the oldest ended runs are
//! reduced to the minimum.

use std::time::Duration;

use jiff::Timestamp;

use crate::clock;
use crate::model::{Retention, RunRecord};

/// Facts about a run that might be removed or reduced.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EndedRun<'a> {
    /// The run's record.
    pub record: &'a RunRecord,
    /// The run's retention rules.
    pub retention: &'a Retention,
    /// Whether it is the run that was written last, which is kept regardless of the clock.
    pub last_written: bool,
    /// Whether its owner is known to be alive.
    pub owner_alive: bool,
    /// Whether one of its checkpoints is pinned or tagged.
    pub protected: bool,
}

impl EndedRun<'_> {
    /// Whether it may be removed completely or reduced.
    pub(crate) fn is_removable(&self) -> bool {
        !self.record.is_open()
            && !self.last_written
            && !self.owner_alive
            && !self.protected
            && !self.retention.keeps_everything()
    }

    /// Whether it may be removed because it ended longer ago than `limit`.
    pub(crate) fn has_expired(&self, limit: Duration, now: Timestamp) -> bool {
        let ended = self.record.ended_at.unwrap_or(self.record.updated_at);
        let age = clock::age(ended, now);
        self.is_removable() && age.is_some_and(|age| age > limit)
    }
}
