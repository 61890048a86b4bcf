//! The append log. A commit that only adds one checkpoint becomes one row with the header, the document, the
//! run's record and the events, so that it touches few pages. A later commit without a checkpoint becomes a row with
//! only the record and the events. After several commits, all rows are merged into the other tables together. Private
//! to `view`: no other module reads or writes these rows.

use std::collections::HashSet;

use rusqlite::{Connection, OptionalExtension, Result, params};

use super::{StoreView, runs};
use crate::model::{Event, RunRecord};
use crate::seal::Sealed;
use crate::store::check::checksum;
use crate::store::sqlite::decode::{self, EVENTS_PER_STAMP, RunTableRow, bytes, integer, number, text};
use crate::store::sqlite::{attachments, frames, rows, thread_positions};
use crate::store::{Damage, Part, Row, frame};

/// The next save merges the rows once there are this many.
const MERGE_AT_ROWS: usize = 8;
/// The next save merges the rows once their documents reach this total size, in bytes.
const MERGE_AT_BYTES: usize = 256 * 1024;

/// A row without its large columns.
#[derive(Debug)]
pub(super) struct AppendedRow {
    pub(super) stamp: u64,
    pub(super) n: i64,
    /// The checkpoint's sequence number; in a row without a checkpoint, that of the run's newest checkpoint.
    pub(super) sequence: u64,
    has_checkpoint: bool,
    /// Sequences that this commit removed; `None` if the list is damaged.
    drops: Option<Vec<u64>>,
    size: usize,
    /// Whether only the damaged header and its document remain here, because the rest has been merged. Such a
    /// row has an empty run checksum.
    pub(super) unmerged_header: bool,
}

/// All rows, oldest first, and the checkpoints that they removed.
#[derive(Debug, Default)]
pub(super) struct AppendLog {
    rows: Vec<AppendedRow>,
    gone: HashSet<(i64, u64)>,
}

impl AppendLog {
    pub(super) fn load(tx: &Connection) -> Result<Self> {
        let mut statement = tx.prepare_cached(
            "SELECT stamp, run_n, sequence, run_sum = x'', drops, length(body) FROM append_log ORDER BY stamp",
        )?;
        let mut rows = statement.query([])?;
        let mut log = Self::default();
        while let Some(row) = rows.next()? {
            let (stamp, n) = (number(row, 0)?, row.get(1)?);
            let (sequence, has_checkpoint) = decode_sequence(row.get(2)?);
            let unmerged_header = row.get(3)?;
            let drops =
                if unmerged_header { Some(Vec::new()) } else { parse_drops(n, stamp, &bytes(row, 4)?) };
            log.gone.extend(drops.iter().flatten().map(|sequence| (n, *sequence)));
            let size = row.get::<_, Option<i64>>(5)?.unwrap_or(0) as usize;
            log.rows.push(AppendedRow { stamp, n, sequence, has_checkpoint, drops, size, unmerged_header });
        }
        Ok(log)
    }

    /// Whether one of these rows removed a checkpoint.
    pub(super) fn has_removed(&self, n: i64, sequence: u64) -> bool {
        !self.gone.is_empty() && self.gone.contains(&(n, sequence))
    }

    /// Number of removed checkpoints that have not been deleted from the tables yet.
    pub(super) fn removed(&self) -> usize {
        self.gone.len()
    }

    /// The rows with a checkpoint that has not been removed, oldest first.
    pub(super) fn rows(&self) -> impl DoubleEndedIterator<Item = &AppendedRow> {
        self.rows.iter().filter(|row| row.has_checkpoint && !self.has_removed(row.n, row.sequence))
    }

    /// The rows of one run with a checkpoint that has not been removed, oldest first.
    pub(super) fn of(&self, n: i64) -> impl DoubleEndedIterator<Item = &AppendedRow> {
        self.rows().filter(move |row| row.n == n)
    }

    /// Whether a row of a run removed checkpoints.
    pub(super) fn has_removed_any(&self, n: i64) -> bool {
        self.gone.iter().any(|(of, _)| *of == n)
    }

    /// The stamp of the newest write to the store, if the append log contains it.
    pub(super) fn newest(&self) -> Option<u64> {
        self.rows.last().filter(|row| !row.unmerged_header).map(|row| row.stamp)
    }

