//! When a checkpoint is made: which changes save at once and as what, whether an interval has passed, and the timers.
//! In: changes, times, intervals. Out: a source with its reason, yes or no, ticks. Touches no store and no workspace.

mod timer;

use std::time::Duration;

use jiff::Timestamp;

pub use timer::{Timer, TimerError};

use crate::clock;
use crate::model::{Change, Item, Source, StepStatus, TaskStatus};

/// How often an auto-save of cheap state is recommended.
pub const AUTOSAVE: Duration = Duration::from_secs(30);
/// How often a heartbeat is recommended while work is in progress.
pub const HEARTBEAT: Duration = Duration::from_secs(120);

/// Why a change is saved at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Boundary {
    /// What made the checkpoint happen.
    pub source: Source,
    /// Why, beside the source.
    pub reason: &'static str,
}

/// Whether a change is a boundary, and so a checkpoint at once; other changes wait for the next one, durable on their own.
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
        // A whole task, as the caller has it: what it says of itself counts, then what its subtasks say.
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

/// Whether an interval has passed since `last`. A clock that went back says nothing, and so it is due.
pub fn is_due(last: Timestamp, interval: Duration, now: Timestamp) -> bool {
    clock::age(last, now).is_none_or(|age| age >= interval)
}
