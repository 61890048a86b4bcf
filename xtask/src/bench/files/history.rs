//! Benchmarks of many snapshots, taken with the library: whether a late one costs more than an early one, and how
//! much space they take, compared with the changed contents, compressed.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use milepost::internal::capture::CaptureOptions;
use milepost::internal::model::{KeepCount, StoreLimits};
use milepost::model::Profile;
use milepost::store::{OpenOptions, StoreUrl};
use milepost::{Milepost, Save, Settings};

use super::project::{Project, compressed_size, git, source_text};
use crate::bench::measure::{Row, Sample};
use crate::bench::process::run_successfully;

/// Number of rounds in which a late and an early snapshot are compared.
const ROUNDS: usize = 50;

/// Opens a store that keeps all checkpoints and files.
fn open(file: &Path) -> Result<Milepost> {
    let limits = StoreLimits { max_file_bytes: 0, max_bytes: 0, ..StoreLimits::default() };
    let settings = Settings::default().keep_last(KeepCount::All).store_limits(limits);
    let options = OpenOptions::new().create(true);
    Ok(Milepost::at(&StoreUrl::sqlite(file.to_owned()), &options)?.with_settings(settings))
}

/// Captures the workspace with its files, and saves.
fn save(mp: &Milepost, options: &CaptureOptions) -> Result<()> {
    let run = "bench".parse()?;
    let capture = mp.capture_workspace(&run, options)?;
    ensure!(capture.skipped.is_empty(), "the snapshot is incomplete: {:?}", capture.skipped);
    mp.save(&run, Save::new().profile(Profile::Session).capture(Box::new(capture)))?;
    Ok(())
}

/// Snapshots of a worktree with a long history, interleaved with those of a short one. The worktree and its
/// changes are the same.
pub(super) fn late_snapshot(folder: &Path, snapshots: usize) -> Result<Row> {
    const CHANGED: usize = 20;
    let root = folder.join("late");
    let mut project = Project::create(&root, 2_000)?;
    let options = CaptureOptions::at(&root);
    let (late, early) = (open(&folder.join("late.db"))?, open(&folder.join("early.db"))?);
    for _ in 0..snapshots.saturating_sub(ROUNDS) {
        project.change(CHANGED)?;
        save(&late, &options)?;
    }
    let (mut late_times, mut early_times) = (Sample::default(), Sample::default());
    project.change(CHANGED)?;
    save(&early, &options)?;
    for round in 0..ROUNDS {
        project.change(CHANGED)?;
        if round.is_multiple_of(2) {
            late_times.time(|| save(&late, &options))?;
            early_times.time(|| save(&early, &options))?;
        } else {
            early_times.time(|| save(&early, &options))?;
            late_times.time(|| save(&late, &options))?;
        }
    }
    let what = format!("the last {ROUNDS} of {snapshots} snapshots, vs the first {ROUNDS}");
    Ok(Row::times(what, late_times.median(), early_times.median(), 1.2))
}

/// The size of a store with many snapshots of a worktree in which 1% of the files are rewritten each time.
pub(super) fn space(folder: &Path, short: bool) -> Result<Row> {
    let (snapshots, bytes) = if short { (100, 10_000_000) } else { (1_000, 100_000_000) };
    let (files, rewritten) = (1_000, 10);
    let size = bytes / files;
    let root = folder.join("space");
    fs::create_dir(&root)?;
    run_successfully(git(&root).args(["init", "-q", "-b", "main"]))?;
    let path = |n: usize| root.join(format!("file{n:04}.rs"));
    for n in 0..files {
        fs::write(path(n), source_text(n as u64, size))?;
    }
    run_successfully(git(&root).args(["add", "-A"]))?;
    run_successfully(git(&root).args(["commit", "-q", "-m", "all"]))?;
    let store = folder.join("space-store");
    fs::create_dir(&store)?;
    let mp = open(&store.join("space.db"))?;
    let options = CaptureOptions::at(&root);
    save(&mp, &options)?;
    let before = size_of(&store)?;
    let (mut changed, mut rewritten_before) = (0, vec![false; files]);
    for snapshot in 1..=snapshots {
        for k in 0..rewritten {
            let n = (snapshot * 7919 + k * 101) % files;
            let content = source_text(((snapshot as u64) << 32) + k as u64, size);
            changed += compressed_size(&content)?;
            // The first time, the store also keeps the committed version, which nothing else protects.
            if short && !std::mem::replace(&mut rewritten_before[n], true) {
                changed += compressed_size(&source_text(n as u64, size))?;
            }
            fs::write(path(n), content)?;
        }
        save(&mp, &options)?;
    }
    drop(mp);
    let grown = size_of(&store)? - before;
    let megabytes = |bytes: u64| bytes as f64 / 1e6;
    let what = format!(
        "MB of {snapshots} snapshots of {} MB, 1% rewritten each time, vs the changed files, compressed",
        bytes / 1_000_000
    );
    Ok(Row::count(what, megabytes(grown), megabytes(changed), 1.3))
}

/// The size of all files under a folder.
fn size_of(folder: &Path) -> Result<u64> {
    let mut size = 0;
    let mut folders: Vec<PathBuf> = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
            let entry = entry?;
            let about = entry.metadata()?;
            if about.is_dir() {
                folders.push(entry.path());
            } else {
                size += about.len();
            }
        }
    }
    Ok(size)
}
