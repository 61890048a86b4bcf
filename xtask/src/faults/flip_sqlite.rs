//! One damaged value in a SQLite store, written by UPDATE: in every column that stores a part of a
//! checkpoint, and in samples of the other columns.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use rusqlite::Connection;
use rusqlite::types::Value;

use super::flip::{Baseline, FlipEffect, positions, write};
use super::project::{Project, Rng, StoreKind};
use super::{Environment, Outcome};

/// Columns that store checkpoints: table, columns of the key, column.
const CHECKPOINTS: [(&str, &str, &str); 18] = [
    ("checkpoint", "run_n, sequence", "header"),
    ("checkpoint", "run_n, sequence", "checksum"),
    ("checkpoint", "run_n, sequence", "snapshot_id"),
    ("checkpoint", "run_n, sequence", "stamp"),
    ("marks", "run_n, sequence", "marks"),
    ("marks", "run_n, sequence", "checksum"),
    ("marks", "run_n, sequence", "revision"),
    ("whole", "stamp, 0", "data"),
    ("whole", "stamp, 0", "checksum"),
    ("delta", "stamp, 0", "data"),
    ("delta", "stamp, 0", "checksum"),
    ("delta", "stamp, 0", "base"),
    ("delta", "stamp, 0", "dependants"),
    ("append_log", "run_n, sequence", "header"),
    ("append_log", "run_n, sequence", "header_sum"),
    ("append_log", "run_n, sequence", "snapshot_id"),
    ("append_log", "run_n, sequence", "body"),
    ("append_log", "run_n, sequence", "body_sum"),
];

/// Other columns: table, columns of the key, column.
const REST: [(&str, &str, &str); 19] = [
    ("run", "n, 0", "record"),
    ("run", "n, 0", "checksum"),
    ("run", "n, 0", "run_id"),
    ("run", "n, 0", "stamp"),
    ("run", "n, 0", "last_sequence"),
    ("run", "n, 0", "count"),
    ("run", "n, 0", "events"),
    ("event", "run_n, n", "events"),
    ("event", "run_n, n", "checksum"),
    ("event", "run_n, n", "count"),
    ("append_log", "run_n, sequence", "count"),
    ("append_log", "run_n, sequence", "events"),
    ("append_log", "run_n, sequence", "record"),
    ("append_log", "run_n, sequence", "run_sum"),
    ("append_log", "run_n, sequence", "event"),
    ("append_log", "run_n, sequence", "event_sum"),
    ("append_log", "run_n, sequence", "event_count"),
    ("name", "run_n, sequence", "name"),
    ("meta", "length(key), unicode(key)", "value"),
];

/// A value in a row, and the key of the row.
struct Cell {
    table: &'static str,
    column: &'static str,
    key: (&'static str, i64, i64),
    value: Value,
}

pub fn run(env: &Environment) -> Result<Outcome> {
    let project = Project::new(env, StoreKind::Sqlite)?;
    std::fs::create_dir(project.store())?;
    let baseline = write(&project)?;
    let db = Connection::open(project.store().join("milepost.db"))?;
    db.busy_timeout(std::time::Duration::from_secs(10))?;
    let ids = names(&db)?;
    let mut rng = Rng(5);
    let mut failures = FlipFailures::default();
    let (mut flips, mut by_command) = (0, 0);
    for column in CHECKPOINTS {
        let cells = cells(&db, column)?;
        let most = env.pick(3, cells.len());
        for cell in sample(cells, most, &mut rng) {
            let id = ids.get(&cell.owner()).context("the row belongs to no checkpoint")?;
            for changed in cell.flipped(env.pick(0, 2), &mut rng) {
                if !cell.set(&db, &changed)? {
                    continue;
                }
                flips += 1;
                failures.record(&cell, id, baseline.check_damage(id));
                if rng.below(env.pick(20, 60)) == 0 {
                    by_command += 1;
                    failures.record(
                        &cell,
                        id,
                        baseline.check_damage_by_command(&project, id).context("through the binary"),
                    );
                }
                cell.set(&db, &cell.value)?;
            }
        }
    }
    let latest = baseline.latest()?.id.clone();
    let headers = [CHECKPOINTS[0], CHECKPOINTS[13]];
    let headers = headers.into_iter().map(|column| cells(&db, column)).collect::<Result<Vec<_>>>()?;
    for cell in headers.into_iter().flatten().filter(|c| ids.get(&c.owner()) == Some(&latest)) {
        let changed = cell.flipped(0, &mut rng).swap_remove(0);
        cell.set(&db, &changed)?;
        failures.record(
            &cell,
            &latest,
            baseline.check_damage_by_command(&project, &latest).context("latest, through the binary"),
        );
        by_command += 1;
        cell.set(&db, &cell.value)?;
    }
    let rest = rest(env, &db, &baseline, &mut failures)?;
    baseline.check_other_damage().context("after everything was restored")?;
    failures.into_result()?;
    Ok(Outcome::Passed(format!(
        "{flips} flips in checkpoints reported, {by_command} checked through the binary; {rest}"
    )))
}

/// Damages runs, events and indexes. Every flip must be reported or have no effect on any checkpoint.
fn rest(
    env: &Environment,
    db: &Connection,
    baseline: &Baseline,
    failures: &mut FlipFailures,
) -> Result<String> {
    let mut rng = Rng(6);
    let (mut named, mut silent) = (0, BTreeSet::new());
    for column in REST {
        let cells = cells(db, column)?;
        for cell in sample(cells, env.pick(1, 8), &mut rng) {
            for changed in cell.flipped(0, &mut rng) {
                if !cell.set(db, &changed)? {
                    continue;
                }
                match baseline.check_other_damage() {
                    Ok(FlipEffect::Named) => named += 1,
                    Ok(FlipEffect::Unharmed) => {
                        silent.insert(format!("{}.{}", cell.table, cell.column));
                    }
                    Err(e) => failures.record(&cell, "none", Err(e)),
                }
                cell.set(db, &cell.value)?;
            }
        }
    }
    let silent: Vec<_> = silent.into_iter().collect();
    Ok(format!("{named} flips elsewhere reported, without effect in {}", silent.join(", ")))
}

/// Maps both (run number, sequence) and (negated stamp, 0) to the checkpoint's id.
fn names(db: &Connection) -> Result<BTreeMap<(i64, i64), String>> {
    let mut statement = db.prepare(
        "SELECT run_n, sequence, stamp, snapshot_id FROM checkpoint \
         UNION ALL SELECT run_n, sequence, stamp, snapshot_id FROM append_log",
    )?;
    let rows = statement.query_map([], |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?, r.get(3)?)))?;
    let mut names = BTreeMap::new();
    for row in rows {
        let (run, sequence, stamp, id): (i64, i64, i64, String) = row?;
        names.insert((run, sequence), id.clone());
        names.insert((-stamp, 0), id);
    }
    Ok(names)
}

