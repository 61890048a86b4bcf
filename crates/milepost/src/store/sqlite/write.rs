//! One decision, carried out in one transaction.

use rusqlite::{Connection, OptionalExtension, Result, params};

use super::connection::Db;
use super::frames::Written;
use super::read::{self, EVENT_PLACES, RunLine, header_key, integer, number};
use super::{SqliteStore, frames};
use crate::model::{CheckpointId, Event, Item, Marks, RunId};
use crate::seal::Sealed;
use crate::store::check::checksum;
use crate::store::{
    Commit, Damage, Decide, EVENTS_KEPT, OLDEST_SHOWN, Part, Receipt, Row, RunView, Slot, StoreError, Verdict,
};

/// Events in a row at most.
const EVENT_SLACK: u64 = 64;

pub(super) fn write(
    store: &SqliteStore,
    db: &mut Db,
    run: &RunId,
    decide: &mut Decide<'_>,
) -> std::result::Result<Receipt, StoreError> {
    let failed = |e| store.write_error(e);
    let tx = db.begin().map_err(failed)?;
    let line = read::line(&tx, run).map_err(failed)?;
    let (view, places) = view(&tx, line.as_ref()).map_err(failed)?;
    // Dropping the transaction, also when the decision panics, rolls it back.
    let Verdict::Commit(commit) = decide(&view) else { return Ok(Receipt::default()) };
    check(run, &view, &commit)?;
    if let Some(line) = &line {
        for (sequence, marks) in &commit.marks {
            if marks_moved(&tx, line.n, *sequence, marks).map_err(failed)? {
                return Err(StoreError::MarksMoved(run.clone(), *sequence));
            }
        }
    }
    let mut written = store.written.lock().unwrap_or_else(|e| e.into_inner());
    let mut putting = None;
    let done = carry_out(&tx, run, line, &view, &commit, &places, &mut written, &mut putting);
    drop(written);
    match (done, putting) {
        // The index on ids is what refuses an id that is taken, in this run or another.
        (Err(e), Some(id)) if e.to_string().contains("checkpoint.snapshot_id") => {
            return Err(StoreError::Exists(id));
        }
        (done, _) => done.map_err(failed)?,
    }
    tx.commit().map_err(failed)?;
    Ok(Receipt::default())
}

/// The next stamp: after the newest write of any run, and after what deleted runs had.
fn next_stamp(tx: &Connection) -> Result<u64> {
    let newest =
        tx.prepare_cached("SELECT ifnull(max(stamp), 0) FROM run")?.query_row([], |row| number(row, 0))?;
    let floor = tx
        .prepare_cached("SELECT value, checksum FROM meta WHERE key = 'stamp_floor'")?
        .query_row([], |row| Ok((number(row, 0)?, read::bytes(row, 1)?)))
        .optional()?;
    // A damaged floor is no floor; stamps of runs that are gone may then be given out again, which harms nobody.
    let floor =
        floor.filter(|(value, sum)| floor_checksum(*value)[..] == sum[..]).map_or(0, |(value, _)| value);
    Ok(newest.max(floor) + 1)
}

fn floor_checksum(value: u64) -> [u8; 16] {
    checksum(Part::Run, &[b"stamp_floor"], &value.to_le_bytes())
}

/// Numbers of the items that a view shows, and the next free one.
struct ItemPlaces {
    shown: Vec<i64>,
    next: i64,
}

fn view(tx: &Connection, line: Option<&RunLine>) -> Result<(RunView, ItemPlaces)> {
    let stamp = next_stamp(tx)?;
    let Some(line) = line else {
        let slot = Slot::issue(1, stamp);
        let view = RunView { record: None, slot, count: 0, latest: None, oldest: vec![], items: vec![] };
        return Ok((view, ItemPlaces { shown: vec![], next: 1 }));
    };
    let all = read::items(tx, line.n)?;
    // A damaged item keeps its number until it is dealt with; new ones come after it.
    let next = all.last().map_or(1, |(n, _)| n + 1);
    let items: Vec<_> = all.into_iter().filter_map(|(n, item)| Some((n, item.ok()?))).collect();
    let places = ItemPlaces { shown: items.iter().map(|(n, _)| *n).collect(), next };
    let view = RunView {
        record: line.record.as_ref().ok().map(|record| (**record).clone()),
        slot: Slot::issue(line.last_sequence + 1, stamp),
        count: line.count,
        latest: read::newest(tx, line.n)?.and_then(Row::good),
        oldest: read::oldest(tx, line.n, OLDEST_SHOWN)?,
        items: items.into_iter().map(|(_, item)| item).collect(),
    };
    Ok((view, places))
}

