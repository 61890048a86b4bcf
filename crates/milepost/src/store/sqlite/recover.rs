//! Recovers lost writes from the copy of the database that was made when the loss was detected. Restores
//! verified checkpoints under their own numbers, with their events. Restores the run's record and items only
//! if the run has not been written since.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use rusqlite::{Connection, Result, params};

use super::connection::Access;
use super::decode::{self, EVENTS_PER_STAMP, integer, number};
use super::loss::{self, Loss};
use super::salvage;
use super::transact::{Outcome, transact};
use super::view::StoreView;
use super::wal::{self, Unproven};
use super::{SqliteStore, StoreResult, blob, frames, rows, sibling};
use crate::fs::{atomic, bounded};
use crate::model::{Event, Item, Marks, Message, RunId, RunRecord};
use crate::seal::Verified;
use crate::store::{EventQuery, Slot};

/// Maximum size of a WAL that is rebuilt in memory.
const WAL_LIMIT: u64 = 1 << 30;

/// A verified checkpoint.
struct Recovered {
    stamp: u64,
    document: Verified,
    marks: Option<Marks>,
}

/// The record and items of a run after its newest lost write.
struct Tail {
    stamp: u64,
    last_sequence: u64,
    record: RunRecord,
    items: Vec<Item>,
}

/// The recoverable data of one run.
#[derive(Default)]
struct Found {
    checkpoints: BTreeMap<u64, Recovered>,
    events: BTreeMap<u64, Event>,
    /// Lost messages by position.
    messages: BTreeMap<i64, Message>,
    tail: Option<Tail>,
}

/// The result of a recovery.
#[derive(Debug, Default)]
pub(super) struct Recovery {
    /// Number of losses that are now acknowledged.
    pub(super) losses: u64,
    /// Number of restored checkpoints.
    checkpoints: u64,
    /// Names of the copies of damaged files.
    kept: Vec<String>,
}

impl fmt::Display for Recovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "checkpoints recovered: {}", self.checkpoints)?;
        if self.kept.is_empty() {
            Ok(())
        } else {
            write!(f, "; the damaged files are kept in {}", self.kept.join(", "))
        }
    }
}

/// Restores all data that can be verified and acknowledges all losses. The caller holds the lock.
pub(super) fn recover(store: &SqliteStore) -> StoreResult<Recovery> {
    // Any transaction detects a loss that has not been recorded yet.
    let losses = store.with(Access::Write, |db| {
        transact(store, db, &mut |_, view, _| {
            view.losses().map(Outcome::Unchanged).map_err(|e| store.write_error(e))
        })
    })?;
    let mut recovery = Recovery::default();
    for loss in losses.into_iter().filter(|loss| !loss.acknowledged) {
        let found = loss.copy(&store.path).map_or_else(BTreeMap::new, |copy| search(store, &loss, &copy));
        recovery.checkpoints += store.change_tables(|tx, view| put_back(tx, view, &loss, &found))?;
        recovery.losses += 1;
        recovery.kept.extend(Some(loss.kept).filter(|name| !name.is_empty()));
    }
    Ok(recovery)
}

/// Searches the kept copy for lost writes. Skips everything that cannot be read.
fn search(store: &SqliteStore, loss: &Loss, copy: &Path) -> BTreeMap<RunId, Found> {
    let mut found = BTreeMap::new();
    let Ok(wal) = bounded::read(&sibling(copy, "-wal"), WAL_LIMIT) else { return found };
    // Search with and without the damaged frames: each may reveal checkpoints that the other
    // hides. Every checkpoint is verified.
    for unproven in [Unproven::Skip, Unproven::Use] {
        let _ = search_rebuilt(store, loss, copy, &wal, unproven, &mut found);
    }
    found
}

fn search_rebuilt(
    store: &SqliteStore,
    loss: &Loss,
    copy: &Path,
    wal: &[u8],
    unproven: Unproven,
    found: &mut BTreeMap<RunId, Found>,
) -> Result<()> {
    let io = |e: std::io::Error| rusqlite::Error::ToSqlConversionFailure(e.into());
    let folder =
        tempfile::Builder::new().prefix(atomic::TEMP_PREFIX).tempdir_in(atomic::folder_of(&store.path));
    let folder = folder.map_err(io)?;
    let path = folder.path().join("copy.db");
    std::fs::copy(copy, &path).map_err(io)?;
    let page_size = page_size(&path).map_err(io)?;
    let Some(wal) = wal::rebuilt(wal, page_size, unproven) else { return Ok(()) };
    atomic::write_without_folder_sync(&sibling(&path, "-wal"), &wal, atomic::Mode::Private).map_err(io)?;
    let survey = salvage::survey(&path)?;
    let connection = salvage::connect(&path)?;
    // Blobs have no stamps. Those that no recovered checkpoint refers to are removed by the next collection.
    let _ = blob::copy_readable(&connection, store, &store.blob_folder());
    let view = StoreView::load_readable(&connection);
    for (run, checkpoints) in &survey.found {
        let entry = found.entry(run.clone()).or_default();
        for (sequence, row) in checkpoints {
            if !is_lost(loss, row.stamp) || entry.checkpoints.contains_key(sequence) {
                continue;
            }
            if let Some(document) = salvage::document(&connection, row.n, *sequence) {
                let marks = salvage::marks(&connection, run, *sequence);
                entry.checkpoints.insert(*sequence, Recovered { stamp: row.stamp, document, marks });
            }
        }
        let lost_at = |at: i64| u64::try_from(at).is_ok_and(|at| is_lost(loss, at / EVENTS_PER_STAMP));
        let messages = view.run_n(run).ok().flatten().and_then(|n| view.messages(n).ok()).unwrap_or_default();
        for (at, message) in messages.into_iter().filter(|(at, _)| lost_at(*at)) {
            entry.messages.extend(message.ok().map(|message| (at, message)));
        }
        if let Some(tail) = tail(&view, run).filter(|tail| is_lost(loss, tail.stamp)) {
            entry.tail = Some(tail);
        }
        let after = loss.found.saturating_mul(EVENTS_PER_STAMP).saturating_add(EVENTS_PER_STAMP - 1);
        if let Ok(page) = view.events(&EventQuery::default().run(run).after(after)) {
            entry.events.extend(page.events);
        }
    }
    Ok(())
}

