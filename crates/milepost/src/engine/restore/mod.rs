//! Restore: brings the files of a worktree back to an earlier checkpoint, and undoes that. Decides which paths
//! may change, saves the present files in a safety checkpoint, and lets `crate::restore` change the files.

mod plan;

use std::collections::BTreeSet;
use std::time::Duration;

use derive_getters::Getters;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::json;

use super::bookkeeping::event;
use super::files::Worktree;
use super::{Milepost, Reference, Save, Saved};
use crate::Error;
use crate::capture::{CaptureOptions, EndedTool, SnapshotOptions, WorkspaceCapture};
use crate::model::id::random_suffix;
use crate::model::{BlobId, CheckpointId, EventType, PathText, RunId, RunRecord};
use crate::owner::Liveness;
use crate::restore::{
    self, Before, ContentError, ContentSource, FileChange, FileState, Fingerprint, RecoveryResult,
    RestoreMeta, RestoreTarget,
};
use crate::snapshot::manifest::UNDO_PREFIX;
use crate::snapshot::{FileContent, Manifest, undo_manifest};
use crate::store::{Commit, Store, WriteDecision};
pub use plan::{PlannedFile, RestoreAction, RestorePlan, RestoreScope};

/// How many undo points a worktree keeps. The oldest ones are removed, with the files that they moved aside.
pub(super) const UNDO_POINTS: usize = 20;

/// A file that was left as it is, although the plan was to change it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct KeptFile {
    /// The path, relative to the root.
    pub path: PathText,
    /// Why.
    pub reason: String,
}

/// What a restore or an undo did.
#[derive(Getters, Debug, Clone, Serialize)]
pub struct RestoreReport {
    /// The id of the restore, with which it can be undone.
    pub(crate) id: String,
    /// The plan that was carried out; `None` for an undo.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) plan: Option<RestorePlan>,
    /// The checkpoint with the files before the restore; `None` for an undo.
    pub(crate) safety_checkpoint: Option<CheckpointId>,
    /// Files that have their earlier content now.
    pub(crate) restored: Vec<PathText>,
    /// Files that were changed by someone else in the meantime, and were left.
    pub(crate) kept: Vec<KeptFile>,
    /// Files whose previous content was moved aside, because no checkpoint has it. `undo` brings it back.
    pub(crate) moved_aside: Vec<PathText>,
    /// An interrupted restore that was completed or rolled back first.
    pub(crate) recovered: Option<String>,
}

impl RestoreReport {
    /// The same report without its plan.
    pub fn without_plan(&self) -> Self {
        Self { plan: None, ..self.clone() }
    }
}

/// A restore that can be undone.
#[derive(Getters, Debug, Clone, Serialize)]
pub struct UndoPoint {
    /// The id of the restore.
    pub(crate) id: String,
    /// The reference that was restored.
    pub(crate) reference: String,
    /// When it was restored.
    #[getter(copy)]
    pub(crate) at: Timestamp,
    /// The run whose files were restored.
    pub(crate) run_id: Option<RunId>,
    /// The checkpoint with the files before the restore.
    pub(crate) safety_checkpoint: Option<CheckpointId>,
    /// The id of the restore that this one undid.
    pub(crate) undoes: Option<String>,
    /// Number of files that were changed.
    pub(crate) files: usize,
}

/// Reads contents from the store.
struct StoreSource<'a>(&'a dyn Store);

impl ContentSource for StoreSource<'_> {
    fn read(&self, blob: &BlobId) -> Result<Vec<u8>, ContentError> {
        Ok(self.0.blob(blob)?)
    }
}

