//! `cargo xtask setup`: installs the programs that the tests need, through apt. Does nothing if none is
//! missing. If it cannot install a program, it prints which tests will be skipped and does not fail.

use std::process::Command;

use anyhow::Result;

use crate::shell::{is_installed, is_root, run_program};

/// A program, the package that provides it, and what is skipped without it.
const NEEDED: [(&str, &str, &str); 13] = [
    ("git", "git", "the worktree tests and the fault `outbox`"),
    ("faketime", "faketime", "the fault `clock`"),
    (
        "strace",
        "strace",
        "the faults `stopped`, `prune`, `failed-sync` and `creation`, parts of `kill`, and the fsync counts of `bench`",
    ),
    ("node", "nodejs", "the tests of the OpenCode plugin"),
    ("mkfs.ext4", "e2fsprogs", "the fault `power-cut`"),
    ("script", "bsdutils", "tests of completion on a terminal"),
    ("zsh", "zsh", "the test of completion in zsh"),
    ("fish", "fish", "the test of completion in fish"),
    ("man", "man-db", "the test that manual pages render"),
    ("flock", "util-linux", "the examples of the documentation"),
    ("jq", "jq", "the examples of the documentation"),
    ("python3", "python3", "the examples of the documentation"),
    ("sqlite3", "sqlite3", "the examples of the documentation"),
];

pub fn run() -> Result<()> {
    let missing: Vec<_> = NEEDED.iter().filter(|(program, ..)| !is_installed(program)).collect();
    if missing.is_empty() {
        println!("setup: all programs are installed");
        return Ok(());
    }
    if !is_root() || !is_installed("apt-get") {
        let why = if is_root() { "apt-get is missing" } else { "not root" };
        for (program, _, without) in missing {
            println!("setup: {program} is missing and cannot be installed ({why}); this skips {without}");
        }
        return Ok(());
    }
    let apt = || {
        let mut command = Command::new("apt-get");
        command.env("DEBIAN_FRONTEND", "noninteractive").arg("-qq");
        command
    };
    if let Err(e) = run_program(apt().arg("update")) {
        println!("setup: {e:#}; continuing with the existing package lists");
    }
    for (program, package, without) in missing {
        match run_program(apt().args(["install", "-y", "--no-install-recommends", package])) {
            Ok(()) => println!("setup: {program} installed"),
            Err(e) => println!("setup: cannot install {program} ({e:#}); this skips {without}"),
        }
    }
    Ok(())
}
