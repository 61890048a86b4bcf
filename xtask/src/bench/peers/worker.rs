//! A system under test as a child process that stays alive. The parent sends one command as JSON per line and receives
//! one line with the time that the child measured around the operation.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::bench::measure::Sample;

/// The answer to a command.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Reply {
    /// The time of each operation in nanoseconds.
    #[serde(default)]
    pub times: Vec<u64>,
    /// The number of results of a read.
    #[serde(default)]
    pub count: usize,
    /// The number of saves of `repeat` that failed because the store was busy.
    #[serde(default)]
    pub failed: usize,
}

/// The command that saves several states. Formatted once for all workers, because states are large.
pub struct SaveAll(String);

impl SaveAll {
    pub fn new(states: &[String]) -> Self {
        Self(json!({"do": "repeat", "count": states.len(), "states": states}).to_string())
    }
}

/// A running child process.
pub struct Worker {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    name: &'static str,
}

impl Worker {
    /// Starts the process. `wait_until_ready` waits until it has opened its store.
    pub fn start(name: &'static str, command: &mut Command) -> Result<Self> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start the worker of {name}"))?;
        let output = BufReader::new(child.stdout.take().context("no stdout")?);
        let input = child.stdin.take();
        Ok(Self { child, input, output, name })
    }

    pub fn wait_until_ready(&mut self) -> Result<()> {
        self.receive().map(drop)
    }

    /// Sends a command without waiting for its answer.
    pub fn send(&mut self, command: &impl std::fmt::Display) -> Result<()> {
        let input = self.input.as_mut().context("the worker was stopped")?;
        writeln!(input, "{command}").with_context(|| format!("the worker of {} ended", self.name))
    }

    /// Waits for the answer to a command.
    pub fn receive(&mut self) -> Result<Reply> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        ensure!(!line.is_empty(), "the worker of {} ended without an answer", self.name);
        serde_json::from_str(&line).with_context(|| format!("the worker of {} answered {line:?}", self.name))
    }

    fn ask(&mut self, command: &impl std::fmt::Display) -> Result<Reply> {
        self.send(command)?;
        self.receive()
    }

    pub fn save(&mut self, run: &str, state: &str) -> Result<Vec<u64>> {
        Ok(self.ask(&json!({"do": "save", "run": run, "state": state}))?.times)
    }

    /// Saves several states, one after the other.
    pub fn save_all(&mut self, states: &SaveAll) -> Result<Vec<u64>> {
        let reply = self.ask(&states.0)?;
        ensure!(reply.failed == 0, "{} could not save", self.name);
        Ok(reply.times)
    }

    /// Reads the newest state a number of times.
    pub fn latest(&mut self, times: usize) -> Result<Vec<u64>> {
        let reply = self.ask(&json!({"do": "latest", "count": times}))?;
        ensure!(reply.count > 0, "{} read an empty state", self.name);
        Ok(reply.times)
    }

    /// Lists the newest checkpoints a number of times; fails if there are fewer than `limit`.
    pub fn list(&mut self, times: usize, limit: usize) -> Result<Vec<u64>> {
        let reply = self.ask(&json!({"do": "list", "count": times, "limit": limit}))?;
        ensure!(reply.count == limit, "{} listed {} of {limit} checkpoints", self.name, reply.count);
        Ok(reply.times)
    }

    /// Adds checkpoints as fast as the system permits.
    pub fn fill(&mut self, count: usize, state: &str) -> Result<()> {
        self.ask(&json!({"do": "fill", "count": count, "state": state})).map(drop)
    }

    /// Deletes all but the newest checkpoints of a run.
    pub fn keep(&mut self, count: usize) -> Result<()> {
        self.ask(&json!({"do": "keep", "count": count})).map(drop)
    }

    /// Deletes whole threads.
    pub fn delete(&mut self, runs: &[String]) -> Result<()> {
        self.ask(&json!({"do": "delete", "runs": runs})).map(drop)
    }

    /// The present and the peak size in memory, in bytes.
    pub fn memory(&self) -> Result<(u64, u64)> {
        let path = format!("/proc/{}/status", self.child.id());
        let text = std::fs::read_to_string(&path).context(path)?;
        let field = |name: &str| -> Result<u64> {
            let line = text.lines().find_map(|line| line.strip_prefix(name)).context("no memory field")?;
            Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? * 1024)
        };
        Ok((field("VmRSS:")?, field("VmHWM:")?))
    }

    /// Closes the store and waits for the process.
    pub fn close(mut self) -> Result<()> {
        self.ask(&json!({"do": "close"}))?;
        drop(self.input.take());
        let status = self.child.wait()?;
        ensure!(status.success(), "the worker of {} failed: {status}", self.name);
        Ok(())
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Only after an error: `close` has waited for the process.
        drop(self.input.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Calls `work` for each worker in each round, and collects the times that it returns. The order rotates, so that a slow phase of the machine and the effect of
/// the previous worker are shared by all. Returns one sample per worker.
pub fn interleave(
    workers: &mut [Worker],
    rounds: usize,
    mut work: impl FnMut(&mut Worker, usize) -> Result<Vec<u64>>,
) -> Result<Vec<Sample>> {
    let mut samples = vec![Sample::default(); workers.len()];
    for round in 0..rounds {
        for n in 0..workers.len() {
            let which = (n + round) % workers.len();
            for nanos in work(&mut workers[which], round)? {
                samples[which].add(Duration::from_nanos(nanos));
            }
        }
    }
    Ok(samples)
}
