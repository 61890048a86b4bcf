//! Files: the files of a worktree as they were at a checkpoint or before a prompt, or as they are now. Takes a
//! reference and returns a view from which contents are read. Writes nothing.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;

use super::snapshot::{inside_root, reported_files};
use super::{Milepost, Reference};
use crate::Error;
use crate::capture::{self, CaptureBaseline, CaptureOptions, find_repository};
use crate::model::{BlobId, Item, RestorePoint, RunId};
use crate::snapshot::manifest::SeriesId;
use crate::snapshot::{
    CommittedReader, ContentSink, FileContent, Manifest, SnapshotRequest, Snapshotter, is_not_checked_out,
    worktree_key,
};
use crate::store::{HeaderQuery, Repository, Row, StoreError};

/// How long reading committed files from git may take.
const GIT_TIME: Duration = Duration::from_secs(20);
/// The largest committed file that is read.
const COMMITTED_LIMIT: u64 = 64 << 20;

/// A worktree whose files are restored or compared.
#[derive(Debug)]
pub struct Worktree<'m> {
    pub(super) milepost: &'m Milepost,
    pub(super) options: CaptureOptions,
    pub(super) root: PathBuf,
    pub(super) repository: Option<Repository>,
}

/// The files of a worktree at one instant. Lists only files that have changed since the first snapshot of the
/// worktree; every other file is read from git.
pub struct Files<'m> {
    milepost: &'m Milepost,
    root: PathBuf,
    repository: Option<Repository>,
    pub(super) manifest: Manifest,
    /// The newest manifests of this and the following series, which know the earlier contents of files that
    /// changed later.
    later: Vec<Manifest>,
    /// Contents that are not in the store.
    unstored: HashMap<BlobId, Arc<Vec<u8>>>,
    /// Contents that were read from git.
    committed: Mutex<HashMap<BlobId, Vec<u8>>>,
    /// The run of the checkpoint; `None` for the current files.
    pub(super) run: Option<RunId>,
    /// When the snapshot was taken.
    pub(super) taken_at: Timestamp,
    /// Describes the files in messages and headings.
    pub(super) name: String,
    /// Whether these are files of the worktree that they are compared with.
    pub(super) is_of_here: bool,
}

impl std::fmt::Debug for Files<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Files")
            .field("name", &self.name)
            .field("paths", &self.manifest.entries.len())
            .finish()
    }
}

/// Number of headers that a search for restore points reads at once.
const POINTS_PAGE: usize = 50;

/// Which restore points of a run to list.
#[derive(Debug, Clone, Copy)]
pub struct RestorePointQuery {
    /// The newest checkpoint whose points are listed, by its sequence number; `None` also lists the points since the
    /// newest checkpoint.
    pub up_to: Option<u64>,
    /// Maximum number of points.
    pub limit: usize,
    /// Maximum number of checkpoints to look at.
    pub checkpoints: usize,
}

impl Default for RestorePointQuery {
    fn default() -> Self {
        Self { up_to: None, limit: usize::MAX, checkpoints: usize::MAX }
    }
}

/// Why a content is not available that was evicted, or that did not come with a bundle or copy.
const NOT_IN_STORE: &str = "the store does not have its content";

