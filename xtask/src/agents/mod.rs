//! `cargo xtask agents [NAME…]`: runs the real agents, from npm, against a model endpoint on 127.0.0.1. Each
//! agent is killed while it works. The first request of the next session must then describe the unfinished
//! work, also after a second handover. The agents are installed under `target/`; after that, only the loopback is reachable, and every home
//! is empty.

mod agent;
mod case;
mod endpoint;
mod offline;
mod sandbox;
mod two_handovers;

use std::time::Instant;

use anyhow::{Result, bail, ensure};

use self::agent::{AGENTS, Agent};
use self::case::{Case, Handovers};
use self::sandbox::Scope;
use crate::shell::{build_program, is_installed, run_program, target};

/// First argument of the process that runs without a network.
const INSIDE: &str = "--inside";

pub fn run(names: &[&str]) -> Result<()> {
    if let [INSIDE, names @ ..] = names {
        return run_cases(&chosen(names)?);
    }
    let agents = chosen(names)?;
    for program in ["npm", "node", "git"] {
        ensure!(is_installed(program), "{program} is required but not installed");
    }
    build_program()?;
    let (mut there, mut missing) = (Vec::new(), Vec::new());
    for agent in agents {
        match agent.install() {
            Ok(version) => {
                println!("{:<32} installed   ok: {version}", agent.name);
                there.push(agent);
            }
            Err(e) => {
                println!("{:<32} FAILED: cannot install: {e:#}", agent.name);
                missing.push(agent.name);
            }
        }
    }
    run_without_network(&there)?;
    ensure!(missing.is_empty(), "not installed: {}", missing.join(", "));
    Ok(())
}

/// Runs the cases in a child process without a network, or in this process if that is not possible.
fn run_without_network(agents: &[&'static Agent]) -> Result<()> {
    if agents.is_empty() {
        return Ok(());
    }
    let Some(mut inside) = offline::command() else {
        println!("agents: unshare or ip is missing or not permitted; the network stays reachable");
        return run_cases(agents);
    };
    let names = agents.iter().map(|agent| agent.name);
    run_program(inside.arg(std::env::current_exe()?).args(["agents", INSIDE]).args(names))
}

fn chosen(names: &[&str]) -> Result<Vec<&'static Agent>> {
    let all = || AGENTS.iter().map(|agent| agent.name).collect::<Vec<_>>().join(", ");
    for name in names {
        ensure!(
            AGENTS.iter().any(|agent| agent.name == *name),
            "unknown agent {name:?}; available: {}",
            all()
        );
    }
    Ok(AGENTS.iter().filter(|agent| names.is_empty() || names.contains(&agent.name)).collect())
}

/// Each agent followed by itself, set up in every way, then by itself twice, and each followed
/// by the next one in the list.
fn cases(agents: &[&'static Agent]) -> Vec<Case> {
    let own = |agent: &&'static Agent| {
        let scopes = [Scope::User, Scope::Project, Scope::Plugin, Scope::UserAndPlugin];
        let mut wanted = scopes.map(|scope| (scope, Handovers::One)).to_vec();
        wanted.push((Scope::User, Handovers::Two));
        wanted.into_iter().map(|(scope, handovers)| Case {
            worker: agent,
            successor: agent,
            scope,
            handovers,
        })
    };
    let mut cases: Vec<_> = agents.iter().flat_map(own).collect();
    if let [first, .., last] = agents {
        let after = agents.windows(2).map(|pair| (pair[0], pair[1])).chain([(*last, *first)]);
        let one =
            |(worker, successor)| Case { worker, successor, scope: Scope::User, handovers: Handovers::One };
        cases.extend(after.map(one));
    }
    cases
}

fn run_cases(agents: &[&'static Agent]) -> Result<()> {
    let start = Instant::now();
    let mut failed = Vec::new();
    let cases = cases(agents);
    for case in &cases {
        if let Err(e) = case.run(&target()?.join("debug/milepost")) {
            println!("{:<32} FAILED: {e:#}", case.name());
            failed.push(case.name());
        }
    }
    let held = cases.len() - failed.len();
    println!("agents: {held} passed, {} failed in {:.0} s", failed.len(), start.elapsed().as_secs_f64());
    if !failed.is_empty() {
        bail!("failed: {}", failed.join(", "));
    }
    Ok(())
}
