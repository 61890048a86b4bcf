//! Benchmark: eight processes that save concurrently without pausing, compared with one.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use milepost::Save;

use super::measure::{Row, Sample, Work, folder, open};

pub fn eight_writers(short: bool) -> Result<Vec<Row>> {
    let saves = if short { 40 } else { 200 };
    let one = run_writers(1, saves)?;
    let eight = run_writers(8, saves)?;
    let mut line = Row::times(
        format!("8 processes × {saves} saves of 4 KB into one run: p99, vs the median of a single process"),
        eight.at(0.99),
        one.median(),
        25.0,
    );
    line.measured.push_str(&format!(" (median {:.0} µs)", eight.median().as_secs_f64() * 1e6));
    Ok(vec![line])
}

fn run_writers(processes: usize, saves: usize) -> Result<Sample> {
    let folder = folder()?;
    drop(open(folder.path())?);
    let me = std::env::current_exe()?;
    let path = folder.path().display().to_string();
    let children = (0..processes)
        .map(|_| Command::new(&me).args(["writer", &path, &saves.to_string()]).stdout(Stdio::piped()).spawn())
        .collect::<std::io::Result<Vec<_>>>()?;
    let mut sample = Sample::default();
    for child in children {
        let output = child.wait_with_output()?;
        ensure!(output.status.success(), "a writer failed: {}", output.status);
        for line in String::from_utf8(output.stdout)?.lines() {
            sample.add(Duration::from_nanos(line.parse()?));
        }
    }
    Ok(sample)
}

/// `cargo xtask writer FOLDER N`: one of the processes. Prints the duration of each save in nanoseconds, one
/// per line.
pub fn writer(folder: &str, saves: &str) -> Result<()> {
    let engine = open(std::path::Path::new(folder))?;
    let run = "writer".parse()?;
    let mut work = Work::new(4096);
    let mut took = Vec::new();
    for _ in 0..saves.parse()? {
        work.step(0.05);
        let save = Save::new().state_text(&work.json())?;
        let start = Instant::now();
        engine.save(&run, save)?;
        took.push(start.elapsed().as_nanos());
    }
    for nanos in took {
        println!("{nanos}");
    }
    Ok(())
}
