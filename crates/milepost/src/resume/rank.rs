//! The order in which runs are offered for resuming. Takes a run's record and the decision about it, and
//! returns a value to sort by. Pure.

use std::cmp::Reverse;
use std::time::Duration;

use jiff::Timestamp;

use super::{ResumeDecision, RunState};
use crate::clock;
use crate::model::{InterruptionKind, RunRecord};

/// Maximum age of an interruption that counts as recent.
pub(crate) const RECENT: Duration = Duration::from_secs(48 * 3600);
/// Maximum age of an interruption that counts if there is no recent one.
pub(crate) const LAST_WEEK: Duration = Duration::from_secs(7 * 24 * 3600);

/// How long ago a run was interrupted. Runs opened by hand have no owner that could have been interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Age {
    Recent,
    LastWeek,
    Older,
    OpenedByHand,
}

/// How urgent it is to continue a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Urgency {
    OwnerDied,
    ErrorOrLimit,
    InterruptedByUser,
    Paused,
}

/// The position of a run among those that may be continued. The lowest is offered first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ResumeRank {
    is_foreign: bool,
    is_elsewhere: bool,
    age: Age,
    urgency: Urgency,
    newest: Reverse<Timestamp>,
}

impl ResumeRank {
    /// Ranks a run for a caller in a worktree of a machine: runs of this worktree first, then by age, by urgency, and the
    /// newest first.
    pub(crate) fn of(
        record: &RunRecord,
        decision: &ResumeDecision,
        (worktree, host): (Option<&str>, Option<&str>),
        now: Timestamp,
    ) -> Self {
        let age = clock::age(record.updated_at, now);
        let age = match decision.run_state {
            RunState::Open => Age::OpenedByHand,
            _ if age.is_none_or(|age| age < RECENT) => Age::Recent,
            _ if age.is_none_or(|age| age < LAST_WEEK) => Age::LastWeek,
            _ => Age::Older,
        };
        let urgency = match decision.class {
            InterruptionKind::ProcessCrash => Urgency::OwnerDied,
            InterruptionKind::Interrupted | InterruptionKind::WaitingForUser => Urgency::InterruptedByUser,
            InterruptionKind::CleanStop => Urgency::Paused,
            _ => Urgency::ErrorOrLimit,
        };
        Self {
            is_foreign: record.is_foreign(),
            is_elsewhere: worktree.is_some_and(|worktree| !record.works_in(worktree, host)),
            age,
            urgency,
            newest: Reverse(record.updated_at),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ReasonCode;
    use crate::model::Profile;

    fn ranked(mut runs: Vec<(&'static str, RunState, InterruptionKind, i64, &str)>) -> Vec<&'static str> {
        let now: Timestamp = "2026-01-10T00:00:00Z".parse().unwrap();
        runs.sort_by_key(|(name, run_state, class, hours, folder)| {
            let at = now - jiff::SignedDuration::from_hours(*hours);
            let mut record = RunRecord::new(name.parse().unwrap(), Profile::Run, at);
            record.worktree = Some((*folder).to_owned());
            let reason_code = ReasonCode::ResumeAllowed;
            let decision =
                ResumeDecision { reason_code, class: *class, run_state: *run_state, eligible: true };
            ResumeRank::of(&record, &decision, (Some("/here"), None), now)
        });
        runs.into_iter().map(|(name, ..)| name).collect()
    }

    #[test]
    fn runs_are_ranked_by_place_age_and_urgency() {
        use InterruptionKind::{CleanStop, ProcessCrash, UsageLimit, WaitingForUser};
        use RunState::{Open, Stopped};
        let order = [
            ("crash", Stopped, ProcessCrash, 30, "/here"),
            ("older-crash", Stopped, ProcessCrash, 40, "/here"),
            ("limit", Stopped, UsageLimit, 1, "/here"),
            ("waiting", Stopped, WaitingForUser, 2, "/here"),
            ("paused", Stopped, CleanStop, 0, "/here"),
            ("last-week", Stopped, ProcessCrash, 100, "/here"),
            ("old", Stopped, ProcessCrash, 400, "/here"),
            ("note", Open, CleanStop, 0, "/here"),
            ("elsewhere", Stopped, ProcessCrash, 0, "/there"),
        ];
        let names: Vec<_> = order.iter().map(|(name, ..)| *name).collect();
        let mut shuffled = order.to_vec();
        shuffled.reverse();
        shuffled.swap(1, 5);
        assert_eq!(ranked(shuffled), names);
    }
}
