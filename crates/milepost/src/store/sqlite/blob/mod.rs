//! Blobs in the tables: small ones in shared packs, large ones as files next to the database. Reads and lists
//! them. `rows` decodes and writes rows, `put` adds blobs, `collect` removes them, `maintenance` removes stray
//! files, and `salvage` copies blobs from a damaged database.

mod collect;
mod maintenance;
mod put;
mod rows;
mod salvage;

use rusqlite::{Connection, Result};

pub(super) use self::collect::collect;
pub(super) use self::maintenance::{inspect, repair};
pub(super) use self::put::{NewBlobs, put};
use self::rows::{BlobRow, Place};
pub(super) use self::rows::{roots, set_root, total_bytes};
pub(super) use self::salvage::copy_readable;
use super::{SqliteStore, StoreResult};
use crate::model::BlobId;
use crate::store::blob_codec;
use crate::store::blob_folder::BlobFolder;
use crate::store::{BlobEntry, StoreError};

/// The blobs among `ids` whose content is missing.
pub(super) fn find_missing(tx: &Connection, folder: &BlobFolder, ids: &[BlobId]) -> Result<Vec<BlobId>> {
    Ok(find_missing_rows(tx, folder, ids)?.into_iter().map(|missing| missing.id).collect())
}

/// A blob whose content is missing.
struct MissingBlob {
    id: BlobId,
    /// Whether its row is damaged or its file is missing, so that the total size already includes it.
    is_counted: bool,
}

/// Like `find_missing`. A blob with a damaged row counts as missing, so that it can be stored again.
fn find_missing_rows(tx: &Connection, folder: &BlobFolder, ids: &[BlobId]) -> Result<Vec<MissingBlob>> {
    let mut missing = Vec::new();
    for id in ids {
        let is_counted = match rows::find(tx, id)? {
            Some(Ok(BlobRow { place: Place::Pack { .. }, .. })) => continue,
            Some(Ok(BlobRow { place: Place::File, length, .. })) if folder.length(id) == Some(length) => {
                continue;
            }
            Some(Ok(BlobRow { place: Place::File, .. }) | Err(_)) => true,
            Some(Ok(BlobRow { place: Place::Evicted, .. })) | None => false,
        };
        missing.push(MissingBlob { id: *id, is_counted });
    }
    Ok(missing)
}

/// Lists blobs. A damaged row is listed with 0 bytes.
pub(super) fn list(tx: &Connection, after: Option<&BlobId>, limit: usize) -> Result<Vec<BlobEntry>> {
    let entry = |stored: rows::StoredRow| {
        let id = stored.id()?;
        Some(match stored.row {
            Ok(BlobRow { place: Place::Evicted, .. }) => BlobEntry::evicted(id),
            Ok(row) => BlobEntry::new(id, row.length),
            Err(_) => BlobEntry::new(id, 0),
        })
    };
    Ok(rows::load(tx, after, limit)?.into_iter().filter_map(entry).collect())
}

/// A blob's row, and its stored bytes if they are in a pack.
enum Found {
    Nothing,
    File(BlobRow),
    Bytes(BlobRow, Vec<u8>),
    Damaged(crate::store::Damage),
}

fn find(tx: &Connection, id: &BlobId) -> Result<Found> {
    Ok(match rows::find(tx, id)? {
        None | Some(Ok(BlobRow { place: Place::Evicted, .. })) => Found::Nothing,
        Some(Err(damage)) => Found::Damaged(damage),
        Some(Ok(row @ BlobRow { place: Place::File, .. })) => Found::File(row),
        Some(Ok(row @ BlobRow { place: Place::Pack { n, offset }, .. })) => {
            match rows::read_piece(tx, n, offset, row.length)? {
                Some(bytes) => Found::Bytes(row, bytes),
                None => Found::Damaged(blob_codec::damage(id, "no content in its pack")),
            }
        }
    })
}

/// Reads and verifies the content of a blob.
pub(super) fn read(store: &SqliteStore, id: &BlobId) -> StoreResult<Vec<u8>> {
    let mut looked_again = false;
    loop {
        let (row, bytes) = match store.snapshot(|tx| find(tx, id))? {
            Found::Nothing => return Err(StoreError::NoBlob(*id)),
            Found::Damaged(damage) => return Err(damage.into()),
            Found::Bytes(row, bytes) => (row, bytes),
            Found::File(row) => match read_file(&store.blob_folder(), &row) {
                Ok(Ok(bytes)) => (row, bytes),
                // A collection may have removed the file since the row was read.
                Ok(Err(_)) if !looked_again => {
                    looked_again = true;
                    continue;
                }
                Ok(Err(damage)) => return Err(damage.into()),
                Err(e) => return Err(StoreError::Read { location: store.location(), source: e.into() }),
            },
        };
        return Ok(blob_codec::restore(id, &bytes, row.size)?);
    }
}

/// Reads and verifies the contents of several blobs, those in packs in one transaction.
pub(super) fn read_all(store: &SqliteStore, ids: &[BlobId]) -> StoreResult<Vec<Vec<u8>>> {
    let found = store.snapshot(|tx| ids.iter().map(|id| find(tx, id)).collect::<Result<Vec<_>>>())?;
    let content = |(id, found): (&BlobId, Found)| match found {
        Found::Bytes(row, bytes) => Ok(blob_codec::restore(id, &bytes, row.size)?),
        Found::Nothing | Found::File(_) | Found::Damaged(_) => read(store, id),
    };
    ids.iter().zip(found).map(content).collect()
}

/// The stored bytes of a blob that is a file, or the damage to the file.
fn read_file(
    folder: &BlobFolder,
    row: &BlobRow,
) -> std::io::Result<std::result::Result<Vec<u8>, crate::store::Damage>> {
    use std::io::ErrorKind as K;
    let damaged = |found: String| Ok(Err(blob_codec::damage(&row.id, found)));
    match folder.read(&row.id, row.length) {
        Ok(bytes) if bytes.len() as u64 == row.length => Ok(Ok(bytes)),
        Ok(bytes) => damaged(format!("a file of {} bytes", bytes.len())),
        Err(e) if matches!(e.kind(), K::NotFound | K::NotADirectory) => damaged("no file".to_owned()),
        Err(e) if matches!(e.kind(), K::FileTooLarge | K::InvalidInput) => {
            damaged(format!("a file that is {e}"))
        }
        Err(e) => Err(e),
    }
}
