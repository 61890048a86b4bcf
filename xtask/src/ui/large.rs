//! Large data, written quickly through the library: one run with many checkpoints, and a project with many runs.

use anyhow::{Context, Result, ensure};
use jiff::SignedDuration;
use milepost::model::{Body, Profile, RunId};
use milepost::store::{OpenOptions, StoreUrl};
use milepost::{Milepost, Reference};
use serde_json::json;

use super::sandbox::Sandbox;
use super::server::PageServer;
use super::{Environment, Outcome};
use crate::faults::Size;
use crate::large_store::append_checkpoints;
use crate::shell::build_release_program;

/// The run with many checkpoints.
const RUN: &str = "long-run";
/// Time between two checkpoints of it.
const INTERVAL: SignedDuration = SignedDuration::from_secs(47);
/// Maximum memory of the server in KiB.
const MEMORY: u64 = 100 << 10;

pub(super) fn run(env: &Environment) -> Result<Outcome> {
    let browser = match &env.browser {
        Ok(browser) => browser,
        Err(reason) => return Ok(Outcome::Skipped(reason.clone())),
    };
    let (checkpoints, runs) = env.pick((1_000, 60), (10_000, 500));
    // Times mean something only with the binary that users have.
    let milepost = match env.size {
        Size::Short => env.milepost.clone(),
        Size::Full => build_release_program()?,
    };
    let sandbox = Sandbox::new(&milepost)?;
    let project = sandbox.project("large", &[("notes.txt", "one\n")])?;
    let summary = "Ported another module to the new parser; two tests still fail";
    let state =
        json!({ "state": { "cursor": 17, "files": ["src/a.rs", "src/b.rs"], "note": "x".repeat(300) } });
    sandbox.run_with_input(
        &project,
        &["save", "--run", "seed", summary, "--input", "-"],
        &state.to_string(),
    )?;
    let status = sandbox.query(&project, &["status", "--all"])?;
    let store: StoreUrl = status["projects"][0]["store"].as_str().context("no store")?.parse()?;
    let engine = Milepost::at(&store, &OpenOptions::new())?;
    let seed: RunId = "seed".parse()?;
    let body = engine.show(&Reference::Latest(0), Some(&seed))?.body()?;
    fill(&engine, &RUN.parse()?, &body, checkpoints)?;
    for number in 0..runs - 2 {
        fill(&engine, &format!("run-{number:04}").parse()?, &body, 2)?;
    }
    drop(engine);
    let server = PageServer::start(&sandbox, &sandbox.home)?;
    let settings = json!({
        "run": RUN,
        "middle": checkpoints / 2,
        "last": checkpoints,
        "older": format!("{}.{}", checkpoints / 2, u64::MAX / 4),
        "word": "parser",
        "visits": env.pick(1, 3),
        // The short form uses the debug binary, which is about ten times slower.
        "paintLimit": env.pick(3_000, 1_000),
    });
    let figures = browser.run("large", &server, settings)?;
    let memory = server.kib("VmHWM")?;
    ensure!(memory < MEMORY, "the server used {memory} KiB of memory; {figures}");
    Ok(Outcome::Passed(format!(
        "{checkpoints} checkpoints, {runs} runs: {figures}, the server used {} MiB",
        memory >> 10
    )))
}

/// Writes a run whose checkpoints repeat a body at regular intervals. The newest is from now.
fn fill(engine: &Milepost, run: &RunId, body: &Body, count: u64) -> Result<()> {
    let start = body.created_at.saturating_sub(INTERVAL * i32::try_from(count)?)?;
    append_checkpoints(engine, run, Profile::Session, start, count, |number| {
        let mut body = body.clone();
        body.run_id = run.clone();
        body.snapshot_id = format!("cp_{run}_{number:07}").parse()?;
        body.created_at = start.saturating_add(INTERVAL * i32::try_from(number)?)?;
        body.elapsed_ms = number * 47_000;
        body.task_summary = Some(format!("Ported module {number} to the new parser"));
        Ok(body)
    })
}