impl Worktree<'_> {
    pub(super) fn target(&self) -> RestoreTarget {
        let folder =
            crate::snapshot::restore_folder(&self.root, self.repository.as_ref(), &self.milepost.address);
        RestoreTarget::new(self.root.clone(), folder)
    }

    /// Completes or rolls back a restore that was interrupted. Returns what happened, for the user.
    pub fn recover(&self) -> Result<Option<String>, Error> {
        let recovered = restore::recover(&self.target(), &StoreSource(&*self.milepost.store))?;
        Ok(recovered.map(|recovery| {
            let end = match recovery.result {
                RecoveryResult::Completed => "completed",
                RecoveryResult::RolledBack => "rolled back",
            };
            format!("the interrupted restore {} was {end}", recovery.meta.id)
        }))
    }

    /// Plans a restore. Changes nothing.
    pub fn plan_restore(
        &self,
        reference: &Reference,
        run: Option<&RunId>,
        scope: &RestoreScope,
    ) -> Result<RestorePlan, Error> {
        let target = self.files(reference, run)?;
        let current = self.current_files_for(target.run.as_ref())?;
        self.plan(&target, &current.manifest, scope)
    }

    /// Restores files. With a token, only if the plan is still the one with that token.
    pub fn restore(
        &self,
        reference: &Reference,
        run: Option<&RunId>,
        scope: &RestoreScope,
        token: Option<&str>,
    ) -> Result<RestoreReport, Error> {
        let mp = self.milepost;
        let recovered = self.recover()?;
        let target = self.files(reference, run)?;
        let run = target.run.clone().ok_or_else(|| Error::NoFiles { reference: reference.to_string() })?;
        self.refuse_other_live_runs(&run, scope.current_run.as_ref())?;
        let home = self.home_run(&run, scope.current_run.as_ref())?;
        let (safety, present) = self.save_present_files(&home)?;
        let plan = self.plan(&target, &present, scope)?;
        if token.is_some_and(|token| token != plan.token) {
            return Err(Error::PlanChanged);
        }
        self.store_missing_contents(&target, &plan.changes)?;
        let meta = RestoreMeta {
            id: new_id(mp.now()),
            reference: reference.to_string(),
            run: Some(run.clone()),
            safety_checkpoint: Some(safety.clone()),
            undoes: None,
            time: mp.now(),
        };
        let mut report = self.apply(meta, plan.changes.clone(), &home)?;
        report.plan = Some(plan);
        report.safety_checkpoint = Some(safety);
        report.recovered = recovered;
        Ok(report)
    }

    /// The restores that can be undone, newest first.
    pub fn undo_points(&self) -> Result<Vec<UndoPoint>, Error> {
        let points = restore::undo_points(&self.target())?;
        Ok(points.into_iter().map(UndoPoint::from).collect())
    }

    /// Undoes a restore: the newest one, or the one with this id. If that is itself an undo, repeats the restore.
    pub fn undo(&self, id: Option<&str>, scope: &RestoreScope) -> Result<RestoreReport, Error> {
        let mp = self.milepost;
        let recovered = self.recover()?;
        let points = self.undo_points()?;
        let point = match id {
            Some(id) => points.iter().find(|point| point.id == id),
            None => points.first(),
        };
        let point = point.ok_or_else(|| Error::NothingToUndo { id: id.map(str::to_owned) })?;
        let run = point.run_id.clone().ok_or_else(|| Error::NothingToUndo { id: id.map(str::to_owned) })?;
        self.refuse_other_live_runs(&run, scope.current_run.as_ref())?;
        let mut plan = restore::undo_plan(&self.target(), &point.id)?;
        if scope.force {
            self.move_aside_what_changed(&mut plan.changes);
        }
        let meta = RestoreMeta {
            id: new_id(mp.now()),
            reference: point.reference.clone(),
            run: Some(run.clone()),
            safety_checkpoint: None,
            undoes: Some(point.id.clone()),
            time: mp.now(),
        };
        let home = self.home_run(&run, scope.current_run.as_ref())?;
        let mut report = self.apply(meta, plan.changes, &home)?;
        report.kept.extend(
            plan.unavailable
                .into_iter()
                .map(|path| KeptFile { path, reason: "its previous content was already put back".into() }),
        );
        report.recovered = recovered;
        Ok(report)
    }

    /// Marks files that changed since the restore as unsaved, so that their content is moved aside.
    fn move_aside_what_changed(&self, changes: &mut [FileChange]) {
        for change in changes {
            let path = change.path.to_bytes().unwrap_or_default();
            let present = crate::snapshot::state_of(&self.root, &path);
            if let Before::Saved { state } = &change.before
                && present != content_of(state)
                && let Some(fingerprint) = self.fingerprint(&path)
            {
                change.before = Before::Unsaved { fingerprint };
            }
        }
    }

    /// Identifies the present version of a regular file.
    fn fingerprint(&self, path: &[u8]) -> Option<Fingerprint> {
        restore::fingerprint(&self.target(), &PathText::of(path)).ok().flatten()
    }

    /// Changes the files, and keeps what is needed to undo it.
    fn apply(
        &self,
        meta: RestoreMeta,
        changes: Vec<FileChange>,
        run: &RunId,
    ) -> Result<RestoreReport, Error> {
        let mp = self.milepost;
        let id = meta.id.clone();
        let (begun, reference) = (mp.now(), meta.reference.clone());
        let undoes = meta.undoes.clone();
        self.keep_for_undo(&meta, &changes, run)?;
        let outcome = restore::apply(&self.target(), meta, changes, &StoreSource(&*mp.store))?;
        self.attribute_changes(run, begun, &id, &reference, undoes.as_deref(), &outcome)?;
        self.remove_old_undo_points()?;
        let kept = outcome.conflicts.into_iter().map(|conflict| KeptFile {
            path: conflict.path,
            reason: match conflict.detail {
                Some(detail) => format!("{}: {detail}", conflict.reason),
                None => conflict.reason.to_string(),
            },
        });
        Ok(RestoreReport {
            id,
            plan: None,
            safety_checkpoint: None,
            restored: outcome.changed,
            kept: kept.collect(),
            moved_aside: outcome.aside,
            recovered: None,
        })
    }

    /// The run that a restore is recorded in: the run of the files, or the caller's own if that one is imported.
    fn home_run(&self, run: &RunId, current: Option<&RunId>) -> Result<RunId, Error> {
        let is_foreign = self.milepost.record_of(run)?.is_some_and(|record| record.is_foreign());
        Ok(current.filter(|_| is_foreign).unwrap_or(run).clone())
    }

    /// Saves the present files in a checkpoint, and returns its id and their manifest.
    fn save_present_files(&self, run: &RunId) -> Result<(CheckpointId, Manifest), Error> {
        let mp = self.milepost;
        let capture = mp.capture_workspace(run, &self.without_deadline())?;
        let failed = |why: String| Error::Worktree { root: self.root.clone(), why };
        let Some(taken) = &capture.snapshot else {
            return Err(failed(capture.skipped.last().cloned().unwrap_or_default()));
        };
        let manifest = taken.manifest;
        let saved = self.save_keeping_status(run, capture, "before_restore")?;
        Ok((saved.snapshot_id, mp.manifest(&manifest)?))
    }

    /// Saves a checkpoint of a run that keeps its status and why it stopped.
    fn save_keeping_status(
        &self,
        run: &RunId,
        capture: WorkspaceCapture,
        reason: &str,
    ) -> Result<Saved, Error> {
        let mut save = Save::new().reason(reason).capture(Box::new(capture));
        if let Some(record) = self.milepost.record_of(run)? {
            save.draft.status = Some(record.status);
            save.interruption.clone_from(&record.interruption);
        }
        self.milepost.save(run, save)
    }

    fn without_deadline(&self) -> CaptureOptions {
        let mut options = self.options.clone();
        let files = options.files.get_or_insert_with(SnapshotOptions::default);
        files.deadline = Some(std::time::Instant::now() + Duration::from_secs(3600));
        options.limits.time = Duration::from_secs(120);
        options
    }

    /// Refuses to change files under another run that is at work in the same worktree.
    fn refuse_other_live_runs(&self, run: &RunId, current: Option<&RunId>) -> Result<(), Error> {
        let mp = self.milepost;
        let family = mp.run_and_continuations(run)?;
        let here = self.root.to_string_lossy();
        for row in mp.store.runs(&Default::default())? {
            let Ok(record) = row.record else { continue };
            let is_other = !family.contains(&record.run_id) && current != Some(&record.run_id);
            let is_here = record.folder().is_some_and(|folder| *folder == here);
            let is_at_work = record.is_open() && mp.liveness(&record, row.age) == Some(Liveness::Alive);
            if is_other && is_here && is_at_work && !record.is_foreign() && !is_waiting(&record) {
                let owner = record.owner.as_ref();
                return Err(Error::OwnerAlive {
                    run: record.run_id.clone(),
                    owner: owner.map_or_else(String::new, |owner| {
                        format!("{} (pid {})", owner.name.as_deref().unwrap_or("process"), owner.pid)
                    }),
                });
            }
        }
        Ok(())
    }

    /// Sets a root in the store that keeps the contents which `undo` needs.
    fn keep_for_undo(&self, meta: &RestoreMeta, changes: &[FileChange], run: &RunId) -> Result<(), Error> {
        let mp = self.milepost;
        let contents = changes.iter().filter_map(|change| {
            let before = match &change.before {
                Before::Saved { state } => content_of(state).unwrap_or(FileContent::Absent),
                Before::Unsaved { .. } => FileContent::Absent,
            };
            let after = content_of(&change.after).unwrap_or(FileContent::Absent);
            Some((change.path.to_bytes()?, before, after))
        });
        let worktree = crate::snapshot::worktree_key(&self.root);
        let (manifest, blobs) = undo_manifest(&worktree, contents)
            .map_err(|why| Error::Worktree { root: self.root.clone(), why })?;
        let id = BlobId::of(&manifest);
        mp.store.put_blobs(&[&manifest])?;
        let root = format!("{UNDO_PREFIX}{worktree}/{}", meta.id);
        mp.commit_to_run(run, |commit| {
            commit.blobs.push(id);
            commit.blobs.extend(&blobs);
            commit.roots.push((root.clone(), id));
        })
    }

    /// Records the restore, and saves a checkpoint that attributes the changed files to the run.
    fn attribute_changes(
        &self,
        run: &RunId,
        begun: Timestamp,
        id: &str,
        reference: &str,
        undoes: Option<&str>,
        outcome: &restore::Outcome,
    ) -> Result<(), Error> {
        let mp = self.milepost;
        let mut options = self.without_deadline();
        let elapsed = Duration::try_from(mp.now().duration_since(begun)).unwrap_or_default();
        if let Some(files) = &mut options.files {
            files.tool = Some(EndedTool { duration: Some(elapsed) });
        }
        let capture = mp.capture_workspace(run, &options)?;
        let reason = if undoes.is_some() { "after_undo" } else { "after_restore" };
        self.save_keeping_status(run, capture, reason)?;
        let data = json!({
            "restore": id,
            "reference": reference,
            "undoes": undoes,
            "files": outcome.changed.len(),
            "kept": outcome.conflicts.len(),
        });
        let now = mp.now();
        mp.commit_to_run(run, |commit| {
            commit.events.push(event(run, now, EventType::FilesRestored, None, &data));
        })
    }

    fn remove_old_undo_points(&self) -> Result<(), Error> {
        let points = restore::undo_points(&self.target())?;
        for point in points.iter().skip(UNDO_POINTS) {
            restore::remove_undo_point(&self.target(), &point.meta.id)?;
        }
        Ok(())
    }
}

