//! Decisions about the runs of agent sessions: what a new session does with another run, what an interruption
//! records in a run, and the status of a run whose session ends. Pure functions.

use jiff::Timestamp;

use super::rank::{LAST_WEEK, RECENT};
use super::{ResumeDecision, RunState};
use crate::clock;
use crate::model::{FileRef, InterruptionKind, Message, PathText, RunRecord, Status};

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
    /// Continues it, if it is the only one of this kind and no run stopped more recently.
    ContinueIfNoneNewer,
}

/// Decides what a new session in this worktree and on this branch does with another run.
pub(crate) fn offer(
    record: &RunRecord,
    checkpoints: u64,
    decision: &ResumeDecision,
    (worktree, branch, host): (&str, Option<&str>, Option<&str>),
    now: Timestamp,
) -> SessionOffer {
    let stopped = decision.run_state == RunState::Stopped;
    if stopped && checkpoints == 0 && record.agent.is_some() {
        let is_ours = record.host.as_deref().is_none_or(|machine| Some(machine) == host);
        return if is_ours { SessionOffer::Remove } else { SessionOffer::Ignore };
    }
    if !decision.eligible || !decision.run_state.is_stopped() {
        return SessionOffer::Ignore;
    }
    let same_workspace = record.works_in(worktree, host)
        && (record.branch.is_none() || branch.is_none() || record.branch.as_deref() == branch);
    // A run without an owner may still be in use, and a supervised command is restarted by `rerun`.
    if !(stopped && record.command.is_none() && same_workspace) {
        return SessionOffer::List;
    }
    match clock::age(record.updated_at, now) {
        Some(age) if age >= LAST_WEEK => SessionOffer::List,
        Some(age) if age >= RECENT => SessionOffer::ContinueIfNoneNewer,
        _ => SessionOffer::Continue,
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

/// The status of a run whose session has ended: paused if work is still open, otherwise completed. Work is
/// open if a task has not ended, a command failed and was not seen to succeed since, the agent did not reply
/// to the newest prompt or plan, its reply asks something or names open work, or files that it wrote are not
/// committed.
pub(crate) fn end_status(record: &RunRecord, newest: Option<&Message>, uncommitted: &[PathText]) -> Status {
    let working = &record.working;
    let has_open_task = working.tasks.iter().any(|task| !task.has_ended());
    let is_unanswered = match newest {
        Some(Message::Prompt { .. } | Message::Plan { .. }) => true,
        Some(Message::Reply { text, .. }) => names_open_work(text),
        _ => false,
    };
    let is_uncommitted = |file: &FileRef| uncommitted.iter().any(|path| path.key() == file.path);
    let is_open = has_open_task
        || is_unanswered
        || !working.failures.is_empty()
        || working.files.iter().any(is_uncommitted);
    if is_open { Status::Paused } else { Status::Completed }
}

/// Whether an agent's last message asks the user something, or says that work is left.
fn names_open_work(reply: &str) -> bool {
    const LEFT: [&str; 42] = [
        "remaining",
        "remains",
        "still open",
        "still to do",
        "still needs",
        "still fail",
        "todo",
        "to do:",
        "next step",
        "next up",
        "next:",
        "not yet",
        "left to do",
        "left:",
        "is left",
        "are left",
        "pending",
        "unfinished",
        "offen",
        "noch nicht",
        "es fehlt",
        "als nächstes",
        "reste",
        "il manque",
        "pas encore",
        "prochaine",
        "pendiente",
        "falta",
        "queda",
        "todavía",
        "próximo",
        "осталось",
        "остаётся",
        "ещё не",
        "残り",
        "残って",
        "まだ",
        "剩",
        "还没",
        "尚未",
        "남은",
        "아직",
    ];
    let reply = reply.trim().to_lowercase();
    reply.ends_with(['?', '？']) || LEFT.iter().any(|words| reply.contains(words))
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
