//! `state`: prints the caller's own JSON exactly as it was saved.

use std::path::PathBuf;

use milepost::internal::engine::RunResolution;
use milepost::model::RunId;
use milepost::{Milepost, Reference, RestoreOptions};

use crate::completion::Values;
use crate::context::Context;
use crate::error::Result;
use crate::present::damage::Fallback;
use crate::present::state::StateDocument;

/// Print the state of a checkpoint, exactly as it was saved
///
/// If the checkpoint has no state, prints the newest earlier state of its run. --to writes it to a file
/// instead and keeps a copy of the file's previous content.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  milepost state > state.json\n  milepost state nightly@12 --to state.json --force"
)]
pub(crate) struct StateArgs {
    /// Checkpoint to read
    #[arg(value_name = "REF", default_value = "latest", add = Values::Reference)]
    reference: String,
    /// File to write
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    to: Option<PathBuf>,
    /// Overwrite a file that has other content
    #[arg(long, requires = "to")]
    force: bool,
    /// Allow the state of a run that is not the current one
    #[arg(long, requires = "to")]
    allow_run_mismatch: bool,
}

pub(crate) fn execute(args: StateArgs, context: &Context<'_>) -> Result<StateDocument> {
    let reference: Reference = args.reference.parse()?;
    let mp = context.open_existing()?;
    let run = context.run_of_reference(&mp, &reference)?;
    let found = mp.state(&reference, run.as_ref())?;
    context.ensure_visible(&mp, found.entry().header.run_id())?;
    let kept = match &args.to {
        Some(file) => {
            let how = RestoreOptions::default()
                .force(args.force)
                .current_run(current(context, &mp)?)
                .allow_run_mismatch(args.allow_run_mismatch);
            mp.restore(&found, file, &how)?
        }
        None => None,
    };
    let header = &found.entry().header;
    Ok(StateDocument {
        fallback: Fallback::new(found.fell_back_from().clone(), header.snapshot_id()),
        snapshot_id: header.snapshot_id().clone(),
        run_id: header.run_id().clone(),
        sequence: header.sequence(),
        state: found.state().clone(),
        to: args.to.map(|path| path.display().to_string()),
        kept: kept.map(|path| path.display().to_string()),
        redacted: found.redacted().clone(),
    })
}

fn current(context: &Context<'_>, mp: &Milepost) -> Result<Option<RunId>> {
    if let Some(run) = context.named_run(mp)? {
        return Ok(Some(run));
    }
    Ok(match context.current_run(mp)? {
        RunResolution::Run(run) => Some(run),
        RunResolution::Unclear(_) => None,
    })
}
