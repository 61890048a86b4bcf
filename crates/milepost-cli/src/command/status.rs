//! `status`: the store, the runs that are not over, what waits, and the next command to type.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use crate::error_advice::Exit;
use jiff::Timestamp;
use milepost::internal::engine::PendingState;
use milepost::model::{InterruptionKind, LogLine, RunId, RunRecord};
use milepost::store::StoreError;
use milepost::{Error, Milepost, ReasonCode, Status};
use milepost::{ResumeDecision, RunState};
use milepost::{RunSummary, RunsQuery};
use serde::Serialize;

use crate::context::Context;
use crate::error::CommandError;
use crate::hook::failures::{self, Noted};
use crate::present::format::{self, ago, bold, clean};
use crate::present::run::{RunDocument, standing};
use crate::present::table::{cell, lines, table};

/// Show the store, runs that are live, open or stopped, and what to do next
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  milepost\n  milepost status --json")]
pub(crate) struct StatusArgs {}

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    store: Option<String>,
    bytes: u64,
    warning: Option<String>,
    live: Vec<StandingDocument>,
    open: Vec<StandingDocument>,
    stopped: Vec<StandingDocument>,
    ended: u64,
    waiting: u64,
    /// Of those, how many wait for somebody to accept them.
    waiting_unsigned: u64,
    hook_failures: &'a [Noted],
    next: String,
}

/// A run, and how it stands.
#[derive(Serialize)]
struct StandingDocument {
    #[serde(flatten)]
    run: RunDocument,
    standing: &'static str,
    class: Option<InterruptionKind>,
    continued_by: Option<RunId>,
}

/// A failed run is part of the morning's screen for so long.
const RECENT: Duration = Duration::from_secs(7 * 24 * 3600);

/// A run as it is shown.
struct Stands {
    summary: RunSummary,
    decision: Option<ResumeDecision>,
    claimed_by: Option<RunId>,
}

impl Stands {
    fn word(&self) -> &'static str {
        match self.decision.map(|decision| decision.run_state) {
            _ if self.claimed_by.is_some() => "continued",
            None => "damaged",
            Some(RunState::Active) => "live",
            Some(RunState::Waiting) => "waiting",
            Some(RunState::Stalled) => "stalled",
            Some(RunState::Unseen) => "unseen",
            Some(RunState::Stopped) => standing(&self.summary),
            Some(RunState::Open) => "open",
            Some(RunState::Ended) => "completed",
        }
    }

    /// Why it does not go on.
    fn why(&self) -> String {
        let Some(decision) = self.decision else { return String::new() };
        let noted = self.summary.intact().and_then(|record| record.interruption.as_ref());
        match (&self.claimed_by, decision.run_state) {
            (Some(run), _) => format!("by {run}"),
            (None, RunState::Active | RunState::Open | RunState::Ended | RunState::Unseen) => String::new(),
            (None, _) => match noted.and_then(|noted| noted.detail.as_deref()) {
                Some(detail) => format!("{}: {}", decision.class, clean(detail)),
                None => decision.class.to_string(),
            },
        }
    }

    fn document(&self) -> StandingDocument {
        StandingDocument {
            run: RunDocument::of(&self.summary),
            standing: self.word(),
            class: self.decision.map(|decision| decision.class),
            continued_by: self.claimed_by.clone(),
        }
    }
}

/// Runs by how they stand.
#[derive(Default)]
struct Runs {
    live: Vec<Stands>,
    open: Vec<Stands>,
    stopped: Vec<Stands>,
    ended: Vec<Stands>,
}

impl Runs {
    fn of(mp: &Milepost, hidden: &[RunId]) -> Result<Self, Error> {
        let mut runs = Self::default();
        let mut known = mp.candidates()?.into_iter().peekable();
        for summary in mp.runs(&RunsQuery::default())? {
            let candidate = known.next_if(|candidate| candidate.summary.run_id == summary.run_id);
            if hidden.contains(&summary.run_id) {
                continue;
            }
            let (decision, claimed_by) = candidate.map_or((None, None), |c| (Some(c.decision), c.claimed_by));
            runs.sort(Stands { summary, decision, claimed_by }, mp.now());
        }
        Ok(runs)
    }

