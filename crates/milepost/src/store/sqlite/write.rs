//! One decision, carried out in one transaction.

use rusqlite::{Connection, Result, params};

use super::connection::Db;
use super::decode::{self, RunLine};
use super::transact::{Base, Outcome, transact};
use super::view::StoreView;
use super::{SqliteStore, maintenance, rows};
use crate::model::{CheckpointId, RunId};
use crate::store::{
    CheckpointFilter, Commit, CommitLookup, DETAILS_WERE_SHOWN, Decide, HeaderQuery, OLDEST_SHOWN, Receipt,
    Row, RunDetails, RunView, Slot, StoreError, WriteDecision,
};

/// A commit that removes at least this many checkpoints returns their pages to the disk; fewer pages are soon reused.
const VACUUM_FROM: u64 = 64;

/// Whether a plain save merges what was appended, if there is enough of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Merge {
    IfDue,
    Later,
}

pub(super) fn write(
    store: &SqliteStore,
    db: &mut Db,
    run: &RunId,
    decide: &mut Decide<'_>,
) -> std::result::Result<Receipt, StoreError> {
    match write_once(store, db, run, decide, Merge::IfDue) {
        // On a disk that is all but full: a WAL that is started again in place needs no more of it, and a merge,
        // which needs more than the save by itself, can wait.
        Err(StoreError::Write { .. }) => {
            db.copy_back();
            write_once(store, db, run, decide, Merge::Later)
        }
        result => result,
    }
}

fn write_once(
    store: &SqliteStore,
    db: &mut Db,
    run: &RunId,
    decide: &mut Decide<'_>,
    merge: Merge,
) -> std::result::Result<Receipt, StoreError> {
    transact(store, db, &mut |tx, stored, base| decide_and_apply(store, tx, stored, base, run, decide, merge))
}

/// Shows the decision what it needs and carries its answer out, up to the commit.
fn decide_and_apply(
    store: &SqliteStore,
    tx: &Connection,
    stored: &StoreView<'_>,
    base: &Base,
    run: &RunId,
    decide: &mut Decide<'_>,
    merge: Merge,
) -> std::result::Result<Outcome<Receipt>, StoreError> {
    let failed = |e| store.write_error(e);
    let mut line = stored.find_run(run).map_err(failed)?;
    let (mut view, mut places) = view(stored, base, line.as_ref()).map_err(failed)?;
    // Dropping the transaction, also when the decision panics, rolls it back.
    let mut verdict = decide(&view);
    if let (WriteDecision::NeedDetails, Some(line), None) = (&verdict, &line, &view.details) {
        view.details = Some(details(stored, line, &mut places).map_err(failed)?);
        verdict = decide(&view);
    }
    let commit = match verdict {
        WriteDecision::Commit(commit) => commit,
        WriteDecision::NoChange => return Ok(Outcome::Unchanged(Receipt::default())),
        WriteDecision::NeedDetails => return Err(StoreError::Rules(DETAILS_WERE_SHOWN)),
    };
    commit.validate(run, &view, &SqlLookup { store, tx, stored, n: line.as_ref().map(|line| line.n) })?;
    let mut work = Work { tx, stored, run, view: &view, commit: &commit, places: &places };
    let merged;
    let plain = line.as_ref().is_some_and(|line| work.is_plain(line));
    if !plain || (merge == Merge::IfDue && stored.is_merge_due()) {
        merged = stored.merge().map_err(failed)?;
        work.stored = &merged;
        if let Some(line) = &mut line {
            // Some of its events may have had to go.
            line.events = merged.merged_event_count(line.n).map_err(failed)?;
        }
    }
    match line {
        Some(line) if plain => work.append(line).map_err(failed)?,
        line => work.write_tables(line).map_err(failed)?,
    }
    let adds = commit.puts.iter().map(|sealed| sealed.header().snapshot_id.clone()).collect();
    Ok(Outcome::Changed { value: Receipt::default(), newest: work.last_stamp(), adds })
}

/// Numbers of the items that a view shows, and the next free one.
struct ItemPlaces {
    shown: Vec<i64>,
    next: i64,
}

fn view(stored: &StoreView<'_>, base: &Base, line: Option<&RunLine>) -> Result<(RunView, ItemPlaces)> {
    let slot = Slot::issue(base.next_sequence(line), base.next_stamp());
    let Some(line) = line else {
        return Ok((RunView::of_new_run(slot), ItemPlaces { shown: vec![], next: 1 }));
    };
    let numbers = stored.item_numbers(line.n)?;
    // A damaged item keeps its number until it is dealt with; new ones come after it.
    let places = ItemPlaces { shown: vec![], next: numbers.map_or(1, |(_, last)| last.saturating_add(1)) };
    let view = RunView {
        record: line.record.as_ref().ok().map(|record| (**record).clone()),
        slot,
        count: line.count,
        latest: stored.newest(line.n)?.and_then(Row::intact),
        waiting: numbers.map_or(0, |(first, last)| last.abs_diff(first).saturating_add(1)),
        details: None,
    };
    Ok((view, places))
}

