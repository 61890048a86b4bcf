//! What prune does or would do: as JSON, and as a table that says what, when, why and how many bytes.

use std::error::Error as _;

use jiff::Timestamp;
use milepost::PruneAction;
use milepost::model::{CheckpointId, RunId};
use milepost::store::StoreError;
use milepost::{Error, PruneReport, PruneStep, ReasonCode};
use serde::Serialize;

use super::format::{bytes, count, counted};
use super::table::{cell, lines, table};
use super::{Document, Note, Output, format};
use crate::error::CommandError;
use crate::error_advice::Exit;

/// Rows that a table shows unless more is asked for.
const SHOWN: usize = 40;

/// A prune, or the plan of one.
#[derive(Serialize)]
pub(crate) struct PruneDocument {
    schema: &'static str,
    removed: u64,
    compressed: u64,
    kept: u64,
    bytes_freed: u64,
    plan: Vec<Step>,
    dry_run: bool,
    runs_removed: Vec<RunId>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    failed: Vec<Failed>,
    #[serde(skip_serializing_if = "Option::is_none")]
    too_large: Option<u64>,
    #[serde(skip)]
    report: PruneReport,
    #[serde(skip)]
    now: Timestamp,
    /// Bytes that the store may take.
    #[serde(skip)]
    max_bytes: u64,
    /// Whether the table was shown already, above the question.
    #[serde(skip)]
    table_shown: bool,
}

#[derive(Debug, Serialize)]
struct Step {
    snapshot_id: CheckpointId,
    run_id: RunId,
    sequence: u64,
    created_at: Timestamp,
    action: PruneAction,
    reasons: Vec<String>,
    bytes: u64,
}

#[derive(Debug, Serialize)]
struct Failed {
    run_id: Option<RunId>,
    reason_code: ReasonCode,
    message: String,
}

impl PruneDocument {
    pub(crate) fn new(report: PruneReport, now: Timestamp, max_bytes: u64) -> Self {
        let step = |step: &PruneStep| Step {
            snapshot_id: step.snapshot_id().clone(),
            run_id: step.run_id().clone(),
            sequence: step.sequence(),
            created_at: step.created_at(),
            action: step.action(),
            reasons: step.reasons().iter().map(ToString::to_string).collect(),
            bytes: step.bytes(),
        };
        let failed = report.failed().iter().map(|failure| Failed {
            run_id: failure.run_id().clone(),
            reason_code: failure.error().reason(),
            message: why(failure.error()),
        });
        Self {
            schema: "milepost.prune/1",
            removed: report.removed(),
            compressed: report.compressed(),
            kept: report.kept(),
            bytes_freed: report.bytes_freed(),
            plan: report.plan().iter().map(step).collect(),
            dry_run: report.dry_run(),
            runs_removed: report.runs_removed().clone(),
            failed: failed.collect(),
            too_large: report.too_large(),
            report,
            now,
            max_bytes,
            table_shown: false,
        }
    }

    /// The same below a table that was shown already.
    pub(crate) fn below_table(self) -> Self {
        Self { table_shown: true, ..self }
    }

    /// A line about each run that failed, and one about a store that is still too large.
    fn details(&self) -> Vec<String> {
        let mut lines = Vec::new();
        lines.extend(self.too_large.map(|taken| {
            format!(
                "Warning: the store {} {}, more than {}, and no ended run is left that may go; \
                 `milepost delete RUN` removes one, retain.max_store in milepost.toml is the bound",
                if self.dry_run { "would still take" } else { "still takes" },
                bytes(taken),
                bytes(self.max_bytes),
            )
        }));
        lines.extend(self.failed.iter().map(|failed| {
            let run = failed.run_id.as_ref().map_or(String::new(), |run| format!("run {run}: "));
            format!("{run}{}", failed.message)
        }));
        lines
    }
}

impl Document for PruneDocument {
    fn render(&self, output: &Output) -> Result<(), CommandError> {
        output.write_text(&match self.table_shown {
            true => summary(&self.report),
            false => page(output, &self.report, self.now),
        })
    }

