//! SIGKILL during a prune, which removes, compresses and frees space: before every system call that changes a
//! file. The kept checkpoints exist and verify immediately, and a second prune completes the first.

use anyhow::{Context, Result, ensure};

use super::project::{Project, Rng, StoreKind, text};
use super::{Environment, Outcome};
use crate::shell::is_installed;

/// System calls before which a prune is killed: at the first occurrence, the second, and so on.
const CALLS: [&str; 7] = ["unlink", "fdatasync", "fsync", "pwrite64", "ftruncate", "rename", "write"];
const SAVES: usize = 16;
const KEPT: usize = 10;
const PRUNE: [&str; 6] = ["prune", "--yes", "--keep-last", "10", "--compress-after", "0s"];

pub fn sqlite(env: &Environment) -> Result<Outcome> {
    run(env, StoreKind::Sqlite)
}

pub fn files(env: &Environment) -> Result<Outcome> {
    run(env, StoreKind::Files)
}

fn run(env: &Environment, kind: StoreKind) -> Result<Outcome> {
    if !is_installed("strace") {
        return Ok(Outcome::Skipped("strace is missing; `cargo xtask setup` installs it".into()));
    }
    let (calls, step, most) = (env.pick(&CALLS[..4], &CALLS[..]), env.pick(4, 1), env.pick(10, 60));
    let (mut killed, mut rng) = (0, Rng(5));
    for call in calls {
        for n in (1..=most).step_by(step) {
            let project = Project::new(env, kind)?;
            let ids = fill(&project, &mut rng)?;
            let place = || format!("killed before {call} number {n}");
            let (trace, inject) = (format!("trace={call}"), format!("inject={call}:signal=KILL:when={n}"));
            let strace = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", &trace, "-e", &inject];
            let ended = project.command(&strace, &PRUNE).output()?.status.success();
            check(&project, &ids).with_context(place)?;
            if ended {
                break;
            }
            killed += 1;
        }
    }
    ensure!(killed > 0, "no prune was killed");
    Ok(Outcome::Passed(format!(
        "{killed} prunes killed, no kept checkpoint lost, each completed by the next prune"
    )))
}

fn fill(project: &Project, rng: &mut Rng) -> Result<Vec<String>> {
    (0..SAVES)
        .map(|_| project.save(&["--run", "r", "--profile", "pai", "--summary", &rng.letters(2000)]))
        .collect()
}

fn check(project: &Project, ids: &[String]) -> Result<()> {
    project.check_acknowledged(&ids[SAVES - KEPT..])?;
    let newest = project.run(&["show", "latest", "--json"])?.expect(0)?.json()?;
    ensure!(
        text(&newest["checkpoint"], "snapshot_id") == ids[SAVES - 1],
        "latest is not the newest checkpoint"
    );
    project.run(&PRUNE)?.expect(0)?;
    let left = project.check_acknowledged(&ids[SAVES - KEPT..])?;
    ensure!(left == KEPT, "{left} checkpoints remain, not {KEPT}");
    project.run(&["doctor", "--fix"])?.expect(0)?;
    project.run(&["doctor"])?.expect(0)?;
    let again =
        project.run(&["prune", "--keep-last", "10", "--compress-after", "0s", "--json"])?.expect(0)?;
    let again = again.json()?;
    ensure!(again["removed"] == 0 && again["compressed"] == 0, "a third prune still has work: {again}");
    Ok(())
}
