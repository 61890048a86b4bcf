//! Reads runs: from a run's own row, or from its newest appended row if it has one. Finds runs whose id is
//! damaged and recounts what a damaged row no longer states. Never writes.

use std::cmp::Reverse;

use rusqlite::{Connection, OptionalExtension, Result};

use super::StoreView;
use crate::model::{Item, Message, RunId};
use crate::store::sqlite::decode::{RUN, RunTableRow, bytes, integer, number, parse, prove, run_table_row};
use crate::store::{Damage, Part, Row, RunQuery, RunRow, StoredRun};

/// Reads a run's own row and ignores appended rows.
pub(super) fn merged_run(tx: &Connection, n: i64) -> Result<Option<RunTableRow>> {
    let sql = format!("SELECT {RUN} FROM run WHERE n = ?1");
    tx.prepare_cached(&sql)?.query_row([n], run_table_row).optional()
}

fn differs_in_one_byte(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).filter(|(a, b)| a != b).count() == 1
}

fn count_events(tx: &Connection, n: i64) -> Result<u64> {
    tx.query_row("SELECT ifnull(sum(count), 0) FROM event WHERE run_n = ?1", [n], |row| number(row, 0))
}

impl StoreView<'_> {
    /// Finds a run by its id, even if damage changed the id in its row.
    pub(in crate::store::sqlite) fn find_run(&self, run: &RunId) -> Result<Option<RunTableRow>> {
        if let Some(n) = self.find_number(run)? {
            let run_row = match self.log.latest_for_run(n) {
                Some(row) => Some(self.appended_run(row, run.as_str())?),
                None => merged_run(self.tx, n)?,
            };
            return run_row.map(|run_row| self.recounted(run_row)).transpose();
        }
        // Usually this is a new run. A single damaged byte changes either the last four
        // characters of an id or the part before them, never both. This comparison reads only the
        // index of ids, even with many runs. Of programs with numbered runs, many ids are alike.
        let alike = "SELECT n, run_id FROM run WHERE octet_length(run_id) = octet_length(?1) AND (substr(run_id, -4) = \
                     substr(?1, -4) OR substr(run_id, 1, length(run_id) - 4) = substr(?1, 1, length(?1) - 4))";
        let mut alike = self.tx.prepare_cached(alike)?;
        let mut rows = alike.query([run.as_str()])?;
        while let Some(row) = rows.next()? {
            if !differs_in_one_byte(&bytes(row, 1)?, run.as_str().as_bytes()) {
                continue;
            }
            let Some(run_row) = merged_run(self.tx, row.get(0)?)? else { continue };
            if run_row.record.is_err() && self.belongs_to(run_row.n, run)? {
                let run_row = RunTableRow { run_id: run.to_string(), renamed: true, ..run_row };
                return self.current(run_row).map(Some);
            }
        }
        Ok(None)
    }

    /// Whether the newest header under `n` names this run.
    fn belongs_to(&self, n: i64, run: &RunId) -> Result<bool> {
        Ok(self.newest(n)?.and_then(Row::intact).is_some_and(|entry| entry.header.run_id == *run))
    }

    /// The run's newest row: an appended one, or its own.
    fn current(&self, run_row: RunTableRow) -> Result<RunTableRow> {
        let run_row = match self.log.latest_for_run(run_row.n) {
            Some(row) => RunTableRow { renamed: run_row.renamed, ..self.appended_run(row, &run_row.run_id)? },
            None => run_row,
        };
        self.recounted(run_row)
    }

    /// Recounts the numbers that a damaged row no longer states reliably.
    fn recounted(&self, mut run_row: RunTableRow) -> Result<RunTableRow> {
        if run_row.record.is_err() {
            let counted = "SELECT sequence, stamp FROM checkpoint WHERE run_n = ?1";
            let mut statement = self.tx.prepare_cached(counted)?;
            let merged = statement
                .query_map([run_row.n], |row| Ok((number(row, 0)?, number(row, 1)?)))?
                .collect::<Result<Vec<_>>>()?;
            let there =
                merged.into_iter().filter(|(sequence, _)| !self.log.has_removed(run_row.n, *sequence));
            let all = there.chain(self.log.of(run_row.n).map(|row| (row.sequence, row.stamp)));
            (run_row.count, run_row.last_sequence, run_row.stamp) = all
                .fold((0, 0, 0), |(count, last, newest), (sequence, stamp)| {
                    (count + 1, last.max(sequence), newest.max(stamp))
                });
            run_row.events = count_events(self.tx, run_row.n)?;
        }
        Ok(run_row)
    }

    fn find_number(&self, run: &RunId) -> Result<Option<i64>> {
        self.tx
            .prepare_cached("SELECT n FROM run WHERE run_id = ?1")?
            .query_row([run.as_str()], |row| row.get(0))
            .optional()
    }

    /// The row number of a run.
    pub(in crate::store::sqlite) fn run_n(&self, run: &RunId) -> Result<Option<i64>> {
        match self.find_number(run)? {
            Some(n) => Ok(Some(n)),
            None => Ok(self.find_run(run)?.map(|run_row| run_row.n)),
        }
    }

    /// The row number of the run that a query is limited to, if any; `None` if that run does not exist.
    pub(super) fn scope(&self, run: Option<&RunId>) -> Result<Option<Option<i64>>> {
        match run {
            Some(run) => Ok(self.run_n(run)?.map(Some)),
            None => Ok(Some(None)),
        }
    }

    fn listed_run(&self, run_row: RunTableRow) -> Result<RunRow> {
        let latest = self.newest(run_row.n)?;
        // If damage made the id invalid, use the id in the newest header, or one made from the row number.
        let named = run_row.run_id.parse().ok().or_else(|| match &latest {
            Some(Row::Intact(entry)) => Some(entry.header.run_id.clone()),
            _ => format!("damaged-{}", run_row.n).parse().ok(),
        });
        let run_id: RunId = named.ok_or(rusqlite::Error::InvalidQuery)?;
        Ok(RunRow {
            record: run_row.record.map_err(|damage| damage.at(Some(&run_id), None)),
            run_id,
            stamp: run_row.stamp,
            count: run_row.count,
            latest,
            age: None,
            user: None,
            users: Vec::new(),
            host: None,
        })
    }

    pub(in crate::store::sqlite) fn run(&self, run: &RunId) -> Result<Option<StoredRun>> {
        let Some(run_row) = self.find_run(run)? else { return Ok(None) };
        let (mut good, mut damaged) = (Vec::new(), Vec::new());
        for (_, item) in self.items(run_row.n)? {
            match item {
                Ok(item) => good.push(item),
                Err(damage) => damaged.push(damage.at(Some(run), None)),
            }
        }
        Ok(Some(StoredRun { row: self.listed_run(run_row)?, items: good, damaged }))
    }

    pub(in crate::store::sqlite) fn runs(&self, query: &RunQuery<'_>) -> Result<Vec<RunRow>> {
        let before = query.before.unwrap_or(u64::MAX);
        // Runs with appended rows were written after all others.
        let appended = self.log.runs();
        let mut run_rows = Vec::new();
        for n in &appended {
            if let Some(run_row) = merged_run(self.tx, *n)? {
                run_rows.push(self.current(run_row)?);
            }
        }
        let is_listed = |run_row: &RunTableRow| query.lists(run_row.record.as_deref().ok());
        run_rows.retain(|run_row| run_row.stamp < before && is_listed(run_row));
        run_rows.sort_by_key(|run_row| Reverse(run_row.stamp));
        let sql = format!("SELECT {RUN} FROM run WHERE stamp < ?1 ORDER BY stamp DESC");
        let mut statement = self.tx.prepare_cached(&sql)?;
        let mut rows = statement.query([integer(before)])?;
        while (query.limit == 0 || run_rows.len() < query.limit)
            && let Some(row) = rows.next()?
        {
            let run_row = run_table_row(row)?;
            if !appended.contains(&run_row.n) && is_listed(&run_row) {
                run_rows.push(self.current(run_row)?);
            }
        }
        if query.limit > 0 {
            run_rows.truncate(query.limit);
        }
        run_rows.into_iter().map(|run_row| self.listed_run(run_row)).collect()
    }

    /// Number of events according to the run's own row. If that row is damaged, counts the events.
    pub(in crate::store::sqlite) fn merged_event_count(&self, n: i64) -> Result<u64> {
        match merged_run(self.tx, n)? {
            Some(run_row) if run_row.record.is_ok() => Ok(run_row.events),
            _ => count_events(self.tx, n),
        }
    }

    /// The lowest and highest numbers of a run's pending items. Does not read the items.
    pub(in crate::store::sqlite) fn item_numbers(&self, n: i64) -> Result<Option<(i64, i64)>> {
        let ends =
            "SELECT (SELECT min(n) FROM item WHERE run_n = ?1), (SELECT max(n) FROM item WHERE run_n = ?1)";
        self.tx.prepare_cached(ends)?.query_row([n], |row| {
            let (first, last): (Option<i64>, Option<i64>) = (row.get(0)?, row.get(1)?);
            Ok(first.zip(last))
        })
    }

    /// Messages with their positions. A damaged message is reported in its place.
    #[allow(clippy::type_complexity)]
    pub(in crate::store::sqlite) fn messages(
        &self,
        n: i64,
    ) -> Result<Vec<(i64, std::result::Result<Message, Damage>)>> {
        self.checked_rows(
            Part::Message,
            "SELECT n, checksum, message FROM message WHERE run_n = ?1 ORDER BY n",
            n,
        )
    }

    /// Pending items with their numbers. A damaged item is reported in its place.
    #[allow(clippy::type_complexity)]
    pub(in crate::store::sqlite) fn items(
        &self,
        n: i64,
    ) -> Result<Vec<(i64, std::result::Result<Item, Damage>)>> {
        self.checked_rows(Part::Item, "SELECT n, checksum, item FROM item WHERE run_n = ?1 ORDER BY n", n)
    }

    /// Reads and verifies the rows of a run that `select` returns as number, checksum and value.
    #[allow(clippy::type_complexity)]
    fn checked_rows<T: serde::de::DeserializeOwned>(
        &self,
        part: Part,
        select: &str,
        n: i64,
    ) -> Result<Vec<(i64, std::result::Result<T, Damage>)>> {
        let mut statement = self.tx.prepare_cached(select)?;
        let rows = statement.query_map([n], |row| {
            let at: i64 = row.get(0)?;
            let value = bytes(row, 2)?;
            let key = [n.to_le_bytes(), at.to_le_bytes()];
            let proven = prove(part, &[&key[0], &key[1]], &value, &bytes(row, 1)?);
            Ok((at, proven.and_then(|()| parse(part, &value))))
        })?;
        rows.collect()
    }
}
