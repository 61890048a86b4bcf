//! Medians, percentiles and bodies to save.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;

/// Durations, sorted on demand.
#[derive(Default, Clone)]
pub struct Sample(Vec<Duration>);

impl Sample {
    pub fn time<T>(&mut self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let start = Instant::now();
        let result = work()?;
        self.0.push(start.elapsed());
        Ok(result)
    }

    pub fn at(&self, share: f64) -> Duration {
        let mut sorted = self.0.clone();
        sorted.sort();
        sorted[((sorted.len() - 1) as f64 * share).round() as usize]
    }

    pub fn median(&self) -> Duration {
        self.at(0.5)
    }
}

/// The floor under every durable write: append and fdatasync.
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

/// A state of JSON lines of which a share changes at each step.
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

    /// 64 bytes with commas: a task with an id, a word and two numbers.
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
            rest = rest / 26 + a;
        }
        line + "\"}"
    }

    /// Changes a share of the lines.
    pub fn step(&mut self, share: f64) {
        let count = ((self.lines.len() as f64 * share).round() as usize).max(1);
        for _ in 0..count {
            let at = (self.next() % self.lines.len() as u64) as usize;
            self.lines[at] = self.line();
        }
    }

    pub fn json(&self) -> String {
        format!("[{}]", self.lines.join(","))
    }
}
