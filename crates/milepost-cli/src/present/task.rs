//! Tasks: a change of one, or the answer to a question about one.

use milepost::model::{RunId, Task};
use serde::Serialize;

use super::saved::ChangeDocument;
use super::{Document, Note, Output, Stream};
use crate::command::task::TaskFields;
use crate::error::CommandError;
use crate::error_advice::Exit;

#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum TaskDocument {
    Changed(ChangeDocument<TaskFields>),
    Answer(TaskAnswer),
}

/// Whether a task has a status.
#[derive(Serialize)]
pub(crate) struct TaskAnswer {
    pub(crate) schema: &'static str,
    pub(crate) run_id: RunId,
    pub(crate) task_id: String,
    pub(crate) is: bool,
    pub(crate) task: Option<Task>,
}

impl Document for TaskDocument {
    fn render(&self, output: &Output) -> Result<(), CommandError> {
        match self {
            Self::Changed(document) => document.render(output),
            Self::Answer(_) => Ok(()),
        }
    }

    fn notes(&self) -> Vec<Note> {
        match self {
            Self::Changed(document) => document.notes(),
            Self::Answer(answer) => {
                let status = answer.task.as_ref().map_or("not known", Task::status);
                vec![Note::Detail(format!("task {} of {} is {status}", answer.task_id, answer.run_id))]
            }
        }
    }

    fn change(&self) -> Option<String> {
        match self {
            Self::Changed(document) => document.change(),
            Self::Answer(_) => None,
        }
    }

    fn error(&self) -> Option<CommandError> {
        match self {
            Self::Changed(document) => document.error(),
            Self::Answer(answer) => (!answer.is).then_some(CommandError::ExitOnly(Exit::Nothing)),
        }
    }

    fn stream(&self) -> Stream {
        match self {
            Self::Changed(document) => document.stream(),
            Self::Answer(_) => Stream::Stdout,
        }
    }
}
