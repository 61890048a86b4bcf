//! One decision, carried out in one transaction.

use rusqlite::{Connection, OptionalExtension, Result, ToSql, params};

use super::connection::Db;
use super::fresh::{self, Fresh};
use super::read::{self, EVENT_PLACES, RunLine, header_key, integer, number};
use super::transact::{Base, Outcome, transact};
use super::{SqliteStore, frames, list, memo, upkeep};
use crate::model::{CheckpointId, Event, Item, Marks, RunId};
use crate::seal::Sealed;
use crate::store::check::checksum;
use crate::store::{
    Commit, Damage, Decide, EVENTS_KEPT, MORE_THAN_ALL, More, OLDEST_SHOWN, Part, Receipt, Row, RunView,
    Slot, StoreError, Verdict, check_names,
};

/// Events in a row at most.
const EVENT_SLACK: u64 = 64;
/// Checkpoints that one commit removes from which on the pages they took are given back; those of fewer are soon used again.
const MANY: u64 = 64;

/// Whether a plain save takes the fresh rows in where there are enough of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Settling {
    Due,
    Later,
}

pub(super) fn write(
    store: &SqliteStore,
    db: &mut Db,
    run: &RunId,
    decide: &mut Decide<'_>,
) -> std::result::Result<Receipt, StoreError> {
    match write_once(store, db, run, decide, Settling::Due) {
        // On a disk that is all but full: a WAL that is started again in place needs no more of it, and taking rows in,
        // which needs more than the save by itself, can wait.
        Err(StoreError::Write { .. }) => {
            db.copy_back();
            write_once(store, db, run, decide, Settling::Later)
        }
        result => result,
    }
}

fn write_once(
    store: &SqliteStore,
    db: &mut Db,
    run: &RunId,
    decide: &mut Decide<'_>,
    settling: Settling,
) -> std::result::Result<Receipt, StoreError> {
    transact(store, db, &mut |tx, fresh, base| decided(store, tx, fresh, base, run, decide, settling))
}

/// Shows the decision what it needs and carries its answer out, up to the commit.
fn decided(
    store: &SqliteStore,
    tx: &Connection,
    fresh: &Fresh,
    base: &Base,
    run: &RunId,
    decide: &mut Decide<'_>,
    settling: Settling,
) -> std::result::Result<Outcome<Receipt>, StoreError> {
    let failed = |e| store.write_error(e);
    let mut line = read::line(tx, fresh, run).map_err(failed)?;
    let (mut view, mut places) = view(tx, fresh, base, line.as_ref()).map_err(failed)?;
    // Dropping the transaction, also when the decision panics, rolls it back.
    let mut verdict = decide(&view);
    if let (Verdict::More, Some(line), None) = (&verdict, &line, &view.more) {
        view.more = Some(more(tx, fresh, line, &mut places).map_err(failed)?);
        verdict = decide(&view);
    }
    let commit = match verdict {
        Verdict::Commit(commit) => commit,
        Verdict::Nothing => return Ok(Outcome::Unchanged(Receipt::default())),
        Verdict::More => return Err(StoreError::Rules(MORE_THAN_ALL)),
    };
    check(run, &view, &commit)?;
    if let Some(line) = &line {
        for (sequence, marks) in &commit.marks {
            if marks_moved(tx, line.n, *sequence, marks).map_err(failed)? {
                return Err(StoreError::MarksMoved(run.clone(), *sequence));
            }
        }
    }
    check_names(&commit.new_names, |query| list::headers(tx, query).map_err(failed))?;
    let work = Work { tx, run, view: &view, commit: &commit, places: &places };
    let plain = match &line {
        Some(line) => work.is_plain(line).map_err(failed)?,
        None => false,
    };
    if !plain || (settling == Settling::Due && fresh.is_full()) {
        fresh::settle(tx, fresh).map_err(failed)?;
        if let Some(line) = &mut line {
            // Some of its events may have had to go.
            line.events = read::events_of(tx, line.n).map_err(failed)?;
        }
    }
    match line {
        Some(line) if plain => work.append(line, fresh).map_err(failed)?,
        line => {
            for sealed in &commit.puts {
                let id = &sealed.header().snapshot_id;
                if is_taken(tx, id).map_err(failed)? {
                    return Err(StoreError::Exists(id.clone()));
                }
            }
            work.carry_out(line).map_err(failed)?;
        }
    }
    let adds = commit.puts.iter().map(|sealed| sealed.header().snapshot_id.clone()).collect();
    Ok(Outcome::Changed { value: Receipt::default(), newest: work.last_stamp(), adds })
}