impl Milepost {
    /// Opens the worktree that contains `folder`, to restore and compare its files.
    pub fn worktree(&self, folder: impl AsRef<Path>) -> Result<Worktree<'_>, Error> {
        self.worktree_with(CaptureOptions::at(folder.as_ref()))
    }

    /// Like `worktree`, with the options that its snapshots are taken with.
    #[cfg_attr(feature = "internal", visibility::make(pub))]
    pub(crate) fn worktree_with(&self, options: CaptureOptions) -> Result<Worktree<'_>, Error> {
        let folder = &options.root;
        let paths =
            crate::store::project_paths::ProjectPaths::find(folder).map_err(Error::file(folder, "read"))?;
        let root = paths.root.clone();
        let options = CaptureOptions { root: root.clone(), ..options };
        let repository = find_repository(&options, &root).ok();
        Ok(Worktree { milepost: self, options, root, repository })
    }

    /// The newest restore points of a run, newest first: the files before each of its prompts. With each comes its
    /// number, by which `prompt~N` names it.
    #[cfg_attr(feature = "internal", visibility::make(pub))]
    pub(crate) fn restore_points(
        &self,
        run: &RunId,
        query: RestorePointQuery,
    ) -> Result<Vec<(u64, RestorePoint)>, Error> {
        let Some(stored) = self.store.run(run)? else { return Err(Error::NoRun(run.to_string())) };
        let pending = stored.items.iter().filter_map(|item| match item {
            Item::RestorePoint(point) => Some(point),
            _ => None,
        });
        let record = stored.row.record.as_ref().ok();
        let has_points = record.is_none_or(|record| record.captures.restore_points > 0);
        let kept = record.into_iter().flat_map(|record| record.working.restore_points.iter());
        let since_latest: Vec<_> = kept.chain(pending).cloned().collect();
        let (mut points, mut next) = (Vec::new(), 0);
        let number = |found: Vec<RestorePoint>, next: &mut u64| -> Vec<(u64, RestorePoint)> {
            let first = *next;
            *next += found.len() as u64;
            (first..).zip(found.into_iter().rev()).collect()
        };
        match query.up_to {
            None => points.extend(number(since_latest, &mut next)),
            Some(_) => next += since_latest.len() as u64,
        }
        let (mut after, mut read) = (None, 0);
        while has_points && points.len() < query.limit && read < query.checkpoints {
            let page = HeaderQuery { after, ..HeaderQuery::default().run(run).limit(POINTS_PAGE) };
            let page = self.store.headers(&page)?;
            let is_last = page.len() < POINTS_PAGE;
            after = page.last().map(Row::cursor);
            read += page.len();
            for entry in page.into_iter().filter_map(Row::intact) {
                if query.up_to.is_some_and(|up_to| entry.header.sequence > up_to) {
                    next += entry.header.restore_points;
                } else if entry.header.restore_points > 0
                    && points.len() < query.limit
                    && let Some(body) = self.body_if_there(&entry)?
                {
                    points.extend(number(body.restore_points.unwrap_or_default(), &mut next));
                }
            }
            if is_last {
                break;
            }
        }
        points.truncate(query.limit);
        Ok(points)
    }
}

