//! Reads runs with their newest checkpoint, their items, messages and attachments, and looks up commits.

use milepost::internal::store::check::{parse, prove};
use milepost::model::{Attachment, Item, Message, RunId, WriteToken};
use milepost::store::{CommittedWrite, Damage, Part, RunQuery, RunRow, StoreError, StoredRun};
use tokio_postgres::Row as SqlRow;

use crate::decode::{self, ENTRY, RUN, RunTableRow, WITH_MARKS, column, integer, number};
use crate::error::PostgresError;
use crate::pool::Deadline;
use crate::session::{Params, Session};
use crate::statement::attached_hash;
use crate::store::PostgresStore;
use crate::view::recount;

/// Joins the newest checkpoint of a run.
const WITH_LATEST: &str = "LEFT JOIN LATERAL (SELECT * FROM {s}.checkpoint WHERE run_n = r.n \
    ORDER BY sequence DESC LIMIT 1) c ON true";

fn run_row(
    store: &PostgresStore,
    session: &mut Session,
    row: &SqlRow,
    deadline: &Deadline,
) -> Result<(RunTableRow, RunRow), PostgresError> {
    let mut found = decode::run_table_row(row)?;
    let latest = match column::<Option<i64>>(row, "c_sequence")? {
        Some(_) => Some(decode::entry(row)?),
        None => None,
    };
    let run_id = decode::run_id(&found, latest.as_ref())?;
    if found.record.is_err() {
        recount(session, store.schema(), &mut found, deadline.left())?;
    }
    let record = found.record.clone().map_err(|damage| damage.at(Some(&run_id), None));
    let mut listed = RunRow::new(run_id, record, found.stamp);
    listed.count = found.count;
    listed.latest = latest;
    listed.age = found.age;
    listed.user = found.user.clone();
    listed.users = found.users.clone();
    listed.host = found.host.clone();
    Ok((found, listed))
}

/// Selects a run with its newest checkpoint and its pending items.
pub(crate) fn select_run(run: &str) -> String {
    format!(
        "SELECT {RUN}, {ENTRY}, i.n, i.checksum, i.item AS value FROM {{s}}.run r {WITH_LATEST} {WITH_MARKS} \
         LEFT JOIN {{s}}.item i ON i.run_n = r.n WHERE r.run_id = {run} ORDER BY i.n"
    )
}

/// The messages of a run, each intact or with its damage.
pub(crate) type Messages = Vec<Result<Message, Damage>>;

/// Reads a run.
pub(crate) fn run(store: &PostgresStore, run: &RunId) -> Result<Option<StoredRun>, StoreError> {
    let mut params = Params::new();
    let id = params.text(run.as_str());
    let sql = store.schema().fill(&select_run(&id));
    store.read(|session, deadline| {
        let rows = session.query(&sql, &params, deadline.left())?;
        Ok(stored_run(store, session, run, &rows, deadline)?)
    })
}

/// Reads a run and its messages in one round trip.
pub(crate) fn run_with_messages(
    store: &PostgresStore,
    run: &RunId,
) -> Result<(Option<StoredRun>, Messages), StoreError> {
    let mut params = Params::new();
    let id = params.text(run.as_str());
    let (run_sql, message_sql) =
        (store.schema().fill(&select_run(&id)), store.schema().fill(&select_messages(&id)));
    store.read(|session, deadline| {
        let [rows, messages] =
            session.query_all([(&run_sql, &params), (&message_sql, &params)], deadline.left())?;
        Ok((stored_run(store, session, run, &rows, deadline)?, decode_messages(run, &messages)?))
    })
}

fn stored_run(
    store: &PostgresStore,
    session: &mut Session,
    run: &RunId,
    rows: &[SqlRow],
    deadline: &Deadline,
) -> Result<Option<StoredRun>, PostgresError> {
    let Some(first) = rows.first() else { return Ok(None) };
    let (found, row) = run_row(store, session, first, deadline)?;
    let mut stored = StoredRun::new(row);
    for row in rows {
        if column::<Option<i64>>(row, "n")?.is_none() {
            continue;
        }
        match decode::numbered::<Item>(Part::Item, found.n, row)?.1 {
            Ok(item) => stored.items.push(item),
            Err(damage) => stored.damaged.push(damage.at(Some(run), None)),
        }
    }
    Ok(Some(stored))
}

/// Selects runs by their stamp, newest first.
pub(crate) fn select_runs(before: &str, project: Option<&str>, limit: Option<&str>) -> String {
    let project = project.map_or_else(String::new, |project| format!("AND r.project = {project}"));
    let limit = limit.map_or_else(String::new, |limit| format!("LIMIT {limit}"));
    format!(
        "SELECT {RUN}, {ENTRY} FROM (SELECT * FROM {{s}}.run r WHERE r.stamp < {before} {project} \
         ORDER BY r.stamp DESC {limit}) r {WITH_LATEST} {WITH_MARKS} ORDER BY r.stamp DESC"
    )
}

