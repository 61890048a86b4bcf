//! Removes blobs that are not in use: deletes or evicts their rows, rewrites packs that contain much unused
//! space, and removes files after the commit. A crash at any point leaves every blob in use readable.

use std::collections::{HashMap, HashSet};

use rusqlite::{Connection, Result};

use super::rows::{self, BlobRow, PackWriter, Place};
use super::{SqliteStore, StoreResult};
use crate::model::BlobId;
use crate::store::sqlite::transact::{Outcome, transact};
use crate::store::{CollectReport, FindLiveBlobs, LiveBlobs};

/// A pack is rewritten if more than one part in this many is unused.
const UNUSED_PARTS: u64 = 10;

/// What a collection changed.
#[derive(Default)]
struct Collected {
    report: CollectReport,
    is_changed: bool,
    /// Blobs whose files are no longer referred to.
    files: Vec<BlobId>,
}

pub(in crate::store::sqlite) fn collect(
    store: &SqliteStore,
    find_live: &mut FindLiveBlobs<'_>,
) -> StoreResult<CollectReport> {
    let _lock = store.lock_for_writing()?;
    // No transaction is open yet, so that `find_live` can read the store in any journal mode.
    let live = find_live()?;
    let folder = store.blob_folder();
    store.with_writable(|db| {
        if live.erase {
            overwrite_deleted(db.connection(), true).map_err(|e| store.write_error(e))?;
        }
        let collected = transact(store, db, &mut |tx, _, base| {
            let collected = remove(tx, &live).map_err(|e| store.write_error(e))?;
            Ok(if collected.is_changed {
                Outcome::same_stamp(collected, base)
            } else {
                Outcome::Unchanged(collected)
            })
        });
        if live.erase {
            // A failure only makes later deletions slower.
            let _ = overwrite_deleted(db.connection(), false);
        }
        let collected = collected?;
        // The blobs are already removed. What fails from here on is repeated by maintenance.
        for id in &collected.files {
            let _ = folder.remove(id);
        }
        if collected.is_changed {
            let _ = db.compact();
        }
        Ok(collected.report)
    })
}

/// Selects whether SQLite overwrites deleted bytes with zeros.
fn overwrite_deleted(connection: &Connection, on: bool) -> Result<()> {
    connection.query_row(&format!("PRAGMA secure_delete = {}", u8::from(on)), [], |_| Ok(()))
}

fn remove(tx: &Connection, live: &LiveBlobs) -> Result<Collected> {
    let mut collected = Collected::default();
    let mut kept: HashMap<i64, Vec<BlobRow>> = HashMap::new();
    // The place of a damaged row is uncertain, so the pack that it names is left as it is.
    let mut uncertain = HashSet::new();
    for stored in rows::load(tx, None, 0)? {
        let row = stored.row.as_ref().ok();
        let evict = stored.id().filter(|id| live.evict.contains(id));
        if evict.is_none() && stored.id().is_some_and(|id| live.keep.contains(&id)) {
            match row {
                Some(row @ BlobRow { place: Place::Pack { n, .. }, .. }) => {
                    kept.entry(*n).or_default().push(*row);
                }
                Some(_) => {}
                None => uncertain.extend(stored.pack),
            }
            continue;
        }
        let has_content = row.is_none_or(|row| row.place != Place::Evicted);
        match evict {
            Some(_) if !has_content => continue,
            Some(id) => rows::put(tx, &BlobRow::evicted(id))?,
            None => rows::delete(tx, &stored)?,
        }
        collected.is_changed = true;
        collected.report.removed += u64::from(has_content);
        collected.report.bytes_freed += row.map_or(0, |row| row.length);
        if row.is_none_or(|row| row.place == Place::File) {
            collected.files.extend(stored.id());
        }
    }
    for name in &live.drop_roots {
        collected.is_changed |= rows::drop_root(tx, name)?;
    }
    if collected.is_changed {
        rewrite_packs(tx, &kept, &uncertain, live.erase)?;
        rows::set_counter(tx, rows::sum_bytes(tx)?)?;
    }
    Ok(collected)
}

/// Deletes packs without blobs in use, and moves blobs out of packs with much unused space, or with any if
/// removed contents are erased.
fn rewrite_packs(
    tx: &Connection,
    kept: &HashMap<i64, Vec<BlobRow>>,
    uncertain: &HashSet<i64>,
    erase: bool,
) -> Result<()> {
    let mut moved = PackWriter::new(tx);
    let mut unused = Vec::new();
    for (n, length) in rows::packs(tx)? {
        let kept = kept.get(&n).map_or(&[][..], Vec::as_slice);
        let used = kept.iter().map(|row| row.length).sum();
        let free = length.saturating_sub(used);
        let is_well_used = free.saturating_mul(UNUSED_PARTS) <= length && !(erase && free > 0);
        if uncertain.contains(&n) || (!kept.is_empty() && is_well_used) {
            continue;
        }
        // Copies damaged bytes too. A pack that is too short stays as it is.
        let mut pieces = Vec::new();
        for row in kept {
            let Place::Pack { offset, .. } = row.place else { continue };
            pieces.extend(rows::read_piece(tx, n, offset, row.length)?.map(|piece| (row, piece)));
        }
        if pieces.len() < kept.len() {
            continue;
        }
        for (row, piece) in pieces {
            moved.add(row.id, &piece, row.size)?;
        }
        unused.push(n);
    }
    moved.finish()?;
    unused.into_iter().try_for_each(|n| rows::delete_pack(tx, n))
}
