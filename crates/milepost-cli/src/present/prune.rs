//! The result or the plan of `prune`, as JSON and as a table with the age, size, action and reason of each
//! step.

use jiff::Timestamp;
use milepost::internal::error_chain;
use milepost::model::RunId;
use milepost::store::StoreError;
use milepost::{Error, PruneAction, PruneReport, PruneStep, ReasonCode};
use serde::Serialize;

use super::format::{bytes, count, counted};
use super::table::{Cell, Column, Table, cell, checkpoint, numbered, run};
use super::{Document, Note, Output, format};
use crate::error::{CommandError, Result};
use crate::error_advice::Exit;

/// Maximum number of rows in the table, except with `--verbose`.
const SHOWN: usize = 40;

/// The result or the plan of `prune`.
#[derive(Serialize)]
#[serde(tag = "schema", rename = "milepost.prune/1")]
pub(crate) struct PruneDocument {
    #[serde(flatten)]
    pub(crate) report: PruneReport,
    #[serde(skip)]
    pub(crate) now: Timestamp,
    /// The configured size limit of the store, in bytes.
    #[serde(skip)]
    pub(crate) max_bytes: u64,
    /// Whether the table was already shown, above the question.
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

    /// A warning if the store is still too large, and one line per failure.
    fn notes(&self) -> Vec<Note> {
        let too_large = self.report.too_large().map(|taken| {
            format!(
                "Warning: the store {} {} (limit {}); delete runs or raise `retain.max_store`",
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
        (!self.report.dry_run()).then(|| format!("the store was pruned ({n} removed)"))
    }

    fn error(&self) -> Option<CommandError> {
        let report = &self.report;
        let first = report.failed().first()?;
        let done = report.removed() + report.compressed() > 0;
        if let (false, Error::Store(StoreError::Busy { .. })) = (done, first.error()) {
            let message = format!("nothing was pruned: {}", first.error());
            let error = CommandError::new(ReasonCode::StoreBusy, message).with_exit(Exit::Busy);
            return Some(
                error.with_hint("try again; if it stays busy, a suspended process may hold the lock"),
            );
        }
        let message = format!(
            "{} while pruning; {} removed and {} compressed",
            counted(report.failed().len() as u64, "problem"),
            counted(report.removed(), "checkpoint"),
            count(report.compressed()),
        );
        let error = CommandError::new(ReasonCode::CheckpointRetentionPruneFailed, message)
            .with_exit(if done { Exit::Partly } else { Exit::Failed });
        Some(error.with_hint("run `milepost doctor` to see what is wrong, then prune again"))
    }
}

/// The table and the summary line.
pub(crate) fn page(output: &Output, report: &PruneReport, now: Timestamp) -> String {
    let mut text = String::new();
    let mut shown = Table::new(
        output,
        &[
            Column::new("ID"),
            Column::text("RUN", 12),
            Column::new("SAVED").optional(1),
            Column::new("SIZE").right(),
            Column::new("ACTION"),
            Column::text("WHY", 20),
        ],
    );
    let verb = |action| match (action, report.dry_run()) {
        (PruneAction::Remove, true) => "remove",
        (PruneAction::Remove, false) => "removed",
        (PruneAction::Compress, true) => "compress",
        (PruneAction::Compress, false) => "compressed",
        (PruneAction::Keep, true) => "keep",
        (PruneAction::Keep, false) => "kept",
    };
    let rows = rows(report, output.is_verbose());
    let most = if output.is_verbose() { usize::MAX } else { SHOWN };
    for Row { id, name, size, step } in rows.iter().take(most) {
        let reasons: Vec<_> = step.reasons().iter().map(ToString::to_string).collect();
        shown.add_row([
            id.clone(),
            name.clone(),
            cell(format::ago(step.created_at(), now)),
            cell(bytes(*size)),
            cell(verb(step.action())),
            cell(reasons.join(", ")),
        ]);
    }
    if !rows.is_empty() {
        text.push_str(&shown.lines());
        if rows.len() > most {
            let more = count((rows.len() - most) as u64);
            text.push_str(&format!("… and {more} more (-v shows all)\n"));
        }
        text.push('\n');
    }
    text.push_str(&summary(report));
    text
}

struct Row<'a> {
    id: Cell,
    name: Cell,
    size: u64,
    step: &'a PruneStep,
}

/// One row per step that changes something, or per step if `all` is set. Without `all`, an entirely removed
/// run is one row.
fn rows(report: &PruneReport, all: bool) -> Vec<Row<'_>> {
    let mut rows: Vec<Row<'_>> = Vec::new();
    let mut removed_run: Option<&RunId> = None;
    for step in report.plan().iter().filter(|step| all || step.action() != PruneAction::Keep) {
        let (id, size) = (step.run_id(), step.bytes());
        let is_whole = report.runs_removed().contains(id) && !all;
        if let (true, Some(row)) = (is_whole && removed_run == Some(id), rows.last_mut()) {
            row.size += size;
            row.step = step;
            continue;
        }
        removed_run = is_whole.then_some(id);
        rows.push(match is_whole {
            true => Row { id: cell("all"), name: run(id), size, step },
            // Removed checkpoints cannot be looked up, so no prefix of their ids is in bold.
            false => Row {
                id: checkpoint(step.snapshot_id(), Some(0)),
                name: numbered(id, step.sequence()),
                size,
                step,
            },
        });
    }
    rows
}

/// The summary line.
fn summary(report: &PruneReport) -> String {
    let runs = match report.runs_removed().len() as u64 {
        0 => String::new(),
        n => format!(" (including {})", counted(n, "entire run")),
    };
    let removed = format!("{}{runs}", counted(report.removed(), "checkpoint"));
    let kept = count(report.kept());
    let freed = bytes(report.bytes_freed());
    let nothing = match (report.dry_run(), report.failed().is_empty()) {
        (true, _) => "Nothing would be removed or compressed",
        (false, false) => "Nothing was removed or compressed",
        (false, true) => "Nothing to remove or compress",
    };
    let would = if report.dry_run() { "would be " } else { "" };
    if report.removed() + report.compressed() == 0 {
        return format!("{nothing}; {} kept.\n", counted(report.kept(), "checkpoint"));
    }
    let compressed = match report.compressed() {
        0 => String::new(),
        n => format!(", {} {would}compressed", count(n)),
    };
    let freed = match (report.dry_run(), report.compressed()) {
        (true, 0) => format!("About {freed} would be freed"),
        (true, _) => format!("About {freed} would be freed, plus the savings from compression"),
        (false, _) => format!("{freed} freed"),
    };
    format!("{removed} {would}removed{compressed}, {kept} kept. {freed}.\n")
}
