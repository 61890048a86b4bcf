//! Due: decides whether a timer's interval has passed since a run was last saved or confirmed. Writes
//! nothing.

use jiff::Timestamp;

use super::Milepost;
use crate::model::{Profile, RunId};
use crate::store::{CheckpointEntry, Row, StoredRun};
use crate::{Error, trigger};

/// Whether a timer's interval has passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// The run has no checkpoint yet.
    First,
    /// The interval has passed.
    Yes,
    /// The interval has not passed.
    No,
}

impl Due {
    /// Whether the interval has passed since the newest checkpoint of a run was saved or confirmed.
    pub(super) fn of(newest: Option<&CheckpointEntry>, profile: Profile, now: Timestamp) -> Self {
        let (Some(CheckpointEntry { header, marks }), Some(interval)) = (newest, profile.interval()) else {
            return Self::Yes;
        };
        let last = marks.refreshed_at.map_or(header.created_at, |at| at.max(header.created_at));
        if trigger::is_due(last, interval, now) { Self::Yes } else { Self::No }
    }
}

impl Milepost {
    /// Returns whether a timer save is due, according to `profile`, or the run's own profile if `None`. A
    /// save is also due if the clock went backwards.
    pub fn is_due(&self, run: &RunId, profile: Option<Profile>) -> Result<bool, Error> {
        Ok(self.due(run, profile)? != Due::No)
    }

    /// Like `is_due`, but distinguishes the first checkpoint.
    #[cfg_attr(feature = "internal", visibility::make(pub))]
    pub(crate) fn due(&self, run: &RunId, profile: Option<Profile>) -> Result<Due, Error> {
        Ok(self.due_for(self.store.run(run)?.as_ref(), profile))
    }

    /// Like `due`, for a run that was already read.
    pub(super) fn due_for(&self, stored: Option<&StoredRun>, profile: Option<Profile>) -> Due {
        let Some(row) = stored.map(|stored| &stored.row).filter(|row| row.count > 0) else {
            return Due::First;
        };
        let recorded = row.record.as_ref().ok().map(|record| record.profile);
        let profile = profile.or(recorded).or(self.settings.profile).unwrap_or(Profile::Run);
        Due::of(row.latest.clone().and_then(Row::intact).as_ref(), profile, self.now())
    }
}
