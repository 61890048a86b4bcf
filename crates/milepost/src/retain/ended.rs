//! Which runs may lose more than their own rules say: those that ended long ago go as a whole where the user asks for it,
//! and the oldest ended ones of a store that is too large keep the least that a run keeps.

use std::time::Duration;

use jiff::Timestamp;

use crate::clock;
use crate::model::{Retention, RunRecord};

/// Facts about a run that might be removed or reduced.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EndedRun<'a> {
    /// Its record.
    pub record: &'a RunRecord,
    /// What it keeps.
    pub retention: &'a Retention,
    /// Whether nothing in the store was written after it: then it stays, whatever the clock says.
    pub last_written: bool,
    /// Whether its owner is known to be alive.
    pub owner_alive: bool,
    /// Whether one of its checkpoints is pinned or tagged.
    pub protected: bool,
}

impl EndedRun<'_> {
    /// Whether it may be removed as a whole, or reduced.
    pub(crate) fn is_removable(&self) -> bool {
        !self.record.is_open()
            && !self.last_written
            && !self.owner_alive
            && !self.protected
            && !self.retention.keeps_everything()
    }

    /// Whether it may be removed and ended longer ago than `limit`.
    pub(crate) fn has_expired(&self, limit: Duration, now: Timestamp) -> bool {
        let ended = self.record.ended_at.unwrap_or(self.record.updated_at);
        let age = clock::age(ended, now);
        self.is_removable() && age.is_some_and(|age| age > limit)
    }
}
