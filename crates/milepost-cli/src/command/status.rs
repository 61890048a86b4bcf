//! `status`: shows the store, unfinished runs, saves waiting in the outbox, and the next command to type.

use std::path::PathBuf;

use milepost::Error;
use milepost::internal::engine::{AssessedRun, PendingState, RunGroups};
use milepost::model::RunRecord;
use milepost::store::StoreError;

use crate::context::Context;
use crate::error::Result;
use crate::hook::failures;
use crate::present::status::{StatusDocument, StatusRow};

/// Show the store, its unfinished runs, and the next command
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  milepost\n  milepost status --json")]
pub(crate) struct StatusArgs {}

pub(crate) fn execute(_: StatusArgs, context: &Context<'_>) -> Result<StatusDocument> {
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
    let runs = mp.run_groups(|run| !hidden.contains(run))?;
    let rows = |runs: Vec<AssessedRun>| runs.into_iter().map(StatusRow::new).collect();
    Ok(StatusDocument {
        store: Some(info.url().clone()),
        bytes: info.bytes(),
        warning: info.warning().clone(),
        hook_failures: failures::read(&context.config.project()),
        next: match context.foreign() {
            Some(_) => "milepost trust".to_owned(),
            None => next_command(&runs, &document.worktree),
        },
        live: rows(runs.live),
        open: rows(runs.open),
        stopped: rows(runs.stopped),
        ended: rows(runs.ended),
        now: mp.now(),
        ..document
    })
}

/// The command to type next.
fn next_command(runs: &RunGroups, worktree: &str) -> String {
    if runs.stopped.iter().any(|run| run.decision.is_none()) {
        return "milepost doctor".to_owned();
    }
    let eligible = |run: &&AssessedRun| run.decision.is_some_and(|decision| decision.eligible);
    let stopped: Vec<_> = runs.stopped.iter().chain(&runs.open).filter(eligible).collect();
    let is_here = |run: &&&AssessedRun| {
        run.summary.intact().and_then(RunRecord::folder).is_some_and(|folder| folder == worktree)
    };
    match (stopped.iter().find(is_here), stopped.first(), &runs.live[..], &runs.ended[..]) {
        (Some(_), ..) => "milepost resume".to_owned(),
        (None, Some(run), ..) => format!("milepost resume {}", run.summary.run_id()),
        // A live run saves its own checkpoints.
        (None, None, [run, ..], _) => format!("milepost runs {}", run.summary.run_id()),
        (None, None, [], [_, ..]) => "milepost list".to_owned(),
        (None, None, [], []) => "milepost save \"what you are doing\"".to_owned(),
    }
}

/// The number of saves in the outbox, and the files of those that the user has to accept.
fn waiting(context: &Context<'_>) -> (u64, Vec<PathBuf>) {
    let pending = context.outbox().and_then(|outbox| outbox.pending().ok()).unwrap_or_default();
    let all = pending.len() as u64;
    let unsigned = pending.into_iter().filter(|one| matches!(one.state, PendingState::Unsigned { .. }));
    (all, unsigned.map(|one| one.file).collect())
}
