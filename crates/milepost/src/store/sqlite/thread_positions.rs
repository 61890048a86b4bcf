//! Writes and checks the rows of `thread_position`, which lists the positions in threads that headers contain.
//! Takes an open transaction and never commits. The rows have no checksums: headers prove them.

use rusqlite::{Connection, Result, params};

use super::decode::{self, integer, listed, number, text};
use crate::seal::Header;
use crate::store::{CheckpointEntry, Row};

/// Columns of a position.
pub(super) const POSITION: &str = "p.run_n, p.id, p.stamp, p.sequence, p.namespace, p.invocation";

/// A row of `thread_position`.
#[derive(Debug, PartialEq)]
pub(super) struct PositionRow {
    pub(super) n: i64,
    pub(super) id: String,
    pub(super) stamp: u64,
    sequence: u64,
    namespace: String,
    invocation: Option<String>,
}

impl PositionRow {
    /// The row of the checkpoint with this header, if it has a position in a thread.
    fn of(n: i64, header: &Header) -> Option<Self> {
        let thread = header.thread.as_ref()?;
        Some(Self {
            n,
            id: thread.id.clone(),
            stamp: header.stamp,
            sequence: header.sequence,
            namespace: thread.namespace.clone(),
            invocation: thread.invocation.clone(),
        })
    }

    /// Decodes the columns `POSITION` from `first` on.
    pub(super) fn read(row: &rusqlite::Row<'_>, first: usize) -> Result<Self> {
        let invocation = row.get_ref(first + 5)? != rusqlite::types::ValueRef::Null;
        Ok(Self {
            n: row.get(first)?,
            id: text(row, first + 1)?,
            stamp: number(row, first + 2)?,
            sequence: number(row, first + 3)?,
            namespace: text(row, first + 4)?,
            invocation: invocation.then(|| text(row, first + 5)).transpose()?,
        })
    }

    /// Whether the row is that of a checkpoint with this header.
    pub(super) fn is_of(&self, header: &Header) -> bool {
        Self::of(self.n, header).is_some_and(|expected| expected == *self)
    }
}

/// Adds the position of a checkpoint, if it has one.
pub(super) fn put(tx: &Connection, n: i64, header: &Header) -> Result<()> {
    let Some(position) = PositionRow::of(n, header) else { return Ok(()) };
    tx.prepare_cached(
        "INSERT OR REPLACE INTO thread_position (run_n, id, stamp, sequence, namespace, invocation) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?
    .execute(params![
        n,
        position.id,
        integer(position.stamp),
        integer(position.sequence),
        position.namespace,
        position.invocation
    ])?;
    Ok(())
}

/// Removes the positions of checkpoints that are about to be removed: those in a range of sequence numbers.
pub(super) fn drop_with_checkpoints(tx: &Connection, n: i64, first: u64, last: u64) -> Result<()> {
    if !tx.prepare_cached("SELECT 1 FROM thread_position WHERE run_n = ?1 LIMIT 1")?.exists([n])? {
        return Ok(());
    }
    // No index finds a position by its sequence number, but the header contains the key.
    let mut headers = tx.prepare_cached(
        "SELECT sequence, header FROM checkpoint WHERE run_n = ?1 AND sequence BETWEEN ?2 AND ?3",
    )?;
    let mut rows = headers.query(params![n, integer(first), integer(last)])?;
    while let Some(row) = rows.next()? {
        let sequence = row.get::<_, i64>(0)?;
        let Ok(header) = serde_json::from_str::<Header>(&decode::text(row, 1)?) else {
            let by_sequence = "DELETE FROM thread_position WHERE run_n = ?1 AND sequence = ?2";
            tx.prepare_cached(by_sequence)?.execute([n, sequence])?;
            continue;
        };
        if let Some(thread) = &header.thread {
            let by_key = "DELETE FROM thread_position WHERE run_n = ?1 AND id = ?2 AND stamp = ?3";
            tx.prepare_cached(by_key)?.execute(params![n, thread.id, integer(header.stamp)])?;
        }
    }
    Ok(())
}

/// The differences between the rows and the headers in `checkpoint`.
#[derive(Debug, Default)]
pub(super) struct Differences {
    /// Rows that no header confirms. The row of a damaged header is not among them.
    wrong: Vec<PositionRow>,
    /// Headers whose row is missing, each with the row number of its run.
    missing: Vec<(i64, Header)>,
}

impl Differences {
    /// Number of rows that are wrong or missing.
    pub(super) fn count(&self) -> u64 {
        (self.wrong.len() + self.missing.len()) as u64
    }

    /// Compares all rows with all headers.
    pub(super) fn find(tx: &Connection) -> Result<Self> {
        let mut found = Self::default();
        let all = format!(
            "SELECT {ENTRY_OF_POSITION}, {POSITION} FROM thread_position p LEFT JOIN checkpoint c \
             ON c.run_n = p.run_n AND c.sequence = p.sequence"
        );
        let mut statement = tx.prepare(&all)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let position = PositionRow::read(row, decode::ENTRY_COLUMNS)?;
            let is_right = match row.get_ref(0)? {
                rusqlite::types::ValueRef::Null => false,
                _ => match listed(row)? {
                    Row::Intact(CheckpointEntry { header, .. }) => position.is_of(&header),
                    Row::Damaged { .. } => true,
                },
            };
            if !is_right {
                found.wrong.push(position);
            }
        }
        // Most stores contain no positions. Their headers are not parsed.
        let with_position = format!(
            "SELECT {ENTRY_OF_POSITION} FROM checkpoint c WHERE instr(c.header, '\"thread\":{{') > 0"
        );
        let mut statement = tx.prepare(&with_position)?;
        let mut rows = statement.query([])?;
        let exact =
            format!("SELECT {POSITION} FROM thread_position p WHERE run_n = ?1 AND id = ?2 AND stamp = ?3");
        while let Some(row) = rows.next()? {
            let Row::Intact(CheckpointEntry { header, .. }) = listed(row)? else { continue };
            let Some(expected) = PositionRow::of(row.get(0)?, &header) else { continue };
            let key = params![expected.n, expected.id, integer(expected.stamp)];
            let mut same = tx.prepare_cached(&exact)?;
            let mut same = same.query(key)?;
            let is_there = match same.next()? {
                Some(stored) => PositionRow::read(stored, 0)? == expected,
                None => false,
            };
            if !is_there {
                found.missing.push((expected.n, header));
            }
        }
        Ok(found)
    }

    /// Removes wrong rows and adds missing ones.
    pub(super) fn repair(&self, tx: &Connection) -> Result<()> {
        for row in &self.wrong {
            tx.execute(
                "DELETE FROM thread_position WHERE run_n = ?1 AND id = ?2 AND stamp = ?3",
                params![row.n, row.id, integer(row.stamp)],
            )?;
        }
        self.missing.iter().try_for_each(|(n, header)| put(tx, *n, header))
    }
}

/// The columns of an entry whose marks do not matter.
const ENTRY_OF_POSITION: &str =
    "c.run_n, c.sequence, c.snapshot_id, c.stamp, c.checksum, c.header, NULL, NULL, NULL";