fn is_lost(loss: &Loss, stamp: u64) -> bool {
    (loss.found + 1..=loss.expected).contains(&stamp)
}

/// The run's record and items, if all of them are intact.
fn tail(view: &StoreView<'_>, run: &RunId) -> Option<Tail> {
    let run_row = view.find_run(run).ok()??;
    let items = view.items(run_row.n).ok()?;
    let items = items.into_iter().map(|(_, item)| item).collect::<std::result::Result<_, _>>().ok()?;
    Some(Tail {
        stamp: run_row.stamp,
        last_sequence: run_row.last_sequence,
        record: *run_row.record.ok()?,
        items,
    })
}

/// The page size in the header of a database.
fn page_size(database: &Path) -> std::io::Result<usize> {
    use std::io::Read as _;
    let mut header = [0; 18];
    bounded::open(database)?.read_exact(&mut header)?;
    Ok(match u16::from_be_bytes([header[16], header[17]]) {
        1 => 65536,
        size => usize::from(size),
    })
}

/// Restores the recovered data and acknowledges the loss. Returns the number of restored checkpoints.
fn put_back(
    tx: &Connection,
    view: &StoreView<'_>,
    loss: &Loss,
    found: &BTreeMap<RunId, Found>,
) -> Result<u64> {
    let view = view.merge()?;
    let mut count = 0;
    for (run, found) in found {
        count += put_back_run(tx, &view, loss, run, found)?;
    }
    loss::store(tx, &Loss { acknowledged: true, ..loss.clone() })?;
    Ok(count)
}

fn put_back_run(
    tx: &Connection,
    view: &StoreView<'_>,
    loss: &Loss,
    run: &RunId,
    found: &Found,
) -> Result<u64> {
    if found.checkpoints.is_empty() && found.tail.is_none() {
        return Ok(0);
    }
    let mut run_row = match view.find_run(run)? {
        Some(run_row) => run_row,
        None => rows::new_run(tx, run, loss.found)?,
    };
    let written_since = run_row.stamp > loss.found;
    let mut count = 0;
    for (sequence, checkpoint) in &found.checkpoints {
        if put_back_checkpoint(tx, view, run_row.n, *sequence, checkpoint)? {
            count += 1;
            run_row.count += 1;
            run_row.last_sequence = run_row.last_sequence.max(*sequence);
        }
    }
    let mut by_stamp: BTreeMap<u64, Vec<Event>> = BTreeMap::new();
    for (position, event) in &found.events {
        by_stamp.entry(position / EVENTS_PER_STAMP).or_default().push(event.clone());
    }
    for (stamp, events) in by_stamp.iter().filter(|(stamp, _)| is_lost(loss, **stamp)) {
        rows::push_events(tx, &mut run_row, *stamp, events)?;
    }
    for (at, message) in &found.messages {
        rows::put_message(tx, run_row.n, *at, message)?;
    }
    let mut record = run_row.record.as_ref().ok().map(|record| (**record).clone());
    if let (false, Some(tail)) = (written_since, &found.tail) {
        run_row.stamp = tail.stamp;
        run_row.last_sequence = run_row.last_sequence.max(tail.last_sequence);
        record = Some(tail.record.clone());
        tx.execute("DELETE FROM item WHERE run_n = ?1", [run_row.n])?;
        for (at, item) in (1..).zip(&tail.items) {
            rows::push_item(tx, run_row.n, at, item)?;
        }
    }
    match record {
        Some(record) => {
            let text = rows::json(&record)?;
            rows::set_run(tx, &run_row, &decode::run_checksum(&run_row, &record, &text), &text)?;
        }
        // Without a valid checksum, the engine rebuilds the record from the run's checkpoints.
        None => rows::set_run(tx, &run_row, &[], "")?,
    }
    Ok(count)
}

/// Restores one checkpoint under its own number, unless that number or its id is taken.
fn put_back_checkpoint(
    tx: &Connection,
    view: &StoreView<'_>,
    n: i64,
    sequence: u64,
    recovered: &Recovered,
) -> Result<bool> {
    let slot = Slot::issue(sequence, recovered.stamp);
    let Ok(sealed) = recovered.document.clone().into_sealed(&slot) else { return Ok(false) };
    let key = params![n, integer(sequence)];
    let has_number = "SELECT 1 FROM checkpoint WHERE run_n = ?1 AND sequence = ?2";
    if tx.prepare_cached(has_number)?.exists(key)? || view.is_id_taken(&sealed.header().snapshot_id)? {
        return Ok(false);
    }
    // The older neighbour may be packed against the newer one. A document may only be packed against its
    // direct successor, so make it whole first.
    let above = "SELECT min(sequence) FROM checkpoint WHERE run_n = ?1 AND sequence > ?2";
    let above: Option<u64> = tx
        .prepare_cached(above)?
        .query_row(key, |row| row.get::<_, Option<i64>>(0)?.map(|_| number(row, 0)).transpose())?;
    if let Some(above) = above {
        frames::make_dependant_whole(tx, n, above)?;
    }
    rows::put_whole(tx, n, &sealed)?;
    if let Some(marks) = &recovered.marks {
        rows::set_marks(tx, n, sequence, marks)?;
    }
    Ok(true)
}