/// Whether a checkpoint of this run or another has this id.
pub(super) fn is_taken(tx: &Connection, id: &CheckpointId) -> Result<bool> {
    let taken = "SELECT 1 FROM checkpoint WHERE snapshot_id = ?1 \
                 UNION ALL SELECT 1 FROM fresh WHERE snapshot_id = ?1";
    tx.prepare_cached(taken)?.exists([id.as_str()])
}

/// The newest stamp: that of the newest write of any run, or of what deleted runs had.
pub(super) fn newest_stamp(tx: &Connection, fresh: &Fresh) -> Result<u64> {
    if let Some(stamp) = fresh.newest() {
        return Ok(stamp);
    }
    let newest =
        tx.prepare_cached("SELECT ifnull(max(stamp), 0) FROM run")?.query_row([], |row| number(row, 0))?;
    let floor = tx
        .prepare_cached("SELECT value, checksum FROM meta WHERE key = 'stamp_floor'")?
        .query_row([], |row| Ok((number(row, 0)?, read::bytes(row, 1)?)))
        .optional()?;
    // A damaged floor is no floor; stamps of runs that are gone may then be given out again, which harms nobody.
    let floor =
        floor.filter(|(value, sum)| floor_checksum(*value)[..] == sum[..]).map_or(0, |(value, _)| value);
    Ok(newest.max(floor))
}

/// Keeps stamps from going back below this one.
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

/// Numbers of the items that a view shows, and the next free one.
struct ItemPlaces {
    shown: Vec<i64>,
    next: i64,
}

fn view(
    tx: &Connection,
    fresh: &Fresh,
    base: &Base,
    line: Option<&RunLine>,
) -> Result<(RunView, ItemPlaces)> {
    let slot = Slot::issue(base.next_sequence(line), base.next_stamp());
    let Some(line) = line else {
        let more = Some(More::default());
        let view = RunView { record: None, slot, count: 0, latest: None, waiting: 0, more };
        return Ok((view, ItemPlaces { shown: vec![], next: 1 }));
    };
    let numbers = read::item_numbers(tx, line.n)?;
    // A damaged item keeps its number until it is dealt with; new ones come after it.
    let places = ItemPlaces { shown: vec![], next: numbers.map_or(1, |(_, last)| last.saturating_add(1)) };
    let view = RunView {
        record: line.record.as_ref().ok().map(|record| (**record).clone()),
        slot,
        count: line.count,
        latest: read::newest(tx, fresh, line.n)?.and_then(Row::good),
        waiting: numbers.map_or(0, |(first, last)| last.abs_diff(first).saturating_add(1)),
        more: None,
    };
    Ok((view, places))
}

fn more(tx: &Connection, fresh: &Fresh, line: &RunLine, places: &mut ItemPlaces) -> Result<More> {
    let oldest = read::oldest(tx, fresh, line.n, OLDEST_SHOWN)?;
    let intact = read::items(tx, line.n)?.into_iter().filter_map(|(n, item)| Some((n, item.ok()?)));
    let items;
    (places.shown, items) = intact.unzip();
    Ok(More { oldest, items })
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
    if commit.record.run_id != *run || commit.consume > view.more.as_ref().map_or(0, |more| more.items.len())
    {
        return Err(StoreError::Rules("a record of another run, or items that are not there"));
    }
    Ok(())
}

/// One decision about one run, on its way into the tables.
struct Work<'a> {
    tx: &'a Connection,
    run: &'a RunId,
    view: &'a RunView,
    commit: &'a Commit,
    places: &'a ItemPlaces,
}

