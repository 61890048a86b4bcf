//! Milepost in an async program: every call that accesses the store runs on a blocking thread of the runtime.
//!
//! `cargo run --example async_worker -- FOLDER`

#![allow(clippy::print_stdout, reason = "an example prints")]

use milepost::{Milepost, Run, Status};
use tokio::task::spawn_blocking;

type Failure = Box<dyn std::error::Error + Send + Sync>;

const TASKS: [&str; 4] = ["fetch", "parse", "build", "publish"];

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let folder = std::env::args().nth(1).ok_or("usage: async_worker FOLDER")?;
    let run = spawn_blocking(move || Milepost::open(folder)?.run("async").rejoin_or_start()).await??;
    // A handle is cheap to clone, and several tasks can use it concurrently.
    let jobs: Vec<_> = TASKS.iter().map(|task| tokio::spawn(execute(run.clone(), task))).collect();
    for job in jobs {
        println!("{}", job.await??);
    }
    spawn_blocking(move || run.finish(Status::Completed)).await??;
    Ok(())
}

/// Executes one task, unless an earlier process already completed it.
async fn execute(run: Run, task: &'static str) -> Result<String, Failure> {
    let handle = run.clone();
    if spawn_blocking(move || handle.is_done(task)).await? {
        return Ok(format!("{task}: done before"));
    }
    let guard = spawn_blocking(move || run.begin_task(task)).await??;
    tokio::time::sleep(std::time::Duration::from_millis(20)).await; // the work itself
    spawn_blocking(move || guard.complete()).await??;
    Ok(format!("{task}: done now"))
}
