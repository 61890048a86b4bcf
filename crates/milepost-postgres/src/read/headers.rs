//! Lists headers by run, id, prefix, name and position in a thread, each through an index, and what retention needs to know. A handle with
//! a project lists those of its runs. Reads no documents.

use milepost::internal::store::arrange;
use milepost::model::RunId;
use milepost::store::{CheckpointFilter, HeaderQuery, RetentionEntry, Row, StoreError};

use super::{newest, thread_positions};
use crate::decode::{self, ENTRY, WITH_MARKS, integer, number};
use crate::error::PostgresError;
use crate::session::Params;
use crate::statement::name_hash;
use crate::store::PostgresStore;

/// Ids are ASCII, so every text that starts with a prefix sorts before the prefix followed by this character.
const HIGHEST: char = '\u{10ffff}';

/// Builds the statement for a query, on one project or on all; `None` if no checkpoint can match.
fn listing(query: &HeaderQuery<'_>, project: Option<&str>) -> Option<(String, Params)> {
    let mut params = Params::new();
    let text = match query.find {
        CheckpointFilter::Id(text) | CheckpointFilter::Prefix(text) | CheckpointFilter::ShortId(text) => {
            Some(text)
        }
        _ => None,
    };
    // No id contains a zero byte, which the server does not accept.
    if text.is_some_and(|text| text.contains('\0')) {
        return None;
    }
    let range = |params: &mut Params, column: &str, start: &str| {
        let (from, to) = (params.text(start), params.text(format!("{start}{HIGHEST}")));
        format!("{column} >= {from} AND {column} < {to}")
    };
    let mut conditions = match query.find {
        CheckpointFilter::All => Vec::new(),
        CheckpointFilter::Sequence(sequence) => {
            query.run?;
            vec![format!("c.sequence = {}", params.int(integer(sequence)))]
        }
        CheckpointFilter::Id(id) => vec![format!("c.snapshot_id = {}", params.text(id))],
        CheckpointFilter::Prefix(prefix) => vec![range(&mut params, "c.snapshot_id", prefix)],
        CheckpointFilter::ShortId(start) => vec![range(&mut params, "substr(c.snapshot_id, 24)", start)],
        CheckpointFilter::Name(name) => {
            let hash = params.bytes(name_hash(name));
            vec![format!(
                "(c.run_n, c.sequence) IN (SELECT t.run_n, t.sequence FROM {{s}}.name t WHERE t.name = {hash})"
            )]
        }
        // A foreign key makes such rows impossible, except in a database that was restored without its keys.
        CheckpointFilter::Orphaned => {
            vec!["NOT EXISTS (SELECT 1 FROM {s}.run o WHERE o.n = c.run_n)".to_owned()]
        }
        _ => return None,
    };
    let oldest_first = query.oldest_first && query.run.is_some();
    let (column, direction, beyond) = match (query.run.is_some(), oldest_first) {
        (true, true) => ("c.sequence", "ASC", ">"),
        (true, false) => ("c.sequence", "DESC", "<"),
        (false, _) => ("c.stamp", "DESC", "<"),
    };
    if let Some(run) = query.run {
        let id = params.text(run.as_str());
        conditions.push(format!("c.run_n = (SELECT o.n FROM {{s}}.run o WHERE o.run_id = {id})"));
    }
    // Which project a row without a run belongs to is not known.
    if let (None, Some(project)) = (query.run, project)
        && query.find != CheckpointFilter::Orphaned
    {
        let project = params.text(project);
        conditions.push(format!(
            "EXISTS (SELECT 1 FROM {{s}}.run o WHERE o.n = c.run_n AND o.project = {project})"
        ));
    }
    if let Some(after) = query.after {
        let at = if query.run.is_some() { after.sequence } else { after.stamp };
        conditions.push(format!("{column} {beyond} {}", params.int(integer(at))));
    }
    // `ShortId` and `Name` are filtered further, so that the limit is applied afterwards.
    let is_exact = !matches!(query.find, CheckpointFilter::ShortId(_) | CheckpointFilter::Name(_));
    let limit =
        (query.limit > 0 && is_exact).then(|| format!("LIMIT {}", params.int(integer(query.limit as u64))));
    let limit = limit.unwrap_or_default();
    let condition = if conditions.is_empty() { "true".to_owned() } else { conditions.join(" AND ") };
    // The marks are joined after the limit is applied, so that only those of the list are read.
    let sql = format!(
        "SELECT {ENTRY} FROM (SELECT * FROM {{s}}.checkpoint c WHERE {condition} ORDER BY {column} {direction} \
         {limit}) c {WITH_MARKS} ORDER BY {column} {direction}"
    );
    Some((sql, params))
}

pub(crate) fn headers(store: &PostgresStore, query: &HeaderQuery<'_>) -> Result<Vec<Row>, StoreError> {
    if let Some(project) = store.project().id()
        && newest::applies_to(query)
    {
        return newest::headers(store, project, query.limit);
    }
    if let CheckpointFilter::Thread(filter) = &query.find {
        return thread_positions::headers(store, query, filter);
    }
    let Some((sql, params)) = listing(query, store.project().id()) else { return Ok(Vec::new()) };
    let sql = store.schema().fill(&sql);
    let mut rows = store.read(|session, deadline| {
        let rows = session.query(&sql, &params, deadline.left())?;
        Ok(rows.iter().map(decode::entry).collect::<Result<Vec<_>, PostgresError>>()?)
    })?;
    rows.retain(|row| match (row, query.find) {
        (Row::Damaged { .. }, _) => true,
        // Only generated ids have a short form. Other ids can match the query by chance.
        (Row::Intact(entry), CheckpointFilter::ShortId(_)) => entry.header.snapshot_id().short().is_some(),
        (Row::Intact(entry), CheckpointFilter::Name(name)) => entry.has_name(name),
        _ => true,
    });
    Ok(arrange(rows, query, Row::cursor))
}

pub(crate) fn retention_entries(
    store: &PostgresStore,
    run: &RunId,
) -> Result<Vec<RetentionEntry>, StoreError> {
    let mut params = Params::new();
    let id = params.text(run.as_str());
    let sql = store.schema().fill(&format!(
        "SELECT {ENTRY}, octet_length(c.header)::bigint + coalesce(octet_length(m.marks), 0) \
         + coalesce(octet_length(f.data), 0) AS bytes FROM {{s}}.run r JOIN {{s}}.checkpoint c ON c.run_n = r.n \
         {WITH_MARKS} LEFT JOIN {{s}}.frame f ON f.run_n = c.run_n AND f.first = c.first AND f.sequence = c.sequence \
         WHERE r.run_id = {id} ORDER BY c.sequence"
    ));
    store.read(|session, deadline| {
        let mut entries = Vec::new();
        for row in session.query(&sql, &params, deadline.left())? {
            let bytes = number(&row, "bytes")?;
            if let Row::Intact(entry) = decode::entry(&row)? {
                entries.push(RetentionEntry::of(&entry).with_size(bytes, true));
            }
        }
        Ok(entries)
    })
}
