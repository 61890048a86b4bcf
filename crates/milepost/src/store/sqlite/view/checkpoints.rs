//! Reads checkpoints from their own table and from appended rows, except removed ones. Takes a query and
//! returns rows in order, intact or reported as damaged. Reads no documents.

use rusqlite::{Params, Result, params};

use super::StoreView;
use super::append_log::AppendedRow;
use crate::store::sqlite::decode::{ENTRY, entry, integer, listed, number};
use crate::store::{CheckpointEntry, CheckpointFilter, HeaderQuery, Row, arrange};

/// Columns of an entry in an appended row.
const APPENDED: &str =
    "c.run_n, c.sequence, c.snapshot_id, c.stamp, c.header_sum, c.header, NULL, NULL, NULL FROM append_log c";

const BY_ID: &str = "c.snapshot_id = ?1";
/// Ids are ASCII, so every id with the prefix sorts before the prefix followed by the highest code point.
const BY_PREFIX: &str = "c.snapshot_id >= ?1 AND c.snapshot_id < ?1 || char(1114111)";
/// By the short id: `CheckpointId::SHORT_START` + 1 in SQL. The expression must be the same as in its index.
const BY_SHORT_ID: &str =
    "substr(c.snapshot_id, 24) >= ?1 AND substr(c.snapshot_id, 24) < ?1 || char(1114111)";
/// Matches the id in the header, which starts with `{"snapshot_id":"`. The expression must be the same as in
/// the index `checkpoint_header_id`.
const BY_HEADER_ID: &str = "substr(c.header, 17, 40) >= ?1 AND substr(c.header, 17, 40) < ?1 || char(1114111) \
                             AND instr(c.header, ?2) > 0";
/// Number of characters in that index: the id and the text after it.
const HEADER_ID: usize = 40;
/// Joins the names of a checkpoint: its tags and its imported id.
const NAME: &str = "JOIN name t ON t.run_n = c.run_n AND t.sequence = c.sequence";

impl StoreView<'_> {
    pub(in crate::store::sqlite) fn newest(&self, n: i64) -> Result<Option<Row>> {
        let waiting = self.log.of(n).next_back();
        if let Some(row) = waiting.filter(|row| !row.unmerged_header) {
            return self.appended_entry(row).map(Some);
        }
        let sql = format!("SELECT {ENTRY} WHERE c.run_n = ?1 ORDER BY c.sequence DESC");
        let mut statement = self.tx.prepare_cached(&sql)?;
        let mut rows = statement.query([n])?;
        while let Some(row) = rows.next()? {
            let sequence = number(row, 1)?;
            if waiting.is_some_and(|waiting| waiting.sequence > sequence) {
                break;
            }
            if !self.log.has_removed(n, sequence) {
                return entry(row).map(Some);
            }
        }
        waiting.map(|row| self.appended_entry(row)).transpose()
    }

    /// The oldest entries, up to the `unprotected`-th that no mark protects.
    pub(in crate::store::sqlite) fn oldest(
        &self,
        n: i64,
        unprotected: usize,
    ) -> Result<Vec<CheckpointEntry>> {
        let sql = format!("SELECT {ENTRY} WHERE c.run_n = ?1 ORDER BY c.sequence");
        let mut statement = self.tx.prepare_cached(&sql)?;
        let mut rows = statement.query([n])?;
        let (mut found, mut free) = (Vec::new(), 0);
        // The list ends before a damaged row or a row whose header could not be merged.
        let unmerged = self.log.of(n).find(|row| row.unmerged_header).map_or(u64::MAX, |row| row.sequence);
        while free < unprotected
            && let Some(row) = rows.next()?
        {
            let sequence = number(row, 1)?;
            if self.log.has_removed(n, sequence) {
                continue;
            }
            let Row::Intact(entry) = entry(row)? else { return Ok(found) };
            if sequence > unmerged {
                return Ok(found);
            }
            free += usize::from(!entry.marks.protects());
            found.push(entry);
        }
        for row in self.log.of(n).take(unprotected - free) {
            let Row::Intact(entry) = self.appended_entry(row)? else { break };
            found.push(entry);
        }
        Ok(found)
    }
}

