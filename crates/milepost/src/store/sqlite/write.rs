//! One decision, carried out in one transaction.

use rusqlite::{Connection, Result, params};

use super::connection::Db;
use super::fresh::{self, Fresh};
use super::read::{self, RunLine, integer};
use super::transact::{Base, Outcome, transact};
use super::{SqliteStore, list, maintenance, rows};
use crate::model::{CheckpointId, RunId};
use crate::store::{
    CheckpointFilter, Commit, CommitLookup, DETAILS_WERE_SHOWN, Decide, HeaderQuery, OLDEST_SHOWN, Receipt,
    Row, RunDetails, RunView, Slot, StoreError, WriteDecision,
};

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
    if let (WriteDecision::NeedDetails, Some(line), None) = (&verdict, &line, &view.details) {
        view.details = Some(details(tx, fresh, line, &mut places).map_err(failed)?);
        verdict = decide(&view);
    }
    let commit = match verdict {
        WriteDecision::Commit(commit) => commit,
        WriteDecision::NoChange => return Ok(Outcome::Unchanged(Receipt::default())),
        WriteDecision::NeedDetails => return Err(StoreError::Rules(DETAILS_WERE_SHOWN)),
    };
    commit.validate(run, &view, &SqlLookup { store, tx, n: line.as_ref().map(|line| line.n) })?;
    let work = Work { tx, run, view: &view, commit: &commit, places: &places };
    let plain = line.as_ref().is_some_and(|line| work.is_plain(line));
    if !plain || (settling == Settling::Due && fresh.is_full()) {
        fresh::settle(tx, fresh).map_err(failed)?;
        if let Some(line) = &mut line {
            // Some of its events may have had to go.
            line.events = read::events_of(tx, line.n).map_err(failed)?;
        }
    }
    match line {
        Some(line) if plain => work.append(line, fresh).map_err(failed)?,
        line => work.carry_out(line).map_err(failed)?,
    }
    let adds = commit.puts.iter().map(|sealed| sealed.header().snapshot_id.clone()).collect();
    Ok(Outcome::Changed { value: Receipt::default(), newest: work.last_stamp(), adds })
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
        return Ok((RunView::of_new_run(slot), ItemPlaces { shown: vec![], next: 1 }));
    };
    let numbers = read::item_numbers(tx, line.n)?;
    // A damaged item keeps its number until it is dealt with; new ones come after it.
    let places = ItemPlaces { shown: vec![], next: numbers.map_or(1, |(_, last)| last.saturating_add(1)) };
    let view = RunView {
        record: line.record.as_ref().ok().map(|record| (**record).clone()),
        slot,
        count: line.count,
        latest: read::newest(tx, fresh, line.n)?.and_then(Row::intact),
        waiting: numbers.map_or(0, |(first, last)| last.abs_diff(first).saturating_add(1)),
        details: None,
    };
    Ok((view, places))
}

fn details(tx: &Connection, fresh: &Fresh, line: &RunLine, places: &mut ItemPlaces) -> Result<RunDetails> {
    let oldest = read::oldest(tx, fresh, line.n, OLDEST_SHOWN)?;
    let intact = read::items(tx, line.n)?.into_iter().filter_map(|(n, item)| Some((n, item.ok()?)));
    let items;
    (places.shown, items) = intact.unzip();
    Ok(RunDetails { oldest, items })
}

/// The answers of this store to `Commit::validate`.
struct SqlLookup<'a> {
    store: &'a SqliteStore,
    tx: &'a Connection,
    /// The run's number; `None` for a new run.
    n: Option<i64>,
}

impl CommitLookup for SqlLookup<'_> {
    fn marks_revision(&self, sequence: u64) -> std::result::Result<Option<u64>, StoreError> {
        let Some(n) = self.n else { return Ok(None) };
        rows::marks_revision(self.tx, n, sequence).map_err(|e| self.store.write_error(e))
    }

    fn find_taken_id(&self, ids: &[&CheckpointId]) -> std::result::Result<Option<CheckpointId>, StoreError> {
        for id in ids {
            if rows::is_taken(self.tx, id).map_err(|e| self.store.write_error(e))? {
                return Ok(Some((*id).clone()));
            }
        }
        Ok(None)
    }

    fn is_name_taken(&self, name: &str) -> std::result::Result<bool, StoreError> {
        let is_taken = |find| {
            let query = HeaderQuery::default().find(find).limit(1);
            list::headers(self.tx, &query).map(|rows| !rows.is_empty())
        };
        is_taken(CheckpointFilter::Id(name))
            .and_then(|by_id| Ok(by_id || is_taken(CheckpointFilter::Name(name))?))
            .map_err(|e| self.store.write_error(e))
    }
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
    fn is_plain(&self, line: &RunLine) -> bool {
        let Commit { puts, marks, events, .. } = self.commit;
        let [sealed] = &puts[..] else { return false };
        let header = sealed.header();
        marks.is_empty()
            && !line.renamed
            && line.record.is_ok()
            && header.imported_id.is_none()
            && header.stamp == self.view.slot.stamp()
            && events.len() as u64 <= rows::EVENT_SLACK
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
                || self
                    .view
                    .details
                    .iter()
                    .flat_map(|details| &details.oldest)
                    .any(|e| e.header.sequence == sequence);
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
            rows::push_item(self.tx, n, at, item)?;
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
            None => rows::new_run(tx, self.run, stamp)?,
        };
        for sealed in &commit.puts {
            rows::put(tx, line.n, sealed)?;
            line.last_sequence = sealed.header().sequence;
            line.count += 1;
        }
        for (sequence, marks) in &commit.marks {
            rows::set_marks(tx, line.n, *sequence, marks)?;
        }
        let gone = rows::drop_checkpoints(tx, line.n, &self.drops())?;
        line.count = line.count.saturating_sub(gone);
        if gone >= MANY {
            // Given back before they were written as free, pages need not be written at all.
            maintenance::give_back(tx)?;
        }
        self.items(line.n)?;
        rows::push_events(tx, &mut line, self.view.slot.stamp(), &commit.events)?;
        line.stamp = stamp;
        if line.renamed {
            tx.execute("UPDATE run SET run_id = ?2 WHERE n = ?1", params![line.n, line.run_id])?;
        }
        let record = rows::json(&commit.record)?;
        rows::set_run(tx, &line, &read::run_checksum(&line, &commit.record, &record), &record)
    }
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
    rows::set_floor(tx, base.next_stamp())?;
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