    /// The newest row with a record of the run.
    pub(super) fn latest_for_run(&self, n: i64) -> Option<&AppendedRow> {
        self.rows.iter().rev().find(|row| row.n == n && !row.unmerged_header)
    }

    /// The runs whose newest record is in the append log.
    pub(super) fn runs(&self) -> HashSet<i64> {
        self.rows.iter().filter(|row| !row.unmerged_header).map(|row| row.n).collect()
    }

    /// Whether there are no rows.
    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Whether there are enough rows, or enough bytes, to merge them.
    pub(super) fn is_full(&self) -> bool {
        let waiting = self.rows.iter().filter(|row| !row.unmerged_header);
        let (rows, size) = waiting.fold((0, 0), |(rows, size), row| (rows + 1, size + row.size));
        rows >= MERGE_AT_ROWS || size >= MERGE_AT_BYTES
    }
}

/// The column `sequence` of a row without a checkpoint. It is negative, so that no query for a checkpoint finds the
/// row.
fn encode_no_checkpoint(newest: u64) -> i64 {
    -1 - integer(newest)
}

/// The sequence number in the column `sequence`, and whether the row contains a checkpoint.
fn decode_sequence(column: i64) -> (u64, bool) {
    match u64::try_from(column) {
        Ok(sequence) => (sequence, true),
        Err(_) => (column.wrapping_add(1).unsigned_abs(), false),
    }
}

fn drops_checksum(n: i64, stamp: u64, drops: &[u8]) -> [u8; 16] {
    checksum(Part::Run, &[b"drops", &n.to_le_bytes(), &stamp.to_le_bytes()], drops)
}

/// Encodes removed sequence numbers with their checksum in front; empty if there are none.
fn write_drops(n: i64, stamp: u64, drops: &[u64]) -> Vec<u8> {
    if drops.is_empty() {
        return Vec::new();
    }
    let list: Vec<u8> = drops.iter().flat_map(|sequence| sequence.to_le_bytes()).collect();
    [&drops_checksum(n, stamp, &list)[..], &list].concat()
}

fn parse_drops(n: i64, stamp: u64, stored: &[u8]) -> Option<Vec<u64>> {
    if stored.is_empty() {
        return Some(Vec::new());
    }
    let (sum, list) = stored.split_at_checked(16)?;
    let (list, rest) = list.as_chunks::<8>();
    let proven = rest.is_empty() && drops_checksum(n, stamp, list.as_flattened())[..] == *sum;
    proven.then(|| list.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect())
}

/// The columns of a row that describe its checkpoint.
#[derive(Default)]
struct AppendedCheckpoint {
    sequence: i64,
    id: String,
    header_sum: Vec<u8>,
    header: String,
    body_sum: Vec<u8>,
    body: Vec<u8>,
}

impl AppendedCheckpoint {
    fn of(n: i64, sealed: &Sealed) -> Result<Self> {
        let header = sealed.header();
        let body = frame::newest(sealed.bytes()).map_err(frames::packing)?;
        let (text, sum) = rows::header_text(n, sealed)?;
        Ok(Self {
            sequence: integer(header.sequence),
            id: header.snapshot_id.as_str().to_owned(),
            header_sum: sum.to_vec(),
            header: text,
            body_sum: frames::frame_checksum(n, header.sequence, 0, 0, &body).to_vec(),
            body,
        })
    }

    /// The columns of a row without a checkpoint, given the sequence number of the run's newest one.
    fn none(newest: u64) -> Self {
        Self { sequence: encode_no_checkpoint(newest), ..Self::default() }
    }
}

