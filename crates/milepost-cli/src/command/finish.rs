//! `finish`: the last checkpoint of a run, which ends it.

use milepost::FinishOptions;
use milepost::model::{Source, Status};

use crate::config::word;
use crate::context::Context;
use crate::error::CommandError;
use crate::present::saved;

/// Save the last checkpoint of a run and end it
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  milepost finish --summary \"all tests pass\"\n  \
                        milepost finish --run nightly --status failed")]
pub(crate) struct FinishArgs {
    /// How it ends: completed, failed or paused [default: completed]
    #[arg(long, value_name = "S")]
    status: Option<String>,
    /// What the work was about
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    summary: Option<String>,
}

pub(crate) fn run(args: FinishArgs, context: &Context<'_>) -> Result<(), CommandError> {
    let status = args.status.as_deref().map(|s| word(s, "--status", "/status")).transpose()?;
    let mp = context.open_existing()?;
    let run = context.require_run(&mp)?;
    let mut save = context.plain_save();
    save.draft.task_summary = args.summary;
    save.capture = context.capture_if_due(&mp, &run, Source::Manual)?;
    let done = mp.finish(&run, FinishOptions { status: status.unwrap_or(Status::Completed), save })?;
    saved::present(context.output, "milepost.finish/1", &done)
}
