//! `finish`: saves the last checkpoint of a run and ends the run.

use milepost::model::{Source, Status};

use crate::completion::Values;
use crate::context::Context;
use crate::error::Result;
use crate::input::Argument;
use crate::present::saved::SavedDocument;

/// Save the last checkpoint of a run and end the run
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  milepost finish -m \"all tests pass\"\n  \
                        milepost finish --run nightly --status failed")]
pub(crate) struct FinishArgs {
    /// Summary of the work
    #[arg(
        short = 'm',
        long = "message",
        visible_alias = "summary",
        value_name = "MESSAGE",
        allow_hyphen_values = true
    )]
    summary: Option<String>,
    /// Final status: completed, failed or paused [default: completed]
    #[arg(long, value_name = "STATUS", add = Values::Words(&["completed", "failed", "paused"]))]
    status: Option<Argument<Status>>,
}

pub(crate) fn execute(args: FinishArgs, context: &Context<'_>) -> Result<SavedDocument> {
    let status = args.status.map(|s| s.choice("--status", "/status")).transpose()?;
    let mp = context.open_existing()?;
    let run = context.require_run(&mp)?;
    let mut save = context.new_save().capture(context.capture_if_due(&mp, &run, Source::Manual)?);
    save.draft_mut().task_summary = args.summary;
    let saved = mp.finish(&run, status.unwrap_or(Status::Completed), save)?;
    Ok(SavedDocument::saved("milepost.finish/1", &saved))
}
