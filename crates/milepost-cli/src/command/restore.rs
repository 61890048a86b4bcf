//! `restore`: brings files back to an earlier checkpoint, after showing the plan and asking.

use std::path::PathBuf;

use milepost::internal::engine::RunResolution;
use milepost::{Milepost, ReasonCode, Reference, RestoreAction, RestorePlan, RestoreScope};

use crate::completion::Values;
use crate::context::Context;
use crate::error::{CommandError, Result};
use crate::present::format;
use crate::present::restore::{RestoreDocument, page};

/// Bring files back to an earlier checkpoint
///
/// Shows a plan and asks before it changes anything. By default it touches only files that the run of REF
/// changed: files that its edit tools named, and files that changed while its commands ran. A file that
/// someone else changed since is a conflict and is kept. Ignored files, the index, HEAD, the stash and other
/// worktrees are never touched. The present files are saved in a checkpoint first, and `milepost undo` goes
/// back.
///
/// REF is a checkpoint as in `show`, or `prompt` for the files before your newest prompt to an agent
/// (`prompt~1` for the prompt before it). PATHs are files or folders, relative to the current folder.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  milepost restore prompt\n  \
                  milepost restore latest~1 --dry-run\n  milepost restore nightly@3 src/parser.rs docs\n  \
                  milepost restore before-refactoring --all --yes")]
pub(crate) struct RestoreArgs {
    /// Checkpoint or prompt to restore
    #[arg(value_name = "REF", add = Values::Reference)]
    reference: String,
    /// Files and folders to restore [default: all files that the run changed]
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Include files that differ but that the run did not change
    #[arg(long)]
    all: bool,
    /// Show the plan without changing anything
    #[arg(long)]
    dry_run: bool,
    /// Replace files that someone else changed; their content is kept for `undo`
    #[arg(long)]
    force: bool,
}

/// The scope of a restore by this caller. Paths are relative to the current folder.
pub(super) fn scope(
    mp: &Milepost,
    paths: &[PathBuf],
    all: bool,
    force: bool,
    context: &Context<'_>,
) -> Result<RestoreScope> {
    let absolute = paths.iter().map(|path| std::path::absolute(path).unwrap_or_else(|_| path.clone()));
    let current = match context.current_run(mp)? {
        RunResolution::Run(run) => Some(run),
        RunResolution::Unclear(_) => None,
    };
    Ok(RestoreScope::default().paths(absolute.collect::<Vec<_>>()).all(all).force(force).current_run(current))
}

pub(crate) fn execute(args: RestoreArgs, context: &Context<'_>) -> Result<RestoreDocument> {
    let reference: Reference = args.reference.parse()?;
    let output = context.output;
    if !args.dry_run {
        context.check_writable()?;
    }
    let mp = context.open_existing()?;
    let run = context.run_of_files(&mp, &reference)?;
    let worktree = context.open_worktree(&mp)?;
    let scope = scope(&mp, &args.paths, args.all, args.force, context)?;
    let plan = worktree.plan_restore(&reference, run.as_ref(), &scope)?;
    context.ensure_visible(&mp, plan.run_id())?;
    let document = |plan, report, plan_shown| RestoreDocument {
        plan,
        report,
        dry_run: args.dry_run,
        plan_shown,
        now: mp.now(),
    };
    if args.dry_run || plan.changes() == 0 {
        return Ok(document(plan, None, false));
    }
    let mut plan_shown = false;
    if !output.yes {
        if output.can_ask() {
            output.message_always(page(output, &plan, mp.now()).trim_end());
            plan_shown = true;
        }
        confirm(&plan, context)?;
    }
    let token = plan.token().clone();
    let report = worktree.restore(&reference, run.as_ref(), &scope, Some(&token))?;
    Ok(document(plan, Some(report), plan_shown))
}

/// Asks before files are changed.
fn confirm(plan: &RestorePlan, context: &Context<'_>) -> Result<()> {
    let n = format::counted(plan.changes() as u64, "file");
    let deleted = plan.count(RestoreAction::Delete) as u64;
    let deletes = if deleted > 0 { format!(" ({} deleted)", format::count(deleted)) } else { String::new() };
    let question = format!("Change {n}{deletes}? `milepost undo` goes back.");
    match context.output.confirm(&question) {
        Some(true) => Ok(()),
        Some(false) => {
            Err(CommandError::new(ReasonCode::ConfirmationNeeded, "not confirmed: no file was changed"))
        }
        None => Err(CommandError::new(
            ReasonCode::ConfirmationNeeded,
            format!("changing {n}{deletes} was not confirmed"),
        )
        .with_hint("add --yes to confirm, or --dry-run to see the plan")),
    }
}
