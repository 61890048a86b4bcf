//! The project's own commands, run as `cargo xtask COMMAND`; `USAGE` lists them.

// xtask reads the environment and writes plain files. It is not part of the product.
#![allow(clippy::disallowed_methods)]

mod agents;
mod architecture;
mod bench;
mod deny;
mod dist;
mod faults;
mod fuzz;
mod handover;
mod large_store;
mod mcp;
mod npm;
mod picture;
mod portability;
mod postgres;
mod python;
mod search;
mod setup;
mod shell;
mod survival;
mod test;
mod ui;

use anyhow::{Result, bail};

const USAGE: &str = "usage: cargo xtask setup | test [--full] | dist | deny [--full] | architecture | api | faults [--short] [CASE…] | fuzz [--short] [TARGET…] [OPTION…] | portability [--short | TARGET…] | portability wine [CASE…] | postgres [--short] [CASE…] | python [build|bench] [--dev] [--short] [TEST…] | ui [--short] [CASE…] | ui pictures | mcp | agents [NAME…] | picture [BINARY] | bench [--short] [--check] [NAME…] | bench peers [--short] [--check] [--write] [PART…] | handover [OPTION…] | search [--check] [QUERY] | survival [--tuning] [--check] [--documents] [NAME]";

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    if let Some(part) = bench::run_child(&args) {
        return part;
    }
    match args.as_slice() {
        ["setup"] => setup::run(),
        ["test"] => test::run(faults::Size::Short),
        ["test", "--full"] => test::run(faults::Size::Full),
        ["deny"] => deny::run(false),
        ["deny", "--full"] => deny::run(true),
        ["dist"] => dist::run(),
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
