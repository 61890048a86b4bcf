//! A program whose auto-save provider panics every second tick, on a disk that fills up and is freed again:
//! it ends normally, every checkpoint that could be saved exists, and every failure is reported.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::mount::Mount;
use super::project::{Project, StoreKind, scratch_folder};
use super::{Environment, Outcome};
use crate::shell::build_example;

const EXAMPLE: &str = "panicking_provider";

pub fn run(env: &Environment) -> Result<Outcome> {
    let folder = scratch_folder()?;
    let mount = match Mount::memory(folder.path(), "24m") {
        Ok(mount) => mount,
        Err(why) => return Ok(Outcome::Skipped(why)),
    };
    let program = build_example(EXAMPLE)?;
    let (rounds, lasting) = env.pick((1, 3500), (4, 14_000));
    let mut child = Command::new(program)
        .arg(&mount.folder)
        .arg(lasting.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let said = BufReader::new(child.stderr.take().context("no stderr")?);
    let (panics, refusals) = (AtomicU64::new(0), AtomicU64::new(0));
    let filled = std::thread::scope(|scope| {
        let (panics, refusals) = (&panics, &refusals);
        scope.spawn(move || {
            for line in said.lines().map_while(Result::ok).filter(|line| line.starts_with("not saved: ")) {
                let count = if line.contains("the provider panicked") { panics } else { refusals };
                count.fetch_add(1, Ordering::SeqCst);
            }
        });
        (0..rounds).try_for_each(|_| fill_and_free(&mount.folder, refusals))
    });
    let output = child.wait_with_output()?;
    filled?;
    ensure!(output.status.success(), "the program ended with {}", output.status);
    let counts: Value = serde_json::from_slice(&output.stdout).context("no counts on stdout")?;
    let count = |name: &str| counts[name].as_u64().unwrap_or_default();
    let (given, saved, refused) = (count("given"), count("saved"), count("refused"));
    ensure!(refused >= rounds && count("panicked") > 0, "nothing failed: {counts}");
    ensure!(saved == given - refused, "{saved} saved, but {given} were provided and {refused} refused");
    ensure!(
        panics.into_inner() == count("panicked") && refusals.into_inner() == refused,
        "not every failure was reported: {counts}"
    );
    let project = Project::at(env, StoreKind::Sqlite, &mount.folder);
    let listed = project.check_acknowledged(&[])? as u64;
    ensure!(listed == saved + 1, "{listed} listed, but {saved} were saved by the timer and one at the end");
    let events = project.run(&["events", "--limit", "0", "--json"])?.expect(0)?.json()?;
    let told = |word: &str| events["events"].to_string().contains(word);
    ensure!(told("the provider panicked"), "the events do not mention the panics");
    ensure!(told("writing "), "the events do not mention the full disk");
    project.run(&["doctor"])?.expect(0)?;
    Ok(Outcome::Passed(format!(
        "{given} states provided, {saved} saved, {refused} refused on {rounds} full disks, {} panics; ended normally",
        count("panicked")
    )))
}

/// Fills the disk until three saves have been refused, then frees it.
fn fill_and_free(folder: &Path, refusals: &AtomicU64) -> Result<()> {
    std::thread::sleep(Duration::from_millis(700));
    let before = refusals.load(Ordering::SeqCst);
    let filler = folder.join("filler");
    let mut file = std::fs::File::create(&filler)?;
    let start = Instant::now();
    while refusals.load(Ordering::SeqCst) < before + 3 {
        // Also fills what the store frees in the meantime.
        while file.write_all(&[1; 4096]).is_ok() {}
        if start.elapsed() > Duration::from_secs(2) {
            bail!("the disk is full, but fewer than three saves were refused within 2 s");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    drop(file);
    std::fs::remove_file(filler)?;
    Ok(())
}
