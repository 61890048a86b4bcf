//! Runs as a view shows them: the run's own row, or what the newest appended row says about it.

use std::cmp::Reverse;

use rusqlite::{Connection, OptionalExtension, Result};

use super::{StoreView, append_log};
use crate::model::{Item, RunId};
use crate::store::sqlite::decode::{RUN, RunLine, bytes, integer, number, parse, prove, run_line};
use crate::store::{Damage, Part, Row, RunQuery, RunRow, StoredRun};

/// A run's own row, whatever appended rows say.
pub(super) fn own_line(tx: &Connection, n: i64) -> Result<Option<RunLine>> {
    let sql = format!("SELECT {RUN} FROM run WHERE n = ?1");
    tx.prepare_cached(&sql)?.query_row([n], run_line).optional()
}

/// How many events a run's own row counts; if it is damaged, its events are counted.
pub(super) fn merged_event_count(tx: &Connection, n: i64) -> Result<u64> {
    match own_line(tx, n)? {
        Some(line) if line.record.is_ok() => Ok(line.events),
        _ => count_events(tx, n),
    }
}

fn count_events(tx: &Connection, n: i64) -> Result<u64> {
    tx.query_row("SELECT ifnull(sum(count), 0) FROM event WHERE run_n = ?1", [n], |row| number(row, 0))
}

