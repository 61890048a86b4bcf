//! `diff`: what changed from one checkpoint to another.

use milepost::Reference;

use crate::context::Context;
use crate::error::Result;
use crate::present::diff::DiffDocument;

/// Show what changed from one checkpoint to another, of any runs
///
/// A and B are ids, starts of ids, `latest`, `latest~2`, `RUN@12` or tags. Without B, A is compared with the newest
/// checkpoint of A's run. Ids, times, sources and memory are no changes. Numbers are the same only where they are written
/// alike; the order of members does not matter; elements of lists that have an `id` are found by it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  milepost diff latest~1\n  milepost diff nightly@3 nightly@7\n  \
                  milepost diff before-refactoring latest --json\n  \
                  milepost diff a@1 b@1 --exit-code > /dev/null || echo they differ")]
pub(crate) struct DiffArgs {
    /// The checkpoint to start from
    #[arg(value_name = "A")]
    pub(super) from: String,
    /// The checkpoint to compare it with [default: the newest of A's run]
    #[arg(value_name = "B")]
    pub(super) to: Option<String>,
    /// Exit 4 where they differ
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
