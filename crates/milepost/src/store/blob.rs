//! Lists, references and removal of blobs. Contains only plain values; each store implements the operations.

use std::collections::HashSet;

use super::StoreError;
use crate::model::BlobId;

/// A blob in a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlobEntry {
    /// The blob's id.
    pub id: BlobId,
    /// Number of bytes that the store uses for the content.
    pub bytes: u64,
    /// Whether the content was evicted to stay within a size limit. Only the id is left.
    pub evicted: bool,
}

impl BlobEntry {
    /// A blob with its content, which takes this number of bytes.
    pub fn new(id: BlobId, bytes: u64) -> Self {
        Self { id, bytes, evicted: false }
    }

    /// A blob whose content was evicted.
    pub fn evicted(id: BlobId) -> Self {
        Self { id, bytes: 0, evicted: true }
    }
}

/// Which blobs a collection keeps. All others are removed.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct LiveBlobs {
    /// Blobs to keep.
    pub keep: HashSet<BlobId>,
    /// Blobs whose content is removed, but whose id is kept, so that a reader can tell an evicted content from
    /// a missing one. Takes precedence over `keep`.
    pub evict: HashSet<BlobId>,
    /// Named roots to remove.
    pub drop_roots: Vec<String>,
    /// Whether no byte of a removed content may stay in the store's files. Otherwise a store may leave removed
    /// bytes until the space is used again.
    pub erase: bool,
}

/// Decides which blobs a collection keeps. The store calls it while it holds the writers' lock. It may read
/// the store, and must not write to it.
pub type FindLiveBlobs<'a> = dyn FnMut() -> Result<LiveBlobs, StoreError> + 'a;

/// The result of a collection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CollectReport {
    /// Number of blobs whose content was removed.
    pub removed: u64,
    /// Bytes of disk space released.
    pub bytes_freed: u64,
}