impl StoreView<'_> {
    /// Finds a run by its id, also where a damaged byte has changed the id in its row.
    pub(in crate::store::sqlite) fn find_run(&self, run: &RunId) -> Result<Option<RunLine>> {
        if let Some(n) = self.find_number(run)? {
            return match self.log.latest_for_run(n) {
                Some(row) => {
                    self.recounted(append_log::run_line(self.tx, &self.log, row, run.as_str())?).map(Some)
                }
                None => own_line(self.tx, n)?.map(|line| self.recounted(line)).transpose(),
            };
        }
        // Most often it is a new run. One damaged byte leaves the end of an id as it was, or all before it; who looks no
        // further than that needs the index alone, however many runs there are.
        let alike = "SELECT n FROM run WHERE substr(run_id, -4) = substr(?1, -4) \
                     OR substr(run_id, 1, length(run_id) - 4) = substr(?1, 1, length(?1) - 4)";
        let mut alike = self.tx.prepare_cached(alike)?;
        let mut rows = alike.query([run.as_str()])?;
        while let Some(row) = rows.next()? {
            let Some(line) = own_line(self.tx, row.get(0)?)? else { continue };
            if line.record.is_err() && self.belongs_to(line.n, run)? {
                let line = RunLine { run_id: run.to_string(), renamed: true, ..line };
                return self.current(line).map(Some);
            }
        }
        Ok(None)
    }

    /// Whether the newest header under `n` speaks of this run.
    fn belongs_to(&self, n: i64, run: &RunId) -> Result<bool> {
        Ok(self.newest(n)?.and_then(Row::intact).is_some_and(|entry| entry.header.run_id == *run))
    }

    /// The run as its newest row has it, its own or an appended one.
    fn current(&self, line: RunLine) -> Result<RunLine> {
        let line = match self.log.latest_for_run(line.n) {
            Some(row) => {
                let renamed = line.renamed;
                RunLine { renamed, ..append_log::run_line(self.tx, &self.log, row, &line.run_id)? }
            }
            None => line,
        };
        self.recounted(line)
    }

    /// Counts again what a damaged row can no longer say.
    fn recounted(&self, mut line: RunLine) -> Result<RunLine> {
        if line.record.is_err() {
            let counted = "SELECT sequence, stamp FROM checkpoint WHERE run_n = ?1";
            let mut statement = self.tx.prepare_cached(counted)?;
            let settled = statement
                .query_map([line.n], |row| Ok((number(row, 0)?, number(row, 1)?)))?
                .collect::<Result<Vec<_>>>()?;
            let there = settled.into_iter().filter(|(sequence, _)| !self.log.has_removed(line.n, *sequence));
            let all = there.chain(self.log.of(line.n).map(|row| (row.sequence, row.stamp)));
            (line.count, line.last_sequence, line.stamp) = all
                .fold((0, 0, 0), |(count, last, newest), (sequence, stamp)| {
                    (count + 1, last.max(sequence), newest.max(stamp))
                });
            line.events = count_events(self.tx, line.n)?;
        }
        Ok(line)
    }

    fn find_number(&self, run: &RunId) -> Result<Option<i64>> {
        self.tx
            .prepare_cached("SELECT n FROM run WHERE run_id = ?1")?
            .query_row([run.as_str()], |row| row.get(0))
            .optional()
    }

    /// The number that stands for a run in the tables.
    pub(in crate::store::sqlite) fn run_n(&self, run: &RunId) -> Result<Option<i64>> {
        match self.find_number(run)? {
            Some(n) => Ok(Some(n)),
            None => Ok(self.find_run(run)?.map(|line| line.n)),
        }
    }

    fn run_row(&self, line: RunLine) -> Result<RunRow> {
        let latest = self.newest(line.n)?;
        // An id that a damaged byte made unusable is given back by the header, or stands for itself by number.
        let named = line.run_id.parse().ok().or_else(|| match &latest {
            Some(Row::Intact(entry)) => Some(entry.header.run_id.clone()),
            _ => format!("damaged-{}", line.n).parse().ok(),
        });
        let run_id: RunId = named.ok_or(rusqlite::Error::InvalidQuery)?;
        Ok(RunRow {
            record: line.record.map_err(|damage| damage.at(Some(&run_id), None)),
            run_id,
            stamp: line.stamp,
            count: line.count,
            latest,
        })
    }

    pub(in crate::store::sqlite) fn run(&self, run: &RunId) -> Result<Option<StoredRun>> {
        let Some(line) = self.find_run(run)? else { return Ok(None) };
        let (mut good, mut damaged) = (Vec::new(), Vec::new());
        for (_, item) in self.items(line.n)? {
            match item {
                Ok(item) => good.push(item),
                Err(damage) => damaged.push(damage.at(Some(run), None)),
            }
        }
        Ok(Some(StoredRun { row: self.run_row(line)?, items: good, damaged }))
    }

    pub(in crate::store::sqlite) fn runs(&self, query: &RunQuery) -> Result<Vec<RunRow>> {
        let before = query.before.unwrap_or(u64::MAX);
        // Runs with appended rows were written after all others.
        let appended = self.log.runs();
        let mut lines = Vec::new();
        for n in &appended {
            if let Some(line) = own_line(self.tx, *n)? {
                lines.push(self.current(line)?);
            }
        }
        lines.retain(|line| line.stamp < before);
        lines.sort_by_key(|line| Reverse(line.stamp));
        let sql = format!("SELECT {RUN} FROM run WHERE stamp < ?1 ORDER BY stamp DESC");
        let mut statement = self.tx.prepare_cached(&sql)?;
        let mut rows = statement.query([integer(before)])?;
        while (query.limit == 0 || lines.len() < query.limit)
            && let Some(row) = rows.next()?
        {
            let line = run_line(row)?;
            if !appended.contains(&line.n) {
                lines.push(self.current(line)?);
            }
        }
        if query.limit > 0 {
            lines.truncate(query.limit);
        }
        lines.into_iter().map(|line| self.run_row(line)).collect()
    }

    /// How many events the tables count for a run.
    pub(in crate::store::sqlite) fn merged_event_count(&self, n: i64) -> Result<u64> {
        merged_event_count(self.tx, n)
    }

    /// The first and the last number of a run's pending items, however many there are.
    pub(in crate::store::sqlite) fn item_numbers(&self, n: i64) -> Result<Option<(i64, i64)>> {
        let ends =
            "SELECT (SELECT min(n) FROM item WHERE run_n = ?1), (SELECT max(n) FROM item WHERE run_n = ?1)";
        self.tx.prepare_cached(ends)?.query_row([n], |row| {
            let (first, last): (Option<i64>, Option<i64>) = (row.get(0)?, row.get(1)?);
            Ok(first.zip(last))
        })
    }

    /// Pending items with their numbers; a damaged one is reported in its place.
    #[allow(clippy::type_complexity)]
    pub(in crate::store::sqlite) fn items(
        &self,
        n: i64,
    ) -> Result<Vec<(i64, std::result::Result<Item, Damage>)>> {
        let mut statement =
            self.tx.prepare_cached("SELECT n, checksum, item FROM item WHERE run_n = ?1 ORDER BY n")?;
        let rows = statement.query_map([n], |row| {
            let at: i64 = row.get(0)?;
            let value = bytes(row, 2)?;
            let key = [n.to_le_bytes(), at.to_le_bytes()];
            let proven = prove(Part::Item, &[&key[0], &key[1]], &value, &bytes(row, 1)?);
            Ok((at, proven.and_then(|()| parse(Part::Item, &value))))
        })?;
        rows.collect()
    }
}
