//! Takes a snapshot: decides which paths to list, reads the files whose content is not known, reads from git
//! what a path contained before it changed for the first time, and attributes each change to a run or to
//! someone else. Takes a capture and returns a manifest; contents go to a sink.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::cache::{Cache, CachedEntry, ToolWindow};
use super::committed::{self, MovedPath, Wanted};
use super::file::{self, Examined, Signature};
use super::manifest::{self, FileContent, LastChange, MAX_DEPTH, Manifest, ManifestEntry, SeriesId};
use super::{FileLimits, SECRET_REASON, SnapshotOptions};
use crate::capture::{ChangedPath, GitObject, TakenSnapshot, WorkspaceCapture};
use crate::fs::atomic;
use crate::git::{Git, is_object_name};
use crate::model::{BlobId, PathText, RunId};
use crate::store::Repository;

/// Contents are passed to the sink when this many bytes have been read.
const BATCH: usize = 8 << 20;
/// Maximum number of paths that a change of the commit adds to the list. If more paths changed, git alone
/// keeps their new content.
const MAX_MOVED: usize = 2_000;
/// Maximum number of listed paths that are equal to the current commit. Beyond it, a new series begins.
const MAX_CLEAN: usize = 5_000;
/// Maximum number of tool windows to keep.
const MAX_WINDOWS: usize = 200;
/// Maximum number of notes about omitted files.
const MAX_NOTES: usize = 20;

/// Stores contents. Returns an error for all of them if they cannot be stored.
pub(crate) type ContentSink<'a> = dyn FnMut(&[&[u8]]) -> Result<(), String> + 'a;

/// What a snapshot is taken of.
pub(crate) struct SnapshotRequest<'a> {
    /// The root of the worktree, without symbolic links.
    pub(crate) root: &'a Path,
    pub(crate) repository: Option<&'a Repository>,
    pub(crate) capture: &'a WorkspaceCapture,
    /// The address of the store.
    pub(crate) store: &'a str,
    /// The time in milliseconds since 1970.
    pub(crate) now: i64,
    pub(crate) options: &'a SnapshotOptions,
    /// The run that the snapshot is taken for.
    pub(crate) run: Option<&'a RunId>,
    /// The files that tools of the run wrote, relative to the root, with the content that they wrote.
    pub(crate) reported: Vec<(Vec<u8>, Option<BlobId>)>,
    /// The tool that has just ended, or the time during which the run worked.
    pub(crate) window: Option<ToolWindow>,
}

/// Takes snapshots of one worktree. Holds the lock that keeps other processes from doing the same.
pub(crate) struct Snapshotter {
    cache_path: PathBuf,
    worktree: String,
    _lock: std::fs::File,
}

