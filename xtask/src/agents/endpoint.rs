//! The test's model endpoint, a Node program on the loopback: starts it with a script of what the model does,
//! and reads the requests that agents have sent to it.

use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

/// The model's behaviour. It is part of the URL, so that the next session can get a different one.
#[derive(Debug, Clone, Copy)]
pub(super) enum ModelScript {
    /// Sets a to-do list, writes a file, runs a command that fails, then stops replying.
    Work,
    /// Does the same work, then ends the turn with [`LAST_MESSAGE`].
    Turn,
    /// Continues a session of [`ModelScript::Turn`]: runs a command that succeeds, then stops replying.
    NextTurn,
    /// Runs a command that succeeds, then stops replying.
    More,
    /// Replies with one sentence.
    Talk,
}

/// What the model writes, runs and lists as its work.
pub(super) const FILE: &str = "notes/parser.txt";
pub(super) const COMMAND: &str = "cat no-such-input.txt";
pub(super) const COMPLAINT: &str = "No such file or directory";
pub(super) const OPEN: [&str; 2] = ["Feed the parser its input", "Count the widgets twice"];
const DONE: &str = "Write the notes";
pub(super) const LAST_MESSAGE: &str = "The parser lacks its input, and the widgets add up to 41.";
pub(super) const OTHER_COMMAND: &str = "git log --oneline";

pub(super) struct Endpoint {
    process: Child,
    log: PathBuf,
    port: u16,
}

impl Endpoint {
    /// Starts the endpoint with its files in `folder`, for agents that work in `project`.
    pub(super) fn start(folder: &Path, project: &Path) -> Result<Self> {
        let [script, source, log, port] =
            ["script.json", "endpoint.mjs", "requests.jsonl", "port"].map(|name| folder.join(name));
        let todo = json!([[DONE, "completed"], [OPEN[0], "in_progress"], [OPEN[1], "pending"]]);
        let told = json!({
            "folder": project, "file": FILE, "content": "half of a parser", "command": COMMAND, "todo": todo,
            "sentence": "Nothing more to do.", "lastMessage": LAST_MESSAGE, "otherCommand": OTHER_COMMAND,
        });
        std::fs::write(&script, told.to_string())?;
        std::fs::write(&source, include_str!("endpoint.mjs"))?;
        std::fs::write(&log, "")?;
        let mut node = Command::new("node");
        let process = node.arg(&source).args([&script, &log, &port]).spawn().context("cannot start node")?;
        let mut endpoint = Self { process, log, port: 0 };
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(20) {
            if let Ok(text) = std::fs::read_to_string(&port) {
                endpoint.port =
                    text.parse().with_context(|| format!("the endpoint reports the port {text:?}"))?;
                return Ok(endpoint);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        bail!("the endpoint is not listening after 20 s")
    }

    /// The base URL that replaces the provider's.
    pub(super) fn address(&self, script: ModelScript) -> String {
        let script = match script {
            ModelScript::Work => "script",
            ModelScript::Turn => "turn",
            ModelScript::NextTurn => "next-turn",
            ModelScript::More => "more",
            ModelScript::Talk => "talk",
        };
        format!("http://127.0.0.1:{}/{script}", self.port)
    }

    /// All requests so far, oldest first.
    pub(super) fn requests(&self) -> Result<Vec<Value>> {
        let text = std::fs::read_to_string(&self.log)?;
        // The last line may be incomplete.
        Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
