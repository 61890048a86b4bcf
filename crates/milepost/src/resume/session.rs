//! Decisions about the runs of agents' sessions, as pure functions: what a new session does with another run, what an
//! interruption leaves in the run, and the status in which a session ends.

use std::time::Duration;

use jiff::Timestamp;

use super::{ResumeDecision, RunState};
use crate::clock;
use crate::model::{InterruptionKind, RunRecord, Status};

/// Runs that were written longer ago are listed, not offered in full.
const OFFERED_FOR: Duration = Duration::from_secs(48 * 3600);

/// What a new session does with another run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SessionOffer {
    /// Nothing.
    Ignore,
    /// Removes it: its session was killed before anything happened in it.
    Remove,
    /// Names it to the user, who may continue it.
    List,
    /// Continues it, if it is the only one of this kind.
    Continue,
}

/// Decides what a new session in a worktree and on a branch does with a run of so many checkpoints.
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
    // A run by hand may still be somebody's, and a supervised command is started again by `rerun`.
    match stopped && record.command.is_none() && same_workspace && is_recent {
        true => SessionOffer::Continue,
        false => SessionOffer::List,
    }
}

/// What an interruption leaves in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InterruptionStep {
    /// A checkpoint with the interruption.
    Save,
    /// The interruption in the run's record.
    Record,
    /// Nothing: the record has it already.
    Nothing,
}

/// Decides about an interruption. A turn that ends is ordinary: it makes a checkpoint only if one is due.
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

/// The status of a run whose session has ended: work that is left keeps it open.
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