impl Snapshotter {
    /// Waits for the lock until the deadline. Returns the reason if it cannot be acquired.
    pub(crate) fn open(request: &SnapshotRequest<'_>, deadline: Instant) -> Result<Self, String> {
        let folder = super::worktree_folder(request.root, request.repository);
        let describe = |e: std::io::Error| format!("{}: {e}", folder.display());
        atomic::create_folder(&folder).map_err(describe)?;
        let mut options = std::fs::OpenOptions::new();
        let lock = atomic::open_private(
            &folder.join("snapshot.lock"),
            options.read(true).write(true).create(true).truncate(false),
        )
        .map_err(describe)?;
        loop {
            match lock.try_lock() {
                Ok(()) => break,
                Err(std::fs::TryLockError::WouldBlock) if Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(2));
                }
                Err(std::fs::TryLockError::WouldBlock) => {
                    return Err("another snapshot of this worktree is being taken".into());
                }
                Err(std::fs::TryLockError::Error(e)) => return Err(describe(e)),
            }
        }
        // The lock excludes every other writer of this folder, so these are left from a process that died.
        for leftover in atomic::leftover_temp_files(&folder).unwrap_or_default() {
            let _ = std::fs::remove_file(leftover);
        }
        let key = |text: &[u8]| blake3::hash(text).to_hex()[..16].to_owned();
        let cache_path = folder.join(format!("snapshot-{}.cache", key(request.store.as_bytes())));
        Ok(Self { worktree: super::worktree_key(request.root), cache_path, _lock: lock })
    }

    /// Notes that a tool ran while no snapshot could be taken, so that its changes are attributed later.
    /// Returns how many snapshots in a row are overdue.
    pub(crate) fn note_overdue(&self, store: &str, window: Option<&ToolWindow>) -> u32 {
        let Some(mut cache) = Cache::read(&self.cache_path, store) else { return 1 };
        cache.overdue = cache.overdue.saturating_add(1);
        add_window(&mut cache.windows, window);
        let _ = cache.write(&self.cache_path);
        cache.overdue
    }

    /// Takes a snapshot. `previous` loads the newest manifest of the newest series of this worktree, if the
    /// cache does not have it. `sink` stores contents.
    pub(crate) fn take(
        &self,
        request: &SnapshotRequest<'_>,
        previous: impl FnOnce(&str) -> Option<(BlobId, Manifest)>,
        sink: &mut ContentSink<'_>,
    ) -> Result<Taken, String> {
        let cached = Cache::read(&self.cache_path, request.store).filter(|_| !request.options.ignore_cache);
        let before = cached.or_else(|| {
            let (id, manifest) = previous(&self.worktree)?;
            Some(Cache::of_manifest(request.store, id, manifest))
        });
        let mut windows = before.as_ref().map(|before| before.windows.clone()).unwrap_or_default();
        add_window(&mut windows, request.window.as_ref());
        let deadline = request.options.stop_at();
        let mut work = Work {
            request,
            before: before.as_ref(),
            windows: &windows,
            deadline,
            limits: request.options.limits,
            added_bytes: 0,
            batch: Batch::default(),
            sink,
            refused: HashMap::new(),
            folders_behind_link: HashMap::new(),
            is_complete: true,
            notes: Vec::new(),
        };
        let entries = work.list_entries();
        work.flush();
        let Work { refused, is_complete, mut notes, .. } = work;
        let mut entries = entries;
        for cached in entries.values_mut() {
            for content in [&mut cached.entry.now, &mut cached.entry.was] {
                if let Some(reason) = content.blob().and_then(|blob| refused.get(&blob)) {
                    *content = FileContent::omitted(reason.clone(), None);
                    cached.signature = None;
                }
            }
        }
        notes.extend(describe_omitted(&entries));
        let taken_at = request.now;
        let overdue =
            if is_complete { 0 } else { before.as_ref().map_or(0, |b| b.overdue).saturating_add(1) };
        if is_complete {
            windows.clear();
        }
        let (cache, manifest) = self.next(request, before.as_ref(), entries, taken_at, overdue, windows)?;
        let listed = cache.entries.values();
        let omitted = listed.clone().filter(|cached| cached.entry.now.is_omitted()).count() as u64;
        let changed = |path: &Vec<u8>, cached: &CachedEntry| {
            before.as_ref().is_none_or(|b| b.entries.get(path).is_none_or(|old| old.entry != cached.entry))
        };
        let new = cache.entries.iter().filter(|(path, cached)| changed(path, cached));
        let new = new.flat_map(|(_, cached)| [&cached.entry.now, &cached.entry.was]);
        let mut blobs: BTreeSet<BlobId> = new.filter_map(FileContent::blob).collect();
        blobs.insert(cache.manifest);
        blobs.extend(manifest.base);
        let snapshot = TakenSnapshot {
            manifest: cache.manifest,
            paths: cache.entries.len() as u64,
            omitted,
            is_complete,
            blobs: blobs.into_iter().collect(),
            root: cache.series.root(),
            notes,
        };
        Ok(Taken { snapshot, manifest: manifest.bytes, overdue, cache, cache_path: self.cache_path.clone() })
    }

    /// The cache and the manifest of a new snapshot. The manifest is `None` if nothing changed.
    fn next(
        &self,
        request: &SnapshotRequest<'_>,
        before: Option<&Cache>,
        mut entries: BTreeMap<Vec<u8>, CachedEntry>,
        taken_at: i64,
        overdue: u32,
        windows: Vec<ToolWindow>,
    ) -> Result<(Cache, NewManifest), String> {
        let head = request.capture.git.head.clone();
        let describe = |e: std::io::Error| format!("the manifest cannot be written: {e}");
        let first = || SeriesId { worktree: self.worktree.clone(), number: 1 };
        let mut series = before.map_or_else(first, |before| before.series.clone());
        let dirty: HashSet<&[u8]> = request.capture.changed.iter().map(|change| &change.path[..]).collect();
        let clean = entries.keys().filter(|path| !dirty.contains(&path[..])).count();
        let mut base = before.map(|before| (before.manifest, before.depth));
        if clean > MAX_CLEAN {
            series.number += 1;
            base = None;
            entries.retain(|path, _| dirty.contains(&path[..]));
        }
        let cache = |entries, series, manifest, depth| Cache {
            store: request.store.to_owned(),
            series,
            manifest,
            depth,
            head: head.clone(),
            taken_at,
            overdue,
            windows,
            entries,
        };
        if let (Some((base, depth)), Some(before)) = (base, before) {
            let changed = entries.iter().filter(|(path, cached)| {
                before.entries.get(*path).is_none_or(|old| old.entry != cached.entry)
            });
            let changed: Vec<_> = changed.map(|(path, cached)| (path, &cached.entry)).collect();
            // Paths leave the list only when a new series begins.
            let has_all = before.entries.keys().all(|path| entries.contains_key(path));
            if changed.is_empty() && before.head == head && has_all {
                let manifest = NewManifest { bytes: None, base: None };
                return Ok((cache(entries, series, base, depth), manifest));
            }
            if depth + 1 < MAX_DEPTH && has_all && changed.len() * 2 < entries.len().max(64) {
                let bytes =
                    manifest::encode(&series, head.as_ref(), Some((base, depth)), changed.into_iter())
                        .map_err(describe)?;
                let id = BlobId::of(&bytes);
                let manifest = NewManifest { bytes: Some(bytes), base: Some(base) };
                return Ok((cache(entries, series, id, depth + 1), manifest));
            }
        }
        let all = entries.iter().map(|(path, cached)| (path, &cached.entry));
        let bytes = manifest::encode(&series, head.as_ref(), None, all).map_err(describe)?;
        let id = BlobId::of(&bytes);
        Ok((cache(entries, series, id, 0), NewManifest { bytes: Some(bytes), base: None }))
    }
}

