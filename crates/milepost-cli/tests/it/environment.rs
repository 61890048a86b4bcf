//! An isolated environment for one test: temporary folders, no inherited variables, and the real binary.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

/// A temporary folder that contains a home folder and a project folder.
pub(crate) struct TestEnvironment {
    root: tempfile::TempDir,
    variables: Vec<(String, String)>,
}

/// The result of a command.
#[derive(Debug)]
pub(crate) struct Ran {
    /// Exit code, or -1 if a signal ended the command.
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    /// Asserts the exit code.
    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:#?}");
        self
    }

    /// Parses stdout, which must be a single line of JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.stdout.lines().count(), 1, "one document: {self:#?}");
        serde_json::from_str(&self.stdout).unwrap_or_else(|e| panic!("{e}: {self:#?}"))
    }

    /// Returns the reason code from the last line of stderr. Asserts that the line's `exit` is the
    /// process's exit code.
    #[track_caller]
    pub(crate) fn reason(&self) -> String {
        let last = self.stderr.lines().last().unwrap_or_else(|| panic!("{self:#?}"));
        let line: Value = serde_json::from_str(last).unwrap_or_else(|e| panic!("{e}: {self:#?}"));
        assert_eq!(line["type"], "error");
        assert_eq!(line["exit"], self.code);
        assert!(line["message"].is_string() && line.get("hint").is_some(), "{line}");
        line["reason_code"].as_str().unwrap().to_owned()
    }

    /// The first line of stdout.
    pub(crate) fn line(&self) -> &str {
        self.stdout.lines().next().unwrap_or_default()
    }
}