pub(crate) fn runs(store: &PostgresStore, query: &RunQuery<'_>) -> Result<Vec<RunRow>, StoreError> {
    // No project id contains a zero byte, which the server does not accept.
    if query.project.is_some_and(|project| project.contains('\0')) {
        return Ok(Vec::new());
    }
    store.read(|session, deadline| {
        let mut rows_read = query.limit;
        loop {
            let mut params = Params::new();
            let before = params.int(query.before.map_or(i64::MAX, integer));
            let project = query.project.or(store.project().id()).map(|project| params.text(project));
            let limit = (rows_read > 0).then(|| params.int(integer(rows_read as u64)));
            let sql = store.schema().fill(&select_runs(&before, project.as_deref(), limit.as_deref()));
            let rows = session.query(&sql, &params, deadline.left())?;
            let mut listed = Vec::new();
            for row in &rows {
                let (_, row) = run_row(store, session, row, deadline)?;
                if query.lists(row.record.as_deref().ok()) {
                    listed.push(row);
                }
            }
            // A run can be in the table under a project that its record does not name, because the record is damaged
            // or has no project. Reading all rows again gives a consistent list.
            if query.limit == 0 || rows.len() < rows_read || listed.len() >= query.limit {
                listed.truncate(if query.limit == 0 { usize::MAX } else { query.limit });
                return Ok(listed);
            }
            rows_read = rows_read.saturating_mul(4);
        }
    })
}

fn select_messages(run: &str) -> String {
    format!(
        "SELECT r.n AS r_n, m.n, m.checksum, m.message AS value FROM {{s}}.run r \
         JOIN {{s}}.message m ON m.run_n = r.n WHERE r.run_id = {run} ORDER BY m.n"
    )
}

pub(crate) fn messages(store: &PostgresStore, run: &RunId) -> Result<Messages, StoreError> {
    let mut params = Params::new();
    let id = params.text(run.as_str());
    let sql = store.schema().fill(&select_messages(&id));
    store.read(|session, deadline| {
        let rows = session.query(&sql, &params, deadline.left())?;
        Ok(decode_messages(run, &rows)?)
    })
}

fn decode_messages(run: &RunId, rows: &[SqlRow]) -> Result<Messages, PostgresError> {
    let decoded = rows.iter().map(|row| {
        let (_, message) = decode::numbered::<Message>(Part::Message, column(row, "r_n")?, row)?;
        Ok(message.map_err(|damage| damage.at(Some(run), None)))
    });
    decoded.collect()
}

pub(crate) fn attachments(
    store: &PostgresStore,
    run: &RunId,
    checkpoint: Option<&str>,
) -> Result<Vec<Result<Attachment, Damage>>, StoreError> {
    let mut params = Params::new();
    let id = params.text(run.as_str());
    let only = match checkpoint {
        Some(checkpoint) => format!("AND a.checkpoint = {}", params.bytes(attached_hash(checkpoint))),
        None => String::new(),
    };
    let sql = store.schema().fill(&format!(
        "SELECT r.n, a.checkpoint, a.key, a.checksum, a.attachment AS value FROM {{s}}.run r \
         JOIN {{s}}.attachment a ON a.run_n = r.n WHERE r.run_id = {id} {only}"
    ));
    store.read(|session, deadline| {
        let mut found = Vec::new();
        for row in session.query(&sql, &params, deadline.left())? {
            let n: i64 = column(&row, "n")?;
            let (name, key, value): (&[u8], &[u8], &str) =
                (column(&row, "checkpoint")?, column(&row, "key")?, column(&row, "value")?);
            let proven = prove(
                Part::Attachment,
                &[&n.to_le_bytes(), name, key],
                value.as_bytes(),
                column(&row, "checksum")?,
            );
            let one = proven.and_then(|()| parse::<Attachment>(Part::Attachment, value.as_bytes()));
            let named = checkpoint.and_then(|id| id.parse().ok());
            found.push(one.map_err(|damage| damage.at(Some(run), None).named(named)));
        }
        let key = |one: &Attachment| {
            (one.checkpoint().clone(), one.task_path().clone(), one.task_id().clone(), one.index())
        };
        found.sort_by(|a, b| match (a, b) {
            (Ok(a), Ok(b)) => key(a).cmp(&key(b)),
            (a, b) => a.is_err().cmp(&b.is_err()),
        });
        Ok(found)
    })
}

pub(crate) fn find_commit(
    store: &PostgresStore,
    run: &RunId,
    token: &WriteToken,
) -> Result<Option<CommittedWrite>, StoreError> {
    let mut params = Params::new();
    let (id, token) = (params.text(run.as_str()), params.text(token.as_str()));
    let sql = store.schema().fill(&format!(
        "SELECT w.sequence, w.coalesced FROM {{s}}.run r JOIN {{s}}.write_log w ON w.run_n = r.n \
         WHERE r.run_id = {id} AND w.token = {token} ORDER BY w.n DESC LIMIT 1"
    ));
    store.read(|session, deadline| {
        let rows = session.query(&sql, &params, deadline.left())?;
        let Some(row) = rows.first() else { return Ok(None) };
        Ok(Some(CommittedWrite::new(number(row, "sequence")?, column(row, "coalesced")?)))
    })
}
