//! The commands that `cut` breaks the network of, the content of the store they work on, and what they must leave
//! behind.

use anyhow::Result;
use milepost_testkit::postgres::PrivateCluster;
use serde_json::{Value, json};

use super::client::Client;
use crate::faults::project::text;

/// What a command does to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing.
    Reads,
    /// One change, which is there or not.
    Writes,
    /// Several changes. A command that failed can be repeated.
    WritesInParts,
}

/// A command to run while the network breaks. `{store}` stands for the address of the store.
pub struct CutCommand {
    pub name: &'static str,
    pub args: &'static [&'static str],
    pub effect: Effect,
}

const fn command(name: &'static str, args: &'static [&'static str], effect: Effect) -> CutCommand {
    CutCommand { name, args, effect }
}

/// Every kind of command, with every kind of statement.
pub const COMMANDS: [CutCommand; 17] = [
    command("save", &["save", "--no-capture", "--run", "r", "a new text"], Effect::Writes),
    command("save into a new run", &["save", "--no-capture", "--run", "new", "a new text"], Effect::Writes),
    command("save with files", &["save", "--run", "r", "a new text"], Effect::Writes),
    command("note", &["note", "--run", "r", "a new line"], Effect::Writes),
    command("mark", &["mark", "r@2", "--pin", "--tag", "new-tag"], Effect::Writes),
    command("complete", &["complete", "r@3"], Effect::WritesInParts),
    command("delete", &["delete", "gone", "--yes"], Effect::WritesInParts),
    command("prune", &["prune", "--keep-last", "2", "--yes"], Effect::WritesInParts),
    command("copy", &["copy", "--from", "sqlite:other.db", "--to", "{store}"], Effect::WritesInParts),
    command("show", &["show", "latest"], Effect::Reads),
    command("list", &["list"], Effect::Reads),
    command("runs", &["runs"], Effect::Reads),
    command("status", &["status"], Effect::Reads),
    command("resume", &["resume", "stopped"], Effect::Reads),
    command("verify", &["verify"], Effect::Reads),
    command("events", &["events"], Effect::Reads),
    command("state", &["state", "r@1"], Effect::Reads),
];

/// Creates the store that every trial starts with, and a local one to copy.
pub fn prepare(client: &Client, store: &str) -> Result<()> {
    let folder = client.folder.path();
    std::fs::write(folder.join("state.json"), "{\"state\":{\"n\":1}}")?;
    std::fs::write(folder.join("a.txt"), "one\n".repeat(2000))?;
    let run = |store: &str, args: &[&str]| client.run(store, args)?.expect(0).map(drop);
    run(store, &["save", "--no-capture", "--run", "r", "--input", "state.json"])?;
    for n in 2..=5 {
        run(store, &["save", "--no-capture", "--run", "r", &format!("text {n}")])?;
    }
    run(store, &["mark", "r@1", "--tag", "first"])?;
    run(store, &["note", "--run", "r", "a line"])?;
    run(store, &["save", "--no-capture", "--run", "gone", "to delete"])?;
    run(store, &["save", "--no-capture", "--run", "stopped", "--status", "failed", "half way"])?;
    run("sqlite:other.db", &["save", "--run", "copied", "one"])?;
    run("sqlite:other.db", &["save", "--run", "copied", "two"])
}

/// The content of a store without ids and times, to compare two stores that the same commands changed.
pub fn content(client: &Client, store: &str) -> Result<Value> {
    let checkpoints: Vec<Value> = client
        .list(store)?
        .iter()
        .map(|c| {
            let marks = [&c["tags"], &c["pinned"], &c["completed_at"]].map(|v| !v.is_null()).to_vec();
            json!([text(c, "run_id"), c["sequence"], c["task_summary"], c["tags"], c["pinned"], marks])
        })
        .collect();
    let run = client.run(store, &["runs", "r", "--json"])?.expect(0)?.json()?;
    let events = client.run(store, &["events", "--limit", "0", "--json"])?.expect(0)?.json()?;
    let mut kinds: Vec<String> = events["events"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|event| format!("{} {}", text(event, "run_id"), text(event, "type")))
        .collect();
    kinds.sort();
    Ok(json!({ "checkpoints": checkpoints, "log": run["log"].as_array().map(Vec::len), "events": kinds }))
}

/// Creates a database with the same content as another one, which nothing is connected to.
pub fn copy_database(cluster: &PrivateCluster, from: &str, name: &str) -> Result<()> {
    for _ in 0..20 {
        // A client that has ended can still be connected for a moment.
        if cluster.sql("postgres", &format!("CREATE DATABASE {name} TEMPLATE {from}")).is_ok() {
            return Ok(());
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    cluster.sql("postgres", &format!("CREATE DATABASE {name} TEMPLATE {from}"))?;
    Ok(())
}
