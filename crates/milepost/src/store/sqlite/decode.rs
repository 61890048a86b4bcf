//! Decodes rows of the tables and verifies each against its checksum. A row that fails is reported and does
//! not affect the others. Runs no queries.

use rusqlite::types::ValueRef;
use rusqlite::{Result, Row as SqlRow};

use super::verified_cache;
use crate::model::{Marks, RunRecord};
use crate::seal::Header;
use crate::store::check::checksum;
pub(super) use crate::store::check::{compare, parse, prove};
use crate::store::{CheckpointEntry, Cursor, Damage, Part, Row};

/// A row of `run`. `record` is an error if the row failed verification.
pub(super) struct RunTableRow {
    pub(super) n: i64,
    pub(super) run_id: String,
    pub(super) stamp: u64,
    pub(super) last_sequence: u64,
    pub(super) count: u64,
    pub(super) events: u64,
    pub(super) record: std::result::Result<Box<RunRecord>, Damage>,
    /// Whether damage changed the id in the row.
    pub(super) renamed: bool,
}

/// Bytes of a text or blob column; empty for any other type.
fn slice<'a>(row: &'a SqlRow<'_>, at: usize) -> Result<&'a [u8]> {
    Ok(match row.get_ref(at)? {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes,
        _ => &[],
    })
}

/// Like `slice`, but owned.
pub(super) fn bytes(row: &SqlRow<'_>, at: usize) -> Result<Vec<u8>> {
    slice(row, at).map(<[u8]>::to_vec)
}

/// Parses a text column. Returns `None` if it is not valid.
pub(super) fn parsed<T: std::str::FromStr>(row: &SqlRow<'_>, at: usize) -> Result<Option<T>> {
    Ok(std::str::from_utf8(slice(row, at)?).ok().and_then(|text| text.parse().ok()))
}

pub(super) fn text(row: &SqlRow<'_>, at: usize) -> Result<String> {
    bytes(row, at).map(|b| String::from_utf8_lossy(&b).into_owned())
}

pub(super) fn number(row: &SqlRow<'_>, at: usize) -> Result<u64> {
    row.get::<_, i64>(at).map(|n| n as u64)
}

