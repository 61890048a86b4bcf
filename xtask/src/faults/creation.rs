//! A store in the middle of being made. Killed before every single call of the first save that changes a file: whatever
//! is left, the store is the user's own, and the next save works without anybody being asked to trust it. Sixteen first
//! saves at once: one makes the store, all of them are in it, and none is told that it is damaged or foreign.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::kill::CALLS;
use super::project::{Kind, Project, scratch};
use super::{End, Lab, at_once};
use crate::shell::has;

/// First saves that run at once.
const FIRST_SAVES: usize = 16;
/// How much later each of the first saves begins where they are slowed down.
const LATER: Duration = Duration::from_millis(15);
/// Calls in which the first save, which makes the store, is slowed down, and those in which the others are, so that it
/// makes the store between two looks of theirs.
const SLOW_MAKER: &str = "fdatasync,fsync:delay_enter=15000";
const SLOW_LOOKER: &str = "fcntl,statx:delay_enter=2000";

pub fn run(lab: &Lab) -> Result<End> {
    if !has("strace") {
        return Ok(End::Skipped("strace is missing".into()));
    }
    let (mut killed, mut calls) = (0, 0);
    for (kind, call) in [Kind::Sqlite, Kind::Files].iter().flat_map(|kind| CALLS.map(|call| (*kind, call))) {
        for n in 1.. {
            let project = new_project(lab, kind)?;
            let save = ["save", "--no-capture", "--run", "r", "--summary", "first"];
            let (trace, inject) = (format!("trace={call}"), format!("inject={call}:signal=KILL:when={n}"));
            let strace = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", &trace, "-e", &inject];
            let first = project.command(&strace, &save).output()?;
            let second = project.run(&["save", "--no-capture", "--run", "r", "--summary", "second"])?;
            ensure!(
                second.code == 0 && second.err.is_empty(),
                "killed before {call} number {n} ({kind:?}), the next save exits {}: {}",
                second.code,
                second.err
            );
            let first_id = String::from_utf8_lossy(&first.stdout).into_owned();
            let acknowledged: Vec<String> = [first_id, second.out]
                .iter()
                .map(|out| out.trim().to_owned())
                .filter(|id| id.starts_with("cp_"))
                .collect();
            project.holds(&acknowledged)?;
            if first.status.success() {
                break;
            }
            killed += 1;
            if n >= lab.pick(6, 200) {
                break;
            }
        }
        calls += 1;
    }
    Ok(End::Held(format!("{killed} kills before one of {calls} calls, each followed by a save that worked")))
}

/// A project without a store, and without a flag that would make any store the user's own choice.
fn new_project(lab: &Lab, kind: Kind) -> Result<Project> {
    let project = Project::new(lab, kind)?;
    if kind == Kind::Files { project.with_store_in_settings() } else { Ok(project) }
}

pub fn race_sqlite(lab: &Lab) -> Result<End> {
    race(lab, Kind::Sqlite)
}

pub fn race_files(lab: &Lab) -> Result<End> {
    race(lab, Kind::Files)
}

fn race(lab: &Lab, kind: Kind) -> Result<End> {
    let rounds = lab.pick(8, 100);
    for round in 1..=rounds {
        let slowed = round % 2 == 0 && has("strace");
        race_once(lab, kind, slowed).with_context(|| format!("round {round}"))?;
    }
    let all = rounds * FIRST_SAVES;
    Ok(End::Held(format!("{rounds} stores, each made by {FIRST_SAVES} first saves at once, {all} saved")))
}

fn race_once(lab: &Lab, kind: Kind, slowed: bool) -> Result<()> {
    let state = scratch()?;
    let project = new_project(lab, kind)?.with_state(state.path());
    let saved = at_once(FIRST_SAVES, |n| {
        let run = format!("r{n}");
        let save = ["save", "--no-capture", "--run", &run, "--summary", "first"];
        let answer = if slowed {
            std::thread::sleep(LATER * n as u32);
            let inject = format!("inject={}", if n == 0 { SLOW_MAKER } else { SLOW_LOOKER });
            project.run_behind(&["strace", "-f", "-qq", "-o", "/dev/null", "-e", &inject], &save)?
        } else {
            project.run(&save)?
        };
        ensure!(answer.err.is_empty(), "save {n} exits {} and says {}", answer.code, answer.err);
        Ok(answer.expect(0)?.out.trim().to_owned())
    })?;
    let listed = project.holds(&saved)?;
    ensure!(listed == FIRST_SAVES, "{listed} of {FIRST_SAVES} listed");
    // One id: nobody wrote a second one over it, which would leave a record of a store that does not exist.
    let records = std::fs::read_dir(state.path().join("milepost/stores"))?.count();
    ensure!(records == 1, "{records} records of one store");
    let doctor = project.run(&["doctor"])?.expect(0)?;
    ensure!(doctor.err.is_empty(), "doctor says {}", doctor.err);
    Ok(())
}
