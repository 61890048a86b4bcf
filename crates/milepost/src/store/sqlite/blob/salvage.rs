//! Copies blobs and roots from a damaged database, or from a copy with lost writes, to a store that lacks
//! them. Verifies every content. Skips what cannot be read.

use rusqlite::{Connection, Result};

use super::rows::{self, BlobRow, PackWriter, Place};
use super::{SqliteStore, StoreResult};
use crate::model::BlobId;
use crate::store::blob_folder::{BlobFile, BlobFolder};
use crate::store::sqlite::connection::Access;
use crate::store::sqlite::transact::{Outcome, transact};
use crate::store::{BLOB_LIMIT, blob_codec};

/// Maximum number of bytes that one transaction adds.
const BATCH: usize = 4 << 20;

/// Copies the readable blobs and roots from a connection to `store`. Files stay in `folder`, which becomes the
/// folder of the store. Durable after the next synced commit of the store. The caller excludes other writers.
pub(in crate::store::sqlite) fn copy_readable(
    from: &Connection,
    store: &SqliteStore,
    folder: &BlobFolder,
) -> StoreResult<()> {
    let known = rows::load_readable(from);
    let lacks = |id: &BlobId| -> StoreResult<bool> {
        Ok(store.snapshot(|tx| rows::find(tx, id))?.is_none_or(|row| row.is_err()))
    };
    let (mut batch, mut bytes) = (Vec::new(), 0);
    for row in known.values() {
        let Place::Pack { n, offset } = row.place else { continue };
        let Ok(Some(piece)) = rows::read_piece(from, n, offset, row.length) else { continue };
        if blob_codec::restore(&row.id, &piece, row.size).is_err() || !lacks(&row.id)? {
            continue;
        }
        bytes += piece.len();
        batch.push((*row, piece));
        if bytes > BATCH {
            write(store, |tx| add_pieces(tx, &std::mem::take(&mut batch)))?;
            bytes = 0;
        }
    }
    let mut others: Vec<_> = known.values().filter(|row| row.place == Place::Evicted).copied().collect();
    for file in folder.list(None, 0).unwrap_or_default() {
        if lacks(&file.id)? {
            others.extend(row_of_file(folder, &file));
        }
    }
    let roots: Vec<_> = rows::roots(from).unwrap_or_default().into_iter().flatten().collect();
    write(store, |tx| {
        add_pieces(tx, &batch)?;
        for row in &others {
            if row.place == Place::File || rows::find(tx, &row.id)?.is_none() {
                rows::put(tx, row)?;
            }
        }
        let present = rows::roots(tx)?;
        for (name, blob) in &roots {
            let is_set = present.iter().flatten().any(|(present, _)| present == name);
            if !is_set && rows::find(tx, blob)?.is_some() {
                rows::set_root(tx, name, blob)?;
            }
        }
        let total = rows::sum_bytes(tx)?;
        if rows::counter(tx)? == Some(total) || (total == 0 && !rows::has_counter(tx)?) {
            return Ok(());
        }
        rows::set_counter(tx, total)
    })
}

fn add_pieces(tx: &Connection, pieces: &[(BlobRow, Vec<u8>)]) -> Result<()> {
    let mut packs = PackWriter::new(tx);
    for (row, piece) in pieces {
        packs.add(row.id, piece, row.size)?;
    }
    packs.finish()
}

fn write(store: &SqliteStore, mut work: impl FnMut(&Connection) -> Result<()>) -> StoreResult<()> {
    store.with(Access::Write, |db| {
        transact(store, db, &mut |tx, _, _| {
            work(tx).map(|()| Outcome::Unsynced(())).map_err(|e| store.write_error(e))
        })
    })
}

/// The row for a file whose content matches its name.
fn row_of_file(folder: &BlobFolder, file: &BlobFile) -> Option<BlobRow> {
    let stored = folder.read(&file.id, BLOB_LIMIT).ok()?;
    let is_plain = BlobId::of(&stored) == file.id;
    let size = if is_plain { stored.len() } else { blob_codec::restore_frame(&file.id, &stored).ok()?.len() };
    let length = stored.len() as u64;
    Some(BlobRow { id: file.id, place: Place::File, length, size: size as u64 })
}
