//! The tool `tasks`: several `task set` in one transaction, and all tasks as they stand.

use milepost::model::{Change, RunId, Task, TaskChange};
use milepost::{Error, Milepost};
use milepost_mcp::arguments;
use serde::Serialize;

use crate::context::{Context, Target};
use crate::error::CommandError;
use crate::present::saved::Changed;

const SCHEMA: &str = "milepost.tasks/1";

#[derive(Serialize)]
struct All {
    tasks: Vec<Task>,
}

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    run_id: &'a RunId,
    #[serde(flatten)]
    all: All,
}

pub(super) fn run(args: arguments::Tasks, context: &Context<'_>) -> Result<(), CommandError> {
    let given = args.tasks.unwrap_or_default();
    // All tasks of the run are shown, also after a change.
    if let (Some(run), Ok(mp)) = (&context.config.run, context.open_read_only()) {
        context.ensure_visible(&mp, run)?;
    }
    if given.is_empty() {
        let mp = context.open_existing()?;
        let run = context.require_run(&mp)?;
        let all = tasks(&mp, &run)?;
        return context.output.document(&Document { schema: SCHEMA, run_id: &run, all });
    }
    let change = |task: arguments::Task| -> Change {
        TaskChange { title: task.title, ..TaskChange::new(&task.id, task.status) }.into()
    };
    let applied = context.apply(given.into_iter().map(change).collect(), &Target::CurrentOrNew)?;
    // What waits in the outbox cannot be read back yet.
    let what = match &applied.mp {
        Some(mp) => tasks(mp, &applied.run)?,
        None => All { tasks: Vec::new() },
    };
    Changed { schema: SCHEMA, applied: &applied, what }.present(context.output)
}

fn tasks(mp: &Milepost, run: &RunId) -> Result<All, CommandError> {
    let record = mp.run_detail(run)?.summary.record.map_err(|damage| Error::Damaged(Box::new(damage)))?;
    Ok(All { tasks: record.working.tasks })
}
