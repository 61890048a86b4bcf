//! `prune`: removes what is no longer kept, in all runs or one, after asking; compresses, and gives space back.

use milepost::engine::{Prune, PruneReport};
use milepost::store::{StoreError, StoreUrl};
use milepost::{Error, Exit, ReasonCode};

use crate::config::RetainFlags;
use crate::context::Context;
use crate::failure::Failure;
use crate::present::prune::{Document, page, summary, why};
use crate::present::words;

/// Remove checkpoints that are no longer kept, and give the space back
///
/// In the whole store, or in the run named with --run. A run keeps its newest checkpoints (50, up to an age of 14 days,
/// unless its profile or a flag says otherwise), and whatever their number and age: the newest, the latest failed,
/// completed and state-holding ones, pinned and tagged ones, and those that --keep-hourly, --keep-daily, --keep-weekly
/// and --keep-within ask for. While the store takes more than 1 GB, the oldest ended runs keep only those that stay
/// whatever their number and age. Ended runs go as a whole only where retain.ended_runs says so. Saves prune their own
/// run all the time; this does the rest.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  milepost prune --dry-run\n  milepost prune --yes\n  milepost prune --run nightly --keep-last 10\n  \
                  milepost prune --keep-last 5 --keep-daily 7 --keep-weekly 8 --dry-run\n  \
                  milepost --store files:checkpoints prune --compress-after 24h --yes"
)]
pub(crate) struct PruneArgs {
    /// Say what would go, and change nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    retain: RetainFlags,
}

pub(crate) fn run(args: &PruneArgs, context: &Context<'_>) -> Result<(), Failure> {
    let screen = context.screen;
    let retain = context.config.retain.with(&args.retain)?;
    if !args.dry_run {
        context.check_writable()?;
    }
    let mp = context.reader()?.with_settings(context.settings_with(&retain));
    let mut request = Prune { run: context.known_run(&mp)?, dry_run: true };
    if args.retain.compress_after.is_some() && matches!(context.url(), StoreUrl::Sqlite(_)) {
        screen
            .talk("a SQLite store packs its documents as they are saved: --compress-after has nothing to do");
    }
    let prune = |request: &Prune| {
        let mut progress = screen.progress();
        mp.prune(request, &mut |n| progress.at("checkpoints looked at", n))
    };
    if args.dry_run || !screen.yes {
        let plan = prune(&request)?;
        if args.dry_run {
            return show(context, &plan, &page(screen, &plan, mp.now()));
        }
        if plan.removed > 0 {
            confirm(context, &plan, mp.now())?;
            request.dry_run = false;
            let report = prune(&request)?;
            // The table was there before the question.
            return show(context, &report, &summary(&report));
        }
    }
    request.dry_run = false;
    let report = prune(&request)?;
    show(context, &report, &page(screen, &report, mp.now()))
}

/// Asks; nothing was changed where the answer is no.
fn confirm(context: &Context<'_>, plan: &PruneReport, now: jiff::Timestamp) -> Result<(), Failure> {
    let n = words::counted(plan.removed, "checkpoint");
    let screen = context.screen;
    if screen.can_ask() {
        screen.talk_page(page(screen, plan, now).trim_end());
    }
    match screen.ask(&format!("Remove {n}? This cannot be undone.")) {
        Some(true) => Ok(()),
        Some(false) => {
            Err(Failure::told(ReasonCode::ConfirmationNeeded, "not confirmed: nothing was removed"))
        }
        None => Err(Failure::told(ReasonCode::ConfirmationNeeded, format!("removing {n} was not confirmed"))
            .hint("add --yes if you mean it, or --dry-run to see what would go")),
    }
}

fn show(context: &Context<'_>, report: &PruneReport, text: &str) -> Result<(), Failure> {
    let screen = context.screen;
    if !report.dry_run {
        let n = words::counted(report.removed, "checkpoint");
        screen.done(format!("the store was pruned, with {n} removed"));
    }
    if screen.json {
        screen.document(&Document::of(report))?;
    } else {
        screen.text(text)?;
    }
    if let Some(bytes) = report.too_large {
        let most = words::bytes(context.config.retain.house.max_bytes);
        screen.talk(&format!(
            "Warning: the store {} {}, more than {most}, and no ended run is left that may go; \
             `milepost delete RUN` removes one, retain.max_store in milepost.toml is the bound",
            if report.dry_run { "would still take" } else { "still takes" },
            words::bytes(bytes),
        ));
    }
    let Some(first) = report.failed.first() else { return Ok(()) };
    for failure in &report.failed {
        let run = failure.run_id.as_ref().map_or(String::new(), |run| format!("run {run}: "));
        screen.talk(&format!("{run}{}", why(&failure.error)));
    }
    let done = report.removed + report.compressed > 0;
    if let (false, Error::Store(StoreError::Busy { .. })) = (done, &first.error) {
        let message = format!("nothing was pruned: {}", first.error);
        return Err(Failure::told(ReasonCode::StoreBusy, message)
            .exits(Exit::Busy)
            .hint("try again; if it lasts, a stopped process may hold the lock"));
    }
    let message = format!(
        "{} while pruning; {} removed and {} compressed so far",
        words::counted(report.failed.len() as u64, "problem"),
        words::counted(report.removed, "checkpoint"),
        words::count(report.compressed),
    );
    Err(Failure::told(ReasonCode::CheckpointRetentionPruneFailed, message)
        .exits(if done { Exit::Partly } else { Exit::Failed })
        .hint("`milepost doctor` says what is wrong; prune again afterwards"))
}
