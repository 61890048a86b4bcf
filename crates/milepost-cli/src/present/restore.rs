//! The plan and the result of `restore` and `undo`, as JSON and as a table with what happens to each file.

use anstyle::AnsiColor;
use jiff::Timestamp;
use milepost::{ReasonCode, RestoreAction, RestorePlan, RestoreReport, UndoPoint};
use serde::Serialize;

use super::format::{bytes, count, counted};
use super::table::{Cell, Column, Table, cell};
use super::{Document, Note, Output, format};
use crate::error::{CommandError, Result};
use crate::error_advice::Exit;

/// Maximum number of rows in a table, except with `--verbose`.
const SHOWN: usize = 40;

/// The plan of a restore, and its result if it was carried out.
#[derive(Serialize)]
#[serde(tag = "schema", rename = "milepost.restore/1")]
pub(crate) struct RestoreDocument {
    #[serde(flatten)]
    pub(crate) plan: RestorePlan,
    /// The result; null if no file was changed.
    #[serde(serialize_with = "without_plan")]
    pub(crate) report: Option<RestoreReport>,
    pub(crate) dry_run: bool,
    /// Whether the plan was already shown, above the question.
    #[serde(skip)]
    pub(crate) plan_shown: bool,
    #[serde(skip)]
    pub(crate) now: Timestamp,
}

/// The result of an undo, or the restores that can be undone.
#[derive(Serialize)]
#[serde(tag = "schema", rename = "milepost.undo/1")]
pub(crate) struct UndoDocument {
    pub(crate) points: Vec<UndoPoint>,
    #[serde(serialize_with = "without_plan")]
    pub(crate) report: Option<RestoreReport>,
    #[serde(skip)]
    pub(crate) now: Timestamp,
}

/// Serialises a report without its plan, which is in the document already.
fn without_plan<S: serde::Serializer>(
    report: &Option<RestoreReport>,
    serializer: S,
) -> std::result::Result<S::Ok, S::Error> {
    report.as_ref().map(RestoreReport::without_plan).serialize(serializer)
}

impl Document for RestoreDocument {
    fn render(&self, output: &Output) -> Result<()> {
        let mut text = String::new();
        if !self.plan_shown {
            text.push_str(&page(output, &self.plan, self.now));
        }
        match &self.report {
            Some(report) => text.push_str(&result(report)),
            None if self.plan.changes() == 0 && self.plan.files().is_empty() => {}
            None => text.push_str("No file was changed.\n"),
        }
        output.write_text(&text)
    }

    fn notes(&self) -> Vec<Note> {
        notes(self.report.as_ref())
    }

    fn change(&self) -> Option<String> {
        let report = self.report.as_ref()?;
        Some(format!("{} restored", counted(report.restored().len() as u64, "file")))
    }

    fn error(&self) -> Option<CommandError> {
        let kept = self.report.as_ref().map_or(0, |report| report.kept().len());
        let conflicts = self.plan.count(RestoreAction::Conflict) + kept;
        if self.dry_run || conflicts == 0 {
            return None;
        }
        let message = format!("{} kept because of conflicts", counted(conflicts as u64, "file"));
        let hint = "add --force to replace them; their present content is kept for `milepost undo`";
        Some(CommandError::new(ReasonCode::RestoreConflict, message).with_exit(Exit::Partly).with_hint(hint))
    }
}

impl Document for UndoDocument {
    fn render(&self, output: &Output) -> Result<()> {
        let Some(report) = &self.report else {
            return output.write_text(&points_page(output, &self.points, self.now));
        };
        output.write_text(&result(report))
    }

    fn notes(&self) -> Vec<Note> {
        notes(self.report.as_ref())
    }

    fn change(&self) -> Option<String> {
        self.report.as_ref().map(|_| "the restore was undone".to_owned())
    }

    fn error(&self) -> Option<CommandError> {
        let kept = self.report.as_ref().map_or(0, |report| report.kept().len());
        (kept > 0).then(|| {
            let message = format!("{} kept, because they changed since", counted(kept as u64, "file"));
            CommandError::new(ReasonCode::RestoreConflict, message)
                .with_exit(Exit::Partly)
                .with_hint("add --force to replace them; their present content is kept for `milepost undo`")
        })
    }
}

fn notes(report: Option<&RestoreReport>) -> Vec<Note> {
    let recovered = report.and_then(|report| report.recovered().clone());
    recovered.into_iter().map(Note::Message).collect()
}

