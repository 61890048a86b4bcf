//! Maintains the database file: finds and repairs damaged pages and inconsistent rows, and releases free
//! space. Takes a store and a task, and returns a report. Replaces a database that has damaged pages with a
//! salvaged one and keeps the original.

use rusqlite::{Connection, Result};

use super::connection::{self, Access};
use super::decode::number;
use super::thread_positions::Differences;
use super::view::StoreView;
use super::{SqliteStore, StoreResult, blob, recover, rows, salvage};
use crate::fs::atomic;
use crate::model::Marks;
use crate::seal;
use crate::store::{
    CheckpointFilter, HeaderQuery, Maintenance, MaintenanceReport, Problem, ProblemKind, Row, RunQuery, Slot,
    Store,
};

pub(super) fn maintain(store: &SqliteStore, what: Maintenance<'_>) -> StoreResult<MaintenanceReport> {
    match what {
        Maintenance::Inspect => inspect(store),
        Maintenance::Repair => repair(store),
        Maintenance::Compact => compact(store),
        // Documents are compressed when they are packed as frames.
        Maintenance::Compress { .. } => Ok(MaintenanceReport::default()),
    }
}

/// Maximum number of free pages released while the lock is held, so that other writers do not wait long.
const PAGES_PER_LOCK: u64 = 4096;

fn compact(store: &SqliteStore) -> StoreResult<MaintenanceReport> {
    let before = store.info()?.bytes;
    let mut free = u64::MAX;
    loop {
        let _lock = store.lock_for_writing()?;
        if free == u64::MAX {
            store.change_tables(|_, view| view.merge().map(drop))?;
        }
        let left = store.with(Access::Write, |db| {
            let left = vacuum(db.connection()).map_err(|e| store.write_error(e))?;
            // Stop when the number of free pages no longer shrinks: other writers are adding to it.
            let last = left == 0 || left >= free;
            if last {
                db.compact().map_err(|e| store.write_error(e))?;
            }
            Ok(if last { 0 } else { left })
        })?;
        if left == 0 {
            break;
        }
        free = left;
    }
    let bytes_freed = before.saturating_sub(store.info()?.bytes);
    Ok(MaintenanceReport { bytes_freed, ..MaintenanceReport::default() })
}

/// Releases at most `PAGES_PER_LOCK` free pages to the file system. Returns the number that remain.
pub(super) fn vacuum(connection: &Connection) -> Result<u64> {
    connection::incremental_vacuum(connection, PAGES_PER_LOCK)?;
    connection.query_row("PRAGMA freelist_count", [], |row| number(row, 0))
}

fn inspect(store: &SqliteStore) -> StoreResult<MaintenanceReport> {
    let mut report = MaintenanceReport::default();
    let mut found = |kind, message, repairable| report.problems.push(Problem { kind, message, repairable });
    for stray in atomic::leftover_temp_files(atomic::folder_of(&store.path)).unwrap_or_default() {
        let message = format!("temporary file {} was left by a crash", stray.display());
        found(ProblemKind::StrayFile, message, true);
    }
    let pages = store.with(Access::Any, |db| {
        let found = pages(db.connection());
        Ok(found.unwrap_or_else(|e| vec![e.to_string()]))
    })?;
    if let Some(first) = pages.first() {
        let salvage = salvage::survey(&store.path).map_err(|e| store.error(e))?;
        let readable = salvage.readable();
        let message = format!(
            "database pages are damaged ({first}); {readable} of {} checkpoints are readable and can be copied to a \
             new file; the damaged file is kept next to it",
            readable as u64 + salvage.lost,
        );
        found(ProblemKind::Pages, message, salvage.lost == 0);
        return Ok(report);
    }
    let lost = store.lost_writes()?;
    if lost > 0 {
        let message = format!("missing acknowledged writes: {lost} ({})", crate::store::LOSS_CAUSES);
        found(ProblemKind::Lost, message, true);
    }
    for damage in store.runs(&RunQuery::default())?.into_iter().filter_map(|run| run.record.err()) {
        let message = format!("{damage}; it can be rebuilt from its checkpoints");
        found(ProblemKind::Record, message, true);
    }
    for (_, _, row) in damaged_headers(store)? {
        let message = format!("{row}; it can be rebuilt from the document, and a pin replaces damaged marks");
        found(ProblemKind::Record, message, true);
    }
    let loose = store.with(Access::Any, |db| loose(db.connection()).map_err(|e| store.error(e)))?;
    if loose > 0 {
        found(ProblemKind::Orphan, format!("{loose} rows do not belong to any checkpoint"), true);
    }
    let differences = store.snapshot(Differences::find)?;
    let positions = differences.count();
    if positions > 0 {
        found(ProblemKind::Orphan, format!("{positions} positions in threads differ from the headers"), true);
    }
    report.problems.extend(blob::inspect(store)?);
    Ok(report)
}

fn pages(connection: &Connection) -> Result<Vec<String>> {
    let mut statement = connection.prepare("PRAGMA integrity_check(5)")?;
    let found: Vec<String> = statement.query_map([], |row| row.get(0))?.collect::<Result<_>>()?;
    Ok(found.into_iter().filter(|line| line != "ok").collect())
}

