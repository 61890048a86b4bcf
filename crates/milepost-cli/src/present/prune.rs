//! What prune does or would do: as JSON, and as a table that says what, when, why and how many bytes.

use jiff::Timestamp;
use milepost::internal::error_chain;
use milepost::model::RunId;
use milepost::store::StoreError;
use milepost::{Error, PruneAction, PruneReport, PruneStep, ReasonCode};
use serde::Serialize;

use super::format::{bytes, count, counted};
use super::table::{cell, lines, table};
use super::{Document, Note, Output, format};
use crate::error::{CommandError, Result};
use crate::error_advice::Exit;

/// Rows that a table shows unless more is asked for.
const SHOWN: usize = 40;

/// A prune, or the plan of one.
#[derive(Serialize)]
#[serde(tag = "schema", rename = "milepost.prune/1")]
pub(crate) struct PruneDocument {
    #[serde(flatten)]
    pub(crate) report: PruneReport,
    #[serde(skip)]
    pub(crate) now: Timestamp,
    /// Bytes that the store may take.
    #[serde(skip)]
    pub(crate) max_bytes: u64,
    /// Whether the table was shown already, above the question.
    #[serde(skip)]
    pub(crate) table_shown: bool,
}

impl Document for PruneDocument {
    fn render(&self, output: &Output) -> Result<()> {
        output.write_text(&match self.table_shown {
            true => summary(&self.report),
            false => page(output, &self.report, self.now),
        })
    }

    /// A line about a store that is still too large, and one about each run that failed.
    fn notes(&self) -> Vec<Note> {
        let too_large = self.report.too_large().map(|taken| {
            format!(
                "Warning: the store {} {}, more than {}, and no ended run is left that may go; \
                 `milepost delete RUN` removes one, retain.max_store in milepost.toml is the bound",
                if self.report.dry_run() { "would still take" } else { "still takes" },
                bytes(taken),
                bytes(self.max_bytes),
            )
        });
        let failed = self.report.failed().iter().map(|failed| {
            let run = failed.run_id().as_ref().map_or(String::new(), |run| format!("run {run}: "));
            format!("{run}{}", error_chain(failed.error()))
        });
        too_large.into_iter().chain(failed).map(Note::Message).collect()
    }

    fn change(&self) -> Option<String> {
        let n = counted(self.report.removed(), "checkpoint");
        (!self.report.dry_run()).then(|| format!("the store was pruned, with {n} removed"))
    }

    fn error(&self) -> Option<CommandError> {
        let report = &self.report;
        let first = report.failed().first()?;
        let done = report.removed() + report.compressed() > 0;
        if let (false, Error::Store(StoreError::Busy { .. })) = (done, first.error()) {
            let message = format!("nothing was pruned: {}", first.error());
            let error = CommandError::new(ReasonCode::StoreBusy, message).with_exit(Exit::Busy);
            return Some(error.with_hint("try again; if it lasts, a stopped process may hold the lock"));
        }
        let message = format!(
            "{} while pruning; {} removed and {} compressed so far",
            counted(report.failed().len() as u64, "problem"),
            counted(report.removed(), "checkpoint"),
            count(report.compressed()),
        );
        let error = CommandError::new(ReasonCode::CheckpointRetentionPruneFailed, message)
            .with_exit(if done { Exit::Partly } else { Exit::Failed });
        Some(error.with_hint("`milepost doctor` says what is wrong; prune again afterwards"))
    }
}

/// The table and one line that sums it up.
pub(crate) fn page(output: &Output, report: &PruneReport, now: Timestamp) -> String {
    let mut text = String::new();
    let mut shown = table(output, &["CHECKPOINT", "RUN", "SAVED", "BYTES", "", "WHY"]);
    let verb = |action| match (action, report.dry_run()) {
        (PruneAction::Remove, true) => "goes",
        (PruneAction::Remove, false) => "gone",
        (PruneAction::Compress, true) => "is compressed",
        (PruneAction::Compress, false) => "compressed",
        (PruneAction::Keep, _) => "stays",
    };
    let rows = rows(report, output.is_verbose());
    let most = if output.is_verbose() { usize::MAX } else { SHOWN };
    for Row { name, run, bytes, step } in rows.iter().take(most) {
        let reasons: Vec<_> = step.reasons().iter().map(ToString::to_string).collect();
        shown.add_row([
            cell(name),
            cell(run),
            cell(format::ago(step.created_at(), now)),
            cell(count(*bytes)),
            cell(verb(step.action())),
            cell(reasons.join(", ")),
        ]);
    }
    if !rows.is_empty() {
        text.push_str(&lines(&shown));
        if rows.len() > most {
            let more = count((rows.len() - most) as u64);
            text.push_str(&format!(" … and {more} more: -v shows them all, --json has them too\n"));
        }
        text.push('\n');
    }
    text.push_str(&summary(report));
    text
}

struct Row<'a> {
    name: String,
    run: String,
    bytes: u64,
    step: &'a PruneStep,
}

/// What changes, or everything; a run that goes as a whole is one row.
fn rows(report: &PruneReport, all: bool) -> Vec<Row<'_>> {
    let mut rows: Vec<Row<'_>> = Vec::new();
    let mut whole: Option<&RunId> = None;
    for step in report.plan().iter().filter(|step| all || step.action() != PruneAction::Keep) {
        let (run, bytes) = (step.run_id(), step.bytes());
        let goes_whole = report.runs_removed().contains(run) && !all;
        if let (true, Some(row)) = (goes_whole && whole == Some(run), rows.last_mut()) {
            row.bytes += bytes;
            row.step = step;
            continue;
        }
        whole = goes_whole.then_some(run);
        rows.push(match goes_whole {
            true => Row { name: "the whole run".to_owned(), run: run.to_string(), bytes, step },
            false => {
                let run = format!("{run}@{}", step.sequence());
                Row { name: step.snapshot_id().to_string(), run, bytes, step }
            }
        });
    }
    rows
}

/// One line that sums it up.
fn summary(report: &PruneReport) -> String {
    let runs = match report.runs_removed().len() as u64 {
        0 => String::new(),
        n => format!(" ({} as a whole)", counted(n, "run")),
    };
    let removed = format!("{}{runs}", counted(report.removed(), "checkpoint"));
    let (compressed, kept) = (count(report.compressed()), count(report.kept()));
    let freed = bytes(report.bytes_freed());
    let nothing = match (report.dry_run(), report.failed().is_empty()) {
        (true, _) => "Nothing would go or be compressed",
        (false, false) => "Nothing was removed or compressed",
        (false, true) => "Nothing to remove or compress",
    };
    match (report.dry_run(), report.removed() + report.compressed()) {
        (_, 0) => format!("{nothing}; {} stay.\n", counted(report.kept(), "checkpoint")),
        (true, _) => format!(
            "{removed} would go, {compressed} would be compressed, {kept} stay. About {freed} would come back{}.\n",
            if report.compressed() > 0 { ", without what compression wins" } else { "" }
        ),
        (false, _) => {
            format!("{removed} removed, {compressed} compressed, {kept} stay. {freed} came back.\n")
        }
    }
}
