//! The status of a project: its store, the runs that are not over, what waits, and the next command to type.

use std::fmt::Write as _;
use std::path::PathBuf;

use jiff::Timestamp;
use milepost::internal::engine::{ResumeDecision, RunState};
use milepost::model::{InterruptionKind, LogLine, RunId, RunRecord};
use milepost::{ReasonCode, RunSummary};
use serde::Serialize;

use super::format::{self, ago, bold, clean};
use super::run::{RunDocument, standing};
use super::table::{cell, lines, table};
use super::{Document, Output};
use crate::command::status::Runs;
use crate::error::CommandError;
use crate::error_advice::Exit;
use crate::hook::failures::HookFailure;

/// Names of unsigned saves that are listed.
const LISTED: usize = 5;

#[derive(Serialize)]
pub(crate) struct StatusDocument {
    pub(crate) schema: &'static str,
    /// None where there is no store yet.
    pub(crate) store: Option<String>,
    pub(crate) bytes: u64,
    pub(crate) warning: Option<String>,
    pub(crate) live: Vec<StandingDocument>,
    pub(crate) open: Vec<StandingDocument>,
    pub(crate) stopped: Vec<StandingDocument>,
    pub(crate) ended: u64,
    pub(crate) waiting: u64,
    /// Of those, how many wait for somebody to accept them.
    pub(crate) waiting_unsigned: u64,
    pub(crate) hook_failures: Vec<HookFailure>,
    pub(crate) next: String,
    /// The address of the store, also of one that is not there.
    #[serde(skip)]
    pub(crate) url: String,
    #[serde(skip)]
    pub(crate) unsigned: Vec<PathBuf>,
    #[serde(skip)]
    pub(crate) runs: Runs,
    #[serde(skip)]
    pub(crate) outbox: PathBuf,
    /// The folder of this worktree.
    #[serde(skip)]
    pub(crate) here: String,
    #[serde(skip)]
    pub(crate) now: Timestamp,
}

/// A run, and how it stands.
#[derive(Serialize)]
pub(crate) struct StandingDocument {
    #[serde(flatten)]
    run: RunDocument,
    standing: &'static str,
    class: Option<InterruptionKind>,
    continued_by: Option<RunId>,
}

/// A run as it is shown.
pub(crate) struct RunStanding {
    pub(crate) summary: RunSummary,
    pub(crate) decision: Option<ResumeDecision>,
    pub(crate) claimed_by: Option<RunId>,
}

impl RunStanding {
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
        let noted = self.summary.intact().and_then(|record| record.interruption().as_ref());
        match (&self.claimed_by, decision.run_state) {
            (Some(run), _) => format!("by {run}"),
            (None, RunState::Active | RunState::Open | RunState::Ended | RunState::Unseen) => String::new(),
            (None, _) => match noted.and_then(|noted| noted.detail.as_deref()) {
                Some(detail) => format!("{}: {}", decision.class, clean(detail)),
                None => decision.class.to_string(),
            },
        }
    }

    pub(crate) fn document(&self) -> StandingDocument {
        StandingDocument {
            run: RunDocument::of(&self.summary),
            standing: self.word(),
            class: self.decision.map(|decision| decision.class),
            continued_by: self.claimed_by.clone(),
        }
    }
}

impl Document for StatusDocument {
    fn render(&self, output: &Output) -> Result<(), CommandError> {
        let mut text = match &self.store {
            Some(store) => self.store_lines(store),
            None => self.missing_lines(),
        };
        if self.store.is_some() {
            text.push('\n');
            text.push_str(&self.run_lines(output));
        }
        let _ = writeln!(text, "\n{} {}", bold("Next:"), self.next);
        output.write_text(&text)?;
        if self.store.is_none() { Err(CommandError::ExitOnly(Exit::NoStore)) } else { Ok(()) }
    }

