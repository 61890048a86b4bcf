//! Large data, written quickly through the library: one run with many checkpoints, and a project with many runs.

use anyhow::{Context, Result, ensure};
use jiff::{SignedDuration, Timestamp};
use milepost::internal::seal::{self, Unsealed};
use milepost::model::{Body, Profile, RunId, RunRecord};
use milepost::store::{Commit, OpenOptions, StoreUrl, WriteDecision};
use milepost::{Milepost, Reference};
use serde_json::json;

use super::sandbox::Sandbox;
use super::server::PageServer;
use super::{Environment, Outcome};
use crate::faults::Size;
use crate::shell::{cargo, root, run_program};

/// The run with many checkpoints.
const RUN: &str = "long-run";
/// Time between two checkpoints of it.
const INTERVAL: SignedDuration = SignedDuration::from_secs(47);
/// Maximum memory of the server in KiB.
const MEMORY: u64 = 100 << 10;
/// Maximum number of checkpoints in one commit.
const BATCH: u64 = 2_000;

pub(super) fn run(env: &Environment) -> Result<Outcome> {
    let browser = match &env.browser {
        Ok(browser) => browser,
        Err(reason) => return Ok(Outcome::Skipped(reason.clone())),
    };
    let (checkpoints, runs) = env.pick((1_000, 60), (10_000, 500));
    // Times mean something only with the binary that users have.
    let milepost = match env.size {
        Size::Short => env.milepost.clone(),
        Size::Full => {
            run_program(cargo().args(["build", "--quiet", "--release", "--package", "milepost-cli"]))?;
            root().join("target/release/milepost")
        }
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

/// Writes a run whose checkpoints repeat a body, in large commits, as an import does. The newest is from now.
fn fill(engine: &Milepost, run: &RunId, body: &Body, count: u64) -> Result<()> {
    let length = INTERVAL * i32::try_from(count)?;
    let start = body.created_at.saturating_sub(length)?;
    let mut done = 0;
    while done < count {
        let batch = (count - done).min(BATCH);
        let mut failed = None;
        engine.raw_store().write(run, &mut |view| {
            let mut slot = view.slot.clone();
            let new = || RunRecord::new(run.clone(), Profile::Session, start);
            let mut commit = Commit::new(view.record.clone().unwrap_or_else(new));
            for number in done..done + batch {
                match seal_at(body, run, number, start).and_then(|body| Ok(seal::seal(body, &slot)?)) {
                    Ok(sealed) => commit.puts.push(sealed),
                    Err(e) => failed = Some(e),
                }
                slot = slot.next();
            }
            WriteDecision::Commit(Box::new(commit))
        })?;
        if let Some(e) = failed {
            return Err(e);
        }
        done += batch;
    }
    Ok(())
}

/// The body as a checkpoint of another run and time.
fn seal_at(body: &Body, run: &RunId, number: u64, start: Timestamp) -> Result<Unsealed> {
    let mut body = body.clone();
    body.run_id = run.clone();
    body.snapshot_id = format!("cp_{run}_{number:07}").parse()?;
    body.created_at = start.saturating_add(INTERVAL * i32::try_from(number)?)?;
    body.elapsed_ms = number * 47_000;
    body.task_summary = Some(format!("Ported module {number} to the new parser"));
    Ok(Unsealed::new(body, true)?)
}
