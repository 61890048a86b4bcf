//! The result of `status`: the store, current runs, queued saves, hook failures and the next command to run.

use std::fmt::Write as _;
use std::path::PathBuf;

use jiff::Timestamp;
use milepost::internal::engine::AssessedRun;
use milepost::model::{InterruptionKind, RunId, RunRecord};
use milepost::{ReasonCode, RunSummary};
use serde::{Serialize, Serializer};

use super::format::{self, ago, bold, clean};
use super::table::{Column, Table, cell, run, state};
use super::{Document, Output};
use crate::error::{CommandError, Result};
use crate::error_advice::Exit;
use crate::hook::failures::HookFailure;

/// Maximum number of unsigned saves that are listed.
const LISTED: usize = 5;

#[derive(Default, Serialize)]
#[serde(tag = "schema", rename = "milepost.status/1")]
pub(crate) struct StatusDocument {
    /// `None` if there is no store yet.
    pub(crate) store: Option<String>,
    pub(crate) bytes: u64,
    pub(crate) warning: Option<String>,
    pub(crate) live: Vec<StatusRow>,
    pub(crate) open: Vec<StatusRow>,
    pub(crate) stopped: Vec<StatusRow>,
    #[serde(serialize_with = "serialize_count")]
    pub(crate) ended: Vec<StatusRow>,
    pub(crate) waiting: u64,
    /// Number of those that are unsigned and must be accepted by the user.
    pub(crate) waiting_unsigned: u64,
    pub(crate) hook_failures: Vec<HookFailure>,
    /// What waits on this machine to be sent to the store's server; `None` for a store on this machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) server: Option<ServerStatus>,
    pub(crate) next: String,
    /// The address of the store, even if it does not exist.
    #[serde(skip)]
    pub(crate) url: String,
    #[serde(skip)]
    pub(crate) unsigned: Vec<PathBuf>,
    #[serde(skip)]
    pub(crate) outbox: PathBuf,
    #[serde(skip)]
    pub(crate) worktree: String,
    #[serde(skip)]
    pub(crate) now: Timestamp,
}

/// The state of a store on a server, as seen from this machine.
#[derive(Serialize)]
pub(crate) struct ServerStatus {
    pub(crate) project: String,
    /// The user that the server authenticated; `None` if it could not be reached.
    pub(crate) user: Option<String>,
    pub(crate) reachable: bool,
    pub(crate) unsent_runs: u64,
    pub(crate) unsent_checkpoints: u64,
    pub(crate) unsent_since: Option<Timestamp>,
    /// One line if this clone does not share its runs with other clones yet.
    #[serde(skip)]
    pub(crate) untrusted: Option<String>,
    /// The name of this machine.
    #[serde(skip)]
    pub(crate) host: Option<String>,
}

impl ServerStatus {
    fn lines(&self, now: Timestamp, width: Option<usize>) -> String {
        let mut text = format!("{}  {}", bold("Project"), clean(&self.project));
        if let Some(user) = &self.user {
            let _ = write!(text, ", as {}", clean(user));
        }
        text.push('\n');
        if let Some(line) = &self.untrusted {
            let _ = writeln!(text, "{}  {}", format::yellow("Warning"), format::wrap(&clean(line), 9, width));
        }
        if self.unsent_runs > 0 {
            let since = self
                .unsent_since
                .map_or_else(String::new, |since| format!(", the oldest from {}", ago(since, now)));
            let runs = format::counted(self.unsent_runs, "run");
            let checkpoints = format::counted(self.unsent_checkpoints, "checkpoint");
            let _ = writeln!(
                text,
                "{}  {runs} with {checkpoints} to be sent{since}; `milepost sync` sends them",
                bold("Waiting")
            );
        }
        text
    }
}

fn serialize_count<S: Serializer>(rows: &[StatusRow], serializer: S) -> Result<S::Ok, S::Error> {
    rows.len().serialize(serializer)
}

/// A run and its state.
#[derive(Serialize)]
pub(crate) struct StatusRow {
    #[serde(flatten)]
    pub(super) summary: RunSummary,
    pub(super) standing: &'static str,
    class: Option<InterruptionKind>,
    continued_by: Option<RunId>,
    /// What the run is about.
    pub(super) about: Option<String>,
    /// Why the run stopped or waits, or the run that continues it.
    #[serde(skip)]
    pub(super) why: String,
}