    fn error(&self) -> Option<CommandError> {
        let error = CommandError::new(ReasonCode::StoreMissing, format!("no store at {}", self.url));
        let hint = "`milepost init` makes one, and so does the first `milepost save`";
        self.store.is_none().then(|| error.with_hint(hint))
    }
}

impl StatusDocument {
    /// There is no store yet.
    fn missing_lines(&self) -> String {
        let mut text = format!("No store here yet: {} is made by the first save.\n", clean(&self.url));
        if self.waiting > 0 {
            let n = format::counted(self.waiting, "checkpoint");
            let folder = clean(&self.outbox.to_string_lossy());
            let _ = writeln!(text, "{n} in {folder} until it can be");
        }
        text
    }

    fn store_lines(&self, store: &str) -> String {
        let mut text = format!("{}  {}, {}\n", bold("Store"), clean(store), format::bytes(self.bytes));
        if let Some(warning) = &self.warning {
            let _ = writeln!(text, "{}  {}", format::yellow("Warning"), clean(warning));
        }
        if self.waiting > 0 {
            let n = format::counted(self.waiting, "checkpoint");
            let folder = clean(&self.outbox.to_string_lossy());
            let _ = writeln!(text, "{}  {n} in {folder} until the store can be written", bold("Waiting"));
        }
        if !self.unsigned.is_empty() {
            let n = format::count(self.waiting_unsigned);
            let _ = writeln!(text, "         {n} without your signature; `milepost trust --outbox` accepts:");
            for file in self.unsigned.iter().take(LISTED) {
                let name = file.file_name().unwrap_or_default().to_string_lossy();
                let _ = writeln!(text, "         {}", clean(&name));
            }
        }
        if let Some(last) = self.hook_failures.last() {
            let n = format::counted(self.hook_failures.len() as u64, "hook failure");
            let _ = writeln!(
                text,
                "{}  {n}, the last {} ({}): {}",
                format::yellow("Hooks"),
                ago(last.at, self.now),
                clean(&last.agent),
                clean(&last.message)
            );
        }
        text
    }

    fn run_lines(&self, output: &Output) -> String {
        let runs = &self.runs;
        let current: Vec<_> = runs.live.iter().chain(&runs.stopped).chain(&runs.open).collect();
        if current.is_empty() && runs.ended.is_empty() {
            return "No runs yet.\n".to_owned();
        }
        let mut text = String::new();
        if !current.is_empty() {
            let mut shown = table(output, &["RUN", "STATE", "WHY", "SAVED", "WHERE", "ABOUT"]);
            for run in current {
                let summary = &run.summary;
                let latest = summary.latest().as_ref().map(|entry| &entry.header);
                let record = summary.intact();
                let title = record.and_then(|record| record.title().clone());
                let prompt = record.and_then(|record| {
                    let prompt = record.working().log().iter().find_map(LogLine::prompt);
                    prompt.map(|prompt| prompt.lines().next().unwrap_or_default().to_owned())
                });
                let about = title.or_else(|| latest.and_then(|header| header.summary().clone())).or(prompt);
                let place = record.and_then(RunRecord::place);
                let place = match place {
                    Some(place) if *place == self.here => "here".to_owned(),
                    Some(place) => place.rsplit('/').next().unwrap_or_default().to_owned(),
                    None => "-".to_owned(),
                };
                shown.add_row([
                    cell(summary.run_id().as_str()),
                    cell(run.word()),
                    cell(run.why()),
                    cell(latest.map_or("-".to_owned(), |header| ago(header.created_at(), self.now))),
                    cell(place),
                    cell(about.unwrap_or_default()),
                ]);
            }
            text.push_str(&lines(&shown));
        }
        if let Some(last) = runs.ended.first() {
            let n = format::counted(runs.ended.len() as u64, "run");
            let _ = writeln!(text, "{n} ended, last {} ({})", last.summary.run_id(), last.word());
        }
        text
    }
}
