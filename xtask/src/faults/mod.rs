//! `cargo xtask faults [--short] [CASE…]`: exposes the real binary to real faults, on real disks and with
//! both stores. Prints ok, FAILED or skipped for every case, with figures or the reason. Fails if a case
//! fails.

mod autosave;
mod clock;
mod concurrent;
mod creation;
mod failed_sync;
mod flip;
mod flip_files;
mod flip_sqlite;
mod flip_wal;
mod full_disk;
mod kill;
mod mount;
mod outbox;
mod pages;
mod pointer;
mod power_cut;
pub mod project;
mod prune;
mod read_only;
mod readers;
mod restore;
mod stopped;

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Result, bail};

use crate::shell::build_program;

/// How thorough to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// Takes less than a minute in total.
    Short,
    /// Runs every case with its full number of repetitions.
    Full,
}

/// The environment of every case.
pub struct Environment {
    /// Path of the binary.
    pub milepost: PathBuf,
    /// The state folder of the test user, with the trust records of their stores.
    pub state: PathBuf,
    pub size: Size,
}

impl Environment {
    /// `short` or `full`, depending on the size.
    pub fn pick<T>(&self, short: T, full: T) -> T {
        if self.size == Size::Short { short } else { full }
    }
}

/// The result of a case that did not fail.
pub enum Outcome {
    /// Passed, with figures.
    Passed(String),
    /// Could not run here, with the reason.
    Skipped(String),
}

type Case = fn(&Environment) -> Result<Outcome>;

const CASES: [(&str, Case); 31] = [
    ("concurrent-sqlite", concurrent::sqlite),
    ("concurrent-files", concurrent::files),
    ("kill-sqlite", kill::sqlite),
    ("kill-files", kill::files),
    ("creation", creation::run),
    ("creation-race-sqlite", creation::race_sqlite),
    ("creation-race-files", creation::race_files),
    ("readers-sqlite", readers::sqlite),
    ("readers-files", readers::files),
    ("pointer", pointer::run),
    ("prune-sqlite", prune::sqlite),
    ("prune-files", prune::files),
    ("restore-sqlite", restore::sqlite),
    ("restore-files", restore::files),
    ("stopped-sqlite", stopped::sqlite),
    ("stopped-files", stopped::files),
    ("full-disk-sqlite", full_disk::sqlite),
    ("full-disk-files", full_disk::files),
    ("autosave", autosave::run),
    ("read-only-sqlite", read_only::sqlite),
    ("read-only-files", read_only::files),
    ("outbox", outbox::run),
    ("clock", clock::run),
    ("flip-sqlite", flip_sqlite::run),
    ("flip-files", flip_files::run),
    ("flip-wal", flip_wal::run),
    ("failed-sync-sqlite", failed_sync::sqlite),
    ("failed-sync-files", failed_sync::files),
    ("pages", pages::run),
    ("power-cut-sqlite", power_cut::sqlite),
    ("power-cut-files", power_cut::files),
];

/// Calls `work` in `count` concurrent threads. Returns their results, or the first error.
pub fn run_threads<T: Send>(count: usize, work: impl Fn(usize) -> Result<T> + Sync) -> Result<Vec<T>> {
    std::thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = (0..count).map(|n| scope.spawn(move || work(n))).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err(anyhow::anyhow!("a thread panicked"))))
            .collect()
    })
}

/// Runs the cases whose names start with one of the given prefixes; all cases if there is none.
pub fn run(size: Size, chosen: &[&str]) -> Result<()> {
    let milepost = build_program()?;
    let state = project::scratch_folder()?;
    let env = Environment { milepost, state: state.path().to_owned(), size };
    let wanted = |name: &str| chosen.is_empty() || chosen.iter().any(|c| name.starts_with(c));
    let (mut held, mut skipped, mut failed) = (0, 0, Vec::new());
    let start = Instant::now();
    for (name, case) in CASES.into_iter().filter(|(name, _)| wanted(name)) {
        let begun = Instant::now();
        let end = case(&env);
        let took = begun.elapsed().as_secs_f64();
        match end {
            Ok(Outcome::Passed(figures)) => {
                held += 1;
                println!("{name:<20} ok ({took:.1} s): {figures}");
            }
            Ok(Outcome::Skipped(reason)) => {
                skipped += 1;
                println!("{name:<20} skipped: {reason}");
            }
            Err(e) => {
                println!("{name:<20} FAILED ({took:.1} s): {e:#}");
                failed.push(name);
            }
        }
    }
    let took = start.elapsed().as_secs_f64();
    println!("faults: {held} passed, {} failed, {skipped} skipped in {took:.0} s", failed.len());
    if held + skipped + failed.len() == 0 {
        bail!("unknown case; available: {}", CASES.map(|(name, _)| name).join(", "));
    }
    if !failed.is_empty() {
        bail!("failed: {}", failed.join(", "));
    }
    Ok(())
}
