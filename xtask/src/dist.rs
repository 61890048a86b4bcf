//! `cargo xtask dist`: builds the binary that is packaged, with the profile `dist`. On Linux with glibc it is linked
//! statically and stays position-independent. Prints the path and the size; fails if the kernel cannot randomise its address.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::shell::{cargo, read_output, root, run_program};

pub fn run() -> Result<()> {
    let binary = build()?;
    let size = std::fs::metadata(&binary).with_context(|| binary.display().to_string())?.len();
    println!("{}: {:.1} MB", binary.display(), size as f64 / 1e6);
    Ok(())
}

/// Builds the packaged binary and gives its path.
pub fn build() -> Result<PathBuf> {
    let host = read_output(Command::new("rustc").args(["--print", "host-tuple"]))?.trim().to_owned();
    let is_glibc = host.ends_with("linux-gnu");
    let mut build = cargo();
    build.args(["build", "--profile", "dist", "--package", "milepost-cli"]);
    // With an explicit target the flags do not reach build scripts and macros, which cannot be linked statically.
    build.args(["--target", &host]);
    if is_glibc {
        build.env("RUSTFLAGS", "-C target-feature=+crt-static");
    }
    run_program(&mut build)?;
    let folder = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let binary = folder.join(&host).join("dist").join("milepost");
    if is_glibc {
        check_linkage(&binary)?;
    }
    Ok(binary)
}

/// A static binary has no interpreter; one whose address can be randomised is of type DYN and flagged PIE.
fn check_linkage(binary: &std::path::Path) -> Result<()> {
    let about = read_output(
        Command::new("readelf").args(["--file-header", "--program-headers", "--dynamic"]).arg(binary),
    )?;
    ensure!(about.contains("DYN (Position-Independent Executable"), "the binary is not position-independent");
    ensure!(!about.contains("INTERP") && !about.contains("(NEEDED)"), "the binary needs shared libraries");
    println!("linked statically, position-independent");
    Ok(())
}
