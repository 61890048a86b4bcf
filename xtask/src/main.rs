//! The project's own commands: `cargo xtask setup | test | bench | faults`.

mod bench;

use anyhow::{Result, bail};

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    if let Some(part) = bench::part(&args) {
        return part;
    }
    match args.as_slice() {
        ["bench", rest @ ..] => bench::run(rest),
        _ => bail!("usage: cargo xtask bench"),
    }
}