impl StatusRow {
    pub(crate) fn new(run: AssessedRun) -> Self {
        Self {
            about: run.about(),
            standing: run.state_name(),
            why: run.why(),
            class: run.decision.map(|decision| decision.class),
            continued_by: run.claimed_by,
            summary: run.summary,
        }
    }
}

/// Who works on a run and where, if it is another user or another machine.
fn elsewhere(summary: &RunSummary, server: &ServerStatus) -> Option<String> {
    let user = summary.user().as_deref().filter(|user| Some(*user) != server.user.as_deref());
    let host = summary.host().filter(|host| Some(*host) != server.host.as_deref());
    match (user, host) {
        (Some(user), Some(host)) => Some(format!("{user}@{host}")),
        (Some(one), None) | (None, Some(one)) => Some(one.to_owned()),
        (None, None) => None,
    }
}

impl Document for StatusDocument {
    fn render(&self, output: &Output) -> Result<()> {
        let mut text = match &self.store {
            Some(store) => self.store_lines(store, output.width()),
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
        let hint = "run `milepost init` to create one; the first `milepost save` also creates it";
        self.store.is_none().then(|| error.with_hint(hint))
    }
}

impl StatusDocument {
    /// The lines if there is no store yet.
    fn missing_lines(&self) -> String {
        let mut text = format!("No store here yet. The first save creates\n  {}\n", clean(&self.url));
        if self.waiting > 0 {
            let _ = writeln!(text, "{} until the store can be written", self.waiting_in_outbox());
        }
        text
    }

    fn waiting_in_outbox(&self) -> String {
        let folder = clean(&self.outbox.to_string_lossy());
        format!("{} in {folder}", format::counted(self.waiting, "checkpoint"))
    }

    fn store_lines(&self, store: &str, width: Option<usize>) -> String {
        let size = format::bytes(self.bytes);
        let room = width.map_or(usize::MAX, |width| width.saturating_sub("Store  ".len() + size.len() + 3));
        let store = format::shorten_path(&clean(store), room);
        let mut text = format!("{}  {store} ({size})\n", bold("Store"));
        if let Some(warning) = &self.warning {
            let _ =
                writeln!(text, "{}  {}", format::yellow("Warning"), format::wrap(&clean(warning), 9, width));
        }
        if let Some(server) = &self.server {
            text.push_str(&server.lines(self.now, width));
        }
        if self.waiting > 0 {
            let (waiting, saves) = (bold("Waiting"), self.waiting_in_outbox());
            let _ = writeln!(text, "{waiting}  {saves} until the store can be written");
        }
        if !self.unsigned.is_empty() {
            let n = format::count(self.waiting_unsigned);
            let _ =
                writeln!(text, "         {n} without your signature; review with `milepost trust --outbox`:");
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
        let current: Vec<_> = self.live.iter().chain(&self.stopped).chain(&self.open).collect();
        if current.is_empty() && self.ended.is_empty() {
            return "No runs yet.\n".to_owned();
        }
        let mut text = String::new();
        if !current.is_empty() {
            let mut shown = Table::new(
                output,
                &[
                    Column::text("RUN", 14),
                    Column::new("STATE"),
                    Column::text("WHY", 13).optional(2),
                    Column::new("SAVED"),
                    Column::text("WHERE", 8).optional(1),
                    Column::text("ABOUT", 20),
                ],
            );
            for row in current {
                let summary = &row.summary;
                let saved = summary.latest().as_ref().map(|entry| ago(entry.header.created_at(), self.now));
                let who = self.server.as_ref().and_then(|server| elsewhere(summary, server));
                let folder = match summary.intact().and_then(RunRecord::folder) {
                    _ if who.is_some() => who.as_deref().unwrap_or_default(),
                    Some(folder) if *folder != self.worktree => folder.rsplit('/').next().unwrap_or_default(),
                    _ => "",
                };
                shown.add_row([
                    run(summary.run_id()),
                    state(row.standing),
                    cell(row.why.as_str()),
                    cell(saved.unwrap_or_else(|| "never".to_owned())),
                    cell(folder),
                    cell(row.about.as_deref().unwrap_or_default()),
                ]);
            }
            text.push_str(&shown.lines());
        }
        if let Some(last) = self.ended.first() {
            let n = format::counted(self.ended.len() as u64, "run");
            let name = last.summary.run_id();
            let name = clean(name.short().unwrap_or(name.as_str()));
            let _ = writeln!(text, "{n} ended, most recently {name} ({})", last.standing);
        }
        text
    }
}
