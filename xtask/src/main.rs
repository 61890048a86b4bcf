//! The project's own commands, run as `cargo xtask COMMAND`; `USAGE` lists them.

// xtask reads the environment and writes plain files. It is not part of the product.
#![allow(clippy::disallowed_methods)]

mod dist;
mod release;
mod shell;

// These run or test programs for Unix. Packages are also built on Windows.
#[cfg(unix)]
mod agents;
#[cfg(unix)]
mod architecture;
#[cfg(unix)]
mod bench;
#[cfg(unix)]
mod deny;
#[cfg(unix)]
mod faults;
#[cfg(unix)]
mod fuzz;
#[cfg(unix)]
mod handover;
#[cfg(unix)]
mod large_store;
#[cfg(unix)]
mod mcp;
#[cfg(unix)]
mod npm;
#[cfg(unix)]
mod picture;
#[cfg(unix)]
mod portability;
#[cfg(unix)]
mod postgres;
#[cfg(unix)]
mod python;
#[cfg(unix)]
mod search;
#[cfg(unix)]
mod setup;
#[cfg(unix)]
mod survival;
#[cfg(unix)]
mod test;
#[cfg(unix)]
mod ui;

use anyhow::{Result, bail};

const USAGE: &str = "usage: cargo xtask setup | test [--full] | dist [--check] [--dev] [PART…] | release VERSION [--dry-run] | deny [--full] | architecture | api | faults [--short] [CASE…] | fuzz [--short] [TARGET…] [OPTION…] | portability [--short | TARGET…] | portability wine [CASE…] | postgres [--short] [CASE…] | python [build|bench] [--dev] [--short] [TEST…] | ui [--short] [CASE…] | ui pictures | mcp | agents [NAME…] | picture [BINARY] | bench [--short] [--check] [NAME…] | bench peers [--short] [--check] [--write] [PART…] | handover [OPTION…] | search [--check] [QUERY] | survival [--tuning] [--check] [--documents] [NAME]";

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args.as_slice() {
        ["dist", words @ ..] => dist::run(words),
        ["release", "publish-crates"] => release::publish_crates(),
        ["release", version] => release::run(version, false),
        ["release", version, "--dry-run"] | ["release", "--dry-run", version] => release::run(version, true),
        #[cfg(unix)]
        args => run_on_unix(args),
        #[cfg(not(unix))]
        _ => bail!("this command needs Unix; {USAGE}"),
    }
}

#[cfg(unix)]
fn run_on_unix(args: &[&str]) -> Result<()> {
    if let Some(part) = bench::run_child(args) {
        return part;
    }
    match args {
        ["setup"] => setup::run(),
        ["test"] => test::run(faults::Size::Short),
        ["test", "--full"] => test::run(faults::Size::Full),
        ["deny"] => deny::run(false),
        ["deny", "--full"] => deny::run(true),
        ["api"] => architecture::api::run(),
        ["architecture"] => architecture::run(),
        ["faults", "--short", cases @ ..] => faults::run(faults::Size::Short, cases),
        ["faults", cases @ ..] if !cases.iter().any(|c| c.starts_with('-')) => {
            faults::run(faults::Size::Full, cases)
        }
        ["fuzz", rest @ ..] => fuzz::run(rest),
        ["portability", rest @ ..] => portability::run(rest),
        ["postgres", "--short", cases @ ..] => postgres::run(faults::Size::Short, cases),
        ["postgres", cases @ ..] if !cases.iter().any(|c| c.starts_with('-')) => {
            postgres::run(faults::Size::Full, cases)
        }
        ["python", rest @ ..] => python::run(&python::Options::parse(rest)?),
        ["mcp"] => mcp::run(),
        ["agents", names @ ..] => agents::run(names),
        ["picture"] => picture::run(None),
        ["picture", binary] => picture::run(Some(binary)),
        ["ui", "pictures"] => ui::pictures(),
        ["ui", "--short", cases @ ..] => ui::run(faults::Size::Short, cases),
        ["ui", cases @ ..] if !cases.iter().any(|c| c.starts_with('-')) => ui::run(faults::Size::Full, cases),
        ["bench", rest @ ..] => bench::run(rest),
        ["handover", rest @ ..] => handover::run(rest),
        ["search", rest @ ..] => search::run(rest),
        ["survival", rest @ ..] => survival::run(rest),
        _ => bail!(USAGE),
    }
}
