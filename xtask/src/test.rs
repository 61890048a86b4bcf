//! `cargo xtask test`: runs every check, cheapest first. Prints the duration of each step.
//! Stops at the first step that fails and names it.

use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::shell::{cargo, read_output, root, run_program};
use crate::{
    agents, architecture, bench, deny, dist, faults, fuzz, handover, mcp, portability, postgres, python,
    search, setup, survival, ui,
};

pub fn run(size: faults::Size) -> Result<()> {
    let start = Instant::now();
    let is_full = matches!(size, faults::Size::Full);
    step("setup", setup::run)?;
    step("format", || run_program(cargo().args(["fmt", "--all", "--check"])))?;
    step("architecture", architecture::run)?;
    step("dependencies", || deny::run(is_full))?;
    step("packages", dist::package_crates)?;
    step("lints", || {
        run_program(cargo().args([
            "clippy",
            "--quiet",
            "--workspace",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ]))
    })?;
    step("features", features)?;
    step("portability", || portability::run(if is_full { &[] } else { &["--short"] }))?;
    step("api", architecture::api::run)?;
    step("tests", || run_program(cargo().args(["test", "--quiet", "--workspace"])))?;
    step("fuzz", || {
        if is_full { fuzz::run_short().and_then(|()| fuzz::run_in_full_test()) } else { fuzz::run_short() }
    })?;
    step("tests on PostgreSQL", || tests_on_postgres(is_full))?;
    step("faults", || faults::run(size, &[]))?;
    step("faults of PostgreSQL", || postgres::run(size, &[]))?;
    step("ui", || ui::run(size, &[]))?;
    step("python", || python::run(&python::Options::for_tests(size)))?;
    // These download large MCP clients and agents, so only `--full` runs them.
    if is_full {
        step("installation", || dist::run(&["--dev", "--check", "archive", "deb", "npm"]))?;
        step("mcp", mcp::run)?;
        step("agents", || agents::run(&[]))?;
    }
    // Counts only: timings are meaningless on a busy machine.
    step("counts", || bench::run(&["--short", "--check", "fsyncs", "space", "prune"]))?;
    step("search", || search::run(&["--check"]))?;
    step("survival", || survival::run(&["--check"]))?;
    let handover: &[&str] = if is_full { &["--set", "held-out", "--check"] } else { &["--short", "--check"] };
    step("handover", || handover::run(handover))?;
    println!("test: everything passed in {:.0} s", start.elapsed().as_secs_f64());
    // Reached only if no step failed.
    let steps = if is_full { 23 } else { 20 };
    println!("steps: {steps} passed, 0 failed");
    Ok(())
}

/// Lints feature combinations that the workspace build does not cover: the library without features, with
/// single features and with all of them; the command line without default features, with and without exact
/// token counters.
fn features() -> Result<()> {
    let library = ["", "sqlite", "bundled", "interop", "brief", "search", "threads", "exact-tokens"]
        .map(|name| ("milepost", name));
    let command_line = ["", "exact-tokens"].map(|name| ("milepost-cli", name));
    for (package, feature) in library.into_iter().chain(command_line) {
        let args =
            ["clippy", "--quiet", "--package", package, "--no-default-features", "--features", feature];
        run_program(cargo().args(args).args(["--", "-D", "warnings"]))?;
    }
    run_program(cargo().args([
        "clippy",
        "--quiet",
        "--package",
        "milepost",
        "--all-features",
        "--",
        "-D",
        "warnings",
    ]))
}

/// The end-to-end tests of the command line with a store on a PostgreSQL server. Each of them prints that it was skipped
/// if there is no server, and then uses a local store. Tests that need a local store are left out, and so is, in the
/// short form, every test that is not in one of a few modules.
fn tests_on_postgres(is_full: bool) -> Result<()> {
    let list = "crates/milepost-cli/tests/it/local_store_only.txt";
    let list = std::fs::read_to_string(list).with_context(|| format!("cannot read {list}"))?;
    let mut test = Command::new(end_to_end_tests()?);
    test.current_dir(root().join("crates/milepost-cli"))
        .env("MILEPOST_TEST_STORE", "postgres")
        .arg("--quiet");
    test.args(if is_full {
        &["--exact"][..]
    } else {
        &["listings::", "save::", "resume::", "task::", "purge::"]
    });
    for name in list.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        test.args(["--skip", name]);
    }
    run_program(&mut test)
}

/// The program of the command line's end-to-end tests, as `cargo test --workspace` built it. `cargo test --package`
/// would compile it again, with other features in its dependencies.
fn end_to_end_tests() -> Result<PathBuf> {
    let args = ["test", "--quiet", "--workspace", "--test", "it", "--no-run", "--message-format", "json"];
    let artifacts = read_output(cargo().args(args))?;
    let path =
        artifacts.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()).find_map(|built| {
            let is_wanted = built["manifest_path"].as_str()?.ends_with("milepost-cli/Cargo.toml");
            is_wanted.then(|| built["executable"].as_str().map(PathBuf::from)).flatten()
        });
    path.context("cargo built no end-to-end tests")
}

fn step(name: &str, work: impl FnOnce() -> Result<()>) -> Result<()> {
    println!("== {name}");
    let start = Instant::now();
    work().with_context(|| format!("step `{name}` failed"))?;
    println!("== {name}: {:.1} s", start.elapsed().as_secs_f64());
    Ok(())
}