impl Milepost {
    /// Changes a commit that only repeats the run's record. The run keeps its status and its interruption.
    fn commit_to_run(&self, run: &RunId, change: impl Fn(&mut Commit)) -> Result<(), Error> {
        self.write(run, &mut |view| {
            let Some(record) = view.record.clone() else { return WriteDecision::NoChange };
            let mut commit = Commit::new(record);
            change(&mut commit);
            WriteDecision::Commit(Box::new(commit))
        })
        .map(|_| ())
    }

    /// A run, and the runs that continue it.
    fn run_and_continuations(&self, run: &RunId) -> Result<BTreeSet<RunId>, Error> {
        let rows = self.store.runs(&Default::default())?;
        let records: Vec<_> = rows.into_iter().filter_map(|row| row.record.ok()).collect();
        let mut family = BTreeSet::from([run.clone()]);
        loop {
            let mut added = false;
            for record in &records {
                let claimed = record.claim.as_ref().map(|claim| &claim.by_run);
                if let (true, Some(by)) = (family.contains(&record.run_id), claimed) {
                    added |= family.insert(by.clone());
                }
            }
            if !added {
                return Ok(family);
            }
        }
    }
}

/// Whether an agent's run waits for its user, so that no tool of it is at work.
fn is_waiting(record: &RunRecord) -> bool {
    record.interruption.is_some()
}

