//! `cargo xtask bench [--short] [--check] [NAME…]`: measures operations and their floors, the least that they
//! could cost, interleaved in one process. Prints a Markdown table with the ratios; `--check` fails if a
//! bound is missed. Counts are preferred to timings. Everything is a release build, this program too, except in
//! the short form, which counts. `bench peers` compares Milepost with other tools.

mod brief;
mod capture;
mod chart;
mod files;
mod history;
mod layout;
mod measure;
mod overview;
mod peers;
mod postgres;
mod process;
mod prune;
mod redact;
mod saves;
mod search;
mod space;
mod writers;

use std::process::Command;

use anyhow::{Result, bail};

use crate::shell::{cargo, run_program, target};
use measure::Row;

type Bench = (&'static str, fn(bool) -> Result<Vec<Row>>);

const ALL: [Bench; 24] = [
    ("saves", saves::saves),
    ("fsyncs", process::fsyncs),
    ("process", process::whole_process),
    ("hook", process::hook),
    ("history", history::latest_and_list),
    ("timeline", overview::timeline),
    ("status-all", overview::status_all),
    ("space", space::bytes),
    ("layout", layout::layout),
    ("writers", writers::eight_writers),
    ("prune", prune::prune),
    ("redact", redact::redact_texts),
    ("capture", capture::capture),
    ("run", capture::run),
    ("brief", brief::fit),
    ("search", search::search_many),
    ("files-saves", files::saves),
    ("files-hook", files::hook_after_edit),
    ("files-history", files::many_snapshots),
    ("postgres-clients", postgres::throughput),
    ("postgres-process", postgres::whole_process),
    ("postgres-history", postgres::history),
    ("postgres-space", postgres::space),
    ("postgres-feature", postgres::feature),
];

pub fn run(args: &[&str]) -> Result<()> {
    let short = args.contains(&"--short");
    if !short && cfg!(debug_assertions) {
        return run_release_build(args);
    }
    if let ["peers", rest @ ..] = args {
        return peers::run(rest);
    }
    let check = args.contains(&"--check");
    let named: Vec<_> = args.iter().filter(|a| !a.starts_with("--")).collect();
    println!("| what | measured | floor | ratio | bound | |");
    println!("|---|---|---|---|---|---|");
    let mut missed = 0;
    for (name, bench) in ALL {
        // `files` names all benchmarks whose name starts with `files-`.
        let is_part_of =
            |n: &str| name.strip_prefix(n).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'));
        if named.is_empty() || named.iter().any(|n| is_part_of(n)) {
            for line in bench(short)? {
                missed += u32::from(!line.holds());
                println!("{line}");
            }
        }
    }
    if check && missed > 0 {
        bail!("{missed} bounds were missed");
    }
    Ok(())
}

/// Builds this program in the release profile and runs it with the same arguments, so that what it measures in its own
/// process is optimised.
fn run_release_build(args: &[&str]) -> Result<()> {
    run_program(cargo().args(["build", "--quiet", "--release", "--package", "xtask"]))?;
    run_program(Command::new(target()?.join("release/xtask")).arg("bench").args(args))
}

/// Entry point of the child processes that benchmarks start; `None` for any other arguments.
pub fn run_child(args: &[&str]) -> Option<Result<()>> {
    match args {
        ["saver", size, saves] => Some(process::saver(size, saves)),
        ["writer", folder, saves] => Some(writers::writer(folder, saves)),
        ["peer-worker", system, place] => Some(peers::run_worker(system, place)),
        ["postgres-client", verb, url] => Some(postgres::run_minimal(verb, url)),
        _ => None,
    }
}
