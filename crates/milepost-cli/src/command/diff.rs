//! `diff`: shows what changed between two checkpoints, or between their files.

use std::path::{Path, PathBuf};

use milepost::{Files, Reference, Worktree};

use super::worktree_path;
use crate::completion::Values;
use crate::context::Context;
use crate::error::{CommandError, Result};
use crate::present::diff::DiffDocument;
use crate::present::one_of::OneOf;
use crate::present::patch::{PatchDocument, PatchForm};

/// Maximum number of files in a patch.
const MAX_FILES: usize = 10_000;

/// Show what changed between two checkpoints
///
/// A and B are ids, short ids, `latest`, `latest~2`, `RUN@12` or tags, from any runs. Ids, times, sources and
/// memory are not compared. Numbers are equal only if they are written identically. The order of object
/// members does not matter. List elements are matched by their `id`.
///
/// With --patch, --stat or --worktree, compares the files instead. A and B can then also be `prompt` for the
/// files before the newest prompt, or `prompt~2`. `git apply` accepts the output of --patch.
#[derive(Debug, Default, clap::Args)]
#[command(after_help = "Examples:\n  milepost diff latest~1\n  milepost diff nightly@3 nightly@7\n  \
                  milepost diff before-refactoring latest --json\n  \
                  milepost diff a@1 b@1 --exit-code > /dev/null || echo they differ\n  \
                  milepost diff prompt --worktree --stat\n  \
                  milepost diff latest~3 latest --patch -- src\n  \
                  milepost diff latest~1 latest --patch | git apply --reverse")]
pub(crate) struct DiffArgs {
    /// Checkpoint to start from
    #[arg(value_name = "A", add = Values::Reference)]
    pub(super) from: String,
    /// Checkpoint to compare with [default: the newest of A's run]
    #[arg(value_name = "B", add = Values::Reference)]
    pub(super) to: Option<String>,
    /// Files or folders to compare [default: all]
    #[arg(value_name = "PATH", value_hint = clap::ValueHint::AnyPath)]
    pub(super) more_paths: Vec<PathBuf>,
    /// Files or folders to compare, if B is omitted
    #[arg(value_name = "PATHS", last = true, value_hint = clap::ValueHint::AnyPath)]
    pub(super) paths: Vec<PathBuf>,
    /// Print the differences between the files as a unified diff
    #[arg(short, long, conflicts_with = "stat")]
    pub(super) patch: bool,
    /// Print the number of changed lines in each file
    #[arg(long)]
    pub(super) stat: bool,
    /// Compare A with the current files
    #[arg(long)]
    pub(super) worktree: bool,
    /// Exit with 4 if they differ
    #[arg(long)]
    pub(super) exit_code: bool,
}

pub(crate) fn execute(args: DiffArgs, context: &Context<'_>) -> Result<OneOf<DiffDocument, PatchDocument>> {
    if args.patch || args.stat || args.worktree {
        return compare_files(args, context).map(OneOf::Second);
    }
    if !args.more_paths.is_empty() || !args.paths.is_empty() {
        let message = "PATH restricts a comparison of files, which needs --patch, --stat or --worktree";
        return Err(CommandError::usage(message).with_hint("add --patch to see the changed lines"));
    }
    compare_checkpoints(&args, context).map(OneOf::First)
}

/// Compares what two checkpoints recorded.
pub(super) fn compare_checkpoints(args: &DiffArgs, context: &Context<'_>) -> Result<DiffDocument> {
    let from: Reference = args.from.parse()?;
    let to = args.to.as_deref().map(str::parse::<Reference>).transpose()?;
    let mp = context.open_existing()?;
    let run = context.run_of_reference(&mp, &from)?;
    let diff = mp.diff(&from, to.as_ref(), run.as_ref())?;
    context.ensure_visible(&mp, diff.from().header.run_id())?;
    context.ensure_visible(&mp, diff.to().header.run_id())?;
    Ok(DiffDocument::new(diff, mp.now(), args.exit_code))
}

/// Compares the files of two checkpoints, or of a checkpoint with the current ones.
pub(super) fn compare_files(args: DiffArgs, context: &Context<'_>) -> Result<PatchDocument> {
    let from: Reference = args.from.parse()?;
    let mut paths = args.paths;
    let to = match args.to {
        // There is no B, so the second argument is a path.
        Some(path) if args.worktree => {
            paths.push(path.into());
            None
        }
        to => to.as_deref().map(str::parse::<Reference>).transpose()?,
    };
    paths.extend(args.more_paths);
    let mp = context.open_existing()?;
    let worktree = context.open_worktree(&mp)?;
    let from = context.visible_files(&mp, &worktree, &from)?;
    let to = match to {
        Some(to) => context.visible_files(&mp, &worktree, &to)?,
        None if args.worktree => worktree.current_files()?,
        None => worktree.files(&Reference::Latest(0), from.run_id())?,
    };
    let paths: Vec<_> = paths.iter().map(|path| find_path(&worktree, path, &from, &to)).collect();
    let patches = match context.is_for_agent() {
        true => {
            let allow = &context.config.redact_allow;
            worktree.redacted_patches(&from, &to, &paths, MAX_FILES, allow)?
        }
        false => worktree.patches(&from, &to, &paths, MAX_FILES)?,
    };
    let form = if args.stat { PatchForm::Stat } else { PatchForm::Patch };
    let name = |files: &Files<'_>| match files.run_id() {
        Some(_) => files.name().to_owned(),
        None => "worktree".to_owned(),
    };
    Ok(PatchDocument::new(name(&from), name(&to), patches, form, args.exit_code))
}

/// Resolves a path argument to the first candidate under which files have changed.
fn find_path(worktree: &Worktree<'_>, path: &Path, from: &Files<'_>, to: &Files<'_>) -> PathBuf {
    let candidates = worktree_path::candidates(worktree.root(), path);
    let changed = candidates.iter().find(|path| worktree.has_changes_at(path, from, to));
    changed.or(candidates.first()).cloned().unwrap_or_default()
}
