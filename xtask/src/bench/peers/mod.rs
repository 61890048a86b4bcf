//! `cargo xtask bench peers [--short] [--check] [--write] [PART…]`: Milepost beside the tools that people use today.
//! Every system under test does the same work, in turn, in the same run. `--write` writes the section of
//! `docs/benchmarks.md` and the charts; `--check` fails if a bound is missed. The short form does everything tiny and
//! skips what is not installed.

mod machine;
mod open_stores;
mod postgres;
mod processes;
mod report;
mod rust_worker;
mod snapshots;
mod space;
mod systems;
mod worker;
mod writers;

use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

use self::report::{Bound, Table, at_least};
use self::systems::{System, Tools};
use super::chart::{self, Group};
use crate::shell::{root, target};

/// The page that `--write` changes.
const PAGE: &str = "docs/benchmarks.md";

const PARTS: [&str; 9] =
    ["processes", "saves", "bytes", "deletion", "growth", "writers", "memory", "snapshots", "postgres"];

/// The entry point of the workers that are written in Rust.
pub fn run_worker(system: &str, place: &str) -> Result<()> {
    rust_worker::run(system, place)
}

/// Everything that one part contributes.
#[derive(Default)]
struct Results {
    tables: Vec<Table>,
    bounds: Vec<Bound>,
    /// Charts by file name.
    charts: Vec<(&'static str, String)>,
}

pub fn run(args: &[&str]) -> Result<()> {
    let (flags, parts): (Vec<&str>, Vec<&str>) = args.iter().partition(|arg| arg.starts_with("--"));
    for flag in &flags {
        ensure!(["--short", "--check", "--write"].contains(flag), "unknown option {flag}; {}", crate::USAGE);
    }
    for part in &parts {
        ensure!(PARTS.contains(part), "unknown part {part}; available: {}", PARTS.join(", "));
    }
    let has = |flag: &str| flags.contains(&flag);
    ensure!(!has("--write") || parts.is_empty() && !has("--short"), "--write needs the complete long run");
    let start = Instant::now();
    let tools = Tools::prepare(has("--short"))?;
    let mut results = Results::default();
    for part in PARTS.into_iter().filter(|part| parts.is_empty() || parts.contains(part)) {
        let begun = Instant::now();
        let printed = results.tables.len();
        measure(part, &tools, has("--short"), &mut results)?;
        for table in &results.tables[printed..] {
            println!("{}", table.markdown());
        }
        eprintln!("{part}: {:.0} s", begun.elapsed().as_secs_f64());
    }
    println!("{}", bounds(&results));
    // Without --write, the charts can be looked at below the target folder.
    let charts = if has("--write") { root().join("docs") } else { target()?.join("charts") };
    std::fs::create_dir_all(&charts)?;
    for (name, svg) in &results.charts {
        let path = charts.join(name);
        std::fs::write(&path, svg).with_context(|| path.display().to_string())?;
    }
    if has("--write") {
        report::write_section(&root().join(PAGE), &section(&tools, &results))?;
    }
    eprintln!("peers: {:.0} s", start.elapsed().as_secs_f64());
    let missed = results.bounds.iter().filter(|bound| !bound.holds()).count();
    if has("--check") && missed > 0 {
        bail!("{missed} bounds were missed");
    }
    Ok(())
}

fn measure(part: &str, tools: &Tools, is_short: bool, results: &mut Results) -> Result<()> {
    match part {
        "processes" => {
            let table = processes::whole(tools, is_short)?;
            results.bounds.extend(at_least(&table, &[0, 1, 2], 10.0, space::GIT));
            let groups = table.bars();
            results.add_bars(
                "bench-processes.svg",
                "A whole process that saves, reads or lists checkpoints",
                "Median time from start to end, states of 4 KB, logarithmic scale. Shorter is better.",
                &groups,
            );
            results.tables.push(table);
        }
        "saves" => {
            let table = open_stores::saves(tools, is_short)?;
            for (name, limit) in [("save, 4 KB", 1.15), ("save, 64 KB", 1.3)] {
                results.bounds.extend(above_floor(&table, name, limit));
            }
            results.tables.push(table);
        }
        "bytes" => {
            let mut table = space::bytes(tools, is_short)?;
            results.bounds.extend(at_least(&table, &[1, 2], 8.0, space::GIT));
            table.chart = Some(("bench-bytes.svg", "Bars: bytes on disk for each byte that changed"));
            results.add_bars(
                "bench-bytes.svg",
                "Bytes on disk for each byte that changed",
                "States of which 5% change with each save, and a list that grows. Logarithmic scale, shorter is better.",
                &table.bars(),
            );
            results.tables.push(table);
        }
        "deletion" => {
            let table = space::deletion(tools, is_short)?;
            results.bounds.extend(at_least(&table, &[0], 1.0, space::GIT));
            results.tables.push(table);
        }
        "growth" => {
            let (mut tables, panels) = open_stores::growth(tools, is_short)?;
            tables[0].chart =
                Some(("bench-growth.svg", "Lines: time of an operation with more and more checkpoints"));
            let svg = chart::lines(
                "Time of an operation with more and more checkpoints",
                "Median time by number of checkpoints in one run, both axes logarithmic. Lower is better.",
                &panels,
                |ms| match ms {
                    ms if ms < 0.999e-3 => format!("{:.0} ns", ms * 1e6),
                    ms if ms < 0.999 => format!("{:.0} µs", ms * 1e3),
                    ms => format!("{ms:.0} ms"),
                },
            );
            results.charts.push(("bench-growth.svg", svg));
            results.tables.extend(tables);
        }
        "writers" => {
            let (rates, slowest) = writers::writers(tools, is_short)?;
            results.tables.extend([rates, slowest]);
        }
        "memory" => results.tables.push(open_stores::memory(tools, is_short)?),
        "snapshots" => results.tables.push(snapshots::snapshots(tools, is_short)?),
        _ => {
            if tools.cluster.is_ok() {
                results.tables.push(postgres::lists(tools, is_short)?);
            }
        }
    }
    Ok(())
}

impl Results {
    fn add_bars(&mut self, file: &'static str, title: &str, description: &str, groups: &[Group]) {
        self.charts.push((file, chart::bars(title, description, groups)));
    }
}

/// A bound on how far Milepost on SQLite is above the floor.
fn above_floor(table: &Table, column: &str, limit: f64) -> Option<Bound> {
    let number = table.columns.iter().position(|(name, _)| name == column)?;
    let row = table.rows.iter().find(|row| row.name == System::Milepost.name())?;
    let what = format!("{}, {column}: {}, times the floor", table.heading, row.name);
    Some(Bound { what, measured: table.ratio(row, number)?, limit, is_maximum: true })
}

/// The section of the page.
fn section(tools: &Tools, results: &Results) -> String {
    let mut text = String::from(
        "Written by `cargo xtask bench peers --write`, which measures all figures of this section in one run:\n\
         the systems take turns, and the order rotates. A figure in brackets compares the system with the row of\nMilepost \
         that is used in the same way: 12 × means that Milepost needs a twelfth of it. **behind**\nmarks where Milepost \
         needs more. A row of Milepost is compared with the floor.\n\n",
    );
    text.push_str(&machine::describe(tools));
    for table in &results.tables {
        text.push('\n');
        text.push_str(&table.markdown());
    }
    text.push('\n');
    text.push_str(&bounds(results));
    text
}

/// The bounds of the measured parts.
fn bounds(results: &Results) -> String {
    if results.bounds.is_empty() {
        return String::new();
    }
    let mut text = String::from(
        "### Bounds\n\n`cargo xtask bench peers --check` fails if one of these is missed. A shadow git repository is a \
         tool for files: it is in\nthe tables above without a bound.\n\n| what | measured | bound | |\n|---|---|---|---|\n",
    );
    for bound in &results.bounds {
        text.push_str(&format!("{}\n", bound.markdown()));
    }
    text
}

/// A count with commas.
fn thousands(count: usize) -> String {
    report::thousands(count as f64)
}
