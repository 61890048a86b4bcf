//! Decisions about the runs of agent sessions: what a new session does with another run, what an interruption
//! records in a run, and the status of a run whose session ends. Pure functions.

use std::time::Duration;

use jiff::Timestamp;

use super::{ResumeDecision, RunState};
use crate::clock;
use crate::model::{InterruptionKind, RunRecord, Status};

/// Maximum age of a run that a new session continues; older ones are only listed.
const OFFERED_FOR: Duration = Duration::from_secs(48 * 3600);

/// What a new session does with another run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SessionOffer {
    /// Ignores it.
    Ignore,
    /// Removes it: its session was killed before it saved anything.
    Remove,
    /// Lists it for the user, who can continue it.
    List,
    /// Continues it, if it is the only one of this kind.
    Continue,
}

/// Decides what a new session in this worktree and on this branch does with another run.
pub(crate) fn offer(
    record: &RunRecord,
    checkpoints: u64,
    decision: &ResumeDecision,
    (worktree, branch): (&str, Option<&str>),
    now: Timestamp,
) -> SessionOffer {
    let stopped = decision.run_state == RunState::Stopped;
    if stopped && checkpoints == 0 && record.agent.is_some() {
        return SessionOffer::Remove;
    }
    if !decision.eligible || !decision.run_state.is_stopped() {
        return SessionOffer::Ignore;
    }
    let same_workspace = record.folder().is_some_and(|folder| folder == worktree)
        && (record.branch.is_none() || branch.is_none() || record.branch.as_deref() == branch);
    let is_recent = clock::age(record.updated_at, now).is_none_or(|age| age < OFFERED_FOR);
    // A run without an owner may still be in use, and a supervised command is restarted by `rerun`.
    match stopped && record.command.is_none() && same_workspace && is_recent {
        true => SessionOffer::Continue,
        false => SessionOffer::List,
    }
}

/// What an interruption records in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InterruptionStep {
    /// Saves a checkpoint with the interruption.
    Save,
    /// Sets the interruption in the run's record.
    Record,
    /// Does nothing, because the record already contains it.
    Nothing,
}

/// Decides what an interruption records. The end of a turn is routine and saves a checkpoint only if one is
/// due.
pub(crate) fn interruption_step(
    kind: InterruptionKind,
    recorded: Option<InterruptionKind>,
    has_checkpoint: bool,
    is_due: bool,
) -> InterruptionStep {
    if has_checkpoint && (is_due || kind != InterruptionKind::WaitingForUser) {
        InterruptionStep::Save
    } else if recorded == Some(kind) {
        InterruptionStep::Nothing
    } else {
        InterruptionStep::Record
    }
}

/// The status of a run whose session has ended: paused if a task is still open, otherwise completed.
pub(crate) fn end_status(record: Option<&RunRecord>) -> Status {
    let has_open_task =
        record.is_some_and(|record| record.working.tasks.iter().any(|task| !task.has_ended()));
    if has_open_task { Status::Paused } else { Status::Completed }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interruptions_save_where_there_is_something_to_save() {
        use InterruptionKind::{ApiError, WaitingForUser};
        for (kind, recorded, has_checkpoint, is_due, expected) in [
            (WaitingForUser, None, true, true, InterruptionStep::Save),
            (WaitingForUser, None, true, false, InterruptionStep::Record),
            (WaitingForUser, Some(WaitingForUser), true, false, InterruptionStep::Nothing),
            (WaitingForUser, Some(ApiError), true, false, InterruptionStep::Record),
            (ApiError, Some(ApiError), true, false, InterruptionStep::Save),
            (ApiError, None, false, true, InterruptionStep::Record),
        ] {
            assert_eq!(interruption_step(kind, recorded, has_checkpoint, is_due), expected, "{kind:?}");
        }
    }
}
