//! `cargo xtask agents [NAME…]`: the real agents, from npm, against a model of the test's own on 127.0.0.1.
//! Each works, is killed in the middle of it, and what starts next must be told by its first request what was left. The
//! agents are installed below `target/`; after that there is no network but the loopback, and every home is empty.

mod agent;
mod case;
mod endpoint;
mod offline;
mod sandbox;

use std::time::Instant;

use anyhow::{Result, bail, ensure};

use self::agent::{AGENTS, Agent};
use self::case::Case;
use self::sandbox::Scope;
use crate::shell::{cargo, is_installed, root, run_program};

/// The first word of the arguments of the process that has no network.
const INSIDE: &str = "--inside";

pub fn run(names: &[&str]) -> Result<()> {
    if let [INSIDE, names @ ..] = names {
        return run_cases(&chosen(names)?);
    }
    let agents = chosen(names)?;
    for program in ["npm", "node", "git"] {
        ensure!(is_installed(program), "{program} is needed and not there");
    }
    run_program(cargo().args(["build", "--quiet", "-p", "milepost-cli"]))?;
    let (mut there, mut missing) = (Vec::new(), Vec::new());
    for agent in agents {
        match agent.install() {
            Ok(version) => {
                println!("{:<32} installed   ok: {version}", agent.name);
                there.push(agent);
            }
            Err(e) => {
                println!("{:<32} FAILED: not installed: {e:#}", agent.name);
                missing.push(agent.name);
            }
        }
    }
    run_without_network(&there)?;
    ensure!(missing.is_empty(), "not installed: {}", missing.join(", "));
    Ok(())
}

/// Starts this program again where there is no network, and tries the agents there.
fn run_without_network(agents: &[&'static Agent]) -> Result<()> {
    if agents.is_empty() {
        return Ok(());
    }
    let Some(mut inside) = offline::command() else {
        println!("agents: unshare or ip is missing, or not allowed: the network is not cut off");
        return run_cases(agents);
    };
    let names = agents.iter().map(|agent| agent.name);
    run_program(inside.arg(std::env::current_exe()?).args(["agents", INSIDE]).args(names))
}

fn chosen(names: &[&str]) -> Result<Vec<&'static Agent>> {
    let all = || AGENTS.iter().map(|agent| agent.name).collect::<Vec<_>>().join(", ");
    for name in names {
        ensure!(AGENTS.iter().any(|agent| agent.name == *name), "no agent {name:?}; there are {}", all());
    }
    Ok(AGENTS.iter().filter(|agent| names.is_empty() || names.contains(&agent.name)).collect())
}

/// Each agent after itself, set up for the user and for the project; and each after the one before it.
fn cases(agents: &[&'static Agent]) -> Vec<Case> {
    let own = |agent: &&'static Agent| {
        [Scope::User, Scope::Project].map(|scope| Case { worker: agent, successor: agent, scope })
    };
    let mut cases: Vec<_> = agents.iter().flat_map(own).collect();
    if let [first, .., last] = agents {
        let after = agents.windows(2).map(|pair| (pair[0], pair[1])).chain([(*last, *first)]);
        cases.extend(after.map(|(worker, successor)| Case { worker, successor, scope: Scope::User }));
    }
    cases
}

fn run_cases(agents: &[&'static Agent]) -> Result<()> {
    let start = Instant::now();
    let mut failed = Vec::new();
    let cases = cases(agents);
    for case in &cases {
        if let Err(e) = case.run(&root().join("target/debug/milepost")) {
            println!("{:<32} FAILED: {e:#}", case.name());
            failed.push(case.name());
        }
    }
    let held = cases.len() - failed.len();
    println!("agents: {held} held, {} failed in {:.0} s", failed.len(), start.elapsed().as_secs_f64());
    if !failed.is_empty() {
        bail!("failed: {}", failed.join(", "));
    }
    Ok(())
}
