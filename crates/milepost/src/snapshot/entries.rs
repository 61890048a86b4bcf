//! Lists the paths of a snapshot: decides which paths to list, reads the files whose content is not known, and
//! reads from git what a path contained before it changed for the first time. Takes a capture and the previous
//! snapshot; contents go to a sink.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use super::attribution;
use super::cache::{Cache, CachedEntry, ToolWindow};
use super::committed::{self, MovedPath};
use super::file::{self, ReadFile};
use super::inspect::{self, CurrentContent, Inspected, PathToInspect, ReadLimits, WorktreeRoot};
use super::manifest::{self, FileContent, ManifestEntry};
use super::take::{ContentSink, SnapshotRequest};
use crate::capture::{ChangedPath, EMPTY_TREE_IDS, FileLimits, GitObject};
use crate::git::{Git, is_object_name};
use crate::model::{BlobId, PathText};
use crate::parallel;
use crate::store::Repository;

/// Contents are passed to the sink when this many bytes have been read.
const BATCH: usize = 8 << 20;
/// Maximum number of paths that a change of the commit adds to the list. If more paths changed, git alone
/// keeps their new content.
const MAX_MOVED: usize = 2_000;

/// Why a path that git ignores is listed without content.
pub(super) const IGNORED: &str = "git ignores it";
pub(super) const NO_TIME: &str = "there was no time to read it";

/// Contents that were read and not stored yet.
#[derive(Default)]
struct Batch {
    contents: Vec<Vec<u8>>,
    bytes: usize,
}

/// Lists the paths of one snapshot, with their contents.
pub(super) struct EntryLister<'a, 's> {
    pub(super) request: &'a SnapshotRequest<'a>,
    pub(super) before: Option<&'a Cache>,
    windows: &'a [ToolWindow],
    pub(super) deadline: Instant,
    pub(super) limits: FileLimits,
    /// Bytes of contents that this snapshot adds.
    added_bytes: u64,
    batch: Batch,
    sink: &'a mut ContentSink<'s>,
    /// Contents that could not be stored, and why.
    refused: HashMap<BlobId, String>,
    is_complete: bool,
    keeps_head: bool,
    begins_series: bool,
    left_out: bool,
    notes: Vec<String>,
}

/// The listed paths.
pub(super) struct ListedEntries {
    pub(super) entries: BTreeMap<Vec<u8>, CachedEntry>,
    /// Whether every path was examined before the deadline.
    pub(super) is_complete: bool,
    /// Whether it is not known what the new commit changed, so that the next snapshot has to ask again.
    pub(super) keeps_head: bool,
    /// Whether the commit changed more paths than a series can list.
    pub(super) begins_series: bool,
    /// Whether paths were left out because of a limit.
    pub(super) left_out: bool,
    /// What was left out, for the user.
    pub(super) notes: Vec<String>,
}

/// What git says about a path.
#[derive(Default)]
pub(super) struct PathFacts<'a> {
    /// The entry of `git status`; `None` if the path is equal to the current commit or ignored.
    pub(super) changed: Option<&'a ChangedPath>,
    /// The change of the path between the commit of the previous snapshot and the current one.
    pub(super) moved: Option<&'a MovedPath>,
}

impl<'a, 's> EntryLister<'a, 's> {
    pub(super) fn new(
        request: &'a SnapshotRequest<'a>,
        before: Option<&'a Cache>,
        windows: &'a [ToolWindow],
        deadline: Instant,
        sink: &'a mut ContentSink<'s>,
    ) -> Self {
        Self {
            request,
            before,
            windows,
            deadline,
            limits: request.options.limits,
            added_bytes: 0,
            batch: Batch::default(),
            sink,
            refused: HashMap::new(),
            is_complete: true,
            keeps_head: false,
            begins_series: false,
            left_out: false,
            notes: Vec::new(),
        }
    }

    /// Lists every path that has changed since the series began, and stores the contents that are new.
    pub(super) fn list(mut self) -> ListedEntries {
        let mut entries = self.list_entries();
        self.flush();
        for cached in entries.values_mut() {
            for content in [&mut cached.entry.now, &mut cached.entry.was] {
                if let Some(reason) = content.blob().and_then(|blob| self.refused.get(&blob)) {
                    *content = FileContent::omitted(reason.clone(), None);
                    cached.signature = None;
                }
            }
        }
        ListedEntries {
            entries,
            is_complete: self.is_complete,
            keeps_head: self.keeps_head,
            begins_series: self.begins_series,
            left_out: self.left_out,
            notes: self.notes,
        }
    }

