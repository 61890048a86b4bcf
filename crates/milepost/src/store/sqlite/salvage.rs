//! Salvages a file with damaged pages: finds the checkpoints that can still be read and copies them to a new
//! file. Takes a damaged store and returns counts, or replaces the store and keeps the damaged file next to
//! it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags, Result};

use super::connection::Access;
use super::transact::{Outcome, transact};
use super::view::StoreView;
use super::{SqliteStore, StoreResult, blob, frames, rows, sibling};
use crate::model::{Marks, Profile, RunId, RunRecord};
use crate::seal::{self, Verified};
use crate::store::{
    CheckpointFilter, Commit, HeaderQuery, MESSAGES_PER_COMMIT, OpenOptions, Row, RunView, Slot, Store,
    StoreError, WriteDecision,
};

/// The result of a survey of a damaged file.
pub(super) struct Salvage {
    /// Verified checkpoints by run and sequence number.
    pub(super) found: BTreeMap<RunId, BTreeMap<u64, Found>>,
    /// Number of checkpoints that an index lists and that cannot be read.
    pub(super) lost: u64,
}

/// Location of a checkpoint: the row number of its run, and its stamp.
pub(super) struct Found {
    pub(super) n: i64,
    pub(super) stamp: u64,
}

impl Salvage {
    /// Number of checkpoints that can be read.
    pub(super) fn readable(&self) -> usize {
        self.found.values().map(BTreeMap::len).sum()
    }
}

pub(super) fn connect(path: &Path) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    crate::database::restrict(&connection)?;
    Ok(connection)
}

/// Reads and verifies every checkpoint that any index of the file still reaches.
pub(super) fn survey(path: &Path) -> Result<Salvage> {
    let connection = connect(path)?;
    let (rows, incomplete) = StoreView::survey(&connection);
    // No index contains appended rows. If their pages are damaged, at least one row is lost.
    let mut salvage = Salvage { found: BTreeMap::new(), lost: u64::from(incomplete) };
    for (n, sequence, stamp) in rows {
        match document(&connection, n, sequence).and_then(|verified| verified.body().ok()) {
            Some(body) if body.sequence == sequence => {
                salvage.found.entry(body.run_id).or_default().insert(sequence, Found { n, stamp });
            }
            _ => salvage.lost += 1,
        }
    }
    Ok(salvage)
}

pub(super) fn document(connection: &Connection, n: i64, sequence: u64) -> Option<Verified> {
    let read = StoreView::load_readable(connection)
        .document_or_removed(n, sequence)
        .or_else(|_| frames::read(connection, n, sequence));
    let document = read.ok()??.ok()?;
    seal::verify(document).ok()
}

/// Copies all readable checkpoints to a new file, moves it into place and keeps the damaged file. Returns the
/// path of the damaged file. The caller must hold the lock, so that no other writer is active.
pub(super) fn replace_store(store: &SqliteStore, salvage: &Salvage) -> StoreResult<PathBuf> {
    let with = |suffix: &str| sibling(&store.path, suffix);
    let failed = |e: std::io::Error| StoreError::Write { location: store.location(), source: e.into() };
    let new_path = with("-salvaged");
    for suffix in super::opener::DATABASE_FILES {
        let _ = std::fs::remove_file(with(&format!("-salvaged{suffix}")));
    }
    let options = OpenOptions { create: true, user_state: None, ..store.options.clone() };
    let salvaged = SqliteStore::open(&new_path, &options)?;
    let connection = connect(&store.path).map_err(|e| store.error(e))?;
    // Copy older runs first to preserve the order of the runs.
    let mut runs: Vec<_> = salvage.found.iter().collect();
    runs.sort_by_key(|(_, found)| found.values().map(|f| f.stamp).max());
    for (run, found) in runs {
        copy_run(&salvaged, &connection, run, found)?;
    }
    // The files of blobs stay where they are, because the new database gets the name of the damaged one.
    blob::copy_readable(&connection, &salvaged, &store.blob_folder())?;
    raise_stamps(&salvaged, newest_acknowledged(store, &connection))?;
    // Move everything from the WAL to the database file, because only that file is renamed.
    salvaged.maintain(crate::store::Maintenance::Compact)?;
    drop(salvaged);
    drop(connection);
    let kept = (1..)
        .map(|i| with(&format!(".damaged-{i}")))
        .find(|path| !path.exists())
        .ok_or_else(|| failed(std::io::ErrorKind::AlreadyExists.into()))?;
    // Create the second name first, so that a store always exists under its own name.
    std::fs::hard_link(&store.path, &kept)
        .or_else(|_| std::fs::copy(&store.path, &kept).map(drop))
        .map_err(failed)?;
    for suffix in ["-wal", "-shm"] {
        let _ = std::fs::rename(with(suffix), sibling(&kept, suffix));
        let _ = std::fs::remove_file(with(&format!("-salvaged{suffix}")));
    }
    std::fs::rename(&new_path, &store.path).map_err(failed)?;
    for suffix in ["-turn", "-lock", "-id", "-mark"] {
        let _ = std::fs::remove_file(with(&format!("-salvaged{suffix}")));
    }
    crate::fs::atomic::sync_folder(crate::fs::atomic::folder_of(&store.path)).map_err(failed)?;
    Ok(kept)
}

