//! `prune`: removes checkpoints that retention does not keep, in all runs or one, after confirmation. Also
//! compresses documents and frees disk space.

use milepost::PruneOptions;

use crate::config::RetainFlags;
use crate::context::Context;
use crate::error::Result;
use crate::present::format;
use crate::present::prune::{PruneDocument, page};

/// Remove checkpoints that retention does not keep
///
/// Works on the whole store, or on the run that --run names. A run keeps its newest 50 checkpoints, up to an
/// age of 14 days, unless its profile or a flag says otherwise. Some checkpoints are always kept, regardless
/// of number and age: the newest one, the latest failed one, the latest completed one, the latest one with a
/// state, pinned and tagged ones, and those that --keep-hourly, --keep-daily, --keep-weekly and --keep-within
/// select. While the store is larger than 1 GB, the oldest ended runs are reduced to these. Ended runs are
/// removed completely only if retain.ended_runs is set. Every save prunes its own run.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  milepost prune --dry-run\n  milepost prune --yes\n  milepost prune --run nightly --keep-last 10\n  \
                  milepost prune --keep-last 5 --keep-daily 7 --keep-weekly 8 --dry-run\n  \
                  milepost --store files:checkpoints prune --compress-after 24h --yes"
)]
pub(crate) struct PruneArgs {
    /// Show what would be removed without changing anything
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    retain: RetainFlags,
}

pub(crate) fn execute(args: PruneArgs, context: &Context<'_>) -> Result<PruneDocument> {
    let output = context.output;
    let retain = context.config.retain.with(&args.retain)?;
    if !args.dry_run {
        context.check_writable()?;
    }
    // What waits on this machine is sent first. Then only the server is pruned: its copy here keeps little.
    let mp = context.open_existing()?;
    let server = context.open_server()?;
    let synced = server.is_some().then(|| mp.clone());
    let mp = server.unwrap_or(mp).with_settings(context.settings_with(&retain));
    let request = PruneOptions::default().run(context.named_run(&mp)?);
    if args.retain.compress_after.is_some() && context.url().compresses_on_save() {
        output.message(
            "a SQLite store compresses documents when they are saved: --compress-after has no effect",
        );
    }
    let prune = |request: &PruneOptions| {
        let mut progress = output.progress();
        mp.prune(request, &mut |n| progress.at("checkpoints checked", n))
    };
    let document = |report, table_shown| PruneDocument {
        report,
        now: mp.now(),
        max_bytes: context.config.retain.store_limits.max_bytes,
        table_shown,
    };
    let mut asked = false;
    if args.dry_run || !output.yes {
        let plan = prune(&request.clone().dry_run(true))?;
        if args.dry_run {
            return Ok(document(plan, false));
        }
        if plan.removed() > 0 {
            if output.can_ask() {
                output.message_page(page(output, &plan, mp.now()).trim_end());
            }
            let n = format::counted(plan.removed(), "checkpoint");
            let question = format!("Remove {n}? This cannot be undone.");
            let unconfirmed = format!("removing {n} was not confirmed");
            super::confirm_removal(output, &question, "removed", unconfirmed)?;
            asked = true;
        }
    }
    let report = prune(&request)?;
    if let Some(synced) = synced {
        synced.forget_pruned(&report);
    }
    Ok(document(report, asked))
}
