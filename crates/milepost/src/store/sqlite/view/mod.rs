//! One consistent view of the tables, used for every read of runs, checkpoints, documents and events.
//! Takes an open transaction and presents each kind of row as if it were in one table. The append log,
//! which contains the latest saves until they are merged, is private to this module; writers append to it
//! and merge it through the view.

mod append_log;
mod checkpoints;
mod events;
mod retention;
mod runs;
mod thread_positions;

use std::collections::BTreeSet;

use rusqlite::{Connection, Result, params};

use self::append_log::AppendLog;
use super::decode::{compare, integer, number};
use super::frames::{self, Document};
use super::loss::{self, Loss};
use super::rows;
use crate::model::CheckpointId;
use crate::store::Part;

/// The tables as seen by one transaction.
pub(super) struct StoreView<'a> {
    tx: &'a Connection,
    log: AppendLog,
}

/// Key of a checkpoint: the row number of its run, its sequence number and its stamp.
pub(super) type CheckpointKey = (i64, u64, u64);

impl<'a> StoreView<'a> {
    pub(super) fn load(tx: &'a Connection) -> Result<Self> {
        Ok(Self { tx, log: AppendLog::load(tx)? })
    }

    /// Loads a view of a damaged file. An unreadable append log counts as empty.
    pub(super) fn load_readable(tx: &'a Connection) -> Self {
        Self { tx, log: AppendLog::load(tx).unwrap_or_default() }
    }

    /// The connection that the view reads.
    pub(super) fn connection(&self) -> &Connection {
        self.tx
    }

    /// Reads a document. Returns `None` if the checkpoint does not exist.
    pub(super) fn document(&self, n: i64, sequence: u64) -> Result<Option<Document>> {
        if self.log.has_removed(n, sequence) {
            return Ok(None);
        }
        self.document_or_removed(n, sequence)
    }

    /// Like `document`, but also reads a document that a save removed and that is still in a table.
    pub(super) fn document_or_removed(&self, n: i64, sequence: u64) -> Result<Option<Document>> {
        let Some((data, sum)) = self.appended_frame(n, sequence)? else {
            return frames::read(self.tx, n, sequence);
        };
        let proven = compare(Part::Body, frames::frame_checksum(n, sequence, 0, 0, &data), &sum);
        Ok(Some(proven.and_then(|()| frames::unpack(&data, &[]))))
    }

    /// Whether a checkpoint of any run has this id.
    pub(super) fn is_id_taken(&self, id: &CheckpointId) -> Result<bool> {
        let taken = "SELECT 1 FROM checkpoint WHERE snapshot_id = ?1 \
                     UNION ALL SELECT 1 FROM append_log WHERE snapshot_id = ?1";
        self.tx.prepare_cached(taken)?.exists([id.as_str()])
    }

    /// Whether a run has a checkpoint with this sequence number.
    pub(super) fn has_checkpoint(&self, n: i64, sequence: u64) -> Result<bool> {
        if self.log.has_removed(n, sequence) {
            return Ok(false);
        }
        let merged = "SELECT 1 FROM checkpoint WHERE run_n = ?1 AND sequence = ?2";
        Ok(self.log.of(n).any(|row| row.sequence == sequence)
            || self.tx.prepare_cached(merged)?.exists(params![n, integer(sequence)])?)
    }

    /// The newest stamp: that of the newest write to any run, or the floor left by deleted runs.
    pub(super) fn newest_stamp(&self) -> Result<u64> {
        if let Some(stamp) = self.log.newest() {
            return Ok(stamp);
        }
        let newest = "SELECT ifnull(max(stamp), 0) FROM run";
        let newest = self.tx.prepare_cached(newest)?.query_row([], |row| number(row, 0))?;
        Ok(newest.max(rows::stamp_floor(self.tx)?))
    }

    /// Collects the keys of all checkpoints that any index of a damaged file still reaches. Also returns
    /// whether appended rows may be missing.
    pub(super) fn survey(tx: &'a Connection) -> (BTreeSet<CheckpointKey>, bool) {
        let mut keys = BTreeSet::new();
        for scan in [
            "SELECT run_n, sequence, stamp FROM checkpoint ORDER BY run_n, sequence",
            "SELECT run_n, sequence, stamp FROM checkpoint ORDER BY run_n DESC, sequence DESC",
            "SELECT run_n, sequence, stamp FROM checkpoint INDEXED BY checkpoint_id ORDER BY snapshot_id",
            "SELECT run_n, sequence, stamp FROM checkpoint INDEXED BY checkpoint_id ORDER BY snapshot_id DESC",
            "SELECT run_n, sequence, stamp FROM append_log WHERE sequence >= 0 ORDER BY stamp",
            "SELECT run_n, sequence, stamp FROM append_log WHERE sequence >= 0 ORDER BY stamp DESC",
        ] {
            // Each scan stops where the damage begins.
            let _ = collect_keys(tx, scan, &mut keys);
        }
        let log = AppendLog::load(tx);
        let incomplete = log.is_err();
        let log = log.unwrap_or_default();
        keys.retain(|(n, sequence, _)| !log.has_removed(*n, *sequence));
        (keys, incomplete)
    }

    /// Row numbers of the runs that have a checkpoint with this sequence number and stamp.
    pub(super) fn runs_at(&self, sequence: u64, stamp: u64) -> Result<Vec<i64>> {
        let keys = "SELECT run_n FROM checkpoint WHERE sequence = ?1 AND stamp = ?2 \
                      UNION ALL SELECT run_n FROM append_log WHERE sequence = ?1 AND stamp = ?2";
        let mut statement = self.tx.prepare(keys)?;
        statement.query_map(params![integer(sequence), integer(stamp)], |row| row.get(0))?.collect()
    }

    /// The stamp of a checkpoint.
    pub(super) fn stamp_of(&self, n: i64, sequence: u64) -> Result<u64> {
        let stamp = "SELECT stamp FROM checkpoint WHERE run_n = ?1 AND sequence = ?2 \
                     UNION ALL SELECT stamp FROM append_log WHERE run_n = ?1 AND sequence = ?2";
        self.tx.query_row(stamp, params![n, integer(sequence)], |row| number(row, 0))
    }

    /// Acknowledged writes that the database has lost.
    pub(super) fn losses(&self) -> Result<Vec<Loss>> {
        loss::load(self.tx)
    }

    /// Removes all rows of a run. The append log must be merged first.
    pub(super) fn delete_run(&self, n: i64) -> Result<()> {
        rows::delete_run(self.tx, n)?;
        self.tx.execute("DELETE FROM append_log WHERE run_n = ?1", [n])?;
        Ok(())
    }
}

fn collect_keys(tx: &Connection, scan: &str, keys: &mut BTreeSet<CheckpointKey>) -> Result<()> {
    let mut statement = tx.prepare(scan)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        keys.insert((row.get(0)?, number(row, 1)?, number(row, 2)?));
    }
    Ok(())
}
