//! Lists of headers: of a run, of the store, by a name. Fresh rows are laid over the others.

use jiff::Timestamp;
use rusqlite::{Connection, Params, Result, params};
use serde::Deserialize;

use super::fresh::{self, Appended, Fresh};
use super::read::{self, ENTRY, integer, listed, number, run_n};
use crate::model::{RunId, Status};
use crate::store::{CheckpointFilter, Cursor, HeaderQuery, RetentionEntry, Row};

pub(super) fn headers(tx: &Connection, query: &HeaderQuery<'_>) -> Result<Vec<Row>> {
    let lists = Lists { tx, fresh: Fresh::load(tx)? };
    let only = match query.run {
        Some(run) => match run_n(tx, &lists.fresh, run)? {
            Some(n) => Some(n),
            None => return Ok(Vec::new()),
        },
        None => None,
    };
    let rows = match query.find {
        CheckpointFilter::All => match only {
            Some(n) => lists.of_run(n, query)?,
            None => lists.of_store(query)?,
        },
        CheckpointFilter::Orphaned => lists.select("c.run_n NOT IN (SELECT n FROM run)", [])?,
        CheckpointFilter::Sequence(sequence) => match only {
            Some(n) => lists.select("c.run_n = ?1 AND c.sequence = ?2", (n, integer(sequence)))?,
            None => Vec::new(),
        },
        CheckpointFilter::Id(id) => {
            let rows = lists.select("c.snapshot_id = ?1", [id])?;
            if rows.is_empty() { lists.renamed(id)? } else { rows }
        }
        // Ids are ASCII: everything that starts with the prefix lies before the prefix and the last character.
        CheckpointFilter::Prefix(prefix) => {
            lists.select("c.snapshot_id >= ?1 AND c.snapshot_id < ?1 || char(1114111)", [prefix])?
        }
        CheckpointFilter::Name(name) => lists.named(name)?,
    };
    Ok(pick(rows, only, query))
}

/// Columns of an entry that is in a fresh row.
const FRESH: &str =
    "c.run_n, c.sequence, c.snapshot_id, c.stamp, c.header_sum, c.header, NULL, NULL, NULL FROM fresh c";

struct Lists<'a> {
    tx: &'a Connection,
    fresh: Fresh,
}

