//! Writes rows to the tables, each with its checksum, and removes rows. Takes values and an open transaction.
//! Decides nothing and never commits.

use rusqlite::{Connection, OptionalExtension, Result, ToSql, params};

use super::decode::{self, EVENTS_PER_STAMP, RUN, RunTableRow, header_key, integer, number};
use super::{frames, thread_positions, verified_cache};
use crate::model::{Event, Item, Marks, Message, RunId};
use crate::seal::Sealed;
use crate::store::check::checksum;
use crate::store::{EVENTS_KEPT, Part};

/// Maximum number of events in a row.
pub(super) const EVENT_SLACK: u64 = 64;

/// The stamp floor: new stamps must be higher, even if no run has it any more. A damaged floor counts as 0.
/// Stamps of deleted runs may then be assigned again, which is harmless.
pub(super) fn stamp_floor(tx: &Connection) -> Result<u64> {
    let floor = tx
        .prepare_cached("SELECT value, checksum FROM meta WHERE key = 'stamp_floor'")?
        .query_row([], |row| Ok((number(row, 0)?, decode::bytes(row, 1)?)))
        .optional()?;
    Ok(floor.filter(|(value, sum)| floor_checksum(*value)[..] == sum[..]).map_or(0, |(value, _)| value))
}

/// Sets the stamp floor.
pub(super) fn set_floor(tx: &Connection, stamp: u64) -> Result<()> {
    tx.execute(
        "INSERT OR REPLACE INTO meta (key, value, checksum) VALUES ('stamp_floor', ?1, ?2)",
        params![integer(stamp), floor_checksum(stamp)],
    )?;
    Ok(())
}

fn floor_checksum(value: u64) -> [u8; 16] {
    checksum(Part::Run, &[b"stamp_floor"], &value.to_le_bytes())
}

/// Inserts a run without checkpoints.
pub(super) fn new_run(tx: &Connection, run: &RunId, stamp: u64) -> Result<RunTableRow> {
    let insert = format!(
        "INSERT INTO run (run_id, stamp, last_sequence, count, events, checksum, record) \
         VALUES (?1, ?2, 0, 0, 0, x'', '') RETURNING {RUN}"
    );
    tx.prepare_cached(&insert)?.query_row(params![run.as_str(), integer(stamp)], decode::run_table_row)
}

/// Updates a run's own row.
pub(super) fn set_run(tx: &Connection, run_row: &RunTableRow, sum: &[u8], record: &str) -> Result<()> {
    tx.prepare_cached(
        "UPDATE run SET stamp = ?2, last_sequence = ?3, count = ?4, events = ?5, checksum = ?6, record = ?7 \
         WHERE n = ?1",
    )?
    .execute(params![
        run_row.n,
        run_row.stamp as i64,
        run_row.last_sequence as i64,
        run_row.count as i64,
        run_row.events as i64,
        sum,
        record
    ])?;
    Ok(())
}

pub(super) fn json<T: serde::Serialize>(value: &T) -> Result<String> {
    serde_json::to_string(value).map_err(|e| rusqlite::Error::ToSqlConversionFailure(e.into()))
}

pub(super) fn put(tx: &Connection, n: i64, sealed: &Sealed) -> Result<()> {
    put_whole(tx, n, sealed)?;
    frames::pack_older(tx, n, sealed.header().sequence, &mut None)
}

/// Writes a checkpoint without packing its neighbours.
pub(super) fn put_whole(tx: &Connection, n: i64, sealed: &Sealed) -> Result<()> {
    let header = sealed.header();
    frames::put(tx, n, header.sequence, header.stamp, sealed.bytes())?;
    put_header(tx, n, sealed)?;
    if let Some(id) = &header.imported_id {
        set_name(tx, n, header.sequence, id)?;
    }
    Ok(())
}

/// Serialises a header, computes its checksum and caches it.
pub(super) fn header_text(n: i64, sealed: &Sealed) -> Result<(String, [u8; 16])> {
    let header = sealed.header();
    let text = json(header)?;
    let key = header_key(n, header.sequence, header.stamp);
    let id = header.snapshot_id.as_str();
    let key = [id.as_bytes(), &key[0], &key[1], &key[2]];
    let sum = checksum(Part::Header, &key, text.as_bytes());
    verified_cache::remember(&verified_cache::HEADERS, &key, text.as_bytes(), &sum, header);
    Ok((text, sum))
}

