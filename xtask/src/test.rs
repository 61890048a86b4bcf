//! `cargo xtask test`: everything that must hold, in the order in which it is cheapest to find out.
//! Stops at the first step that fails and names it; prints how long each step took.

use std::time::Instant;

use anyhow::{Context, Result};

use crate::shell::{cargo, pass};
use crate::{agents, architecture, bench, faults, mcp, setup, survival};

pub fn run(size: faults::Size) -> Result<()> {
    let start = Instant::now();
    step("setup", setup::run)?;
    step("format", || pass(cargo().args(["fmt", "--all", "--check"])))?;
    step("architecture", architecture::run)?;
    step("lints", || {
        pass(cargo().args(["clippy", "--quiet", "--workspace", "--all-targets", "--", "-D", "warnings"]))
    })?;
    step("tests", || pass(cargo().args(["test", "--quiet", "--workspace"])))?;
    step("faults", || faults::run(size, &[]))?;
    // The clients and the agents come from the network, and are large: not for every run.
    if matches!(size, faults::Size::Full) {
        step("mcp", mcp::run)?;
        step("agents", || agents::run(&[]))?;
    }
    // Only what is counted: times say nothing on a machine that does other things.
    step("counts", || bench::run(&["--short", "--check", "fsyncs", "space", "prune"]))?;
    step("survival", || survival::run(&["--check"]))?;
    println!("test: everything passed in {:.0} s", start.elapsed().as_secs_f64());
    // Reached only if no step failed.
    let steps = if matches!(size, faults::Size::Full) { 10 } else { 8 };
    println!("steps: {steps} passed, 0 failed");
    Ok(())
}

fn step(name: &str, work: impl FnOnce() -> Result<()>) -> Result<()> {
    println!("== {name}");
    let start = Instant::now();
    work().with_context(|| format!("the step `{name}` failed"))?;
    println!("== {name}: {:.1} s", start.elapsed().as_secs_f64());
    Ok(())
}