impl Lists<'_> {
    /// The rows of one table that fit, each with the number of its run.
    fn those(&self, columns: &str, fitting: &str, params: impl Params) -> Result<Vec<(i64, Row)>> {
        let mut statement = self.tx.prepare_cached(&format!("SELECT {columns} WHERE {fitting}"))?;
        let mut rows = statement.query(params)?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            let n = row.get(0)?;
            if !self.fresh.has_removed(n, number(row, 1)?) {
                found.push((n, listed(row)?));
            }
        }
        Ok(found)
    }

    /// The rows of both tables that fit.
    fn select(&self, fitting: &str, params: impl Params + Clone) -> Result<Vec<(i64, Row)>> {
        let mut found = self.those(ENTRY, fitting, params.clone())?;
        if self.fresh.rows().next().is_some() {
            found.extend(self.those(FRESH, fitting, params)?);
        }
        Ok(found)
    }

    /// Rows whose header names this id while their key does not: the key is damaged.
    fn renamed(&self, id: &str) -> Result<Vec<(i64, Row)>> {
        let mut rows = self.select("instr(c.header, ?1) > 0", [format!("\"snapshot_id\":\"{id}\"")])?;
        rows.retain(|(_, row)| matches!(row, Row::Damaged { .. }));
        Ok(rows)
    }

    /// What has a tag, or was imported under a name; neither is ever in a fresh row.
    fn named(&self, name: &str) -> Result<Vec<(i64, Row)>> {
        let joined = format!("{ENTRY} JOIN name t ON t.run_n = c.run_n AND t.sequence = c.sequence");
        let mut rows = self.those(&joined, "t.name = ?1", [name])?;
        rows.retain(|(_, row)| match row {
            Row::Intact(e) => {
                e.marks.tags.iter().any(|tag| tag == name) || e.header.imported_id.as_deref() == Some(name)
            }
            Row::Damaged { .. } => true,
        });
        Ok(rows)
    }

    /// Fresh rows among those that a list asks for, and whether nothing else is needed.
    fn newest(
        &self,
        query: &HeaderQuery<'_>,
        fits: impl Fn(&Appended) -> bool,
    ) -> Result<(Vec<(i64, Row)>, bool)> {
        let rows: Vec<_> = self.fresh.rows().filter(|row| fits(row)).collect();
        // What is kept back for repair may be older than what is in the other tables.
        let newest = rows.iter().filter(|row| !row.kept).count();
        let enough = query.limit > 0 && !query.oldest_first && newest >= query.limit;
        let most = if enough { query.limit } else { rows.len() };
        let found = rows.iter().rev().take(most).map(|row| Ok((row.n, fresh::entry(self.tx, row)?)));
        Ok((found.collect::<Result<_>>()?, enough))
    }

    fn of_run(&self, n: i64, query: &HeaderQuery<'_>) -> Result<Vec<(i64, Row)>> {
        let after = query.after.map(|cursor| cursor.sequence);
        let (mut found, enough) = self.newest(query, |row| {
            let beyond = |after| if query.oldest_first { row.sequence > after } else { row.sequence < after };
            row.n == n && after.is_none_or(beyond)
        })?;
        if !enough {
            let (order, start, beyond) =
                if query.oldest_first { ("ASC", -1, ">") } else { ("DESC", i64::MAX, "<") };
            let fitting =
                format!("c.run_n = ?1 AND c.sequence {beyond} ?2 ORDER BY c.sequence {order} LIMIT ?3");
            let after = after.map_or(start, integer);
            found.extend(self.those(ENTRY, &fitting, params![n, after, self.sql_limit(query)])?);
        }
        Ok(found)
    }

    /// Merges runs by stamp, newest first, opening only runs that can still contribute.
    fn of_store(&self, query: &HeaderQuery<'_>) -> Result<Vec<(i64, Row)>> {
        let before = query.after.map_or(u64::MAX, |cursor| cursor.stamp);
        let newest_first = &HeaderQuery { oldest_first: false, ..*query };
        let (mut found, enough) = self.newest(newest_first, |row| row.stamp < before)?;
        if enough {
            return Ok(found);
        }
        let mut runs = self.tx.prepare_cached("SELECT n, stamp FROM run ORDER BY stamp DESC")?;
        let mut rows = runs.query([])?;
        let fitting = "c.run_n = ?1 AND c.stamp < ?2 ORDER BY c.sequence DESC LIMIT ?3";
        while let Some(row) = rows.next()? {
            let (n, stamp): (i64, u64) = (row.get(0)?, number(row, 1)?);
            if query.limit > 0
                && found.len() >= query.limit
                && found[query.limit - 1].1.cursor().stamp > stamp
            {
                break;
            }
            found.extend(self.those(ENTRY, fitting, params![n, integer(before), self.sql_limit(query)])?);
            found.sort_by_key(|(_, row)| std::cmp::Reverse(row.cursor().stamp));
            if query.limit > 0 {
                found.truncate(query.limit);
            }
        }
        Ok(found)
    }

    /// As many as are asked for, and as many more as fresh rows have removed.
    fn sql_limit(&self, query: &HeaderQuery<'_>) -> i64 {
        if query.limit == 0 { -1 } else { (query.limit + self.fresh.removed()) as i64 }
    }
}

/// What an outline takes from a header: reading no more is a good part of its speed.
#[derive(Deserialize)]
struct Few {
    created_at: Timestamp,
    status: Option<Status>,
    holds_state: bool,
    unseen: Option<serde::de::IgnoredAny>,
}