/// Writes the header's row, or replaces it under another stamp or after damage.
pub(super) fn put_header(tx: &Connection, n: i64, sealed: &Sealed) -> Result<()> {
    let header = sealed.header();
    let (text, sum) = header_text(n, sealed)?;
    tx.prepare_cached(
        "INSERT INTO checkpoint (run_n, sequence, snapshot_id, stamp, checksum, header) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (run_n, sequence) DO UPDATE SET \
         snapshot_id = excluded.snapshot_id, stamp = excluded.stamp, checksum = excluded.checksum, \
         header = excluded.header",
    )?
    .execute(params![
        n,
        header.sequence as i64,
        header.snapshot_id.as_str(),
        header.stamp as i64,
        sum,
        text
    ])?;
    thread_positions::put(tx, n, header)
}

fn set_name(tx: &Connection, n: i64, sequence: u64, name: &str) -> Result<()> {
    tx.prepare_cached("INSERT OR IGNORE INTO name (name, run_n, sequence) VALUES (?1, ?2, ?3)")?
        .execute(params![name, n, sequence as i64])?;
    Ok(())
}

/// The revision of a checkpoint's stored marks.
pub(super) fn marks_revision(tx: &Connection, n: i64, sequence: u64) -> Result<Option<u64>> {
    tx.prepare_cached("SELECT revision FROM marks WHERE run_n = ?1 AND sequence = ?2")?
        .query_row(params![n, integer(sequence)], |row| number(row, 0))
        .optional()
}