impl<'m> Worktree<'m> {
    /// The root of the worktree.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The files as they were at a checkpoint, or before a prompt of a run.
    pub fn files(&self, reference: &Reference, run: Option<&RunId>) -> Result<Files<'m>, Error> {
        let mp = self.milepost;
        let name = reference.to_string();
        let (manifest, run, taken_at) = match reference {
            Reference::Prompt(back) => {
                let run = match run {
                    Some(run) => run.clone(),
                    None => mp.find(&Reference::Latest(0), None)?.header.run_id,
                };
                let limit = usize::try_from(*back).unwrap_or(usize::MAX).saturating_add(1);
                let points = mp.restore_points(&run, RestorePointQuery { limit, ..Default::default() })?;
                let point = points.into_iter().find(|(number, _)| number == back).map(|(_, point)| point);
                let point =
                    point.ok_or_else(|| Error::NotFound { reference: format!("{reference} of {run}") })?;
                (point.manifest, run, point.at)
            }
            _ => {
                let entry = mp.find(reference, run)?;
                let body = mp.body(&entry)?;
                let snapshot = body.workspace.and_then(|workspace| workspace.snapshot);
                let Some(snapshot) = snapshot else {
                    return Err(Error::NoFiles { reference: name });
                };
                (snapshot.manifest, entry.header.run_id, entry.header.created_at)
            }
        };
        let manifest = match mp.manifest(&manifest) {
            Err(Error::Store(StoreError::NoBlob(_))) => return Err(Error::NoFiles { reference: name }),
            manifest => manifest?,
        };
        // Later snapshots of another worktree, or of another machine's, say nothing about these files.
        let is_foreign = mp.record_of(&run)?.is_some_and(|record| record.is_foreign());
        let is_of_here = manifest.series.worktree == worktree_key(&self.root) && !is_foreign;
        let later = if is_foreign { Vec::new() } else { self.later_manifests(&manifest.series)? };
        let files = self.view(manifest, later, HashMap::new(), Some(run), taken_at, name);
        Ok(Files { is_of_here, ..files })
    }

    /// The files as they are now. Stores nothing.
    pub fn current_files(&self) -> Result<Files<'m>, Error> {
        self.current_files_for(None)
    }

    /// Like `current_files`. Changes since the newest snapshot are attributed to the run if it works all the
    /// time.
    pub(super) fn current_files_for(&self, run: Option<&RunId>) -> Result<Files<'m>, Error> {
        let mut contents = HashMap::new();
        let mut sink = |batch: &[&[u8]]| {
            contents.extend(batch.iter().map(|bytes| (BlobId::of(bytes), Arc::new(bytes.to_vec()))));
            Ok(())
        };
        let manifest = self.examine(run, &mut sink)?;
        let name = "the worktree".to_owned();
        Ok(self.view(manifest, Vec::new(), contents, None, self.milepost.now(), name))
    }

    /// Takes a snapshot without storing it. `sink` gets the contents of the files.
    fn examine(&self, run: Option<&RunId>, sink: &mut ContentSink<'_>) -> Result<Manifest, Error> {
        let mp = self.milepost;
        let failed = |why: String| Error::Worktree { root: self.root.clone(), why };
        let capture = capture::capture_workspace(&self.options, &CaptureBaseline::default());
        if let (Some(why), true) = (&capture.git.error, self.repository.is_some()) {
            return Err(failed(why.clone()));
        }
        let files = self.options.files.clone().unwrap_or_default();
        let stored = run.map(|run| mp.store.run(run)).transpose()?.flatten();
        let record = stored.as_ref().and_then(|stored| stored.row.record.as_deref().ok());
        let request = SnapshotRequest {
            root: &self.root,
            repository: self.repository.as_ref(),
            capture: &capture,
            store: &mp.address,
            now: mp.now().as_millisecond(),
            options: &files,
            run,
            reported: reported_files(stored.as_ref(), &self.root),
            window: record.and_then(|record| mp.window(record, &files)),
        };
        let snapshotter = Snapshotter::read_only(&request);
        let taken =
            snapshotter.take(&request, |worktree| mp.newest_manifest(worktree), sink).map_err(failed)?;
        Ok(taken.full_manifest())
    }

    fn later_manifests(&self, series: &SeriesId) -> Result<Vec<Manifest>, Error> {
        let all = self.milepost.series_of(&series.worktree)?;
        let later = all.into_iter().filter(|(other, _)| other.number >= series.number);
        later.map(|(_, id)| self.milepost.manifest(&id)).collect()
    }

    fn view(
        &self,
        manifest: Manifest,
        later: Vec<Manifest>,
        unstored: HashMap<BlobId, Arc<Vec<u8>>>,
        run: Option<RunId>,
        taken_at: Timestamp,
        name: String,
    ) -> Files<'m> {
        Files {
            milepost: self.milepost,
            root: self.root.clone(),
            repository: self.repository.clone(),
            manifest,
            later,
            unstored,
            committed: Mutex::default(),
            run,
            taken_at,
            name,
            is_of_here: true,
        }
    }
}

