//! Snapshots: takes a snapshot of the files for a capture, stores its contents, and adds it to a commit. A
//! snapshot that fails never keeps a checkpoint from being saved: the checkpoint says what is missing.

use std::path::{Component, Path};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Milepost;
use crate::Error;
use crate::capture::{self, CaptureOptions, FileLimits, SnapshotOptions, TakenSnapshot, WorkspaceCapture};
use crate::model::{BlobId, Change, FileRef, Item, RunId, RunRecord};
use crate::snapshot::manifest::{SeriesId, is_inside};
use crate::snapshot::{
    FileContent, Manifest, PreviousManifest, SnapshotRequest, Snapshotter, ToolWindow, read_written_file,
};
use crate::store::{Commit, StoreError, StoredRun};

/// Maximum time to wait for another snapshot of the same worktree.
const LOCK_WAIT: Duration = Duration::from_secs(2);

impl Milepost {
    /// Takes a snapshot of the files and adds it to the capture. If that fails, adds a note.
    pub(super) fn add_snapshot(
        &self,
        run: &RunId,
        stored: Option<&StoredRun>,
        options: &CaptureOptions,
        capture: &mut WorkspaceCapture,
    ) {
        let Some(files) = &options.files else { return };
        capture.retake_with = Some(Arc::new(options.clone()));
        match self.take_snapshot(run, stored, options, files, capture) {
            Ok((taken, overdue)) => {
                capture.snapshot = taken;
                capture.overdue = overdue;
            }
            Err((why, overdue)) => {
                capture.skipped.push(format!("files: {why}"));
                capture.overdue = overdue;
            }
        }
    }

