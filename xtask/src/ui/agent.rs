//! A process that calls the hooks of an agent as the agent itself does, and that can be killed.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::thread::JoinHandle;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::sandbox::{Sandbox, write};

/// Calls a hook for every line of its input, and reports how it ended.
const SOURCE: &str = "
import sys, json, subprocess
for line in sys.stdin:
    done = subprocess.run([sys.argv[1], 'hook', sys.argv[2]], input=line, text=True, capture_output=True)
    print(json.dumps([done.returncode, done.stdout, done.stderr]), flush=True)
";

pub(super) struct Agent {
    session: String,
    project: PathBuf,
    process: u32,
    /// Waits for the process, so that it does not remain as a zombie if something else kills it.
    waiter: Option<JoinHandle<()>>,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Agent {
    /// Starts an agent in a project, with a new session.
    pub(super) fn start(sandbox: &Sandbox, project: &Path, name: &str, session: &str) -> Result<Self> {
        let mut command = sandbox.command("python3", project);
        command.args(["-c", SOURCE]).arg(sandbox.milepost()).arg(name);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let stdin = child.stdin.take().context("no stdin")?;
        let stdout = BufReader::new(child.stdout.take().context("no stdout")?);
        let process = child.id();
        let waiter = Some(std::thread::spawn(move || drop(child.wait())));
        let (session, project) = (session.to_owned(), project.to_owned());
        let mut agent = Self { session, project, process, waiter, stdin, stdout };
        agent.report("SessionStart", json!({ "source": "startup" }))?;
        Ok(agent)
    }

    /// Reports an event to the hook.
    pub(super) fn report(&mut self, event: &str, more: Value) -> Result<()> {
        let mut payload =
            json!({ "session_id": self.session, "cwd": self.project, "hook_event_name": event });
        if let (Some(payload), Value::Object(more)) = (payload.as_object_mut(), more) {
            payload.extend(more);
        }
        writeln!(self.stdin, "{payload}")?;
        let mut answer = String::new();
        self.stdout.read_line(&mut answer)?;
        let (code, out, err): (i32, String, String) = serde_json::from_str(&answer)
            .with_context(|| format!("the hook of {event} answered {answer:?}"))?;
        ensure!(code == 0 && err.is_empty(), "the hook of {event} ended with {code}: {out}{err}");
        Ok(())
    }

    /// The user's next prompt.
    pub(super) fn prompt(&mut self, text: &str) -> Result<()> {
        self.report("UserPromptSubmit", json!({ "prompt": text }))
    }

    /// Writes a file with the agent's tool.
    pub(super) fn write(&mut self, path: &str, content: &str) -> Result<()> {
        let file = self.project.join(path);
        let input = json!({ "file_path": file, "content": content });
        self.report("PreToolUse", json!({ "tool_name": "Write", "tool_input": input }))?;
        write(&file, content)?;
        self.report("PostToolUse", json!({ "tool_name": "Write", "tool_input": input, "tool_response": {} }))
    }

    /// The whole to-do list, as text and status.
    pub(super) fn todo(&mut self, list: &[(&str, &str)]) -> Result<()> {
        let todos: Vec<_> =
            list.iter().map(|(text, status)| json!({ "content": text, "status": status })).collect();
        self.report(
            "PostToolUse",
            json!({ "tool_name": "TodoWrite", "tool_input": { "todos": todos }, "tool_response": {} }),
        )
    }

    /// A command that the agent ran.
    pub(super) fn shell(&mut self, command: &str, exit: i32, output: &str) -> Result<()> {
        let response =
            if exit == 0 { output.to_owned() } else { format!("Error: Exit code {exit}\n{output}") };
        let input = json!({ "command": command });
        self.report(
            "PostToolUse",
            json!({ "tool_name": "Bash", "tool_input": input, "tool_response": response, "duration_ms": 4200 }),
        )
    }

    /// Saves a checkpoint, as before a compaction.
    pub(super) fn compact(&mut self) -> Result<()> {
        self.report("PreCompact", json!({ "trigger": "auto" }))
    }

    /// The end of a turn.
    pub(super) fn stop(&mut self) -> Result<()> {
        self.report("Stop", json!({ "stop_hook_active": false }))
    }

    /// Ends the session as the user does.
    pub(super) fn end(mut self) -> Result<()> {
        self.report("SessionEnd", json!({ "reason": "exit" }))
    }

    /// The process id, to kill it from elsewhere.
    pub(super) fn process(&self) -> u32 {
        self.process
    }
}

/// Kills the process. It ends without reporting anything.
impl Drop for Agent {
    fn drop(&mut self) {
        let Some(waiter) = self.waiter.take() else { return };
        if !waiter.is_finished() {
            let _ = Command::new("kill").arg("-KILL").arg(self.process.to_string()).status();
        }
        let _ = waiter.join();
    }
}
