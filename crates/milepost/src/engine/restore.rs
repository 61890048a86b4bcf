//! Restore: brings the files of a worktree back to an earlier checkpoint, and undoes that. Decides which paths
//! may change, saves the present files in a safety checkpoint, and lets `crate::restore` change the files.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use derive_getters::Getters;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::json;

use super::bookkeeping::event;
use super::files::{Files, Worktree};
use super::snapshot::{include_snapshot, inside_root};
use super::{Milepost, Reference, Save};
use crate::Error;
use crate::capture::{CaptureOptions, TakenSnapshot};
use crate::model::id::random_suffix;
use crate::model::{BlobId, CheckpointId, EventType, PathText, RunId, RunRecord, closed_enum};
use crate::owner::Liveness;
use crate::restore::{
    self, Before, ContentError, ContentSource, FileChange, FileState, Fingerprint, RecoveryResult,
    RestoreMeta, RestoreTarget,
};
use crate::snapshot::manifest::UNDO_PREFIX;
use crate::snapshot::{EndedTool, FileContent, Manifest, SnapshotOptions, ignored_paths, undo_manifest};
use crate::store::{Commit, Store, WriteDecision};

/// How many undo points a worktree keeps. The oldest ones are removed, with the files that they moved aside.
pub(super) const UNDO_POINTS: usize = 20;

options! {
    /// Which files to restore.
    #[derive(Debug, Clone, Default)]
    pub struct RestoreScope {
        /// Files and folders to restore, relative to the root. If empty, all files that the run changed.
        pub(crate) paths: Vec<PathBuf>,
        /// Restores every file that differs, even if the run did not change it.
        pub(crate) all: bool,
        /// Replaces files that someone else changed. Their present content is kept for `undo`.
        pub(crate) force: bool,
        /// The run that the caller works in, which does not count as another live run.
        pub(crate) current_run: Option<RunId>,
    }
}

closed_enum! {
    /// What a restore does with a file.
    pub enum RestoreAction {
        /// Replaces its content.
        Restore = "restore",
        /// Creates it again.
        Recreate = "recreate",
        /// Deletes it, because it did not exist.
        Delete = "delete",
        /// Leaves it, because it must not be touched.
        Keep = "keep",
        /// Leaves it, because someone else changed it.
        Conflict = "conflict",
        /// Leaves it, because its earlier content is not available.
        Unavailable = "unavailable",
    }
}

/// A file in a plan.
#[derive(Getters, Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PlannedFile {
    /// The path, relative to the root.
    pub(crate) path: PathText,
    /// What happens to it.
    #[getter(copy)]
    pub(crate) action: RestoreAction,
    /// Why it is left, or what is special about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    /// The size of the restored content.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) size: Option<u64>,
}

/// What a restore would do.
#[derive(Getters, Debug, Clone, Serialize)]
pub struct RestorePlan {
    /// The reference that the user gave.
    pub(crate) reference: String,
    /// The run whose files are restored.
    pub(crate) run_id: RunId,
    /// When the restored snapshot was taken.
    #[getter(copy)]
    pub(crate) taken_at: Timestamp,
    /// The files, sorted by path. Files that do not differ are not listed.
    pub(crate) files: Vec<PlannedFile>,
    /// Number of files that differ, but that this run did not change.
    pub(crate) left_alone: u64,
    /// Identifies this plan. A restore with the token of another plan is refused.
    pub(crate) token: String,
    #[serde(skip)]
    #[getter(skip)]
    changes: Vec<FileChange>,
}

impl RestorePlan {
    /// Number of files with this action.
    pub fn count(&self, action: RestoreAction) -> usize {
        self.files.iter().filter(|file| file.action == action).count()
    }

