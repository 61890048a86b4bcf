//! `status`: the store, the runs that are not over, what waits, and the next command to type.

use std::fmt::Write as _;

use jiff::Timestamp;
use milepost::engine::{RunSummary, RunsQuery};
use milepost::store::StoreError;
use milepost::{Error, Exit, ReasonCode};
use serde::Serialize;

use crate::context::Context;
use crate::failure::Failure;
use crate::present::run::{RunDocument, standing};
use crate::present::table::{cell, lines, table};
use crate::present::words::{self, ago, bold};

/// Show the store, runs that are live, open or stopped, and what to do next
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  milepost\n  milepost status --json")]
pub(crate) struct StatusArgs {}

#[derive(Serialize)]
struct Document {
    schema: &'static str,
    store: Option<String>,
    bytes: u64,
    warning: Option<String>,
    live: Vec<RunDocument>,
    open: Vec<RunDocument>,
    stopped: Vec<RunDocument>,
    ended: u64,
    waiting: u64,
    next: String,
}

/// Runs by how they stand.
#[derive(Default)]
struct Runs {
    live: Vec<RunSummary>,
    open: Vec<RunSummary>,
    stopped: Vec<RunSummary>,
    ended: Vec<RunSummary>,
}

impl Runs {
    fn sort(all: Vec<RunSummary>) -> Self {
        let mut runs = Self::default();
        for run in all {
            match standing(&run) {
                "live" => runs.live.push(run),
                "completed" | "failed" => runs.ended.push(run),
                "stopped" | "presumed dead" | "damaged" => runs.stopped.push(run),
                _ => runs.open.push(run),
            }
        }
        runs
    }

    fn next(&self) -> String {
        let damaged = self.stopped.iter().find(|run| run.record.is_err());
        match (damaged, self.stopped.first(), self.open.first(), self.ended.first()) {
            (Some(_), ..) => "milepost doctor".to_owned(),
            (_, Some(run), ..) if run.checkpoints > 0 => format!("milepost show latest --run {}", run.run_id),
            (_, _, Some(run), _) if run.checkpoints > 0 => {
                format!("milepost show latest --run {}", run.run_id)
            }
            (_, _, None, Some(_)) if self.live.is_empty() => "milepost list".to_owned(),
            _ => "milepost save --summary \"what you are doing\"".to_owned(),
        }
    }
}

pub(crate) fn run(_: &StatusArgs, context: &Context<'_>) -> Result<(), Failure> {
    let mp = match context.reader() {
        Err(Failure::Library(Error::Store(StoreError::Missing { .. }))) => return nothing(context),
        other => other?,
    };
    let info = mp.store().info()?;
    let runs = Runs::sort(mp.runs(&RunsQuery::default())?);
    let waiting = waiting(context);
    let next = runs.next();
    if context.screen.json {
        let documents = |runs: &[RunSummary]| runs.iter().map(RunDocument::of).collect();
        return context.screen.document(&Document {
            schema: "milepost.status/1",
            store: Some(info.url),
            bytes: info.bytes,
            warning: info.warning,
            live: documents(&runs.live),
            open: documents(&runs.open),
            stopped: documents(&runs.stopped),
            ended: runs.ended.len() as u64,
            waiting,
            next,
        });
    }
    let mut text = format!("{}  {}, {}\n", bold("Store"), info.url, words::bytes(info.bytes));
    if let Some(warning) = info.warning {
        let _ = writeln!(text, "{}  {warning}", words::yellow("Warning"));
    }
    if waiting > 0 {
        let n = words::counted(waiting, "checkpoint");
        let folder = context.config.place.outbox();
        let _ =
            writeln!(text, "{}  {n} in {} until the store can be written", bold("Waiting"), folder.display());
    }
    text.push('\n');
    text.push_str(&shown(&runs, context, mp.now()));
    let _ = writeln!(text, "\n{} {next}", bold("Next:"));
    context.screen.text(&text)
}

fn shown(runs: &Runs, context: &Context<'_>, now: Timestamp) -> String {
    let current: Vec<_> = runs.live.iter().chain(&runs.stopped).chain(&runs.open).collect();
    if current.is_empty() && runs.ended.is_empty() {
        return "No runs yet.\n".to_owned();
    }
    let mut text = String::new();
    if !current.is_empty() {
        let mut shown = table(context.screen, &["RUN", "STATE", "LAST CHECKPOINT", "SAVED", "ABOUT"]);
        for run in current {
            let latest = run.latest.as_ref().map(|entry| &entry.header);
            let title = run.record.as_ref().ok().and_then(|record| record.title.clone());
            let about = title.or_else(|| latest.and_then(|header| header.summary.clone()));
            shown.add_row([
                cell(run.run_id.as_str()),
                cell(standing(run)),
                cell(latest.map_or("-", |header| header.snapshot_id.as_str())),
                cell(latest.map_or("-".to_owned(), |header| ago(header.created_at, now))),
                cell(about.unwrap_or_default()),
            ]);
        }
        text.push_str(&lines(&shown));
    }
    if let Some(last) = runs.ended.first() {
        let n = words::counted(runs.ended.len() as u64, "run");
        let _ = writeln!(text, "{n} ended, last {} ({})", last.run_id, standing(last));
    }
    text
}

fn waiting(context: &Context<'_>) -> u64 {
    let files = context.outbox().and_then(|outbox| outbox.waiting().ok());
    files.map_or(0, |files| files.len() as u64)
}

/// There is no store: said kindly, and with the code that says so to programs.
fn nothing(context: &Context<'_>) -> Result<(), Failure> {
    const NEXT: &str = "milepost init";
    let url = context.url();
    let waiting = waiting(context);
    if context.screen.json {
        context.screen.document(&Document {
            schema: "milepost.status/1",
            store: None,
            bytes: 0,
            warning: None,
            live: Vec::new(),
            open: Vec::new(),
            stopped: Vec::new(),
            ended: 0,
            waiting,
            next: NEXT.to_owned(),
        })?;
    } else {
        let mut text = format!("No store here yet: {url} is made by the first save.\n");
        if waiting > 0 {
            let n = words::counted(waiting, "checkpoint");
            let _ = writeln!(text, "{n} in {} until it can be", context.config.place.outbox().display());
        }
        let _ = writeln!(text, "\n{} {NEXT}", bold("Next:"));
        context.screen.text(&text)?;
        return Err(Failure::Said(Exit::NoStore));
    }
    Err(Failure::told(ReasonCode::StoreMissing, format!("no store at {url}"))
        .hint("`milepost init` makes one, and so does the first `milepost save`"))
}
