//! `cargo xtask test`: runs every check, cheapest first. Prints the duration of each step.
//! Stops at the first step that fails and names it.

use std::time::Instant;

use anyhow::{Context, Result};

use crate::shell::{cargo, run_program};
use crate::{agents, architecture, bench, deny, faults, handover, mcp, setup, survival};

pub fn run(size: faults::Size) -> Result<()> {
    let start = Instant::now();
    let is_full = matches!(size, faults::Size::Full);
    step("setup", setup::run)?;
    step("format", || run_program(cargo().args(["fmt", "--all", "--check"])))?;
    step("architecture", architecture::run)?;
    step("dependencies", || deny::run(is_full))?;
    step("packages", package)?;
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
    step("api", architecture::api::run)?;
    step("tests", || run_program(cargo().args(["test", "--quiet", "--workspace"])))?;
    step("faults", || faults::run(size, &[]))?;
    // These download large MCP clients and agents, so only `--full` runs them.
    if is_full {
        step("mcp", mcp::run)?;
        step("agents", || agents::run(&[]))?;
    }
    // Counts only: timings are meaningless on a busy machine.
    step("counts", || bench::run(&["--short", "--check", "fsyncs", "space", "prune"]))?;
    step("survival", || survival::run(&["--check"]))?;
    let handover: &[&str] = if is_full { &["--set", "held-out", "--check"] } else { &["--short", "--check"] };
    step("handover", || handover::run(handover))?;
    println!("test: everything passed in {:.0} s", start.elapsed().as_secs_f64());
    // Reached only if no step failed.
    let steps = if is_full { 15 } else { 13 };
    println!("steps: {steps} passed, 0 failed");
    Ok(())
}

/// Lints feature combinations that the workspace build does not cover: the library without features, with
/// single features and with all of them; the command line without default features, with and without exact
/// token counters.
fn features() -> Result<()> {
    let library =
        ["", "sqlite", "bundled", "interop", "brief", "exact-tokens"].map(|name| ("milepost", name));
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

/// Packages every published crate as `cargo publish` does, without the verification build.
fn package() -> Result<()> {
    let args = ["package", "--quiet", "--workspace", "--exclude", "xtask", "--allow-dirty", "--no-verify"];
    run_program(cargo().args(args))
}

fn step(name: &str, work: impl FnOnce() -> Result<()>) -> Result<()> {
    println!("== {name}");
    let start = Instant::now();
    work().with_context(|| format!("step `{name}` failed"))?;
    println!("== {name}: {:.1} s", start.elapsed().as_secs_f64());
    Ok(())
}
