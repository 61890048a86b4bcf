//! A folder of blobs, one file each: `ab/<64 hexadecimal digits>`, where `ab` is the start of the id.
//! Takes ids and bytes; writes, lists and removes files. Does not interpret their content.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::fs::atomic::{self, Mode};
use crate::fs::{bounded, if_exists};
use crate::model::BlobId;

/// A folder of blobs. The folder is created when the first blob is written.
#[derive(Debug, Clone)]
pub(crate) struct BlobFolder {
    root: PathBuf,
}

/// A file of the folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlobFile {
    pub(crate) id: BlobId,
    pub(crate) length: u64,
}

impl BlobFolder {
    pub(crate) fn new(root: PathBuf) -> Self {
        Self { root }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The file of a blob.
    pub(crate) fn path(&self, id: &BlobId) -> PathBuf {
        let name = id.to_string();
        self.root.join(&name[..2]).join(name)
    }

    /// Reads a file of at most `limit` bytes.
    pub(crate) fn read(&self, id: &BlobId, limit: u64) -> io::Result<Vec<u8>> {
        bounded::read(&self.path(id), limit)
    }

    /// The length of a blob's file; `None` if it does not exist.
    pub(crate) fn length(&self, id: &BlobId) -> Option<u64> {
        fs::symlink_metadata(self.path(id)).ok().filter(fs::Metadata::is_file).map(|meta| meta.len())
    }

    /// Writes a file atomically and syncs it. The caller then calls `sync_folders`, once for several files.
    pub(crate) fn write(&self, id: &BlobId, bytes: &[u8]) -> io::Result<()> {
        let path = self.path(id);
        atomic::create_folder(atomic::folder_of(&path))?;
        atomic::write_without_folder_sync(&path, bytes, Mode::Private)
    }

    /// Makes the directory entries of these blobs durable.
    pub(crate) fn sync_folders<'a>(&self, ids: impl IntoIterator<Item = &'a BlobId>) -> io::Result<()> {
        let folders: BTreeSet<_> = ids.into_iter().map(|id| id.as_bytes()[0]).collect();
        folders.iter().try_for_each(|first| atomic::sync_folder(&self.subfolder(*first)))
    }

    /// Removes a blob's file, if it exists.
    pub(crate) fn remove(&self, id: &BlobId) -> io::Result<()> {
        if_exists(fs::remove_file(self.path(id))).map(drop)
    }

    fn subfolder(&self, first: u8) -> PathBuf {
        self.root.join(format!("{first:02x}"))
    }

    /// Lists files in the order of their ids, those after `after` only; a limit of 0 means no limit.
    pub(crate) fn list(&self, after: Option<&BlobId>, limit: usize) -> io::Result<Vec<BlobFile>> {
        let limit = if limit == 0 { usize::MAX } else { limit };
        let mut files = Vec::new();
        for first in after.map_or(0, |id| id.as_bytes()[0])..=u8::MAX {
            let subfolder = self.subfolder(first);
            let mut found = Vec::new();
            for entry in if_exists(fs::read_dir(&subfolder))?.into_iter().flatten() {
                let entry = entry?;
                let id = entry.file_name().to_str().and_then(|name| name.parse::<BlobId>().ok());
                let Some(id) = id.filter(|id| after.is_none_or(|after| id > after)) else { continue };
                // A file may be removed while the folder is listed.
                let meta = entry.metadata().ok().filter(|meta| meta.is_file() && id.as_bytes()[0] == first);
                found.extend(meta.map(|meta| BlobFile { id, length: meta.len() }));
            }
            found.sort_by_key(|file| file.id);
            files.extend(found);
            if files.len() >= limit {
                files.truncate(limit);
                break;
            }
        }
        Ok(files)
    }

    /// Total length of all files that are named after a blob.
    pub(crate) fn bytes(&self) -> io::Result<u64> {
        Ok(self.list(None, 0)?.iter().map(|file| file.length).sum())
    }

    /// Temporary files that a crash left.
    pub(crate) fn leftover_temp_files(&self) -> io::Result<Vec<PathBuf>> {
        let mut found = Vec::new();
        let subfolders = (0..=u8::MAX).map(|first| self.subfolder(first));
        for folder in [self.root.clone()].into_iter().chain(subfolders) {
            found.extend(if_exists(atomic::leftover_temp_files(&folder))?.into_iter().flatten());
        }
        Ok(found)
    }
}
