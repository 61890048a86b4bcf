//! Lists the paths of a snapshot: decides which paths to list, reads the files whose content is not known, reads
//! from git what a path contained before it changed for the first time, and attributes each change to a run or to
//! someone else. Takes a capture and the previous snapshot; contents go to a sink.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::time::Instant;

use super::SECRET_REASON;
use super::cache::{Cache, CachedEntry, ToolWindow};
use super::committed::{self, MovedPath, Wanted};
use super::file::{self, Examined, Signature};
use super::manifest::{self, FileContent, LastChange, ManifestEntry};
use super::take::{ContentSink, SnapshotRequest};
use crate::capture::{ChangedPath, EMPTY_TREE_IDS, FileLimits, GitObject};
use crate::git::{Git, is_object_name};
use crate::model::{BlobId, PathText, RunId};
use crate::store::Repository;

/// Contents are passed to the sink when this many bytes have been read.
const BATCH: usize = 8 << 20;
/// Maximum number of paths that a change of the commit adds to the list. If more paths changed, git alone
/// keeps their new content.
const MAX_MOVED: usize = 2_000;

/// Why a path that git ignores is listed without content.
pub(super) const IGNORED: &str = "git ignores it";
const NO_TIME: &str = "there was no time to read it";

/// Contents that were read and not stored yet.
#[derive(Default)]
struct Batch {
    contents: Vec<Vec<u8>>,
    bytes: usize,
}

/// Lists the paths of one snapshot, with their contents.
pub(super) struct EntryLister<'a, 's> {
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
struct PathFacts<'a> {
    /// The entry of `git status`; `None` if the path is equal to the current commit or ignored.
    changed: Option<&'a ChangedPath>,
    /// The change of the path between the commit of the previous snapshot and the current one.
    moved: Option<&'a MovedPath>,
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
            folders_behind_link: HashMap::new(),
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
                let was_sparse = old.is_some_and(|old| is_not_checked_out(&old.entry.now));
                let is_sparse =
                    facts.changed.is_none() && facts.moved.map_or(was_sparse, |moved| moved.after.is_some());
                let content =
                    if is_sparse { FileContent::omitted(NOT_CHECKED_OUT, None) } else { FileContent::Absent };
                return (content, None);
            }
            Examined::Special(content) => return (content, None),
            Examined::Regular(signature) => signature,
        };
        let is_ignored = self.request.repository.is_some()
            && !self.keeps_head
            && !self.begins_series
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
        let is_unread = matches!(now, FileContent::Omitted { reason, .. } if reason == NO_TIME);
        if let Some(old) = old.filter(|old| old.entry.now == *now || is_unread) {
            return old.entry.change.clone();
        }
        let by = self.author(path, now, signature);
        LastChange::after(old.map(|old| &old.entry.change), self.request.now, by)
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

    /// Whether an untracked file was created after the previous snapshot, as far as the file system knows. A file
    /// that is older was ignored or left out then.
    fn is_new(&self, path: &[u8]) -> bool {
        const SLACK: i64 = 50;
        let Some(before) = self.before.filter(|before| !before.left_out) else { return false };
        let about = std::fs::symlink_metadata(self.request.root.join(file::path_of(path)));
        let created = about.and_then(|about| about.created()).ok();
        let created = created.and_then(|time| jiff::Timestamp::try_from(time).ok());
        created.is_none_or(|time| time.as_millisecond() + SLACK >= before.taken_at)
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
            let is_sparse = is_not_checked_out(&cached.entry.now);
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
                None if self.request.repository.is_some() && self.is_new(path) => FileContent::Absent,
                None if self.request.repository.is_some() => FileContent::omitted(NOT_LISTED, None),
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

/// Why the earlier content of a path is not known that existed before it was listed.
const NOT_LISTED: &str = "it was not listed then";

/// Why a path that is in the commit, but not in a sparse worktree, has no content.
const NOT_CHECKED_OUT: &str = "it is not checked out";

/// Whether a path is in the commit, but not in a sparse worktree.
pub(crate) fn is_not_checked_out(content: &FileContent) -> bool {
    matches!(content, FileContent::Omitted { reason, .. } if reason == NOT_CHECKED_OUT)
}

/// The name of the empty tree, in the format of an object name of this repository.
fn empty_tree(head: &str) -> &'static str {
    EMPTY_TREE_IDS[usize::from(head.len() > 40)]
}

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