/// Whether the decision keeps the trait's rules.
fn check(run: &RunId, view: &RunView, commit: &Commit) -> std::result::Result<(), StoreError> {
    let mut least = view.slot.sequence();
    let mut stamp = view.slot.stamp();
    for sealed in &commit.puts {
        let header = sealed.header();
        if header.run_id != *run {
            return Err(StoreError::Rules("a checkpoint of another run"));
        }
        if header.sequence < least || header.stamp < stamp {
            return Err(StoreError::Rules("a sequence or stamp that is taken"));
        }
        (least, stamp) = (header.sequence + 1, header.stamp + 1);
    }
    let ids: std::collections::HashSet<_> = commit.puts.iter().map(|s| &s.header().snapshot_id).collect();
    if ids.len() < commit.puts.len() {
        return Err(StoreError::Rules("the same checkpoint twice"));
    }
    if commit.record.run_id != *run || commit.consume > view.items.len() {
        return Err(StoreError::Rules("a record of another run, or items that are not there"));
    }
    Ok(())
}

#[allow(clippy::too_many_arguments)]
fn carry_out(
    tx: &Connection,
    run: &RunId,
    line: Option<RunLine>,
    view: &RunView,
    commit: &Commit,
    places: &ItemPlaces,
    written: &mut Written,
    putting: &mut Option<CheckpointId>,
) -> Result<()> {
    let last_put = commit.puts.last().map(Sealed::header);
    let stamp = last_put.map_or(view.slot.stamp(), |header| header.stamp);
    let mut line = match line {
        Some(line) => line,
        None => {
            tx.prepare_cached(
                "INSERT INTO run (run_id, stamp, last_sequence, count, events, checksum, record) \
                 VALUES (?1, ?2, 0, 0, 0, x'', '')",
            )?
            .execute(params![run.as_str(), stamp as i64])?;
            RunLine {
                n: tx.last_insert_rowid(),
                run_id: run.to_string(),
                stamp,
                last_sequence: 0,
                count: 0,
                events: 0,
                record: Err(Damage::integrity(Part::Run, "", "")),
            }
        }
    };
    for sealed in &commit.puts {
        *putting = Some(sealed.header().snapshot_id.clone());
        put(tx, line.n, sealed, written)?;
        line.last_sequence = sealed.header().sequence;
        line.count += 1;
    }
    *putting = None;
    for (sequence, marks) in &commit.marks {
        set_marks(tx, line.n, *sequence, marks)?;
    }
    let mut drops = commit.drops.clone();
    drops.sort_unstable();
    drops.dedup();
    line.count -= drop_checkpoints(tx, line.n, &drops)?;
    for n in &places.shown[..commit.consume] {
        tx.prepare_cached("DELETE FROM item WHERE run_n = ?1 AND n = ?2")?.execute(params![line.n, n])?;
    }
    for (n, item) in (places.next..).zip(&commit.push) {
        push_item(tx, line.n, n, item)?;
    }
    push_events(tx, &mut line, view.slot.stamp(), &commit.events)?;
    line.stamp = stamp;
    if line.run_id != run.as_str() {
        // A damaged byte had changed it.
        tx.execute("UPDATE run SET run_id = ?2 WHERE n = ?1", params![line.n, run.as_str()])?;
        line.run_id = run.to_string();
    }
    let record = json(&commit.record)?;
    let sum = read::run_checksum(&line, record.as_bytes());
    tx.prepare_cached(
        "UPDATE run SET stamp = ?2, last_sequence = ?3, count = ?4, events = ?5, checksum = ?6, record = ?7 \
         WHERE n = ?1",
    )?
    .execute(params![
        line.n,
        line.stamp as i64,
        line.last_sequence as i64,
        line.count as i64,
        line.events as i64,
        sum,
        record
    ])?;
    Ok(())
}

fn json<T: serde::Serialize>(value: &T) -> Result<String> {
    serde_json::to_string(value).map_err(|e| rusqlite::Error::ToSqlConversionFailure(e.into()))
}

