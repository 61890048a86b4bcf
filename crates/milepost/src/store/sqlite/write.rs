//! Runs one write to a run in one transaction: shows the run to the decision, validates its commit
//! and writes it. A commit that only adds one checkpoint goes to the append log, and so does one without a checkpoint
//! if the append log has rows, which would have to be merged first otherwise. Every other commit is written to the
//! tables.

use rusqlite::{Connection, Result, params};

use super::blob::NewBlobs;
use super::connection::Db;
use super::decode::{self, RunTableRow};
use super::transact::{Numbering, Outcome, transact};
use super::view::StoreView;
use super::{SqliteStore, StoreResult, attachments, blob, maintenance, rows};
use crate::model::{BlobId, CheckpointId, RunId};
use crate::store::{
    CheckpointFilter, Commit, CommitLookup, DETAILS_WERE_SHOWN, Decide, HeaderQuery, OLDEST_SHOWN, Receipt,
    Row, RunDetails, RunView, Slot, StoreError, WriteDecision,
};

/// A commit that removes at least this many checkpoints releases their pages to the file system. A smaller
/// number of pages is soon reused.
const VACUUM_FROM: u64 = 64;

/// Whether an appendable commit first merges the append log into the tables when a merge is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Merge {
    IfDue,
    Later,
}

pub(super) fn write(
    store: &SqliteStore,
    db: &mut Db,
    run: &RunId,
    blobs: &mut NewBlobs<'_>,
    decide: &mut Decide<'_>,
) -> StoreResult<Receipt> {
    let mut write_once = |db: &mut Db, merge| {
        transact(store, db, &mut |tx, stored, numbering| {
            blobs.add(store, tx)?;
            decide_and_apply(store, tx, stored, numbering, run, decide, merge)
        })
    };
    match write_once(db, Merge::IfDue) {
        // The disk may be nearly full. Restarting the WAL in place needs no extra space. A merge needs more
        // space than the save itself, so it is postponed.
        Err(StoreError::Write { .. }) => {
            db.copy_back();
            write_once(db, Merge::Later)
        }
        result => result,
    }
}

/// Shows the run to the decision and writes its commit. The caller commits the transaction.
fn decide_and_apply(
    store: &SqliteStore,
    tx: &Connection,
    stored: &StoreView<'_>,
    numbering: &Numbering,
    run: &RunId,
    decide: &mut Decide<'_>,
    merge: Merge,
) -> StoreResult<Outcome<Receipt>> {
    let failed = |e| store.write_error(e);
    let mut run_row = stored.find_run(run).map_err(failed)?;
    let (mut view, mut numbers) = run_view(stored, numbering, run_row.as_ref()).map_err(failed)?;
    // Dropping the transaction rolls it back, even if the decision panics.
    let mut decision = decide(&view);
    if let (WriteDecision::NeedDetails, Some(run_row), None) = (&decision, &run_row, &view.details) {
        view.details = Some(details(stored, run_row, &mut numbers).map_err(failed)?);
        decision = decide(&view);
    }
    let commit = match decision {
        WriteDecision::Commit(commit) => commit,
        WriteDecision::NoChange => return Ok(Outcome::Unchanged(Receipt::default())),
        WriteDecision::NeedDetails => return Err(StoreError::Rules(DETAILS_WERE_SHOWN)),
    };
    commit.validate(
        run,
        &view,
        &SqlLookup { store, tx, stored, run_n: run_row.as_ref().map(|run_row| run_row.n) },
    )?;
    let mut writer = CommitWriter { tx, stored, run, view: &view, commit: &commit, numbers: &numbers };
    let merged;
    let appendable = match &run_row {
        Some(run_row) => writer.is_appendable(run_row).map_err(failed)?,
        None => false,
    };
    if !appendable || (merge == Merge::IfDue && stored.is_merge_due()) {
        merged = stored.merge().map_err(failed)?;
        writer.stored = &merged;
        if let Some(run_row) = &mut run_row {
            // The merge may have removed old events.
            run_row.events = merged.merged_event_count(run_row.n).map_err(failed)?;
        }
    }
    match run_row {
        Some(run_row) if appendable => writer.append(run_row).map_err(failed)?,
        run_row => writer.write_tables(run_row).map_err(failed)?,
    }
    let adds = commit.puts.iter().map(|sealed| sealed.header().snapshot_id.clone()).collect();
    Ok(Outcome::Changed { value: Receipt::default(), newest: writer.last_stamp(), adds })
}

/// Numbers of the pending items that a view shows, and the next free number.
struct ItemNumbers {
    shown: Vec<i64>,
    next: i64,
}

