//! Measurement of many writers: 1 to 16 processes that save into one store at the same time, each into its own run.

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
    let ms = if is_short { 100 } else { 1_000 };
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
    for system in tools.available(&SYSTEMS) {
        let folder = folder()?;
        let place = tools.place(system, folder.path())?;
        let mut workers: Vec<Worker> = Vec::new();
        for _ in 0..most {
            workers.push(tools.start(system, &place)?);
            // The first process creates the store.
            if workers.len() == 1 {
                workers[0].wait_until_ready()?;
            }
        }
        for worker in &mut workers[1..] {
            worker.wait_until_ready()?;
        }
        let (mut rate, mut slow) = (empty_row(system), empty_row(system));
        let mut failed = 0;
        for count in counts {
            let (sample, per_second, failures) = run(&mut workers[..*count], ms)?;
            rate.cells.push(Some(per_second));
            slow.cells.push(Some(sample.at(0.99).as_secs_f64()));
            failed += failures;
        }
        if failed > 0 {
            rate.note = Some(format!("{failed} saves failed because the database was locked for too long"));
        }
        rates.rows.push(rate);
        slowest.rows.push(slow);
        for worker in workers {
            worker.close()?;
        }
    }
    Ok((rates, slowest))
}

/// Lets the workers save for some time. Returns the times of all saves, saves per second, and the number of failures.
fn run(workers: &mut [Worker], ms: u64) -> Result<(Sample, f64, usize)> {
    for (n, worker) in workers.iter_mut().enumerate() {
        let mut states = States::new(4096);
        for _ in 0..n * 11 {
            states.next();
        }
        let states: Vec<String> = (0..8).map(|_| states.next()).collect();
        let run = format!("run-{n}");
        worker.send(&json!({"do": "repeat", "ms": ms, "run": run, "states": states}))?;
    }
    let (mut sample, mut per_second, mut failed) = (Sample::default(), 0.0, 0);
    for worker in workers {
        let reply = worker.receive()?;
        failed += reply.failed;
        // A process that had to wait past the end has its own duration.
        let seconds = (reply.times.iter().sum::<u64>() as f64 / 1e9).max(ms as f64 / 1e3);
        per_second += reply.times.len() as f64 / seconds;
        for ns in reply.times {
            sample.add(std::time::Duration::from_nanos(ns));
        }
    }
    Ok((sample, per_second, failed))
}
