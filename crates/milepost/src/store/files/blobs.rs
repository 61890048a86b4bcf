//! Blobs in a store of files: each is one zstd frame in `.store/blobs/ab/<id>`, and an empty file if its content
//! was evicted. A put syncs its files and folders, so blobs are durable before a commit refers to them.
//! `.store/blob-bytes` caches the total size within one boot; it is empty while the files change.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;

use super::opener::OWN_FOLDER;
use super::{FilesStore, read_error};
use crate::clock;
use crate::fs::{atomic, bounded};
use crate::model::BlobId;
use crate::store::blob_folder::BlobFolder;
use crate::store::check::{checksummed_line, parse_checksummed_line};
use crate::store::{
    BLOB_LIMIT, BlobEntry, CollectReport, FindLiveBlobs, LiveBlobs, Part, StoreError, blob_codec,
};

/// Maximum length of a file. A frame is slightly longer than a content that does not compress.
const FILE_LIMIT: u64 = BLOB_LIMIT + (1 << 20);

/// The content of `.store/blob-bytes`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Counter {
    /// The total size.
    Known(u64),
    /// Missing, from an earlier boot, or of a write that was interrupted.
    Unknown,
    /// Damaged.
    Damaged,
}

impl FilesStore {
    pub(super) fn blob_folder(&self) -> BlobFolder {
        BlobFolder::new(self.root.join(OWN_FOLDER).join("blobs"))
    }

    fn counter_file(&self) -> PathBuf {
        self.root.join(OWN_FOLDER).join("blob-bytes")
    }

    /// Stores blobs and syncs them.
    pub(super) fn write_blobs(&self, contents: &[&[u8]]) -> Result<(), StoreError> {
        let folder = self.blob_folder();
        let failed = |e| self.write_error(folder.root(), e);
        let contents = blob_codec::identify(contents)?;
        let is_missing = |id: &BlobId| folder.length(id).is_none_or(|length| length == 0);
        let mut frames = BTreeMap::new();
        let compress_missing = |frames: &mut BTreeMap<BlobId, Vec<u8>>| {
            for (id, content) in &contents {
                if is_missing(id) && !frames.contains_key(id) {
                    frames.insert(*id, blob_codec::compress(content).map_err(failed)?);
                }
            }
            Ok::<_, StoreError>(())
        };
        compress_missing(&mut frames)?;
        if frames.is_empty() {
            return Ok(());
        }
        let _lock = self.acquire()?;
        // Since the blobs were looked up, a collection may have removed some, and another writer may have
        // stored some.
        compress_missing(&mut frames)?;
        frames.retain(|id, _| is_missing(id));
        let mut total = self.total_blob_bytes()?;
        self.clear_counter()?;
        for (id, frame) in &frames {
            folder.write(id, frame).map_err(failed)?;
            total += frame.len() as u64;
        }
        folder.sync_folders(frames.keys()).map_err(failed)?;
        self.set_counter(total)
    }

    /// The blobs among `ids` whose content is missing.
    pub(super) fn find_missing_blobs(&self, ids: &[BlobId]) -> Vec<BlobId> {
        let folder = self.blob_folder();
        let is_missing = |id: &&BlobId| folder.length(id).is_none_or(|length| length == 0);
        ids.iter().filter(is_missing).copied().collect()
    }

    /// Reads and verifies the content of a blob.
    pub(super) fn read_blob(&self, id: &BlobId) -> Result<Vec<u8>, StoreError> {
        use io::ErrorKind as K;
        let folder = self.blob_folder();
        match folder.read(id, FILE_LIMIT) {
            Ok(frame) if frame.is_empty() => Err(StoreError::NoBlob(*id)),
            Ok(frame) => Ok(blob_codec::restore_frame(id, &frame)?),
            Err(e) => Err(match e.kind() {
                K::NotFound => StoreError::NoBlob(*id),
                K::FileTooLarge | K::InvalidInput => {
                    blob_codec::damage(id, format!("a file that is {e}")).into()
                }
                _ => read_error(&folder.path(id), e),
            }),
        }
    }