fn put(tx: &Connection, n: i64, sealed: &Sealed, written: &mut Written) -> Result<()> {
    let header = sealed.header();
    frames::put(tx, n, header.sequence, header.stamp, sealed.bytes(), written)?;
    put_header(tx, n, sealed)?;
    if let Some(id) = &header.imported_id {
        set_name(tx, n, header.sequence, id)?;
    }
    frames::settle(tx, n, header.sequence, written)
}

/// Writes the header's row, or rewrites it under another stamp or after damage.
pub(super) fn put_header(tx: &Connection, n: i64, sealed: &Sealed) -> Result<()> {
    let header = sealed.header();
    let text = json(header)?;
    let key = header_key(n, header.sequence, header.stamp);
    let id = header.snapshot_id.as_str();
    let sum = checksum(Part::Header, &[id.as_bytes(), &key[0], &key[1], &key[2]], text.as_bytes());
    tx.prepare_cached(
        "INSERT INTO checkpoint (run_n, sequence, snapshot_id, stamp, checksum, header) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (run_n, sequence) DO UPDATE SET \
         snapshot_id = excluded.snapshot_id, stamp = excluded.stamp, checksum = excluded.checksum, \
         header = excluded.header",
    )?
    .execute(params![n, header.sequence as i64, id, header.stamp as i64, sum, text])?;
    Ok(())
}

fn set_name(tx: &Connection, n: i64, sequence: u64, name: &str) -> Result<()> {
    tx.prepare_cached("INSERT OR IGNORE INTO name (name, run_n, sequence) VALUES (?1, ?2, ?3)")?
        .execute(params![name, n, sequence as i64])?;
    Ok(())
}

/// Whether another writer has set these marks since they were read.
fn marks_moved(tx: &Connection, n: i64, sequence: u64, marks: &Marks) -> Result<bool> {
    let revision: Option<u64> = tx
        .prepare_cached("SELECT revision FROM marks WHERE run_n = ?1 AND sequence = ?2")?
        .query_row(params![n, integer(sequence)], |row| number(row, 0))
        .optional()?;
    Ok(revision.is_some_and(|revision| marks.revision <= revision))
}

