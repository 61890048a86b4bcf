//! Decides when to make a checkpoint: which changes are saved immediately, with what source and reason, and
//! whether an interval has passed. Also provides the timers. Takes changes, times and intervals; does not
//! access the store or the workspace.

mod timer;

use std::time::Duration;

use jiff::Timestamp;

pub use timer::{Timer, TimerError};

use crate::clock;
use crate::model::{Change, Item, Source, StepStatus, TaskStatus};

/// Recommended interval between auto-saves of cheap state.
pub const AUTOSAVE: Duration = Duration::from_secs(30);
/// Recommended interval between heartbeats while work is in progress.
pub const HEARTBEAT: Duration = Duration::from_secs(120);

/// Why a change is saved immediately.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Boundary {
    /// What triggered the checkpoint.
    pub source: Source,
    /// The reason, in addition to the source.
    pub reason: &'static str,
}

/// Returns the boundary if a change triggers a checkpoint immediately. Any other change is stored durably and
/// waits for the next checkpoint.
pub fn boundary(change: &Change) -> Option<Boundary> {
    let step = |reason| Some(Boundary { source: Source::StepBoundary, reason });
    let error = |reason| Some(Boundary { source: Source::ErrorBoundary, reason });
    match change {
        Change::Step(change) => match change.status {
            StepStatus::Pending => None,
            StepStatus::InProgress => step("step_begin"),
            StepStatus::Done => step("step_done"),
            StepStatus::Failed => step("step_failed"),
            StepStatus::Skipped => step("step_skipped"),
        },
        Change::Task(change) => match change.status {
            TaskStatus::Pending | TaskStatus::InProgress | TaskStatus::Interrupted => None,
            TaskStatus::Done | TaskStatus::Completed => step("task_done"),
            TaskStatus::Skipped => step("task_skipped"),
            TaskStatus::Failed => error("task_failed"),
        },
        // A complete task from the caller: its own status counts first, then the status of its subtasks.
        Change::Item(Item::Task(task)) => {
            let subtasks = task.subtasks();
            let ended = std::iter::once(task).chain(&subtasks).find(|task| task.has_ended())?;
            match (ended.is_failed(), ended.is_completed()) {
                (true, _) => error("task_failed"),
                (_, true) => step("task_done"),
                _ => step("task_skipped"),
            }
        }
        _ => None,
    }
}

/// Whether an interval has passed since `last`. Returns `true` if the clock went backwards.
pub fn is_due(last: Timestamp, interval: Duration, now: Timestamp) -> bool {
    clock::age(last, now).is_none_or(|age| age >= interval)
}
