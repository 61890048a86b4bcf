//! `summary`: summarises a run: its checkpoints and sessions, its tasks, the files it touched, its memory use
//! and failures, including what was recorded since the newest checkpoint.

use milepost::model::RunId;
use milepost::{Milepost, Reference};

use crate::completion::Values;
use crate::context::Context;
use crate::error::Result;
use crate::present::summary::SummaryDocument;

/// Summarise a run: checkpoints, tasks, files, memory, failures
///
/// Without RUN, uses the run that --run or MILEPOST_RUN names, or the one that was written last.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  milepost summary\n  milepost summary nightly -v\n  \
                        milepost summary nightly --json")]
pub(crate) struct SummaryArgs {
    /// Run to summarise
    #[arg(value_name = "RUN", add = Values::Run)]
    run_id: Option<String>,
}

pub(crate) fn execute(args: SummaryArgs, context: &Context<'_>) -> Result<SummaryDocument> {
    let named = args.run_id.as_deref().map(str::parse::<RunId>).transpose()?;
    let mp = context.open_existing()?;
    let run = match named {
        Some(run) => context.visible_run(&mp, &run)?,
        None => default_run(&mp, context)?,
    };
    Ok(SummaryDocument { summary: mp.summary(&run)? })
}

/// The named run, or the run of the checkpoint that was written last.
fn default_run(mp: &Milepost, context: &Context<'_>) -> Result<RunId> {
    let latest = Reference::Latest(0);
    match context.run_of_reference(mp, &latest)? {
        Some(run) => Ok(run),
        None => Ok(mp.find(&latest, None)?.header.run_id().clone()),
    }
}
