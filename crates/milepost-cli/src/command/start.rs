//! `start`: opens a run, or a new session of an existing run.

use milepost::Error;
use milepost::internal::engine::StartOptions;
use milepost::internal::owner;
use milepost::model::ValidationError;

use crate::context::Context;
use crate::error::Result;
use crate::present::run::StartDocument;

/// Open a run and print its id
///
/// Without --run or MILEPOST_RUN, opens a new run. An existing run gets a new session, unless its owner is
/// alive.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  export MILEPOST_RUN=$(milepost start --title \"nightly build\")\n  \
                        milepost start --run nightly --plan plan.toml --owner-pid $$")]
pub(crate) struct StartArgs {
    /// Title of the run
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    title: Option<String>,
    /// Plan file that the run follows
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    plan: Option<String>,
    /// Process that does the work
    #[arg(long, value_name = "PID", allow_hyphen_values = true)]
    owner_pid: Option<String>,
}

pub(crate) fn execute(args: StartArgs, context: &Context<'_>) -> Result<StartDocument> {
    let owner = args.owner_pid.as_deref().map(describe_owner).transpose()?;
    let mut run_options = context.run_options();
    run_options.title = args.title;
    run_options.plan = args.plan;
    run_options.owner = owner;
    let mp = context.open_or_create()?;
    let session_id = context.config.session.clone();
    let started = mp.start(StartOptions {
        run_id: context.config.run.clone().map(|run| Context::expand_short_id(&mp, run)),
        session_id,
        run_options,
        ..StartOptions::default()
    })?;
    Ok(StartDocument {
        run_id: started.record.run_id().clone(),
        status: started.record.status(),
        rejoined: started.rejoined,
    })
}

fn describe_owner(pid: &str) -> Result<milepost::model::Owner, Error> {
    let wrong = |message: String| Error::Value {
        name: "--owner-pid".into(),
        source: ValidationError { path: "/owner/pid".into(), message },
    };
    let number: u32 = pid.parse().map_err(|_| wrong(format!("\"{pid}\" is not a process id")))?;
    owner::describe(number).ok_or_else(|| wrong(format!("there is no process {number}")))
}
