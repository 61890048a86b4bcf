//! Inspects one path of a worktree for a snapshot: recognises an unchanged file by its signature, and reads a changed
//! one. Several threads inspect paths at the same time, so nothing here changes the snapshot.

use std::fs::{File, Metadata};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use super::SECRET_REASON;
use super::entries::{IGNORED, absent};
use super::file::{self, Examined, ReadFile, Signature};
use super::manifest::FileContent;
use crate::fs::below::Folder;
use crate::fs::bounded::{self, format_limit};

/// The content of a path at the time of the snapshot.
pub(super) struct CurrentContent {
    pub(super) now: FileContent,
    /// The file's signature, if the content will be known from it without reading the file again.
    pub(super) signature: Option<Signature>,
    /// When the file last changed, in milliseconds since 1970, if it was read.
    pub(super) changed_at: Option<i64>,
}

impl CurrentContent {
    pub(super) fn new(now: FileContent) -> Self {
        Self { now, signature: None, changed_at: None }
    }
}

/// A path whose file has to be inspected.
pub(super) struct PathToInspect<'a> {
    pub(super) path: &'a [u8],
    /// The file's content in the previous snapshot, and its signature at that time.
    pub(super) known: Option<(Signature, &'a FileContent)>,
    /// Whether git ignores the path.
    pub(super) is_ignored: bool,
    /// Whether the path is in the commit, but not in a sparse worktree, if it does not exist.
    pub(super) is_sparse: bool,
}

/// How much may be read.
pub(super) struct ReadLimits {
    /// Maximum size of a file.
    pub(super) file: u64,
    /// Maximum size of the contents that a snapshot adds.
    pub(super) snapshot: u64,
    /// How much of that is left.
    pub(super) room: u64,
    /// Number of bytes that may still be read before the contents are stored. The last file may exceed it.
    pub(super) batch: AtomicU64,
    pub(super) deadline: Instant,
}

/// The result of an inspection.
pub(super) enum Inspected {
    /// The file was not read.
    Known(CurrentContent),
    Read(ReadFile),
    /// The deadline passed before the file could be read.
    NoTime,
    /// The file has to be read after the batch is stored.
    BatchIsFull,
}

/// The root of a worktree.
pub(super) struct WorktreeRoot<'a> {
    path: &'a Path,
    /// `None` if the system cannot check paths while it opens files. Then each folder is checked before.
    folder: Option<Folder>,
}

impl<'a> WorktreeRoot<'a> {
    pub(super) fn open(path: &'a Path) -> Self {
        Self { path, folder: Folder::open(path).ok() }
    }

    /// Looks at a path without reading the file. A path behind a symbolic link does not exist, as in git.
    fn examine(&self, path: &[u8]) -> Examined {
        let full = self.path.join(file::path_of(path));
        match self.folder.as_ref().map(|folder| folder.metadata(file::path_of(path))) {
            Some(Ok(about)) => file::examine(&full, Ok(about)),
            Some(Err(e)) if e.kind() == io::ErrorKind::NotFound => Examined::Absent,
            Some(Err(_)) | None if file::is_behind_link(self.path, path) => Examined::Absent,
            Some(Err(_)) | None => file::examine(&full, std::fs::symlink_metadata(&full)),
        }
    }

    /// Opens a file, unless a component of its path is a symbolic link.
    fn open_file(&self, path: &[u8]) -> io::Result<(File, Metadata)> {
        match &self.folder {
            Some(folder) => folder.open_file(file::path_of(path)),
            None if file::is_behind_link(self.path, path) => Err(io::ErrorKind::NotFound.into()),
            None => bounded::open_with_metadata(&self.path.join(file::path_of(path))),
        }
    }

    /// Reads a file that was just opened.
    fn read(&self, path: &[u8], (file, about): (File, Metadata), limits: &ReadLimits) -> Inspected {
        let read = || file::read_opened(file, &about, limits.file, || self.open_file(path));
        limits.admit(about.len()).unwrap_or_else(|| read().map_or_else(omitted, Inspected::Read))
    }
}

impl PathToInspect<'_> {
    /// Looks at the file below the root, and reads it if its content is not known.
    pub(super) fn inspect(&self, root: &WorktreeRoot<'_>, limits: &ReadLimits) -> Inspected {
        if self.known.is_none() && !self.is_ignored && !file::may_hold_secrets(self.path) {
            if Instant::now() >= limits.deadline {
                return Inspected::NoTime;
            }
            if let Ok(opened) = root.open_file(self.path) {
                return root.read(self.path, opened, limits);
            }
        }
        let signature = match root.examine(self.path) {
            Examined::Absent => return omitted(absent(self.is_sparse)),
            Examined::Special(content) => return omitted(content),
            Examined::Regular(signature) => signature,
        };
        if self.is_ignored {
            return omitted(FileContent::omitted(IGNORED, None));
        }
        if let Some((_, content)) = self.known.filter(|(known, _)| *known == signature) {
            let now = content.clone();
            return Inspected::Known(CurrentContent { now, signature: Some(signature), changed_at: None });
        }
        if file::may_hold_secrets(self.path) {
            return omitted(FileContent::omitted(SECRET_REASON, None));
        }
        if Instant::now() >= limits.deadline {
            return Inspected::NoTime;
        }
        match root.open_file(self.path) {
            Ok(opened) => root.read(self.path, opened, limits),
            Err(e) => omitted(file::cannot_read(&e)),
        }
    }
}

/// A path whose file was not read.
fn omitted(content: FileContent) -> Inspected {
    Inspected::Known(CurrentContent::new(content))
}

impl ReadLimits {
    /// Decides whether a file of this size may be read now; `None` if it may. Whoever reads it checks the limit for
    /// one file.
    fn admit(&self, size: u64) -> Option<Inspected> {
        if size > self.file {
            None
        } else if size > self.room {
            Some(omitted(over_snapshot_limit(self.snapshot, size)))
        } else {
            (!self.reserve(size)).then_some(Inspected::BatchIsFull)
        }
    }

    /// Reserves room in the batch. Returns false if the batch is full.
    fn reserve(&self, size: u64) -> bool {
        let take = |left: u64| (left > 0).then(|| left.saturating_sub(size));
        self.batch.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }
}

/// The content of a file that would make the snapshot too large.
pub(super) fn over_snapshot_limit(limit: u64, size: u64) -> FileContent {
    FileContent::omitted(format!("the snapshot is larger than {}", format_limit(limit)), Some(size))
}