impl Work<'_> {
    /// Whether this is a save and nothing else: one checkpoint of a known run, without marks or a name of its own.
    fn is_plain(&self, line: &RunLine) -> Result<bool> {
        let Commit { puts, marks, events, .. } = self.commit;
        let [sealed] = &puts[..] else { return Ok(false) };
        let header = sealed.header();
        Ok(marks.is_empty()
            && !line.renamed
            && line.record.is_ok()
            && header.imported_id.is_none()
            && header.stamp == self.view.slot.stamp()
            && events.len() as u64 <= EVENT_SLACK
            && !is_taken(self.tx, &header.snapshot_id)?)
    }

    /// Appends a plain save to the fresh rows.
    fn append(&self, mut line: RunLine, fresh: &Fresh) -> Result<()> {
        let [sealed] = &self.commit.puts[..] else { return Ok(()) };
        let drops = self.drops();
        let gone = self.there(&line, &drops, fresh)?;
        line.last_sequence = sealed.header().sequence;
        line.stamp = sealed.header().stamp;
        line.count = (line.count + 1).saturating_sub(gone.len() as u64);
        line.events += self.commit.events.len() as u64;
        self.items(line.n)?;
        fresh::append(self.tx, &line, &self.commit.record, sealed, &gone, &self.commit.events)
    }

    /// Those of these checkpoints that are there.
    fn there(&self, line: &RunLine, drops: &[u64], fresh: &Fresh) -> Result<Vec<u64>> {
        let mut there = Vec::new();
        for &sequence in drops.iter().filter(|sequence| !fresh.has_removed(line.n, **sequence)) {
            let waiting = fresh.of(line.n).any(|row| row.sequence == sequence)
                || self.view.more.iter().flat_map(|more| &more.oldest).any(|e| e.header.sequence == sequence);
            let settled = "SELECT 1 FROM checkpoint WHERE run_n = ?1 AND sequence = ?2";
            if waiting || self.tx.prepare_cached(settled)?.exists(params![line.n, integer(sequence)])? {
                there.push(sequence);
            }
        }
        Ok(there)
    }

    /// What goes, lowest number first.
    fn drops(&self) -> Vec<u64> {
        let mut drops = self.commit.drops.clone();
        drops.sort_unstable();
        drops.dedup();
        drops
    }

    fn items(&self, n: i64) -> Result<()> {
        for at in &self.places.shown[..self.commit.consume] {
            self.tx
                .prepare_cached("DELETE FROM item WHERE run_n = ?1 AND n = ?2")?
                .execute(params![n, at])?;
        }
        for (at, item) in (self.places.next..).zip(&self.commit.push) {
            push_item(self.tx, n, at, item)?;
        }
        Ok(())
    }

    /// The last stamp that the commit takes.
    fn last_stamp(&self) -> u64 {
        self.commit.puts.last().map_or(self.view.slot.stamp(), |sealed| sealed.header().stamp)
    }

    /// Writes whatever was decided into the tables.
    fn carry_out(&self, line: Option<RunLine>) -> Result<()> {
        let (tx, commit, stamp) = (self.tx, self.commit, self.last_stamp());
        let mut line = match line {
            Some(line) => line,
            None => new_run(tx, self.run, stamp)?,
        };
        for sealed in &commit.puts {
            put(tx, line.n, sealed)?;
            line.last_sequence = sealed.header().sequence;
            line.count += 1;
        }
        for (sequence, marks) in &commit.marks {
            set_marks(tx, line.n, *sequence, marks)?;
        }
        let gone = drop_checkpoints(tx, line.n, &self.drops())?;
        line.count = line.count.saturating_sub(gone);
        if gone >= MANY {
            // Given back before they were written as free, pages need not be written at all.
            upkeep::give_back(tx)?;
        }
        self.items(line.n)?;
        push_events(tx, &mut line, self.view.slot.stamp(), &commit.events)?;
        line.stamp = stamp;
        if line.renamed {
            tx.execute("UPDATE run SET run_id = ?2 WHERE n = ?1", params![line.n, line.run_id])?;
        }
        let record = json(&commit.record)?;
        set_run(tx, &line, &read::run_checksum(&line, &commit.record, &record), &record)
    }
}

/// Adds a run that holds nothing yet.
pub(super) fn new_run(tx: &Connection, run: &RunId, stamp: u64) -> Result<RunLine> {
    tx.prepare_cached(
        "INSERT INTO run (run_id, stamp, last_sequence, count, events, checksum, record) \
         VALUES (?1, ?2, 0, 0, 0, x'', '')",
    )?
    .execute(params![run.as_str(), stamp as i64])?;
    Ok(RunLine {
        n: tx.last_insert_rowid(),
        run_id: run.to_string(),
        stamp,
        last_sequence: 0,
        count: 0,
        events: 0,
        record: Err(Damage::integrity(Part::Run, "", "")),
        renamed: false,
    })
}