fn run_view(
    stored: &StoreView<'_>,
    numbering: &Numbering,
    run_row: Option<&RunTableRow>,
) -> Result<(RunView, ItemNumbers)> {
    let slot = Slot::issue(numbering.next_sequence(run_row), numbering.next_stamp());
    let Some(run_row) = run_row else {
        return Ok((RunView::of_new_run(slot), ItemNumbers { shown: vec![], next: 1 }));
    };
    let ends = stored.item_numbers(run_row.n)?;
    // A damaged item keeps its number; new items get higher ones.
    let numbers = ItemNumbers { shown: vec![], next: ends.map_or(1, |(_, last)| last.saturating_add(1)) };
    let view = RunView {
        record: run_row.record.as_ref().ok().map(|record| (**record).clone()),
        slot,
        count: run_row.count,
        latest: stored.newest(run_row.n)?.and_then(Row::intact),
        waiting: ends.map_or(0, |(first, last)| last.abs_diff(first).saturating_add(1)),
        details: None,
    };
    Ok((view, numbers))
}

fn details(stored: &StoreView<'_>, run_row: &RunTableRow, numbers: &mut ItemNumbers) -> Result<RunDetails> {
    let oldest = stored.oldest(run_row.n, OLDEST_SHOWN)?;
    let intact = stored.items(run_row.n)?.into_iter().filter_map(|(n, item)| Some((n, item.ok()?)));
    let items;
    (numbers.shown, items) = intact.unzip();
    Ok(RunDetails { oldest, items })
}

/// Looks up what `Commit::validate` needs to know about the store.
struct SqlLookup<'a> {
    store: &'a SqliteStore,
    tx: &'a Connection,
    stored: &'a StoreView<'a>,
    /// The run's row number; `None` for a new run.
    run_n: Option<i64>,
}

impl CommitLookup for SqlLookup<'_> {
    fn marks_revision(&self, sequence: u64) -> StoreResult<Option<u64>> {
        let Some(n) = self.run_n else { return Ok(None) };
        rows::marks_revision(self.tx, n, sequence).map_err(|e| self.store.write_error(e))
    }

    fn find_taken_id(&self, ids: &[&CheckpointId]) -> StoreResult<Option<CheckpointId>> {
        for id in ids {
            if self.stored.is_id_taken(id).map_err(|e| self.store.write_error(e))? {
                return Ok(Some((*id).clone()));
            }
        }
        Ok(None)
    }

    fn is_name_taken(&self, name: &str) -> StoreResult<bool> {
        let is_taken = |find| {
            let query = HeaderQuery::default().find(find).limit(1);
            self.stored.headers(&query).map(|rows| !rows.is_empty())
        };
        is_taken(CheckpointFilter::Id(name))
            .and_then(|by_id| Ok(by_id || is_taken(CheckpointFilter::Name(name))?))
            .map_err(|e| self.store.write_error(e))
    }

    fn find_missing_blobs(&self, ids: &[BlobId]) -> StoreResult<Vec<BlobId>> {
        blob::find_missing(self.tx, &self.store.blob_folder(), ids).map_err(|e| self.store.write_error(e))
    }
}

/// Writes one validated commit to the append log or the tables.
struct CommitWriter<'a> {
    tx: &'a Connection,
    stored: &'a StoreView<'a>,
    run: &'a RunId,
    view: &'a RunView,
    commit: &'a Commit,
    numbers: &'a ItemNumbers,
}

