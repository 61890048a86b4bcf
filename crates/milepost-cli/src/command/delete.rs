//! `delete`: a run with all its checkpoints, after asking.

use milepost::ListQuery;
use milepost::Liveness;
use milepost::ReasonCode;
use milepost::model::{CheckpointId, RunId};
use serde::Serialize;

use crate::context::Context;
use crate::error::CommandError;
use crate::present::format;

/// Delete a run with all its checkpoints
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  milepost delete nightly --dry-run\n  milepost delete nightly --yes")]
pub(crate) struct DeleteArgs {
    /// The run
    #[arg(value_name = "RUN")]
    run: String,
    /// Say what would go, and change nothing
    #[arg(long)]
    dry_run: bool,
}

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    run_id: &'a RunId,
    checkpoints: u64,
    removed: Vec<CheckpointId>,
    bytes_freed: u64,
    dry_run: bool,
}

pub(crate) fn run(args: &DeleteArgs, context: &Context<'_>) -> Result<(), CommandError> {
    let run: RunId = args.run.parse()?;
    let mp = context.open_existing()?;
    let detail = mp.run_detail(&run)?;
    let n = format::counted(detail.summary.checkpoints, "checkpoint");
    let output = context.output;
    let alive = detail.summary.owner == Some(Liveness::Alive);
    let warning = if alive { ", whose owner is ALIVE," } else { "" };
    if !args.dry_run && !output.yes {
        match output.confirm(&format!("Delete run {run}{warning} with {n}? This cannot be undone.")) {
            Some(true) => {}
            Some(false) => {
                let message = "not confirmed: nothing was deleted";
                return Err(CommandError::new(ReasonCode::ConfirmationNeeded, message));
            }
            None => {
                let message = format!("deleting run {run}{warning} with {n} was not confirmed");
                return Err(CommandError::new(ReasonCode::ConfirmationNeeded, message)
                    .with_hint("add --yes if you mean it, or --dry-run to see what would go"));
            }
        }
    }
    let query = ListQuery { run: Some(run.clone()), ..ListQuery::default() };
    let listed = mp.list(&query)?.checkpoints;
    let removed: Vec<_> = listed.iter().map(|listed| listed.entry.header.snapshot_id.clone()).collect();
    let bytes_freed = if args.dry_run { 0 } else { mp.delete(&run)?.bytes_freed };
    if !args.dry_run {
        output.record_change(format!("run {run} was deleted"));
    }
    if output.json {
        return output.document(&Document {
            schema: "milepost.delete/1",
            run_id: &run,
            checkpoints: detail.summary.checkpoints,
            removed,
            bytes_freed,
            dry_run: args.dry_run,
        });
    }
    let mut text = String::new();
    if args.dry_run {
        for id in &removed {
            text.push_str(&format!("{id}  would go: it belongs to run {run}\n"));
        }
        text.push_str(&format!("Run {run} would be deleted with {n}.\n"));
    } else {
        text = format!("Run {run} is deleted with {n}; {} freed.\n", format::bytes(bytes_freed));
    }
    output.text(&text)
}
