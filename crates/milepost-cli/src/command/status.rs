//! `status`: shows the store, unfinished runs, saves waiting in the outbox, and the next command to type. With `--all`,
//! shows the runs of all projects.

use std::path::PathBuf;

use milepost::Error;
use milepost::internal::engine::{AssessedRun, PendingState, RunGroups};
use milepost::model::RunRecord;
use milepost::store::StoreError;

use crate::context::Context;
use crate::error::Result;
use crate::hook::failures;
use crate::present::one_of::OneOf;
use crate::present::status::{StatusDocument, StatusRow};
use crate::present::status_all::AllStatusDocument;

/// Show the store, its unfinished runs, and the next command
///
/// --all shows what happened in every project that you created or trusted on this machine: interrupted runs first,
/// then live and waiting ones, and what ended today. Servers are asked for one second at most. Outside any project,
/// `milepost` alone shows the same.
#[derive(Debug, Default, clap::Args)]
#[command(after_help = "Examples:\n  milepost\n  milepost status --all\n  milepost status --json\n  \
                        milepost status --project all")]
pub(crate) struct StatusArgs {
    /// Show the runs of all your projects on this machine
    #[arg(long, conflicts_with = "project")]
    pub(crate) all: bool,
    /// Project whose runs to show (all = every project), in a store on a server
    #[arg(long, value_name = "ID")]
    pub(crate) project: Option<String>,
}

pub(crate) fn execute(
    args: StatusArgs,
    context: &Context<'_>,
) -> Result<OneOf<StatusDocument, AllStatusDocument>> {
    if args.all {
        return Ok(OneOf::Second(status_of_all(context)));
    }
    status_of_project(&args, context).map(OneOf::First)
}

/// The runs of all projects.
pub(super) fn status_of_all(context: &Context<'_>) -> AllStatusDocument {
    let (projects, failed) = context.read_projects(|_, context, mp| {
        let hidden = context.hidden_runs(mp)?;
        Ok(mp.run_groups(None, |run| !hidden.contains(run))?)
    });
    let now = milepost::Clock::now(&milepost::internal::clock::SystemClock);
    AllStatusDocument::new(projects, failed, context.config.home.clone(), now)
}

fn status_of_project(args: &StatusArgs, context: &Context<'_>) -> Result<StatusDocument> {
    context.select_project(args.project.as_deref())?;
    let (waiting, unsigned) = waiting(context);
    let document = StatusDocument {
        waiting,
        waiting_unsigned: unsigned.len() as u64,
        next: "milepost init".to_owned(),
        url: context.url().to_string(),
        unsigned,
        outbox: context.config.paths.outbox(),
        worktree: context.worktree(),
        ..StatusDocument::default()
    };
    let mp = match context.open_existing() {
        Err(Error::Store(StoreError::Missing { .. })) => return Ok(document),
        other => other?,
    };
    let info = mp.store().info()?;
    let hidden = context.hidden_runs(&mp)?;
    let worktree = Some(document.worktree.as_str());
    let runs = mp.run_groups(worktree, |run| !hidden.contains(run))?;
    let rows = |runs: Vec<AssessedRun>| runs.into_iter().map(StatusRow::new).collect();
    let server = context.server_status(&mp)?;
    Ok(StatusDocument {
        store: Some(if server.is_some() { document.url.clone() } else { info.url().clone() }),
        server,
        bytes: info.bytes(),
        warning: info.warning().clone(),
        hook_failures: failures::read(&context.config.project()),
        next: match context.foreign() {
            Some(_) => "milepost trust".to_owned(),
            None => {
                let offered = mp.offered_runs(worktree, |record| !hidden.contains(record.run_id()))?;
                let first = offered.first().and_then(|run| run.summary.intact());
                next_command(&runs, first, &document.worktree)
            }
        },
        live: rows(runs.live),
        open: rows(runs.open),
        stopped: rows(runs.stopped),
        ended: rows(runs.ended),
        now: mp.now(),
        ..document
    })
}

/// The command to type next. `first` is the run that `resume` offers.
fn next_command(runs: &RunGroups, first: Option<&RunRecord>, worktree: &str) -> String {
    if runs.stopped.iter().any(|run| run.decision.is_none()) {
        return "milepost doctor".to_owned();
    }
    let is_here =
        |record: &RunRecord| record.works_in(worktree, milepost::internal::owner::host_name().as_deref());
    match (first, &runs.live[..], &runs.ended[..]) {
        (Some(first), ..) if is_here(first) => "milepost resume".to_owned(),
        (Some(first), ..) => format!("milepost resume {}", first.run_id()),
        // A live run saves its own checkpoints.
        (None, [run, ..], _) => format!("milepost runs {}", run.summary.run_id()),
        (None, [], [_, ..]) => "milepost list".to_owned(),
        (None, [], []) => "milepost save \"what you are doing\"".to_owned(),
    }
}

/// The number of saves in the outbox, and the files of those that the user has to accept.
fn waiting(context: &Context<'_>) -> (u64, Vec<PathBuf>) {
    let pending = context.outbox().and_then(|outbox| outbox.pending().ok()).unwrap_or_default();
    let all = pending.len() as u64;
    let unsigned = pending.into_iter().filter(|one| matches!(one.state, PendingState::Unsigned { .. }));
    (all, unsigned.map(|one| one.file).collect())
}
