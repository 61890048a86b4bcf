//! Benchmarks of one client on PostgreSQL: whole processes compared with a minimal client process, reads with a long
//! history compared with a short one, space compared with SQLite. Also what a hook on SQLite costs when the binary
//! supports PostgreSQL.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use milepost::model::Profile;
use milepost::store::{Maintenance, OpenOptions};
use milepost::{ListQuery, Milepost, Reference, Save};
use milepost_testkit::postgres::PrivateCluster;

use super::minimal::{MinimalClient, Rows};
use super::{address, create_minimal, open, start};
use crate::bench::history::fill;
use crate::bench::measure::{self, Row, Work, binary, folder, pairs};
use crate::bench::process::{HookCase, run_successfully};
use crate::shell::target;
use crate::shell::{cargo, is_installed, run_program};

/// Whole `save` and `show` processes, compared with processes of the minimal client that connect to the same server
/// in the same way.
pub fn whole_process(short: bool) -> Result<Vec<Row>> {
    let Some(cluster) = start("whole processes on PostgreSQL")? else { return Ok(Vec::new()) };
    let (binary, folder, rounds) = (binary(short)?, folder()?, if short { 20 } else { 200 });
    let store = address(&cluster, "milepost");
    let milepost = |args: &[&str]| {
        let mut command = Command::new(&binary);
        command.arg("-C").arg(folder.path()).args(["--store", &store]).args(args);
        command.env("XDG_STATE_HOME", folder.path()).stdout(Stdio::null()).stderr(Stdio::null());
        run_successfully(&mut command)
    };
    let me = std::env::current_exe()?;
    let url = cluster.url("postgres");
    let minimal = |verb: &str| {
        run_successfully(Command::new(&me).args(["postgres-client", verb, &url]).stdout(Stdio::null()))
    };
    for n in 0..10 {
        milepost(&["save", "--no-capture", "--run", "process", "--profile", "pai", &format!("text {n}")])?;
    }
    create_minimal(&cluster)?;
    MinimalClient::connect(&url, Rows::copy(&cluster)?)?.create_run("process")?;
    let mut number = 0;
    let save = || {
        number += 1;
        milepost(&["save", "--no-capture", "--run", "process", &format!("text of save {number}")])
    };
    let (saves, floors) = pairs(rounds, save, || minimal("save"))?;
    let (shows, show_floors) = pairs(rounds, || milepost(&["show", "latest"]), || minimal("show"))?;
    let what = |verb: &str| format!("whole process on PostgreSQL: `{verb}`, vs a minimal client process");
    Ok(vec![
        Row::times(what("save --no-capture"), saves.median(), floors.median(), 1.5),
        Row::times(what("show latest"), shows.median(), show_floors.median(), 1.5),
    ])
}

/// Opens a store and reads from it, at many checkpoints and at few. Filled in commits of 2,000 checkpoints.
pub fn history(short: bool) -> Result<Vec<Row>> {
    let Some(cluster) = start("history on PostgreSQL")? else { return Ok(Vec::new()) };
    let (large, rounds) = if short { (5_000, 20) } else { (100_000, 200) };
    for (schema, checkpoints) in [("few", 1_000), ("many", large)] {
        fill(&open(&cluster, schema)?, checkpoints)?;
    }
    // As autovacuum does a little later.
    cluster.sql("postgres", "VACUUM ANALYZE")?;
    let engine = |schema: &str| -> Result<Milepost> {
        Ok(Milepost::at(&address(&cluster, schema).parse()?, &OpenOptions::new())?)
    };
    let latest = |schema: &str| {
        engine(schema)?.show(&Reference::Latest(0), None)?;
        Ok(())
    };
    let list = |schema: &str| {
        let listed = engine(schema)?.list(&ListQuery::default().limit(50))?;
        ensure!(listed.checkpoints.len() == 50);
        Ok(())
    };
    let (a, b) = pairs(rounds, || latest("many"), || latest("few"))?;
    let (c, d) = pairs(rounds, || list("many"), || list("few"))?;
    let what = |verb: &str| format!("PostgreSQL: connect and {verb} at {large} checkpoints, vs 1000");
    Ok(vec![
        Row::times(what("latest"), a.median(), b.median(), 1.5),
        Row::times(what("list of 50"), c.median(), d.median(), 1.5),
    ])
}

