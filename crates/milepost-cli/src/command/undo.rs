//! `undo`: undoes a restore, or lists the restores that can be undone.

use milepost::{ReasonCode, UndoPoint};

use super::restore::scope;
use crate::context::Context;
use crate::error::{CommandError, Result};
use crate::present::format;
use crate::present::restore::UndoDocument;

/// Undo the newest restore
///
/// Brings back the files as they were before the restore, including those whose content no checkpoint has.
/// Files that changed since the restore are kept, unless --force is given. An undo can itself be undone:
/// `milepost undo` again repeats the restore.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  milepost undo --list\n  milepost undo\n  milepost undo 20261117-184512-x7k2 --yes"
)]
pub(crate) struct UndoArgs {
    /// Restore to undo, by its id [default: the newest]
    #[arg(value_name = "ID")]
    id: Option<String>,
    /// List the restores that can be undone
    #[arg(long, conflicts_with = "id")]
    list: bool,
    /// Replace files that changed since the restore; their content is kept for `undo`
    #[arg(long)]
    force: bool,
}

pub(crate) fn execute(args: UndoArgs, context: &Context<'_>) -> Result<UndoDocument> {
    let mp = context.open_existing()?;
    let worktree = context.open_worktree(&mp)?;
    if args.list {
        return Ok(UndoDocument { points: worktree.undo_points()?, report: None, now: mp.now() });
    }
    context.check_writable()?;
    // An interrupted restore has no undo point yet.
    let recovered = worktree.recover()?;
    if let Some(recovered) = &recovered {
        context.output.message(recovered);
    }
    let points = worktree.undo_points()?;
    let point = match &args.id {
        Some(id) => points.iter().find(|point| point.id() == id),
        None => points.first(),
    };
    if let (Some(point), false) = (point, context.output.yes) {
        confirm(point, context)?;
    }
    let scope = scope(&mp, &[], false, args.force, context)?;
    let report = worktree.undo(args.id.as_deref(), &scope)?;
    Ok(UndoDocument { points: Vec::new(), report: Some(report), now: mp.now() })
}

fn confirm(point: &UndoPoint, context: &Context<'_>) -> Result<()> {
    let n = format::counted(point.files() as u64, "file");
    let verb = if point.undoes().is_some() { "Repeat" } else { "Undo" };
    let question = format!("{verb} the restore of {} ({n})?", point.reference());
    match context.output.confirm(&question) {
        Some(true) => Ok(()),
        Some(false) => {
            Err(CommandError::new(ReasonCode::ConfirmationNeeded, "not confirmed: no file was changed"))
        }
        None => Err(CommandError::new(ReasonCode::ConfirmationNeeded, "the undo was not confirmed")
            .with_hint("add --yes to confirm, or --list to see the restores")),
    }
}
