//! Measurement of many writers: 1 to 16 processes that save into one store at the same time, each into its own run.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use serde_json::json;

use super::open_stores::{States, empty_row};
use super::report::{Table, Unit};
use super::systems::{System, Tools};
use super::worker::Worker;
use crate::bench::measure::{Sample, folder};

const SYSTEMS: [System; 10] = [
    System::Milepost,
    System::MilepostFiles,
    System::PlainSqlite,
    System::BetterSqlite,
    System::JsonFiles,
    System::Saver,
    System::LangGraphSqlite,
    System::MilepostPostgres,
    System::SaverPostgres,
    System::LangGraphPostgres,
];

/// The rate of saves with each number of writers, and the 99th percentile of the time of a save.
pub fn writers(tools: &Tools, is_short: bool) -> Result<(Table, Table)> {
    let counts: &[usize] = if is_short { &[1, 2] } else { &[1, 2, 4, 8, 16] };
    let (turns, ms) = if is_short { (1, 100) } else { (4, 300) };
    let mut rates = Table::new(
        "Writers: saves per second",
        "1 to 16 processes save 4 KB into one store at the same time, each into its own run or thread, without pausing. \
         JSON files are in a folder per run, so their writers do not wait for each other.",
    );
    let mut slowest = Table::new(
        "Writers: the 99th percentile",
        "From the same measurement: 99 of 100 saves take at most this long.",
    );
    for count in counts {
        let name = if *count == 1 { "1 writer".to_owned() } else { format!("{count} writers") };
        rates.columns.push((name.clone(), Unit::Rate));
        slowest.columns.push((name, Unit::Seconds));
    }
    let most = counts.iter().copied().max().unwrap_or(1);
    let folder = folder()?;
    let systems = tools.available(&SYSTEMS);
    let mut groups = Vec::new();
    for system in &systems {
        groups.push(start(tools, *system, most, folder.path())?);
        rates.rows.push(empty_row(*system));
        slowest.rows.push(empty_row(*system));
    }
    let mut failed = vec![0; systems.len()];
    for count in counts {
        let mut totals: Vec<Total> = systems.iter().map(|_| Total::default()).collect();
        for turn in 0..turns {
            for n in 0..groups.len() {
                let which = (n + turn) % groups.len();
                failed[which] += run(&mut groups[which][..*count], ms, &mut totals[which])?;
            }
        }
        for (n, total) in totals.iter().enumerate() {
            rates.rows[n].cells.push(Some(total.per_second / turns as f64));
            slowest.rows[n].cells.push(Some(total.times.at(0.99).as_secs_f64()));
        }
    }
    for (row, failed) in rates.rows.iter_mut().zip(failed).filter(|(_, failed)| *failed > 0) {
        row.note = Some(format!("{failed} saves failed because the database was locked for too long"));
    }
    for worker in groups.into_iter().flatten() {
        worker.close()?;
    }
    Ok((rates, slowest))
}

/// Starts many workers on one store.
fn start(tools: &Tools, system: System, count: usize, folder: &Path) -> Result<Vec<Worker>> {
    let place = tools.place(system, folder)?;
    let mut workers: Vec<Worker> = Vec::new();
    for n in 0..count {
        workers.push(tools.start(system, &place)?);
        // The first process creates the store.
        if n == 0 {
            workers[0].wait_until_ready()?;
        }
    }
    for worker in &mut workers[1..] {
        worker.wait_until_ready()?;
    }
    Ok(workers)
}

/// What the writers of a system did.
#[derive(Default)]
struct Total {
    times: Sample,
    per_second: f64,
}

/// Lets the workers save for some time. Returns the number of saves that failed.
fn run(workers: &mut [Worker], ms: u64, total: &mut Total) -> Result<usize> {
    for (n, worker) in workers.iter_mut().enumerate() {
        let mut states = States::new(4096);
        for _ in 0..n * 11 {
            states.next();
        }
        let states: Vec<String> = (0..8).map(|_| states.next()).collect();
        let run = format!("run-{n}");
        worker.send(&json!({"do": "repeat", "ms": ms, "run": run, "states": states}))?;
    }
    let mut failed = 0;
    for worker in workers {
        let reply = worker.receive()?;
        failed += reply.failed;
        // A process that had to wait past the end has its own duration.
        let seconds = (reply.times.iter().sum::<u64>() as f64 / 1e9).max(ms as f64 / 1e3);
        total.per_second += reply.times.len() as f64 / seconds;
        for nanos in reply.times {
            total.times.add(Duration::from_nanos(nanos));
        }
    }
    Ok(failed)
}