impl StoreView<'_> {
    /// Decodes the run `run_id` from its newest appended row.
    pub(super) fn appended_run(&self, row: &AppendedRow, run_id: &str) -> Result<RunTableRow> {
        // These are the columns of `decode::RUN`. `encode_no_checkpoint` made a negative number.
        let select = "SELECT run_n, ?2, stamp, iif(sequence < 0, -1 - sequence, sequence), count, events, run_sum, \
                      record FROM append_log WHERE stamp = ?1";
        let mut run_row = self
            .tx
            .prepare_cached(select)?
            .query_row(params![integer(row.stamp), run_id], decode::run_table_row)?;
        if self.log.rows.iter().any(|other| other.n == row.n && other.drops.is_none()) {
            run_row.record =
                Err(Damage::integrity(Part::Run, "an intact list of removed checkpoints", "a damaged one"));
        }
        Ok(run_row)
    }

    /// Decodes the header of a row.
    pub(super) fn appended_entry(&self, row: &AppendedRow) -> Result<Row> {
        let select = "SELECT run_n, sequence, snapshot_id, stamp, header_sum, header, NULL, NULL, NULL FROM append_log \
                      WHERE stamp = ?1";
        self.tx.prepare_cached(select)?.query_row([integer(row.stamp)], decode::entry)
    }

    /// The frame of an appended document and its checksum.
    pub(super) fn appended_frame(&self, n: i64, sequence: u64) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        let select = "SELECT body, body_sum FROM append_log WHERE run_n = ?1 AND sequence = ?2";
        let found = |row: &rusqlite::Row<'_>| Ok((bytes(row, 0)?, bytes(row, 1)?));
        self.tx.prepare_cached(select)?.query_row(params![n, integer(sequence)], found).optional()
    }

    /// Whether the append log has enough rows to merge.
    pub(in crate::store::sqlite) fn is_merge_due(&self) -> bool {
        self.log.is_full()
    }

    /// Whether the append log has no rows.
    pub(in crate::store::sqlite) fn is_log_empty(&self) -> bool {
        self.log.is_empty()
    }

    /// Whether checkpoints of a run have been removed that are still in the tables.
    pub(in crate::store::sqlite) fn has_removed_any(&self, n: i64) -> bool {
        self.log.has_removed_any(n)
    }

    /// Appends one commit: its checkpoint, if it has one, the run's new record, the sequence numbers it removes,
    /// and its events.
    pub(in crate::store::sqlite) fn append(
        &self,
        run_row: &RunTableRow,
        record: &RunRecord,
        sealed: Option<&Sealed>,
        drops: &[u64],
        events: &[Event],
    ) -> Result<()> {
        let appended = match sealed {
            Some(sealed) => AppendedCheckpoint::of(run_row.n, sealed)?,
            None => AppendedCheckpoint::none(run_row.last_sequence),
        };
        let (events, event) = (events.len() as u64, rows::json(&events)?);
        let event_sum =
            decode::event_checksum(run_row.n, run_row.stamp * EVENTS_PER_STAMP, events, event.as_bytes());
        let record_text = rows::json(record)?;
        self.tx.prepare_cached(
            "INSERT INTO append_log (stamp, run_n, sequence, snapshot_id, count, events, event_count, drops, run_sum, \
             header_sum, event_sum, body_sum, header, record, event, body) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)",
        )?
        .execute(params![
            integer(run_row.stamp),
            run_row.n,
            appended.sequence,
            appended.id,
            integer(run_row.count),
            integer(run_row.events),
            integer(events),
            write_drops(run_row.n, run_row.stamp, drops),
            decode::run_checksum(run_row, record, &record_text),
            appended.header_sum,
            event_sum,
            appended.body_sum,
            appended.header,
            record_text,
            event,
            appended.body
        ])?;
        Ok(())
    }

    /// Merges all rows into the other tables and returns a view of the result. This must happen before those
    /// tables are changed. Copies all bytes unchanged, including damaged ones. A row with a damaged header
    /// stays here with its document for repair.
    pub(in crate::store::sqlite) fn merge(&self) -> Result<Self> {
        let (tx, log) = (self.tx, &self.log);
        let waiting: Vec<_> = log.rows.iter().filter(|row| !row.unmerged_header).collect();
        if waiting.is_empty() {
            return Self::load(tx);
        }
        tx.prepare_cached(
            "INSERT INTO event SELECT run_n, stamp * ?1, event_count, event_sum, event FROM append_log WHERE event_count > 0",
        )?
        .execute([integer(EVENTS_PER_STAMP)])?;
        for n in log.runs() {
            if let Some(row) = log.latest_for_run(n) {
                self.merge_run(row)?;
            }
        }
        let mut trusted = Vec::new();
        for row in waiting.iter().filter(|row| row.has_checkpoint) {
            match self.appended_entry(row)? {
                Row::Intact(entry) => {
                    thread_positions::put(tx, row.n, &entry.header)?;
                    trusted.push((row.n, row.sequence));
                }
                Row::Damaged { .. } => {
                    let keep = "UPDATE append_log SET run_sum = x'', record = '', drops = x'', event = '', event_count = 0 \
                                WHERE stamp = ?1";
                    tx.execute(keep, [integer(row.stamp)])?;
                }
            }
        }
        for statement in [
            "INSERT INTO whole SELECT stamp, body_sum, body FROM append_log WHERE run_sum <> x'' AND sequence >= 0",
            "INSERT INTO checkpoint SELECT run_n, sequence, snapshot_id, stamp, header_sum, header FROM append_log \
             WHERE run_sum <> x'' AND sequence >= 0",
            "DELETE FROM append_log WHERE run_sum <> x''",
        ] {
            tx.prepare_cached(statement)?.execute([])?;
        }
        let mut last = None;
        for (n, sequence) in trusted {
            frames::pack_older(tx, n, sequence, &mut last)?;
        }
        // Drop the checkpoints of a run together: most of their sequence numbers are consecutive.
        for n in log.runs() {
            let mut drops: Vec<_> =
                log.gone.iter().filter(|(of, _)| *of == n).map(|(_, sequence)| *sequence).collect();
            drops.sort_unstable();
            self.drop_checkpoints(n, &drops)?;
        }
        Self::load(tx)
    }

    /// Writes a run's own row from its newest appended row. Its events must already be merged.
    fn merge_run(&self, row: &AppendedRow) -> Result<()> {
        let tx = self.tx;
        let Some(before) = runs::merged_run(tx, row.n)? else { return Ok(()) };
        let added = "SELECT sum(event_count) FROM append_log WHERE run_n = ?1";
        let events = match &before.record {
            Ok(_) => {
                before.events + tx.prepare_cached(added)?.query_row([row.n], |found| number(found, 0))?
            }
            Err(_) => self.merged_event_count(row.n)?,
        };
        let mut run_row = self.appended_run(row, &before.run_id)?;
        // Only the run's own row accounts for the events that were trimmed.
        run_row.events = events;
        rows::trim_events(tx, &mut run_row)?;
        let text = tx
            .prepare_cached("SELECT record FROM append_log WHERE stamp = ?1")?
            .query_row([integer(row.stamp)], |found| text(found, 0))?;
        let sum = match &run_row.record {
            Ok(record) => decode::run_checksum(&run_row, record, &text).to_vec(),
            Err(_) => Vec::new(),
        };
        rows::set_run(tx, &run_row, &sum, &text)
    }

    /// Moves the document of a row with a damaged header to `whole`, so that the header can be rewritten.
    pub(in crate::store::sqlite) fn release_document(&self, n: i64, sequence: u64, stamp: u64) -> Result<()> {
        let at = params![n, integer(sequence), integer(stamp)];
        let row = "FROM append_log WHERE run_sum = x'' AND run_n = ?1 AND sequence = ?2 AND stamp = ?3";
        self.tx.execute(&format!("INSERT OR IGNORE INTO whole SELECT stamp, body_sum, body {row}"), at)?;
        self.tx.execute(&format!("DELETE {row}"), at)?;
        Ok(())
    }

    /// Removes checkpoints from the tables after a merge, including those that could not be merged. Returns
    /// the number of removed checkpoints.
    pub(in crate::store::sqlite) fn drop_checkpoints(&self, n: i64, sequences: &[u64]) -> Result<u64> {
        attachments::drop_with_checkpoints(self.tx, n, sequences)?;
        let mut gone = rows::drop_checkpoints(self.tx, n, sequences)?;
        let unmerged = "DELETE FROM append_log WHERE run_sum = x'' AND run_n = ?1 AND sequence = ?2";
        for sequence in sequences {
            gone += self.tx.prepare_cached(unmerged)?.execute(params![n, integer(*sequence)])? as u64;
        }
        Ok(gone)
    }
}
