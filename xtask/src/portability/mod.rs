//! `cargo xtask portability`: type-checks and lints the published crates for macOS, Windows and musl, builds the program for
//! Windows and tests it under Wine. Prints what is skipped and why: a missing toolchain is no failure.

mod compilers;
mod wine;

use std::process::Command;
use std::time::Instant;

use anyhow::{Result, bail};

use self::compilers::Compilers;
use crate::setup;
use crate::shell::{cargo, run_program};

const WINDOWS: &str = "x86_64-pc-windows-gnu";

/// Every target, the quickest way to a finding first.
const TARGETS: [&str; 5] = [
    WINDOWS,
    "aarch64-apple-darwin",
    "x86_64-apple-darwin",
    "x86_64-unknown-linux-musl",
    "aarch64-unknown-linux-musl",
];

/// The targets of the short form, one for each family of code that Linux does not compile, with arguments that select
/// features. The MCP server, the page and the PostgreSQL store have no code for macOS alone.
pub const SHORT_TARGETS: [(&str, &[&str]); 2] =
    [(WINDOWS, &[]), ("aarch64-apple-darwin", &["--no-default-features", "--features", "bundled"])];

/// What users install. The Python package needs an interpreter of the target.
const PACKAGES: [&str; 5] = ["milepost", "milepost-cli", "milepost-mcp", "milepost-postgres", "milepost-ui"];

pub fn run(args: &[&str]) -> Result<()> {
    match args {
        ["--short"] => check_short(),
        ["wine", cases @ ..] => run_under_wine(cases),
        [] => {
            setup::install(&setup::FOR_PORTABILITY)?;
            for target in TARGETS {
                lint(target)?;
            }
            run_under_wine(&[])
        }
        targets if targets.iter().all(|target| TARGETS.contains(target)) => {
            targets.iter().try_for_each(|target| lint(target))
        }
        _ => bail!(
            "usage: cargo xtask portability [--short | TARGET…] | portability wine [CASE…]; the targets are {}",
            TARGETS.join(", ")
        ),
    }
}

/// Type-checks the command line, and with it the crates that it depends on, for one target of each family. Needs no C
/// compiler: nothing is linked.
fn check_short() -> Result<()> {
    let compilers = Compilers::placeholders()?;
    for (target, features) in SHORT_TARGETS {
        let start = Instant::now();
        if let Err(why) = setup::add_rust_target(target) {
            println!("portability: {target} skipped: {why}");
            continue;
        }
        let mut check = cargo();
        check.args(["check", "--quiet", "--package", "milepost-cli"]).args(features);
        compilers.set(&mut check, target);
        run_program(&mut check)?;
        println!("portability: {target} type-checked in {:.0} s", start.elapsed().as_secs_f64());
    }
    Ok(())
}

/// Type-checks and lints all packages for a target, with its C code compiled.
fn lint(target: &str) -> Result<()> {
    let start = Instant::now();
    if let Err(why) = setup::add_rust_target(target) {
        println!("portability: {target} skipped: {why}");
        return Ok(());
    }
    let compilers = Compilers::for_target(target)?;
    let mut clippy = cargo();
    clippy.args(["clippy", "--quiet"]);
    clippy.args(PACKAGES.iter().flat_map(|package| ["--package", package]));
    compilers.set(&mut clippy, target);
    run_program(clippy.args(["--", "-D", "warnings"]))?;
    let seconds = start.elapsed().as_secs_f64();
    println!("portability: {target} passed in {seconds:.0} s ({})", compilers.description());
    Ok(())
}

/// Builds the program for Windows and runs the cases with it.
fn run_under_wine(cases: &[&str]) -> Result<()> {
    let skipped = |why: &str| println!("portability: the Windows program is not run: {why}");
    if let Err(why) = setup::add_rust_target(WINDOWS) {
        skipped(&format!("{WINDOWS}: {why}"));
        return Ok(());
    }
    let compilers = Compilers::for_target(WINDOWS)?;
    if !compilers.can_link() {
        skipped("mingw-w64 is not installed");
        return Ok(());
    }
    let Some(wine) = wine::Wine::start()? else {
        skipped("Wine is not installed or does not start");
        return Ok(());
    };
    let mut build = cargo();
    build.args(["build", "--quiet", "--package", "milepost-cli"]);
    compilers.set(&mut build, WINDOWS);
    run_program(&mut build)?;
    wine.run_cases(&crate::shell::target()?.join(WINDOWS).join("debug/milepost.exe"), cases)
}

/// A command that does not inherit settings for other compilers.
fn quiet(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    command.stdin(std::process::Stdio::null());
    command
}
