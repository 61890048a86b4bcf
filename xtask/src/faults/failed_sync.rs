//! A disk that answers every sync from the Nth on with EIO: nothing is acknowledged that was not synced, what is said to
//! have changed nothing has changed nothing, and afterwards everything works again.

use anyhow::{Result, ensure};

use super::project::{Kind, Project, text};
use super::{End, Lab};
use crate::shell::has;

/// Commands that write, with their arguments.
const WRITERS: [&[&str]; 7] = [
    &["save", "--no-capture", "--run", "r", "--profile", "pai", "--summary", "during"],
    &["note", "--run", "r", "during"],
    &["decide", "--run", "r", "during"],
    &["mark", "--run", "r", "latest", "--pin"],
    &["task", "set", "t1", "done", "--run", "r"],
    &["prune", "--run", "r", "--keep-last", "3", "--yes"],
    &["finish", "--run", "r", "--status", "failed"],
];

pub fn sqlite(lab: &Lab) -> Result<End> {
    run(lab, Kind::Sqlite)
}

pub fn files(lab: &Lab) -> Result<End> {
    run(lab, Kind::Files)
}

fn run(lab: &Lab, kind: Kind) -> Result<End> {
    if !has("strace") {
        return Ok(End::Skipped("needs strace".into()));
    }
    let project = Project::new(lab, kind)?;
    let mut acknowledged = Vec::new();
    let (mut refused, mut unsure, mut unaffected) = (0, 0, 0);
    for writer in WRITERS {
        for first in 1..=lab.pick(3, 12) {
            acknowledged.push(project.save(&["--run", "r", "--profile", "pai", "--summary", "before"])?);
            let before = project.ids()?;
            let inject = format!("inject=fsync,fdatasync:error=EIO:when={first}+");
            let strace =
                ["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=fsync,fdatasync", "-e", &inject];
            let args: Vec<&str> = ["--json"].iter().chain(writer).copied().collect();
            let answer = project.run_behind(&strace, &args)?.expect_one_of(&[0, 1, 3])?;
            let after = project.ids()?;
            if answer.code == 0 {
                // It needs fewer syncs, or what failed was derived.
                unaffected += 1;
                acknowledged.extend(
                    answer.json().ok().map(|said| text(&said, "snapshot_id")).filter(|id| !id.is_empty()),
                );
            } else if answer.err.contains("checkpoint_not_acknowledged") {
                unsure += 1;
                let new: Vec<_> = after.difference(&before).collect();
                ensure!(
                    new.iter().all(|id| answer.err.contains(id.as_str())),
                    "{new:?} were not announced: {}",
                    answer.err
                );
            } else {
                refused += 1;
                // A prune goes step by step, and says how far it came.
                let same = after == before || writer[0] == "prune";
                ensure!(same, "`{}` said that nothing changed: {}", answer.line, answer.err);
            }
            // prune may remove what was acknowledged before.
            let ids = project.ids()?;
            acknowledged.retain(|id| ids.contains(id) || writer[0] != "prune");
            if answer.code == 0 && first > 3 {
                break;
            }
        }
        project.holds(&acknowledged)?;
    }
    ensure!(unsure + refused > 0, "no sync failed");
    project.run(&["doctor"])?.expect(0)?;
    Ok(End::Held(format!(
        "{} commands met failing syncs: {refused} changed nothing, {unsure} were not acknowledged, {unaffected} needed none \
         of them; {} acknowledged, all there",
        refused + unsure + unaffected,
        acknowledged.len()
    )))
}
