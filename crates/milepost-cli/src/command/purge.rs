//! `purge`: removes the stored contents of files from all checkpoints, after confirmation.

use std::path::PathBuf;

use milepost::PurgeReport;

use super::worktree_path;
use crate::context::Context;
use crate::error::Result;
use crate::present::format;
use crate::present::purge::PurgeDocument;

/// Remove the stored contents of files from all checkpoints
///
/// For files that should never have been recorded, such as one with a password. Removes every version of the
/// files from all checkpoints, undo points and worktrees of the store. The checkpoints stay, and so do the files
/// themselves. Add a file to .gitignore first: otherwise its next change is stored again.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  milepost purge config/prod.yml --dry-run\n  milepost purge config/prod.yml\n  milepost purge data/ --yes"
)]
pub(crate) struct PurgeArgs {
    /// Files, or folders with all their files
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    /// Show what would be removed without changing anything
    #[arg(long)]
    dry_run: bool,
}

pub(crate) fn execute(args: PurgeArgs, context: &Context<'_>) -> Result<PurgeDocument> {
    let output = context.output;
    if !args.dry_run {
        context.check_writable()?;
    }
    let mp = context.open_existing()?;
    let worktree = context.open_worktree(&mp)?;
    // Output shows paths relative to the root, so a path may be relative to the root, too.
    let candidates = |path: &PathBuf| worktree_path::candidates(worktree.root(), path);
    let mut paths: Vec<PathBuf> = args.paths.iter().flat_map(candidates).collect();
    if paths.iter().any(|path| path.starts_with(worktree.root())) {
        paths.retain(|path| path.starts_with(worktree.root()));
    }
    let server = context.open_server()?;
    let purge = |dry_run: bool| -> Result<PurgeReport> {
        // The server first: if it cannot be reached, nothing is removed here either, and the command can be repeated.
        let Some(mp) = &server else { return Ok(worktree.purge(&paths, dry_run)?) };
        let there = context.open_worktree(mp)?.purge(&paths, dry_run)?;
        Ok(worktree.purge(&paths, dry_run)?.combined(there))
    };
    let is_empty = |report: &PurgeReport| report.contents() + report.moved_aside() == 0;
    if !args.dry_run && !output.yes {
        let plan = purge(true)?;
        if !is_empty(&plan) {
            if output.can_ask() {
                output.message_page(PurgeDocument::new(plan.clone()).text().trim_end());
            }
            let n = format::counted(plan.contents() + plan.moved_aside(), "stored content");
            let question = format!("Remove {n} from all checkpoints? This cannot be undone.");
            let unconfirmed = format!("removing {n} was not confirmed");
            super::confirm_removal(output, &question, "removed", unconfirmed)?;
        }
    }
    Ok(PurgeDocument::new(purge(args.dry_run)?))
}
