//! The tool `tasks`: sets the status of several tasks in one transaction, and returns all tasks of the run.

use milepost::model::{Change, RunId, Task, TaskChange};
use milepost::{Error, Milepost};
use milepost_mcp::arguments;
use serde::Serialize;

use crate::context::{Context, Target};
use crate::error::Result;
use crate::present::saved::ChangeDocument;
use crate::present::{Document, Note, Output};

const SCHEMA: &str = "milepost.tasks/1";

#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum TasksDocument {
    Changed(ChangeDocument<TaskList>),
    Unchanged {
        schema: &'static str,
        run_id: RunId,
        #[serde(flatten)]
        list: TaskList,
    },
}

#[derive(Serialize)]
pub(super) struct TaskList {
    tasks: Vec<Task>,
}

pub(super) fn execute(args: arguments::Tasks, context: &Context<'_>) -> Result<TasksDocument> {
    let given = args.tasks.unwrap_or_default();
    // The result lists all tasks of the run, even after a change.
    if let (Some(run), Ok(mp)) = (&context.config.run, context.open_read_only()) {
        context.ensure_visible(&mp, run)?;
    }
    if given.is_empty() {
        let mp = context.open_existing()?;
        let run_id = context.require_run(&mp)?;
        let list = tasks(&mp, &run_id)?;
        return Ok(TasksDocument::Unchanged { schema: SCHEMA, run_id, list });
    }
    let change = |task: arguments::Task| -> Change {
        TaskChange { title: task.title, ..TaskChange::new(&task.id, task.status) }.into()
    };
    let applied = context.apply(given.into_iter().map(change).collect(), &Target::CurrentOrNew)?;
    // Changes that wait in the outbox cannot be read back yet.
    let list = match &applied.mp {
        Some(mp) => tasks(mp, &applied.run)?,
        None => TaskList { tasks: Vec::new() },
    };
    Ok(TasksDocument::Changed(ChangeDocument::new(SCHEMA, &applied, list)))
}

fn tasks(mp: &Milepost, run: &RunId) -> Result<TaskList> {
    let record =
        mp.run_detail(run)?.summary().record().clone().map_err(|damage| Error::Damaged(Box::new(damage)))?;
    Ok(TaskList { tasks: record.working().tasks().clone() })
}

impl Document for TasksDocument {
    fn render(&self, _: &Output) -> Result<()> {
        Ok(())
    }

    fn notes(&self) -> Vec<Note> {
        match self {
            Self::Changed(document) => document.notes(),
            Self::Unchanged { .. } => Vec::new(),
        }
    }
}