/// Growth of the tables and indexes per checkpoint, compared with SQLite's file after the same saves.
pub fn space(short: bool) -> Result<Vec<Row>> {
    let Some(cluster) = start("space on PostgreSQL")? else { return Ok(Vec::new()) };
    let saves = if short { 100 } else { 1000 };
    let mut rows = Vec::new();
    for size in [4, 64] {
        let folder = folder()?;
        let sqlite = growth(&measure::open(folder.path())?, size, saves, &|| Ok(()))?;
        let server = open(&cluster, &format!("space_{size}"))?;
        let server = growth(&server, size, saves, &|| vacuum(&cluster))?;
        rows.push(Row::count(
            format!("bytes per checkpoint on PostgreSQL, {size} KB, vs SQLite"),
            server,
            sqlite,
            1.5,
        ));
    }
    Ok(rows)
}

fn vacuum(cluster: &PrivateCluster) -> Result<()> {
    cluster.sql("postgres", "VACUUM")?;
    Ok(())
}

/// Bytes by which a store grows with each save. The first saves are not counted: empty tables have a size too.
fn growth(engine: &Milepost, size: usize, saves: usize, vacuum: &dyn Fn() -> Result<()>) -> Result<f64> {
    let run = "bench".parse()?;
    let mut work = Work::new(size * 1024);
    let bytes = || -> Result<u64> {
        engine.raw_store().maintain(Maintenance::Compact)?;
        vacuum()?;
        Ok(engine.store().info()?.bytes())
    };
    let mut before = 0;
    for n in 0..saves + 10 {
        work.step(0.05);
        engine.save(&run, Save::new().profile(Profile::Pai).state_text(&work.json())?)?;
        if n == 9 {
            before = bytes()?;
        }
    }
    Ok((bytes()? - before) as f64 / saves as f64)
}

/// A hook on SQLite in a binary that supports PostgreSQL, compared with one that does not.
pub fn feature(short: bool) -> Result<Vec<Row>> {
    if short {
        println!("| hook with the feature postgres | skipped: needs two release builds | | | | |");
        return Ok(Vec::new());
    }
    let with = binary(false)?;
    let folder = target()?.join("without");
    run_program(
        cargo()
            .args(["build", "--quiet", "--release", "--package", "milepost-cli", "--no-default-features"])
            .args(["--features", "mcp,bundled", "--target-dir"])
            .arg(&folder),
    )?;
    let without = target()?.join("bench-milepost-without");
    let _ = std::fs::remove_file(&without);
    std::fs::copy(folder.join("release/milepost"), &without).context("cannot copy the binary")?;
    let without = without.canonicalize()?;
    let (case, other) = (HookCase::new(10_000)?, HookCase::new(10_000)?);
    let hook = || run_successfully(&mut case.command(&[], &with)?);
    let floor = || run_successfully(&mut other.command(&[], &without)?);
    pairs(40, hook, floor)?;
    let (hooks, floors) = pairs(400, hook, floor)?;
    let what = "hook after a tool on SQLite, with the feature postgres, vs without";
    let mut rows = vec![Row::times(what, hooks.median(), floors.median(), 1.05)];
    if is_installed("valgrind") {
        let (a, b) = (instructions(&case, &with)?, instructions(&other, &without)?);
        rows.push(Row::count(format!("{what}: instructions"), a, b, 1.02));
    } else {
        println!("| {what}: instructions | skipped: valgrind is missing | | | | |");
    }
    Ok(rows)
}

/// The instructions of a hook, counted by callgrind; the median of nine.
fn instructions(case: &HookCase, binary: &std::path::Path) -> Result<f64> {
    let mut counts = Vec::new();
    for _ in 0..9 {
        let before = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"];
        let output = case.command(&before, binary)?.stderr(Stdio::piped()).output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        let line = said.lines().find_map(|line| line.split_once("Collected :")).context("no count")?;
        counts.push(line.1.trim().parse::<f64>()?);
    }
    counts.sort_by(f64::total_cmp);
    Ok(counts[counts.len() / 2])
}