impl Few {
    /// The time alone, of a header that nothing else is asked of: it has to begin as the row's own columns say.
    fn glance(row: &rusqlite::Row<'_>, run: &RunId, header: &str) -> Option<Self> {
        let (id, sequence, stamp) = (read::text(row, 2).ok()?, number(row, 1).ok()?, number(row, 3).ok()?);
        let start = format!(
            "{{\"snapshot_id\":\"{id}\",\"run_id\":\"{run}\",\"sequence\":{sequence},\"stamp\":{stamp},\"created_at\":\""
        );
        let (at, _) = header.strip_prefix(&start)?.split_once('"')?;
        Some(Self { created_at: at.parse().ok()?, status: None, holds_state: false, unseen: None })
    }
}

/// The checkpoints of a run in outline, oldest first. What each takes is its rows, without the pages around them.
pub(super) fn retention_entries(
    tx: &Connection,
    run: &RunId,
    newest: Option<u64>,
) -> Result<Vec<RetentionEntry>> {
    let fresh = Fresh::load(tx)?;
    let Some(line) = read::line(tx, &fresh, run)? else { return Ok(Vec::new()) };
    let settled = "SELECT c.run_n, c.sequence, c.snapshot_id, c.stamp, c.checksum, c.header, \
                   m.revision, m.checksum, m.marks, octet_length(c.header) + ifnull(octet_length(m.marks), 0) + \
                   ifnull(ifnull(octet_length(d.data), \
                       (SELECT octet_length(w.data) FROM whole w WHERE w.stamp = c.stamp)), 0) \
                   FROM checkpoint c LEFT JOIN marks m ON m.run_n = c.run_n AND m.sequence = c.sequence \
                   LEFT JOIN delta d ON d.stamp = c.stamp WHERE c.run_n = ?1 ORDER BY c.sequence";
    let waiting = "SELECT run_n, sequence, snapshot_id, stamp, header_sum, header, NULL, NULL, NULL, \
                   octet_length(header) + octet_length(body) FROM fresh WHERE run_n = ?1";
    // Where the count is wrong, more or fewer are proven than were asked for.
    let mut unproven = newest.map_or(0, |newest| line.count.saturating_sub(newest));
    let mut found = Vec::new();
    for sql in [settled, waiting] {
        let mut statement = tx.prepare_cached(sql)?;
        let mut rows = statement.query([line.n])?;
        while let Some(row) = rows.next()? {
            let sequence = number(row, 1)?;
            if fresh.has_removed(line.n, sequence) {
                continue;
            }
            let few = if unproven > 0 {
                read::glanced(row, |header| Few::glance(row, run, header))?
            } else {
                read::retention_fields(row)?
            };
            unproven = unproven.saturating_sub(1);
            let (Some((Few { created_at, status, holds_state, unseen }, marks)), Some(snapshot_id)) =
                (few, read::parsed(row, 2)?)
            else {
                continue;
            };
            // Frames are compressed as they are.
            let (bytes, packed) = (number(row, 9)?, true);
            let (pinned, tagged) = (marks.pinned, !marks.tags.is_empty());
            found.push(RetentionEntry {
                sequence,
                snapshot_id,
                created_at,
                status,
                holds_state,
                holds_workspace: unseen.is_some(),
                pinned,
                tagged,
                bytes,
                packed,
            });
        }
    }
    // One that was kept back for repair may be older than what is in the other tables.
    found.sort_by_key(|outline| outline.sequence);
    Ok(found)
}

/// Orders and limits a short list by hand. Within a run, position is by sequence, as in any list of a run.
fn pick(rows: Vec<(i64, Row)>, only: Option<i64>, query: &HeaderQuery<'_>) -> Vec<Row> {
    let mut rows: Vec<Row> =
        rows.into_iter().filter(|(n, _)| only.is_none_or(|only| only == *n)).map(|(_, row)| row).collect();
    let oldest_first = query.oldest_first && only.is_some();
    let place = |cursor: Cursor| if only.is_some() { cursor.sequence } else { cursor.stamp };
    rows.sort_by_key(|row| place(row.cursor()));
    if !oldest_first {
        rows.reverse();
    }
    if let Some(after) = query.after.map(place) {
        rows.retain(|row| {
            let at = place(row.cursor());
            if oldest_first { at > after } else { at < after }
        });
    }
    if query.limit > 0 {
        rows.truncate(query.limit);
    }
    rows
}
