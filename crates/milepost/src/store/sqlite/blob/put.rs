//! Stores blobs: compresses them before it takes the lock, writes the large ones as files and the others in
//! packs, in one transaction. The next acknowledged commit makes that transaction durable.

use std::borrow::Cow;
use std::collections::HashMap;

use rusqlite::Connection;

use super::rows::{self, BlobRow, PackWriter, Place};
use super::{MissingBlob, SqliteStore, StoreResult, find_missing_rows};
use crate::model::BlobId;
use crate::store::blob_codec;
use crate::store::sqlite::transact::{Outcome, transact};
use crate::store::{Store, StoreError};

/// A blob with more stored bytes than this is a file.
const LARGE: usize = 128 * 1024;

/// The stored bytes of blobs, by id.
type Compressed<'a> = HashMap<BlobId, Cow<'a, [u8]>>;

/// Contents to store, most of them already compressed.
pub(in crate::store::sqlite) struct NewBlobs<'a> {
    ids: Vec<BlobId>,
    contents: HashMap<BlobId, &'a [u8]>,
    compressed: Compressed<'a>,
}

impl<'a> NewBlobs<'a> {
    /// Compresses the contents that the store does not have, before it is locked.
    pub(in crate::store::sqlite) fn prepare(store: &SqliteStore, contents: &[&'a [u8]]) -> StoreResult<Self> {
        if contents.is_empty() {
            return Ok(Self { ids: Vec::new(), contents: HashMap::new(), compressed: HashMap::new() });
        }
        let contents = blob_codec::identify(contents)?;
        let ids: Vec<_> = contents.iter().map(|(id, _)| *id).collect();
        let missing = match store.missing_blobs(&ids) {
            // The store was removed while it was open, and is created again later.
            Err(StoreError::Missing { .. }) if store.options.create => ids.clone(),
            missing => missing?,
        };
        let contents: HashMap<_, _> = contents.into_iter().collect();
        let to_compress: Vec<&[u8]> = missing.iter().map(|id| contents[id]).collect();
        let stored = blob_codec::compress_all(&to_compress).map_err(|e| store.io_error(e))?;
        let compressed = missing.into_iter().zip(stored).collect();
        Ok(Self { ids, contents, compressed })
    }

    /// Adds the contents that the store does not have, in a transaction under the writers' lock. Returns whether there
    /// were any.
    pub(in crate::store::sqlite) fn add(
        &mut self,
        store: &SqliteStore,
        tx: &Connection,
    ) -> StoreResult<bool> {
        let Self { ids, contents, compressed } = self;
        if ids.is_empty() {
            return Ok(false);
        }
        let missing = find_missing_rows(tx, &store.blob_folder(), ids).map_err(|e| store.write_error(e))?;
        // A collection may have removed more blobs since they were looked up.
        for MissingBlob { id, .. } in &missing {
            if !compressed.contains_key(id) {
                let stored = blob_codec::compress_if_smaller(contents[id]).map_err(|e| store.io_error(e))?;
                compressed.insert(*id, stored);
            }
        }
        let is_total_known = !missing.iter().any(|missing| missing.is_counted);
        let new =
            missing.iter().map(|MissingBlob { id, .. }| (*id, &*compressed[id], contents[id].len() as u64));
        add(store, tx, new, is_total_known)
    }

    /// Whether the store had all contents when they were prepared.
    fn is_stored(&self) -> bool {
        self.compressed.is_empty()
    }
}

pub(in crate::store::sqlite) fn put(store: &SqliteStore, contents: &[&[u8]]) -> StoreResult<()> {
    let mut blobs = NewBlobs::prepare(store, contents)?;
    if blobs.is_stored() {
        return Ok(());
    }
    let _lock = store.lock_or_create()?;
    store.with_writable(|db| {
        let stored = transact(store, db, &mut |tx, _, _| {
            Ok(if blobs.add(store, tx)? { Outcome::Unsynced(()) } else { Outcome::Unchanged(()) })
        });
        db.after_unsynced_commit();
        stored
    })
}

/// Adds blobs that the store does not have: ids, stored bytes, and sizes of the contents. `is_total_known` is false
/// if the stored total already includes one of them. Returns whether there were any.
fn add<'a>(
    store: &SqliteStore,
    tx: &Connection,
    blobs: impl Iterator<Item = (BlobId, &'a [u8], u64)>,
    is_total_known: bool,
) -> StoreResult<bool> {
    let failed = |e| store.write_error(e);
    let folder = store.blob_folder();
    let (mut packs, mut files, mut added) = (PackWriter::new(tx), Vec::new(), 0);
    let mut count = 0_u64;
    for (id, stored, size) in blobs {
        let length = stored.len() as u64;
        if stored.len() > LARGE {
            folder.write(&id, stored).map_err(|e| store.io_error(e))?;
            files.push(BlobRow { id, place: Place::File, length, size });
        } else {
            packs.add(id, stored, size).map_err(failed)?;
        }
        added += length;
        count += 1;
    }
    // A file and its name are on disk before a row refers to it.
    folder.sync_folders(files.iter().map(|row| &row.id)).map_err(|e| store.io_error(e))?;
    for row in &files {
        rows::put(tx, row).map_err(failed)?;
    }
    packs.finish().map_err(failed)?;
    if count > 0 {
        let known = rows::counter(tx).map_err(failed)?.filter(|_| is_total_known);
        let total = known.map_or_else(|| rows::sum_bytes(tx), |total| Ok(total.saturating_add(added)));
        total.and_then(|total| rows::set_counter(tx, total)).map_err(failed)?;
    }
    Ok(count > 0)
}
