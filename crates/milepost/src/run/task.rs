//! A guard for a task in progress. The program ends the task through the guard; if it does not, the task
//! counts as interrupted.

use std::fmt::Display;

use serde::Serialize;

use super::{Run, shortened};
use crate::Error;
use crate::engine::{Save, Saved};
use crate::model::{Change, TaskChange, TaskStatus};

/// A task in progress. If the guard is dropped before the task ends, the task is `interrupted` and starts
/// over next time.
#[derive(Debug)]
#[must_use = "dropping the guard marks the task as interrupted"]
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

    /// The id of the task.
    pub fn id(&self) -> &str {
        &self.task
    }

    /// Marks the task as done and saves a checkpoint with the state last put.
    pub fn complete(self) -> Result<Saved, Error> {
        self.end(TaskStatus::Done, Save::new())
    }

    /// Marks the task as done and saves a checkpoint with this state, both in one transaction.
    pub fn complete_with<T: Serialize + ?Sized>(self, state: &T) -> Result<Saved, Error> {
        let mut save = Save::new();
        // Set on the save itself, because another thread may put a different state in the meantime.
        save.draft.state = Some(self.run.put_raw(state)?);
        self.end(TaskStatus::Done, save)
    }

    /// Marks the task as failed and saves a checkpoint, with the reason in the log.
    pub fn fail(self, why: &(impl Display + ?Sized)) -> Result<Saved, Error> {
        let note = Change::Note(format!("task {} failed: {}", self.task, shortened(why)));
        self.end(TaskStatus::Failed, Save::new().change(note))
    }

    /// Marks the task as skipped and saves a checkpoint.
    pub fn skip(self) -> Result<Saved, Error> {
        self.end(TaskStatus::Skipped, Save::new())
    }

    fn end(mut self, status: TaskStatus, save: Save) -> Result<Saved, Error> {
        // Even if the write fails, the work has ended and was not interrupted.
        self.ended = true;
        let change = Change::Task(TaskChange::new(&self.task, status));
        let saved = self.run.change_with(change, save)?;
        saved.ok_or_else(|| Error::Store(crate::store::StoreError::Rules("ended tasks need a checkpoint")))
    }
}

impl Drop for TaskGuard {
    fn drop(&mut self) {
        if !self.ended {
            // If the write fails, the task stays in progress, which means the same to a process that rejoins
            // the run.
            let _ = self.run.change(TaskChange::new(&self.task, TaskStatus::Interrupted));
        }
    }
}
