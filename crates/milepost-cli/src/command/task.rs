//! `task`: how tasks stand: said, asked, or found out by running a command.

use std::ffi::OsString;

use milepost::model::{RunId, Task, TaskChange, TaskStatus};
use milepost::{Error, Milepost};
use serde::Serialize;

use crate::context::{Context, Target};
use crate::error::{CommandError, Result};
use crate::input::Argument;
use crate::present::saved::{ChangeDocument, ChangeResult};
use crate::present::task::TaskAnswer;
use crate::supervise::{self, SupervisedCommand};

const SCHEMA: &str = "milepost.task/1";

/// Say or ask how a task stands, or run it
///
/// A task is pending, in_progress, done, completed, failed, skipped or interrupted. One that ends saves a checkpoint at
/// once. A subtask is named PARENT/CHILD. What else a task holds stays as it is.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  milepost task set parse in_progress --title \"Write the parser\"\n  \
                        milepost task is parse done || milepost task run parse -- make parser\n  \
                        milepost task set parse/lexer done")]
pub(crate) struct TaskArgs {
    #[command(subcommand)]
    action: TaskAction,
}

#[derive(Debug, clap::Subcommand)]
enum TaskAction {
    /// Say how a task stands
    #[command(
        after_help = "Examples:\n  milepost task set parse in_progress\n  milepost task set parse/lexer done"
    )]
    Set {
        /// The task
        #[arg(value_name = "ID")]
        id: String,
        /// How it stands: pending, in_progress, done, completed, failed, skipped or interrupted
        #[arg(value_name = "STATUS")]
        status: Argument<TaskStatus>,
        /// What people call it
        #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
        title: Option<String>,
    },
    /// Run a command as a task: in_progress, then done or failed by its exit code, which is passed through
    #[command(after_help = "Examples:\n  milepost task run parse -- make parser")]
    Run {
        /// The task
        #[arg(value_name = "ID")]
        id: String,
        /// What people call it
        #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
        title: Option<String>,
        /// The command
        #[arg(value_name = "CMD", last = true, required = true)]
        command: Vec<OsString>,
    },
    /// Ask how a task stands: exit 0 for yes, 4 for no
    #[command(after_help = "Examples:\n  milepost task is parse done && echo parsed")]
    Is {
        /// The task
        #[arg(value_name = "ID")]
        id: String,
        /// How it should stand
        #[arg(value_name = "STATUS")]
        status: Argument<TaskStatus>,
    },
}

/// The task as it stands.
#[derive(Serialize)]
struct TaskFields {
    task: Option<Task>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit: Option<u8>,
}

pub(crate) fn run(args: TaskArgs, context: &Context<'_>) -> Result<()> {
    let output = context.output;
    match args.action {
        TaskAction::Set { id, status, title } => {
            let change = TaskChange { title, ..TaskChange::new(&id, parse_status(status)?) };
            let applied = context.apply(vec![change.into()], &Target::CurrentOrNew)?;
            let task = applied.mp.as_ref().map(|mp| find(mp, &applied.run, &id)).transpose()?.flatten();
            output.present(&ChangeDocument::new(SCHEMA, &applied, TaskFields { task, exit: None }))
        }
        TaskAction::Is { id, status } => output.present(&ask(id, parse_status(status)?, context)?),
        TaskAction::Run { id, title, command } => {
            let document =
                run_program(&id, title, &command, context).map_err(CommandError::into_supervisor)?;
            output.present(&document)
        }
    }
}

fn parse_status(status: Argument<TaskStatus>) -> Result<TaskStatus, Error> {
    status.choice("the task's status", "/tasks/status")
}

fn find(mp: &Milepost, run: &RunId, id: &str) -> Result<Option<Task>> {
    let record = mp.run_detail(run)?.summary().record().clone();
    let record = record.map_err(|damage| Error::Damaged(Box::new(damage)))?;
    Ok(Task::find(record.working().tasks(), id))
}

/// Yes is 0 and no is 4, also for a task that nobody has heard of: there is no such thing.
fn ask(task_id: String, status: TaskStatus, context: &Context<'_>) -> Result<TaskAnswer> {
    let mp = context.open_existing()?;
    let run = context.require_run(&mp)?;
    context.ensure_visible(&mp, &run)?;
    let task = find(&mp, &run, &task_id)?;
    let is = task.as_ref().is_some_and(|task| task.is(status));
    Ok(TaskAnswer { run_id: run, task_id, is, task })
}

/// The task is done once this has returned 0, and not before: whoever is killed meanwhile runs it again.
fn run_program(
    id: &str,
    title: Option<String>,
    command: &[OsString],
    context: &Context<'_>,
) -> ChangeResult<TaskFields> {
    let begun = TaskChange { title, ..TaskChange::new(id, TaskStatus::InProgress) };
    let run = context.apply(vec![begun.into()], &Target::CurrentOrNew)?.run;
    let command_line = SupervisedCommand::new(command, &context.config.redact_allow);
    let mut child = command_line.command();
    child.envs(context.child_environment(&run));
    let ended = supervise::run(child, |_| {});
    let outcome = command_line.outcome(&ended, String::new());
    let status = match ended.as_ref().is_ok_and(supervise::ProgramExit::passed) {
        true => TaskStatus::Done,
        false => TaskStatus::Failed,
    };
    let changes = vec![TaskChange::new(id, status).into(), outcome.into()];
    let recorded = context.apply(changes, &Target::Run(run));
    let ending = ended.map_err(|e| command_line.start_error(&e))?;
    let applied = recorded.inspect_err(|_| {
        let description = ending.describe();
        context
            .output
            .message(&format!("Warning: the command has ended ({description}), and that could not be saved"));
    })?;
    let task = applied.mp.as_ref().and_then(|mp| find(mp, &applied.run, id).ok().flatten());
    let fields = TaskFields { task, exit: Some(ending.code()) };
    Ok(ChangeDocument::new(SCHEMA, &applied, fields).with_program_exit(ending))
}