pub(super) fn set_marks(tx: &Connection, n: i64, sequence: u64, marks: &Marks) -> Result<()> {
    let found: Option<(String, String)> = rusqlite::OptionalExtension::optional(
        tx.prepare_cached("SELECT snapshot_id, header FROM checkpoint WHERE run_n = ?1 AND sequence = ?2")?
            .query_row(params![n, sequence as i64], |row| Ok((read::text(row, 0)?, read::text(row, 1)?))),
    )?;
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

/// Removes checkpoints, lowest number first, and says how many were there.
fn drop_checkpoints(tx: &Connection, n: i64, drops: &[u64]) -> Result<u64> {
    let mut gone = 0;
    for stretch in drops.chunk_by(|a, b| a + 1 == *b) {
        let &[sequence] = stretch else {
            gone += drop_stretch(tx, n, stretch)?;
            continue;
        };
        frames::release(tx, n, sequence)?;
        let at = params![n, integer(sequence)];
        let stamp: Option<i64> = tx
            .prepare_cached("SELECT stamp FROM checkpoint WHERE run_n = ?1 AND sequence = ?2")?
            .query_row(at, |row| row.get(0))
            .optional()?;
        tx.prepare_cached("DELETE FROM whole WHERE stamp = ?1")?.execute([stamp])?;
        tx.prepare_cached("DELETE FROM delta WHERE stamp = ?1")?.execute([stamp])?;
        gone += tx.prepare_cached("DELETE FROM checkpoint WHERE run_n = ?1 AND sequence = ?2")?.execute(at)?
            as u64;
        tx.prepare_cached("DELETE FROM marks WHERE run_n = ?1 AND sequence = ?2")?.execute(at)?;
        tx.prepare_cached("DELETE FROM name WHERE run_n = ?1 AND sequence = ?2")?.execute(at)?;
    }
    Ok(gone)
}

/// Removes checkpoints with numbers without a gap, which a prune of a long history has many of.
fn drop_stretch(tx: &Connection, n: i64, stretch: &[u64]) -> Result<u64> {
    let (Some(&first), Some(&last)) = (stretch.first(), stretch.last()) else { return Ok(0) };
    // What is packed against one inside the stretch goes with it.
    frames::release(tx, n, first)?;
    let range = params![n, integer(first), integer(last)];
    for table in ["whole", "delta"] {
        let sql = format!(
            "DELETE FROM {table} WHERE stamp IN \
             (SELECT stamp FROM checkpoint WHERE run_n = ?1 AND sequence BETWEEN ?2 AND ?3)"
        );
        tx.prepare_cached(&sql)?.execute(range)?;
    }
    for table in ["marks", "name"] {
        let sql = format!("DELETE FROM {table} WHERE run_n = ?1 AND sequence BETWEEN ?2 AND ?3");
        tx.prepare_cached(&sql)?.execute(range)?;
    }
    let sql = "DELETE FROM checkpoint WHERE run_n = ?1 AND sequence BETWEEN ?2 AND ?3";
    Ok(tx.prepare_cached(sql)?.execute(range)? as u64)
}

fn push_item(tx: &Connection, n: i64, at: i64, item: &Item) -> Result<()> {
    let text = json(item)?;
    let key = [n.to_le_bytes(), at.to_le_bytes()];
    let sum = checksum(Part::Item, &[&key[0], &key[1]], text.as_bytes());
    tx.prepare_cached("INSERT INTO item (run_n, n, checksum, item) VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![n, at, sum, text])?;
    Ok(())
}

/// Adds the events of one commit, several to a row, and removes the oldest rows beyond the bound.
fn push_events(tx: &Connection, line: &mut RunLine, stamp: u64, events: &[Event]) -> Result<()> {
    let surplus = events.len().saturating_sub(EVENTS_KEPT.min(EVENT_PLACES) as usize);
    let mut at = stamp * EVENT_PLACES;
    for chunk in events[surplus..].chunks(EVENT_SLACK as usize) {
        let text = json(&chunk)?;
        let count = chunk.len() as u64;
        let sum = read::event_checksum(line.n, at, count, text.as_bytes());
        tx.prepare_cached(
            "INSERT INTO event (run_n, n, count, checksum, events) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute(params![line.n, integer(at), integer(count), sum, text])?;
        line.events += count;
        at += count;
    }
    // Seldom and many at once: removing a row from the front of a table touches more pages than adding one at its end.
    if line.events <= EVENTS_KEPT + 3 * EVENT_SLACK {
        return Ok(());
    }
    while line.events >= EVENTS_KEPT + EVENT_SLACK {
        let oldest = "SELECT n, count FROM event WHERE run_n = ?1 ORDER BY n LIMIT 1";
        let (n, count) =
            tx.prepare_cached(oldest)?.query_row([line.n], |row| Ok((number(row, 0)?, number(row, 1)?)))?;
        tx.prepare_cached("DELETE FROM event WHERE run_n = ?1 AND n = ?2")?
            .execute(params![line.n, integer(n)])?;
        line.events = line.events.saturating_sub(count);
    }
    Ok(())
}

pub(super) fn delete_run(db: &mut Db, run: &RunId, only_at: Option<u64>) -> Result<bool> {
    let tx = db.begin()?;
    let Some(line) = read::line(&tx, run)? else { return Ok(false) };
    if only_at.is_some_and(|stamp| stamp != line.stamp) {
        return Ok(false);
    }
    let n = line.n;
    // Stamps must not go back once the run that had the newest is gone.
    let stamp = next_stamp(&tx)?;
    tx.execute(
        "INSERT OR REPLACE INTO meta (key, value, checksum) VALUES ('stamp_floor', ?1, ?2)",
        params![integer(stamp), floor_checksum(stamp)],
    )?;
    for table in ["whole", "delta"] {
        tx.execute(
            &format!("DELETE FROM {table} WHERE stamp IN (SELECT stamp FROM checkpoint WHERE run_n = ?1)"),
            [n],
        )?;
    }
    for table in ["checkpoint", "marks", "name", "item", "event"] {
        tx.execute(&format!("DELETE FROM {table} WHERE run_n = ?1"), [n])?;
    }
    tx.execute("DELETE FROM run WHERE n = ?1", [n])?;
    tx.commit()?;
    Ok(true)
}