/// Converts a number to SQLite's integer type. A number out of range becomes one that no row reaches.
pub(super) fn integer(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

fn run_key(run_row: &RunTableRow) -> [[u8; 8]; 5] {
    [run_row.n as u64, run_row.stamp, run_row.last_sequence, run_row.count, run_row.events]
        .map(u64::to_le_bytes)
}

/// Computes the checksum of a run's row and caches the record, which the next write to the run reads first.
pub(super) fn run_checksum(run_row: &RunTableRow, record: &RunRecord, text: &str) -> [u8; 16] {
    let key = run_key(run_row);
    let key = [run_row.run_id.as_bytes(), &key[0], &key[1], &key[2], &key[3], &key[4]];
    let sum = checksum(Part::Run, &key, text.as_bytes());
    verified_cache::remember(&verified_cache::RECORDS, &key, text.as_bytes(), &sum, record);
    sum
}

/// Columns that `run_table_row` decodes.
pub(super) const RUN: &str = "n, run_id, stamp, last_sequence, count, events, checksum, record";

pub(super) fn run_table_row(row: &SqlRow<'_>) -> Result<RunTableRow> {
    let mut run_row = RunTableRow {
        n: row.get(0)?,
        run_id: text(row, 1)?,
        stamp: number(row, 2)?,
        last_sequence: number(row, 3)?,
        count: number(row, 4)?,
        events: number(row, 5)?,
        record: Err(Damage::integrity(Part::Run, "", "")),
        renamed: false,
    };
    let (stored, value) = (slice(row, 6)?, slice(row, 7)?);
    let key = run_key(&run_row);
    let key = [run_row.run_id.as_bytes(), &key[0], &key[1], &key[2], &key[3], &key[4]];
    let record = verified_cache::recall(&verified_cache::RECORDS, &key, value, stored, || {
        prove(Part::Run, &key, value, stored)?;
        parse(Part::Run, value)
    });
    run_row.record = record.map(Box::new);
    Ok(run_row)
}

pub(super) fn header_key(n: i64, sequence: u64, stamp: u64) -> [[u8; 8]; 3] {
    [n as u64, sequence, stamp].map(u64::to_le_bytes)
}

/// Columns that `entry` decodes, and their tables.
pub(super) const ENTRY: &str = "c.run_n, c.sequence, c.snapshot_id, c.stamp, c.checksum, c.header, \
                     m.revision, m.checksum, m.marks \
                     FROM checkpoint c LEFT JOIN marks m ON m.run_n = c.run_n AND m.sequence = c.sequence";

/// Number of columns that `entry` decodes.
pub(super) const ENTRY_COLUMNS: usize = 9;

/// Decodes a row that a writer may read again in its next write. Caches its header.
pub(super) fn entry(row: &SqlRow<'_>) -> Result<Row> {
    let header = |key: &[&[u8]], value: &[u8], stored: &[u8]| {
        verified_cache::recall(&verified_cache::HEADERS, key, value, stored, || {
            proven_header(key, value, stored)
        })
    };
    in_list(row, proven(row, header)?)
}

/// Decodes a row of a possibly long list. Does not cache it: that would evict rows that writers need.
pub(super) fn listed(row: &SqlRow<'_>) -> Result<Row> {
    in_list(row, proven(row, proven_header)?)
}

/// Parses the header of a row if its checksum matches.
pub(super) fn proven_header<T: serde::de::DeserializeOwned>(
    key: &[&[u8]],
    value: &[u8],
    stored: &[u8],
) -> std::result::Result<T, Damage> {
    prove(Part::Header, key, value, stored)?;
    parse(Part::Header, value)
}

/// Decodes the header of a row with `header`, and its marks if their checksum matches.
pub(super) fn proven<T>(
    row: &SqlRow<'_>,
    header: impl FnOnce(&[&[u8]], &[u8], &[u8]) -> std::result::Result<T, Damage>,
) -> Result<std::result::Result<(T, Marks), Damage>> {
    let (n, sequence, stamp): (i64, u64, u64) = (row.get(0)?, number(row, 1)?, number(row, 3)?);
    let id = slice(row, 2)?;
    let key = header_key(n, sequence, stamp);
    let header = match header(&[id, &key[0], &key[1], &key[2]], slice(row, 5)?, slice(row, 4)?) {
        Ok(header) => header,
        Err(damage) => return Ok(Err(damage)),
    };
    let marks = slice(row, 8)?;
    if marks.is_empty() && matches!(row.get_ref(7)?, ValueRef::Null) {
        return Ok(Ok((header, Marks::default())));
    }
    let revision = number(row, 6)?.to_le_bytes();
    let proven = prove(Part::Marks, &[id, &key[0], &key[1], &revision], marks, slice(row, 7)?);
    Ok(proven.and_then(|()| parse(Part::Marks, marks)).map(|marks| (header, marks)))
}

/// Converts a decoded row to a list row. A damaged row keeps its id if that can still be read.
fn in_list(row: &SqlRow<'_>, proven: std::result::Result<(Header, Marks), Damage>) -> Result<Row> {
    let damage = match proven {
        Ok((header, marks)) => return Ok(Row::Intact(CheckpointEntry { header, marks })),
        Err(damage) => damage,
    };
    let cursor = Cursor { sequence: number(row, 1)?, stamp: number(row, 3)? };
    let hint = serde_json::from_slice::<Header>(slice(row, 5)?).ok();
    let damage = damage.at(hint.as_ref().map(|header| &header.run_id), Some(cursor.sequence));
    let id = hint.map(|header| header.snapshot_id).or_else(|| text(row, 2).ok()?.parse().ok());
    Ok(Row::Damaged { damage: damage.named(id), cursor })
}

/// Number of event positions reserved for each stamp.
pub(super) const EVENTS_PER_STAMP: u64 = 1024;

pub(super) fn event_checksum(run_n: i64, n: u64, count: u64, events: &[u8]) -> [u8; 16] {
    let key = [run_n as u64, n, count].map(u64::to_le_bytes);
    checksum(Part::Event, &[&key[0], &key[1], &key[2]], events)
}