    /// Number of files that the restore changes.
    pub fn changes(&self) -> usize {
        self.changes.len()
    }
}

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
    fn target(&self) -> RestoreTarget {
        let folder = crate::snapshot::restore_folder(&self.root, self.repository.as_ref());
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
        let (safety, present) = self.save_present_files(&run, scope.current_run.as_ref())?;
        let plan = self.plan(&target, &present, scope)?;
        if token.is_some_and(|token| token != plan.token) {
            return Err(Error::PlanChanged);
        }
        let meta = RestoreMeta {
            id: new_id(mp.now()),
            reference: reference.to_string(),
            run: Some(run.clone()),
            safety_checkpoint: Some(safety.clone()),
            undoes: None,
            time: mp.now(),
        };
        let mut report = self.apply(meta, plan.changes.clone(), &run)?;
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

    /// Undoes a restore: the newest one that is not itself an undo, or the one with this id.
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
        let mut report = self.apply(meta, plan.changes, &run)?;
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

    /// Saves the present files in a checkpoint of the run, and returns their manifest. The run keeps its status.
    fn save_present_files(
        &self,
        run: &RunId,
        current: Option<&RunId>,
    ) -> Result<(CheckpointId, Manifest), Error> {
        let mp = self.milepost;
        let record = mp.record_of(run)?;
        // The files of an imported run are saved in the caller's own run.
        let run = match (&record, current) {
            (Some(record), Some(current)) if record.is_foreign() => current,
            _ => run,
        };
        let record = mp.record_of(run)?;
        let capture = mp.capture_workspace(run, &self.without_deadline())?;
        let failed = |why: String| Error::Worktree { root: self.root.clone(), why };
        let Some(taken) = &capture.snapshot else {
            return Err(failed(capture.skipped.last().cloned().unwrap_or_default()));
        };
        let manifest = taken.manifest;
        let mut save = Save::new().reason("before_restore").capture(Box::new(capture));
        if let Some(record) = record {
            save.draft.status = Some(record.status);
            save.interruption.clone_from(&record.interruption);
        }
        let saved = mp.save(run, save)?;
        Ok((saved.snapshot_id, mp.manifest(&manifest)?))
    }

    fn without_deadline(&self) -> CaptureOptions {
        let mut options = self.options.clone();
        let files = options.files.get_or_insert_with(SnapshotOptions::default);
        files.deadline = Some(std::time::Instant::now() + Duration::from_secs(3600));
        options.limits.time = Duration::from_secs(120);
        options
    }

    /// Decides what happens to each file.
    fn plan(
        &self,
        target: &Files<'_>,
        present: &Manifest,
        scope: &RestoreScope,
    ) -> Result<RestorePlan, Error> {
        let run = target.run.clone().ok_or_else(|| Error::NoFiles { reference: target.name.clone() })?;
        let named = self.named_paths(scope)?;
        let family = self.milepost.run_and_continuations(&run)?;
        let mut paths = target.changed_paths();
        paths.extend(present.entries.keys().cloned());
        let mut plan = RestorePlan {
            reference: target.name.clone(),
            run_id: run,
            taken_at: target.taken_at,
            files: Vec::new(),
            left_alone: 0,
            token: String::new(),
            changes: Vec::new(),
        };
        let mut candidates = Vec::new();
        for path in paths {
            let is_named = named.iter().any(|named| is_at_or_below(&path, named));
            if !named.is_empty() && !is_named {
                continue;
            }
            let now = content_now(target, present, &path);
            // A path that no stored snapshot lists changed for the first time since the newest of them.
            let before_first_change = || present.entries.get(&path).map(|entry| entry.was.clone());
            let earlier = target.listed(&path).or_else(before_first_change);
            let Some(earlier) = earlier.filter(|earlier| *earlier != now) else { continue };
            let change = present.entries.get(&path).map(|entry| &entry.change);
            let is_own =
                change.is_some_and(|change| change.by.as_ref().is_some_and(|by| family.contains(by)));
            if !is_own && !scope.all && !is_named {
                plan.left_alone += 1;
                continue;
            }
            let others_until = change.map_or(0, |change| change.others_until);
            let conflict = if !is_own {
                Some("someone else changed it, or it was changed outside of this run's tools".to_owned())
            } else if others_until > target.taken_at.as_millisecond() {
                Some("someone else also changed it since".to_owned())
            } else {
                None
            };
            candidates.push((path, now, earlier, conflict));
        }
        let ignored = match &self.repository {
            Some(repository) => ignored_paths(repository, candidates.iter().map(|(path, ..)| &path[..])),
            None => BTreeSet::new(),
        };
        for (path, now, earlier, conflict) in candidates {
            let earlier = match earlier {
                FileContent::Omitted { .. } => target.content(&path),
                earlier => earlier,
            };
            if earlier == now {
                continue;
            }
            let is_ignored = ignored.contains(&path);
            let fingerprint = || self.fingerprint(&path);
            let (action, reason, change) =
                decide(&path, now, &earlier, conflict, is_ignored, scope.force, &fingerprint);
            let size = match &earlier {
                FileContent::File { size, .. } if change.is_some() => Some(*size),
                _ => None,
            };
            plan.files.push(PlannedFile { path: PathText::of(&path), action, reason, size });
            plan.changes.extend(change);
        }
        self.store_missing_contents(target, &plan.changes)?;
        plan.token = token_of(&plan);
        Ok(plan)
    }

    /// Stores contents that were found only in git, so that the restore can read them.
    fn store_missing_contents(&self, target: &Files<'_>, changes: &[FileChange]) -> Result<(), Error> {
        let store = &self.milepost.store;
        let wanted: Vec<_> = changes.iter().filter_map(|change| content_of(&change.after)).collect();
        let ids: Vec<_> = wanted.iter().filter_map(FileContent::blob).collect();
        let missing = store.missing_blobs(&ids)?;
        for content in wanted.iter().filter(|content| content.blob().is_some_and(|id| missing.contains(&id)))
        {
            if let Ok(bytes) = target.read(content) {
                store.put_blobs(&[&bytes])?;
            }
        }
        Ok(())
    }

    /// The paths of the scope, relative to the root.
    fn named_paths(&self, scope: &RestoreScope) -> Result<Vec<Vec<u8>>, Error> {
        let inside = |path: &PathBuf| {
            if path.as_path() == Path::new(".") || *path == self.root {
                return Ok(Vec::new());
            }
            inside_root(&self.root, path).ok_or_else(|| Error::FileUnavailable {
                path: path.display().to_string(),
                reference: "the worktree".into(),
                why: "it is outside of the worktree, or one of Milepost's or git's own files".into(),
            })
        };
        scope.paths.iter().map(inside).collect()
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

    /// Records the restore, and takes a snapshot that attributes the changed files to the run.
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
        let taken: Option<TakenSnapshot> = mp.capture_workspace(run, &options)?.snapshot;
        let data = json!({
            "restore": id,
            "reference": reference,
            "undoes": undoes,
            "files": outcome.changed.len(),
            "kept": outcome.conflicts.len(),
        });
        let now = mp.now();
        mp.commit_to_run(run, |commit| {
            if let Some(taken) = &taken {
                include_snapshot(commit, taken);
            }
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

/// The content of a path now. A path that the newest series does not list has not changed since it began.
fn content_now(target: &Files<'_>, present: &Manifest, path: &[u8]) -> FileContent {
    match present.entries.get(path) {
        Some(entry) => entry.now.clone(),
        None => target.newest(path).unwrap_or(FileContent::Absent),
    }
}

fn is_at_or_below(path: &[u8], named: &[u8]) -> bool {
    let rest = path.strip_prefix(named);
    named.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

/// What happens to one file that differs.
fn decide(
    path: &[u8],
    now: FileContent,
    earlier: &FileContent,
    conflict: Option<String>,
    is_ignored: bool,
    force: bool,
    fingerprint: &dyn Fn() -> Option<Fingerprint>,
) -> (RestoreAction, Option<String>, Option<FileChange>) {
    use RestoreAction as A;
    if is_ignored {
        return (A::Keep, Some("git ignores it".into()), None);
    }
    if matches!(now, FileContent::Submodule { .. }) || matches!(earlier, FileContent::Submodule { .. }) {
        return (A::Keep, Some("it is a submodule".into()), None);
    }
    if let FileContent::Omitted { reason, .. } = earlier {
        return (A::Unavailable, Some(reason.clone()), None);
    }
    let action = match (&now, earlier) {
        (_, FileContent::Absent) => A::Delete,
        (FileContent::Absent, _) => A::Recreate,
        _ => A::Restore,
    };
    let reason = match (conflict, force) {
        (Some(why), false) => return (A::Conflict, Some(why), None),
        (Some(why), true) => Some(why),
        (None, _) => None,
    };
    let before = match &now {
        FileContent::Omitted { reason, .. } => match fingerprint() {
            Some(fingerprint) => Before::Unsaved { fingerprint },
            None => return (A::Conflict, Some(reason.clone()), None),
        },
        content => state_of_content(content).map_or(Before::ABSENT, Before::saved),
    };
    let Some(after) = state_of_content(earlier) else {
        return (A::Unavailable, reason, None);
    };
    let is_unsaved = matches!(before, Before::Unsaved { .. });
    let reason = reason.or_else(|| is_unsaved.then(|| "its present content is moved aside".to_owned()));
    (action, reason, Some(FileChange { path: PathText::of(path), before, after }))
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

/// Identifies a plan by everything that it would do.
fn token_of(plan: &RestorePlan) -> String {
    let mut hasher = blake3::Hasher::new();
    for change in &plan.changes {
        // Serialising these plain values does not fail.
        hasher.update(&serde_json::to_vec(change).unwrap_or_default());
    }
    hasher.update(plan.reference.as_bytes());
    hasher.finalize().to_hex()[..16].to_owned()
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
