//! Stores documents as frames: reads a document through its chain of deltas, and packs older documents as
//! deltas when newer ones are added. Takes an open transaction and never commits it.

use rusqlite::{Connection, OptionalExtension, Result, params};

use super::decode::{bytes, compare, integer, number};
use crate::store::check::checksum;
use crate::store::frame::{self, MOST_DEPENDANTS, SMALL};
use crate::store::{Damage, Part};

/// A stored frame. `base` is the sequence number of the checkpoint it is packed against, 0 for a whole frame.
struct Stored {
    base: u64,
    dependants: u64,
    data: Vec<u8>,
    checksum: Vec<u8>,
}

/// A document, or the damage that makes it unreadable.
pub(super) type Document = std::result::Result<Vec<u8>, Damage>;

pub(super) fn frame_checksum(n: i64, sequence: u64, base: u64, dependants: u64, data: &[u8]) -> [u8; 16] {
    let key = [n as u64, sequence, base, dependants].map(u64::to_le_bytes);
    checksum(Part::Body, &[&key[0], &key[1], &key[2], &key[3]], data)
}

fn fetch(tx: &Connection, n: i64, sequence: u64) -> Result<Option<Stored>> {
    let stored = |row: &rusqlite::Row<'_>| {
        Ok(Stored {
            base: number(row, 0)?,
            dependants: number(row, 1)?,
            data: bytes(row, 2)?,
            checksum: bytes(row, 3)?,
        })
    };
    for (table, columns) in [("whole", "0, 0"), ("delta", "f.base, f.dependants")] {
        let select = format!(
            "SELECT {columns}, f.data, f.checksum FROM checkpoint c JOIN {table} f ON f.stamp = c.stamp \
             WHERE c.run_n = ?1 AND c.sequence = ?2"
        );
        let found =
            tx.prepare_cached(&select)?.query_row(params![n, integer(sequence)], stored).optional()?;
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

/// Reads a document from the tables. Returns `None` if the checkpoint does not exist.
pub(super) fn read(tx: &Connection, n: i64, sequence: u64) -> Result<Option<Document>> {
    let there = tx
        .prepare_cached("SELECT 1 FROM checkpoint WHERE run_n = ?1 AND sequence = ?2")?
        .exists(params![n, integer(sequence)])?;
    if !there {
        return Ok(None);
    }
    let mut chain = Vec::new();
    let mut at = sequence;
    loop {
        let because = |mut damage: Damage| {
            damage.because_of = (at != sequence).then_some(at);
            Ok(Some(Err(damage)))
        };
        let Some(stored) = fetch(tx, n, at)? else {
            return because(Damage::integrity(Part::Body, "a frame", "no frame"));
        };
        let checksum = frame_checksum(n, at, stored.base, stored.dependants, &stored.data);
        if let Err(damage) = compare(Part::Body, checksum, &stored.checksum) {
            return because(damage);
        }
        let base = stored.base;
        chain.push(stored);
        if base == 0 {
            break;
        }
        if base <= at || chain.len() as u64 > MOST_DEPENDANTS + 1 {
            return because(Damage::integrity(
                Part::Body,
                "a chain that ends at a whole frame",
                "a chain that is too long or out of order",
            ));
        }
        at = base;
    }
    let mut document = Vec::new();
    for stored in chain.into_iter().rev() {
        document = match unpack(&stored.data, &document) {
            Ok(document) => document,
            Err(damage) => return Ok(Some(Err(damage))),
        };
    }
    Ok(Some(Ok(document)))
}

pub(super) fn unpack(frame: &[u8], base: &[u8]) -> Document {
    frame::unpack(frame, base).map_err(|e| Damage::integrity(Part::Body, "a readable frame", e.to_string()))
}

/// Stores a new document as a whole frame.
pub(super) fn put(tx: &Connection, n: i64, sequence: u64, stamp: u64, document: &[u8]) -> Result<()> {
    insert_whole(tx, n, sequence, stamp, &frame::newest(document).map_err(packing)?)
}

fn insert_whole(tx: &Connection, n: i64, sequence: u64, stamp: u64, data: &[u8]) -> Result<()> {
    let sum = frame_checksum(n, sequence, 0, 0, data);
    let insert = "INSERT INTO whole (stamp, checksum, data) VALUES (?1, ?2, ?3)";
    tx.prepare_cached(insert)?.execute(params![integer(stamp), sum, data])?;
    Ok(())
}

/// The base and dependants of a frame, without its content.
struct Links {
    sequence: u64,
    stamp: u64,
    base: u64,
    dependants: u64,
    length: usize,
}

/// The checkpoints before `sequence`, newest first.
fn older(tx: &Connection, n: i64, sequence: u64, limit: i64) -> Result<Vec<Links>> {
    let select = "SELECT c.sequence, c.stamp, ifnull(d.base, 0), ifnull(d.dependants, 0), \
                  ifnull(length(w.data), length(d.data)) FROM checkpoint c \
                  LEFT JOIN whole w ON w.stamp = c.stamp LEFT JOIN delta d ON d.stamp = c.stamp \
                  WHERE c.run_n = ?1 AND c.sequence < ?2 ORDER BY c.sequence DESC LIMIT ?3";
    tx.prepare_cached(select)?
        .query_map(params![n, integer(sequence), limit], |row| {
            Ok(Links {
                sequence: number(row, 0)?,
                stamp: number(row, 1)?,
                base: number(row, 2)?,
                dependants: number(row, 3)?,
                length: row.get::<_, Option<i64>>(4)?.unwrap_or(0) as usize,
            })
        })?
        .collect()
}

/// A document that `pack_older` keeps in memory for its next call.
pub(super) struct LastRead {
    n: i64,
    sequence: u64,
    document: Vec<u8>,
}

/// Packs the document two before `newest` as a delta against the one in between, so that the newest two stay
/// whole. `last` caches the document in between, because it is the next one to be packed.
pub(super) fn pack_older(tx: &Connection, n: i64, newest: u64, last: &mut Option<LastRead>) -> Result<()> {
    let [base, old, below @ ..] = &older(tx, n, newest, 3)?[..] else { return Ok(()) };
    if old.base != 0 || old.length <= SMALL {
        return Ok(());
    }
    let dependants = match below.first() {
        Some(below) if below.base == old.sequence => below.dependants + 1,
        _ => 0,
    };
    // A document that cannot be read is not repacked.
    let document = match last.take() {
        Some(last) if (last.n, last.sequence) == (n, old.sequence) => last.document,
        _ => match read(tx, n, old.sequence)? {
            Some(Ok(document)) => document,
            _ => return Ok(()),
        },
    };
    if dependants + 1 > MOST_DEPENDANTS {
        // The chain has its maximum length, so this document stays whole permanently, but compressed.
        let data = frame::whole(&document).map_err(packing)?;
        if data.len() < old.length {
            let sum = frame_checksum(n, old.sequence, 0, 0, &data);
            tx.prepare_cached("UPDATE whole SET checksum = ?2, data = ?3 WHERE stamp = ?1")?
                .execute(params![integer(old.stamp), sum, data])?;
        }
        return Ok(());
    }
    let Some(Ok(base_document)) = read(tx, n, base.sequence)? else { return Ok(()) };
    let data = frame::pack(&document, &base_document).map_err(packing)?;
    if data.len() < old.length {
        let sum = frame_checksum(n, old.sequence, base.sequence, dependants, &data);
        tx.prepare_cached("DELETE FROM whole WHERE stamp = ?1")?.execute([integer(old.stamp)])?;
        tx.prepare_cached(
            "INSERT INTO delta (stamp, base, dependants, checksum, data) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute(params![
            integer(old.stamp),
            integer(base.sequence),
            integer(dependants),
            sum,
            data
        ])?;
    }
    *last = Some(LastRead { n, sequence: base.sequence, document: base_document });
    Ok(())
}

/// Converts the document packed against `sequence` to a whole frame, which no longer needs `sequence`.
pub(super) fn make_dependant_whole(tx: &Connection, n: i64, sequence: u64) -> Result<()> {
    let Some(below) = older(tx, n, sequence, 1)?.into_iter().next() else { return Ok(()) };
    if below.base != sequence {
        return Ok(());
    }
    // A document that cannot be read cannot be converted; `verify` continues to report it.
    let Some(Ok(document)) = read(tx, n, below.sequence)? else { return Ok(()) };
    let data = frame::whole(&document).map_err(packing)?;
    tx.prepare_cached("DELETE FROM delta WHERE stamp = ?1")?.execute([integer(below.stamp)])?;
    insert_whole(tx, n, below.sequence, below.stamp, &data)
}

pub(super) fn packing(e: std::io::Error) -> rusqlite::Error {
    rusqlite::Error::ToSqlConversionFailure(e.into())
}
