//! A task under way: its end is ended, or it was interrupted.

use std::fmt::Display;

use serde::Serialize;

use super::{Run, shortened};
use crate::Error;
use crate::engine::{Save, Saved};
use crate::model::{Change, TaskChange, TaskStatus};

/// A task that has begun. Dropped without a word it is `interrupted`, and begins anew next time.
#[derive(Debug)]
#[must_use = "a task whose guard is dropped was interrupted"]
pub struct TaskGuard {
    run: Run,
    task: String,
    ended: bool,
}

impl TaskGuard {
    pub(super) fn begin(run: Run, task: &str) -> Result<Self, Error> {
        run.change(TaskChange::new(task, TaskStatus::InProgress))?;
        Ok(Self { run, task: task.to_owned(), ended: false })
    }

    /// The task's id.
    pub fn id(&self) -> &str {
        &self.task
    }

    /// The task is done: a checkpoint, with what was last put.
    pub fn complete(self) -> Result<Saved, Error> {
        self.end(TaskStatus::Done, Save::new())
    }

    /// The task is done and this is the state now: both in one transaction, or neither.
    pub fn complete_with<T: Serialize + ?Sized>(self, state: &T) -> Result<Saved, Error> {
        let mut save = Save::new();
        // Its own, since another thread may put another before this is saved.
        save.draft.state = Some(self.run.put_raw(state)?);
        self.end(TaskStatus::Done, save)
    }

    /// The task has failed: a checkpoint, and the reason in the log.
    pub fn fail(self, why: &(impl Display + ?Sized)) -> Result<Saved, Error> {
        let note = Change::Note(format!("task {} failed: {}", self.task, shortened(why)));
        self.end(TaskStatus::Failed, Save::new().change(note))
    }

    /// The task is left out: a checkpoint.
    pub fn skip(self) -> Result<Saved, Error> {
        self.end(TaskStatus::Skipped, Save::new())
    }

    fn end(mut self, status: TaskStatus, save: Save) -> Result<Saved, Error> {
        // Whatever the store says now, the work has ended: it is not interrupted.
        self.ended = true;
        let change = Change::Task(TaskChange::new(&self.task, status));
        let saved = self.run.change_with(change, save)?;
        saved.ok_or_else(|| Error::Store(crate::store::StoreError::Rules("an end is a checkpoint")))
    }
}

impl Drop for TaskGuard {
    fn drop(&mut self) {
        if !self.ended {
            // Where it cannot be written the task stays in progress, which says the same to whoever rejoins.
            let _ = self.run.change(TaskChange::new(&self.task, TaskStatus::Interrupted));
        }
    }
}
