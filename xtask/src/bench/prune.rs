//! Benchmarks of retention: a save that prunes its run, compared with one that does not, at two lengths of
//! history; and `prune` of 950 out of 1,000 checkpoints, compared with a durable write of the remaining bytes
//! (SQLite) or with 950 bare unlinks (files). The short form only counts the remaining checkpoints and bytes.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use milepost::internal::model::KeepCount;
use milepost::model::Profile;
use milepost::store::{Maintenance, OpenOptions, StoreUrl};
use milepost::{Milepost, Save};
use milepost::{PruneOptions, Settings};

use super::history::seed;
use super::measure::{Floor, Row, Sample, Work, folder, pairs};

const ALL: usize = 1000;
const LEFT: usize = 50;

fn keeping(keep_last: KeepCount) -> Settings {
    Settings::default().keep_last(Some(keep_last))
}

fn open(url: &StoreUrl, keep_last: KeepCount) -> Result<Milepost> {
    let options = OpenOptions::new().create(true);
    Ok(Milepost::at(url, &options)?.with_settings(keeping(keep_last)))
}

pub fn prune(short: bool) -> Result<Vec<Row>> {
    let mut lines = counts()?;
    if !short {
        lines.extend(saves()?);
        lines.push(sqlite()?);
        lines.push(files()?);
    }
    Ok(lines)
}

