//! Runs the real binary on a store of a server, and reads what its commands report. A command that does not end
//! within a minute is killed and reported as hung.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::Result;
use serde_json::Value;
use tempfile::TempDir;

use crate::faults::Environment;
use crate::faults::project::{CommandOutput, run_command, scratch_folder};

/// A user with an empty project, whose store is on a server.
pub struct Client {
    command: Vec<String>,
    state: String,
    pub folder: TempDir,
}

impl Client {
    /// A client of the store at this address.
    pub fn new(env: &Environment) -> Result<Self> {
        let words =
            ["timeout", "--signal=KILL", "60", &env.milepost.display().to_string()].map(str::to_owned);
        Ok(Self {
            command: words.to_vec(),
            state: env.state.display().to_string(),
            folder: scratch_folder()?,
        })
    }

    /// Runs a command on the store at this address.
    pub fn run(&self, store: &str, args: &[&str]) -> Result<CommandOutput> {
        self.run_in(self.folder.path(), store, args)
    }

    /// Runs a command in this folder on the store at this address.
    pub fn run_in(&self, folder: &Path, store: &str, args: &[&str]) -> Result<CommandOutput> {
        let mut command = Command::new(&self.command[0]);
        command.args(&self.command[1..]).arg("-C").arg(folder).args(["--store", store]);
        command.args(args).stdin(Stdio::null()).env_clear();
        command.env("PATH", "/usr/local/bin:/usr/bin:/bin").env("HOME", "/nonexistent").env("TZ", "UTC");
        command.env("XDG_STATE_HOME", &self.state).env("USER", "tester");
        run_command(command, args)
    }

    /// All listed checkpoints, newest first.
    pub fn list(&self, store: &str) -> Result<Vec<Value>> {
        let output = self.run(store, &["list", "--limit", "0", "--json"])?.expect(0)?;
        Ok(output.json()?["checkpoints"].as_array().cloned().unwrap_or_default())
    }
}

/// Whether a command wrote on this machine only, because it could not reach the server.
pub fn waits(output: &CommandOutput) -> bool {
    output.code == 0 && output.stderr.contains("saved on this machine only")
}

/// The error that a command with `--json` reported: its reason code, and whether it is unknown what the command did.
pub fn reported_error(output: &CommandOutput) -> Option<(String, bool)> {
    let last = output.stderr.lines().last()?;
    let line: Value = serde_json::from_str(last).ok()?;
    let reason = line["reason_code"].as_str()?.to_owned();
    let is_unknown = reason == "store_commit_unknown";
    Some((reason, is_unknown))
}
