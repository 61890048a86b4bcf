//! Snapshots of the files of a worktree. Takes the paths that a capture found changed, reads those whose content
//! is not known yet, and returns a manifest. Contents go to the caller, which stores them. Must not write to the
//! worktree or the repository, follow a symbolic link, block, or exceed its limits.

mod cache;
mod committed;
mod file;
pub(crate) mod manifest;
mod take;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

pub(crate) use cache::ToolWindow;
pub(crate) use committed::CommittedReader;
pub(crate) use file::bytes_of;
pub(crate) use manifest::SeriesId;
pub use manifest::{FileContent, Manifest, ManifestEntry};
pub(crate) use take::{SnapshotRequest, Snapshotter};

use crate::model::BlobId;
use crate::store::Repository;
use crate::store::project_paths;

/// The name of Milepost's own folder in a project.
pub(crate) const OWN_FOLDER: &str = project_paths::FOLDER;

/// Why the content of a file is not stored whose name suggests that it contains secrets.
pub(crate) const SECRET_REASON: &str = "its name suggests that it contains secrets";

/// Limits on the contents of a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileLimits {
    /// Maximum size of a file, in bytes.
    pub file: u64,
    /// Maximum size of all contents that one snapshot adds, in bytes.
    pub snapshot: u64,
    /// Maximum number of paths.
    pub paths: usize,
}

impl Default for FileLimits {
    fn default() -> Self {
        Self { file: 10 << 20, snapshot: 200 << 20, paths: 20_000 }
    }
}

/// A tool of an agent that has just ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EndedTool {
    /// How long it ran, if the agent reports it. Otherwise it is assumed to have run since the agent's
    /// previous event.
    pub duration: Option<Duration>,
}

/// How a snapshot is taken.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SnapshotOptions {
    /// When to stop reading files; `None` for 30 seconds after the capture.
    pub deadline: Option<Instant>,
    /// Limits on the contents.
    pub limits: FileLimits,
    /// The tool of an agent that has just ended, to which changes are attributed.
    pub tool: Option<EndedTool>,
    /// Whether to ignore the cache, because it refers to contents that the store no longer has.
    pub ignore_cache: bool,
}

impl SnapshotOptions {
    /// The time at which to stop reading files.
    fn stop_at(&self) -> Instant {
        const TIME: Duration = Duration::from_secs(30);
        self.deadline.unwrap_or_else(|| Instant::now() + TIME)
    }
}

/// Reads a file that a tool has just written. Returns `None` if it has no content to store.
pub(crate) fn read_written_file(root: &Path, path: &[u8], limit: u64) -> Option<(FileContent, Vec<u8>)> {
    if file::may_hold_secrets(path) || file::is_behind_link(root, path) {
        return None;
    }
    let read = file::read(&root.join(file::path_of(path)), limit).ok()?;
    Some((read.content, read.bytes))
}

/// The folder for the files that Milepost keeps about one worktree: in the worktree's own git directory, or in
/// `.milepost` outside git.
pub(crate) fn worktree_folder(root: &Path, repository: Option<&Repository>) -> PathBuf {
    match repository {
        Some(repository) => repository.git_dir().join("milepost").join("files"),
        None => root.join(OWN_FOLDER).join("files"),
    }
}

/// The folder for the journals of restores in a worktree.
pub fn restore_folder(root: &Path, repository: Option<&Repository>) -> PathBuf {
    worktree_folder(root, repository).join("restore")
}

/// Identifies a worktree in the names of roots: a hash of its path.
pub(crate) fn worktree_key(root: &Path) -> String {
    blake3::hash(bytes_of(root)).to_hex()[..16].to_owned()
}

/// The present content of a path; `None` if it cannot be read.
pub(crate) fn state_of(root: &Path, path: &[u8]) -> Option<FileContent> {
    if file::is_behind_link(root, path) {
        return Some(FileContent::Absent);
    }
    let full = root.join(file::path_of(path));
    match file::examine(&full) {
        file::Examined::Absent => Some(FileContent::Absent),
        file::Examined::Special(content) => Some(content),
        file::Examined::Regular(_) => file::read(&full, u64::MAX - 1).ok().map(|read| read.content),
    }
}

/// The paths among these that git ignores. If git cannot say, all of them count as ignored.
pub(crate) fn ignored_paths<'a>(
    repository: &Repository,
    paths: impl Iterator<Item = &'a [u8]> + Clone,
) -> BTreeSet<Vec<u8>> {
    committed::ignored(repository, paths.clone()).unwrap_or_else(|_| paths.map(<[u8]>::to_vec).collect())
}

/// A manifest that keeps the contents before and after a restore, and the blobs that it refers to.
pub(crate) fn undo_manifest(
    worktree: &str,
    contents: impl Iterator<Item = (Vec<u8>, FileContent, FileContent)>,
) -> Result<(Vec<u8>, Vec<BlobId>), String> {
    let change = manifest::LastChange { at: 0, by: None, others_until: 0 };
    let entry =
        |(path, was, now)| (path, ManifestEntry { now, was, change: change.clone(), is_tracked: false });
    let entries: BTreeMap<Vec<u8>, ManifestEntry> = contents.map(entry).collect();
    let blobs = entries.values().flat_map(|entry| [&entry.now, &entry.was]).filter_map(FileContent::blob);
    let blobs = blobs.collect();
    let series = SeriesId { worktree: worktree.to_owned(), number: 0 };
    let bytes = manifest::encode(&series, None, None, entries.iter()).map_err(|e| e.to_string())?;
    Ok((bytes, blobs))
}