    fn sort(&mut self, run: Stands, now: Timestamp) {
        let record = run.summary.intact();
        let set_aside = run.claimed_by.is_some() || record.is_some_and(|record| record.dismissed);
        let long_ago = record.is_some_and(|record| {
            record.status == Status::Failed
                && milepost::internal::clock::age(record.updated_at, now).is_some_and(|age| age > RECENT)
        });
        let group = match run.decision.map(|decision| decision.run_state) {
            None => &mut self.stopped,
            Some(RunState::Active | RunState::Waiting | RunState::Stalled | RunState::Unseen) => {
                &mut self.live
            }
            Some(RunState::Ended) => &mut self.ended,
            Some(_) if set_aside || long_ago => &mut self.ended,
            Some(RunState::Stopped) => &mut self.stopped,
            Some(RunState::Open) => &mut self.open,
        };
        group.push(run);
    }

    fn next(&self, here: &str) -> String {
        if self.stopped.iter().any(|run| run.decision.is_none()) {
            return "milepost doctor".to_owned();
        }
        let eligible = |run: &&Stands| run.decision.is_some_and(|decision| decision.eligible);
        let stopped: Vec<_> = self.stopped.iter().chain(&self.open).filter(eligible).collect();
        let is_here = |run: &&&Stands| {
            let record = run.summary.intact();
            record.is_some_and(|r| r.place().is_some_and(|w| w == here))
        };
        match (stopped.iter().find(is_here), stopped.first(), &self.live[..], &self.ended[..]) {
            (Some(_), ..) => "milepost resume".to_owned(),
            (None, Some(run), ..) => format!("milepost resume {}", run.summary.run_id),
            (None, None, [], [_, ..]) => "milepost list".to_owned(),
            _ => "milepost save --summary \"what you are doing\"".to_owned(),
        }
    }
}

pub(crate) fn run(_: &StatusArgs, context: &Context<'_>) -> Result<(), CommandError> {
    let mp = match context.open_existing() {
        Err(CommandError::Library(Error::Store(StoreError::Missing { .. }))) => return nothing(context),
        other => other?,
    };
    let info = mp.store().info()?;
    let runs = Runs::of(&mp, &context.hidden_runs(&mp)?)?;
    let (waiting, unsigned) = waiting(context);
    let next = match context.foreign() {
        Some(_) => "milepost trust".to_owned(),
        None => runs.next(&context.here()),
    };
    let hook_failures = &failures::read()[..];
    if context.output.json {
        let documents = |runs: &[Stands]| runs.iter().map(Stands::document).collect();
        return context.output.document(&Document {
            schema: "milepost.status/1",
            store: Some(info.url),
            bytes: info.bytes,
            warning: info.warning,
            live: documents(&runs.live),
            open: documents(&runs.open),
            stopped: documents(&runs.stopped),
            ended: runs.ended.len() as u64,
            waiting,
            waiting_unsigned: unsigned.len() as u64,
            hook_failures,
            next,
        });
    }
    let mut text = format!("{}  {}, {}\n", bold("Store"), clean(&info.url), format::bytes(info.bytes));
    if let Some(warning) = info.warning {
        let _ = writeln!(text, "{}  {}", format::yellow("Warning"), clean(&warning));
    }
    if waiting > 0 {
        let n = format::counted(waiting, "checkpoint");
        let folder = clean(&context.config.place.outbox().to_string_lossy());
        let _ = writeln!(text, "{}  {n} in {folder} until the store can be written", bold("Waiting"));
    }
    if !unsigned.is_empty() {
        let n = format::count(unsigned.len() as u64);
        let _ = writeln!(text, "         {n} without your signature; `milepost trust --outbox` accepts:");
        for file in unsigned.iter().take(LISTED) {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            let _ = writeln!(text, "         {}", format::clean(&name));
        }
    }
    if let Some(last) = hook_failures.last() {
        let n = format::counted(hook_failures.len() as u64, "hook failure");
        let _ = writeln!(
            text,
            "{}  {n}, the last {} ({}): {}",
            format::yellow("Hooks"),
            ago(last.at, mp.now()),
            clean(&last.agent),
            clean(&last.message)
        );
    }
    text.push('\n');
    text.push_str(&shown(&runs, context, mp.now()));
    let _ = writeln!(text, "\n{} {next}", bold("Next:"));
    context.output.text(&text)
}