fn details(stored: &StoreView<'_>, line: &RunLine, places: &mut ItemPlaces) -> Result<RunDetails> {
    let oldest = stored.oldest(line.n, OLDEST_SHOWN)?;
    let intact = stored.items(line.n)?.into_iter().filter_map(|(n, item)| Some((n, item.ok()?)));
    let items;
    (places.shown, items) = intact.unzip();
    Ok(RunDetails { oldest, items })
}

/// The answers of this store to `Commit::validate`.
struct SqlLookup<'a> {
    store: &'a SqliteStore,
    tx: &'a Connection,
    stored: &'a StoreView<'a>,
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
            if self.stored.is_id_taken(id).map_err(|e| self.store.write_error(e))? {
                return Ok(Some((*id).clone()));
            }
        }
        Ok(None)
    }

    fn is_name_taken(&self, name: &str) -> std::result::Result<bool, StoreError> {
        let is_taken = |find| {
            let query = HeaderQuery::default().find(find).limit(1);
            self.stored.headers(&query).map(|rows| !rows.is_empty())
        };
        is_taken(CheckpointFilter::Id(name))
            .and_then(|by_id| Ok(by_id || is_taken(CheckpointFilter::Name(name))?))
            .map_err(|e| self.store.write_error(e))
    }
}

/// One decision about one run, on its way into the tables.
struct Work<'a> {
    tx: &'a Connection,
    stored: &'a StoreView<'a>,
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

    /// Appends a plain save.
    fn append(&self, mut line: RunLine) -> Result<()> {
        let [sealed] = &self.commit.puts[..] else { return Ok(()) };
        let shown: Vec<_> = self.view.details.iter().flat_map(|details| &details.oldest).collect();
        let mut gone = Vec::new();
        for sequence in self.drops() {
            if shown.iter().any(|entry| entry.header.sequence == sequence)
                || self.stored.has_checkpoint(line.n, sequence)?
            {
                gone.push(sequence);
            }
        }
        line.last_sequence = sealed.header().sequence;
        line.stamp = sealed.header().stamp;
        line.count = (line.count + 1).saturating_sub(gone.len() as u64);
        line.events += self.commit.events.len() as u64;
        self.items(line.n)?;
        self.stored.append(&line, &self.commit.record, sealed, &gone, &self.commit.events)
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
    fn write_tables(&self, line: Option<RunLine>) -> Result<()> {
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
        let gone = self.stored.drop_checkpoints(line.n, &self.drops())?;
        line.count = line.count.saturating_sub(gone);
        if gone >= VACUUM_FROM {
            // Pages that are returned before they are written as free need not be written at all.
            maintenance::vacuum(tx)?;
        }
        self.items(line.n)?;
        rows::push_events(tx, &mut line, self.view.slot.stamp(), &commit.events)?;
        line.stamp = stamp;
        if line.renamed {
            tx.execute("UPDATE run SET run_id = ?2 WHERE n = ?1", params![line.n, line.run_id])?;
        }
        let record = rows::json(&commit.record)?;
        rows::set_run(tx, &line, &decode::run_checksum(&line, &commit.record, &record), &record)
    }
}

pub(super) fn delete_run(
    store: &SqliteStore,
    db: &mut Db,
    run: &RunId,
    only_at: Option<u64>,
) -> std::result::Result<bool, StoreError> {
    transact(store, db, &mut |tx, stored, base| {
        let deleted = delete_rows(tx, stored, base, run, only_at).map_err(|e| store.write_error(e))?;
        Ok(match deleted {
            true => Outcome::Changed { value: true, newest: base.next_stamp(), adds: Vec::new() },
            false => Outcome::Unchanged(false),
        })
    })
}

fn delete_rows(
    tx: &Connection,
    stored: &StoreView<'_>,
    base: &Base,
    run: &RunId,
    only_at: Option<u64>,
) -> Result<bool> {
    let Some(line) = stored.find_run(run)? else { return Ok(false) };
    if only_at.is_some_and(|stamp| stamp != line.stamp) {
        return Ok(false);
    }
    let stored = stored.merge()?;
    // Stamps must not go back once the run that had the newest is gone, and the deletion itself has one.
    rows::set_floor(tx, base.next_stamp())?;
    stored.delete_run(line.n)?;
    Ok(true)
}
