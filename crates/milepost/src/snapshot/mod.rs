//! Snapshots of the files of a worktree. Takes the paths that a capture found changed, reads those whose content
//! is not known yet, and returns a manifest. Contents go to the caller, which stores them. Must not write to the
//! worktree or the repository, follow a symbolic link, block, or exceed its limits.

mod attribution;
mod cache;
mod committed;
mod entries;
mod file;
mod inspect;
pub(crate) mod manifest;
mod previous_contents;
mod take;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

pub(crate) use cache::ToolWindow;
pub(crate) use committed::CommittedReader;
pub(crate) use entries::is_not_checked_out;
pub(crate) use manifest::SeriesId;
pub use manifest::{FileContent, Manifest, ManifestEntry};
pub(crate) use take::{ContentSink, PreviousManifest, SnapshotRequest, Snapshotter};

use crate::model::BlobId;
use crate::store::project_paths;
use crate::store::{Repository, StoreUrl};

/// The name of Milepost's own folder in a project.
pub(crate) const OWN_FOLDER: &str = project_paths::FOLDER;

/// Why the content of a file is not stored whose name suggests that it contains secrets.
pub(crate) const SECRET_REASON: &str = "its name suggests that it contains secrets";

/// Reads a file that a tool has just written. Returns `None` if it has no content to store.
pub(crate) fn read_written_file(root: &Path, path: &[u8], limit: u64) -> Option<(FileContent, Vec<u8>)> {
    if file::may_hold_secrets(path) || file::is_behind_link(root, path) {
        return None;
    }
    let read = file::read(&root.join(file::path_of(path)), limit).ok()?;
    Some((read.content, read.bytes))
}

/// The folder for the files that Milepost keeps about one worktree: in the worktree's own git directory, or beside
/// the store outside git.
pub(crate) fn worktree_folder(root: &Path, repository: Option<&Repository>, store: &str) -> PathBuf {
    if let Some(repository) = repository {
        return repository.git_dir().join("milepost").join("files");
    }
    let url = store.parse::<StoreUrl>().ok();
    match url.as_ref().and_then(StoreUrl::own_files) {
        Some(folder) => folder.join(worktree_key(root)),
        None => root.join(OWN_FOLDER).join("files"),
    }
}

/// The folder for the journals of restores in a worktree.
pub fn restore_folder(root: &Path, repository: Option<&Repository>, store: &str) -> PathBuf {
    worktree_folder(root, repository, store).join("restore")
}

/// Identifies a worktree in the names of roots: a hash of its path.
pub(crate) fn worktree_key(root: &Path) -> String {
    blake3::hash(&crate::fs::stored_bytes(root)).to_hex()[..16].to_owned()
}

/// The present content of a path; `None` if it cannot be read.
pub(crate) fn state_of(root: &Path, path: &[u8]) -> Option<FileContent> {
    if file::is_behind_link(root, path) {
        return Some(FileContent::Absent);
    }
    let full = root.join(file::path_of(path));
    match file::examine(&full, std::fs::symlink_metadata(&full)) {
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
    let change = manifest::LastChange::after(None, 0, None);
    let entry =
        |(path, was, now)| (path, ManifestEntry { now, was, change: change.clone(), is_tracked: false });
    let entries: BTreeMap<Vec<u8>, ManifestEntry> = contents.map(entry).collect();
    let blobs = entries.values().flat_map(|entry| [&entry.now, &entry.was]).filter_map(FileContent::blob);
    let blobs = blobs.collect();
    let series = SeriesId { worktree: worktree.to_owned(), number: 0 };
    let bytes = manifest::encode(&series, None, None, entries.iter()).map_err(|e| e.to_string())?;
    Ok((bytes, blobs))
}
