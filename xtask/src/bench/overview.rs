//! Benchmarks of what a user waits for: `status --all` with 200 projects, and the timeline of a run with 10,000
//! checkpoints. Both are compared with the longest time that feels immediate.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::Result;

use super::measure::{Row, Sample, binary, folder};
use super::process::run_successfully;

/// The longest that either may take.
const LIMIT: Duration = Duration::from_millis(150);

/// The whole process, outside of all projects.
pub fn status_all(short: bool) -> Result<Vec<Row>> {
    let (binary, folder, projects) = (binary(short)?, folder()?, if short { 10 } else { 200 });
    let home = folder.path().join("home");
    let milepost = |place: &Path, args: &[&str]| {
        let mut command = Command::new(&binary);
        command.arg("-C").arg(place).args(args).env("HOME", &home).env("XDG_STATE_HOME", home.join("state"));
        run_successfully(command.stdout(Stdio::null()).stderr(Stdio::null()))
    };
    for number in 0..projects {
        let root = home.join(format!("project-{number}"));
        fs::create_dir_all(&root)?;
        run_successfully(Command::new("git").args(["init", "-q"]).arg(&root))?;
        for run in ["one", "two", "three"] {
            milepost(&root, &["save", "--run", run, "--no-capture", "a step"])?;
        }
    }
    let mut sample = Sample::default();
    for _ in 0..21 {
        sample.time(|| milepost(&home, &["status", "--all"]))?;
    }
    let what = format!("whole process: `status --all`, {projects} projects with 3 runs each");
    Ok(vec![limited(what, sample.median(), short)])
}

pub fn timeline(short: bool) -> Result<Vec<Row>> {
    let (folder, checkpoints) = (folder()?, if short { 1_000 } else { 10_000 });
    let engine = super::history::seed(&folder.path().join("bench.db"), checkpoints)?;
    let run = "bench".parse()?;
    let mut sample = Sample::default();
    for _ in 0..11 {
        sample.time(|| Ok(engine.timeline(&run)?))?;
    }
    Ok(vec![limited(format!("timeline of {checkpoints} checkpoints"), sample.median(), short)])
}

/// The short form uses unoptimised code, which may take longer.
fn limited(what: String, measured: Duration, short: bool) -> Row {
    Row::times(what, measured, LIMIT, if short { 10.0 } else { 1.0 })
}
