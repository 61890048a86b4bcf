//! The smoke test of an installation: init, save, a run that is killed and resumed, a hook that starts no Node, and
//! completions. Uses an empty home and an empty project.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::Installed;
use crate::shell::{git, is_installed, read_output, run_program};

const SUMMARY: &str = "half of the smoke test";
const LIMIT: Duration = Duration::from_secs(30);

pub(super) fn run(name: &str, installed: &Installed, version: &str) -> Result<()> {
    let start = Instant::now();
    let place = Place::new(installed)?;
    let found = place.read(&["--version"])?;
    ensure!(found.trim() == format!("milepost {version}"), "the program reports {found:?}");
    place.read(&["init", "--yes"]).context("init")?;
    let saved = place.read(&["save", SUMMARY]).context("save")?;
    ensure!(saved.contains("cp_"), "save printed {saved:?}");
    place.kill_and_resume().context("a killed run")?;
    place.run_hook().context("hook")?;
    place.load_completions().context("completions")?;
    println!("{name:<22} ok in {:.1} s", start.elapsed().as_secs_f64());
    Ok(())
}

/// The folders of a test.
struct Place {
    folder: tempfile::TempDir,
    path: String,
}

impl Place {
    fn new(installed: &Installed) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        for name in ["home", "project"] {
            fs::create_dir(folder.path().join(name))?;
        }
        let path = format!("{}:{}", installed.bin.display(), std::env::var("PATH")?);
        let place = Self { folder, path };
        run_program(git().args(["init", "--quiet"]).current_dir(place.project()))?;
        Ok(place)
    }

    fn project(&self) -> PathBuf {
        self.folder.path().join("project")
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new("env");
        command.arg(program).current_dir(self.project()).env_clear();
        command.env("HOME", self.folder.path().join("home")).env("PATH", &self.path).env("TERM", "dumb");
        command
    }

    fn read(&self, words: &[&str]) -> Result<String> {
        read_output(self.command("milepost").args(words))
    }

    fn query(&self, words: &[&str]) -> Result<Value> {
        let text = self.read(&[words, &["--json"]].concat())?;
        serde_json::from_str(&text).with_context(|| format!("milepost {words:?} printed {text}"))
    }

    /// Polls until a query has the wanted answer.
    fn wait(&self, words: &[&str], what: &str, is_there: impl Fn(&Value) -> bool) -> Result<Value> {
        let start = Instant::now();
        loop {
            let answer = self.query(words)?;
            if is_there(&answer) {
                return Ok(answer);
            }
            ensure!(start.elapsed() < LIMIT, "expected {what}, but milepost {words:?} says {answer}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Starts a command under `milepost run`, kills both with SIGKILL, and resumes the run.
    fn kill_and_resume(&self) -> Result<()> {
        let mut command = self.command("milepost");
        command.args(["run", "--", "sh", "-c", "milepost save 'first part done'; sleep 60"]);
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        let has_saved = |status: &Value| status["live"][0].to_string().contains("first part done");
        let waited = self.wait(&["status"], "a live run with a save", has_saved);
        run_program(Command::new("kill").args(["-KILL", "--", &format!("-{}", child.id())]))?;
        child.wait()?;
        waited?;
        let crashed = |status: &Value| status["stopped"][0]["class"] == "process_crash";
        let status = self.wait(&["status"], "a run that crashed", crashed)?;
        let run = status["stopped"][0]["run_id"].as_str().unwrap_or_default();
        let brief = self.read(&["resume", run])?;
        ensure!(brief.contains("first part done"), "the brief does not name the save: {brief}");
        Ok(())
    }

    /// Installs the hooks of Claude Code and calls one of them as the agent does. Node must not be started.
    fn run_hook(&self) -> Result<()> {
        self.read(&["agents", "install", "claude-code", "--yes"])?;
        let settings = fs::read(self.folder.path().join("home/.claude/settings.json"))?;
        let settings: Value = serde_json::from_slice(&settings)?;
        let hook = settings["hooks"]["UserPromptSubmit"][0]["hooks"][0]["command"].as_str();
        let hook = hook.context("no hook is installed")?;
        // A Node that only leaves a trace.
        let fake = self.folder.path().join("fake");
        let trace = fake.join("node-was-started");
        fs::create_dir(&fake)?;
        fs::write(fake.join("node"), format!("#!/bin/sh\ntouch '{}'\nexit 1\n", trace.display()))?;
        fs::set_permissions(fake.join("node"), fs::Permissions::from_mode(0o755))?;
        let mut shell = self.command("sh");
        shell.args(["-c", hook]).env("PATH", format!("{}:{}", fake.display(), self.path));
        let mut child = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let event = json!({
            "session_id": "smoke-test",
            "cwd": self.project(),
            "hook_event_name": "UserPromptSubmit",
            "prompt": "Finish the smoke test",
        });
        child.stdin.take().context("no stdin")?.write_all(event.to_string().as_bytes())?;
        ensure!(child.wait()?.success(), "the hook failed");
        ensure!(!trace.exists(), "the hook started Node: {hook}");
        let runs = self.query(&["runs"])?;
        ensure!(runs.to_string().contains("claude-code-smoke-test"), "the hook recorded nothing: {runs}");
        self.read(&["agents", "uninstall", "claude-code", "--yes"])?;
        Ok(())
    }

    /// Loads the completion script into bash and completes a command.
    fn load_completions(&self) -> Result<()> {
        if !is_installed("bash") {
            println!("completions: skipped: bash is not installed");
            return Ok(());
        }
        let script = "eval \"$(milepost completions bash)\" && complete -p milepost";
        let registered = read_output(self.command("bash").args(["--norc", "-c", script]))?;
        ensure!(registered.contains("milepost"), "bash registered {registered:?}");
        Ok(())
    }
}
