//! Runs one write transaction: detects lost writes, runs the work, commits, syncs, and raises the
//! high-water mark. Takes work on the tables and returns its result once the commit is on disk.
//! The caller must hold the lock.

use super::SqliteStore;
use super::connection::{Db, Tx};
use super::decode::{self, RunTableRow};
use super::loss::{self, Loss};
use super::view::StoreView;
use crate::model::CheckpointId;
use crate::store::{Damage, Part, StoreError};

/// The newest stamp that a store can have: a write may take many more, and the positions of events are multiples of
/// stamps. No store reaches it, so a greater one was not written by this program.
const NEWEST_STAMP: u64 = i64::MAX as u64 / decode::EVENTS_PER_STAMP / 2;

/// The stamps and sequence numbers that a write may assign.
pub(super) struct Numbering {
    /// The newest stamp assigned so far.
    newest: u64,
    losses: Vec<Loss>,
}

impl Numbering {
    /// The next free stamp.
    pub(super) fn next_stamp(&self) -> u64 {
        self.newest + 1
    }

    /// The next free sequence number of a run. It skips the numbers that lost writes may have used.
    pub(super) fn next_sequence(&self, run_row: Option<&RunTableRow>) -> u64 {
        let skipped = loss::skipped(&self.losses, run_row.map(|run_row| run_row.stamp));
        run_row.map_or(0, |run_row| run_row.last_sequence) + skipped + 1
    }
}

/// The outcome of the work.
pub(super) enum Outcome<T> {
    /// There are no changes to commit.
    Unchanged(T),
    /// The transaction must be committed.
    Changed {
        value: T,
        /// The newest stamp after the commit.
        newest: u64,
        /// Checkpoints that the commit adds.
        adds: Vec<CheckpointId>,
    },
    /// The transaction must be committed, but not synced: the sync of the next acknowledged commit covers its
    /// frames, because it syncs the same WAL. Takes no stamp and leaves the high-water mark unchanged.
    Unsynced(T),
}

impl<T> Outcome<T> {
    /// A change that takes no stamp.
    pub(super) fn same_stamp(value: T, numbering: &Numbering) -> Self {
        Self::Changed { value, newest: numbering.newest, adds: Vec::new() }
    }
}

/// Work inside a write transaction. It may be called twice; only the last call takes effect.
pub(super) type Work<'a, T> =
    dyn FnMut(&Tx<'_>, &StoreView<'_>, &Numbering) -> Result<Outcome<T>, StoreError> + 'a;

/// The outcome of one attempt.
enum Attempt<T> {
    Acknowledged(T),
    /// COMMIT failed with an I/O error and was rolled back, but its frames may be in the file.
    CommitFailed(StoreError),
}

/// Runs the work in a transaction and commits it. If a sync fails, everything is written and synced a
/// second time. If that fails too, the error is `NotAcknowledged`, and the next writer rewrites and
/// syncs the WAL before it commits.
pub(super) fn transact<T>(store: &SqliteStore, db: &mut Db, work: &mut Work<'_, T>) -> Result<T, StoreError> {
    let first = match attempt(store, db, work, false)? {
        Attempt::Acknowledged(value) => return Ok(value),
        Attempt::CommitFailed(error) => error,
    };
    match attempt(store, db, work, true) {
        Ok(Attempt::Acknowledged(value)) => Ok(value),
        Ok(Attempt::CommitFailed(second)) | Err(second @ StoreError::NotAcknowledged { .. }) => Err(second),
        Err(_) => Err(first),
    }
}

fn attempt<T>(
    store: &SqliteStore,
    db: &mut Db,
    work: &mut Work<'_, T>,
    after_failed_sync: bool,
) -> Result<Attempt<T>, StoreError> {
    let failed = |e| store.write_error(e);
    let mark = store.mark.read();
    let mut rewritten = false;
    if after_failed_sync {
        rewrite_wal(store, db)?;
        rewritten = true;
    }
    loop {
        let tx = db.begin().map_err(failed)?;
        let view = StoreView::load(&tx).map_err(failed)?;
        let losses = loss::load(&tx).map_err(failed)?;
        let newest = view.newest_stamp().map_err(failed)?.max(loss::newest(&losses));
        let known = mark.ahead_of(newest).unwrap_or(newest);
        if known > NEWEST_STAMP {
            // A loss with such a stamp cannot be stored, and would be detected again and again.
            let expected = format!("stamps up to {NEWEST_STAMP}");
            return Err(
                Damage::integrity(Part::Wal, expected, format!("{known} in {}", store.location())).into()
            );
        }
        if !rewritten && mark.is_behind(newest) {
            drop(tx);
            rewrite_wal(store, db)?;
            rewritten = true;
            continue;
        }
        if let Some(expected) = mark.ahead_of(newest) {
            // If the copy fails, nothing can be recovered later, but that is no reason to refuse the save.
            let kept = loss::keep_copy(&store.path).unwrap_or_default();
            let loss = Loss { found: newest, expected, acknowledged: false, kept };
            loss::store(&tx, &loss).map_err(failed)?;
            tx.commit().map_err(failed)?;
            continue;
        }
        let (value, newest, adds) = match work(&tx, &view, &Numbering { newest, losses })? {
            Outcome::Unchanged(value) => return Ok(Attempt::Acknowledged(value)),
            Outcome::Changed { value, newest, adds } => (value, Some(newest), adds),
            Outcome::Unsynced(value) => (value, None, Vec::new()),
        };
        let not_acknowledged =
            |source| StoreError::NotAcknowledged { location: store.location(), may_appear: adds, source };
        match tx.commit() {
            Err(e) if is_failed_sync(&e) => return Ok(Attempt::CommitFailed(not_acknowledged(e.into()))),
            committed => committed.map_err(failed)?,
        }
        let Some(newest) = newest else { return Ok(Attempt::Acknowledged(value)) };
        if let Err(e) = db.sync_commit() {
            // Readers already see the commit, so it is not repeated; its frames are rewritten and synced.
            rewrite_wal(store, db).map_err(|_| not_acknowledged(e.into()))?;
        }
        store.mark.set(newest);
        return Ok(Attempt::Acknowledged(value));
    }
}

/// Whether a failed COMMIT may have left complete frames in the file, where the next process that opens it
/// finds them. Only an error while writing the frames shows that they are incomplete.
fn is_failed_sync(e: &rusqlite::Error) -> bool {
    use rusqlite::ffi::{SQLITE_IOERR, SQLITE_IOERR_WRITE};
    let code = e.sqlite_error().map_or(0, |error| error.extended_code);
    code & 0xff == SQLITE_IOERR && code != SQLITE_IOERR_WRITE
}

/// Rewrites and syncs the WAL, so that everything it contains is on disk.
fn rewrite_wal(store: &SqliteStore, db: &Db) -> Result<(), StoreError> {
    let indexed = db.frames().map_err(|e| store.write_error(e))?;
    let rewritten = db.rewrite_wal().map_err(|e| store.io_error(e))?;
    if rewritten < indexed {
        let expected = format!("{indexed} intact frames");
        return Err(
            Damage::integrity(Part::Wal, expected, format!("{rewritten} in {}", store.location())).into()
        );
    }
    Ok(())
}