    fn list_entries(&mut self) -> BTreeMap<Vec<u8>, CachedEntry> {
        let moved = self.moved_paths();
        let paths = self.paths_to_list(&moved);
        let not_checked_out = self.not_checked_out(&paths);
        let before = self.before;
        let known = |path: &[u8]| before.and_then(|before| before.entries.get(path));
        let mut contents: BTreeMap<&[u8], CurrentContent> = BTreeMap::new();
        let mut to_inspect = Vec::new();
        for (path, facts) in &paths {
            let old = known(path);
            match self.known_content(path, facts, old) {
                Some(now) => drop(contents.insert(path, CurrentContent::new(now))),
                None => to_inspect.push(PathToInspect {
                    path,
                    known: old.and_then(|old| Some((old.signature?, &old.entry.now))),
                    is_ignored: self.is_ignored(facts, old),
                    is_sparse: is_sparse(facts, old) || not_checked_out.contains(*path),
                }),
            }
        }
        self.inspect_all(to_inspect, &mut contents);
        let mut entries = BTreeMap::new();
        let mut new = Vec::new();
        for (path, content) in contents {
            let (facts, old) = (&paths[path], known(path));
            let is_tracked = facts.changed.map_or_else(
                || facts.moved.map_or(old.is_some_and(|old| old.entry.is_tracked), |m| m.after.is_some()),
                |changed| changed.is_tracked,
            );
            let change = attribution::last_change(self.request, self.windows, path, &content, old);
            let was = match old {
                Some(old) => old.entry.was.clone(),
                None => {
                    new.push(path.to_vec());
                    FileContent::omitted("it was not seen before", None)
                }
            };
            let CurrentContent { now, signature, .. } = content;
            let entry = ManifestEntry { now, was, change, is_tracked };
            entries.insert(path.to_vec(), CachedEntry { entry, signature });
        }
        // At the beginning of a series, git alone knows what other paths contained in earlier snapshots.
        if self.before.is_some() && !self.begins_series {
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
        let is_known = |path: &[u8]| self.before.is_some_and(|before| before.entries.contains_key(path));
        let (known, new): (Vec<_>, Vec<_>) = untracked.into_iter().partition(|change| is_known(&change.path));
        let room = self.limits.untracked.saturating_sub(known.len()).min(new.len());
        left_out += new.len() - room;
        for change in tracked.into_iter().chain(known).chain(new.into_iter().take(room)) {
            if !manifest::is_inside(change.path.strip_suffix(b"/").unwrap_or(&change.path)) {
                continue;
            }
            if paths.len() >= self.limits.paths && !paths.contains_key(&change.path[..]) {
                left_out += 1;
                continue;
            }
            let facts = paths.entry(&change.path).or_default();
            // A path that was removed from the index alone is reported twice: as deleted and as untracked.
            if facts.changed.is_none_or(|known| known.committed.is_none()) {
                facts.changed = Some(change);
            }
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
        self.left_out = left_out > 0;
        if left_out > 0 {
            let FileLimits { paths, untracked, .. } = self.limits;
            self.notes.push(format!(
                "files: {left_out} paths over the limits of {paths} paths, {untracked} of them untracked"
            ));
        }
        paths
    }

    /// The paths that differ between the commit of the previous snapshot and the current one.
    fn moved_paths(&mut self) -> Vec<MovedPath> {
        let Some(before) = self.before else { return Vec::new() };
        let Some(to) = self.request.capture.git.head.as_deref() else { return Vec::new() };
        // Before the first commit of a repository, nothing was committed.
        let from = before.head.as_deref().unwrap_or(empty_tree(to));
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
                self.begins_series = true;
                // Paths that are already listed must not keep a content from before.
                let is_listed = |path: &Vec<u8>| before.entries.contains_key(path);
                moved.into_iter().filter(|moved| is_listed(&moved.path)).collect()
            }
            Err(why) => {
                self.notes.push(format!("files: what the new commit changed is not known: {why}"));
                self.keeps_head = true;
                self.is_complete = false;
                Vec::new()
            }
        }
    }

    pub(super) fn git(&self) -> Result<Git, String> {
        let repository = self.request.repository.ok_or("not a git repository")?;
        Git::new(repository, self.deadline).map_err(|e| e.to_string())
    }

    /// The content of a path that is known without looking at its file.
    fn known_content(
        &self,
        path: &[u8],
        facts: &PathFacts<'_>,
        old: Option<&CachedEntry>,
    ) -> Option<FileContent> {
        if path.ends_with(b"/") {
            return Some(FileContent::omitted("it is a repository of its own", None));
        }
        self.submodule(path, facts, old)
    }