fn shown(runs: &Runs, context: &Context<'_>, now: Timestamp) -> String {
    let current: Vec<_> = runs.live.iter().chain(&runs.stopped).chain(&runs.open).collect();
    if current.is_empty() && runs.ended.is_empty() {
        return "No runs yet.\n".to_owned();
    }
    let mut text = String::new();
    if !current.is_empty() {
        let here = context.here();
        let mut shown = table(context.output, &["RUN", "STATE", "WHY", "SAVED", "WHERE", "ABOUT"]);
        for run in current {
            let summary = &run.summary;
            let latest = summary.latest.as_ref().map(|entry| &entry.header);
            let record = summary.intact();
            let title = record.and_then(|record| record.title.clone());
            let prompt = record.and_then(|record| {
                let said = record.working.log.iter().find_map(LogLine::prompt);
                said.map(|said| said.lines().next().unwrap_or_default().to_owned())
            });
            let about = title.or_else(|| latest.and_then(|header| header.summary.clone())).or(prompt);
            let place = record.and_then(RunRecord::place);
            let place = match place {
                Some(place) if *place == here => "here".to_owned(),
                Some(place) => place.rsplit('/').next().unwrap_or_default().to_owned(),
                None => "-".to_owned(),
            };
            shown.add_row([
                cell(summary.run_id.as_str()),
                cell(run.word()),
                cell(run.why()),
                cell(latest.map_or("-".to_owned(), |header| ago(header.created_at, now))),
                cell(place),
                cell(about.unwrap_or_default()),
            ]);
        }
        text.push_str(&lines(&shown));
    }
    if let Some(last) = runs.ended.first() {
        let n = format::counted(runs.ended.len() as u64, "run");
        let _ = writeln!(text, "{n} ended, last {} ({})", last.summary.run_id, last.word());
    }
    text
}

/// Names of unsigned saves that are listed.
const LISTED: usize = 5;

/// How many saves wait in the outbox, and the files of those that wait for somebody to accept them.
fn waiting(context: &Context<'_>) -> (u64, Vec<PathBuf>) {
    let pending = context.outbox().and_then(|outbox| outbox.pending().ok()).unwrap_or_default();
    let all = pending.len() as u64;
    let unsigned = pending.into_iter().filter(|one| matches!(one.state, PendingState::Unsigned { .. }));
    (all, unsigned.map(|one| one.file).collect())
}

/// There is no store: said kindly, and with the code that says so to programs.
fn nothing(context: &Context<'_>) -> Result<(), CommandError> {
    const NEXT: &str = "milepost init";
    let url = context.url();
    let (waiting, unsigned) = waiting(context);
    if context.output.json {
        context.output.document(&Document {
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
            hook_failures: &[],
            next: NEXT.to_owned(),
        })?;
    } else {
        let mut text = format!("No store here yet: {} is made by the first save.\n", clean(&url.to_string()));
        if waiting > 0 {
            let n = format::counted(waiting, "checkpoint");
            let folder = clean(&context.config.place.outbox().to_string_lossy());
            let _ = writeln!(text, "{n} in {folder} until it can be");
        }
        let _ = writeln!(text, "\n{} {NEXT}", bold("Next:"));
        context.output.text(&text)?;
        return Err(CommandError::ExitOnly(Exit::NoStore));
    }
    Err(CommandError::new(ReasonCode::StoreMissing, format!("no store at {url}"))
        .with_hint("`milepost init` makes one, and so does the first `milepost save`"))
}
