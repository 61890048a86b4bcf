//! Benchmark: saves per second of 1 to 64 clients, each on a run and a connection of its own, compared with as many
//! minimal clients in alternating rounds. A save by the engine reads the run, its oldest checkpoints and its pending
//! items before it writes. A write of the store reads the run and writes, as the minimal client does.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use milepost::model::Profile;
use milepost::store::{Commit, WriteDecision};
use milepost::{Milepost, Save};
use milepost_testkit::postgres::PrivateCluster;
use milepost_testkit::{TestCheckpoint, fixtures};

use super::minimal::{MinimalClient, Rows};
use super::{create_minimal, open, rate, start};
use crate::bench::measure::{Row, Work};

/// Saves per second, and the share of them that must remain with more clients.
const LEAST_SHARE: f64 = 0.8;

pub fn throughput(short: bool) -> Result<Vec<Row>> {
    let Some(cluster) = start("throughput on PostgreSQL")? else { return Ok(Vec::new()) };
    let counts: &[usize] = if short { &[1, 4, 16] } else { &[1, 2, 4, 8, 16, 32, 64] };
    let (most, rounds) = (counts.iter().copied().max().unwrap_or(1), if short { 2 } else { 4 });
    let time = Duration::from_millis(if short { 300 } else { 1500 });
    let ours: Vec<Milepost> = (0..most).map(|_| open(&cluster, "milepost")).collect::<Result<_>>()?;
    let states: Vec<String> = (0..8).map(state).collect();
    for (n, engine) in ours.iter().enumerate() {
        save(engine, n, &states[0])?;
    }
    save(&ours[0], 0, &states[1])?;
    create_minimal(&cluster)?;
    let rows = Rows::copy(&cluster)?;
    let url = cluster.url("postgres");
    let floors: Vec<_> =
        (0..most).map(|_| MinimalClient::connect(&url, rows.clone())).collect::<Result<_>>()?;
    for (n, client) in floors.iter().enumerate() {
        client.create_run(&format!("run-{n}"))?;
    }
    let (mut rows, mut best, mut lowest, mut curve) = (Vec::new(), 0.0_f64, f64::MAX, Vec::new());
    for &clients in counts {
        let (mut mine, mut theirs, mut plain) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..rounds {
            plain.push(count(&ours[..clients], time, &|engine, n, _| write(engine, n))?);
            mine.push(count(&ours[..clients], time, &|engine, n, at| save(engine, n, &states[at % 8]))?);
            theirs.push(count(&floors[..clients], time, &|client, n, _| client.save(&format!("run-{n}")))?);
        }
        let (mine, theirs, plain) = (median(mine), median(theirs), median(plain));
        lowest = lowest.min(if best > 0.0 { mine / best } else { 1.0 });
        best = best.max(mine);
        curve.push(format!("{clients}: {mine:.0}"));
        let is_last = clients == most;
        let least = if is_last { LEAST_SHARE } else { 0.0 };
        let what = |verb: &str| format!("{verb} of {clients} clients on {clients} runs, vs a minimal client");
        rows.push(rate(what("writes of the store"), plain, theirs, least));
        rows.push(rate(what("saves"), mine, theirs, least));
    }
    let mut growth = Row::count(
        "saves per second with more clients, lowest share of the best with fewer",
        1.0,
        lowest,
        1.25,
    );
    growth.measured = format!("{lowest:.2} ({})", curve.join(", "));
    growth.floor = "1".to_owned();
    rows.push(growth);
    println!(
        "<!-- connections to the server: {} by Milepost and the minimal clients -->",
        connections(&cluster)?
    );
    Ok(rows)
}

fn state(seed: usize) -> String {
    let mut work = Work::new(1024);
    for _ in 0..=seed {
        work.step(0.05);
    }
    work.json()
}

fn save(engine: &Milepost, n: usize, state: &str) -> Result<()> {
    let run = format!("run-{n}").parse()?;
    engine.save(&run, Save::new().profile(Profile::Pai).state_text(state)?)?;
    Ok(())
}

/// A write of the same rows without the engine.
fn write(engine: &Milepost, n: usize) -> Result<()> {
    let run = format!("plain-{n}").parse()?;
    let mut number = 0;
    engine.raw_store().write(&run, &mut |view| {
        number = view.slot.stamp();
        let id = format!("cp_20260102T030405006Z_{number:012}");
        let doc = TestCheckpoint::new(&run, "x").id(&id).state("a state ".repeat(128));
        let mut commit = Commit::new(fixtures::next_record(&run, view));
        commit.puts.push(doc.seal(&view.slot));
        commit.events.push(fixtures::event(&run, number % 1000));
        WriteDecision::Commit(Box::new(commit))
    })?;
    Ok(())
}

/// Calls `work` in one thread per client for some time, and returns the number of calls per second.
fn count<T: Sync>(
    clients: &[T],
    time: Duration,
    work: &(dyn Fn(&T, usize, usize) -> Result<()> + Sync),
) -> Result<f64> {
    let start = Barrier::new(clients.len());
    let counts: Vec<Result<f64>> = std::thread::scope(|scope| {
        let threads: Vec<_> = clients
            .iter()
            .enumerate()
            .map(|(n, client)| {
                let start = &start;
                scope.spawn(move || {
                    start.wait();
                    let (begun, mut done) = (Instant::now(), 0);
                    while begun.elapsed() < time {
                        work(client, n, done)?;
                        done += 1;
                    }
                    Ok(done as f64 / begun.elapsed().as_secs_f64())
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("a client panicked")).collect()
    });
    counts.into_iter().sum()
}

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

fn connections(cluster: &PrivateCluster) -> Result<u64> {
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()";
    cluster.sql("postgres", sql)?.trim().parse().context("no count of connections")
}