pub(super) fn set_marks(tx: &Connection, n: i64, sequence: u64, marks: &Marks) -> Result<()> {
    let found = tx
        .prepare_cached("SELECT snapshot_id, header FROM checkpoint WHERE run_n = ?1 AND sequence = ?2")?
        .query_row(params![n, sequence as i64], |row| Ok((decode::text(row, 0)?, decode::text(row, 1)?)))
        .optional()?;
    let Some((id, header)) = found else { return Ok(()) };
    let text = json(marks)?;
    let key = [n as u64, sequence, marks.revision].map(u64::to_le_bytes);
    let sum = checksum(Part::Marks, &[id.as_bytes(), &key[0], &key[1], &key[2]], text.as_bytes());
    tx.prepare_cached(
        "INSERT OR REPLACE INTO marks (run_n, sequence, revision, checksum, marks) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?
    .execute(params![n, sequence as i64, marks.revision as i64, sum, text])?;
    tx.prepare_cached("DELETE FROM name WHERE run_n = ?1 AND sequence = ?2")?
        .execute(params![n, sequence as i64])?;
    for tag in &marks.tags {
        set_name(tx, n, sequence, tag)?;
    }
    let imported = serde_json::from_str::<crate::seal::Header>(&header).ok().and_then(|h| h.imported_id);
    if let Some(id) = imported {
        set_name(tx, n, sequence, &id)?;
    }
    Ok(())
}

/// Removes checkpoints, which must be sorted by sequence number. Returns the number that existed.
pub(super) fn drop_checkpoints(tx: &Connection, n: i64, drops: &[u64]) -> Result<u64> {
    let mut gone = 0;
    for stretch in drops.chunk_by(|a, b| a + 1 == *b) {
        let (Some(&first), Some(&last)) = (stretch.first(), stretch.last()) else { continue };
        // Within the stretch, deltas are removed together with their bases.
        frames::make_dependant_whole(tx, n, first)?;
        thread_positions::drop_with_checkpoints(tx, n, first, last)?;
        let range = params![n, integer(first), integer(last)];
        drop_documents(tx, range)?;
        for table in ["marks", "name"] {
            let sql = format!("DELETE FROM {table} WHERE run_n = ?1 AND sequence BETWEEN ?2 AND ?3");
            tx.prepare_cached(&sql)?.execute(range)?;
        }
        let sql = "DELETE FROM checkpoint WHERE run_n = ?1 AND sequence BETWEEN ?2 AND ?3";
        gone += tx.prepare_cached(sql)?.execute(range)? as u64;
    }
    Ok(gone)
}

/// Removes the documents of a range of sequence numbers. If no other run was written in between,
/// their stamps form a range too.
fn drop_documents(tx: &Connection, range: &[&dyn ToSql]) -> Result<()> {
    let of_stretch = "FROM checkpoint WHERE run_n = ?1 AND sequence BETWEEN ?2 AND ?3";
    let stamps = format!("SELECT count(*), ifnull(min(stamp), 0), ifnull(max(stamp), 0) {of_stretch}");
    let (count, first, last): (i64, i64, i64) =
        tx.prepare_cached(&stamps)?.query_row(range, |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    for table in ["whole", "delta"] {
        if last.checked_sub(first).is_some_and(|span| span + 1 == count) {
            let sql = format!("DELETE FROM {table} WHERE stamp BETWEEN ?1 AND ?2");
            tx.prepare_cached(&sql)?.execute([first, last])?;
        } else {
            let sql = format!("DELETE FROM {table} WHERE stamp IN (SELECT stamp {of_stretch})");
            tx.prepare_cached(&sql)?.execute(range)?;
        }
    }
    Ok(())
}

/// Removes a run and all its rows.
pub(super) fn delete_run(tx: &Connection, n: i64) -> Result<()> {
    for table in ["whole", "delta"] {
        let of_run = "stamp IN (SELECT stamp FROM checkpoint WHERE run_n = ?1)";
        tx.execute(&format!("DELETE FROM {table} WHERE {of_run}"), [n])?;
    }
    for table in ["checkpoint", "marks", "name", "thread_position", "item", "message", "attachment", "event"]
    {
        tx.execute(&format!("DELETE FROM {table} WHERE run_n = ?1"), [n])?;
    }
    tx.execute("DELETE FROM run WHERE n = ?1", [n])?;
    Ok(())
}

pub(super) fn push_item(tx: &Connection, n: i64, at: i64, item: &Item) -> Result<()> {
    let text = json(item)?;
    let key = [n.to_le_bytes(), at.to_le_bytes()];
    let sum = checksum(Part::Item, &[&key[0], &key[1]], text.as_bytes());
    tx.prepare_cached("INSERT INTO item (run_n, n, checksum, item) VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![n, at, sum, text])?;
    Ok(())
}

/// Adds the messages of one commit.
pub(super) fn push_messages(tx: &Connection, n: i64, stamp: u64, messages: &[Message]) -> Result<()> {
    for (position, message) in (stamp * EVENTS_PER_STAMP..).zip(messages) {
        put_message(tx, n, integer(position), message)?;
    }
    Ok(())
}

/// Adds a message at its position, unless that position is taken.
pub(super) fn put_message(tx: &Connection, n: i64, at: i64, message: &Message) -> Result<()> {
    let text = json(message)?;
    let key = [n.to_le_bytes(), at.to_le_bytes()];
    let sum = checksum(Part::Message, &[&key[0], &key[1]], text.as_bytes());
    tx.prepare_cached("INSERT OR IGNORE INTO message (run_n, n, checksum, message) VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![n, at, sum, text])?;
    Ok(())
}

/// Adds the events of one commit, several per row.
pub(super) fn push_events(
    tx: &Connection,
    run_row: &mut RunTableRow,
    stamp: u64,
    events: &[Event],
) -> Result<()> {
    let surplus = events.len().saturating_sub(EVENTS_KEPT.min(EVENTS_PER_STAMP) as usize);
    let mut at = stamp * EVENTS_PER_STAMP;
    for chunk in events[surplus..].chunks(EVENT_SLACK as usize) {
        let text = json(&chunk)?;
        let count = chunk.len() as u64;
        let sum = decode::event_checksum(run_row.n, at, count, text.as_bytes());
        tx.prepare_cached(
            "INSERT INTO event (run_n, n, count, checksum, events) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute(params![run_row.n, integer(at), integer(count), sum, text])?;
        run_row.events += count;
        at += count;
    }
    trim_events(tx, run_row)
}

/// Removes the oldest rows of events beyond the limit.
pub(super) fn trim_events(tx: &Connection, run_row: &mut RunTableRow) -> Result<()> {
    // Trim rarely and in bulk: deleting the first row of a table touches more pages than appending one.
    if run_row.events <= EVENTS_KEPT + 3 * EVENT_SLACK {
        return Ok(());
    }
    while run_row.events >= EVENTS_KEPT + EVENT_SLACK {
        let oldest = "SELECT n, count FROM event WHERE run_n = ?1 ORDER BY n LIMIT 1";
        let found = tx
            .prepare_cached(oldest)?
            .query_row([run_row.n], |row| Ok((number(row, 0)?, number(row, 1)?)))
            .optional()?;
        let Some((n, count)) = found else {
            run_row.events = 0;
            break;
        };
        tx.prepare_cached("DELETE FROM event WHERE run_n = ?1 AND n = ?2")?
            .execute(params![run_row.n, integer(n)])?;
        run_row.events = run_row.events.saturating_sub(count);
    }
    Ok(())
}
