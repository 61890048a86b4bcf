//! `complete`: a checkpoint and the earlier ones of its run are done.

use milepost::Reference;

use crate::context::Context;
use crate::error::Result;
use crate::present::marks::CompleteDocument;

/// Complete a checkpoint and the earlier ones of its run
///
/// Completing the newest ends the run. Prints the ids of those that were not completed yet.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  milepost complete latest\n  milepost complete nightly@12 --json")]
pub(crate) struct CompleteArgs {
    /// The checkpoint
    #[arg(value_name = "REF")]
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