fn state_of_content(content: &FileContent) -> Option<FileState> {
    match content {
        FileContent::Absent => Some(FileState::Absent),
        FileContent::File { blob, size, executable } => {
            Some(FileState::File { blob: *blob, size: *size, executable: *executable })
        }
        FileContent::Symlink { target } => Some(FileState::Symlink { target: target.to_bytes()? }),
        FileContent::Submodule { .. } | FileContent::Omitted { .. } => None,
    }
}

fn content_of(state: &FileState) -> Option<FileContent> {
    match state {
        FileState::Absent => Some(FileContent::Absent),
        FileState::File { blob, size, executable } => {
            Some(FileContent::File { blob: *blob, size: *size, executable: *executable })
        }
        FileState::Symlink { target } => Some(FileContent::Symlink { target: PathText::of(target) }),
        FileState::Aside { .. } => None,
    }
}

fn new_id(now: Timestamp) -> String {
    format!("{}-{}", now.strftime("%Y%m%d-%H%M%S"), random_suffix(4))
}

impl From<restore::UndoPoint> for UndoPoint {
    fn from(point: restore::UndoPoint) -> Self {
        Self {
            id: point.meta.id,
            reference: point.meta.reference,
            at: point.meta.time,
            run_id: point.meta.run,
            safety_checkpoint: point.meta.safety_checkpoint,
            undoes: point.meta.undoes,
            files: point.changed,
        }
    }
}
