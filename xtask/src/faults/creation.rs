//! SIGKILL in the middle of making a store: before every single call of the first save that changes a file. Whatever is
//! left, the store is the user's own: the next save works without anybody being asked to trust it.

use anyhow::{Result, ensure};

use super::kill::CALLS;
use super::project::{Kind, Project};
use super::{End, Lab};
use crate::shell::has;

pub fn run(lab: &Lab) -> Result<End> {
    if !has("strace") {
        return Ok(End::Skipped("strace is missing".into()));
    }
    let (mut killed, mut calls) = (0, 0);
    for call in CALLS {
        for n in 1.. {
            let project = Project::new(lab, Kind::Sqlite)?;
            let save = ["save", "--no-capture", "--run", "r", "--summary", "first"];
            let (trace, inject) = (format!("trace={call}"), format!("inject={call}:signal=KILL:when={n}"));
            let strace = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", &trace, "-e", &inject];
            let first = project.command(&strace, &save).output()?;
            let second = project.run(&["save", "--no-capture", "--run", "r", "--summary", "second"])?;
            ensure!(
                second.code == 0 && second.err.is_empty(),
                "killed before {call} number {n}, the next save exits {}: {}",
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
