//! `verify`: reads checkpoints and reports the ones that differ from what was written.

use milepost::{Reference, VerifyScope};

use crate::completion::Values;
use crate::context::Context;
use crate::error::Result;
use crate::present::damage::VerifyDocument;

/// Verify all checkpoints, the checkpoints of a run, or one
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  milepost verify\n  milepost verify --run nightly\n  milepost verify latest --json"
)]
pub(crate) struct VerifyArgs {
    /// Checkpoint to verify [default: all]
    #[arg(value_name = "REF", add = Values::Reference)]
    reference: Option<String>,
}

pub(crate) fn execute(args: VerifyArgs, context: &Context<'_>) -> Result<VerifyDocument> {
    let reference = args.reference.as_deref().map(str::parse::<Reference>).transpose()?;
    let mp = context.open_existing()?;
    let scope = match (reference, context.named_run(&mp)?) {
        (Some(reference), run) => VerifyScope::Checkpoint(reference, run),
        (None, Some(run)) => VerifyScope::Run(run),
        (None, None) => VerifyScope::Store,
    };
    let mut progress = context.output.progress();
    let report = mp.verify(&scope, &mut |n| progress.at("checkpoints read", n))?;
    drop(progress);
    Ok(VerifyDocument { report })
}
