//! `complete`: marks a checkpoint and all earlier ones of its run as completed.

use milepost::Reference;

use crate::completion::Values;
use crate::context::Context;
use crate::error::Result;
use crate::present::marks::CompleteDocument;

/// Mark a checkpoint and all earlier ones of its run as completed
///
/// Completing the newest checkpoint ends the run. Prints the ids of newly completed checkpoints.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  milepost complete latest\n  milepost complete nightly@12 --json")]
pub(crate) struct CompleteArgs {
    /// Checkpoint to complete
    #[arg(value_name = "REF", add = Values::Reference)]
    pub(super) reference: String,
}

pub(crate) fn execute(args: CompleteArgs, context: &Context<'_>) -> Result<CompleteDocument> {
    let reference: Reference = args.reference.parse()?;
    let mp = context.open_existing()?;
    let run = context.named_run(&mp)?;
    let entry = mp.find(&reference, run.as_ref())?;
    let completed = mp.complete(&entry)?;
    Ok(CompleteDocument::new(entry.header, completed))
}
