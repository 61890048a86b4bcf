//! A sandbox in which `.git` is read-only: saves are queued in the worktree's outbox, and are imported once,
//! in order and with their ids.

use std::process::Command;

use anyhow::{Result, ensure};

use super::project::{Project, StoreKind, text};
use super::{Environment, Outcome};
use crate::shell::{is_installed, is_root, read_output, run_program};

pub fn run(env: &Environment) -> Result<Outcome> {
    if !is_root() || !is_installed("unshare") || !is_installed("git") {
        return Ok(Outcome::Skipped("needs root, unshare and git".into()));
    }
    if let Err(e) = read_output(Command::new("unshare").args(["--mount", "true"])) {
        return Ok(Outcome::Skipped(format!("no mount namespaces: {e:#}")));
    }
    let project = Project::new(env, StoreKind::Sqlite)?;
    run_program(Command::new("git").args(["init", "--quiet"]).arg(&project.folder))?;
    let mut expected = Vec::new();
    let mut waited = 0;
    let rounds = env.pick(2, 5);
    // In the first round there is no store yet.
    for round in 0..rounds {
        for n in 0..4 {
            let output = behind_read_only_git(&project, &format!("round {round} save {n}"))?;
            expected.push(text(&output, "snapshot_id"));
            ensure!(output["queued"] == true, "not queued: {output}");
            waited += 1;
        }
        let waiting = std::fs::read_dir(project.folder.join(".milepost/outbox"))?.count();
        ensure!(waiting >= 4, "only {waiting} files are in the outbox");
        // Several concurrent commands find the queued saves, which must be imported only once.
        let looks: Vec<_> = std::thread::scope(|scope| {
            let look = || scope.spawn(|| project.run(&["list", "--json"]));
            let threads: Vec<_> = (0..4).map(|_| look()).collect();
            threads.into_iter().map(|t| t.join()).collect()
        });
        for look in looks {
            look.map_err(|_| anyhow::anyhow!("a thread panicked"))??.expect(0)?;
        }
        expected.push(project.save(&["--run", "r", "--summary", &format!("direct {round}")])?);
        let mut listed = project.list()?;
        listed.sort_by_key(|c| c["sequence"].as_u64());
        let found: Vec<_> = listed.iter().map(|c| text(c, "snapshot_id")).collect();
        ensure!(found == expected, "saved {expected:?}, found {found:?}");
        project.check_acknowledged(&expected)?;
        let left: Vec<_> = std::fs::read_dir(project.folder.join(".milepost/outbox"))
            .map(|entries| entries.filter_map(|e| Some(e.ok()?.file_name())).collect())
            .unwrap_or_default();
        ensure!(
            left.iter().all(|name| !name.to_string_lossy().ends_with(".json")),
            "still in the outbox: {left:?}"
        );
    }
    project.run(&["doctor"])?.expect(0)?;
    Ok(Outcome::Passed(format!("{waited} queued saves were imported once, in order and with their ids")))
}

fn behind_read_only_git(project: &Project, summary: &str) -> Result<serde_json::Value> {
    let git = project.folder.join(".git").display().to_string();
    let script = "mount --bind \"$0\" \"$0\" && mount -o remount,ro,bind \"$0\" && exec \"$@\"";
    let before = ["unshare", "--mount", "sh", "-c", script, &git];
    let args = ["--json", "save", "--no-capture", "--run", "r", "--profile", "pai", "--summary", summary];
    project.run_wrapped(&before, &args)?.expect(0)?.json()
}
