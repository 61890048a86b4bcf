//! Many processes save, several of them into the same run, while the server crashes again and again. Every
//! acknowledged save is on the server once, and every other one was reported as failed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use milepost_testkit::postgres::{ClusterOptions, PrivateCluster};

use super::client::{Client, reported_error, waits};
use crate::faults::project::text;
use crate::faults::{Environment, Outcome, run_threads};

/// Waiting time of each command, in seconds. A restart with recovery takes about one.
const WAIT: &str = "20";

/// Number of processes that share a run.
const WRITERS_PER_RUN: usize = 2;

/// What one process was told about its saves.
#[derive(Default)]
struct Told {
    /// The ids of acknowledged saves, by their text.
    acknowledged: BTreeMap<String, String>,
    /// Reason codes of failed saves, by their text.
    failed: BTreeMap<String, String>,
    /// Texts of saves whose result is unknown.
    unknown: BTreeSet<String>,
    longest: Duration,
    /// Number of acknowledged saves that waited on this machine.
    waited: usize,
}

pub fn run(env: &Environment) -> Result<Outcome> {
    let cluster = match super::start(ClusterOptions::new())? {
        Ok(cluster) => cluster,
        Err(reason) => return Ok(Outcome::Skipped(reason)),
    };
    let (processes, saves) = (env.pick(4, 16), env.pick(25, 200));
    let client = Client::new(env)?;
    let store = cluster.url("postgres");
    client.run(&store, &["save", "--no-capture", "--run", "first", "creates the store"])?.expect(0)?;
    let (working, restarts) = (AtomicUsize::new(processes), AtomicUsize::new(0));
    let failed = AtomicBool::new(false);
    let told = std::thread::scope(|scope| {
        let restarter = scope.spawn(|| restart(env, &cluster, &working, &restarts));
        let told = run_threads(processes, |k| {
            let told = save_all(&client, &store, k, saves, &failed);
            failed.fetch_or(told.is_err(), Ordering::Relaxed);
            working.fetch_sub(1, Ordering::Relaxed);
            told
        });
        restarter.join().unwrap_or_else(|_| Err(anyhow::anyhow!("a thread panicked")))?;
        told
    })?;
    // What waits on this machine counts as saved, and must arrive.
    client.run(&store, &["sync"])?.expect(0)?;
    check(&client, &store, &told, processes * saves)?;
    client.run(&store, &["verify"])?.expect(0)?;
    let count = |of: fn(&Told) -> usize| told.iter().map(of).sum::<usize>();
    let reasons: BTreeSet<_> = told.iter().flat_map(|told| told.failed.values()).collect();
    let longest = told.iter().map(|told| told.longest).max().unwrap_or_default();
    Ok(Outcome::Passed(format!(
        "{processes} processes × {saves} saves, {} restarts: {} acknowledged and all there once ({} waited on this \
         machine), {} failed {reasons:?}, {} unknown, longest save {:.1} s",
        restarts.load(Ordering::Relaxed),
        count(|told| told.acknowledged.len()),
        count(|told| told.waited),
        count(|told| told.failed.len()),
        count(|told| told.unknown.len()),
        longest.as_secs_f64()
    )))
}

/// Crashes the server every few seconds while processes work; in the short form three times.
fn restart(
    env: &Environment,
    cluster: &PrivateCluster,
    working: &AtomicUsize,
    restarts: &AtomicUsize,
) -> Result<()> {
    let (pause, most) =
        (env.pick(Duration::from_millis(600), Duration::from_secs(3)), env.pick(3, usize::MAX));
    while working.load(Ordering::Relaxed) > 0 && restarts.load(Ordering::Relaxed) < most {
        std::thread::sleep(pause);
        cluster.restart_immediate().context("cannot restart the server")?;
        restarts.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

/// The saves of one process, one after the other.
fn save_all(client: &Client, store: &str, k: usize, saves: usize, failed: &AtomicBool) -> Result<Told> {
    let run = format!("R-{}", k / WRITERS_PER_RUN);
    let mut told = Told::default();
    for n in 0..saves {
        if failed.load(Ordering::Relaxed) {
            break;
        }
        let text = format!("process {k} save {n}");
        // This profile keeps every checkpoint.
        let args =
            ["save", "--no-capture", "--json", "--profile", "pai", "--wait", WAIT, "--run", &run, &text];
        let output = client.run(store, &args)?;
        told.longest = told.longest.max(output.duration);
        if output.code == 0 {
            told.waited += usize::from(waits(&output));
            let id = output.json()?["snapshot_id"].as_str().map(str::to_owned);
            told.acknowledged.insert(text, id.context("a save printed no id")?);
            continue;
        }
        let error = reported_error(&output);
        let (reason, is_unknown) =
            error.with_context(|| format!("exit {} without a reason: {}", output.code, output.stderr))?;
        if is_unknown {
            told.unknown.insert(text);
        } else {
            told.failed.insert(text, reason);
        }
    }
    Ok(told)
}

/// Compares what the processes were told with what is on the server.
fn check(client: &Client, store: &str, told: &[Told], expected: usize) -> Result<()> {
    let answers = told.iter().map(|told| told.acknowledged.len() + told.failed.len() + told.unknown.len());
    ensure!(answers.sum::<usize>() == expected, "saves without an answer");
    let (mut stored, mut sequences) = (BTreeMap::new(), BTreeMap::<String, BTreeSet<u64>>::new());
    for checkpoint in client.list(store)? {
        let (id, summary) = (text(&checkpoint, "snapshot_id"), text(&checkpoint, "task_summary"));
        let earlier = stored.insert(summary.clone(), id);
        ensure!(earlier.is_none(), "{summary:?} is there twice");
        let sequence = checkpoint["sequence"].as_u64().context("a checkpoint without a sequence")?;
        let is_new = sequences.entry(text(&checkpoint, "run_id")).or_default().insert(sequence);
        ensure!(is_new, "sequence {sequence} is there twice");
    }
    for told in told {
        for (summary, id) in &told.acknowledged {
            ensure!(stored.get(summary) == Some(id), "{id} ({summary:?}) was acknowledged and is missing");
        }
        for (summary, reason) in &told.failed {
            ensure!(!stored.contains_key(summary), "{summary:?} failed with {reason} and is there");
        }
    }
    // A run that moved on while a save waited on this machine has a part of its own, which starts later.
    let is_whole = |run: &String| run.rsplit_once('-').is_none_or(|(_, end)| end.len() != 8);
    for (run, sequences) in sequences.into_iter().filter(|(run, _)| is_whole(run)) {
        let last = sequences.last().copied().unwrap_or_default();
        ensure!(sequences.len() as u64 == last, "run {run} has a gap: {} of {last}", sequences.len());
    }
    Ok(())
}
