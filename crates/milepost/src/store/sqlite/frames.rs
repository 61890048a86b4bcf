//! Documents in their frames: reading along a chain of differences, and packing older ones as new ones come.

use std::borrow::Cow;
use std::collections::VecDeque;

use rusqlite::{Connection, OptionalExtension, Result, params};

use super::read::{bytes, number, prove};
use crate::store::check::checksum;
use crate::store::frame::{self, MOST_DEPENDANTS, SMALL};
use crate::store::{Damage, Part};

/// A frame as stored. `base` is the number of the checkpoint it is packed against, 0 for a whole one.
struct Stored {
    base: u64,
    dependants: u64,
    data: Vec<u8>,
    checksum: Vec<u8>,
}

fn frame_checksum(n: i64, sequence: u64, base: u64, dependants: u64, data: &[u8]) -> [u8; 16] {
    let key = [n as u64, sequence, base, dependants].map(u64::to_le_bytes);
    checksum(Part::Body, &[&key[0], &key[1], &key[2], &key[3]], data)
}

fn fetch(tx: &Connection, n: i64, sequence: u64) -> Result<Option<Stored>> {
    let sql = "SELECT f.base, f.dependants, f.data, f.checksum FROM checkpoint c JOIN frame f ON f.n = c.frame_n \
               WHERE c.run_n = ?1 AND c.sequence = ?2";
    tx.prepare_cached(sql)?
        .query_row(params![n, sequence as i64], |row| {
            Ok(Stored {
                base: number(row, 0)?,
                dependants: number(row, 1)?,
                data: bytes(row, 2)?,
                checksum: bytes(row, 3)?,
            })
        })
        .optional()
}

/// Reads one document; `None` if there is no such checkpoint.
pub(super) fn read(
    tx: &Connection,
    n: i64,
    sequence: u64,
) -> Result<Option<std::result::Result<Vec<u8>, Damage>>> {
    let there = tx
        .prepare_cached("SELECT 1 FROM checkpoint WHERE run_n = ?1 AND sequence = ?2")?
        .exists(params![n, sequence as i64])?;
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
        let key = [n as u64, at, stored.base, stored.dependants].map(u64::to_le_bytes);
        if let Err(damage) =
            prove(Part::Body, &[&key[0], &key[1], &key[2], &key[3]], &stored.data, &stored.checksum)
        {
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
                "a chain of frames that ends",
                "one that does not",
            ));
        }
        at = base;
    }
    let mut document = Vec::new();
    for stored in chain.into_iter().rev() {
        document = match frame::unpack(&stored.data, &document) {
            Ok(document) => document,
            Err(e) => return Ok(Some(Err(Damage::integrity(Part::Body, "a readable frame", e.to_string())))),
        };
    }
    Ok(Some(Ok(document)))
}

/// The documents written last, by the checksum of their frame, so that packing them needs no unpacking first.
/// The checksum binds run, number and content, so an entry can be old but never wrong.
#[derive(Debug, Default)]
pub(super) struct Written(VecDeque<(Vec<u8>, Vec<u8>)>);

impl Written {
    const MOST: usize = 4;
    const LARGEST: usize = 1 << 20;

    fn keep(&mut self, checksum: &[u8], document: &[u8]) {
        if document.len() <= Self::LARGEST {
            self.0.truncate(Self::MOST - 1);
            self.0.push_front((checksum.to_vec(), document.to_vec()));
        }
    }

    fn get(&self, checksum: &[u8]) -> Option<&[u8]> {
        self.0.iter().find(|(key, _)| key == checksum).map(|(_, document)| document.as_slice())
    }
}

