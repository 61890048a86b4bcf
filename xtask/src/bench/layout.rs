//! Benchmarks of the file layout: whole `save` processes, compared with SQLite and with a run that has a short log.

use std::ops::RangeFrom;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use milepost::store::{OpenOptions, StoreUrl};
use milepost::{Milepost, Save};

use super::measure::{Row, Sample, folder, packaged_binary, pairs};
use super::process::run_successfully;

/// Processes that save at the same time.
const WRITERS: usize = 4;

/// Four processes that save at once, and a save into a run with a long log.
pub fn layout(short: bool) -> Result<Vec<Row>> {
    let binary = packaged_binary(short)?;
    Ok(vec![writers(&binary, short)?, long_log(&binary, short)?])
}

/// A whole process that saves a short summary.
fn save(binary: &Path, folder: &Path, url: &StoreUrl, summary: usize) -> Result<()> {
    let mut command = Command::new(binary);
    command.arg("-C").arg(folder).arg("--store").arg(url.to_string());
    command.args(["save", "--run", "bench", "--no-capture"]).arg(format!("step {summary}"));
    // Keeps the trust records of temporary stores out of the user's state folder.
    command.env("XDG_STATE_HOME", folder).stdout(Stdio::null()).stderr(Stdio::null());
    run_successfully(&mut command)
}

fn writers(binary: &Path, short: bool) -> Result<Row> {
    let saves = if short { 10 } else { 250 };
    let folder = folder()?;
    // A new store for each round, so that all rounds do the same.
    let round = |url: StoreUrl| -> Result<Duration> {
        let start = Instant::now();
        thread::scope(|scope| {
            let work = |writer: usize| {
                let (url, folder) = (&url, folder.path());
                move || (0..saves).try_for_each(|n| save(binary, folder, url, writer * saves + n))
            };
            let writers: Vec<_> = (0..WRITERS).map(|writer| scope.spawn(work(writer))).collect();
            writers
                .into_iter()
                .try_for_each(|writer| writer.join().unwrap_or_else(|_| bail!("a thread panicked")))
        })?;
        Ok(start.elapsed())
    };
    let (mut files, mut sqlite) = (Sample::default(), Sample::default());
    for n in 0..if short { 1 } else { 3 } {
        files.add(round(StoreUrl::files(folder.path().join(format!("files-{n}"))))?);
        sqlite.add(round(StoreUrl::sqlite(folder.path().join(format!("sqlite-{n}.db"))))?);
    }
    let what = format!("{} whole saves by {WRITERS} processes at once, files vs SQLite", WRITERS * saves);
    Ok(Row::times(what, files.median(), sqlite.median(), 2.0))
}

fn long_log(binary: &Path, short: bool) -> Result<Row> {
    let folder = folder()?;
    let store = |name: &str, saves: usize| -> Result<StoreUrl> {
        let url = StoreUrl::files(folder.path().join(name));
        let engine = Milepost::at(&url, &OpenOptions::new().create(true))?;
        for n in 0..saves {
            engine.save(&"bench".parse()?, Save::new().summary(format!("step {n}")))?;
        }
        Ok(url)
    };
    let lines = if short { 200 } else { 10_000 };
    let (few, many) = (store("few", 10)?, store("many", lines)?);
    let rounds = if short { 10 } else { 200 };
    let (mut summaries, mut others) = (lines.., lines..);
    let save = |url: &StoreUrl, summaries: &mut RangeFrom<usize>| {
        save(binary, folder.path(), url, summaries.next().unwrap_or_default())
    };
    let (many_lines, few_lines) = pairs(rounds, || save(&many, &mut summaries), || save(&few, &mut others))?;
    let what = format!("whole save in the file layout, {lines} lines in the log vs 10");
    Ok(Row::times(what, many_lines.median(), few_lines.median(), 1.2))
}
