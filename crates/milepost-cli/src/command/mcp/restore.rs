//! The tools `restore` and `undo`. `restore` returns a plan and a token, and changes files only if it is called
//! with the token of the same plan. Returns lists of a limited length.

use std::collections::BTreeMap;

use jiff::Timestamp;
use milepost::model::{CheckpointId, PathText, RunId};
use milepost::{
    AllowList, Error, KeptFile, ReasonCode, Reference, RestoreAction, RestorePlan, RestoreReport,
    RestoreScope, UndoPoint,
};
use milepost_mcp::arguments;
use serde::Serialize;

use super::file::project_path;
use crate::command::restore::scope;
use crate::context::Context;
use crate::error::{CommandError, Result};
use crate::error_advice::Exit;
use crate::present::format::counted;
use crate::present::{Document, Note, Output};

/// Maximum number of files in a list.
const MAX_FILES: usize = 200;

/// The plan of a restore, and its result if it was applied.
#[derive(Serialize)]
#[serde(tag = "schema", rename = "milepost.restore/1")]
pub(super) struct RestoreDocument {
    reference: String,
    run_id: RunId,
    taken_at: Timestamp,
    files: Vec<FileEntry>,
    files_left_out: u64,
    counts: BTreeMap<&'static str, usize>,
    left_alone: u64,
    token: String,
    dry_run: bool,
    report: Option<ReportDocument>,
    /// Number of files that the plan changes.
    #[serde(skip)]
    changes: usize,
}

#[derive(Serialize)]
struct FileEntry {
    path: PathText,
    action: RestoreAction,
    reason: Option<String>,
    size: Option<u64>,
}

/// The result of an undo, or the restores that can be undone.
#[derive(Serialize)]
#[serde(tag = "schema", rename = "milepost.undo/1")]
pub(super) struct UndoDocument {
    points: Vec<UndoPoint>,
    report: Option<ReportDocument>,
}

/// What a restore or an undo did.
#[derive(Serialize)]
struct ReportDocument {
    id: String,
    safety_checkpoint: Option<CheckpointId>,
    restored: Vec<PathText>,
    kept: Vec<KeptFile>,
    moved_aside: Vec<PathText>,
    recovered: Option<String>,
    left_out: u64,
    #[serde(skip)]
    restored_count: usize,
    #[serde(skip)]
    kept_count: usize,
}

/// Plans a restore, or applies the plan with the given token. `started` is the run that this server started.
pub(super) fn restore(
    args: arguments::Restore,
    started: Option<RunId>,
    context: &Context<'_>,
) -> Result<RestoreDocument> {
    let reference: Reference = args.r#ref.parse()?;
    let paths = args.paths.iter().map(|path| project_path(path, context)).collect::<Result<Vec<_>>>()?;
    context.check_writable()?;
    let mp = context.open_existing()?;
    let run = context.run_of_files(&mp, &reference)?;
    let worktree = context.open_worktree(&mp)?;
    let scope = with_started(scope(&mp, &paths, args.all, args.force, context)?, started);
    let plan = worktree.plan_restore(&reference, run.as_ref(), &scope)?;
    context.ensure_visible(&mp, plan.run_id())?;
    let allow = &context.config.redact_allow;
    let Some(token) = args.token else {
        return Ok(RestoreDocument::new(&plan, None, allow));
    };
    // `restore` checks this too, but only after it has saved the present files in a checkpoint.
    if token != *plan.token() {
        return Err(plan_changed(Error::PlanChanged));
    }
    if plan.changes() == 0 {
        return Ok(RestoreDocument::new(&plan, None, allow));
    }
    let report = worktree.restore(&reference, run.as_ref(), &scope, Some(&token)).map_err(plan_changed)?;
    Ok(RestoreDocument::new(&plan, Some(&report), allow))
}

/// Undoes a restore, or lists the restores that can be undone.
pub(super) fn undo(
    args: arguments::Undo,
    started: Option<RunId>,
    context: &Context<'_>,
) -> Result<UndoDocument> {
    if args.list && args.id.is_some() {
        return Err(CommandError::usage("list and id cannot be used together"));
    }
    let mp = context.open_existing()?;
    let worktree = context.open_worktree(&mp)?;
    if args.list {
        let mut points = worktree.undo_points()?;
        points.retain(|point| {
            point.run_id().as_ref().is_none_or(|run| context.ensure_visible(&mp, run).is_ok())
        });
        return Ok(UndoDocument { points, report: None });
    }
    context.check_writable()?;
    // An interrupted restore has no undo point yet.
    let recovered = worktree.recover()?;
    if let Some(recovered) = &recovered {
        context.output.message(recovered);
    }
    let points = worktree.undo_points()?;
    let point = match &args.id {
        Some(id) => points.iter().find(|point| point.id() == id),
        None => points.first(),
    };
    let point = point.ok_or_else(|| Error::NothingToUndo { id: args.id.clone() })?;
    if let Some(run) = point.run_id() {
        context.ensure_visible(&mp, run)?;
    }
    let scope = with_started(scope(&mp, &[], false, false, context)?, started);
    let report = worktree.undo(Some(point.id()), &scope)?;
    let report = ReportDocument::new(&report, &context.config.redact_allow);
    Ok(UndoDocument { points: Vec::new(), report: Some(report) })
}

