//! Reads the view of a run that a decision gets. One statement reads the run's row, its newest checkpoint and a
//! new stamp; another one the details. Writes nothing.

use std::time::Duration;

use milepost::internal::store::OLDEST_SHOWN;
use milepost::model::{Item, RunId};
use milepost::store::{CheckpointEntry, Part, Row, RunDetails, RunView, Slot};
use tokio_postgres::Row as SqlRow;

use crate::decode::{self, ENTRY, RUN, RunTableRow, WITH_MARKS, column, number};
use crate::error::PostgresError;
use crate::schema::SchemaName;
use crate::session::{Params, Session};

/// A run as one try to write sees it.
pub(crate) struct Seen {
    pub(crate) row: Option<RunTableRow>,
    pub(crate) view: RunView,
    pub(crate) shown_items: Vec<i64>,
    pub(crate) next_item: i64,
}

impl Seen {
    /// Reads a run. The stamp is taken after the row was read, so that it is above the stamps of all commits that
    /// the row includes.
    pub(crate) fn read(
        session: &mut Session,
        schema: &SchemaName,
        run: &RunId,
        patience: Duration,
    ) -> Result<Self, PostgresError> {
        let mut params = Params::new();
        let id = params.text(run.as_str());
        let sql = schema.fill(&format!(
            "SELECT nextval({sequence}) AS new_stamp, {RUN}, i.first_item, i.last_item, {ENTRY} \
             FROM (VALUES (1)) one LEFT JOIN {{s}}.run r ON r.run_id = {id} \
             LEFT JOIN LATERAL (SELECT min(n) AS first_item, max(n) AS last_item FROM {{s}}.item \
             WHERE run_n = r.n) i ON true \
             LEFT JOIN LATERAL (SELECT * FROM {{s}}.checkpoint WHERE run_n = r.n ORDER BY sequence DESC LIMIT 1) c \
             ON true {WITH_MARKS}",
            sequence = schema.stamp_sequence(),
        ));
        let rows = session.query(&sql, &params, patience)?;
        let [found] = &rows[..] else {
            return Err(PostgresError::Value { message: format!("{} rows for one run", rows.len()) });
        };
        let stamp = number(found, "new_stamp")?;
        if column::<Option<i64>>(found, "r_n")?.is_none() {
            let view = RunView::of_new_run(Slot::issue(1, stamp));
            return Ok(Self { row: None, view, shown_items: Vec::new(), next_item: 1 });
        }
        let mut row = decode::run_table_row(found)?;
        if row.record.is_err() {
            recount(session, schema, &mut row, patience)?;
        }
        let latest = match column::<Option<i64>>(found, "c_sequence")? {
            Some(_) => decode::entry(found)?.intact(),
            None => None,
        };
        let ends: (Option<i64>, Option<i64>) = (column(found, "first_item")?, column(found, "last_item")?);
        let ends = ends.0.zip(ends.1);
        let mut view = RunView::of_new_run(Slot::issue(row.last_sequence + 1, stamp));
        view.record = row.record.as_ref().ok().map(|record| (**record).clone());
        view.count = row.count;
        view.latest = latest;
        view.waiting = ends.map_or(0, |(first, last)| last.abs_diff(first).saturating_add(1));
        view.details = None;
        // A damaged item keeps its number; new items get higher ones.
        let next_item = ends.map_or(1, |(_, last)| last.saturating_add(1));
        Ok(Self { row: Some(row), view, shown_items: Vec::new(), next_item })
    }

    /// Takes a new stamp for a run that this handle wrote last; `None` if the run has changed since.
    pub(crate) fn refresh(
        mut self,
        session: &mut Session,
        schema: &SchemaName,
        run: &RunId,
        patience: Duration,
    ) -> Result<Option<Self>, PostgresError> {
        let mut params = Params::new();
        let id = params.text(run.as_str());
        let sql = schema.fill(&format!(
            "SELECT nextval({}) AS new_stamp, n, stamp, commits FROM {{s}}.run WHERE run_id = {id}",
            schema.stamp_sequence()
        ));
        let rows = session.query(&sql, &params, patience)?;
        let (Some(row), Some(found)) = (&self.row, rows.first()) else { return Ok(None) };
        let found_at = (number(found, "stamp")?, number(found, "commits")?);
        if column::<i64>(found, "n")? != row.n || found_at != row.stored {
            return Ok(None);
        }
        self.view.slot = Slot::issue(row.last_sequence + 1, number(found, "new_stamp")?);
        Ok(Some(self))
    }

