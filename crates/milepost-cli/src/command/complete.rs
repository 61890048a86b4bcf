//! `complete`: a checkpoint and the earlier ones of its run are done.

use milepost::Reference;
use milepost::model::{CheckpointId, RunId};
use serde::Serialize;

use crate::context::Context;
use crate::error::CommandError;

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

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    run_id: &'a RunId,
    completed: &'a [CheckpointId],
    /// Whether there was nothing left to complete: somebody had done it before.
    already_completed: bool,
}

pub(crate) fn run(args: &CompleteArgs, context: &Context<'_>) -> Result<(), CommandError> {
    let reference: Reference = args.reference.parse()?;
    let mp = context.open_existing()?;
    let run = context.named_run(&mp)?;
    let entry = mp.find(&reference, run.as_ref())?;
    let completed = mp.complete(&entry)?;
    context.output.record_change(format!("{} is completed", entry.header.snapshot_id));
    if context.output.json {
        return context.output.document(&Document {
            schema: "milepost.complete/1",
            run_id: &entry.header.run_id,
            completed: &completed,
            already_completed: completed.is_empty(),
        });
    }
    if completed.is_empty() {
        context.output.message(&format!("{} was completed already", entry.header.snapshot_id));
    }
    context.output.text(&completed.iter().map(|id| format!("{id}\n")).collect::<String>())
}