    fn notes(&self) -> Vec<Note> {
        self.details().into_iter().map(Note::Message).collect()
    }

    fn change(&self) -> Option<String> {
        let n = counted(self.removed, "checkpoint");
        (!self.dry_run).then(|| format!("the store was pruned, with {n} removed"))
    }

    fn error(&self) -> Option<CommandError> {
        let first = self.report.failed().first()?;
        let done = self.removed + self.compressed > 0;
        if let (false, Error::Store(StoreError::Busy { .. })) = (done, &first.error()) {
            let message = format!("nothing was pruned: {}", first.error());
            let error = CommandError::new(ReasonCode::StoreBusy, message).with_exit(Exit::Busy);
            return Some(error.with_hint("try again; if it lasts, a stopped process may hold the lock"));
        }
        let message = format!(
            "{} while pruning; {} removed and {} compressed so far",
            counted(self.failed.len() as u64, "problem"),
            counted(self.removed, "checkpoint"),
            count(self.compressed),
        );
        let error = CommandError::new(ReasonCode::CheckpointRetentionPruneFailed, message)
            .with_exit(if done { Exit::Partly } else { Exit::Failed });
        Some(error.with_hint("`milepost doctor` says what is wrong; prune again afterwards"))
    }
}

/// An error with its causes, on one line.
fn why(error: &Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(&format!(": {cause}"));
        source = cause.source();
    }
    text
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
    for row in rows.iter().take(most) {
        let reasons: Vec<_> = row.step.reasons().iter().map(ToString::to_string).collect();
        shown.add_row([
            cell(&row.name),
            cell(&row.run),
            cell(format::ago(row.step.created_at(), now)),
            cell(count(row.bytes)),
            cell(verb(row.step.action())),
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

struct Line<'a> {
    name: String,
    run: String,
    bytes: u64,
    step: &'a PruneStep,
}

/// What changes, or everything; a run that goes as a whole is one line.
fn rows(report: &PruneReport, all: bool) -> Vec<Line<'_>> {
    let mut rows: Vec<Line<'_>> = Vec::new();
    let mut whole: Option<&RunId> = None;
    for step in report.plan().iter().filter(|step| all || step.action() != PruneAction::Keep) {
        let goes_whole = report.runs_removed().contains(step.run_id()) && !all;
        if let (true, Some(row)) = (goes_whole && whole == Some(step.run_id()), rows.last_mut()) {
            row.bytes += step.bytes();
            row.step = step;
            continue;
        }
        whole = goes_whole.then_some(step.run_id());
        rows.push(Line {
            name: if goes_whole { "the whole run".into() } else { step.snapshot_id().to_string() },
            run: if goes_whole {
                step.run_id().to_string()
            } else {
                format!("{}@{}", step.run_id(), step.sequence())
            },
            bytes: step.bytes(),
            step,
        });
    }
    rows
}

/// One line that sums it up.
fn summary(report: &PruneReport) -> String {
    let removed = counted(report.removed(), "checkpoint");
    let runs = match report.runs_removed().len() as u64 {
        0 => String::new(),
        n => format!(" ({} as a whole)", counted(n, "run")),
    };
    let compressed = count(report.compressed());
    let kept = count(report.kept());
    let freed = bytes(report.bytes_freed());
    match (report.dry_run(), report.removed() + report.compressed()) {
        (true, 0) => {
            format!("Nothing would go or be compressed; {} stay.\n", counted(report.kept(), "checkpoint"))
        }
        (true, _) => format!(
            "{removed} would go{runs}, {compressed} would be compressed, {kept} stay. About {freed} would come back{}.\n",
            if report.compressed() > 0 { ", without what compression wins" } else { "" }
        ),
        (false, 0) if !report.failed().is_empty() => {
            format!("Nothing was removed or compressed; {} stay.\n", counted(report.kept(), "checkpoint"))
        }
        (false, 0) => {
            format!("Nothing to remove or compress; {} stay.\n", counted(report.kept(), "checkpoint"))
        }
        (false, _) => {
            format!("{removed} removed{runs}, {compressed} compressed, {kept} stay. {freed} came back.\n")
        }
    }
}