    /// Adds the details. Returns false if the run has changed since it was read: every statement also reads the run's
    /// row, so that its result belongs to the same commit if the row is unchanged.
    pub(crate) fn read_details(
        &mut self,
        session: &mut Session,
        schema: &SchemaName,
        patience: Duration,
    ) -> Result<bool, PostgresError> {
        let Some(row) = &self.row else { return Ok(true) };
        let is_unchanged = |rows: &[SqlRow]| match rows.first() {
            Some(first) => Ok((number(first, "stamp")?, number(first, "commits")?) == row.stored),
            None => Ok::<_, PostgresError>(false),
        };
        let mut details = RunDetails::default();
        let mut after = -1_i64;
        // Protected checkpoints do not count, so that several pages may be needed.
        let mut page = 2 * OLDEST_SHOWN;
        'pages: loop {
            let mut params = Params::new();
            let (run, from) = (params.int(row.n), params.int(after));
            let sql = schema.fill(&format!(
                "SELECT {ENTRY}, r.stamp, r.commits FROM {{s}}.run r LEFT JOIN LATERAL (SELECT * FROM {{s}}.checkpoint \
                 WHERE run_n = r.n AND sequence > {from} ORDER BY sequence LIMIT {page}) c ON true {WITH_MARKS} \
                 WHERE r.n = {run} ORDER BY c.sequence"
            ));
            let rows = session.query(&sql, &params, patience)?;
            if !is_unchanged(&rows)? {
                return Ok(false);
            }
            for found in &rows {
                let Some(sequence) = column(found, "c_sequence")? else { break 'pages };
                after = sequence;
                let Row::Intact(entry) = decode::entry(found)? else { break 'pages };
                details.oldest.push(entry);
                let is_free = |entry: &&CheckpointEntry| !entry.marks.protects();
                if details.oldest.iter().filter(is_free).count() >= OLDEST_SHOWN {
                    break 'pages;
                }
            }
            if rows.len() < page {
                break;
            }
            page = 200;
        }
        if self.view.waiting > 0 {
            let mut params = Params::new();
            let run = params.int(row.n);
            let sql = schema.fill(&format!(
                "SELECT i.n, i.checksum, i.item AS value, r.stamp, r.commits FROM {{s}}.run r \
                 LEFT JOIN {{s}}.item i ON i.run_n = r.n WHERE r.n = {run} ORDER BY i.n"
            ));
            let rows = session.query(&sql, &params, patience)?;
            if !is_unchanged(&rows)? {
                return Ok(false);
            }
            for found in &rows {
                if column::<Option<i64>>(found, "n")?.is_none() {
                    continue;
                }
                if let (n, Ok(item)) = decode::numbered::<Item>(Part::Item, row.n, found)? {
                    self.shown_items.push(n);
                    details.items.push(item);
                }
            }
        }
        self.view.details = Some(details);
        Ok(true)
    }
}

/// Recounts what a damaged row no longer states reliably.
pub(crate) fn recount(
    session: &mut Session,
    schema: &SchemaName,
    row: &mut RunTableRow,
    patience: Duration,
) -> Result<(), PostgresError> {
    let mut params = Params::new();
    let run = params.int(row.n);
    let sql = schema.fill(&format!(
        "SELECT (SELECT count(*) FROM {{s}}.checkpoint WHERE run_n = {run}) AS count, \
         (SELECT coalesce(max(sequence), 0) FROM {{s}}.checkpoint WHERE run_n = {run}) AS last_sequence, \
         greatest((SELECT max(stamp) FROM {{s}}.checkpoint WHERE run_n = {run}), \
         (SELECT max(stamp) FROM {{s}}.write_log WHERE run_n = {run}), 0) AS stamp, \
         (SELECT coalesce(max(n), 0) FROM {{s}}.write_log WHERE run_n = {run}) AS commits, \
         (SELECT coalesce(max(n + count - 1), 0) FROM {{s}}.event WHERE run_n = {run}) AS events, \
         (SELECT coalesce(min(n) - 1, 0) FROM {{s}}.event WHERE run_n = {run}) AS events_from"
    ));
    if let Some(found) = session.query(&sql, &params, patience)?.first() {
        row.count = number(found, "count")?;
        row.last_sequence = number(found, "last_sequence")?;
        row.stamp = number(found, "stamp")?;
        row.commits = number(found, "commits")?;
        row.events = number(found, "events")?;
        row.events_from = number(found, "events_from")?;
    }
    Ok(())
}
