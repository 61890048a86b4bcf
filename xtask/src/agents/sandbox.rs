//! A sandbox for one case: an empty home, a new repository with a store, and a model endpoint.
//! Starts agents in it, waits for them and kills them.

use std::fs::File;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::endpoint::Endpoint;
use crate::shell::{read_output, root, run_program};

/// Interval between two polls.
const PAUSE: Duration = Duration::from_millis(100);

/// How hooks are installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// By `agents install`, for the user.
    User,
    /// By `agents install`, in the project.
    Project,
    /// By the agent itself, from the plugin in this repository.
    Plugin,
    /// Both by `agents install` for the user and from the plugin.
    UserAndPlugin,
}

impl Scope {
    /// Whether the agent has the plugin.
    pub(super) fn has_plugin(self) -> bool {
        matches!(self, Self::Plugin | Self::UserAndPlugin)
    }
}

pub(super) struct Sandbox {
    pub(super) home: PathBuf,
    pub(super) project: PathBuf,
    pub(super) endpoint: Endpoint,
    folder: tempfile::TempDir,
    path: String,
    milepost: PathBuf,
}

impl Sandbox {
    /// Uses a folder under `target/`, because Codex does less in the folder for temporary files.
    pub(super) fn new(milepost: &Path) -> Result<Self> {
        let all = root().join("target/agents/places");
        std::fs::create_dir_all(&all)?;
        let folder = tempfile::Builder::new().tempdir_in(all)?;
        let [home, project, bin] = ["home", "project", "bin"].map(|name| folder.path().join(name));
        for folder in [&home, &project, &bin] {
            std::fs::create_dir(folder)?;
        }
        let program = bin.join("milepost");
        std::os::unix::fs::symlink(milepost, &program)?;
        let path = format!("{}:{}", bin.display(), std::env::var("PATH")?);
        let endpoint = Endpoint::start(folder.path(), &project)?;
        let sandbox = Self { home, project, endpoint, folder, path, milepost: program };
        for words in [
            &["init", "-q", "-b", "main", "."][..],
            &[
                "-c",
                "user.name=test",
                "-c",
                "user.email=test@localhost",
                "commit",
                "-q",
                "--allow-empty",
                "-m",
                "first",
            ],
        ] {
            run_program(sandbox.command(Path::new("git")).args(words))?;
        }
        sandbox.milepost(&["init", "--yes"])?;
        Ok(sandbox)
    }

    /// A command in the project, with no environment variables except HOME, PATH and TERM.
    pub(super) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.project).env_clear();
        command.env("HOME", &self.home).env("PATH", &self.path).env("TERM", "dumb");
        command
    }

    /// Runs milepost to completion and returns its stdout.
    pub(super) fn milepost(&self, words: &[&str]) -> Result<String> {
        read_output(self.command(&self.milepost).args(words))
    }

    /// The output of `milepost … --json`. Ignores the exit code, because a command that refuses still prints
    /// its reason.
    pub(super) fn query(&self, words: &[&str]) -> Result<Value> {
        let output = self.command(&self.milepost).args(words).arg("--json").stdin(Stdio::null()).output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        serde_json::from_str(&text).with_context(|| {
            format!("milepost {words:?} printed no JSON: {text}{}", String::from_utf8_lossy(&output.stderr))
        })
    }

    /// Starts an agent as the leader of a new process group, with its output redirected to a file.
    pub(super) fn start(&self, mut command: Command, name: &str) -> Result<RunningAgent> {
        let output_file = self.folder.path().join(format!("{name}.out"));
        let out = File::create(&output_file)?;
        command.stdin(Stdio::null()).stdout(out.try_clone()?).stderr(out).process_group(0);
        let child = command.spawn().with_context(|| format!("{:?}", command.get_program()))?;
        Ok(RunningAgent { child, output_file })
    }

    /// Keeps the folder and returns its path.
    pub(super) fn keep(self) -> PathBuf {
        drop(self.endpoint);
        self.folder.keep()
    }
}

/// A running agent, killed on drop.
pub(super) struct RunningAgent {
    child: Child,
    output_file: PathBuf,
}

impl RunningAgent {
    /// Polls until `there` returns a value. Fails if the agent ends first or the time limit passes.
    pub(super) fn wait_until<T>(
        &mut self,
        limit: Duration,
        what: &str,
        mut there: impl FnMut() -> Result<Option<T>>,
    ) -> Result<T> {
        let start = Instant::now();
        loop {
            if let Some(found) = there()? {
                return Ok(found);
            }
            if let Some(status) = self.child.try_wait()? {
                bail!("expected {what}, but the agent ended with {status}: {}", self.output_file());
            }
            if start.elapsed() > limit {
                bail!(
                    "expected {what} within {} s; the agent printed {}",
                    limit.as_secs(),
                    self.output_file()
                );
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Waits for the agent to end successfully.
    pub(super) fn wait_for_end(&mut self, limit: Duration) -> Result<()> {
        let start = Instant::now();
        while start.elapsed() < limit {
            if let Some(status) = self.child.try_wait()? {
                ensure!(status.success(), "the agent ended with {status}: {}", self.output_file());
                return Ok(());
            }
            std::thread::sleep(PAUSE);
        }
        bail!("the agent did not end within {} s; it printed {}", limit.as_secs(), self.output_file())
    }

    /// Sends SIGKILL to the agent's process group.
    pub(super) fn kill(&mut self) -> Result<ExitStatus> {
        run_program(Command::new("kill").args(["-KILL", "--", &format!("-{}", self.child.id())]))?;
        Ok(self.child.wait()?)
    }

    /// The end of the agent's output.
    fn output_file(&self) -> String {
        let text = std::fs::read(&self.output_file).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let from = text.char_indices().rev().nth(1500).map_or(0, |(at, _)| at);
        format!("{:?}", text[from..].trim())
    }
}

impl Drop for RunningAgent {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.kill();
        }
    }
}
