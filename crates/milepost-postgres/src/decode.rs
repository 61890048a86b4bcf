//! Decodes rows of the tables and verifies each against its checksum. A row that fails is reported and does not
//! affect the others. Runs no statements.

use std::time::Duration;

use milepost::internal::store::check::{checksum, parse, prove};
use milepost::model::{Marks, RunId, RunRecord};
use milepost::store::{CheckpointEntry, Cursor, Damage, Header, Part, Row};
use tokio_postgres::Row as SqlRow;
use tokio_postgres::types::FromSql;

use crate::error::PostgresError;

/// Converts a number to the server's integer type. A number out of range becomes one that no row reaches.
pub(crate) fn integer(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// A column of a row.
pub(crate) fn column<'a, T: FromSql<'a>>(row: &'a SqlRow, at: &str) -> Result<T, PostgresError> {
    row.try_get(at).map_err(|e| PostgresError::Value { message: e.to_string() })
}

pub(crate) fn number(row: &SqlRow, at: &str) -> Result<u64, PostgresError> {
    column::<i64>(row, at).map(|n| n as u64)
}

/// A row of `run`. `record` is an error if the row failed verification.
#[derive(Debug, Clone)]
pub(crate) struct RunTableRow {
    pub(crate) n: i64,
    pub(crate) run_id: String,
    /// The project under which the run is listed; empty if it has none.
    pub(crate) project: String,
    pub(crate) stamp: u64,
    pub(crate) last_sequence: u64,
    pub(crate) count: u64,
    /// Number of events written so far, which is also the position of the newest.
    pub(crate) events: u64,
    /// Number of events that were removed.
    pub(crate) events_from: u64,
    /// Number of commits so far. Together with `stamp`, what a commit compares before it writes.
    pub(crate) commits: u64,
    /// `stamp` and `commits` as they are in the row, even if the row is damaged.
    pub(crate) stored: (u64, u64),
    pub(crate) record: Result<Box<RunRecord>, Damage>,
    pub(crate) age: Option<Duration>,
    pub(crate) user: Option<String>,
    pub(crate) users: Vec<String>,
    pub(crate) host: Option<String>,
}

/// Columns of `run` that `run_table_row` decodes. The table's alias is `r`.
pub(crate) const RUN: &str = "r.n AS r_n, r.run_id AS r_run_id, r.project AS r_project, r.stamp AS r_stamp, \
    r.last_sequence AS r_last_sequence, r.count AS r_count, r.events AS r_events, \
    r.events_from AS r_events_from, r.commits AS r_commits, r.checksum AS r_checksum, r.record AS r_record, \
    (extract(epoch FROM clock_timestamp() - r.written_at) * 1000000)::bigint AS r_age, \
    r.written_by AS r_user, r.users AS r_users, r.written_from AS r_host";

/// The checksum of a run's row.
pub(crate) fn run_checksum(row: &RunTableRow, record: &str) -> [u8; 16] {
    let key = run_key(row);
    checksum(Part::Run, &[row.run_id.as_bytes(), &key.concat()], record.as_bytes())
}

fn run_key(row: &RunTableRow) -> [[u8; 8]; 7] {
    [row.n as u64, row.stamp, row.last_sequence, row.count, row.events, row.events_from, row.commits]
        .map(u64::to_le_bytes)
}

pub(crate) fn run_table_row(row: &SqlRow) -> Result<RunTableRow, PostgresError> {
    let age: i64 = column(row, "r_age")?;
    let mut found = RunTableRow {
        n: column(row, "r_n")?,
        run_id: column(row, "r_run_id")?,
        project: column(row, "r_project")?,
        stamp: number(row, "r_stamp")?,
        last_sequence: number(row, "r_last_sequence")?,
        count: number(row, "r_count")?,
        events: number(row, "r_events")?,
        events_from: number(row, "r_events_from")?,
        commits: number(row, "r_commits")?,
        stored: (number(row, "r_stamp")?, number(row, "r_commits")?),
        record: Err(Damage::integrity(Part::Run, "", "")),
        // The server's clock can be set back.
        age: Some(Duration::from_micros(age.max(0) as u64)),
        user: column(row, "r_user")?,
        users: column(row, "r_users")?,
        host: column(row, "r_host")?,
    };
    found.users.sort();
    let (stored, value): (&[u8], &str) = (column(row, "r_checksum")?, column(row, "r_record")?);
    let key = run_key(&found).concat();
    let proven = prove(Part::Run, &[found.run_id.as_bytes(), &key], value.as_bytes(), stored);
    found.record = proven.and_then(|()| parse(Part::Run, value.as_bytes())).map(Box::new);
    Ok(found)
}

/// Columns of a checkpoint and its marks that `entry` decodes. The aliases are `c` and `m`.
pub(crate) const ENTRY: &str = "c.run_n AS c_run_n, c.sequence AS c_sequence, c.snapshot_id AS c_snapshot_id, \
    c.stamp AS c_stamp, c.checksum AS c_checksum, c.header AS c_header, m.revision AS m_revision, \
    m.checksum AS m_checksum, m.marks AS m_marks";

/// Joins the marks of a checkpoint.
pub(crate) const WITH_MARKS: &str = "LEFT JOIN {s}.marks m ON m.run_n = c.run_n AND m.sequence = c.sequence";

pub(crate) fn header_checksum(n: i64, sequence: u64, stamp: u64, id: &str, header: &str) -> [u8; 16] {
    let key = [n as u64, sequence, stamp].map(u64::to_le_bytes).concat();
    checksum(Part::Header, &[id.as_bytes(), &key], header.as_bytes())
}

pub(crate) fn marks_checksum(n: i64, sequence: u64, revision: u64, marks: &str) -> [u8; 16] {
    let key = [n as u64, sequence, revision].map(u64::to_le_bytes).concat();
    checksum(Part::Marks, &[&key], marks.as_bytes())
}

/// Decodes a checkpoint with its marks. A damaged row keeps its id if that can still be read.
pub(crate) fn entry(row: &SqlRow) -> Result<Row, PostgresError> {
    let (n, sequence, stamp): (i64, u64, u64) =
        (column(row, "c_run_n")?, number(row, "c_sequence")?, number(row, "c_stamp")?);
    let (id, header): (&str, &str) = (column(row, "c_snapshot_id")?, column(row, "c_header")?);
    let key = [n as u64, sequence, stamp].map(u64::to_le_bytes).concat();
    let proven = prove(Part::Header, &[id.as_bytes(), &key], header.as_bytes(), column(row, "c_checksum")?)
        .and_then(|()| parse::<Header>(Part::Header, header.as_bytes()));
    let proven = match proven {
        Ok(header) => stored_marks(row, n, sequence)?.map(|marks| CheckpointEntry::new(header, marks)),
        Err(damage) => Err(damage),
    };
    Ok(match proven {
        Ok(entry) => Row::Intact(entry),
        Err(damage) => {
            let hint = serde_json::from_str::<Header>(header).ok();
            let named = hint.as_ref().map(|header| header.snapshot_id().clone()).or_else(|| id.parse().ok());
            let damage = damage.at(hint.as_ref().map(Header::run_id), Some(sequence)).named(named);
            Row::Damaged { damage, cursor: Cursor { sequence, stamp } }
        }
    })
}

fn stored_marks(row: &SqlRow, n: i64, sequence: u64) -> Result<Result<Marks, Damage>, PostgresError> {
    let Some(marks) = column::<Option<&str>>(row, "m_marks")? else { return Ok(Ok(Marks::default())) };
    let revision = number(row, "m_revision")?;
    let key = [n as u64, sequence, revision].map(u64::to_le_bytes).concat();
    let proven = prove(Part::Marks, &[&key], marks.as_bytes(), column(row, "m_checksum")?);
    Ok(proven.and_then(|()| parse(Part::Marks, marks.as_bytes())))
}

pub(crate) fn numbered_checksum(part: Part, n: i64, at: i64, value: &str) -> [u8; 16] {
    checksum(part, &[&[n.to_le_bytes(), at.to_le_bytes()].concat()], value.as_bytes())
}

/// Decodes a row of `item` or `message`: its number `n`, `checksum` and `value`.
#[allow(clippy::type_complexity)]
pub(crate) fn numbered<T: serde::de::DeserializeOwned>(
    part: Part,
    run_n: i64,
    row: &SqlRow,
) -> Result<(i64, Result<T, Damage>), PostgresError> {
    let (at, value): (i64, &str) = (column(row, "n")?, column(row, "value")?);
    let key = [run_n.to_le_bytes(), at.to_le_bytes()].concat();
    let proven = prove(part, &[&key], value.as_bytes(), column(row, "checksum")?);
    Ok((at, proven.and_then(|()| parse(part, value.as_bytes()))))
}

/// The id of the run in a row, or one that stands for an id that damage made invalid.
pub(crate) fn run_id(row: &RunTableRow, latest: Option<&Row>) -> Result<RunId, PostgresError> {
    let of_header = || match latest {
        Some(Row::Intact(entry)) => Some(entry.header.run_id().clone()),
        _ => crate::schema::damaged_run_id(row.n),
    };
    let invalid = || PostgresError::Value { message: format!("\"{}\" is not a run id", row.run_id) };
    row.run_id.parse().ok().or_else(of_header).ok_or_else(invalid)
}