/// A snapshot whose manifest is not stored yet.
pub(crate) struct Taken {
    pub(crate) snapshot: TakenSnapshot,
    /// The new manifest; `None` if nothing changed since the previous snapshot.
    pub(crate) manifest: Option<Vec<u8>>,
    /// How many snapshots in a row did not examine every path.
    pub(crate) overdue: u32,
    cache: Cache,
    cache_path: PathBuf,
}

impl Taken {
    /// Writes the cache for the next snapshot. A failure costs time, not data.
    pub(crate) fn remember(&self) {
        let _ = self.cache.write(&self.cache_path);
    }

    /// The manifest with all its entries.
    pub(crate) fn full_manifest(&self) -> Manifest {
        let entries = self.cache.entries.iter().map(|(path, cached)| (path.clone(), cached.entry.clone()));
        Manifest {
            series: self.cache.series.clone(),
            head: self.cache.head.clone(),
            depth: self.cache.depth,
            entries: entries.collect(),
        }
    }
}

struct NewManifest {
    bytes: Option<Vec<u8>>,
    base: Option<BlobId>,
}

impl Cache {
    /// The cache of a manifest, without signatures.
    fn of_manifest(store: &str, id: BlobId, manifest: Manifest) -> Self {
        let entries = manifest.entries.into_iter();
        Self {
            store: store.to_owned(),
            series: manifest.series,
            manifest: id,
            depth: manifest.depth,
            head: manifest.head,
            taken_at: 0,
            overdue: 0,
            windows: Vec::new(),
            entries: entries.map(|(path, entry)| (path, CachedEntry { entry, signature: None })).collect(),
        }
    }
}

