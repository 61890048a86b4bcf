//! `cargo xtask setup`: the programs that tests need and a fresh machine lacks, through apt.
//! Where apt or the rights are missing it says what will be skipped and goes on; with everything there it does nothing.

use std::process::Command;

use anyhow::Result;

use crate::shell::{is_installed, is_root, run_program};

/// A program, the package that has it, and what cannot be tried without it.
const NEEDED: [(&str, &str, &str); 9] = [
    ("git", "git", "tests of worktrees, and the fault `outbox`"),
    ("faketime", "faketime", "the fault `clock`"),
    ("strace", "strace", "the fault `stopped`, the exact part of `kill`, fsyncs counted by `bench`"),
    ("node", "nodejs", "tests of OpenCode's plugin"),
    ("mkfs.ext4", "e2fsprogs", "the fault `power-cut`"),
    ("script", "bsdutils", "tests of completion on a terminal"),
    ("zsh", "zsh", "the test of completion in zsh"),
    ("fish", "fish", "the test of completion in fish"),
    ("man", "man-db", "the test that manual pages render"),
];

pub fn run() -> Result<()> {
    let missing: Vec<_> = NEEDED.iter().filter(|(program, ..)| !is_installed(program)).collect();
    if missing.is_empty() {
        println!("setup: everything is there");
        return Ok(());
    }
    if !is_root() || !is_installed("apt-get") {
        let why = if is_root() { "there is no apt-get" } else { "not root" };
        for (program, _, without) in missing {
            println!(
                "setup: {program} is missing and cannot be installed ({why}): skipped will be {without}"
            );
        }
        return Ok(());
    }
    let apt = || {
        let mut command = Command::new("apt-get");
        command.env("DEBIAN_FRONTEND", "noninteractive").arg("-qq");
        command
    };
    if let Err(e) = run_program(apt().arg("update")) {
        println!("setup: {e:#}; going on with the package lists that are there");
    }
    for (program, package, without) in missing {
        match run_program(apt().args(["install", "-y", "--no-install-recommends", package])) {
            Ok(()) => println!("setup: {program} installed"),
            Err(e) => println!("setup: {program} is missing ({e:#}): skipped will be {without}"),
        }
    }
    Ok(())
}
