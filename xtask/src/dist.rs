//! `cargo xtask dist`: builds the binary for packaging with the profile `dist`, and prints its path and size.
//! On Linux with glibc it fails unless the binary is a static, position-independent executable.

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

/// Builds the packaged binary and returns its path.
pub fn build() -> Result<PathBuf> {
    let host = read_output(Command::new("rustc").args(["--print", "host-tuple"]))?.trim().to_owned();
    let is_glibc = host.ends_with("linux-gnu");
    let mut build = cargo();
    build.args(["build", "--profile", "dist", "--package", "milepost-cli"]);
    // With an explicit target, the flags do not apply to build scripts and macros, which cannot be static.
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

/// A static binary has no interpreter. Address randomisation needs type DYN and the flag PIE.
fn check_linkage(binary: &std::path::Path) -> Result<()> {
    let about = read_output(
        Command::new("readelf").args(["--file-header", "--program-headers", "--dynamic"]).arg(binary),
    )?;
    ensure!(about.contains("DYN (Position-Independent Executable"), "the binary is not position-independent");
    ensure!(!about.contains("INTERP") && !about.contains("(NEEDED)"), "the binary needs shared libraries");
    // Benchmarks print tables to stdout.
    eprintln!("linked statically, position-independent");
    Ok(())
}
