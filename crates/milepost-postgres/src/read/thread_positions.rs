//! Lists checkpoints by their positions in threads, through one index for each kind of list. A handle with a project
//! lists those of its runs. Reads headers only.

use milepost::store::{HeaderQuery, Row, StoreError, ThreadFilter};

use crate::decode::{self, ENTRY, WITH_MARKS, column, integer, number};
use crate::error::PostgresError;
use crate::session::Params;
use crate::store::PostgresStore;

/// Builds the statement; `None` if no position can match, because the server stores no text with a zero byte.
fn listing(
    query: &HeaderQuery<'_>,
    filter: &ThreadFilter<'_>,
    limit: usize,
    project: Option<&str>,
) -> Option<(String, Params)> {
    let mut params = Params::new();
    let mut conditions = Vec::new();
    let columns = [("namespace", filter.namespace), ("id", filter.id), ("invocation", filter.invocation)];
    for (column, text) in columns {
        let Some(text) = text else { continue };
        if text.contains('\0') {
            return None;
        }
        conditions.push(format!("p.{column} = {}", params.text(text)));
    }
    if let Some((id, stamp)) = filter.after {
        // No id is between a text with a zero byte and the part before that byte.
        let (id, stamp) = id.split_once('\0').map_or((id, stamp), |(before, _)| (before, u64::MAX));
        let (id, stamp) = (params.text(id), params.int(integer(stamp)));
        conditions.push(format!("(p.id, p.stamp) < ({id}, {stamp})"));
    }
    if let Some(run) = query.run {
        let run = params.text(run.as_str());
        conditions.push(format!("p.run_n = (SELECT o.n FROM {{s}}.run o WHERE o.run_id = {run})"));
    } else if let Some(project) = project {
        let project = params.text(project);
        conditions.push(format!(
            "EXISTS (SELECT 1 FROM {{s}}.run o WHERE o.n = p.run_n AND o.project = {project})"
        ));
    }
    let limit = match limit {
        0 => String::new(),
        limit => format!("LIMIT {}", params.int(integer(limit as u64))),
    };
    let condition = if conditions.is_empty() { "true".to_owned() } else { conditions.join(" AND ") };
    let order = "ORDER BY p.id DESC, p.stamp DESC";
    // The headers are joined after the limit is applied, so that only those of the list are read.
    let sql = format!(
        "SELECT {ENTRY}, p.id AS p_id, p.stamp AS p_stamp, p.namespace AS p_namespace, \
         p.invocation AS p_invocation FROM (SELECT * FROM {{s}}.thread_position p WHERE {condition} {order} {limit}) p \
         JOIN {{s}}.checkpoint c ON c.run_n = p.run_n AND c.sequence = p.sequence {WITH_MARKS} {order}"
    );
    Some((sql, params))
}

/// The row of a position; `None` if the header does not confirm the position.
fn confirmed(row: &tokio_postgres::Row) -> Result<Option<Row>, PostgresError> {
    let entry = decode::entry(row)?;
    if let Row::Intact(entry) = &entry {
        let Some(thread) = entry.header.thread() else { return Ok(None) };
        let is_confirmed = column::<String>(row, "p_id")? == thread.id
            && number(row, "p_stamp")? == entry.header.stamp()
            && column::<String>(row, "p_namespace")? == thread.namespace
            && column::<Option<String>>(row, "p_invocation")? == thread.invocation;
        if !is_confirmed {
            return Ok(None);
        }
    }
    Ok(Some(entry))
}

pub(super) fn headers(
    store: &PostgresStore,
    query: &HeaderQuery<'_>,
    filter: &ThreadFilter<'_>,
) -> Result<Vec<Row>, StoreError> {
    let mut limit = query.limit;
    loop {
        let Some((sql, params)) = listing(query, filter, limit, store.project().id()) else {
            return Ok(Vec::new());
        };
        let sql = store.schema().fill(&sql);
        let (read, mut rows) = store.read(|session, deadline| {
            let rows = session.query(&sql, &params, deadline.left())?;
            let confirmed = rows.iter().filter_map(|row| confirmed(row).transpose());
            Ok((rows.len(), confirmed.collect::<Result<Vec<_>, PostgresError>>()?))
        })?;
        if query.limit == 0 || rows.len() >= query.limit || read < limit {
            rows.truncate(if query.limit == 0 { usize::MAX } else { query.limit });
            return Ok(rows);
        }
        // Some positions are wrong, so the list is not complete.
        limit = limit.saturating_mul(2);
    }
}
