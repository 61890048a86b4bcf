//! Restores of files: plans, reports and undo points.

use milepost::model::PathText;

use super::{Time, optional_text, result, text};

fn path(path: &PathText) -> String {
    path.key()
}

result! {
    /// A file in a plan.
    pub(crate) struct PlannedFile shows path, action, reason {
        /// The path, relative to the root of the worktree.
        path: String,
        /// `restore`, `recreate`, `delete`, `keep`, `conflict` or `unavailable`.
        action: String,
        /// Why it is left, or what is special about it.
        reason: Option<String>,
        size: Option<u64>,
    }
}

result! {
    /// What a restore would do.
    pub(crate) struct RestorePlanData shows reference, changes, left_alone {
        reference: String,
        run_id: String,
        /// When the files were captured.
        taken_at: Time,
        files: Vec<PlannedFile>,
        /// Number of files that the restore changes.
        changes: usize,
        /// Number of files that differ, but that the run did not change.
        left_alone: u64,
        token: String,
    }
}

impl From<&milepost::RestorePlan> for RestorePlanData {
    fn from(plan: &milepost::RestorePlan) -> Self {
        let files = plan.files().iter().map(|file| PlannedFile {
            path: path(file.path()),
            action: text(file.action()),
            reason: file.reason().clone(),
            size: *file.size(),
        });
        Self {
            reference: plan.reference().clone(),
            run_id: text(plan.run_id()),
            taken_at: Time(plan.taken_at()),
            files: files.collect(),
            changes: plan.changes(),
            left_alone: plan.left_alone(),
            token: plan.token().clone(),
        }
    }
}

result! {
    /// A file that a restore left as it is.
    pub(crate) struct KeptFile shows path, reason {
        path: String,
        reason: String,
    }
}

result! {
    /// What a restore or an undo did.
    pub(crate) struct RestoreReport shows id, restored, kept {
        /// The id with which it can be undone.
        id: String,
        /// Files that have their earlier content now.
        restored: Vec<String>,
        kept: Vec<KeptFile>,
        /// Files whose previous content was moved aside. An undo brings it back.
        moved_aside: Vec<String>,
        /// The checkpoint with the files before the restore; `None` for an undo.
        safety_checkpoint: Option<String>,
    }
}

impl From<&milepost::RestoreReport> for RestoreReport {
    fn from(report: &milepost::RestoreReport) -> Self {
        let kept = report.kept().iter();
        Self {
            id: report.id().clone(),
            restored: report.restored().iter().map(path).collect(),
            kept: kept.map(|file| KeptFile { path: path(&file.path), reason: file.reason.clone() }).collect(),
            moved_aside: report.moved_aside().iter().map(path).collect(),
            safety_checkpoint: optional_text(report.safety_checkpoint().as_ref()),
        }
    }
}

result! {
    /// A restore that can be undone.
    pub(crate) struct UndoPoint shows id, reference, files {
        id: String,
        reference: String,
        at: Time,
        run_id: Option<String>,
        /// Number of files that were changed.
        files: usize,
        /// The restore that this one undid.
        undoes: Option<String>,
    }
}

impl From<&milepost::UndoPoint> for UndoPoint {
    fn from(point: &milepost::UndoPoint) -> Self {
        Self {
            id: point.id().clone(),
            reference: point.reference().clone(),
            at: Time(point.at()),
            run_id: optional_text(point.run_id().as_ref()),
            files: point.files(),
            undoes: point.undoes().clone(),
        }
    }
}
