//! A temporary home and a git repository for one story. Applies the changes of a story's events for real.
//! Takes events and returns the tool calls that an agent would report for them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use tempfile::TempDir;

use super::agents::{ToolCall, quoted};
use super::story::{Event, Story};
use crate::shell::read_output;

const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

pub struct Sandbox {
    pub home: PathBuf,
    pub project: PathBuf,
    /// The value of PATH. Its first folder contains milepost.
    path: String,
    /// Number of edits so far.
    edits: u64,
    folder: TempDir,
}

impl Sandbox {
    /// A repository with the story's files, and a store.
    pub fn new(milepost: &Path, story: &Story) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("milepost-handover-").tempdir()?;
        let [home, project, bin] = ["home", "project", "bin"].map(|name| folder.path().join(name));
        for folder in [&home, &project, &bin] {
            fs::create_dir(folder)?;
        }
        std::os::unix::fs::symlink(milepost, bin.join("milepost"))?;
        fs::write(home.join(".gitconfig"), "[user]\n\tname = Test\n\temail = test@localhost\n")?;
        let path = format!("{}:{PATH}", bin.display());
        let sandbox = Self { home, project, path, edits: 0, folder };
        for (path, content) in &story.files {
            sandbox.write(path, content)?;
        }
        sandbox.git(&["init", "-q", "-b", "main", "."])?;
        sandbox.git(&["add", "-A"])?;
        sandbox.git(&["commit", "-q", "--allow-empty", "-m", "Initial commit"])?;
        read_output(sandbox.command("milepost").args(["init", "--yes"]))?;
        sandbox.git(&["add", "-A"])?;
        sandbox.git(&["commit", "-q", "--allow-empty", "-m", "Set up Milepost"])?;
        Ok(sandbox)
    }

    /// A command in the project, with no environment variables except HOME and PATH.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.project).env_clear();
        command.env("HOME", &self.home).env("PATH", &self.path);
        command
    }

    /// The path of milepost as the agents call it.
    pub fn milepost(&self) -> PathBuf {
        self.folder.path().join("bin/milepost")
    }

    /// The path of a file of the harness.
    pub fn own_file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn git(&self, args: &[&str]) -> Result<String> {
        read_output(self.command("git").args(args))
    }

    fn read(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.project.join(path)).ok()
    }

    fn write(&self, path: &str, content: &str) -> Result<()> {
        let file = self.project.join(path);
        create_parent(&file)?;
        fs::write(&file, content).with_context(|| format!("cannot write {path}"))
    }

    /// Creates a file that a command of the story would have created, because commands are not run.
    fn create_missing(&self, path: &str) -> Result<()> {
        if self.project.join(path).exists() { Ok(()) } else { self.write(path, "created by a command\n") }
    }

    /// Applies an event. Returns the tool call that reports it, or `None` if it is not a tool call.
    pub fn apply(&mut self, event: &Event) -> Result<Option<ToolCall>> {
        let shell =
            |command: String, output: String| ToolCall::Shell { command, exit: 0, output, folder: None };
        Ok(Some(match event {
            Event::Prompt(_) | Event::Say(_) | Event::Compact => return Ok(None),
            Event::Shell { command, exit, output, folder } => {
                if let Some(folder) = folder {
                    fs::create_dir_all(self.project.join(folder))?;
                }
                ToolCall::Shell {
                    command: command.clone(),
                    exit: *exit,
                    output: output.clone(),
                    folder: folder.clone(),
                }
            }
            Event::Edit(path) => {
                self.edits += 1;
                let before = self.read(path);
                let after = format!("{}change {}\n", before.as_deref().unwrap_or_default(), self.edits);
                self.write(path, &after)?;
                ToolCall::Edit { path: path.clone(), before, after }
            }
            Event::Read(path) => {
                ToolCall::Read { path: path.clone(), content: self.read(path).unwrap_or_default() }
            }
            Event::Search(pattern) => ToolCall::Search(pattern.clone()),
            Event::Delete(path) => {
                self.create_missing(path)?;
                let file = self.project.join(path);
                let is_folder = file.is_dir();
                if is_folder { fs::remove_dir_all(&file) } else { fs::remove_file(&file) }
                    .with_context(|| format!("cannot delete {path}"))?;
                shell(format!("rm {}{}", if is_folder { "-r " } else { "" }, quoted(path)), String::new())
            }
            Event::Rename(from, to) => {
                self.create_missing(from)?;
                let target = self.project.join(to);
                create_parent(&target)?;
                let is_tracked = self.git(&["ls-files", "--error-unmatch", "--", from]).is_ok();
                let program = if is_tracked {
                    self.git(&["mv", "--", from, to])?;
                    "git mv"
                } else {
                    fs::rename(self.project.join(from), target)
                        .with_context(|| format!("cannot rename {from}"))?;
                    "mv"
                };
                shell(format!("{program} {} {}", quoted(from), quoted(to)), String::new())
            }
            Event::Commit(message) => {
                self.git(&["add", "-A"])?;
                let said = self.git(&["commit", "--allow-empty", "-m", message])?;
                shell(format!("git add -A && git commit -m {}", quoted(message)), said)
            }
            Event::Branch(name) => {
                self.git(&["checkout", "-q", "-b", name])?;
                shell(
                    format!("git checkout -b {}", quoted(name)),
                    format!("Switched to a new branch '{name}'"),
                )
            }
            Event::Todo(list) => ToolCall::Todo(list.clone()),
            Event::Plan { text, approved } => ToolCall::Plan { text: text.clone(), approved: *approved },
            Event::Ask { question, options, answer } => {
                ToolCall::Ask { question: question.clone(), options: options.clone(), answer: answer.clone() }
            }
        }))
    }
}

/// Creates the folder that contains a file.
pub fn create_parent(file: &Path) -> Result<()> {
    let folder = file.parent().context("a file has no folder")?;
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))
}