/// The run that this server started is the caller's own, so it is not another run at work.
fn with_started(scope: RestoreScope, started: Option<RunId>) -> RestoreScope {
    match started {
        Some(run) => scope.current_run(Some(run)),
        None => scope,
    }
}

/// Words a refused token for an agent, which may have passed a wrong one or other arguments.
fn plan_changed(error: Error) -> CommandError {
    if !matches!(error, Error::PlanChanged) {
        return error.into();
    }
    let message = "no file was changed: the token is not that of the current plan, because files changed \
                   since or the arguments are different";
    CommandError::new(ReasonCode::RestoreRefused, message)
        .with_exit(Exit::Unconfirmed)
        .with_hint("call restore without token for the current plan, review it, and apply it with its token")
}

impl RestoreDocument {
    fn new(plan: &RestorePlan, report: Option<&RestoreReport>, allow: &AllowList) -> Self {
        let mut counts = BTreeMap::new();
        for file in plan.files() {
            *counts.entry(file.action().as_str()).or_default() += 1;
        }
        let files = plan.files().iter().take(MAX_FILES).map(|file| FileEntry {
            path: redacted(file.path(), allow),
            action: file.action(),
            reason: file.reason().clone(),
            size: *file.size(),
        });
        Self {
            reference: plan.reference().clone(),
            run_id: plan.run_id().clone(),
            taken_at: plan.taken_at(),
            files: files.collect(),
            files_left_out: plan.files().len().saturating_sub(MAX_FILES) as u64,
            counts,
            left_alone: plan.left_alone(),
            token: plan.token().clone(),
            dry_run: report.is_none(),
            report: report.map(|report| ReportDocument::new(report, allow)),
            changes: plan.changes(),
        }
    }
}

impl ReportDocument {
    fn new(report: &RestoreReport, allow: &AllowList) -> Self {
        let paths = |all: &[PathText]| all.iter().take(MAX_FILES).map(|path| redacted(path, allow)).collect();
        let kept = report.kept().iter().take(MAX_FILES);
        let lengths = [report.restored().len(), report.kept().len(), report.moved_aside().len()];
        Self {
            id: report.id().clone(),
            safety_checkpoint: report.safety_checkpoint().clone(),
            restored: paths(report.restored()),
            kept: kept
                .map(|kept| KeptFile { path: redacted(&kept.path, allow), reason: kept.reason.clone() })
                .collect(),
            moved_aside: paths(report.moved_aside()),
            recovered: report.recovered().clone(),
            left_out: lengths.iter().map(|n| n.saturating_sub(MAX_FILES) as u64).sum(),
            restored_count: report.restored().len(),
            kept_count: report.kept().len(),
        }
    }

    fn notes(&self) -> Vec<String> {
        let mut notes: Vec<_> = self.recovered.iter().cloned().collect();
        let changed = counted(self.restored_count as u64, "file");
        notes.push(format!(
            "{changed} changed. To go back, call `undo` with id {id}, or tell the user: `milepost undo {id}`",
            id = self.id
        ));
        if self.kept_count > 0 {
            let kept = counted(self.kept_count as u64, "file");
            notes.push(format!("{kept} kept because of changes in the meantime"));
        }
        notes
    }
}

/// A path with secrets redacted.
fn redacted(path: &PathText, allow: &AllowList) -> PathText {
    match path {
        PathText::Text(text) => PathText::Text(allow.redact_text(text).unwrap_or_else(|| text.clone())),
        bytes => bytes.clone(),
    }
}

impl Document for RestoreDocument {
    fn render(&self, _: &Output) -> Result<()> {
        Ok(())
    }

    fn notes(&self) -> Vec<Note> {
        let mut notes = match &self.report {
            Some(report) => report.notes(),
            None if self.changes == 0 => vec!["Nothing to restore: no file would be changed".to_owned()],
            None => vec![format!(
                "No file was changed yet. To change {}, call `restore` again with the same arguments and token {}",
                counted(self.changes as u64, "file"),
                self.token
            )],
        };
        let conflicts = self.counts.get(RestoreAction::Conflict.as_str()).copied().unwrap_or_default();
        if conflicts > 0 {
            let n = counted(conflicts as u64, "file");
            notes.push(format!(
                "{n} kept because of conflicts. If the user agrees to replace them, plan again with force true"
            ));
        }
        if self.left_alone > 0 {
            let n = counted(self.left_alone, "other file");
            notes.push(format!("{n} kept, because this run did not change them; all true includes them"));
        }
        notes.into_iter().map(Note::Message).collect()
    }
}

impl Document for UndoDocument {
    fn render(&self, _: &Output) -> Result<()> {
        Ok(())
    }

    fn notes(&self) -> Vec<Note> {
        let notes = self.report.as_ref().map(ReportDocument::notes).unwrap_or_default();
        notes.into_iter().map(Note::Message).collect()
    }
}
