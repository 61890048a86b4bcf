//! Attacks on the server with plain sockets: requests that it must refuse, more connections than it can hold, slow
//! clients, and the end of its life. The user must be able to use the page all the time.

mod footprint;
mod lifetime;
mod load;
mod requests;

use anyhow::Result;

use super::sandbox::{Sandbox, write};
use super::server::PageServer;
use super::{Environment, Outcome};

/// The project whose name no refusal may contain.
const PROJECT: &str = "attacked-project";

pub(super) fn run(env: &Environment) -> Result<Outcome> {
    let sandbox = Sandbox::new(&env.milepost)?;
    let project = sandbox.project(PROJECT, &[("notes.txt", "one\n")])?;
    sandbox.run(&project, &["save", "--run", "work", "first"])?;
    write(&project.join("notes.txt"), "one\ntwo\n")?;
    // A large document, for readers that are slow.
    let lines: Vec<String> = (0..2_000).map(|n| format!("line {n} {}", "x".repeat(100))).collect();
    let input = serde_json::json!({ "state": lines, "metadata": { "lines": lines } }).to_string();
    sandbox.run_with_input(&project, &["save", "--run", "work", "second", "--input", "-"], &input)?;
    let server = PageServer::start(&sandbox, &project)?;
    let mut figures = vec![requests::run(&server)?, load::run(env, &server)?];
    drop(server);
    figures.push(lifetime::run(&sandbox, &project)?);
    figures.push(footprint::run(&sandbox, &project)?);
    Ok(Outcome::Passed(figures.join("; ")))
}