impl Files<'_> {
    /// Describes these files: the reference that they were found by.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// When the snapshot was taken.
    pub fn taken_at(&self) -> Timestamp {
        self.taken_at
    }

    /// The run of the checkpoint; `None` for the current files.
    pub fn run_id(&self) -> Option<&RunId> {
        self.run.as_ref()
    }

    /// Every path that has changed since the first snapshot of the worktree.
    pub fn changed_paths(&self) -> BTreeSet<Vec<u8>> {
        let manifests = self.later.iter().chain([&self.manifest]);
        manifests.flat_map(|manifest| manifest.entries.keys().cloned()).collect()
    }

    /// The content of a path that has changed since the first snapshot; `None` if the path has not.
    pub fn listed(&self, path: &[u8]) -> Option<FileContent> {
        if let Some(entry) = self.manifest.entries.get(path) {
            return Some(entry.now.clone());
        }
        // The path changed after this snapshot: what it was before is its content here. Another series may have
        // begun with another commit.
        let later = self.later.iter().filter(|manifest| manifest.series == self.manifest.series);
        let later = later.filter_map(|manifest| manifest.entries.get(path)).next();
        later.map(|entry| entry.was.clone())
    }

    /// The newest known content of a path that has changed since the first snapshot.
    pub(super) fn newest(&self, path: &[u8]) -> Option<FileContent> {
        let newest = self.later.iter().rev().find_map(|manifest| manifest.entries.get(path));
        newest.map(|entry| entry.now.clone())
    }

    /// The content of any path. Asks git for files that never changed, and for those whose earlier content is
    /// not in the store.
    pub fn content(&self, path: &[u8]) -> FileContent {
        match self.listed(path) {
            Some(content) if !content.is_omitted() || is_not_checked_out(&content) => content,
            listed => match (listed, self.read_committed(path)) {
                (Some(omitted), None | Some(FileContent::Omitted { .. })) => omitted,
                // A listed path was not clean, so git does not have its content.
                (Some(omitted), Some(_)) if self.manifest.entries.contains_key(path) => omitted,
                (_, Some(content)) => content,
                (None, None) => FileContent::Absent,
            },
        }
    }

    /// A content that the store does not have, if git has it.
    pub(super) fn available(&self, path: &[u8], content: FileContent) -> FileContent {
        let is_readable = self.read(&content).is_ok() || self.read_committed(path).as_ref() == Some(&content);
        if is_readable { content } else { FileContent::omitted(NOT_IN_STORE, None) }
    }

    fn read_committed(&self, path: &[u8]) -> Option<FileContent> {
        let (repository, head) = (self.repository.as_ref()?, self.manifest.head.as_deref()?);
        let reader = CommittedReader::open(repository, GIT_TIME).ok()?;
        let (content, bytes) = reader.read(head, path, COMMITTED_LIMIT);
        if let Some(blob) = content.blob() {
            self.committed.lock().unwrap_or_else(|e| e.into_inner()).insert(blob, bytes);
        }
        Some(content)
    }

    /// Reads the bytes of a content of these files. A symbolic link has its target as bytes.
    pub fn read(&self, content: &FileContent) -> Result<Vec<u8>, Error> {
        match content {
            FileContent::File { blob, .. } => {
                if let Some(bytes) = self.unstored.get(blob) {
                    return Ok(bytes.to_vec());
                }
                if let Some(bytes) = self.committed.lock().unwrap_or_else(|e| e.into_inner()).get(blob) {
                    return Ok(bytes.clone());
                }
                Ok(self.milepost.store.blob(blob)?)
            }
            FileContent::Symlink { target } => Ok(target.to_bytes().unwrap_or_default()),
            FileContent::Absent | FileContent::Submodule { .. } | FileContent::Omitted { .. } => {
                Ok(Vec::new())
            }
        }
    }

    /// Reads the file at a path, as it was. Fails if it did not exist or if its content is not available.
    pub fn read_path(&self, path: impl AsRef<Path>) -> Result<Vec<u8>, Error> {
        let shown = path.as_ref().display().to_string();
        let missing =
            |why: String| Error::FileUnavailable { path: shown.clone(), reference: self.name.clone(), why };
        let bytes = inside_root(&self.root, path.as_ref())
            .ok_or_else(|| missing("it is outside of the worktree".into()))?;
        match self.content(&bytes) {
            FileContent::Absent => Err(missing("it did not exist".into())),
            FileContent::Omitted { reason, .. } => Err(missing(reason)),
            FileContent::Submodule { commit } => Err(missing(format!("it is a submodule at {commit}"))),
            content => self.read(&content),
        }
    }
}
