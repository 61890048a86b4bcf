//! A disk on which every sync from the Nth on fails with EIO: nothing is acknowledged without a sync, a
//! command that reports that nothing changed has changed nothing, and afterwards everything works again.

use anyhow::{Result, ensure};

use super::project::{Project, StoreKind, text};
use super::{Environment, Outcome};
use crate::shell::is_installed;

/// Commands that write.
const WRITERS: [&[&str]; 7] = [
    &["save", "--no-capture", "--run", "r", "--profile", "pai", "--summary", "during"],
    &["note", "--run", "r", "during"],
    &["decide", "--run", "r", "during"],
    &["mark", "--run", "r", "latest", "--pin"],
    &["task", "set", "t1", "done", "--run", "r"],
    &["prune", "--run", "r", "--keep-last", "3", "--yes"],
    &["finish", "--run", "r", "--status", "failed"],
];

pub fn sqlite(env: &Environment) -> Result<Outcome> {
    run(env, StoreKind::Sqlite)
}

pub fn files(env: &Environment) -> Result<Outcome> {
    run(env, StoreKind::Files)
}

fn run(env: &Environment, kind: StoreKind) -> Result<Outcome> {
    if !is_installed("strace") {
        return Ok(Outcome::Skipped("needs strace".into()));
    }
    let project = Project::new(env, kind)?;
    let mut acknowledged = Vec::new();
    let (mut refused, mut unsure, mut unaffected) = (0, 0, 0);
    for writer in WRITERS {
        for first in 1..=env.pick(3, 12) {
            acknowledged.push(project.save(&["--run", "r", "--profile", "pai", "--summary", "before"])?);
            let before = project.ids()?;
            let inject = format!("inject=fsync,fdatasync:error=EIO:when={first}+");
            let strace =
                ["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=fsync,fdatasync", "-e", &inject];
            let args: Vec<&str> = ["--json"].iter().chain(writer).copied().collect();
            let output = project.run_wrapped(&strace, &args)?.expect_one_of(&[0, 1, 3])?;
            let after = project.ids()?;
            if output.code == 0 {
                // The command needed fewer syncs, or only derived data was not synced.
                unaffected += 1;
                acknowledged.extend(
                    output.json().ok().map(|said| text(&said, "snapshot_id")).filter(|id| !id.is_empty()),
                );
            } else if output.stderr.contains("checkpoint_not_acknowledged") {
                unsure += 1;
                let new: Vec<_> = after.difference(&before).collect();
                ensure!(
                    new.iter().all(|id| output.stderr.contains(id.as_str())),
                    "the error does not name all of the new {new:?}: {}",
                    output.stderr
                );
            } else {
                refused += 1;
                // A prune commits in steps and reports how far it got.
                let same = after == before || writer[0] == "prune";
                ensure!(
                    same,
                    "`{}` reported that nothing changed, but checkpoints did: {}",
                    output.line,
                    output.stderr
                );
            }
            // A prune may remove acknowledged checkpoints.
            let ids = project.ids()?;
            acknowledged.retain(|id| ids.contains(id) || writer[0] != "prune");
            if output.code == 0 && first > 3 {
                break;
            }
        }
        project.check_acknowledged(&acknowledged)?;
    }
    ensure!(unsure + refused > 0, "no sync failed");
    project.run(&["doctor"])?.expect(0)?;
    Ok(Outcome::Passed(format!(
        "{} commands with failing syncs: {refused} changed nothing, {unsure} were not acknowledged, {unaffected} \
         succeeded; all {} acknowledged checkpoints exist",
        refused + unsure + unaffected,
        acknowledged.len()
    )))
}