    /// The tracked paths that were listed before, and that are missing because the worktree became sparse. Git
    /// does not report them as deleted.
    fn not_checked_out(&mut self, paths: &BTreeMap<&[u8], PathFacts<'_>>) -> BTreeSet<Vec<u8>> {
        let (Some(before), Some(repository)) = (self.before, self.request.repository) else {
            return BTreeSet::new();
        };
        if !repository.git_dir().join("info/sparse-checkout").exists() {
            return BTreeSet::new();
        }
        let is_missing =
            |path: &[u8]| std::fs::symlink_metadata(self.request.root.join(file::path_of(path))).is_err();
        let was_present = |path: &[u8]| {
            let old = before.entries.get(path);
            old.is_some_and(|old| old.entry.is_tracked && !is_not_checked_out(&old.entry.now))
        };
        let unreported = paths.iter().filter(|(_, facts)| facts.changed.is_none() && facts.moved.is_none());
        let missing = unreported.map(|(path, _)| *path).filter(|path| was_present(path) && is_missing(path));
        let missing: Vec<&[u8]> = missing.collect();
        if missing.is_empty() {
            return BTreeSet::new();
        }
        let asked = self.git().and_then(|git| {
            committed::not_checked_out(&git, &missing, self.deadline).map_err(|e| e.to_string())
        });
        asked.unwrap_or_else(|why| {
            self.notes.push(format!("files: which files are checked out is not known: {why}"));
            self.is_complete = false;
            missing.into_iter().map(<[u8]>::to_vec).collect()
        })
    }

    /// Whether git ignores an untracked path that was listed before.
    fn is_ignored(&self, facts: &PathFacts<'_>, old: Option<&CachedEntry>) -> bool {
        self.request.repository.is_some()
            && !self.keeps_head
            && !self.begins_series
            && facts.changed.is_none()
            && facts.moved.is_none_or(|moved| moved.after.is_none())
            && old.is_some_and(|old| !old.entry.is_tracked)
    }

    /// Inspects files, several at a time, and adds the contents that were read to the batch.
    fn inspect_all<'p>(
        &mut self,
        mut paths: Vec<PathToInspect<'p>>,
        contents: &mut BTreeMap<&'p [u8], CurrentContent>,
    ) {
        let root = WorktreeRoot::open(self.request.root);
        while !paths.is_empty() {
            let limits = ReadLimits {
                file: self.limits.file,
                snapshot: self.limits.snapshot,
                room: self.limits.snapshot.saturating_sub(self.added_bytes),
                batch: AtomicU64::new(BATCH as u64),
                deadline: self.deadline,
            };
            let inspected = parallel::map(&paths, |path| path.inspect(&root, &limits));
            let mut later = Vec::new();
            for (path, inspected) in paths.into_iter().zip(inspected) {
                let content = match inspected {
                    Inspected::Known(content) => content,
                    Inspected::Read(read) => self.add_read(read),
                    Inspected::NoTime => {
                        self.is_complete = false;
                        CurrentContent::new(FileContent::omitted(NO_TIME, None))
                    }
                    Inspected::BatchIsFull => {
                        later.push(path);
                        continue;
                    }
                };
                contents.insert(path.path, content);
            }
            paths = later;
        }
    }

    /// Adds a file that was read to the batch.
    fn add_read(&mut self, read: ReadFile) -> CurrentContent {
        let changed_at = Some(read.signature.changed_ms());
        if let Err(now) = self.add(read.bytes) {
            return CurrentContent { now, signature: None, changed_at };
        }
        let time = self.request.now.saturating_mul(1_000_000);
        let signature = (!read.signature.is_recent(time)).then_some(read.signature);
        CurrentContent { now: read.content, signature, changed_at }
    }

    /// Adds a content to the batch.
    pub(super) fn add(&mut self, bytes: Vec<u8>) -> Result<(), FileContent> {
        let size = bytes.len() as u64;
        if self.added_bytes.saturating_add(size) > self.limits.snapshot {
            return Err(inspect::over_snapshot_limit(self.limits.snapshot, size));
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
}

/// Why a path that is in the commit, but not in a sparse worktree, has no content.
const NOT_CHECKED_OUT: &str = "it is not checked out";

/// Whether a path is in the commit, but not in a sparse worktree.
pub(crate) fn is_not_checked_out(content: &FileContent) -> bool {
    matches!(content, FileContent::Omitted { reason, .. } if reason == NOT_CHECKED_OUT)
}

/// Whether a path that does not exist is in the commit, but not in a sparse worktree.
fn is_sparse(facts: &PathFacts<'_>, old: Option<&CachedEntry>) -> bool {
    let was_sparse = old.is_some_and(|old| is_not_checked_out(&old.entry.now));
    facts.changed.is_none() && facts.moved.map_or(was_sparse, |moved| moved.after.is_some())
}

/// The content of a path that does not exist.
pub(super) fn absent(is_sparse: bool) -> FileContent {
    if is_sparse { FileContent::omitted(NOT_CHECKED_OUT, None) } else { FileContent::Absent }
}

/// The name of the empty tree, in the format of an object name of this repository.
fn empty_tree(head: &str) -> &'static str {
    EMPTY_TREE_IDS[usize::from(head.len() > 40)]
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
