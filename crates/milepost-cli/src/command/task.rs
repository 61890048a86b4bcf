//! `task`: sets or tests the status of a task, or runs a command as a task.

use std::ffi::OsString;

use milepost::model::{RunId, Task, TaskChange, TaskStatus};
use milepost::{Error, Milepost};
use serde::Serialize;

use crate::completion::Values;
use crate::context::{Context, Target};
use crate::error::{CommandError, Result};
use crate::input::Argument;
use crate::present::saved::{ChangeDocument, ChangeResult};
use crate::present::task::TaskAnswer;
use crate::supervise::{self, SupervisedCommand};

const SCHEMA: &str = "milepost.task/1";

/// Set or query the status of a task, or run it
///
/// A task is pending, in_progress, done, completed, failed, skipped or interrupted. A checkpoint is saved
/// when a task ends. A subtask is named PARENT/CHILD. Other fields of the task do not change.
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
    /// Set the status of a task
    #[command(
        after_help = "Examples:\n  milepost task set parse in_progress\n  milepost task set parse/lexer done"
    )]
    Set {
        /// Id of the task
        #[arg(value_name = "ID")]
        id: String,
        /// Status: pending, in_progress, done, completed, failed, skipped or interrupted
        #[arg(value_name = "STATUS", add = Values::Words(TaskStatus::NAMES))]
        status: Argument<TaskStatus>,
        /// Title of the task
        #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
        title: Option<String>,
    },
    /// Run a command as a task
    ///
    /// The task is in_progress while the command runs, then done or failed depending on the command's exit
    /// code. Milepost exits with the same code.
    #[command(after_help = "Examples:\n  milepost task run parse -- make parser\n  \
                            milepost task run parse --title \"Write the parser\" -- make parser")]
    Run {
        /// Id of the task
        #[arg(value_name = "ID")]
        id: String,
        /// Title of the task
        #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
        title: Option<String>,
        /// Command to run
        #[arg(value_name = "CMD", last = true, required = true)]
        command: Vec<OsString>,
    },
    /// Test the status of a task: exit 0 if it matches, 4 if not
    #[command(after_help = "Examples:\n  milepost task is parse done && echo parsed\n  \
                            milepost task is parse/lexer failed --json")]
    Is {
        /// Id of the task
        #[arg(value_name = "ID")]
        id: String,
        /// Expected status: pending, in_progress, done, completed, failed, skipped or interrupted
        #[arg(value_name = "STATUS", add = Values::Words(TaskStatus::NAMES))]
        status: Argument<TaskStatus>,
    },
}

/// The current state of the task.
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

/// The exit code is 0 for yes and 4 for no. The answer for an unknown task is no.
fn ask(task_id: String, status: TaskStatus, context: &Context<'_>) -> Result<TaskAnswer> {
    let mp = context.open_existing()?;
    let run = context.require_run(&mp)?;
    context.ensure_visible(&mp, &run)?;
    let task = find(&mp, &run, &task_id)?;
    let is = task.as_ref().is_some_and(|task| task.is(status));
    Ok(TaskAnswer { run_id: run, task_id, is, task })
}

/// The task counts as done only after the command has succeeded and the result is saved. If this process is
/// killed before that, the task runs again.
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
        context.output.message(&format!(
            "Warning: the command ended ({description}), but its result could not be saved"
        ));
    })?;
    let task = applied.mp.as_ref().and_then(|mp| find(mp, &applied.run, id).ok().flatten());
    let fields = TaskFields { task, exit: Some(ending.code()) };
    Ok(ChangeDocument::new(SCHEMA, &applied, fields).with_program_exit(ending))
}