impl CommitWriter<'_> {
    /// Whether the append log can store this commit: at most one checkpoint of an existing, intact run,
    /// without marks or an imported id. Appended rows remove their checkpoints later, with the attachments that these
    /// have then. So if one commit removes checkpoints, neither it nor a later one in the append log may attach anything,
    /// and the run must have no attachments.
    fn is_appendable(&self, run_row: &RunTableRow) -> Result<bool> {
        let Commit { puts, marks, drops, events, attachments, .. } = self.commit;
        let is_appendable_put = match &puts[..] {
            [] => drops.is_empty() && !self.stored.is_log_empty(),
            [sealed] => {
                let header = sealed.header();
                header.imported_id.is_none() && header.stamp == self.view.slot.stamp()
            }
            _ => false,
        };
        let is_plain = is_appendable_put
            && marks.is_empty()
            && !run_row.renamed
            && run_row.record.is_ok()
            && events.len() as u64 <= rows::EVENT_SLACK;
        let removes = !drops.is_empty() || self.stored.has_removed_any(run_row.n);
        if !is_plain || (removes && !attachments.is_empty()) {
            return Ok(false);
        }
        Ok(drops.is_empty() || !attachments::has_any(self.tx, run_row.n)?)
    }

    /// Appends the commit to the append log.
    fn append(&self, mut run_row: RunTableRow) -> Result<()> {
        let sealed = self.commit.puts.first();
        let shown: Vec<_> = self.view.details.iter().flat_map(|details| &details.oldest).collect();
        let mut removed = Vec::new();
        for sequence in self.drops() {
            if shown.iter().any(|entry| entry.header.sequence == sequence)
                || self.stored.has_checkpoint(run_row.n, sequence)?
            {
                removed.push(sequence);
            }
        }
        if let Some(sealed) = sealed {
            run_row.last_sequence = sealed.header().sequence;
            run_row.count += 1;
        }
        run_row.stamp = self.last_stamp();
        run_row.count = run_row.count.saturating_sub(removed.len() as u64);
        run_row.events += self.commit.events.len() as u64;
        self.write_items(run_row.n)?;
        attachments::apply(self.tx, run_row.n, self.view.slot.stamp(), self.commit)?;
        self.stored.append(&run_row, &self.commit.record, sealed, &removed, &self.commit.events)
    }

    /// Sequences of the checkpoints to remove, ascending and without duplicates.
    fn drops(&self) -> Vec<u64> {
        let mut drops = self.commit.drops.clone();
        drops.sort_unstable();
        drops.dedup();
        drops
    }

    /// Removes the pending items that the commit consumes, adds its new items and messages, and sets its roots.
    fn write_items(&self, n: i64) -> Result<()> {
        for at in &self.numbers.shown[..self.commit.consume] {
            self.tx
                .prepare_cached("DELETE FROM item WHERE run_n = ?1 AND n = ?2")?
                .execute(params![n, at])?;
        }
        for (at, item) in (self.numbers.next..).zip(&self.commit.push) {
            rows::push_item(self.tx, n, at, item)?;
        }
        for (name, blob) in &self.commit.roots {
            blob::set_root(self.tx, name, blob)?;
        }
        rows::push_messages(self.tx, n, self.view.slot.stamp(), &self.commit.messages)
    }

    /// The last stamp that the commit takes.
    fn last_stamp(&self) -> u64 {
        self.commit.puts.last().map_or(self.view.slot.stamp(), |sealed| sealed.header().stamp)
    }

    /// Writes the commit to the tables.
    fn write_tables(&self, run_row: Option<RunTableRow>) -> Result<()> {
        let (tx, commit, stamp) = (self.tx, self.commit, self.last_stamp());
        let mut run_row = match run_row {
            Some(run_row) => run_row,
            None => rows::new_run(tx, self.run, stamp)?,
        };
        for sealed in &commit.puts {
            rows::put(tx, run_row.n, sealed)?;
            run_row.last_sequence = sealed.header().sequence;
            run_row.count += 1;
        }
        for (sequence, marks) in &commit.marks {
            rows::set_marks(tx, run_row.n, *sequence, marks)?;
        }
        let removed = self.stored.drop_checkpoints(run_row.n, &self.drops())?;
        run_row.count = run_row.count.saturating_sub(removed);
        if removed >= VACUUM_FROM {
            // Pages released within this transaction are never written as free pages.
            maintenance::vacuum(tx)?;
        }
        self.write_items(run_row.n)?;
        attachments::apply(tx, run_row.n, self.view.slot.stamp(), commit)?;
        rows::push_events(tx, &mut run_row, self.view.slot.stamp(), &commit.events)?;
        run_row.stamp = stamp;
        if run_row.renamed {
            tx.execute("UPDATE run SET run_id = ?2 WHERE n = ?1", params![run_row.n, run_row.run_id])?;
        }
        let record = rows::json(&commit.record)?;
        rows::set_run(tx, &run_row, &decode::run_checksum(&run_row, &commit.record, &record), &record)
    }
}

pub(super) fn delete_run(
    store: &SqliteStore,
    db: &mut Db,
    run: &RunId,
    only_at: Option<u64>,
) -> StoreResult<bool> {
    let delete = |tx: &Connection, stored: &StoreView<'_>, numbering: &Numbering| -> Result<Outcome<bool>> {
        let run_row =
            stored.find_run(run)?.filter(|run_row| only_at.is_none_or(|stamp| stamp == run_row.stamp));
        let Some(run_row) = run_row else { return Ok(Outcome::Unchanged(false)) };
        let stored = stored.merge()?;
        // Deleting the run with the newest stamp must not make stamps go backwards, and the
        // deletion itself takes a stamp.
        rows::set_floor(tx, numbering.next_stamp())?;
        stored.delete_run(run_row.n)?;
        Ok(Outcome::Changed { value: true, newest: numbering.next_stamp(), adds: Vec::new() })
    };
    transact(store, db, &mut |tx, stored, next| delete(tx, stored, next).map_err(|e| store.write_error(e)))
}
