//! `diff`: shows what changed between two checkpoints.

use milepost::Reference;

use crate::completion::Values;
use crate::context::Context;
use crate::error::Result;
use crate::present::diff::DiffDocument;

/// Show what changed between two checkpoints
///
/// A and B are ids, short ids, `latest`, `latest~2`, `RUN@12` or tags, from any runs. Ids, times, sources and
/// memory are not compared. Numbers are equal only if they are written identically. The order of object
/// members does not matter. List elements are matched by their `id`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  milepost diff latest~1\n  milepost diff nightly@3 nightly@7\n  \
                  milepost diff before-refactoring latest --json\n  \
                  milepost diff a@1 b@1 --exit-code > /dev/null || echo they differ")]
pub(crate) struct DiffArgs {
    /// Checkpoint to start from
    #[arg(value_name = "A", add = Values::Reference)]
    pub(super) from: String,
    /// Checkpoint to compare with [default: the newest of A's run]
    #[arg(value_name = "B", add = Values::Reference)]
    pub(super) to: Option<String>,
    /// Exit with 4 if they differ
    #[arg(long)]
    pub(super) exit_code: bool,
}

pub(crate) fn execute(args: DiffArgs, context: &Context<'_>) -> Result<DiffDocument> {
    let from: Reference = args.from.parse()?;
    let to = args.to.as_deref().map(str::parse::<Reference>).transpose()?;
    let mp = context.open_existing()?;
    let run = context.run_of_reference(&mp, &from)?;
    let diff = mp.diff(&from, to.as_ref(), run.as_ref())?;
    context.ensure_visible(&mp, diff.from().header.run_id())?;
    context.ensure_visible(&mp, diff.to().header.run_id())?;
    Ok(DiffDocument::new(diff, mp.now(), args.exit_code))
}