fn add_window(windows: &mut Vec<ToolWindow>, window: Option<&ToolWindow>) {
    windows.extend(window.cloned());
    windows.drain(..windows.len().saturating_sub(MAX_WINDOWS));
}

/// Says which files were omitted, and why.
fn describe_omitted(entries: &BTreeMap<Vec<u8>, CachedEntry>) -> Vec<String> {
    let omitted = entries.iter().filter_map(|(path, cached)| match &cached.entry.now {
        FileContent::Omitted { reason, .. } if reason != IGNORED => Some((path, reason)),
        _ => None,
    });
    let mut notes: Vec<_> = omitted
        .clone()
        .take(MAX_NOTES)
        .map(|(path, why)| format!("{}: {why}", String::from_utf8_lossy(path)))
        .collect();
    let rest = omitted.count().saturating_sub(MAX_NOTES);
    if rest > 0 {
        notes.push(format!("{rest} more files without content"));
    }
    notes
}

/// Why a path that git ignores is listed without content.
const IGNORED: &str = "git ignores it";
const NO_TIME: &str = "there was no time to read it";

/// Contents that were read and not stored yet.
#[derive(Default)]
struct Batch {
    contents: Vec<Vec<u8>>,
    bytes: usize,
}

/// The state of one snapshot.
struct Work<'a, 's> {
    request: &'a SnapshotRequest<'a>,
    before: Option<&'a Cache>,
    windows: &'a [ToolWindow],
    deadline: Instant,
    limits: FileLimits,
    /// Bytes of contents that this snapshot adds.
    added_bytes: u64,
    batch: Batch,
    sink: &'a mut ContentSink<'s>,
    /// Contents that could not be stored, and why.
    refused: HashMap<BlobId, String>,
    /// Folders, and whether a symbolic link leads to them.
    folders_behind_link: HashMap<Vec<u8>, bool>,
    is_complete: bool,
    notes: Vec<String>,
}

/// What git says about a path.
#[derive(Default)]
struct PathFacts<'a> {
    /// The entry of `git status`; `None` if the path is equal to the current commit or ignored.
    changed: Option<&'a ChangedPath>,
    /// The change of the path between the commit of the previous snapshot and the current one.
    moved: Option<&'a MovedPath>,
}