/// Counts frames and marks that do not belong to any checkpoint.
fn loose(connection: &Connection) -> Result<u64> {
    connection.query_row(
        "SELECT (SELECT count(*) FROM whole WHERE stamp NOT IN (SELECT stamp FROM checkpoint)) + \
                (SELECT count(*) FROM delta WHERE stamp NOT IN (SELECT stamp FROM checkpoint)) + \
                (SELECT count(*) FROM marks m WHERE NOT EXISTS \
                    (SELECT 1 FROM checkpoint c WHERE c.run_n = m.run_n AND c.sequence = m.sequence))",
        [],
        |row| number(row, 0),
    )
}

/// Rows with a damaged header and an intact document: run number, sequence number, description of the damage.
fn damaged_headers(store: &SqliteStore) -> StoreResult<Vec<(i64, u64, String)>> {
    store.read(|view| {
        let mut rows = view.headers(&HeaderQuery::default())?;
        rows.extend(view.headers(&HeaderQuery::default().find(CheckpointFilter::Orphaned))?);
        let mut found = Vec::new();
        for row in rows {
            let Row::Damaged { damage, cursor } = row else { continue };
            for n in view.runs_at(cursor.sequence, cursor.stamp)? {
                if let Some(Ok(document)) = view.document_or_removed(n, cursor.sequence)?
                    && seal::verify(document).is_ok()
                {
                    found.push((n, cursor.sequence, damage.to_string()));
                }
            }
        }
        Ok(found)
    })
}

fn repair(store: &SqliteStore) -> StoreResult<MaintenanceReport> {
    let mut report = inspect(store)?;
    let headers = damaged_headers(store).unwrap_or_default();
    let _lock = store.lock_for_writing()?;
    for stray in atomic::leftover_temp_files(atomic::folder_of(&store.path)).unwrap_or_default() {
        let removed = std::fs::remove_file(&stray).or_else(|_| std::fs::remove_dir_all(&stray));
        report.done += u64::from(removed.is_ok());
    }
    if report.problems.iter().any(|p| p.kind == ProblemKind::Pages) {
        let found = salvage::survey(&store.path).map_err(|e| store.error(e))?;
        salvage::replace_store(store, &found)?;
        report.done += 1;
        return Ok(report);
    }
    let recovered = recover::recover(store)?;
    report.done += recovered.losses;
    for problem in report.problems.iter_mut().filter(|problem| problem.kind == ProblemKind::Lost) {
        problem.message = format!("{}; {recovered}", problem.message);
    }
    report.done += store.change_tables(|tx, view| {
        let orphaned = view.headers(&HeaderQuery::default().find(CheckpointFilter::Orphaned))?;
        let mut rows = view.headers(&HeaderQuery::default())?.into_iter();
        let is_sound = orphaned.is_empty() && rows.all(|row| row.intact().is_some());
        let view = view.merge()?;
        let mut done = 0;
        for (n, sequence, _) in &headers {
            done += u64::from(rebuild_header(tx, &view, *n, *sequence)?);
        }
        // If a header is damaged, its stamp may be wrong, and its document only appears to be unreferenced.
        let tables: &[&str] = if is_sound { &["whole", "delta"] } else { &[] };
        for table in tables {
            let loose = format!("DELETE FROM {table} WHERE stamp NOT IN (SELECT stamp FROM checkpoint)");
            done += tx.execute(&loose, [])? as u64;
        }
        let loose = "DELETE FROM marks WHERE NOT EXISTS (SELECT 1 FROM checkpoint c \
                     WHERE c.run_n = marks.run_n AND c.sequence = marks.sequence)";
        done += tx.execute(loose, [])? as u64;
        let positions = Differences::find(tx)?;
        positions.repair(tx)?;
        Ok(done + positions.count())
    })?;
    report.done += blob::repair(store)?;
    Ok(report)
}

/// Rewrites a header from its document. Marks that fail verification are replaced by a pin, so that
/// the checkpoint stays protected.
fn rebuild_header(tx: &Connection, view: &StoreView<'_>, n: i64, sequence: u64) -> Result<bool> {
    let Some(Ok(document)) = view.document_or_removed(n, sequence)? else { return Ok(false) };
    let stamp = view.stamp_of(n, sequence)?;
    let slot = Slot::issue(sequence, stamp);
    let sealed = seal::verify(document).and_then(|verified| verified.into_sealed(&slot)).ok();
    let Some(sealed) = sealed.filter(|sealed| sealed.header().sequence == sequence) else {
        return Ok(false);
    };
    view.release_document(n, sequence, stamp)?;
    rows::put_header(tx, n, &sealed)?;
    let find = CheckpointFilter::Id(sealed.header().snapshot_id.as_str());
    let written = StoreView::load(tx)?.headers(&HeaderQuery::default().find(find))?;
    if written.iter().any(|row| matches!(row, Row::Damaged { .. })) {
        rows::set_marks(tx, n, sequence, &Marks { revision: 1, pinned: true, ..Marks::default() })?;
    }
    Ok(true)
}
