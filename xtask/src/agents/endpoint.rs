//! The endpoint of the test's own, in Node: what it is told to do, and what agents have asked of it.

use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

/// What the model does: it is in the path, so that an agent that starts again gets another one.
#[derive(Debug, Clone, Copy)]
pub(super) enum ModelScript {
    /// Sets a to-do list, writes a file, runs a command that fails, and answers no more.
    Work,
    /// Says a sentence.
    Talk,
}

/// What the model does when it works.
pub(super) const FILE: &str = "notes/parser.txt";
pub(super) const COMMAND: &str = "cat no-such-input.txt";
pub(super) const COMPLAINT: &str = "No such file or directory";
pub(super) const OPEN: [&str; 2] = ["Feed the parser its input", "Count the widgets twice"];
const DONE: &str = "Write the notes";

pub(super) struct Endpoint {
    process: Child,
    log: PathBuf,
    port: u16,
}

impl Endpoint {
    /// Starts it, with its files in `folder`, for agents that work in `project`.
    pub(super) fn start(folder: &Path, project: &Path) -> Result<Self> {
        let [script, source, log, port] =
            ["script.json", "endpoint.mjs", "requests.jsonl", "port"].map(|name| folder.join(name));
        let todo = json!([[DONE, "completed"], [OPEN[0], "in_progress"], [OPEN[1], "pending"]]);
        let told = json!({
            "folder": project, "file": FILE, "content": "half of a parser", "command": COMMAND, "todo": todo,
            "sentence": "Nothing more to do.",
        });
        std::fs::write(&script, told.to_string())?;
        std::fs::write(&source, include_str!("endpoint.mjs"))?;
        std::fs::write(&log, "")?;
        let mut node = Command::new("node");
        let process = node.arg(&source).args([&script, &log, &port]).spawn().context("node")?;
        let mut endpoint = Self { process, log, port: 0 };
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(20) {
            if let Ok(text) = std::fs::read_to_string(&port) {
                endpoint.port = text.parse().with_context(|| format!("the port of the endpoint: {text}"))?;
                return Ok(endpoint);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        bail!("the endpoint does not listen after 20 s")
    }

    /// The address that an agent is given instead of its provider's.
    pub(super) fn address(&self, script: ModelScript) -> String {
        let script = match script {
            ModelScript::Work => "script",
            ModelScript::Talk => "talk",
        };
        format!("http://127.0.0.1:{}/{script}", self.port)
    }

    /// What was asked so far, oldest first.
    pub(super) fn requests(&self) -> Result<Vec<Value>> {
        let text = std::fs::read_to_string(&self.log)?;
        // The last line may be half written.
        Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
