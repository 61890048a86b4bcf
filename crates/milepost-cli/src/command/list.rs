//! `list`: lists checkpoints, newest first.

use milepost::ListQuery;
use milepost::model::{Source, Status};

use crate::completion::Values;
use crate::context::Context;
use crate::error::Result;
use crate::input::Argument;
use crate::present::list::ListDocument;

/// List checkpoints, newest first
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  milepost list\n  milepost log --run nightly --limit 0 --json\n  \
                        milepost list --incomplete --source error_boundary\n  milepost list --tree --limit 0")]
pub(crate) struct ListArgs {
    /// Maximum number to show (0 = no limit)
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(super) limit: usize,
    /// Only completed checkpoints
    #[arg(long, conflicts_with = "incomplete")]
    pub(super) completed: bool,
    /// Only checkpoints that are not completed
    #[arg(long)]
    pub(super) incomplete: bool,
    /// Only checkpoints with this source: step_boundary, error_boundary, timer or manual
    #[arg(long, value_name = "SOURCE", add = Values::Words(Source::NAMES))]
    pub(super) source: Option<Argument<Source>>,
    /// Only checkpoints with this status: in_progress, failed, completed or paused
    #[arg(long, value_name = "STATUS", add = Values::Words(Status::NAMES))]
    pub(super) status: Option<Argument<Status>>,
    /// Only checkpoints with this tag
    #[arg(long, value_name = "TAG", add = Values::Tag)]
    pub(super) tag: Option<String>,
    /// Show checkpoints below their parents, with branches to the right
    #[arg(long)]
    pub(super) tree: bool,
}

pub(crate) fn execute(args: ListArgs, context: &Context<'_>) -> Result<ListDocument> {
    let source = args.source.map(|s| s.choice("--source", "/source")).transpose()?;
    let status = args.status.map(|s| s.choice("--status", "/status")).transpose()?;
    let mp = context.open_existing()?;
    let run = context.visible_named_run(&mp)?;
    let hidden = if run.is_some() { Vec::new() } else { context.hidden_runs(&mp)? };
    // Read one more than the limit to learn whether there are more.
    let limit = if args.limit > 0 && hidden.is_empty() { args.limit.saturating_add(1) } else { 0 };
    let mut listing = mp.list(
        &ListQuery::default()
            .run(run)
            .limit(limit)
            .completed((args.completed || args.incomplete).then_some(args.completed))
            .source(source)
            .status(status)
            .tag(args.tag),
    )?;
    listing.checkpoints.retain(|listed| !hidden.contains(listed.entry().header.run_id()));
    let more = args.limit > 0 && listing.checkpoints.len() > args.limit;
    if more {
        listing.checkpoints.truncate(args.limit);
    }
    let ids: Vec<_> = listing.checkpoints.iter().map(|listed| listed.entry().header.snapshot_id()).collect();
    // JSON output has full ids.
    let unique = if context.output.json { Vec::new() } else { mp.unique_prefixes(&ids)? };
    Ok(ListDocument::new(listing, &unique, more, args.tree, mp.now()))
}