/// The newest stamp that the damaged store is known to have assigned.
fn newest_acknowledged(store: &SqliteStore, connection: &Connection) -> u64 {
    let newest = StoreView::load(connection).and_then(|view| view.newest_stamp());
    let newest = newest.unwrap_or(0);
    store.mark.read().ahead_of(newest).unwrap_or(newest)
}

/// Makes the stamps of a store continue after this one.
fn raise_stamps(store: &SqliteStore, newest: u64) -> StoreResult<()> {
    store.with(Access::Write, |db| {
        transact(store, db, &mut |tx, _, base| {
            let newest = newest.max(base.next_stamp());
            rows::set_floor(tx, newest).map_err(|e| store.write_error(e))?;
            Ok(Outcome::Changed { value: (), newest, adds: Vec::new() })
        })
    })
}

fn copy_run(
    salvaged: &SqliteStore,
    connection: &Connection,
    run: &RunId,
    found: &BTreeMap<u64, Found>,
) -> StoreResult<()> {
    const BATCH: usize = 256;
    let view = StoreView::load_readable(connection);
    let record = view.find_run(run).ok().flatten().and_then(|run_row| run_row.record.ok());
    let found: Vec<_> = found.iter().collect();
    for batch in found.chunks(BATCH) {
        let documents: Vec<_> = batch
            .iter()
            .filter_map(|(sequence, at)| Some((**sequence, document(connection, at.n, **sequence)?)))
            .collect();
        let marks: Vec<_> =
            documents.iter().filter_map(|(s, _)| Some((*s, marks(connection, run, *s)?))).collect();
        let mut decide = |view: &RunView| {
            let fallback = documents.last().and_then(|(_, v)| v.body().ok());
            let record = record.as_deref().cloned().or_else(|| view.record.clone()).or_else(|| {
                let body = fallback?;
                let mut record = RunRecord::new(run.clone(), Profile::Run, body.created_at);
                record.status = body.status;
                Some(record)
            });
            let Some(record) = record else { return WriteDecision::NoChange };
            let mut commit = Commit::new(record);
            let mut stamp = view.slot.stamp();
            for (sequence, verified) in &documents {
                if let Ok(sealed) = verified.clone().into_sealed(&Slot::issue(*sequence, stamp)) {
                    commit.puts.push(sealed);
                    stamp += 1;
                }
            }
            commit.marks.clone_from(&marks);
            WriteDecision::Commit(Box::new(commit))
        };
        salvaged.write(run, &mut decide)?;
    }
    copy_messages(salvaged, &view, run)?;
    if record.is_none() {
        salvaged.forget_record(run)?;
    }
    Ok(())
}

/// Copies the readable messages of a run that was already copied.
fn copy_messages(salvaged: &SqliteStore, view: &StoreView<'_>, run: &RunId) -> StoreResult<()> {
    let messages = view.run_n(run).ok().flatten().and_then(|n| view.messages(n).ok()).unwrap_or_default();
    let messages: Vec<_> = messages.into_iter().filter_map(|(_, message)| message.ok()).collect();
    for batch in messages.chunks(MESSAGES_PER_COMMIT) {
        salvaged.write(run, &mut |view: &RunView| {
            let Some(record) = &view.record else { return WriteDecision::NoChange };
            let mut commit = Commit::new(record.clone());
            commit.messages = batch.to_vec();
            WriteDecision::Commit(Box::new(commit))
        })?;
    }
    Ok(())
}

pub(super) fn marks(connection: &Connection, run: &RunId, sequence: u64) -> Option<Marks> {
    let query = HeaderQuery::default().run(run).find(CheckpointFilter::Sequence(sequence));
    match StoreView::load(connection).ok()?.headers(&query).ok()?.into_iter().next()? {
        Row::Intact(entry) if entry.marks != Marks::default() => Some(entry.marks),
        _ => None,
    }
}
