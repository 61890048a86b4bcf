//! `cargo xtask test`: everything that must hold, in the order in which it is cheapest to find out.
//! Stops at the first step that fails and names it; prints how long each step took.

use std::time::Instant;

use anyhow::{Context, Result};

use crate::shell::{cargo, run_program};
use crate::{agents, architecture, bench, deny, faults, mcp, setup, survival};

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
    // The clients and the agents come from the network, and are large: not for every run.
    if is_full {
        step("mcp", mcp::run)?;
        step("agents", || agents::run(&[]))?;
    }
    // Only what is counted: times say nothing on a machine that does other things.
    step("counts", || bench::run(&["--short", "--check", "fsyncs", "space", "prune"]))?;
    step("survival", || survival::run(&["--check"]))?;
    println!("test: everything passed in {:.0} s", start.elapsed().as_secs_f64());
    // Reached only if no step failed.
    let steps = if is_full { 14 } else { 12 };
    println!("steps: {steps} passed, 0 failed");
    Ok(())
}

/// Checks what people build besides the default: the library without features, with each alone and with all, and the
/// command line without its defaults and with exact token counters.
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

/// Packs every crate that is published, as `cargo publish` would, without building it again.
fn package() -> Result<()> {
    let args = ["package", "--quiet", "--workspace", "--exclude", "xtask", "--allow-dirty", "--no-verify"];
    run_program(cargo().args(args))
}

fn step(name: &str, work: impl FnOnce() -> Result<()>) -> Result<()> {
    println!("== {name}");
    let start = Instant::now();
    work().with_context(|| format!("the step `{name}` failed"))?;
    println!("== {name}: {:.1} s", start.elapsed().as_secs_f64());
    Ok(())
}