impl StoreView<'_> {
    pub(in crate::store::sqlite) fn headers(&self, query: &HeaderQuery<'_>) -> Result<Vec<Row>> {
        let Some(only) = self.scope(query.run)? else { return Ok(Vec::new()) };
        let rows = match query.find {
            CheckpointFilter::All => match only {
                Some(n) => self.of_run(n, query)?,
                None => self.of_store(query)?,
            },
            CheckpointFilter::Orphaned => {
                self.select("c.sequence >= 0 AND c.run_n NOT IN (SELECT n FROM run)", [])?
            }
            CheckpointFilter::Sequence(sequence) => match only {
                Some(n) => self.select("c.run_n = ?1 AND c.sequence = ?2", (n, integer(sequence)))?,
                None => Vec::new(),
            },
            CheckpointFilter::Id(id) => {
                let rows = self.select(BY_ID, [id])?;
                if rows.is_empty() { self.renamed(id)? } else { rows }
            }
            CheckpointFilter::Prefix(prefix) => self.select(BY_PREFIX, [prefix])?,
            CheckpointFilter::ShortId(start) => {
                let mut rows = self.select(BY_SHORT_ID, [start])?;
                // Only generated ids have a short form. Other ids can match the query by chance.
                rows.retain(|(_, row)| match row {
                    Row::Intact(entry) => entry.header.snapshot_id.short().is_some(),
                    Row::Damaged { .. } => true,
                });
                rows
            }
            CheckpointFilter::Name(name) => self.named(name)?,
            CheckpointFilter::Thread(filter) => return self.by_thread(only, &filter, query),
        };
        let of_run = rows.into_iter().filter(|(n, _)| only.is_none_or(|only| only == *n));
        Ok(arrange(of_run.map(|(_, row)| row).collect(), query, Row::cursor))
    }

    /// The matching rows of one table, each with the row number of its run.
    fn select_from(&self, columns: &str, fitting: &str, params: impl Params) -> Result<Vec<(i64, Row)>> {
        let mut statement = self.tx.prepare_cached(&format!("SELECT {columns} WHERE {fitting}"))?;
        let mut rows = statement.query(params)?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            let n = row.get(0)?;
            if !self.log.has_removed(n, number(row, 1)?) {
                found.push((n, listed(row)?));
            }
        }
        Ok(found)
    }

    /// The matching rows of both tables.
    fn select(&self, fitting: &str, params: impl Params + Clone) -> Result<Vec<(i64, Row)>> {
        let mut found = self.select_from(ENTRY, fitting, params.clone())?;
        if self.log.rows().next().is_some() {
            found.extend(self.select_from(APPENDED, fitting, params)?);
        }
        Ok(found)
    }

    /// Rows with a damaged key: the header contains this id, but the key does not.
    fn renamed(&self, id: &str) -> Result<Vec<(i64, Row)>> {
        let start: String = format!("{id}\"").chars().take(HEADER_ID).collect();
        let mut rows = self.select(BY_HEADER_ID, [start, format!("\"snapshot_id\":\"{id}\"")])?;
        rows.retain(|(_, row)| matches!(row, Row::Damaged { .. }));
        Ok(rows)
    }

    /// Rows with this tag or imported id. Appended rows have neither.
    fn named(&self, name: &str) -> Result<Vec<(i64, Row)>> {
        let joined = format!("{ENTRY} {NAME}");
        let mut rows = self.select_from(&joined, "t.name = ?1", [name])?;
        rows.retain(|(_, row)| match row {
            Row::Intact(entry) => entry.has_name(name),
            Row::Damaged { .. } => true,
        });
        Ok(rows)
    }

    /// The appended rows that match a list query, and whether they are sufficient to answer it.
    fn appended(
        &self,
        query: &HeaderQuery<'_>,
        fits: impl Fn(&AppendedRow) -> bool,
    ) -> Result<(Vec<(i64, Row)>, bool)> {
        let rows: Vec<_> = self.log.rows().filter(|row| fits(row)).collect();
        // A row that could not be merged may be older than rows in the other tables.
        let newest = rows.iter().filter(|row| !row.unmerged_header).count();
        let enough = query.limit > 0 && !query.oldest_first && newest >= query.limit;
        let most = if enough { query.limit } else { rows.len() };
        let found = rows.iter().rev().take(most).map(|row| Ok((row.n, self.appended_entry(row)?)));
        Ok((found.collect::<Result<_>>()?, enough))
    }

    fn of_run(&self, n: i64, query: &HeaderQuery<'_>) -> Result<Vec<(i64, Row)>> {
        let after = query.after.map(|cursor| cursor.sequence);
        let (mut found, enough) = self.appended(query, |row| {
            let beyond = |after| if query.oldest_first { row.sequence > after } else { row.sequence < after };
            row.n == n && after.is_none_or(beyond)
        })?;
        if !enough {
            let (order, start, beyond) =
                if query.oldest_first { ("ASC", -1, ">") } else { ("DESC", i64::MAX, "<") };
            let fitting =
                format!("c.run_n = ?1 AND c.sequence {beyond} ?2 ORDER BY c.sequence {order} LIMIT ?3");
            let after = after.map_or(start, integer);
            found.extend(self.select_from(ENTRY, &fitting, params![n, after, self.sql_limit(query)])?);
        }
        Ok(found)
    }

    /// Lists the checkpoints of all runs by stamp, newest first. Reads only runs that can still contribute.
    fn of_store(&self, query: &HeaderQuery<'_>) -> Result<Vec<(i64, Row)>> {
        let before = query.after.map_or(u64::MAX, |cursor| cursor.stamp);
        let newest_first = &HeaderQuery { oldest_first: false, ..*query };
        let (mut found, enough) = self.appended(newest_first, |row| row.stamp < before)?;
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
            found.extend(self.select_from(
                ENTRY,
                fitting,
                params![n, integer(before), self.sql_limit(query)],
            )?);
            found.sort_by_key(|(_, row)| std::cmp::Reverse(row.cursor().stamp));
            if query.limit > 0 {
                found.truncate(query.limit);
            }
        }
        Ok(found)
    }

    /// The limit of the query plus the number of checkpoints that appended rows removed; -1 for no limit.
    fn sql_limit(&self, query: &HeaderQuery<'_>) -> i64 {
        if query.limit == 0 { -1 } else { (query.limit + self.log.removed()) as i64 }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::store::sqlite::schema;

    /// A database with the tables and `count` checkpoints of one run.
    fn database(count: u64) -> rusqlite::Connection {
        let db = rusqlite::Connection::open_in_memory().unwrap();
        db.execute_batch(schema::TABLES).unwrap();
        for n in 1..=count {
            let id = format!("cp_20260102T030405006Z_{n:012}");
            let header = format!("{{\"snapshot_id\":\"{id}\",\"run_id\":\"r\"}}");
            let put = "INSERT INTO checkpoint VALUES (1, ?1, ?2, ?1, x'', ?3)";
            db.execute(put, (n as i64, &id, header)).unwrap();
            db.execute("INSERT INTO name VALUES (?1, 1, ?2)", (format!("tag-{n}"), n as i64)).unwrap();
        }
        db
    }

    #[test]
    fn no_lookup_by_name_scans_the_headers() {
        let db = database(3);
        let named = format!("{ENTRY} {NAME}");
        for (columns, condition) in [
            (ENTRY, BY_ID),
            (ENTRY, BY_PREFIX),
            (ENTRY, BY_SHORT_ID),
            (ENTRY, BY_HEADER_ID),
            (&*named, "t.name = ?1"),
        ] {
            let sql = format!("EXPLAIN QUERY PLAN SELECT {columns} WHERE {condition}");
            let mut statement = db.prepare(&sql).unwrap();
            let plan: Vec<String> =
                statement.raw_query().mapped(|row| row.get(3)).collect::<Result<_>>().unwrap();
            assert!(plan.iter().all(|step| !step.starts_with("SCAN")), "{condition}: {plan:?}");
        }
    }

    #[test]
    fn an_unknown_name_costs_the_same_in_a_large_store() {
        let steps = |count: u64| {
            let mut db = database(count);
            let counter = Arc::new(AtomicU64::new(0));
            let counted = Arc::clone(&counter);
            let count_step = move || {
                counted.fetch_add(1, Ordering::Relaxed);
                false
            };
            db.progress_handler(1, Some(count_step)).unwrap();
            let view = StoreView::load(&db).unwrap();
            for find in [
                CheckpointFilter::Id("cp_20260102T030405006Z_unknown"),
                CheckpointFilter::Prefix("cp_2027"),
                CheckpointFilter::ShortId("zzzz"),
                CheckpointFilter::Name("unknown"),
            ] {
                assert_eq!(view.headers(&HeaderQuery::default().find(find)).unwrap(), []);
            }
            counter.load(Ordering::Relaxed)
        };
        assert_eq!(steps(5), steps(2000));
    }
}