/// The plan as a table, with a summary line.
pub(crate) fn page(output: &Output, plan: &RestorePlan, now: Timestamp) -> String {
    let mut text = format!(
        "Files of {} at {} ({})\n\n",
        format::bold(&format::clean(plan.run_id().as_str())),
        format::bold(&format::clean(plan.reference())),
        format::ago(plan.taken_at(), now),
    );
    if plan.files().is_empty() {
        text.push_str("Nothing to restore: no file of this run differs.\n");
    } else {
        let columns = [
            Column::new("ACTION"),
            Column::text("FILE", 20),
            Column::new("SIZE").right().optional(2),
            Column::text("WHY", 16).optional(1),
        ];
        let mut table = Table::new(output, &columns);
        let most = if output.is_verbose() { usize::MAX } else { SHOWN };
        for file in plan.files().iter().take(most) {
            table.add_row([
                action(file.action()),
                cell(format::path(file.path())),
                cell(file.size().map(bytes).unwrap_or_default()),
                cell(file.reason().clone().unwrap_or_default()),
            ]);
        }
        text.push_str(&table.lines());
        let rest = plan.files().len().saturating_sub(most);
        if rest > 0 {
            text.push_str(&format!("… and {} more (--verbose shows all)\n", count(rest as u64)));
        }
        text.push_str(&format!("\n{}\n", summary(plan)));
    }
    if plan.left_alone() > 0 {
        let files = counted(plan.left_alone(), "other file");
        let differ = if plan.left_alone() == 1 { "differs" } else { "differ" };
        text.push_str(&format!("{files} {differ}, but this run did not change them; --all includes them.\n"));
    }
    text
}

fn summary(plan: &RestorePlan) -> String {
    let parts = [
        (RestoreAction::Restore, "to restore"),
        (RestoreAction::Recreate, "to recreate"),
        (RestoreAction::Delete, "to delete"),
        (RestoreAction::Keep, "kept"),
        (RestoreAction::Conflict, "in conflict"),
        (RestoreAction::Unavailable, "not available"),
    ];
    let counts = parts.iter().filter_map(|(action, what)| match plan.count(*action) as u64 {
        0 => None,
        n => Some(format!("{} {what}", count(n))),
    });
    counts.collect::<Vec<_>>().join(", ")
}

fn action(action: RestoreAction) -> Cell {
    let shown = cell(action.as_str());
    match action {
        RestoreAction::Restore | RestoreAction::Recreate => shown.colour(AnsiColor::Green),
        RestoreAction::Delete => shown.colour(AnsiColor::Red),
        RestoreAction::Conflict | RestoreAction::Unavailable => shown.colour(AnsiColor::Yellow),
        RestoreAction::Keep => shown,
    }
}

/// What a restore or an undo did.
fn result(report: &RestoreReport) -> String {
    let restored = counted(report.restored().len() as u64, "file");
    let mut text = format!("{restored} changed. `milepost undo` goes back.\n");
    if let Some(id) = report.safety_checkpoint() {
        text.push_str(&format!("The previous files are in checkpoint {id}.\n"));
    }
    if !report.moved_aside().is_empty() {
        let n = counted(report.moved_aside().len() as u64, "file");
        text.push_str(&format!("The previous content of {n} was moved aside; only `undo` has it.\n"));
    }
    for kept in report.kept() {
        text.push_str(&format!("kept {}: {}\n", format::path(&kept.path), format::clean(&kept.reason)));
    }
    text
}

fn points_page(output: &Output, points: &[UndoPoint], now: Timestamp) -> String {
    if points.is_empty() {
        return "No restore to undo in this worktree.\n".to_owned();
    }
    let columns = [
        Column::new("ID"),
        Column::new("WHEN"),
        Column::text("RESTORED", 12),
        Column::text("RUN", 12).optional(1),
        Column::new("FILES").right(),
    ];
    let mut table = Table::new(output, &columns);
    for point in points {
        let undone = if point.undoes().is_some() { " (undone)" } else { "" };
        table.add_row([
            cell(point.id()),
            cell(format::ago(point.at(), now)),
            cell(format!("{}{undone}", point.reference())),
            cell(point.run_id().as_ref().map(|run| run.as_str()).unwrap_or_default()),
            cell(count(point.files() as u64)),
        ]);
    }
    table.lines()
}
