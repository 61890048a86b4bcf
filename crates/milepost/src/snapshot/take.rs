//! Takes a snapshot: holds the worktree's lock, compares the listed paths with the previous snapshot, and returns
//! the manifest and what a commit must refer to. Takes a capture; contents go to a sink.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::cache::{Cache, CachedEntry, ToolWindow, note_window, noted_windows};
use super::entries::{EntryLister, IGNORED, ListedEntries};
use super::manifest::{self, FileContent, MAX_DEPTH, Manifest, SeriesId};
use crate::capture::{SnapshotOptions, TakenSnapshot, WorkspaceCapture};
use crate::fs::atomic;
use crate::model::{BlobId, RunId};
use crate::store::Repository;

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

impl SnapshotRequest<'_> {
    /// Whether there are no files to list: outside of git, if no folder is watched and no file was reported.
    pub(crate) fn covers_nothing(&self) -> bool {
        self.repository.is_none() && self.capture.watched.files.is_empty() && self.reported.is_empty()
    }
}

/// Takes snapshots of one worktree, one process at a time.
pub(crate) struct Snapshotter {
    cache_path: PathBuf,
    worktree: String,
    _lock: Option<std::fs::File>,
}

impl Snapshotter {
    /// Waits for the lock until the deadline. Returns the reason if it cannot be acquired.
    pub(crate) fn open(request: &SnapshotRequest<'_>, deadline: Instant) -> Result<Self, String> {
        let folder = super::worktree_folder(request.root, request.repository, request.store);
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
        Ok(Self { _lock: Some(lock), ..Self::read_only(request) })
    }

    /// Examines the worktree without a lock, for a caller that stores nothing. A cache that another process
    /// replaces in the meantime is read completely, before or after.
    pub(crate) fn read_only(request: &SnapshotRequest<'_>) -> Self {
        let folder = super::worktree_folder(request.root, request.repository, request.store);
        let store = blake3::hash(request.store.as_bytes()).to_hex();
        let cache_path = folder.join(format!("snapshot-{}.cache", &store[..16]));
        Self { worktree: super::worktree_key(request.root), cache_path, _lock: None }
    }

    /// Notes that a tool ran while another process took a snapshot.
    pub(crate) fn note_window(&self, window: &ToolWindow) {
        note_window(&self.cache_path, window);
    }

    /// Notes that a tool ran while no snapshot could be taken, so that its changes are attributed later.
    /// Returns how many snapshots in a row are overdue.
    pub(crate) fn note_overdue(&self, store: &str, window: Option<&ToolWindow>) -> u32 {
        // Without a cache there is no snapshot yet, and the next try would not take less time.
        let Some(mut cache) = Cache::read(&self.cache_path, store) else { return 2 };
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
        previous: impl FnOnce(&str) -> Result<PreviousManifest, String>,
        sink: &mut ContentSink<'_>,
    ) -> Result<Taken, String> {
        let cached = Cache::read(&self.cache_path, request.store).filter(|_| !request.options.ignore_cache);
        let mut number = 1;
        let before = match cached {
            Some(cached) => Some(cached),
            None => match previous(&self.worktree)? {
                PreviousManifest::None => None,
                PreviousManifest::Loaded(id, manifest) => {
                    Some(Cache::of_manifest(request.store, id, manifest))
                }
                PreviousManifest::Unreadable { series } => {
                    number = series + 1;
                    None
                }
            },
        };
        let mut windows = before.as_ref().map(|before| before.windows.clone()).unwrap_or_default();
        let (noted, noted_files) = noted_windows(&self.cache_path);
        noted.iter().chain(&request.window).for_each(|window| add_window(&mut windows, Some(window)));
        let deadline = request.options.stop_at();
        let lister = EntryLister::new(request, before.as_ref(), &windows, deadline, sink);
        let ListedEntries { entries, is_complete, keeps_head, begins_series, left_out, mut notes } =
            lister.list();
        notes.extend(describe_omitted(&entries));
        let taken_at = request.now;
        let overdue =
            if is_complete { 0 } else { before.as_ref().map_or(0, |b| b.overdue).saturating_add(1) };
        if is_complete {
            windows.clear();
        }
        let first = SeriesId { worktree: self.worktree.clone(), number };
        let (mut cache, manifest) =
            self.next(request, before.as_ref(), entries, first, begins_series, (taken_at, overdue, windows))?;
        cache.left_out = left_out;
        if keeps_head {
            // The next snapshot asks git again what the commit changed.
            cache.head = before.as_ref().and_then(|before| before.head.clone());
        }
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
            cache: self.cache_path.clone(),
        };
        let cache_path = self.cache_path.clone();
        Ok(Taken { snapshot, manifest: manifest.bytes, overdue, cache, cache_path, noted_files })
    }

    /// The cache and the manifest of a new snapshot. The manifest is `None` if nothing changed.
    fn next(
        &self,
        request: &SnapshotRequest<'_>,
        before: Option<&Cache>,
        mut entries: BTreeMap<Vec<u8>, CachedEntry>,
        first: SeriesId,
        begins_series: bool,
        (taken_at, overdue, windows): (i64, u32, Vec<ToolWindow>),
    ) -> Result<(Cache, NewManifest), String> {
        let head = request.capture.git.head.clone();
        let describe = |e: std::io::Error| format!("the manifest cannot be written: {e}");
        let mut series = before.map_or(first, |before| before.series.clone());
        let mut base = before.map(|before| (before.manifest, before.depth));
        let is_unchanged = |path: &Vec<u8>, cached: &CachedEntry| {
            before.is_some_and(|b| b.entries.get(path).is_some_and(|old| old.entry == cached.entry))
        };
        let dirty: HashSet<&[u8]> = request.capture.changed.iter().map(|change| &change.path[..]).collect();
        let is_clean = |path: &Vec<u8>| request.repository.is_some() && !dirty.contains(&path[..]);
        let clean = entries.keys().filter(|path| is_clean(path)).count();
        if before.is_some() && (begins_series || clean > MAX_CLEAN) {
            series.number += 1;
            base = None;
            entries.retain(|path, cached| !is_clean(path) || !is_unchanged(path, cached));
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
            left_out: false,
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

/// The newest manifest of a worktree.
pub(crate) enum PreviousManifest {
    /// There is no snapshot yet.
    None,
    /// The manifest that the next snapshot continues.
    Loaded(BlobId, Manifest),
    /// It is missing or damaged.
    Unreadable {
        /// The number of its series.
        series: u64,
    },
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
    /// Files with windows that the cache contains now.
    noted_files: Vec<PathBuf>,
}

impl Taken {
    /// Writes the cache for the next snapshot. A failure costs time, not data.
    pub(crate) fn remember(&self) {
        if self.cache.write(&self.cache_path).is_ok() {
            self.noted_files.iter().for_each(|file| drop(std::fs::remove_file(file)));
        }
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
            left_out: false,
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