impl TestEnvironment {
    /// Creates a project outside any git repository.
    pub(crate) fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        for folder in ["home", "project"] {
            std::fs::create_dir(root.path().join(folder)).unwrap();
        }
        let mut env = Self { root, variables: Vec::new() };
        crate::server::default_store().iter().for_each(|(name, value)| env.set(name, value));
        env
    }

    /// Creates a project that is a git repository with one commit.
    pub(crate) fn repository() -> Self {
        let env = Self::new();
        env.git(&["init", "-q", "-b", "main"]);
        env.git(&["-c", "user.name=t", "-c", "user.email=t@t", "commit", "-q", "--allow-empty", "-m", "one"]);
        env
    }

    /// Sets an environment variable for all later commands.
    pub(crate) fn set(&mut self, name: &str, value: &str) {
        self.variables.push((name.into(), value.into()));
    }

    /// The variables that select a store on a server, if the tests run on one.
    pub(crate) fn store_variables(&self) -> impl Iterator<Item = (&String, &String)> {
        let selects =
            |name: &String| ["MILEPOST_STORE", "MILEPOST_TRUST", "PGPASSWORD"].contains(&name.as_str());
        self.variables.iter().filter(move |(name, _)| selects(name)).map(|(name, value)| (name, value))
    }

    /// Returns a path in the temporary folder, next to the project.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.path().canonicalize().unwrap().join(name)
    }

    pub(crate) fn project(&self) -> PathBuf {
        self.path("project")
    }

    /// Writes a file in the project folder and returns its path.
    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.project().join(name);
        #[allow(clippy::disallowed_methods, reason = "a test's own file")]
        std::fs::write(&path, content).unwrap();
        path
    }

    fn prepare(&self, program: &str, dir: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir(dir).env_clear().stdin(Stdio::null());
        command.env("PATH", "/usr/local/bin:/usr/bin:/bin").env("USER", "tester");
        command.env("HOME", self.path("home")).env("GIT_CONFIG_NOSYSTEM", "1");
        command.envs(self.variables.iter().map(|(k, v)| (k, v)));
        command
    }

    /// Prepares another program to run in the project.
    pub(crate) fn program(&self, name: &str) -> Command {
        self.prepare(name, &self.project())
    }

    /// Prepares the binary to run in the project.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = self.prepare(env!("CARGO_BIN_EXE_milepost"), &self.project());
        command.args(args);
        command
    }

    /// Runs the binary in the project.
    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        self.run_in(&self.project(), args)
    }

    /// Runs the binary in `dir`.
    pub(crate) fn run_in(&self, dir: &Path, args: &[&str]) -> Ran {
        let mut command = self.command(args);
        finished(command.current_dir(dir), None)
    }

    /// Runs the binary with additional environment variables.
    pub(crate) fn run_with(&self, variables: &[(&str, &str)], args: &[&str]) -> Ran {
        finished(self.command(args).envs(variables.iter().copied()), None)
    }

    /// Runs the binary with `stdin` as its input.
    pub(crate) fn run_on(&self, stdin: &[u8], args: &[&str]) -> Ran {
        finished(self.command(args).stdin(Stdio::piped()), Some(stdin))
    }

    /// Runs the binary with `--json`, asserts success and returns the document.
    #[track_caller]
    pub(crate) fn json(&self, args: &[&str]) -> Value {
        let mut args = args.to_vec();
        args.push("--json");
        self.run(&args).exits(0).json()
    }

    /// Runs `save` and returns the id of the checkpoint.
    #[track_caller]
    pub(crate) fn save(&self, args: &[&str]) -> String {
        let args: Vec<_> = std::iter::once("save").chain(args.iter().copied()).collect();
        self.run(&args).exits(0).line().to_owned()
    }

    /// The user's state folder.
    pub(crate) fn state(&self) -> milepost::internal::trust::UserState {
        milepost::internal::trust::UserState::at(self.path("home/.local/state/milepost")).unwrap()
    }

    /// The outbox of the repository's store, which signs its entries with the user's key.
    pub(crate) fn outbox(&self) -> milepost::internal::engine::Outbox {
        let store = milepost::store::StoreUrl::sqlite(self.project().join(".git/milepost/milepost.db"));
        let key = self.state().create_key().unwrap();
        let folder = self.project().join(".milepost/outbox");
        milepost::internal::engine::Outbox::new(folder, &store, Some(key))
    }

    /// Trusts the project's settings and stores in all later commands.
    pub(crate) fn trust_project(&mut self) {
        let project = self.project().to_string_lossy().into_owned();
        self.set("MILEPOST_TRUST", &project);
    }

    /// Runs git in the project and asserts success.
    #[track_caller]
    pub(crate) fn git(&self, args: &[&str]) {
        let ran = finished(self.prepare("git", &self.project()).args(args), None);
        assert_eq!(ran.code, 0, "git {args:?}: {ran:#?}");
    }

    /// Replaces ids, ages and temporary paths with placeholders, and collapses blanks between columns.
    pub(crate) fn plain(&self, text: &str) -> String {
        let text = text.replace(&*self.path("").to_string_lossy(), "[ROOT]/");
        let words = |line: &str| {
            let line = line.replace("just now", "AGO");
            let shown = line.split_whitespace().map(plain_word).collect::<Vec<_>>().join(" ");
            let indent = line.len() - line.trim_start().len();
            format!("{}{shown}", " ".repeat(indent))
        };
        text.lines().map(|line| words(line).trim_end().to_owned()).collect::<Vec<_>>().join("\n")
    }
}

fn plain_word(word: &str) -> String {
    for (start, length, name) in [("cp_2", 35, "CP"), ("run_2", 29, "RUN")] {
        if word.starts_with(start) && word.len() >= length {
            return format!("{name}{}", &word[length..]);
        }
    }
    // Words that have the form of a short id.
    const WORDS: [&str; 3] = ["branches", "database", "expected"];
    let is_short = |text: &str| {
        matches!(text.len(), 8 | 12)
            && text.chars().all(|c| "0123456789abcdefghjkmnpqrstvwxyz".contains(c))
            && !WORDS.contains(&text)
    };
    let end = word.find(['@', '`']).unwrap_or(word.len());
    if is_short(&word[..end]) { format!("ID{}", &word[end..]) } else { word.to_owned() }
}

pub(crate) fn finished(command: &mut Command, stdin: Option<&[u8]>) -> Ran {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let writer = stdin.zip(child.stdin.take()).map(|(bytes, mut pipe)| {
        let bytes = bytes.to_vec();
        // A write error is ignored, because a command may stop reading early.
        std::thread::spawn(move || drop(pipe.write_all(&bytes)))
    });
    let output = child.wait_with_output().unwrap();
    if let Some(writer) = writer {
        writer.join().unwrap();
    }
    Ran {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}
