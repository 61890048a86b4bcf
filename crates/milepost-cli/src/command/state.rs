//! `state`: the caller's own JSON back, exactly as it was given.

use std::path::PathBuf;

use milepost::internal::engine::RunResolution;
use milepost::model::{CheckpointId, RawJson, RunId};
use milepost::{Milepost, ReasonCode};
use milepost::{Reference, RestoreOptions};
use serde::Serialize;

use crate::context::Context;
use crate::error::CommandError;
use crate::present::damage::{fell_back, names};

/// Print the state of a checkpoint, exactly as it was saved
///
/// A checkpoint without a state gives the nearest one before it in its run. With --to it goes into a file, and no
/// other file changes; what stood there before is kept beside it.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  milepost state > state.json\n  milepost state nightly@12 --to state.json --force"
)]
pub(crate) struct StateArgs {
    /// The checkpoint
    #[arg(value_name = "REF", default_value = "latest")]
    reference: String,
    /// The file to write
    #[arg(long, value_name = "FILE")]
    to: Option<PathBuf>,
    /// Overwrite a file that holds something else
    #[arg(long, requires = "to")]
    force: bool,
    /// Write the state of another run than the current one
    #[arg(long, requires = "to")]
    allow_run_mismatch: bool,
}

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    snapshot_id: &'a CheckpointId,
    run_id: &'a RunId,
    sequence: u64,
    state: &'a RawJson,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kept: Option<String>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    redacted: &'a [String],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    fell_back_from: Vec<String>,
}

pub(crate) fn run(args: &StateArgs, context: &Context<'_>) -> Result<(), CommandError> {
    let reference: Reference = args.reference.parse()?;
    let mp = context.open_existing()?;
    let run = context.run_of_reference(&mp, &reference)?;
    let found = mp.state(&reference, run.as_ref())?;
    let header = &found.entry.header;
    context.ensure_visible(&mp, &header.run_id)?;
    let kept = match &args.to {
        Some(file) => {
            let how = RestoreOptions {
                force: args.force,
                current_run: current(context, &mp)?,
                allow_run_mismatch: args.allow_run_mismatch,
            };
            mp.restore(&found, file, &how)?
        }
        None => None,
    };
    if let Some(file) = &args.to {
        context.output.record_change(format!("the state was written to {}", file.display()));
    }
    if let Some(kept) = &kept {
        context.output.message(&format!("what stood there before is in {}", kept.display()));
    }
    if context.output.json {
        context.output.document(&Document {
            schema: "milepost.state/1",
            snapshot_id: &header.snapshot_id,
            run_id: &header.run_id,
            sequence: header.sequence,
            state: &found.state,
            to: args.to.as_ref().map(|path| path.display().to_string()),
            kept: kept.map(|path| path.display().to_string()),
            redacted: &found.redacted,
            fell_back_from: names(&found.fell_back_from),
        })?;
    } else if let Some(file) = &args.to {
        context.output.message(&format!("the state of {} is in {}", header.snapshot_id, file.display()));
    } else {
        context.output.bytes(found.state.get().as_bytes())?;
        if context.output.is_terminal() {
            context.output.bytes(b"\n")?;
        }
    }
    fell_back(context.output, &found.fell_back_from, &header.snapshot_id)?;
    if found.redacted.is_empty() {
        return Ok(());
    }
    let message = format!("redaction replaced something in this state, at {}", found.redacted.join(", "));
    Err(CommandError::new(ReasonCode::StateRedacted, message)
        .with_hint("put the real values back before you use it"))
}

fn current(context: &Context<'_>, mp: &Milepost) -> Result<Option<RunId>, CommandError> {
    Ok(match context.current_run(mp)? {
        RunResolution::Run(run) => Some(run),
        RunResolution::Unclear(_) => None,
    })
}
