//! Finds and repairs rows that do not match each other, and removes frames that only removed checkpoints needed.
//! The server itself takes care of pages, of free space and of rows without a run.

use milepost::internal::seal;
use milepost::model::Marks;
use milepost::store::{
    CheckpointFilter, HeaderQuery, Maintenance, MaintenanceReport, Problem, ProblemKind, Row, RunQuery,
    Sealed, Slot, Store, StoreError,
};

use crate::compact;
use crate::decode::{self, ENTRY, WITH_MARKS, column, integer, number};
use crate::error::PostgresError;
use crate::frames;
use crate::pool::Deadline;
use crate::session::{Params, Session};
use crate::store::PostgresStore;

pub(crate) fn maintain(
    store: &PostgresStore,
    what: Maintenance<'_>,
) -> Result<MaintenanceReport, StoreError> {
    match what {
        Maintenance::Inspect => inspect(store),
        Maintenance::Repair => repair(store),
        Maintenance::Compact => compact::compact(store),
        // Documents are compressed when they are saved.
        _ => Ok(MaintenanceReport::default()),
    }
}

fn inspect(store: &PostgresStore) -> Result<MaintenanceReport, StoreError> {
    let mut report = MaintenanceReport::default();
    let mut found = |kind, message| report.problems.push(Problem::new(kind, message).repairable(true));
    for damage in store.runs(&RunQuery::default())?.into_iter().filter_map(|run| run.record.err()) {
        found(ProblemKind::Record, format!("{damage}; it can be rebuilt from its checkpoints"));
    }
    for (_, _, message) in damaged_headers(store)? {
        let message =
            format!("{message}; it can be rebuilt from the document, and a pin replaces damaged marks");
        found(ProblemKind::Record, message);
    }
    if stamps_behind(store)? {
        found(ProblemKind::Derived, "the sequence of stamps is behind the newest stamp".to_owned());
    }
    Ok(report)
}

/// Rows with a damaged header and an intact document: the run's number, the sequence number and the damage.
fn damaged_headers(store: &PostgresStore) -> Result<Vec<(i64, u64, String)>, StoreError> {
    let mut rows = store.headers(&HeaderQuery::default())?;
    rows.extend(store.headers(&HeaderQuery::default().find(CheckpointFilter::Orphaned))?);
    let mut found = Vec::new();
    for row in rows {
        let Row::Damaged { damage, cursor } = row else { continue };
        store.read(|session, deadline| {
            let mut params = Params::new();
            let (sequence, stamp) = (params.int(integer(cursor.sequence)), params.int(integer(cursor.stamp)));
            let sql = store.schema().fill(&format!(
                "SELECT run_n FROM {{s}}.checkpoint WHERE sequence = {sequence} AND stamp = {stamp}"
            ));
            for row in session.query(&sql, &params, deadline.left())? {
                let n: i64 = column(&row, "run_n")?;
                if sealed(store, session, n, cursor.sequence, deadline)?.is_some() {
                    found.push((n, cursor.sequence, damage.to_string()));
                }
            }
            Ok(())
        })?;
    }
    Ok(found)
}

/// The document of a checkpoint with the header that belongs to it; `None` if the document is damaged.
fn sealed(
    store: &PostgresStore,
    session: &mut Session,
    n: i64,
    sequence: u64,
    deadline: &Deadline,
) -> Result<Option<Sealed>, PostgresError> {
    let mut params = Params::new();
    let (run, at) = (params.int(n), params.int(integer(sequence)));
    let frame = frames::FRAME;
    let sql = store.schema().fill(&format!(
        "SELECT c.stamp, {frame} FROM {{s}}.checkpoint c JOIN {{s}}.frame f ON f.run_n = c.run_n \
         AND f.first = c.first AND f.sequence <= c.sequence WHERE c.run_n = {run} AND c.sequence = {at} \
         ORDER BY f.sequence"
    ));
    let chain = session.query(&sql, &params, deadline.left())?;
    let Some(last) = chain.last() else { return Ok(None) };
    let slot = Slot::issue(sequence, number(last, "stamp")?);
    let Ok(document) = frames::unpack(n, &chain)? else { return Ok(None) };
    let sealed = seal::verify(document).and_then(|verified| verified.into_sealed(&slot)).ok();
    Ok(sealed.filter(|sealed| sealed.header().sequence() == sequence))
}