impl<'a> Work<'a, '_> {
    /// Lists every path that has changed since the series began.
    fn list_entries(&mut self) -> BTreeMap<Vec<u8>, CachedEntry> {
        let moved = self.moved_paths();
        let paths = self.paths_to_list(&moved);
        let mut entries = BTreeMap::new();
        let mut new = Vec::new();
        for (path, facts) in &paths {
            let old = self.before.and_then(|before| before.entries.get(*path));
            let (now, signature) = self.content_now(path, facts, old);
            let is_tracked = facts.changed.map_or_else(
                || facts.moved.map_or(old.is_some_and(|old| old.entry.is_tracked), |m| m.after.is_some()),
                |changed| changed.is_tracked,
            );
            let change = self.attribute(path, &now, signature.as_ref(), old);
            let was = match old {
                Some(old) => old.entry.was.clone(),
                None => {
                    new.push((*path).to_vec());
                    FileContent::omitted("it was not seen before", None)
                }
            };
            let entry = ManifestEntry { now, was, change, is_tracked };
            entries.insert((*path).to_vec(), CachedEntry { entry, signature });
        }
        if self.before.is_some() {
            self.add_previous_contents(&new, &paths, &mut entries);
        }
        entries
    }

    /// The paths to list, with what git says about them.
    fn paths_to_list<'p>(&mut self, moved: &'p [MovedPath]) -> BTreeMap<&'p [u8], PathFacts<'p>>
    where
        'a: 'p,
    {
        let request = self.request;
        let mut paths: BTreeMap<&[u8], PathFacts<'_>> = BTreeMap::new();
        let known = self.before.iter().flat_map(|before| before.entries.keys());
        paths.extend(known.map(|path| (&path[..], PathFacts::default())));
        for change in moved {
            paths.entry(&change.path).or_default().moved = Some(change);
        }
        let (tracked, untracked): (Vec<_>, Vec<_>) =
            request.capture.changed.iter().partition(|change| change.is_tracked);
        let mut left_out = 0_usize;
        for change in tracked.into_iter().chain(untracked) {
            if !manifest::is_inside(change.path.strip_suffix(b"/").unwrap_or(&change.path)) {
                continue;
            }
            if paths.len() >= self.limits.paths && !paths.contains_key(&change.path[..]) {
                left_out += 1;
                continue;
            }
            paths.entry(&change.path).or_default().changed = Some(change);
        }
        if request.repository.is_none() {
            for path in outside_git(request) {
                if paths.len() < self.limits.paths {
                    paths.entry(path).or_default();
                } else {
                    left_out += 1;
                }
            }
        }
        if left_out > 0 {
            let limit = self.limits.paths;
            self.notes.push(format!("files: {left_out} paths over the limit of {limit}"));
        }
        paths
    }

    /// The paths that differ between the commit of the previous snapshot and the current one.
    fn moved_paths(&mut self) -> Vec<MovedPath> {
        let from = self.before.and_then(|before| before.head.as_deref());
        let to = self.request.capture.git.head.as_deref();
        let (Some(from), Some(to)) = (from, to) else { return Vec::new() };
        if from == to || !is_object_name(from) || !is_object_name(to) {
            return Vec::new();
        }
        match self.git().and_then(|git| {
            committed::changed_between(&git, from, to, self.deadline).map_err(|e| e.to_string())
        }) {
            Ok(moved) if moved.len() <= MAX_MOVED => moved,
            Ok(moved) => {
                self.notes.push(format!(
                    "files: {} files changed with the commit; their contents are only in git",
                    moved.len()
                ));
                // Paths that are already listed must not keep a content from before.
                let before = self.before;
                let is_listed =
                    |path: &Vec<u8>| before.is_some_and(|before| before.entries.contains_key(path));
                moved.into_iter().filter(|moved| is_listed(&moved.path)).collect()
            }
            Err(why) => {
                self.notes.push(format!("files: what the new commit changed is not known: {why}"));
                Vec::new()
            }
        }
    }

    fn git(&self) -> Result<Git, String> {
        let repository = self.request.repository.ok_or("not a git repository")?;
        Git::new(repository, self.deadline).map_err(|e| e.to_string())
    }

    /// The content of a path now, and its signature if the content will be known without reading it again.
    fn content_now(
        &mut self,
        path: &[u8],
        facts: &PathFacts<'_>,
        old: Option<&CachedEntry>,
    ) -> (FileContent, Option<Signature>) {
        if path.ends_with(b"/") {
            return (FileContent::omitted("it is a repository of its own", None), None);
        }
        if let Some(submodule) = self.submodule(path, facts, old) {
            return (submodule, None);
        }
        let full = self.request.root.join(file::path_of(path));
        let examined = if self.is_behind_link(path) { Examined::Absent } else { file::examine(&full) };
        let signature = match examined {
            Examined::Absent => {
                let is_sparse =
                    facts.changed.is_none() && facts.moved.is_some_and(|moved| moved.after.is_some());
                let content =
                    if is_sparse { FileContent::omitted(NOT_CHECKED_OUT, None) } else { FileContent::Absent };
                return (content, None);
            }
            Examined::Special(content) => return (content, None),
            Examined::Regular(signature) => signature,
        };
        let is_ignored = self.request.repository.is_some()
            && facts.changed.is_none()
            && facts.moved.is_none_or(|moved| moved.after.is_none())
            && old.is_some_and(|old| !old.entry.is_tracked);
        if is_ignored {
            return (FileContent::omitted(IGNORED, None), None);
        }
        if let Some(old) = old.filter(|old| old.signature == Some(signature)) {
            return (old.entry.now.clone(), Some(signature));
        }
        self.read_file(path, &full)
    }

    /// Whether a path leads elsewhere. Paths in the same folder give the same answer.
    fn is_behind_link(&mut self, path: &[u8]) -> bool {
        let folder = path.iter().rposition(|byte| *byte == b'/').map_or(&path[..0], |end| &path[..end]);
        if let Some(known) = self.folders_behind_link.get(folder) {
            return *known;
        }
        let is_behind = file::is_behind_link(self.request.root, path);
        self.folders_behind_link.insert(folder.to_vec(), is_behind);
        is_behind
    }

    fn read_file(&mut self, path: &[u8], full: &Path) -> (FileContent, Option<Signature>) {
        if file::may_hold_secrets(path) {
            return (FileContent::omitted(SECRET_REASON, None), None);
        }
        if Instant::now() >= self.deadline {
            self.is_complete = false;
            return (FileContent::omitted(NO_TIME, None), None);
        }
        let read = match file::read(full, self.limits.file) {
            Ok(read) => read,
            Err(omitted) => return (omitted, None),
        };
        if let Err(omitted) = self.add(read.bytes) {
            return (omitted, None);
        }
        let now = self.request.now.saturating_mul(1_000_000);
        let signature = (!read.signature.is_recent(now)).then_some(read.signature);
        (read.content, signature)
    }

    /// Adds a content to the batch.
    fn add(&mut self, bytes: Vec<u8>) -> Result<(), FileContent> {
        let size = bytes.len() as u64;
        if self.added_bytes.saturating_add(size) > self.limits.snapshot {
            let limit = crate::fs::bounded::format_limit(self.limits.snapshot);
            return Err(FileContent::omitted(format!("the snapshot is larger than {limit}"), Some(size)));
        }
        self.added_bytes += size;
        self.batch.bytes += bytes.len();
        self.batch.contents.push(bytes);
        if self.batch.bytes >= BATCH {
            self.flush();
        }
        Ok(())
    }

    /// Stores the contents of the batch. If that fails, their files are listed without content.
    fn flush(&mut self) {
        let batch = std::mem::take(&mut self.batch);
        if batch.contents.is_empty() {
            return;
        }
        let contents: Vec<&[u8]> = batch.contents.iter().map(Vec::as_slice).collect();
        if let Err(why) = (self.sink)(&contents) {
            self.refused.extend(contents.iter().map(|bytes| (BlobId::of(bytes), why.clone())));
        }
    }

    /// The commit of a submodule; `None` if the path is not one.
    fn submodule(
        &self,
        path: &[u8],
        facts: &PathFacts<'_>,
        old: Option<&CachedEntry>,
    ) -> Option<FileContent> {
        const SUBMODULE: &str = "160000";
        let is_submodule = |object: Option<&GitObject>| object.is_some_and(|object| object.mode == SUBMODULE);
        let committed = facts.changed.and_then(|changed| changed.committed.as_ref());
        let moved = facts.moved.and_then(|moved| moved.after.as_ref());
        let was_one = old.is_some_and(|old| matches!(old.entry.now, FileContent::Submodule { .. }));
        if !is_submodule(committed) && !is_submodule(moved) && !was_one {
            return None;
        }
        let checked_out = Repository::at(&self.request.root.join(file::path_of(path)));
        let commit = checked_out.and_then(|repository| repository.head_commit());
        let commit = commit.or_else(|| moved.or(committed).map(|object| object.name.clone()));
        commit.map(|commit| FileContent::Submodule { commit })
    }

    /// Who made the last change of a path.
    fn attribute(
        &self,
        path: &[u8],
        now: &FileContent,
        signature: Option<&Signature>,
        old: Option<&CachedEntry>,
    ) -> LastChange {
        if let Some(old) = old.filter(|old| old.entry.now == *now) {
            return old.entry.change.clone();
        }
        let previous = old.map(|old| &old.entry.change);
        let by = self.author(path, now, signature);
        let others_until = match (&by, previous) {
            (Some(run), Some(previous)) if previous.by.as_ref() == Some(run) => previous.others_until,
            (_, Some(previous)) => previous.at,
            (_, None) => 0,
        };
        LastChange { at: self.request.now, by, others_until }
    }

    /// The run whose tool changed a path: it reported this content, or the path changed while its tool ran.
    fn author(&self, path: &[u8], now: &FileContent, signature: Option<&Signature>) -> Option<RunId> {
        let reported = &self.request.reported;
        let is_reported = |(reported, blob): &(Vec<u8>, Option<BlobId>)| {
            reported == path && (blob.is_some() && *blob == now.blob())
        };
        if let (Some(run), true) = (self.request.run, reported.iter().any(is_reported)) {
            return Some(run.clone());
        }
        let full = self.request.root.join(file::path_of(path));
        let changed_at =
            signature.map(Signature::changed_ms).or_else(|| last_change(&full, self.request.root))?;
        // A file system's clock may be coarser than the system's.
        const SLACK: i64 = 20;
        let during = |window: &&ToolWindow| {
            (window.from.saturating_sub(SLACK)..=window.to.saturating_add(SLACK)).contains(&changed_at)
        };
        self.windows.iter().rev().find(during).map(|window| window.run.clone())
    }

    /// Adds the contents that newly listed paths had before: in the commit of the previous snapshot.
    fn add_previous_contents(
        &mut self,
        new: &[Vec<u8>],
        paths: &BTreeMap<&[u8], PathFacts<'_>>,
        entries: &mut BTreeMap<Vec<u8>, CachedEntry>,
    ) {
        let taken_at = self.before.map_or(0, |before| before.taken_at);
        let mut wanted = Vec::new();
        for path in new {
            let (Some(facts), Some(cached)) = (paths.get(&path[..]), entries.get_mut(path)) else { continue };
            let committed = match (facts.moved, facts.changed) {
                (Some(moved), _) => moved.before.as_ref(),
                (None, Some(changed)) => changed.committed.as_ref(),
                (None, None) => None,
            };
            let is_sparse = cached.entry.now == FileContent::omitted(NOT_CHECKED_OUT, None);
            cached.entry.was = match committed {
                _ if is_sparse => cached.entry.now.clone(),
                Some(object) => {
                    wanted.push(Wanted { path: path.clone(), object: object.clone() });
                    continue;
                }
                // It did not change since the previous snapshot, so it was ignored until now.
                None if cached.signature.is_some_and(|signature| signature.changed_ms() < taken_at) => {
                    cached.entry.now.clone()
                }
                None if self.request.repository.is_some() => FileContent::Absent,
                None if is_watched(self.request, path) => FileContent::Absent,
                None => continue,
            };
        }
        if wanted.is_empty() {
            return;
        }
        let contents = match self.git() {
            Ok(git) => committed::read(&git, &wanted, self.limits.file, self.deadline),
            Err(why) => {
                let omitted = FileContent::omitted(why, None);
                wanted.iter().map(|_| (omitted.clone(), Vec::new())).collect()
            }
        };
        for (file, (content, bytes)) in wanted.into_iter().zip(contents) {
            let content = match (&content, content.blob().is_some()) {
                (_, true) => self.add(bytes).err().unwrap_or(content),
                (_, false) => content,
            };
            if let Some(cached) = entries.get_mut(&file.path) {
                cached.entry.was = content;
            }
        }
    }
}

