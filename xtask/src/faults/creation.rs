//! Faults during the creation of a store. The first save is killed before every call that changes a file: the
//! store is still the user's own, and the next save works without asking for trust. In a race of sixteen
//! first saves, one creates the store, all are saved in it, and none reports a damaged or foreign store.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::kill::CALLS;
use super::project::{Project, StoreKind, scratch_folder};
use super::{Environment, Outcome, run_threads};
use crate::shell::is_installed;

/// Concurrent first saves.
const FIRST_SAVES: usize = 16;
/// Delay between the starts of first saves that are slowed down.
const LATER: Duration = Duration::from_millis(15);
/// Calls that are delayed in the save that creates the store, and in the others, so that the store is created
/// between two of their checks.
const SLOW_MAKER: &str = "fdatasync,fsync:delay_enter=15000";
const SLOW_LOOKER: &str = "fcntl,statx:delay_enter=2000";

pub fn run(env: &Environment) -> Result<Outcome> {
    if !is_installed("strace") {
        return Ok(Outcome::Skipped("strace is missing".into()));
    }
    let (mut killed, mut calls) = (0, 0);
    for (kind, call) in
        [StoreKind::Sqlite, StoreKind::Files].iter().flat_map(|kind| CALLS.map(|call| (*kind, call)))
    {
        for n in 1.. {
            let project = new_project(env, kind)?;
            let save = ["save", "--no-capture", "--run", "r", "--summary", "first"];
            let (trace, inject) = (format!("trace={call}"), format!("inject={call}:signal=KILL:when={n}"));
            let strace = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", &trace, "-e", &inject];
            let first = project.command(&strace, &save).output()?;
            let second = project.run(&["save", "--no-capture", "--run", "r", "--summary", "second"])?;
            ensure!(
                second.code == 0 && second.stderr.is_empty(),
                "after a kill before {call} number {n} ({kind:?}), the next save exited with {}: {}",
                second.code,
                second.stderr
            );
            let first_id = String::from_utf8_lossy(&first.stdout).into_owned();
            let acknowledged: Vec<String> = [first_id, second.stdout]
                .iter()
                .map(|out| out.trim().to_owned())
                .filter(|id| id.starts_with("cp_"))
                .collect();
            project.check_acknowledged(&acknowledged)?;
            if first.status.success() {
                break;
            }
            killed += 1;
            if n >= env.pick(6, 200) {
                break;
            }
        }
        calls += 1;
    }
    Ok(Outcome::Passed(format!(
        "{killed} kills over {calls} pairs of store and call, each followed by a successful save"
    )))
}

/// A project without a store. No flag names the store, because a flag would bypass the check for trust.
fn new_project(env: &Environment, kind: StoreKind) -> Result<Project> {
    let project = Project::new(env, kind)?;
    if kind == StoreKind::Files { project.with_store_in_settings() } else { Ok(project) }
}

pub fn race_sqlite(env: &Environment) -> Result<Outcome> {
    race(env, StoreKind::Sqlite)
}

pub fn race_files(env: &Environment) -> Result<Outcome> {
    race(env, StoreKind::Files)
}

fn race(env: &Environment, kind: StoreKind) -> Result<Outcome> {
    let rounds = env.pick(8, 100);
    for round in 1..=rounds {
        let slowed = round % 2 == 0 && is_installed("strace");
        race_once(env, kind, slowed).with_context(|| format!("round {round}"))?;
    }
    let all = rounds * FIRST_SAVES;
    Ok(Outcome::Passed(format!(
        "{rounds} stores, each created by {FIRST_SAVES} concurrent first saves; all {all} were saved"
    )))
}

fn race_once(env: &Environment, kind: StoreKind, slowed: bool) -> Result<()> {
    let state = scratch_folder()?;
    let project = new_project(env, kind)?.with_state(state.path());
    let saved = run_threads(FIRST_SAVES, |n| {
        let run = format!("r{n}");
        let save = ["save", "--no-capture", "--run", &run, "--summary", "first"];
        let output = if slowed {
            std::thread::sleep(LATER * n as u32);
            let inject = format!("inject={}", if n == 0 { SLOW_MAKER } else { SLOW_LOOKER });
            project.run_wrapped(&["strace", "-f", "-qq", "-o", "/dev/null", "-e", &inject], &save)?
        } else {
            project.run(&save)?
        };
        ensure!(
            output.stderr.is_empty(),
            "save {n} exited with {} and printed {}",
            output.code,
            output.stderr
        );
        Ok(output.expect(0)?.stdout.trim().to_owned())
    })?;
    let listed = project.check_acknowledged(&saved)?;
    ensure!(listed == FIRST_SAVES, "{listed} of {FIRST_SAVES} listed");
    // If a second id had overwritten the first, there would be a record of a store that does not exist.
    let records = std::fs::read_dir(state.path().join("milepost/stores"))?.count();
    ensure!(records == 1, "expected one record of the store, but there are {records}");
    let doctor = project.run(&["doctor"])?.expect(0)?;
    ensure!(doctor.stderr.is_empty(), "doctor printed {}", doctor.stderr);
    Ok(())
}