    /// Lists blobs in the order of their ids.
    pub(super) fn list_blobs(
        &self,
        after: Option<&BlobId>,
        limit: usize,
    ) -> Result<Vec<BlobEntry>, StoreError> {
        let folder = self.blob_folder();
        let files = folder.list(after, limit).map_err(|e| read_error(folder.root(), e))?;
        let entry =
            |id, length| if length == 0 { BlobEntry::evicted(id) } else { BlobEntry::new(id, length) };
        Ok(files.into_iter().map(|file| entry(file.id, file.length)).collect())
    }

    /// Total size of the files of all blobs, from the counter or from the folders.
    pub(super) fn total_blob_bytes(&self) -> Result<u64, StoreError> {
        match self.blob_counter() {
            Counter::Known(total) => Ok(total),
            Counter::Unknown | Counter::Damaged => self.sum_blob_bytes(),
        }
    }

    /// Total size of the files of all blobs, from the folders.
    pub(super) fn sum_blob_bytes(&self) -> Result<u64, StoreError> {
        let folder = self.blob_folder();
        folder.bytes().map_err(|e| read_error(folder.root(), e))
    }

    pub(super) fn blob_counter(&self) -> Counter {
        let bytes = bounded::read(&self.counter_file(), 256).unwrap_or_default();
        if bytes.is_empty() {
            return Counter::Unknown;
        }
        let parsed = || {
            let line = std::str::from_utf8(&bytes).ok()?.trim_end();
            let (boot, total) = parse_checksummed_line(Part::Blob, b"bytes", line)?.split_once(' ')?;
            Some((boot.to_owned(), total.parse().ok()?))
        };
        match parsed() {
            // Neither the counter nor the order of its writes survives a power failure.
            Some((boot, total)) if Some(boot.as_str()) == clock::boot_id() => Counter::Known(total),
            Some(_) => Counter::Unknown,
            None => Counter::Damaged,
        }
    }

    /// Sets the counter. The caller must hold the lock.
    pub(super) fn set_counter(&self, total: u64) -> Result<(), StoreError> {
        let text = format!("{} {total:020}", clock::boot_id().unwrap_or("unknown"));
        self.overwrite_counter(&checksummed_line(Part::Blob, b"bytes", &text))
    }

    /// Empties the counter before files change, so that a crash does not leave a wrong one.
    fn clear_counter(&self) -> Result<(), StoreError> {
        self.overwrite_counter("")
    }

    fn overwrite_counter(&self, text: &str) -> Result<(), StoreError> {
        let path = self.counter_file();
        let mut options = File::options();
        atomic::open_private(&path, options.write(true).create(true).truncate(true))
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .map_err(|e| self.write_error(&path, e))
    }

    /// Removes blobs that are not in use.
    pub(super) fn collect(&self, find_live: &mut FindLiveBlobs<'_>) -> Result<CollectReport, StoreError> {
        let _lock = self.acquire()?;
        // Readers take no lock, so `find_live` can read the store.
        let live = find_live()?;
        // Roots go first: a crash must not leave a root whose blob is removed.
        if !live.drop_roots.is_empty() {
            self.change_roots(|roots| roots.by_name.retain(|name, _| !live.drop_roots.contains(name)))?;
        }
        let folder = self.blob_folder();
        let files = folder.list(None, 0).map_err(|e| read_error(folder.root(), e))?;
        let is_removed =
            |id: &BlobId, length| !live.keep.contains(id) || (length > 0 && live.evict.contains(id));
        if !files.iter().any(|file| is_removed(&file.id, file.length)) {
            return Ok(CollectReport::default());
        }
        self.clear_counter()?;
        let mut report = CollectReport::default();
        let mut total = 0;
        for file in files {
            if self.remove_blob(&folder, &live, &file.id, file.length)? {
                report.removed += u64::from(file.length > 0);
                report.bytes_freed += file.length;
            } else {
                total += file.length;
            }
        }
        self.set_counter(total)?;
        Ok(report)
    }

    /// Removes or evicts a blob that is not in use. Returns whether its content is gone.
    fn remove_blob(
        &self,
        folder: &BlobFolder,
        live: &LiveBlobs,
        id: &BlobId,
        length: u64,
    ) -> Result<bool, StoreError> {
        let failed = |e| self.write_error(&folder.path(id), e);
        if live.evict.contains(id) {
            if length > 0 {
                folder.write(id, b"").map_err(failed)?;
            }
            return Ok(true);
        }
        if live.keep.contains(id) {
            return Ok(false);
        }
        folder.remove(id).map_err(failed)?;
        Ok(true)
    }
}
