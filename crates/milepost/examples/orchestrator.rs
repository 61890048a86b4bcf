//! An orchestrator that survives crashes: start it again and it continues with the first unfinished task.
//!
//! `cargo run --example orchestrator -- FOLDER [TASK]`
//!
//! With TASK, the program crashes in that task.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "an example prints")]

use std::error::Error;
use std::time::Duration;

use milepost::{Milepost, Profile, Run, Status};
use serde::{Deserialize, Serialize};

const PLAN: [&str; 5] = ["fetch", "parse", "build", "test", "publish"];

/// The state of the work. Milepost returns it exactly as it was saved.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Build {
    pieces: Vec<String>,
    half_done: Option<String>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let folder = args.next().ok_or("usage: orchestrator FOLDER [TASK]")?;
    let crash_in = args.next();

    let mp = Milepost::open(folder)?;
    // Rejoins the same run after a crash. Returns an error that names the owner if the owner is still alive.
    let run =
        mp.run("nightly").profile(Profile::Build).plan("PLAN").title("nightly build").rejoin_or_start()?;
    let mut state: Build = run.state()?.unwrap_or_default();
    let auto = run.autosave(Duration::from_secs(30)).on_error(|e| eprintln!("not saved: {e}")).start()?;

    for task in PLAN {
        if run.is_done(task) {
            println!("done before: {task}");
            continue;
        }
        let guard = run.begin_task(task)?;
        match execute(task, &mut state, &run, crash_in.as_deref()) {
            // Saves the completed task and the state in one transaction.
            Ok(()) => guard.complete_with(&state)?,
            Err(e) => guard.fail(&e)?,
        };
        println!("done now: {task}");
    }
    auto.stop();
    run.finish(Status::Completed)?;
    println!("pieces: {}", state.pieces.join(" "));
    Ok(())
}

fn execute(task: &str, state: &mut Build, run: &Run, crash_in: Option<&str>) -> Result<(), milepost::Error> {
    state.half_done = Some(task.to_owned());
    // This is cheap: the state is stored with the next checkpoint, no later than the next auto-save.
    run.put(state)?;
    if crash_in == Some(task) {
        eprintln!("crashing in {task}");
        std::process::abort();
    }
    state.half_done = None;
    state.pieces.push(task.to_owned());
    Ok(())
}