/// Writes a run's own row.
pub(super) fn set_run(tx: &Connection, line: &RunLine, sum: &[u8], record: &str) -> Result<()> {
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

pub(super) fn json<T: serde::Serialize>(value: &T) -> Result<String> {
    serde_json::to_string(value).map_err(|e| rusqlite::Error::ToSqlConversionFailure(e.into()))
}

fn put(tx: &Connection, n: i64, sealed: &Sealed) -> Result<()> {
    put_whole(tx, n, sealed)?;
    frames::settle(tx, n, sealed.header().sequence, &mut None)
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

/// A header as it is stored, and its checksum.
pub(super) fn header_text(n: i64, sealed: &Sealed) -> Result<(String, [u8; 16])> {
    let header = sealed.header();
    let text = json(header)?;
    let key = header_key(n, header.sequence, header.stamp);
    let id = header.snapshot_id.as_str();
    let key = [id.as_bytes(), &key[0], &key[1], &key[2]];
    let sum = checksum(Part::Header, &key, text.as_bytes());
    memo::remember(&memo::HEADERS, &key, text.as_bytes(), &sum, header);
    Ok((text, sum))
}

/// Writes the header's row, or rewrites it under another stamp or after damage.
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
pub(super) fn drop_checkpoints(tx: &Connection, n: i64, drops: &[u64]) -> Result<u64> {
    let mut gone = 0;
    for stretch in drops.chunk_by(|a, b| a + 1 == *b) {
        let (Some(&first), Some(&last)) = (stretch.first(), stretch.last()) else { continue };
        // What is packed against one inside the stretch goes with it.
        frames::release(tx, n, first)?;
        let range = params![n, integer(first), integer(last)];
        drop_documents(tx, range)?;
        for table in ["marks", "name"] {
            let sql = format!("DELETE FROM {table} WHERE run_n = ?1 AND sequence BETWEEN ?2 AND ?3");
            tx.prepare_cached(&sql)?.execute(range)?;
        }
        for rows in ["checkpoint WHERE", "fresh WHERE run_sum = x'' AND"] {
            let sql = format!("DELETE FROM {rows} run_n = ?1 AND sequence BETWEEN ?2 AND ?3");
            gone += tx.prepare_cached(&sql)?.execute(range)? as u64;
        }
    }
    Ok(gone)
}

/// Removes the documents of a stretch. Where nobody else has written in between, one range of stamps is all of them.
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

pub(super) fn push_item(tx: &Connection, n: i64, at: i64, item: &Item) -> Result<()> {
    let text = json(item)?;
    let key = [n.to_le_bytes(), at.to_le_bytes()];
    let sum = checksum(Part::Item, &[&key[0], &key[1]], text.as_bytes());
    tx.prepare_cached("INSERT INTO item (run_n, n, checksum, item) VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![n, at, sum, text])?;
    Ok(())
}

/// Adds the events of one commit, several to a row.
pub(super) fn push_events(tx: &Connection, line: &mut RunLine, stamp: u64, events: &[Event]) -> Result<()> {
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
    trim_events(tx, line)
}

/// Removes the oldest rows of events beyond the bound.
pub(super) fn trim_events(tx: &Connection, line: &mut RunLine) -> Result<()> {
    // Seldom and many at once: removing a row from the front of a table touches more pages than adding one at its end.
    if line.events <= EVENTS_KEPT + 3 * EVENT_SLACK {
        return Ok(());
    }
    while line.events >= EVENTS_KEPT + EVENT_SLACK {
        let oldest = "SELECT n, count FROM event WHERE run_n = ?1 ORDER BY n LIMIT 1";
        let found = tx
            .prepare_cached(oldest)?
            .query_row([line.n], |row| Ok((number(row, 0)?, number(row, 1)?)))
            .optional()?;
        let Some((n, count)) = found else {
            line.events = 0;
            break;
        };
        tx.prepare_cached("DELETE FROM event WHERE run_n = ?1 AND n = ?2")?
            .execute(params![line.n, integer(n)])?;
        line.events = line.events.saturating_sub(count);
    }
    Ok(())
}

pub(super) fn delete_run(
    store: &SqliteStore,
    db: &mut Db,
    run: &RunId,
    only_at: Option<u64>,
) -> std::result::Result<bool, StoreError> {
    transact(store, db, &mut |tx, fresh, base| {
        let deleted = delete_rows(tx, fresh, base, run, only_at).map_err(|e| store.write_error(e))?;
        Ok(match deleted {
            true => Outcome::Changed { value: true, newest: base.next_stamp(), adds: Vec::new() },
            false => Outcome::Unchanged(false),
        })
    })
}

fn delete_rows(
    tx: &Connection,
    fresh: &Fresh,
    base: &Base,
    run: &RunId,
    only_at: Option<u64>,
) -> Result<bool> {
    let Some(line) = read::line(tx, fresh, run)? else { return Ok(false) };
    if only_at.is_some_and(|stamp| stamp != line.stamp) {
        return Ok(false);
    }
    let n = line.n;
    fresh::settle(tx, fresh)?;
    // Stamps must not go back once the run that had the newest is gone, and the deletion itself has one.
    set_floor(tx, base.next_stamp())?;
    for table in ["whole", "delta"] {
        tx.execute(
            &format!("DELETE FROM {table} WHERE stamp IN (SELECT stamp FROM checkpoint WHERE run_n = ?1)"),
            [n],
        )?;
    }
    for table in ["checkpoint", "fresh", "marks", "name", "item", "event"] {
        tx.execute(&format!("DELETE FROM {table} WHERE run_n = ?1"), [n])?;
    }
    tx.execute("DELETE FROM run WHERE n = ?1", [n])?;
    Ok(true)
}
