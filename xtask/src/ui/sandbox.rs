//! A private home folder with projects: git repositories in which the real binary works.

use std::cell::Cell;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::shell::read_output;

/// The value of PATH for everything in a sandbox.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";
/// Where Debian keeps libfaketime.
const FAKETIME: [&str; 2] = [
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketime.so.1",
];

pub(super) struct Sandbox {
    /// The home folder of the test's user. Projects are below it.
    pub(super) home: PathBuf,
    milepost: PathBuf,
    /// The file that tells every process in the sandbox how far its clock is behind.
    clock: PathBuf,
    is_clock_behind: Cell<bool>,
    /// Deletes the folder at the end.
    _folder: TempDir,
}

impl Sandbox {
    pub(super) fn new(milepost: &Path) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("milepost-ui-").tempdir()?;
        let home = folder.path().canonicalize()?.join("me");
        fs::create_dir(&home)?;
        let clock = home.with_file_name("clock");
        fs::write(&clock, "+0")?;
        fs::write(home.join(".gitconfig"), "[user]\n\tname = Example\n\temail = me@example.org\n")?;
        Ok(Self {
            home,
            milepost: milepost.to_owned(),
            clock,
            is_clock_behind: Cell::new(false),
            _folder: folder,
        })
    }

    /// Sets the clock of all commands to a time before now, so that a run of hours takes seconds. Without libfaketime,
    /// everything happens now.
    pub(super) fn set_clock(&self, minutes_before_now: u64) -> Result<()> {
        self.is_clock_behind.set(minutes_before_now > 0);
        let offset = format!("-{}", minutes_before_now * 60);
        fs::write(&self.clock, offset).context("cannot set the clock")
    }

    /// The path of the binary.
    pub(super) fn milepost(&self) -> &Path {
        &self.milepost
    }

    /// The environment variables of every process.
    pub(super) fn variables(&self) -> Value {
        json!({ "HOME": self.home, "PATH": PATH, "LC_ALL": "C.UTF-8", "TZ": "UTC" })
    }

    /// A command in a folder, with no other environment variables.
    pub(super) fn command(&self, program: impl AsRef<Path>, folder: &Path) -> Command {
        let mut command = Command::new(program.as_ref());
        command.current_dir(folder).env_clear();
        let library = FAKETIME.iter().find(|library| Path::new(library).exists());
        if let Some(library) = library.filter(|_| self.is_clock_behind.get()) {
            command.env("LD_PRELOAD", library).env("FAKETIME_TIMESTAMP_FILE", &self.clock);
            command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        }
        for (name, value) in self.variables().as_object().into_iter().flatten() {
            command.env(name, value.as_str().unwrap_or_default());
        }
        command
    }

    /// Creates a git repository with these files, and a store.
    pub(super) fn project(&self, name: &str, files: &[(&str, &str)]) -> Result<PathBuf> {
        let project = self.home.join(name);
        for (path, content) in files {
            write(&project.join(path), content)?;
        }
        fs::create_dir_all(&project)?;
        self.git(&project, &["init", "-q", "-b", "main", "."])?;
        self.run(&project, &["init", "--yes", "--quiet"])?;
        self.git(&project, &["add", "-A"])?;
        self.git(&project, &["commit", "-q", "--allow-empty", "-m", "Start the project"])?;
        Ok(project)
    }

    pub(super) fn git(&self, project: &Path, words: &[&str]) -> Result<String> {
        read_output(self.command("git", project).args(words))
    }

    /// Runs milepost to completion and returns its stdout.
    pub(super) fn run(&self, project: &Path, words: &[&str]) -> Result<String> {
        read_output(self.command(&self.milepost, project).args(words))
    }

    /// Runs milepost with this text as its input.
    pub(super) fn run_with_input(&self, project: &Path, words: &[&str], input: &str) -> Result<String> {
        let mut command = self.command(&self.milepost, project);
        command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let mut stdin = child.stdin.take().context("no stdin")?;
        // A command that refuses may end before it has read everything.
        let _ = stdin.write_all(input.as_bytes());
        drop(stdin);
        let output = child.wait_with_output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "milepost {words:?} failed: {}: {}", output.status, said.trim());
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// The output of `milepost … --json`.
    pub(super) fn query(&self, project: &Path, words: &[&str]) -> Result<Value> {
        let text = read_output(self.command(&self.milepost, project).args(words).arg("--json"))?;
        serde_json::from_str(&text).with_context(|| format!("milepost {words:?} printed no JSON: {text}"))
    }
}

/// Writes a file and creates the folders above it.
pub(super) fn write(path: &Path, content: &str) -> Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, content).with_context(|| format!("cannot write {}", path.display()))
}