/// Stores a new document whole and gives the number of its frame.
pub(super) fn put(
    tx: &Connection,
    n: i64,
    sequence: u64,
    document: &[u8],
    written: &mut Written,
) -> Result<i64> {
    let data = frame::whole(document).map_err(packing)?;
    let sum = frame_checksum(n, sequence, 0, 0, &data);
    written.keep(&sum, document);
    tx.prepare_cached("INSERT INTO frame (base, dependants, checksum, data) VALUES (0, 0, ?1, ?2)")?
        .insert(params![sum, data])
}

/// What a frame is packed against and who needs it, without its content.
struct Links {
    sequence: u64,
    frame_n: i64,
    base: u64,
    dependants: u64,
    length: usize,
    checksum: Vec<u8>,
}

/// The checkpoints before `sequence`, nearest first.
fn older(tx: &Connection, n: i64, sequence: u64, limit: i64) -> Result<Vec<Links>> {
    let sql = "SELECT c.sequence, f.n, f.base, f.dependants, length(f.data), f.checksum \
               FROM checkpoint c JOIN frame f ON f.n = c.frame_n \
               WHERE c.run_n = ?1 AND c.sequence < ?2 ORDER BY c.sequence DESC LIMIT ?3";
    tx.prepare_cached(sql)?
        .query_map(params![n, sequence as i64, limit], |row| {
            Ok(Links {
                sequence: number(row, 0)?,
                frame_n: row.get(1)?,
                base: number(row, 2)?,
                dependants: number(row, 3)?,
                length: number(row, 4)? as usize,
                checksum: bytes(row, 5)?,
            })
        })?
        .collect()
}

/// Packs the document two before `newest` against the one between them, so that the newest two stay whole.
pub(super) fn settle(tx: &Connection, n: i64, newest: u64, written: &Written) -> Result<()> {
    let [base, old, below @ ..] = &older(tx, n, newest, 3)?[..] else { return Ok(()) };
    if old.base != 0 || old.length <= SMALL {
        return Ok(());
    }
    let dependants = match below.first() {
        Some(below) if below.base == old.sequence => below.dependants + 1,
        _ => 0,
    };
    if dependants + 1 > MOST_DEPENDANTS {
        return Ok(());
    }
    // A damaged neighbour is left alone: nothing may be packed against it.
    let document = |links: &Links| -> Result<Option<Cow<'_, [u8]>>> {
        Ok(match written.get(&links.checksum) {
            Some(document) => Some(Cow::Borrowed(document)),
            None => read(tx, n, links.sequence)?.and_then(|read| read.ok()).map(Cow::Owned),
        })
    };
    let (Some(document), Some(base_document)) = (document(old)?, document(base)?) else { return Ok(()) };
    let data = frame::against(&document, &base_document).map_err(packing)?;
    if data.len() < old.length {
        replace(tx, n, old, base.sequence, dependants, &data)?;
    }
    Ok(())
}

fn replace(tx: &Connection, n: i64, old: &Links, base: u64, dependants: u64, data: &[u8]) -> Result<()> {
    let sum = frame_checksum(n, old.sequence, base, dependants, data);
    tx.prepare_cached("UPDATE frame SET base = ?2, dependants = ?3, checksum = ?4, data = ?5 WHERE n = ?1")?
        .execute(params![old.frame_n, base as i64, dependants as i64, sum, data])?;
    Ok(())
}

/// Makes the neighbour that is packed against `sequence` whole, before `sequence` goes.
pub(super) fn release(tx: &Connection, n: i64, sequence: u64) -> Result<()> {
    let Some(below) = older(tx, n, sequence, 1)?.into_iter().next() else { return Ok(()) };
    if below.base != sequence {
        return Ok(());
    }
    // One that cannot be read any more cannot be saved either; verify keeps naming it.
    let Some(Ok(document)) = read(tx, n, below.sequence)? else { return Ok(()) };
    replace(tx, n, &below, 0, below.dependants, &frame::whole(&document).map_err(packing)?)
}

fn packing(e: std::io::Error) -> rusqlite::Error {
    rusqlite::Error::ToSqlConversionFailure(e.into())
}