/// The addresses of a SQLite store and a file store in a folder.
fn urls(folder: &Path) -> [(&'static str, StoreUrl); 2] {
    [("SQLite", StoreUrl::sqlite(folder.join("bench.db"))), ("files", StoreUrl::files(folder.join("bench")))]
}

/// Saves `count` checkpoints of 4 KB into one run.
fn fill(mp: &Milepost, count: usize) -> Result<()> {
    let run = "bench".parse()?;
    let mut work = Work::new(4096);
    for _ in 0..count {
        work.step(0.05);
        mp.save(&run, Save::new().profile(Profile::Pai).state_text(&work.json())?)?;
    }
    Ok(())
}

fn pruned(mp: &Milepost, removed: usize) -> Result<()> {
    let report = mp.prune(&PruneOptions::default(), &mut |_| {})?;
    ensure!(report.removed() == removed as u64 && report.failed().is_empty(), "{report:?}");
    Ok(())
}

/// Counts the checkpoints that a prune leaves, and compares the store's size with that of a store that never
/// had more checkpoints.
fn counts() -> Result<Vec<Row>> {
    let mut lines = Vec::new();
    let (large, small) = (folder()?, folder()?);
    for ((name, long), (_, lean)) in urls(large.path()).into_iter().zip(urls(small.path())) {
        let mp = open(&long, KeepCount::All)?;
        fill(&mp, 4 * LEFT)?;
        let mp = mp.with_settings(keeping(KeepCount::Last(LEFT as u64)));
        pruned(&mp, 3 * LEFT)?;
        let left = mp.runs(&Default::default())?.first().map_or(0, |run| run.checkpoints());
        let what = format!("checkpoints after `prune --keep-last 50` of 200, {name}");
        lines.push(Row::count(what, left as f64, LEFT as f64, 1.0));
        let lean = open(&lean, KeepCount::Last(LEFT as u64))?;
        fill(&lean, LEFT)?;
        lean.raw_store().maintain(Maintenance::Compact)?;
        let bytes = |mp: &Milepost| anyhow::Ok(mp.store().info()?.bytes() as f64);
        let what = format!("bytes after that, vs a store that never had more than 50, {name}");
        // Both stores keep all events, and the pruned one has four times as many.
        lines.push(Row::count(what, bytes(&mp)?, bytes(&lean)?, 2.0));
    }
    Ok(lines)
}

/// A save that removes the oldest checkpoint, compared with one that removes nothing, on open stores.
fn saves() -> Result<Vec<Row>> {
    let mut lines = Vec::new();
    for history in [LEFT as u64, 10_000] {
        let folder = folder()?;
        let (on, off) = (folder.path().join("on.db"), folder.path().join("off.db"));
        let on = seed(&on, history)?.with_settings(keeping(KeepCount::Last(history)));
        let off = seed(&off, history)?.with_settings(keeping(KeepCount::All));
        let ratio = beside(&on, &off)?;
        let what = format!("save into a run of {history}, pruning on vs off, SQLite");
        lines.push(Row::times(what, ratio.0.median(), ratio.1.median(), 1.5));
    }
    let folder = folder()?;
    let on = open(&StoreUrl::files(folder.path().join("on")), KeepCount::Last(LEFT as u64))?;
    let off = open(&StoreUrl::files(folder.path().join("off")), KeepCount::All)?;
    fill(&on, LEFT)?;
    fill(&off, LEFT)?;
    let ratio = beside(&on, &off)?;
    let what = "save into a run of 50, pruning on vs off, files";
    lines.push(Row::times(what, ratio.0.median(), ratio.1.median(), 1.5));
    Ok(lines)
}

fn beside(on: &Milepost, off: &Milepost) -> Result<(Sample, Sample)> {
    let run = "bench".parse()?;
    let mut works = (Work::new(4096), Work::new(4096));
    pairs(
        300,
        || {
            works.0.step(0.05);
            on.save(&run, Save::new().state_text(&works.0.json())?)?;
            Ok(())
        },
        || {
            works.1.step(0.05);
            off.save(&run, Save::new().state_text(&works.1.json())?)?;
            Ok(())
        },
    )
}

/// Times nine prunes, each on a new copy of a full store. After each prune, `floor` times the bare disk
/// operations that it is compared with.
fn rounds(
    folder: &Path,
    url: &StoreUrl,
    copy: impl Fn(&Path) -> Result<StoreUrl>,
    mut floor: impl FnMut(&Path, u64) -> Result<std::time::Duration>,
) -> Result<(Sample, Sample)> {
    fill(&open(url, KeepCount::All)?, ALL - 1)?;
    let (mut ours, mut floors) = (Sample::default(), Sample::default());
    for i in 0..9 {
        let place = folder.join(format!("round-{i}"));
        fs::create_dir(&place)?;
        let mp = open(&copy(&place)?, KeepCount::All)?;
        // First save once and make a dry run, so that the timed prune runs on a store that is in use.
        fill(&mp, 1)?;
        let mp = mp.with_settings(keeping(KeepCount::Last(LEFT as u64)));
        mp.prune(&PruneOptions::default().dry_run(true), &mut |_| {})?;
        ours.time(|| pruned(&mp, ALL - LEFT))?;
        floors.add(floor(&place, mp.store().info()?.bytes())?);
    }
    Ok((ours, floors))
}

fn sqlite() -> Result<Row> {
    let folder = folder()?;
    let db = folder.path().join("full.db");
    let full = StoreUrl::sqlite(db.clone());
    let copy = |place: &Path| {
        open(&full, KeepCount::All)?.raw_store().maintain(Maintenance::Compact)?;
        fs::copy(&db, place.join("copy.db")).context("cannot copy the store")?;
        Ok(StoreUrl::sqlite(place.join("copy.db")))
    };
    let mut remain = 0;
    let (ours, floors) = rounds(folder.path(), &full, copy, |place, bytes| {
        let (mut floor, body) = (Floor::new(place)?, vec![b'x'; bytes as usize]);
        remain = bytes;
        let start = std::time::Instant::now();
        floor.write(&body)?;
        Ok(start.elapsed())
    })?;
    let what =
        format!("prune of 950 out of 1,000, SQLite, vs one durable write of the remaining {remain} bytes");
    Ok(Row::times(what, ours.median(), floors.median(), 10.0))
}

fn files() -> Result<Row> {
    let folder = folder()?;
    let root = folder.path().join("full");
    let copy = |place: &Path| {
        let copied =
            std::process::Command::new("cp").arg("-a").arg(&root).arg(place.join("copy")).status()?;
        ensure!(copied.success(), "cp failed");
        Ok(StoreUrl::files(place.join("copy")))
    };
    let (ours, floors) = rounds(folder.path(), &StoreUrl::files(root.clone()), copy, |place, _| {
        // Another copy of the same files, outside any store.
        let bare = place.join("bare");
        let copied =
            std::process::Command::new("cp").arg("-a").arg(root.join("bench/history")).arg(&bare).status()?;
        ensure!(copied.success(), "cp failed");
        let names = fs::read_dir(&bare)?.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
        let start = std::time::Instant::now();
        for path in names.iter().take(ALL - LEFT) {
            fs::remove_file(path)?;
        }
        Ok(start.elapsed())
    })?;
    Ok(Row::times(
        "prune of 950 out of 1,000, files, vs 950 bare unlinks",
        ours.median(),
        floors.median(),
        2.0,
    ))
}
