//! A project on a read-only mount: saves fail with the right reason code, and everything can be read. This
//! also applies right after a crash that left a WAL behind, with and without the WAL's index.

use anyhow::{Context, Result, ensure};

use super::mount::Mount;
use super::project::{Project, StoreKind, scratch_folder, text};
use super::{Environment, Outcome};
use crate::shell::is_installed;

pub fn sqlite(env: &Environment) -> Result<Outcome> {
    run(env, StoreKind::Sqlite)
}

pub fn files(env: &Environment) -> Result<Outcome> {
    run(env, StoreKind::Files)
}

fn run(env: &Environment, kind: StoreKind) -> Result<Outcome> {
    let folder = scratch_folder()?;
    let mount = match Mount::memory(folder.path(), "8m") {
        Ok(mount) => mount,
        Err(why) => return Ok(Outcome::Skipped(why)),
    };
    let project = Project::at(env, kind, &mount.folder);
    let input = mount.folder.join("input.json");
    std::fs::write(&input, r#"{"state": {"n": 9007199254740993}}"#)?;
    let mut acknowledged = Vec::new();
    for n in 0..5 {
        let path = input.display().to_string();
        acknowledged.push(project.save(&[
            "--run",
            "r",
            "--input",
            &path,
            "--summary",
            &format!("save {n}"),
        ])?);
    }
    look(&mount, &project, &acknowledged).context("after saves")?;
    let mut states = 1;
    if is_installed("strace") {
        // One save dies before its sync; the other dies after it, before it prints the id.
        for call in ["fdatasync", "write"] {
            let (trace, inject) = (format!("trace={call}"), format!("inject={call}:signal=KILL:when=1"));
            let strace = ["strace", "-qq", "-o", "/dev/null", "-e", &trace, "-e", &inject];
            let args = ["save", "--no-capture", "--run", "r", "--summary", call];
            let status = project.command(&strace, &args).output()?.status;
            ensure!(!status.success(), "the save was not killed at {call}");
            look(&mount, &project, &acknowledged).with_context(|| format!("after a kill at {call}"))?;
            states += 1;
        }
    }
    if kind == StoreKind::Sqlite {
        let wal = project.store().join("milepost.db-wal");
        ensure!(wal.metadata().is_ok_and(|m| m.len() > 0), "there is no WAL to test");
        std::fs::remove_file(project.store().join("milepost.db-shm"))?;
        look(&mount, &project, &acknowledged).context("without -shm")?;
        states += 1;
    }
    acknowledged.push(project.save(&["--run", "r", "--summary", "writable again"])?);
    project.check_acknowledged(&acknowledged)?;
    Ok(Outcome::Passed(format!(
        "saves refused and everything readable in {states} states, writable again afterwards"
    )))
}

fn look(mount: &Mount, project: &Project, acknowledged: &[String]) -> Result<()> {
    mount.remount("ro")?;
    let result = look_around(project, acknowledged);
    mount.remount("rw")?;
    result
}

fn look_around(project: &Project, acknowledged: &[String]) -> Result<()> {
    let args = ["--json", "save", "--no-capture", "--run", "r", "--summary", "no"];
    project.run(&args)?.expect(1)?.expect_reason(&["checkpoint_atomic_write_failed"])?;
    project.check_acknowledged(acknowledged)?;
    let shown = project.run(&["show", "latest", "--json"])?.expect(0)?.json()?;
    let newest = project.list()?.first().map(|c| text(c, "snapshot_id"));
    ensure!(newest == Some(text(&shown["checkpoint"], "snapshot_id")), "latest is not the newest");
    for id in acknowledged {
        let state = project.run(&["state", id])?.expect(0)?;
        ensure!(state.stdout.contains("9007199254740993"), "the state of {id} is {}", state.stdout);
    }
    for command in [&["status"][..], &["runs"], &["events"], &["verify"]] {
        project.run(command)?.expect(0)?;
    }
    Ok(())
}
