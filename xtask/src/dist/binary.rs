//! Builds the binary for packaging, with the profile `dist`. On Linux with glibc it must be a static,
//! position-independent executable.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};

use crate::shell::{cargo, read_output, root, run_program};

/// Builds the packaged binary and returns its path.
pub fn build() -> Result<PathBuf> {
    let host = host()?;
    let is_glibc = host.ends_with("linux-gnu");
    let mut build = cargo();
    build.args(["build", "--profile", "dist", "--package", "milepost-cli"]);
    // With an explicit target, the flags do not apply to build scripts and macros, which cannot be static.
    build.args(["--target", &host]);
    // On Windows, the C runtime is linked statically too, because it may be missing on the machine.
    if is_glibc || host.ends_with("windows-msvc") {
        build.env("RUSTFLAGS", "-C target-feature=+crt-static");
    }
    run_program(&mut build)?;
    let folder = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let binary = folder.join(&host).join("dist").join(file_name());
    if is_glibc {
        check_linkage(&binary)?;
    }
    Ok(binary)
}

/// The target triple of this machine.
pub(super) fn host() -> Result<String> {
    Ok(read_output(Command::new("rustc").args(["--print", "host-tuple"]))?.trim().to_owned())
}

/// The file name of the binary on this system.
pub(super) fn file_name() -> String {
    format!("milepost{}", std::env::consts::EXE_SUFFIX)
}

/// A static binary has no interpreter. Address randomisation needs type DYN and the flag PIE.
fn check_linkage(binary: &Path) -> Result<()> {
    let about = read_output(
        Command::new("readelf").args(["--file-header", "--program-headers", "--dynamic"]).arg(binary),
    )?;
    ensure!(about.contains("DYN (Position-Independent Executable"), "the binary is not position-independent");
    ensure!(!about.contains("INTERP") && !about.contains("(NEEDED)"), "the binary needs shared libraries");
    // Benchmarks print tables to stdout.
    eprintln!("linked statically, position-independent");
    Ok(())
}