/// Whether the sequence of stamps would issue a stamp again, for example after a restore that left it out.
fn stamps_behind(store: &PostgresStore) -> Result<bool, StoreError> {
    let sql = store.schema().fill(
        "SELECT (SELECT last_value FROM {s}.stamp) < coalesce((SELECT max(stamp) FROM {s}.run), 0) / 4096 * 4096 AS behind",
    );
    store.read(|session, deadline| {
        let rows = session.query(&sql, &Params::new(), deadline.left())?;
        Ok(rows.first().map_or(Ok(false), |row| column(row, "behind"))?)
    })
}

fn repair(store: &PostgresStore) -> Result<MaintenanceReport, StoreError> {
    store.check_writable()?;
    let mut report = inspect(store)?;
    for (n, sequence, _) in damaged_headers(store)? {
        let mut deadline = store.deadline();
        report.done += store.run_work(&mut deadline, |session, deadline| {
            Ok(u64::from(rebuild_header(store, session, n, sequence, deadline)?))
        })?;
    }
    if stamps_behind(store)? {
        let mut deadline = store.deadline();
        store.run_work(&mut deadline, |session, deadline| {
            Ok(crate::write::advance_stamps(store, session, deadline)?)
        })?;
        report.done += 1;
    }
    Ok(report)
}

/// Rewrites a header from its document. Marks that fail verification are replaced by a pin, so that the checkpoint
/// stays protected.
fn rebuild_header(
    store: &PostgresStore,
    session: &mut Session,
    n: i64,
    sequence: u64,
    deadline: &Deadline,
) -> Result<bool, PostgresError> {
    let Some(sealed) = sealed(store, session, n, sequence, deadline)? else { return Ok(false) };
    let header = sealed.header();
    let invalid = |e: serde_json::Error| PostgresError::Value { message: e.to_string() };
    let (id, text) = (header.snapshot_id().to_string(), serde_json::to_string(header).map_err(invalid)?);
    let sum = decode::header_checksum(n, sequence, header.stamp(), &id, &text);
    let mut params = Params::new();
    let (run, at) = (params.int(n), params.int(integer(sequence)));
    let (id, sum, text) = (params.text(id), params.bytes(sum.to_vec()), params.text(text));
    let update = format!(
        "UPDATE {{s}}.checkpoint SET snapshot_id = {id}, checksum = {sum}, header = {text} \
         WHERE run_n = {run} AND sequence = {at}"
    );
    session.query(&store.schema().fill(&update), &params, deadline.left())?;
    let mut params = Params::new();
    let (run, at) = (params.int(n), params.int(integer(sequence)));
    let select = format!(
        "SELECT {ENTRY} FROM {{s}}.checkpoint c {WITH_MARKS} WHERE c.run_n = {run} AND c.sequence = {at}"
    );
    let rows = session.query(&store.schema().fill(&select), &params, deadline.left())?;
    if let Some(row) = rows.first()
        && matches!(decode::entry(row)?, Row::Damaged { .. })
    {
        let marks = Marks { revision: number(row, "m_revision")? + 1, pinned: true, ..Marks::default() };
        let text = serde_json::to_string(&marks).map_err(invalid)?;
        let sum = decode::marks_checksum(n, sequence, marks.revision, &text);
        let mut params = Params::new();
        let (run, at, revision) =
            (params.int(n), params.int(integer(sequence)), params.int(integer(marks.revision)));
        let (sum, text) = (params.bytes(sum.to_vec()), params.text(text));
        let update = format!(
            "UPDATE {{s}}.marks SET revision = {revision}, checksum = {sum}, marks = {text} \
             WHERE run_n = {run} AND sequence = {at}"
        );
        session.query(&store.schema().fill(&update), &params, deadline.left())?;
    }
    Ok(true)
}