/// Why a path that is in the commit, but not in a sparse worktree, has no content.
const NOT_CHECKED_OUT: &str = "it is not checked out";

/// When a path, or the folder that it was deleted from, last changed.
fn last_change(path: &Path, root: &Path) -> Option<i64> {
    let inside = path.ancestors().take_while(|at| at.starts_with(root));
    let about = inside.into_iter().find_map(|at| std::fs::symlink_metadata(at).ok())?;
    Some(Signature::of(&about).changed_ms())
}

/// The files that are part of the work outside git: those in watched folders, and those that agents reported.
fn outside_git<'a>(request: &'a SnapshotRequest<'_>) -> Vec<&'a [u8]> {
    let watched = request.capture.watched.files.iter().filter_map(|path| match path {
        PathText::Text(text) => Some(text.as_bytes()),
        PathText::Bytes { .. } => None,
    });
    let reported = request.reported.iter().map(|(path, _)| &path[..]);
    watched.chain(reported).filter(|path| manifest::is_inside(path)).collect()
}

fn is_watched(request: &SnapshotRequest<'_>, path: &[u8]) -> bool {
    let is_path = |watched: &PathText| matches!(watched, PathText::Text(text) if text.as_bytes() == path);
    request.capture.watched.files.iter().any(is_path)
}
