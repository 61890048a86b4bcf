//! What the benchmarks share: samples of durations, the floor of a durable write, rows of the result table,
//! temporary stores, the binary, and generated states to save.

use std::fmt;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use milepost::Milepost;
use milepost::store::{OpenOptions, StoreUrl};

use crate::shell::{build_program, build_release_program, target};

/// Durations of one repeated measurement.
#[derive(Default, Clone)]
pub struct Sample(Vec<Duration>);

impl Sample {
    /// Times one piece of work.
    pub fn time<T>(&mut self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let start = Instant::now();
        let result = work()?;
        self.0.push(start.elapsed());
        Ok(result)
    }

    /// Adds a duration that was measured elsewhere.
    pub fn add(&mut self, duration: Duration) {
        self.0.push(duration);
    }

    /// The quantile `share` of the sample.
    pub fn at(&self, share: f64) -> Duration {
        let mut sorted = self.0.clone();
        sorted.sort();
        sorted[((sorted.len() - 1) as f64 * share).round() as usize]
    }

    pub fn median(&self) -> Duration {
        self.at(0.5)
    }
}

/// Times both closures in alternating order, so that a slow phase of the machine affects both equally.
pub fn pairs(
    rounds: usize,
    mut ours: impl FnMut() -> Result<()>,
    mut floor: impl FnMut() -> Result<()>,
) -> Result<(Sample, Sample)> {
    let (mut a, mut b) = (Sample::default(), Sample::default());
    for i in 0..rounds {
        if i % 2 == 0 {
            a.time(&mut ours)?;
            b.time(&mut floor)?;
        } else {
            b.time(&mut floor)?;
            a.time(&mut ours)?;
        }
    }
    Ok((a, b))
}

/// A row of the result table.
pub struct Row {
    pub what: String,
    pub measured: String,
    pub floor: String,
    pub ratio: f64,
    pub bound: f64,
    /// Whether the row meets an alternative bound, which is enough to pass.
    pub meets_other_bound: bool,
}

impl Row {
    /// A row that compares two durations.
    pub fn times(what: impl Into<String>, ours: Duration, floor: Duration, bound: f64) -> Self {
        Self {
            what: what.into(),
            measured: micros(ours),
            floor: micros(floor),
            ratio: ours.as_secs_f64() / floor.as_secs_f64(),
            bound,
            meets_other_bound: false,
        }
    }

    /// A row that compares two counts.
    pub fn count(what: impl Into<String>, measured: f64, floor: f64, bound: f64) -> Self {
        Self {
            what: what.into(),
            measured: format!("{measured:.2}"),
            floor: format!("{floor:.2}"),
            ratio: measured / floor,
            bound,
            meets_other_bound: false,
        }
    }

    pub fn holds(&self) -> bool {
        self.meets_other_bound || self.ratio <= self.bound
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = if self.holds() { "" } else { "**missed**" };
        let Self { what, measured, floor, ratio, bound, .. } = self;
        write!(f, "| {what} | {measured} | {floor} | {ratio:.2} | {bound:.2} | {verdict} |")
    }
}

fn micros(d: Duration) -> String {
    format!("{:.0} µs", d.as_secs_f64() * 1e6)
}

/// The lower limit of every durable write: an append and an fdatasync.
pub struct Floor(File);

impl Floor {
    pub fn new(folder: &Path) -> Result<Self> {
        Ok(Self(File::create(folder.join("floor"))?))
    }

    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.0.write_all(bytes)?;
        self.0.sync_data()?;
        Ok(())
    }
}

/// A temporary folder on the disk of the target folder, not in memory.
pub fn folder() -> Result<tempfile::TempDir> {
    Ok(tempfile::Builder::new().prefix("bench-").tempdir_in(target()?)?)
}

/// The address of a store in a folder. Commands need it, because the folder is inside a repository with its
/// own store.
pub fn store(folder: &Path) -> StoreUrl {
    StoreUrl::sqlite(folder.join("bench.db"))
}

/// Opens that store, and creates it if needed.
pub fn open(folder: &Path) -> Result<Milepost> {
    Ok(Milepost::at(&store(folder), &OpenOptions::new().create(true))?)
}

/// Builds the release binary. The short form, which only counts, uses the debug binary of the tests.
pub fn binary(short: bool) -> Result<std::path::PathBuf> {
    installed_copy(&if short { build_program() } else { build_release_program() }?)
}

/// Builds the binary that packages contain, which starts faster than the release build. The short form uses the debug
/// binary of the tests.
pub fn packaged_binary(short: bool) -> Result<std::path::PathBuf> {
    if short { binary(true) } else { installed_copy(&crate::dist::build()?) }
}

/// Copies a binary, as `cargo install` does. The linker's own output is fragmented in memory and starts slower.
fn installed_copy(built: &Path) -> Result<std::path::PathBuf> {
    let installed = target()?.join("bench-milepost");
    let _ = std::fs::remove_file(&installed);
    std::fs::copy(built, &installed).context("cannot copy the binary")?;
    Ok(installed.canonicalize()?)
}

/// A JSON state of which a share changes at each step.
pub struct Work {
    lines: Vec<String>,
    seed: u64,
}

impl Work {
    pub fn new(bytes: usize) -> Self {
        let mut work = Self { lines: Vec::new(), seed: 0x9E37_79B9_7F4A_7C15 };
        let lines = bytes.div_ceil(64);
        work.lines = (0..lines).map(|_| work.line()).collect();
        work
    }

    fn next(&mut self) -> u64 {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        self.seed
    }

    /// A task of 63 bytes: an id, a status, a number and a short text.
    fn line(&mut self) -> String {
        let words = ["pending", "running", "blocked", "skipped"];
        let (a, b, c) = (self.next(), self.next(), self.next());
        let mut line = format!(
            "{{\"id\":\"{:08x}\",\"s\":\"{}\",\"n\":{},\"h\":\"",
            a as u32,
            words[(b % 4) as usize],
            b % 1000
        );
        let mut rest = c;
        while line.len() < 61 {
            line.push(char::from(b'a' + (rest % 26) as u8));
            rest = (rest / 26).wrapping_add(a);
        }
        line + "\"}"
    }

    /// Changes a share of the lines and returns the number of changed bytes.
    pub fn step(&mut self, share: f64) -> usize {
        let count = ((self.lines.len() as f64 * share).round() as usize).max(1);
        for _ in 0..count {
            let at = (self.next() % self.lines.len() as u64) as usize;
            self.lines[at] = self.line();
        }
        count * 64
    }

    pub fn json(&self) -> String {
        format!("[{}]", self.lines.join(","))
    }
}
