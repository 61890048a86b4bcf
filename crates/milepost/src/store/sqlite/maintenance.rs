//! Looking after the file: damaged pages, rows that do not fit each other, space to give back.

use rusqlite::{Connection, Result};

use super::connection::Access;
use super::decode::number;
use super::transact::{Outcome, transact};
use super::view::StoreView;
use super::{SqliteStore, recover, rows, salvage};
use crate::fs::atomic;
use crate::model::Marks;
use crate::seal;
use crate::store::{
    CheckpointFilter, HeaderQuery, Maintenance, MaintenanceReport, Problem, ProblemKind, Row, RunQuery, Slot,
    Store, StoreError,
};

pub(super) fn maintain(
    store: &SqliteStore,
    what: Maintenance<'_>,
) -> std::result::Result<MaintenanceReport, StoreError> {
    match what {
        Maintenance::Inspect => inspect(store),
        Maintenance::Repair => repair(store),
        Maintenance::Compact => compact(store),
        // Frames are compressed as they are.
        Maintenance::Compress { .. } => Ok(MaintenanceReport::default()),
    }
}

/// Free pages that are given back in one turn, so that savers are not kept waiting.
const PAGES_A_TURN: u64 = 4096;

fn compact(store: &SqliteStore) -> std::result::Result<MaintenanceReport, StoreError> {
    let before = store.info()?.bytes;
    let mut free = u64::MAX;
    loop {
        let _turn = store.turn()?;
        let left = store.with(Access::Write, |db| {
            if free == u64::MAX {
                transact(store, db, &mut |_, view, base| {
                    view.merge().map_err(|e| store.write_error(e))?;
                    Ok(Outcome::same_stamp((), base))
                })?;
            }
            let left = vacuum(db.connection()).map_err(|e| store.write_error(e))?;
            // What others free meanwhile is theirs to give back.
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

/// Returns at most `PAGES_A_TURN` free pages to the disk; gives how many are left.
pub(super) fn vacuum(connection: &Connection) -> Result<u64> {
    let mut vacuum = connection.prepare(&format!("PRAGMA incremental_vacuum({PAGES_A_TURN})"))?;
    let mut rows = vacuum.query([])?;
    while rows.next()?.is_some() {}
    connection.query_row("PRAGMA freelist_count", [], |row| number(row, 0))
}

fn inspect(store: &SqliteStore) -> std::result::Result<MaintenanceReport, StoreError> {
    let mut problems = Vec::new();
    for stray in atomic::leftover_temp_files(atomic::folder_of(&store.path)).unwrap_or_default() {
        let message = format!("temporary file {} was left by a crash", stray.display());
        problems.push(Problem { kind: ProblemKind::StrayFile, message, repairable: true });
    }
    let pages = store.with(Access::Any, |db| {
        let found = pages(db.connection());
        Ok(found.unwrap_or_else(|e| vec![e.to_string()]))
    })?;
    if !pages.is_empty() {
        let found = salvage::survey(&store.path).map_err(|e| store.error(e))?;
        let message = format!(
            "the database's own pages are damaged ({}); {} of {} checkpoints can be read and go into a fresh file, \
             the damaged one is kept beside it",
            pages.first().map_or("", String::as_str),
            found.readable(),
            found.readable() as u64 + found.lost,
        );
        problems.push(Problem { kind: ProblemKind::Pages, message, repairable: found.lost == 0 });
        return Ok(MaintenanceReport { problems, ..MaintenanceReport::default() });
    }
    let lost = store.lost_writes()?;
    if lost > 0 {
        let message = format!("acknowledged writes that are missing: {lost} ({})", crate::store::LOSS_CAUSES);
        problems.push(Problem { kind: ProblemKind::Lost, message, repairable: true });
    }
    for run in store.runs(&RunQuery::default())? {
        if let Err(damage) = &run.record {
            let message = format!("{damage}; it can be rebuilt from its checkpoints");
            problems.push(Problem { kind: ProblemKind::Record, message, repairable: true });
        }
    }
    for (_, _, row) in damaged_headers(store)? {
        let message =
            format!("{row}; it can be rebuilt from the document, with a pin in place of damaged marks");
        problems.push(Problem { kind: ProblemKind::Record, message, repairable: true });
    }
    let loose = store.with(Access::Any, |db| loose(db.connection()).map_err(|e| store.error(e)))?;
    if loose > 0 {
        let message = format!("{loose} rows belong to no checkpoint");
        problems.push(Problem { kind: ProblemKind::Orphan, message, repairable: true });
    }
    Ok(MaintenanceReport { problems, ..MaintenanceReport::default() })
}

fn pages(connection: &Connection) -> Result<Vec<String>> {
    let mut statement = connection.prepare("PRAGMA integrity_check(5)")?;
    let found: Vec<String> = statement.query_map([], |row| row.get(0))?.collect::<Result<_>>()?;
    Ok(found.into_iter().filter(|line| line != "ok").collect())
}

/// Frames, marks and names that no header speaks of.
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

/// Rows whose header is damaged while their document is intact: run number, sequence, what is wrong.
fn damaged_headers(store: &SqliteStore) -> std::result::Result<Vec<(i64, u64, String)>, StoreError> {
    let mut found = Vec::new();
    let mut rows = store.headers(&HeaderQuery::default())?;
    rows.extend(store.headers(&HeaderQuery { find: CheckpointFilter::Orphaned, ..HeaderQuery::default() })?);
    for row in rows {
        let Row::Damaged { damage, cursor } = row else { continue };
        let places = store.with(Access::Any, |db| {
            let runs =
                StoreView::load(db.connection()).and_then(|view| view.runs_at(cursor.sequence, cursor.stamp));
            runs.map_err(|e| store.error(e))
        })?;
        for n in places {
            let readable = store.with(Access::Any, |db| {
                StoreView::load(db.connection())
                    .and_then(|view| view.any_document(n, cursor.sequence))
                    .map_err(|e| store.error(e))
            })?;
            if let Some(Ok(document)) = readable
                && seal::verify(document).is_ok()
            {
                found.push((n, cursor.sequence, damage.to_string()));
            }
        }
    }
    Ok(found)
}

fn repair(store: &SqliteStore) -> std::result::Result<MaintenanceReport, StoreError> {
    let mut report = inspect(store)?;
    let headers = damaged_headers(store).unwrap_or_default();
    let _turn = store.turn()?;
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
    let recovered = store.with(Access::Write, |db| recover::recover(store, db))?;
    report.done += recovered.losses;
    for problem in report.problems.iter_mut().filter(|problem| problem.kind == ProblemKind::Lost) {
        problem.message = format!("{}; {recovered}", problem.message);
    }
    let damaged = |row: &Row| matches!(row, Row::Damaged { .. });
    let strays = store.headers(&HeaderQuery::default())?.iter().filter(|row| damaged(row)).count()
        + store.headers(&HeaderQuery { find: CheckpointFilter::Orphaned, ..HeaderQuery::default() })?.len();
    report.done += store.with(Access::Write, |db| {
        let fix = |tx: &Connection, view: &StoreView<'_>| -> Result<u64> {
            let view = view.merge()?;
            let mut done = 0;
            for (n, sequence, _) in &headers {
                done += u64::from(rebuild_header(tx, &view, *n, *sequence)?);
            }
            // A damaged header may have lost its stamp: then its document only looks loose.
            let tables: &[&str] = if strays == 0 { &["whole", "delta"] } else { &[] };
            for table in tables {
                let loose = format!("DELETE FROM {table} WHERE stamp NOT IN (SELECT stamp FROM checkpoint)");
                done += tx.execute(&loose, [])? as u64;
            }
            done += tx.execute(
                "DELETE FROM marks WHERE NOT EXISTS (SELECT 1 FROM checkpoint c \
                 WHERE c.run_n = marks.run_n AND c.sequence = marks.sequence)",
                [],
            )? as u64;
            Ok(done)
        };
        transact(store, db, &mut |tx, view, base| {
            let done = fix(tx, view).map_err(|e| store.write_error(e))?;
            Ok(Outcome::same_stamp(done, base))
        })
    })?;
    Ok(report)
}

/// Writes a header anew from its document. Marks that cannot be proven give way to a pin: whatever they protected stays.
fn rebuild_header(tx: &Connection, view: &StoreView<'_>, n: i64, sequence: u64) -> Result<bool> {
    let Some(Ok(document)) = view.any_document(n, sequence)? else { return Ok(false) };
    let stamp = view.stamp_of(n, sequence)?;
    let slot = Slot::issue(sequence, stamp);
    let Some(sealed) = seal::verify(document).ok().and_then(|verified| verified.into_sealed(&slot).ok())
    else {
        return Ok(false);
    };
    if sealed.header().sequence != sequence {
        return Ok(false);
    }
    view.release_held_back(n, sequence, stamp)?;
    rows::put_header(tx, n, &sealed)?;
    if StoreView::load(tx)?
        .headers(&HeaderQuery {
            find: CheckpointFilter::Id(sealed.header().snapshot_id.as_str()),
            ..Default::default()
        })?
        .iter()
        .any(|row| matches!(row, Row::Damaged { .. }))
    {
        rows::set_marks(tx, n, sequence, &Marks { revision: 1, pinned: true, ..Marks::default() })?;
    }
    Ok(true)
}
