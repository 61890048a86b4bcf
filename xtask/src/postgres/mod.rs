//! `cargo xtask postgres [--short] [CASE…]`: exposes the real binary to faults of a PostgreSQL server and of the
//! network, on private clusters. Prints ok, FAILED or SKIPPED for every case, with figures or the reason. Fails if a
//! case fails.

mod client;
mod cut;
mod cut_commands;

mod restarts;

use std::time::Instant;

use anyhow::{Result, bail};
use milepost_testkit::postgres::{ClusterOptions, PrivateCluster, ServerError};

use crate::faults::{Environment, Outcome, Size, project};
use crate::shell::build_program;

type Case = fn(&Environment) -> Result<Outcome>;

const CASES: [(&str, Case); 2] = [("restarts", restarts::run), ("cut", cut::run)];

/// Runs the cases whose names start with one of the given prefixes; all cases if there is none.
pub fn run(size: Size, chosen: &[&str]) -> Result<()> {
    let milepost = build_program()?;
    let state = project::scratch_folder()?;
    let env = Environment { milepost, state: state.path().to_owned(), size };
    let wanted = |name: &str| chosen.is_empty() || chosen.iter().any(|prefix| name.starts_with(prefix));
    let (mut known, mut failed) = (0, Vec::new());
    for (name, case) in CASES.into_iter().filter(|(name, _)| wanted(name)) {
        known += 1;
        let begun = Instant::now();
        let end = case(&env);
        let took = begun.elapsed().as_secs_f64();
        match end {
            Ok(Outcome::Passed(figures)) => println!("{name:<10} ok ({took:.1} s): {figures}"),
            Ok(Outcome::Skipped(reason)) => println!("{name:<10} SKIPPED: {reason}"),
            Err(e) => {
                println!("{name:<10} FAILED ({took:.1} s): {e:#}");
                failed.push(name);
            }
        }
    }
    if known == 0 {
        bail!("unknown case; available: {}", CASES.map(|(name, _)| name).join(", "));
    }
    if !failed.is_empty() {
        bail!("failed: {}", failed.join(", "));
    }
    Ok(())
}

/// Starts a private cluster, or returns the reason why there is none.
pub fn start(options: ClusterOptions) -> Result<Result<PrivateCluster, String>> {
    match options.private_only().start() {
        Ok(cluster) => Ok(Ok(cluster)),
        Err(e @ (ServerError::Skipped(_) | ServerError::Unsupported(_))) => Ok(Err(e.to_string())),
        Err(e) => Err(e.into()),
    }
}