    fn take_snapshot(
        &self,
        run: &RunId,
        stored: Option<&StoredRun>,
        options: &CaptureOptions,
        files: &SnapshotOptions,
        capture: &WorkspaceCapture,
    ) -> Result<(Option<TakenSnapshot>, u32), (String, u32)> {
        let failed = |why: String| (why, 0);
        let root = crate::fs::canonicalize(&options.root).unwrap_or_else(|_| options.root.clone());
        let repository = capture::find_repository(options, &root).ok();
        let root = repository.as_ref().map_or(root, |repository| repository.worktree().to_owned());
        let record = stored.and_then(|stored| stored.row.record.as_deref().ok());
        let request = SnapshotRequest {
            root: &root,
            repository: repository.as_ref(),
            capture,
            store: &self.address,
            now: self.now().as_millisecond(),
            options: files,
            run: Some(run),
            reported: reported_files(stored, &root),
            window: record.and_then(|record| self.window(record, files)),
        };
        if request.covers_nothing() {
            return Ok((None, 0));
        }
        // A hook has little time, and another snapshot may take long.
        let wait = files.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()) / 4);
        let deadline = Instant::now() + wait.map_or(LOCK_WAIT, |wait| wait.min(LOCK_WAIT));
        let snapshotter = Snapshotter::open(&request, deadline).map_err(|why| {
            request.window.iter().for_each(|window| Snapshotter::read_only(&request).note_window(window));
            failed(why)
        })?;
        if let (Some(why), true) = (&capture.git.error, repository.is_some()) {
            let overdue = snapshotter.note_overdue(&self.address, request.window.as_ref());
            return Err((why.clone(), overdue));
        }
        self.make_room(files);
        let take = |wanted: &mut u64, is_refused: &mut bool| {
            let sink = &mut |contents: &[&[u8]]| {
                *wanted += total_bytes(contents);
                *is_refused |= self.exceeds_limit(contents);
                self.put_contents(contents)
            };
            snapshotter.take(&request, |worktree| self.newest_manifest(worktree), sink).map_err(failed)
        };
        let (mut wanted, mut is_refused) = (0, false);
        let mut taken = take(&mut wanted, &mut is_refused)?;
        if is_refused && self.has_made_room_for(wanted, files) {
            taken = take(&mut wanted, &mut is_refused)?;
        }
        if let Some(manifest) = &taken.manifest {
            self.store.put_blobs(&[manifest]).map_err(|e| failed(e.to_string()))?;
        }
        taken.remember();
        Ok((Some(taken.snapshot), taken.overdue))
    }

    /// The period whose changes are attributed to the run.
    pub(super) fn window(&self, record: &RunRecord, files: &SnapshotOptions) -> Option<ToolWindow> {
        /// How long after a tool its hook may run.
        const HOOK_DELAY: i64 = 500;
        let now = self.now().as_millisecond();
        let since_last_event = || record.heartbeat.unwrap_or(record.started_at).as_millisecond();
        let from = match (files.tool, &record.agent) {
            _ if record.is_foreign() => return None,
            (Some(tool), _) => {
                let duration = tool.duration.and_then(|time| i64::try_from(time.as_millis()).ok());
                match duration.map(|duration| now.saturating_sub(duration)) {
                    None => since_last_event(),
                    // The last event belongs to another tool that ran at the same time.
                    Some(begun) if begun < since_last_event() => begun.saturating_sub(HOOK_DELAY),
                    Some(begun) => begun.saturating_sub(HOOK_DELAY).max(since_last_event()),
                }
            }
            // A command or a person works on the run all the time. An agent works only while its tools run.
            (None, None) => record.started_at.as_millisecond(),
            (None, Some(_)) => return None,
        };
        Some(ToolWindow { run: record.run_id.clone(), from, to: now })
    }

    /// The newest manifest of a worktree, which the next snapshot continues. If it is missing or damaged, the next
    /// snapshot begins a new series.
    pub(super) fn newest_manifest(&self, worktree: &str) -> Result<PreviousManifest, String> {
        let series = self.series_of(worktree).map_err(|e| crate::error::error_chain(&e))?;
        let Some((newest, id)) = series.into_iter().next_back() else { return Ok(PreviousManifest::None) };
        match self.manifest(&id) {
            Ok(manifest) => Ok(PreviousManifest::Loaded(id, manifest)),
            Err(Error::Store(StoreError::NoBlob(_) | StoreError::Damaged(_))) => {
                Ok(PreviousManifest::Unreadable { series: newest.number })
            }
            Err(e) => Err(crate::error::error_chain(&e)),
        }
    }

    /// The series of snapshots of a worktree, each with its newest manifest, oldest first.
    pub(super) fn series_of(&self, worktree: &str) -> Result<Vec<(SeriesId, BlobId)>, Error> {
        let roots = self.store.blob_roots()?;
        let series = roots.into_iter().filter_map(|(root, id)| Some((SeriesId::of_root(&root)?, id)));
        let mut series: Vec<_> = series.filter(|(series, _)| series.worktree == worktree).collect();
        series.sort();
        Ok(series)
    }

    /// Loads a manifest.
    pub(super) fn manifest(&self, id: &BlobId) -> Result<Manifest, Error> {
        Manifest::load(id, |id| -> Result<Vec<u8>, ManifestError> { Ok(self.store.blob(id)?) }).map_err(|e| {
            match e {
                ManifestError::Store(e) => e.into(),
                ManifestError::Invalid(why) => Error::Store(
                    crate::store::Damage::integrity(crate::store::Part::Blob, "a manifest", why).into(),
                ),
            }
        })
    }

    /// Makes room for a snapshot, if the limit for all contents of the store is nearly reached. This takes a while,
    /// so it is left to callers with enough time.
    fn make_room(&self, files: &SnapshotOptions) {
        let limit = self.settings.store_limits.max_file_bytes;
        let is_nearly_full = || self.store.blob_bytes().is_ok_and(|used| used > limit / 10 * 9);
        if limit > 0 && has_time_to_evict(files) && is_nearly_full() {
            let _ = self.evict_files(limit / 10 * 8);
        }
    }

    /// Makes room for contents of this size, which the store refused because there was less left than that.
    fn has_made_room_for(&self, wanted: u64, files: &SnapshotOptions) -> bool {
        let limit = self.settings.store_limits.max_file_bytes;
        let evict = |most: u64| self.evict_files(most).is_ok_and(|report| report.removed > 0);
        has_time_to_evict(files)
            && limit.checked_sub(wanted).is_some_and(|rest| evict(rest.min(limit / 10 * 8)))
    }

    /// Stores contents, within the limit for all contents of the store.
    fn put_contents(&self, contents: &[&[u8]]) -> Result<(), String> {
        if self.exceeds_limit(contents) {
            let limit = crate::fs::bounded::format_limit(self.settings.store_limits.max_file_bytes);
            return Err(format!("all files of the store together reach their limit of {limit}"));
        }
        self.store.put_blobs(contents).map_err(|e| crate::error::error_chain(&e))
    }

    /// Whether the store would exceed the limit for all contents with these.
    fn exceeds_limit(&self, contents: &[&[u8]]) -> bool {
        let limit = self.settings.store_limits.max_file_bytes;
        let exceeds = |used: u64| used.saturating_add(total_bytes(contents)) > limit;
        limit > 0 && self.store.blob_bytes().is_ok_and(exceeds)
    }

    /// Stores the content of files that a tool has just written, and adds its id to the changes that name
    /// them. A file that cannot be read is left as it is.
    #[cfg_attr(feature = "internal", visibility::make(pub))]
    pub(crate) fn store_written_files(&self, root: &Path, limits: &FileLimits, changes: &mut [Change]) {
        let mut contents = Vec::new();
        for change in changes {
            let Change::Item(Item::File(file)) = change else { continue };
            let Some(path) = inside(root, file) else { continue };
            if let Some((FileContent::File { blob, .. }, bytes)) = read_written_file(root, &path, limits.file)
            {
                file.blob = Some(blob);
                contents.push(bytes);
            }
        }
        let contents: Vec<&[u8]> = contents.iter().map(Vec::as_slice).collect();
        if !contents.is_empty() {
            // If they cannot be stored, the commit that refers to them drops the references.
            let _ = self.put_contents(&contents);
        }
    }

    /// Takes the snapshot of a capture again, without the cache, because the store no longer has contents that
    /// the cache refers to.
    pub(super) fn retake_snapshot(&self, run: &RunId, capture: &mut WorkspaceCapture) -> Result<(), Error> {
        capture.snapshot = None;
        let Some(options) = capture.retake_with.take() else { return Ok(()) };
        let mut options = (*options).clone();
        if let Some(files) = &mut options.files {
            files.ignore_cache = true;
        }
        let stored = self.store.run(run)?;
        self.add_snapshot(run, stored.as_ref(), &options, capture);
        capture.retake_with = None;
        Ok(())
    }
}

