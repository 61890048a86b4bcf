//! `cargo xtask setup`: installs the programs that the tests need, through apt. Does nothing if none is
//! missing. If it cannot install a program, it prints which tests will be skipped and does not fail. Must not
//! start a server of the system: tests start private ones.

use std::fs;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::portability;
use crate::shell::{is_installed, is_root, read_output, run_program};

/// A program, the packages that provide it, and what is skipped without it.
pub type Needed = (&'static str, &'static str, &'static str);

const NEEDED: [Needed; 17] = [
    ("git", "git", "the worktree tests and the fault `outbox`"),
    ("faketime", "faketime", "the fault `clock`"),
    (
        "strace",
        "strace",
        "the faults `stopped`, `prune`, `failed-sync` and `creation`, parts of `kill`, and the fsync counts of `bench`",
    ),
    ("node", "nodejs", "the tests of the OpenCode plugin, and of the local page in a browser"),
    ("chromium", "chromium", "the tests of the local page in a browser"),
    ("mkfs.ext4", "e2fsprogs", "the fault `power-cut`"),
    ("script", "bsdutils", "tests of completion on a terminal"),
    ("zsh", "zsh", "the test of completion in zsh"),
    ("fish", "fish", "the test of completion in fish"),
    ("man", "man-db", "the test that manual pages render"),
    ("flock", "util-linux", "the examples of the documentation"),
    ("jq", "jq", "the examples of the documentation"),
    ("python3", "python3", "the examples of the documentation"),
    ("pip3", "python3-pip", "the tests of the Python package"),
    ("sqlite3", "sqlite3", "the examples of the documentation"),
    (
        "initdb",
        "postgresql",
        "the tests of the PostgreSQL store, unless MILEPOST_TEST_POSTGRES names a server",
    ),
    ("pgbouncer", "pgbouncer", "the tests of the PostgreSQL store behind a pooler"),
];

/// Packages ask this program whether they may start a service. Status 101 means no.
const SERVICE_POLICY: &str = "/usr/sbin/policy-rc.d";
/// Makes the package `postgresql` create no cluster, which would start at every boot.
const CLUSTER_POLICY: &str = "/etc/postgresql-common/createcluster.d/milepost.conf";

/// What only `cargo xtask portability` and the full test run need.
pub const FOR_PORTABILITY: [Needed; 2] = [
    ("x86_64-w64-mingw32-gcc", "gcc-mingw-w64-x86-64-win32", "the tests of the program for Windows"),
    ("wine", "wine64 wine", "the tests of the program for Windows"),
];

pub fn run() -> Result<()> {
    install(&NEEDED)?;
    for (target, _) in portability::SHORT_TARGETS {
        if let Err(why) = add_rust_target(target) {
            println!(
                "setup: the standard library for {target} is missing ({why}); this skips its type check"
            );
        }
    }
    Ok(())
}

/// Installs the standard library of a target, unless it is installed. The error says why it cannot be installed.
pub fn add_rust_target(target: &str) -> Result<(), String> {
    let mut libraries = Command::new("rustc");
    libraries.args(["--print", "target-libdir", "--target", target]);
    if read_output(&mut libraries).is_ok_and(|folder| Path::new(folder.trim()).is_dir()) {
        return Ok(());
    }
    if !is_installed("rustup") {
        return Err("rustup is not installed".to_owned());
    }
    let added = read_output(Command::new("rustup").args(["target", "add", target]));
    added.map(drop).map_err(|e| format!("{e:#}").lines().last().unwrap_or_default().to_owned())
}

/// Installs those programs that are missing.
pub fn install(needed: &[Needed]) -> Result<()> {
    let missing: Vec<_> = needed.iter().filter(|(program, ..)| !is_installed(program)).collect();
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
    let _services_stay_off = ServicesStayOff::new()?;
    for (program, packages, without) in missing {
        let mut install = apt();
        install.args(["install", "-y", "--no-install-recommends"]).args(packages.split(' '));
        match run_program(&mut install) {
            Ok(()) => println!("setup: {program} installed"),
            Err(e) => println!("setup: cannot install {program} ({e:#}); this skips {without}"),
        }
    }
    Ok(())
}

/// While this exists, packages that are installed start no service.
struct ServicesStayOff {
    is_ours: bool,
}

impl ServicesStayOff {
    fn new() -> Result<Self> {
        if let Some(folder) = Path::new(CLUSTER_POLICY).parent() {
            fs::create_dir_all(folder)?;
            fs::write(CLUSTER_POLICY, "create_main_cluster = false\n")?;
        }
        // An existing policy, as in containers, stays as it is.
        let mut new = fs::OpenOptions::new();
        match new.write(true).create_new(true).mode(0o755).open(SERVICE_POLICY) {
            Ok(mut file) => {
                std::io::Write::write_all(&mut file, b"#!/bin/sh\nexit 101\n")?;
                Ok(Self { is_ours: true })
            }
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => Ok(Self { is_ours: false }),
            Err(e) => Err(e).with_context(|| format!("cannot create {SERVICE_POLICY}")),
        }
    }
}

impl Drop for ServicesStayOff {
    fn drop(&mut self) {
        if self.is_ours
            && let Err(e) = fs::remove_file(SERVICE_POLICY)
        {
            println!(
                "setup: cannot remove {SERVICE_POLICY} ({e}); packages will start no service until it is gone"
            );
        }
    }
}
