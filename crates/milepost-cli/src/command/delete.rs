//! `delete`: deletes a run with all its checkpoints, after confirmation.

use milepost::model::RunId;
use milepost::{ListQuery, Liveness};

use crate::completion::Values;
use crate::context::Context;
use crate::error::Result;
use crate::present::format;
use crate::present::run::DeleteDocument;

/// Delete a run and all its checkpoints
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  milepost delete nightly --dry-run\n  milepost delete nightly --yes")]
pub(crate) struct DeleteArgs {
    /// Run to delete
    #[arg(value_name = "RUN", add = Values::Run)]
    run: String,
    /// Show what would be deleted without changing anything
    #[arg(long)]
    dry_run: bool,
}

pub(crate) fn execute(args: DeleteArgs, context: &Context<'_>) -> Result<DeleteDocument> {
    let name: RunId = args.run.parse()?;
    let mp = context.open_existing()?;
    let run = context.visible_run(&mp, &name)?;
    let detail = mp.run_detail(&run)?;
    let summary = detail.summary();
    let n = format::counted(summary.checkpoints(), "checkpoint");
    let warning = if summary.owner() == Some(Liveness::Alive) { ", whose owner is ALIVE," } else { "" };
    if !args.dry_run && !context.output.yes {
        let question = format!("Delete run {run}{warning} with {n}? This cannot be undone.");
        let unconfirmed = format!("deleting run {run}{warning} with {n} was not confirmed");
        super::confirm_removal(context.output, &question, "deleted", unconfirmed)?;
    }
    let query = ListQuery::default().run(Some(run.clone()));
    let listed = mp.list(&query)?.checkpoints;
    Ok(DeleteDocument {
        checkpoints: summary.checkpoints(),
        removed: listed.into_iter().map(|listed| listed.entry().header.snapshot_id().clone()).collect(),
        bytes_freed: if args.dry_run { 0 } else { mp.delete(&run)? },
        dry_run: args.dry_run,
        run_id: run,
    })
}
