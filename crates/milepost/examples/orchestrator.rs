//! An orchestrator that crashes and resumes: start it again and it goes on where it was.
//!
//! `cargo run --example orchestrator -- FOLDER [TASK TO CRASH IN]`

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "an example talks")]

use std::error::Error;
use std::time::Duration;

use milepost::{Milepost, Profile, Run, Status};
use serde::{Deserialize, Serialize};

const PLAN: [&str; 5] = ["fetch", "parse", "build", "test", "publish"];

/// What the work knows about itself; comes back exactly as it was put.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Build {
    pieces: Vec<String>,
    half_done: Option<String>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let folder = args.next().ok_or("which folder?")?;
    let crash_in = args.next();

    let mp = Milepost::open(folder)?;
    // The same id after a crash; an error that names the owner if it is alive.
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
            // The task and the state, or neither.
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
    // Cheap: the next checkpoint holds it, the auto-save's at the latest.
    run.put(state)?;
    if crash_in == Some(task) {
        eprintln!("crashing in {task}");
        std::process::abort();
    }
    state.half_done = None;
    state.pieces.push(task.to_owned());
    Ok(())
}
