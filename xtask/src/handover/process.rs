//! The process of an agent, which owns its sessions and can be killed. Takes what the agent sends and returns
//! the text that Milepost adds to the agent's context. Fails if a hook fails or prints an error.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::agents::{AgentKind, Report};
use super::sandbox::{Sandbox, create_parent};

const AGENT: &str = include_str!("agent.py");
const OPENCODE: &str = include_str!("opencode.mjs");
const PLUGIN: &str = include_str!("../../../crates/milepost-cli/src/agents/templates/opencode.js");

pub struct AgentProcess {
    pub agent: AgentKind,
    child: Child,
    /// `None` once the process was told to end.
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl AgentProcess {
    pub fn start(agent: AgentKind, sandbox: &Sandbox) -> Result<Self> {
        let mut command = if agent == AgentKind::OpenCode {
            let [host, plugin] = ["opencode.mjs", "plugin.mjs"].map(|name| sandbox.own_file(name));
            fs::write(&host, OPENCODE)?;
            fs::write(&plugin, PLUGIN)?;
            let mut command = sandbox.command("node");
            command.arg(host).arg(plugin);
            command
        } else {
            let mut command = sandbox.command("python3");
            command.args(["-c", AGENT]).arg(sandbox.milepost()).arg(agent.name());
            command
        };
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start the process of {agent}"))?;
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().context("the process has no output")?);
        Ok(Self { agent, child, stdin, stdout })
    }

    /// Sends a report. Returns the text that Milepost adds to the agent's context, if any.
    pub fn send(&mut self, report: &Report, transcript: &Path) -> Result<Option<String>> {
        match report {
            Report::Hook(payload) => {
                let answer = self.exchange(payload)?;
                let (code, out, err): (i32, String, String) = serde_json::from_value(answer)?;
                let event = payload["hook_event_name"].as_str().unwrap_or_default();
                ensure!(code == 0 && err.is_empty(), "the hook for {event} exited with {code}: {err}");
                if out.is_empty() {
                    return Ok(None);
                }
                let said: Value = serde_json::from_str(&out)
                    .with_context(|| format!("the hook for {event} printed no JSON: {out}"))?;
                Ok(said["hookSpecificOutput"]["additionalContext"].as_str().map(str::to_owned))
            }
            Report::Plugin { hook, input, output } => {
                let answer = self.exchange(&json!({ "hook": hook, "input": input, "output": output }))?;
                Ok(answer["system"][0].as_str().map(str::to_owned))
            }
            Report::TranscriptLine(line) => {
                create_parent(transcript)?;
                let mut file = fs::OpenOptions::new().create(true).append(true).open(transcript)?;
                writeln!(file, "{line}")?;
                Ok(None)
            }
            Report::File(path, content) => {
                create_parent(path)?;
                fs::write(path, content)?;
                Ok(None)
            }
        }
    }

    fn exchange(&mut self, line: &Value) -> Result<Value> {
        let stdin = self.stdin.as_mut().context("the process has ended")?;
        writeln!(stdin, "{line}")?;
        let mut answer = String::new();
        self.stdout.read_line(&mut answer)?;
        serde_json::from_str(&answer).with_context(|| format!("{} ended unexpectedly", self.agent))
    }

    /// Kills the process. It reports nothing more.
    pub fn kill(mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Lets the process end by itself.
    pub fn exit(mut self) -> Result<()> {
        self.stdin = None;
        let status = self.child.wait()?;
        ensure!(status.success(), "the process of {} ended with {status}", self.agent);
        Ok(())
    }
}

impl Drop for AgentProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
