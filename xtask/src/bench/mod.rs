//! Benchmarks with a floor measured beside each, interleaved in one run, and given as a ratio to it.

mod inprocess;
mod measure;

use anyhow::Result;

pub fn run(args: &[&str]) -> Result<()> {
    let short = args.contains(&"--short");
    inprocess::saves(short)
}
