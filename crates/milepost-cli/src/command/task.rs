//! `task`: how tasks stand: said, asked, or found out by running a command.

use std::ffi::OsString;

use crate::error_advice::Exit;
use milepost::model::{RunId, Task, TaskChange, TaskStatus};
use milepost::{Error, Milepost};
use serde::Serialize;

use crate::config::word;
use crate::context::{Context, Target};
use crate::error::CommandError;
use crate::present::saved::Changed;
use crate::supervise::{self, Attempt};

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
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
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
        status: String,
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
        status: String,
    },
}

/// The task as it stands.
#[derive(Serialize)]
struct About {
    task: Option<Task>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit: Option<u8>,
}

#[derive(Serialize)]
struct Answer<'a> {
    schema: &'static str,
    run_id: &'a RunId,
    task_id: &'a str,
    is: bool,
    #[serde(flatten)]
    about: About,
}

pub(crate) fn run(args: TaskArgs, context: &Context<'_>) -> Result<(), CommandError> {
    match args.what {
        What::Set { id, status, title } => {
            let status = parsed(&status)?;
            let change = TaskChange { title, ..TaskChange::new(&id, status) };
            let applied = context.apply(vec![change.into()], &Target::CurrentOrNew)?;
            let mp = applied.mp.as_ref().filter(|_| context.output.json);
            let task = mp.map(|mp| find(mp, &applied.run, &id)).transpose()?.flatten();
            let what = About { task, exit: None };
            Changed { schema: SCHEMA, applied: &applied, what }.present(context.output)
        }
        What::Is { id, status } => ask(&id, parsed(&status)?, context),
        What::Run { id, title, command } => {
            execute(&id, title, &command, context).map_err(CommandError::into_supervisor)
        }
    }
}

fn parsed(status: &str) -> Result<TaskStatus, Error> {
    word(status, "the task's status", "/tasks/status")
}

fn find(mp: &Milepost, run: &RunId, id: &str) -> Result<Option<Task>, CommandError> {
    let record = mp.run_detail(run)?.summary.record;
    let record = record.map_err(|damage| Error::Damaged(Box::new(damage)))?;
    Ok(Task::find(&record.working.tasks, id))
}

/// Yes is 0 and no is 4, also for a task that nobody has heard of: there is no such thing.
fn ask(id: &str, status: TaskStatus, context: &Context<'_>) -> Result<(), CommandError> {
    let mp = context.open_existing()?;
    let run = context.require_run(&mp)?;
    context.ensure_visible(&mp, &run)?;
    let task = find(&mp, &run, id)?;
    let is = task.as_ref().is_some_and(|task| task.is(status));
    let stands = task.as_ref().map_or("not known", Task::status);
    context.output.detail(&format!("task {id} of {run} is {stands}"));
    if context.output.json {
        let about = About { task, exit: None };
        context.output.document(&Answer { schema: SCHEMA, run_id: &run, task_id: id, is, about })?;
    }
    if is { Ok(()) } else { Err(CommandError::ExitOnly(Exit::Nothing)) }
}

/// The task is done once this has returned 0, and not before: whoever is killed meanwhile runs it again.
fn execute(
    id: &str,
    title: Option<String>,
    command: &[OsString],
    context: &Context<'_>,
) -> Result<(), CommandError> {
    let begun = TaskChange { title, ..TaskChange::new(id, TaskStatus::InProgress) };
    let run = context.apply(vec![begun.into()], &Target::CurrentOrNew)?.run;
    let attempt = Attempt::new(command, &context.config.redact_allow);
    let mut child = attempt.command();
    child.envs(context.child_environment(&run));
    let ended = supervise::run(child, |_| {});
    let outcome = attempt.outcome(&ended, String::new());
    let status = if ended.as_ref().is_ok_and(supervise::Ending::passed) {
        TaskStatus::Done
    } else {
        TaskStatus::Failed
    };
    let changes = vec![TaskChange::new(id, status).into(), outcome.into()];
    let kept = context.apply(changes, &Target::Run(run));
    let ending = ended.map_err(|e| attempt.failure(&e))?;
    let applied = kept.inspect_err(|_| {
        let words = ending.words();
        context
            .output
            .message(&format!("Warning: the command has ended ({words}), and that could not be saved"));
    })?;
    let task = applied.mp.as_ref().and_then(|mp| find(mp, &applied.run, id).ok().flatten());
    let what = About { task, exit: Some(ending.code()) };
    Changed { schema: SCHEMA, applied: &applied, what }.present_aside(context.output);
    ending.pass_through()
}
