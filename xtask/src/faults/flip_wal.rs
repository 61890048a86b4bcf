//! Flips one bit in a file of a SQLite store at rest: the WAL, the mark file or the database. No acknowledged
//! checkpoint disappears silently, no sequence number is reused, and `verify` passes after a successful
//! `doctor --fix`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::flip::flip_file;
use super::project::{Project, Rng, StoreKind, text};
use super::{Environment, Outcome};

/// Saves before the damage, alternating between two runs.
const SAVES: usize = 9;

/// The acknowledged ids, and the last sequence number of each run.
#[derive(Default)]
struct Acknowledged {
    ids: BTreeSet<String>,
    last: BTreeMap<String, u64>,
}

/// The results of the flips in one file.
#[derive(Default)]
struct FlipCounts {
    flips: usize,
    alarms: usize,
    hidden: usize,
    recovered: usize,
}

pub fn run(env: &Environment) -> Result<Outcome> {
    let project = Project::new(env, StoreKind::Sqlite)?;
    let mut acknowledged = Acknowledged::default();
    for n in 0..SAVES {
        save(&project, ["one", "two"][n % 2], n, &mut acknowledged)?;
    }
    let kept = super::project::scratch_folder()?;
    copy(&project.store(), kept.path())?;
    let mut rng = Rng(17);
    let mut said = Vec::new();
    for (name, flips) in [
        ("milepost.db-wal", env.pick(24, 400)),
        ("milepost.db-mark", env.pick(4, 87)),
        ("milepost.db", env.pick(8, 200)),
    ] {
        let length = std::fs::metadata(kept.path().join(name))?.len();
        let mut counts = FlipCounts::default();
        for n in 0..flips {
            let at = (length * n / flips + rng.below(length / flips + 1)).min(length - 1);
            restore(kept.path(), &project.store())?;
            flip_file(&project.store().join(name), at as usize, rng.below(8))?;
            check_answers(&project, &acknowledged, &mut counts)
                .with_context(|| format!("byte {at} of {name}"))?;
        }
        if name.ends_with("-wal") {
            ensure!(
                counts.alarms * 2 > counts.flips,
                "only {} of {} flips were detected",
                counts.alarms,
                counts.flips
            );
            ensure!(
                counts.recovered * 2 > counts.hidden,
                "only {} of {} hidden checkpoints were recovered",
                counts.recovered,
                counts.hidden
            );
        }
        let FlipCounts { flips, alarms, hidden, recovered } = counts;
        said.push(format!(
            "{flips} flips in {name}: {alarms} detected, {recovered} of {hidden} hidden checkpoints recovered"
        ));
    }
    Ok(Outcome::Passed(said.join("; ")))
}

fn save(project: &Project, run: &str, n: usize, acknowledged: &mut Acknowledged) -> Result<u64> {
    let summary = format!("step {n}");
    let args = ["--json", "save", "--no-capture", "--run", run, "--profile", "pai", "--summary", &summary];
    let output = project.run(&args)?.expect(0)?.json()?;
    let sequence = output["sequence"].as_u64().context("no sequence number")?;
    acknowledged.ids.insert(text(&output, "snapshot_id"));
    acknowledged.last.insert(run.to_owned(), sequence);
    Ok(sequence)
}

fn check_answers(project: &Project, acknowledged: &Acknowledged, counts: &mut FlipCounts) -> Result<()> {
    counts.flips += 1;
    let listed = |codes: &[i32]| -> Result<(i32, BTreeSet<String>)> {
        let output = project.run(&["--json", "list", "--limit", "0"])?.expect_one_of(codes)?;
        let rows = output.json().unwrap_or_default()["checkpoints"].as_array().cloned().unwrap_or_default();
        Ok((output.code, rows.iter().map(|row| text(row, "snapshot_id")).collect()))
    };
    let (code, before) = listed(&[0, 3, 5])?;
    let hidden = acknowledged.ids.difference(&before).count();
    ensure!(hidden == 0 || code != 0, "{hidden} checkpoints are hidden, but list exited with 0");
    let verify = project.run(&["verify"])?.expect_one_of(&[0, 5])?;
    ensure!(hidden == 0 || verify.code == 5, "{hidden} checkpoints are hidden, but verify exited with 0");
    if verify.code == 0 {
        return Ok(());
    }
    counts.alarms += 1;
    counts.hidden += hidden;
    project.run(&["doctor"])?.expect(5)?;
    let args = ["--json", "save", "--no-capture", "--run", "one", "--profile", "pai", "--summary", "after"];
    let saved = project.run(&args)?.expect_one_of(&[0, 5])?;
    let fixed = project.run(&["doctor", "--fix"])?.expect_one_of(&[0, 5])?;
    let (code, after) = listed(&[0, 3, 5])?;
    if saved.code == 0 {
        let output = saved.json()?;
        let sequence = output["sequence"].as_u64().context("no sequence number")?;
        let last = acknowledged.last.get("one").copied().unwrap_or_default();
        ensure!(
            sequence > last,
            "sequence {sequence} was assigned again although {last} had been acknowledged"
        );
        ensure!(
            after.contains(&text(&output, "snapshot_id")),
            "the checkpoint saved after the damage is gone"
        );
    }
    if fixed.code == 0 {
        ensure!(code == 0, "list exited with {code} after doctor --fix");
        project.run(&["verify"])?.expect(0)?;
    }
    ensure!(before.is_subset(&after), "doctor --fix lost listed checkpoints");
    counts.recovered += acknowledged.ids.difference(&before).filter(|id| after.contains(*id)).count();
    Ok(())
}

fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder)?.map(|entry| Ok(entry?.path()));
    entries.collect()
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    for path in files(from)? {
        std::fs::copy(&path, to.join(path.file_name().context("the file has no name")?))?;
    }
    Ok(())
}

fn restore(from: &Path, to: &Path) -> Result<()> {
    for path in files(to)? {
        std::fs::remove_file(path)?;
    }
    copy(from, to)
}
