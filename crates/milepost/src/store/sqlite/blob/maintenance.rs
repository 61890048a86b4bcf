//! Finds and repairs what a crash or damage left: files of blobs that no row refers to, temporary files, a
//! wrong counter of bytes, and damaged roots.

use std::collections::HashSet;

use rusqlite::Connection;

use super::rows::{self, Place};
use super::{SqliteStore, StoreResult};
use crate::store::{Problem, ProblemKind};

/// The problems of a store's blobs.
pub(in crate::store::sqlite) fn inspect(store: &SqliteStore) -> StoreResult<Vec<Problem>> {
    let mut problems = Vec::new();
    let mut found = |kind, message| problems.push(Problem { kind, message, repairable: true });
    if store.blob_folder().root().exists() {
        // A writer writes the file of a blob before its row. A store that cannot be locked is inspected too.
        let _lock = store.lock_for_writing().ok();
        for path in temporary(store) {
            found(ProblemKind::StrayFile, format!("temporary file {} was left by a crash", path.display()));
        }
        for id in orphans(store)? {
            let path = store.blob_folder().path(&id);
            found(ProblemKind::Orphan, format!("{} is a blob that no row refers to", path.display()));
        }
    }
    let (is_counted, damaged_roots) = store.snapshot(|tx| {
        let roots = rows::roots(tx)?;
        Ok((is_counted(tx)?, roots.into_iter().filter_map(Result::err).collect::<Vec<_>>()))
    })?;
    if !is_counted {
        found(ProblemKind::Derived, "the number of bytes of all blobs is wrong".to_owned());
    }
    for damage in damaged_roots {
        found(ProblemKind::Record, format!("{damage}; repairing removes it"));
    }
    Ok(problems)
}

/// Repairs what `inspect` finds, and returns the number of repairs. The caller must hold the lock.
pub(in crate::store::sqlite) fn repair(store: &SqliteStore) -> StoreResult<u64> {
    let mut done = 0;
    for path in temporary(store) {
        done += u64::from(std::fs::remove_file(path).is_ok());
    }
    for id in orphans(store)? {
        done += u64::from(store.blob_folder().remove(&id).is_ok());
    }
    let is_sound = store.snapshot(|tx| Ok(is_counted(tx)? && rows::roots(tx)?.iter().all(Result::is_ok)))?;
    if is_sound {
        return Ok(done);
    }
    let repaired = store.change_tables(|tx, _| {
        let mut repaired = rows::delete_damaged_roots(tx)?;
        if !is_counted(tx)? {
            rows::set_counter(tx, rows::sum_bytes(tx)?)?;
            repaired += 1;
        }
        Ok(repaired)
    })?;
    Ok(done + repaired)
}

fn temporary(store: &SqliteStore) -> Vec<std::path::PathBuf> {
    store.blob_folder().leftover_temp_files().unwrap_or_default()
}

/// Files that no row refers to. If a row is damaged, its key may be wrong and one of the files may belong to
/// it, so none is reported.
fn orphans(store: &SqliteStore) -> StoreResult<Vec<crate::model::BlobId>> {
    let folder = store.blob_folder();
    let files = folder
        .list(None, 0)
        .map_err(|e| crate::store::StoreError::Read { location: store.location(), source: e.into() })?;
    if files.is_empty() {
        return Ok(Vec::new());
    }
    let rows = store.snapshot(|tx| rows::load(tx, None, 0))?;
    let rows: Result<Vec<_>, _> = rows.into_iter().map(|stored| stored.row).collect();
    let Ok(rows) = rows else { return Ok(Vec::new()) };
    let used: HashSet<_> = rows.iter().filter(|row| row.place == Place::File).map(|row| row.id).collect();
    Ok(files.iter().map(|file| file.id).filter(|id| !used.contains(id)).collect())
}

/// Whether the counter is right. A store that never had a blob has none.
fn is_counted(tx: &Connection) -> rusqlite::Result<bool> {
    let total = rows::sum_bytes(tx)?;
    Ok(rows::counter(tx)?.map_or(total == 0 && !rows::has_counter(tx)?, |counted| counted == total))
}
