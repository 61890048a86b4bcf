//! The pointer file with many concurrent savers, and with an editor that reads it, changes its own member and
//! renames its version into place. The pointer ends at the newest checkpoint, and no edit is lost.

use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::project::{Project, StoreKind, text};
use super::{Environment, Outcome, run_threads};
use crate::shell::{is_installed, run_program};

/// Concurrent saves.
const SAVERS: usize = 30;
/// Concurrent saves that also commit the file.
const COMMITTERS: usize = 8;

pub fn run(env: &Environment) -> Result<Outcome> {
    let rounds = env.pick(2, 20);
    for round in 1..=rounds {
        newest_wins(env, false, SAVERS).with_context(|| format!("round {round}"))?;
    }
    let edits = edits_stay(env)?;
    let mut figures =
        format!("{rounds} × {SAVERS} concurrent saves ended at the newest, {edits} edits were kept");
    if is_installed("git") {
        newest_wins(env, true, COMMITTERS).context("with commits")?;
        figures.push_str(", the newest was committed");
    }
    Ok(Outcome::Passed(figures))
}

/// A project whose pointer file also has another member.
fn project(env: &Environment, commit: bool) -> Result<Project> {
    let pointer = format!("[pointer]\nfile = \"seed.json\"\nkey = \"ref\"\ncommit = {commit}\n");
    let project = Project::new(env, StoreKind::Sqlite)?.with_settings(&pointer)?;
    std::fs::write(project.folder.join("seed.json"), "{\"edits\": 0}")?;
    Ok(project)
}

fn seed(project: &Project) -> Result<Value> {
    let bytes = std::fs::read(project.folder.join("seed.json"))?;
    serde_json::from_slice(&bytes).context("seed.json is not JSON")
}

fn save(project: &Project, n: usize) -> Result<()> {
    let run = format!("r{}", n % 3);
    let output =
        project.run(&["save", "--no-capture", "--run", &run, "--summary", &n.to_string()])?.expect(0)?;
    ensure!(output.stderr.is_empty(), "save {n} printed {}", output.stderr);
    Ok(())
}

fn newest_wins(env: &Environment, commit: bool, savers: usize) -> Result<()> {
    let project = project(env, commit)?;
    let git = |args: &[&str]| {
        let mut command = Command::new("git");
        command.arg("-C").arg(&project.folder).args([
            "-c",
            "user.name=t",
            "-c",
            "user.email=t@example.invalid",
        ]);
        command.args(args);
        command
    };
    if commit {
        run_program(&mut git(&["init", "--quiet"]))?;
        for (key, value) in [("user.name", "t"), ("user.email", "t@example.invalid")] {
            run_program(&mut git(&["config", key, value]))?;
        }
    }
    run_threads(savers, |n| save(&project, n))?;
    let newest = project.list()?.first().map(|listed| text(listed, "snapshot_id")).unwrap_or_default();
    let pointed = text(&seed(&project)?, "ref");
    ensure!(pointed == newest, "the pointer names {pointed}, the newest is {newest}");
    if commit {
        let committed = git(&["show", "HEAD:seed.json"]).output()?.stdout;
        let committed: Value = serde_json::from_slice(&committed).context("nothing was committed")?;
        ensure!(text(&committed, "ref") == newest, "{committed} is committed, the newest is {newest}");
    }
    Ok(())
}

/// Edits the file while others save. Returns the number of edits.
fn edits_stay(env: &Environment) -> Result<usize> {
    const EDITING_SAVERS: usize = 4;
    let project = project(env, false)?;
    let (each, saving, made) = (env.pick(25, 400), AtomicUsize::new(EDITING_SAVERS), AtomicUsize::new(0));
    run_threads(EDITING_SAVERS + 1, |worker| {
        if worker < EDITING_SAVERS {
            let saved = (0..each).try_for_each(|n| save(&project, worker + n * EDITING_SAVERS));
            saving.fetch_sub(1, Ordering::Relaxed);
            return saved;
        }
        let (file, aside) = (project.folder.join("seed.json"), project.folder.join("seed.json.editor"));
        while saving.load(Ordering::Relaxed) > 0 {
            let mut seed = seed(&project)?;
            let known = made.load(Ordering::Relaxed);
            let found = seed["edits"].as_u64().unwrap_or_default() as usize;
            ensure!(found == known, "edit {known} is lost: {seed}");
            seed["edits"] = (known + 1).into();
            std::fs::write(&aside, seed.to_string())?;
            std::fs::rename(&aside, &file)?;
            made.fetch_add(1, Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    })?;
    // The editor's last edit may have restored an older pointer, which the next save corrects.
    save(&project, 0)?;
    let newest = project.list()?.first().map(|listed| text(listed, "snapshot_id")).unwrap_or_default();
    let (seed, made) = (seed(&project)?, made.into_inner());
    ensure!(text(&seed, "ref") == newest, "the pointer in {seed} is not {newest}");
    ensure!(seed["edits"] == made, "{made} edits were made, but the file is {seed}");
    ensure!(
        project.temporary_files()?.is_empty(),
        "temporary files remain: {:?}",
        project.temporary_files()?
    );
    Ok(made)
}
