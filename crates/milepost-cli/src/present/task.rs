//! The result of `task is`: prints nothing as text, and reports the result in the exit code.

use milepost::model::{RunId, Task};
use serde::Serialize;

use super::{Document, Note, Output};
use crate::error::{CommandError, Result};
use crate::error_advice::Exit;

/// Whether a task has the requested status.
#[derive(Serialize)]
#[serde(tag = "schema", rename = "milepost.task/1")]
pub(crate) struct TaskAnswer {
    pub(crate) run_id: RunId,
    pub(crate) task_id: String,
    pub(crate) is: bool,
    pub(crate) task: Option<Task>,
}

impl Document for TaskAnswer {
    fn render(&self, _: &Output) -> Result<()> {
        Ok(())
    }

    fn notes(&self) -> Vec<Note> {
        let status = self.task.as_ref().map_or("unknown", Task::status);
        vec![Note::Detail(format!("Task {} of {} is {status}", self.task_id, self.run_id))]
    }

    fn error(&self) -> Option<CommandError> {
        (!self.is).then_some(CommandError::ExitOnly(Exit::Nothing))
    }
}