fn total_bytes(contents: &[&[u8]]) -> u64 {
    contents.iter().map(|bytes| bytes.len() as u64).sum()
}

/// Whether a caller has enough time to evict contents. A hook has not.
fn has_time_to_evict(files: &SnapshotOptions) -> bool {
    const ENOUGH_TIME: Duration = Duration::from_secs(10);
    files.deadline.is_none_or(|at| at >= Instant::now() + ENOUGH_TIME)
}

/// Why a manifest could not be loaded.
enum ManifestError {
    Store(StoreError),
    Invalid(String),
}

impl From<StoreError> for ManifestError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<String> for ManifestError {
    fn from(why: String) -> Self {
        Self::Invalid(why)
    }
}

/// Adds a snapshot to a commit.
pub(super) fn include_snapshot(commit: &mut Commit, taken: &TakenSnapshot) {
    commit.blobs.extend(&taken.blobs);
    commit.roots.push((taken.root.clone(), taken.manifest));
}

/// The files that tools of a run wrote, and their contents at that time.
pub(super) fn reported_files(stored: Option<&StoredRun>, root: &Path) -> Vec<(Vec<u8>, Option<BlobId>)> {
    let record = stored.and_then(|stored| stored.row.record.as_deref().ok());
    let Some(record) = record.filter(|record| !record.is_foreign()) else { return Vec::new() };
    let pending = stored.iter().flat_map(|stored| &stored.items).filter_map(|item| match item {
        Item::File(file) => Some(file),
        _ => None,
    });
    let reported = record.working.files.iter().chain(pending);
    reported.filter_map(|file| Some((inside(root, file)?, file.blob))).collect()
}

/// The path of a reported file relative to the root; `None` if it is outside.
fn inside(root: &Path, file: &FileRef) -> Option<Vec<u8>> {
    inside_root(root, Path::new(&file.path))
}

/// A path relative to the root, in bytes; `None` if it is outside.
pub(super) fn inside_root(root: &Path, path: &Path) -> Option<Vec<u8>> {
    let path = if path.is_absolute() { crate::fs::below(path, root)? } else { path.to_owned() };
    let path: std::path::PathBuf = path.components().filter(|part| *part != Component::CurDir).collect();
    let bytes = crate::fs::stored_bytes(&path);
    is_inside(&bytes).then(|| bytes.into_owned())
}