fn cells(
    db: &Connection,
    (table, key, column): (&'static str, &'static str, &'static str),
) -> Result<Vec<Cell>> {
    let mut statement = db.prepare(&format!("SELECT {key}, {column} FROM {table}"))?;
    let cell = |r: &rusqlite::Row<'_>| {
        Ok(Cell { table, column, key: (key, r.get(0)?, r.get(1)?), value: r.get(2)? })
    };
    Ok(statement.query_map([], cell)?.collect::<Result<_, _>>()?)
}

/// Up to `most` of the cells, always with the first and the last.
fn sample(mut cells: Vec<Cell>, most: usize, rng: &mut Rng) -> Vec<Cell> {
    while cells.len() > most.max(2) {
        cells.remove(1 + rng.below(cells.len() as u64 - 2) as usize);
    }
    cells
}

impl Cell {
    fn owner(&self) -> (i64, i64) {
        let (key, a, b) = self.key;
        if key.starts_with("stamp") { (-a, 0) } else { (a, b) }
    }

    fn flipped(&self, between: usize, rng: &mut Rng) -> Vec<Value> {
        let bytes = match &self.value {
            Value::Text(text) => text.as_bytes(),
            Value::Blob(bytes) => bytes,
            Value::Integer(n) => return vec![Value::Integer(n ^ 1), Value::Integer(n ^ (1 << 12))],
            _ => return Vec::new(),
        };
        let flip = |at: usize| {
            let mut changed = bytes.to_vec();
            changed[at] ^= 1 << bit_at(at, bytes.len());
            Value::Blob(changed)
        };
        positions(bytes.len(), between, rng).into_iter().map(flip).collect()
    }

    /// Writes a value with the column's type. Returns false if no row changed, for example because of a
    /// constraint.
    fn set(&self, db: &Connection, value: &Value) -> Result<bool> {
        let (keys, a, b) = self.key;
        let (first, second) = keys.split_once(", ").context("a key must have two columns")?;
        let new = if matches!(self.value, Value::Text(_)) { "CAST(?3 AS TEXT)" } else { "?3" };
        let sql =
            format!("UPDATE {} SET {} = {new} WHERE {first} = ?1 AND {second} = ?2", self.table, self.column);
        match db.execute(&sql, rusqlite::params![a, b, value]) {
            Ok(n) => Ok(n > 0),
            Err(rusqlite::Error::SqliteFailure(e, _))
                if e.code == rusqlite::ErrorCode::ConstraintViolation =>
            {
                Ok(false)
            }
            Err(e) => Err(e.into()),
        }
    }
}

fn bit_at(at: usize, length: usize) -> usize {
    (at * 7 + length) % 8
}

/// The number of failures, and the first failure in each column.
#[derive(Default)]
struct FlipFailures {
    count: usize,
    kinds: BTreeMap<String, String>,
}

impl FlipFailures {
    fn record(&mut self, cell: &Cell, id: &str, result: Result<()>) {
        if let Err(e) = result {
            self.count += 1;
            let said: String = format!("{e:#}").chars().take(300).collect();
            self.kinds
                .entry(format!("{}.{}", cell.table, cell.column))
                .or_insert(format!("(in {id}) {said}"));
        }
    }

    fn into_result(self) -> Result<()> {
        let kinds: Vec<_> = self.kinds.iter().map(|(column, why)| format!("\n    {column} {why}")).collect();
        anyhow::ensure!(
            self.count == 0,
            "{} flips failed, the first of each column:{}",
            self.count,
            kinds.concat()
        );
        Ok(())
    }
}
