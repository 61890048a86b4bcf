//! `status`: the store, the runs that are not over, what waits, and the next command to type.

use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;
use milepost::internal::engine::PendingState;
use milepost::internal::engine::RunState;
use milepost::model::RunId;
use milepost::store::StoreError;
use milepost::{Error, Milepost, RunsQuery, Status};

use crate::context::Context;
use crate::error::CommandError;
use crate::hook::failures;
use crate::present::status::{RunStanding, StatusDocument};

/// Show the store, runs that are live, open or stopped, and what to do next
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  milepost\n  milepost status --json")]
pub(crate) struct StatusArgs {}

/// A failed run is part of the morning's screen for so long.
const RECENT: Duration = Duration::from_secs(7 * 24 * 3600);

/// Runs by how they stand.
#[derive(Default)]
pub(crate) struct Runs {
    pub(crate) live: Vec<RunStanding>,
    pub(crate) open: Vec<RunStanding>,
    pub(crate) stopped: Vec<RunStanding>,
    pub(crate) ended: Vec<RunStanding>,
}

impl Runs {
    fn of(mp: &Milepost, hidden: &[RunId]) -> Result<Self, Error> {
        let mut runs = Self::default();
        let mut known = mp.candidates()?.into_iter().peekable();
        for summary in mp.runs(&RunsQuery::default())? {
            let candidate = known.next_if(|candidate| candidate.summary.run_id() == summary.run_id());
            if hidden.contains(summary.run_id()) {
                continue;
            }
            let (decision, claimed_by) = candidate.map_or((None, None), |c| (Some(c.decision), c.claimed_by));
            runs.sort(RunStanding { summary, decision, claimed_by }, mp.now());
        }
        Ok(runs)
    }

    fn sort(&mut self, run: RunStanding, now: Timestamp) {
        let record = run.summary.intact();
        let handled = run.claimed_by.is_some() || record.is_some_and(|record| record.dismissed());
        let long_ago = record.is_some_and(|record| {
            record.status() == Status::Failed
                && milepost::internal::clock::age(record.updated_at(), now).is_some_and(|age| age > RECENT)
        });
        let group = match run.decision.map(|decision| decision.run_state) {
            None => &mut self.stopped,
            Some(RunState::Active | RunState::Waiting | RunState::Stalled | RunState::Unseen) => {
                &mut self.live
            }
            Some(RunState::Ended) => &mut self.ended,
            Some(_) if handled || long_ago => &mut self.ended,
            Some(RunState::Stopped) => &mut self.stopped,
            Some(RunState::Open) => &mut self.open,
        };
        group.push(run);
    }

    fn next(&self, here: &str) -> String {
        if self.stopped.iter().any(|run| run.decision.is_none()) {
            return "milepost doctor".to_owned();
        }
        let eligible = |run: &&RunStanding| run.decision.is_some_and(|decision| decision.eligible);
        let stopped: Vec<_> = self.stopped.iter().chain(&self.open).filter(eligible).collect();
        let is_here = |run: &&&RunStanding| {
            let record = run.summary.intact();
            record.is_some_and(|r| r.place().is_some_and(|w| w == here))
        };
        match (stopped.iter().find(is_here), stopped.first(), &self.live[..], &self.ended[..]) {
            (Some(_), ..) => "milepost resume".to_owned(),
            (None, Some(run), ..) => format!("milepost resume {}", run.summary.run_id()),
            (None, None, [], [_, ..]) => "milepost list".to_owned(),
            _ => "milepost save --summary \"what you are doing\"".to_owned(),
        }
    }
}

pub(crate) fn execute(_: &StatusArgs, context: &Context<'_>) -> Result<StatusDocument, CommandError> {
    let (waiting, unsigned) = waiting(context);
    let mut document = StatusDocument {
        schema: "milepost.status/1",
        store: None,
        bytes: 0,
        warning: None,
        live: Vec::new(),
        open: Vec::new(),
        stopped: Vec::new(),
        ended: 0,
        waiting,
        waiting_unsigned: unsigned.len() as u64,
        hook_failures: Vec::new(),
        next: "milepost init".to_owned(),
        url: context.url().to_string(),
        unsigned,
        runs: Runs::default(),
        outbox: context.config.paths.outbox(),
        here: context.here(),
        now: Timestamp::MIN,
    };
    let mp = match context.open_existing() {
        Err(Error::Store(StoreError::Missing { .. })) => return Ok(document),
        other => other?,
    };
    let info = mp.store().info()?;
    let runs = Runs::of(&mp, &context.hidden_runs(&mp)?)?;
    let documents = |runs: &[RunStanding]| runs.iter().map(RunStanding::document).collect();
    document.store = Some(info.url().clone());
    document.bytes = info.bytes();
    document.warning = info.warning().clone();
    document.live = documents(&runs.live);
    document.open = documents(&runs.open);
    document.stopped = documents(&runs.stopped);
    document.ended = runs.ended.len() as u64;
    document.hook_failures = failures::read();
    document.next = match context.foreign() {
        Some(_) => "milepost trust".to_owned(),
        None => runs.next(&context.here()),
    };
    document.runs = runs;
    document.now = mp.now();
    Ok(document)
}

/// How many saves wait in the outbox, and the files of those that wait for somebody to accept them.
fn waiting(context: &Context<'_>) -> (u64, Vec<PathBuf>) {
    let pending = context.outbox().and_then(|outbox| outbox.pending().ok()).unwrap_or_default();
    let all = pending.len() as u64;
    let unsigned = pending.into_iter().filter(|one| matches!(one.state, PendingState::Unsigned { .. }));
    (all, unsigned.map(|one| one.file).collect())
}
