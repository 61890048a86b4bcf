//! A project in its own folder; runs the binary in it and checks the results.
//! A command that does not end within a minute is killed and reported as hung.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use milepost::internal::trust::UserState;
use milepost::store::OpenOptions;
use serde_json::Value;
use tempfile::TempDir;

use super::Environment;

/// Which store a project uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreKind {
    Sqlite,
    Files,
}

/// A project folder, with or without a store.
pub struct Project {
    milepost: PathBuf,
    state: PathBuf,
    pub folder: PathBuf,
    pub kind: StoreKind,
    /// The folder with the user's settings, if any.
    settings: Option<TempDir>,
    /// Whether the settings name the store, instead of a flag on each command.
    store_in_settings: bool,
    _own: Option<TempDir>,
}

/// The result of a command.
#[derive(Debug)]
pub struct CommandOutput {
    pub line: String,
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
    pub duration: Duration,
}

/// A temporary folder on a disk, outside the repository, whose own store would be found.
pub fn scratch_folder() -> Result<TempDir> {
    let folder = if Path::new("/var/tmp").is_dir() { "/var/tmp".into() } else { std::env::temp_dir() };
    tempfile::Builder::new()
        .prefix("milepost-faults-")
        .tempdir_in(folder)
        .context("cannot create a scratch folder")
}

impl Project {
    /// A project in a new temporary folder.
    pub fn new(env: &Environment, kind: StoreKind) -> Result<Self> {
        let own = scratch_folder()?;
        let mut project = Self::at(env, kind, own.path());
        project._own = Some(own);
        Ok(project)
    }

    /// A project in a folder that the caller owns and removes.
    pub fn at(env: &Environment, kind: StoreKind, folder: &Path) -> Self {
        Self {
            milepost: env.milepost.clone(),
            state: env.state.clone(),
            folder: folder.to_owned(),
            kind,
            settings: None,
            store_in_settings: false,
            _own: None,
        }
    }

    /// Writes a configuration file for the user.
    pub fn with_settings(mut self, toml: &str) -> Result<Self> {
        let folder = scratch_folder()?;
        std::fs::create_dir(folder.path().join("milepost"))?;
        std::fs::write(folder.path().join("milepost/config.toml"), toml)?;
        self.settings = Some(folder);
        Ok(self)
    }

    /// Names the store in the user's settings, so that commands check whether it is trusted.
    pub fn with_store_in_settings(mut self) -> Result<Self> {
        self.store_in_settings = true;
        let url = self.url();
        self.with_settings(&format!("store = {url:?}\n"))
    }

    /// Uses another state folder, for example of a user who has never run the program.
    pub fn with_state(mut self, state: &Path) -> Self {
        self.state = state.to_owned();
        self
    }

    /// The folder with the store's files.
    pub fn store(&self) -> PathBuf {
        self.folder.join(if self.kind == StoreKind::Sqlite { ".milepost" } else { "store" })
    }

    /// The store's address.
    pub fn url(&self) -> String {
        match self.kind {
            StoreKind::Sqlite => format!("sqlite:{}", self.store().join("milepost.db").display()),
            StoreKind::Files => format!("files:{}", self.store().display()),
        }
    }

    /// Options for opening the store through the library as the user who runs the binary.
    pub fn options(&self, create: bool) -> Result<OpenOptions> {
        let user_state = Some(UserState::at(self.state.join("milepost"))?);
        Ok(OpenOptions::new().create(create).user_state(user_state))
    }

    /// A command that runs the binary in the project, as an argument of the program `before` if there is one.
    pub fn command(&self, before: &[&str], args: &[&str]) -> Command {
        let mut words: Vec<String> = before.iter().map(|w| (*w).to_owned()).collect();
        words.push(self.milepost.display().to_string());
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).arg("-C").arg(&self.folder);
        if self.kind == StoreKind::Files && !self.store_in_settings {
            command.arg("--store").arg(self.url());
        }
        command.args(args).stdin(Stdio::null()).env("HOME", "/nonexistent").env("TZ", "UTC");
        command.env("XDG_STATE_HOME", &self.state);
        for name in ["XDG_CONFIG_HOME", "MILEPOST_STORE", "MILEPOST_RUN", "MILEPOST_SESSION"] {
            command.env_remove(name);
        }
        if let Some(settings) = &self.settings {
            command.env("XDG_CONFIG_HOME", settings.path());
        }
        command
    }

    /// Runs a command to completion.
    pub fn run(&self, args: &[&str]) -> Result<CommandOutput> {
        self.run_wrapped(&[], args)
    }

    /// Runs a command to completion, as an argument of the program `before`.
    pub fn run_wrapped(&self, before: &[&str], args: &[&str]) -> Result<CommandOutput> {
        let guard: Vec<&str> = ["timeout", "--signal=KILL", "60"].iter().chain(before).copied().collect();
        run_command(self.command(&guard, args), args)
    }

    /// Saves and returns the id.
    pub fn save(&self, args: &[&str]) -> Result<String> {
        let all: Vec<&str> = ["save", "--no-capture"].iter().chain(args).copied().collect();
        Ok(self.run(&all)?.expect(0)?.stdout.trim().to_owned())
    }

    /// All listed checkpoints, newest first.
    pub fn list(&self) -> Result<Vec<Value>> {
        let output = self.run(&["list", "--limit", "0", "--json"])?.expect(0)?;
        Ok(output.json()?["checkpoints"].as_array().cloned().unwrap_or_default())
    }

    /// The ids of all listed checkpoints.
    pub fn ids(&self) -> Result<BTreeSet<String>> {
        Ok(self.list()?.iter().map(|c| text(c, "snapshot_id")).collect())
    }

    /// Checks that the store verifies and that every acknowledged checkpoint is listed. Returns the number
    /// listed.
    pub fn check_acknowledged(&self, acknowledged: &[String]) -> Result<usize> {
        self.run(&["verify"])?.expect(0)?;
        let ids = self.ids()?;
        let lost: Vec<_> = acknowledged.iter().filter(|id| !ids.contains(*id)).collect();
        ensure!(
            lost.is_empty(),
            "{} of {} acknowledged checkpoints are lost: {lost:?}",
            lost.len(),
            acknowledged.len()
        );
        Ok(ids.len())
    }

    /// Temporary files anywhere in the project.
    pub fn temporary_files(&self) -> Result<Vec<PathBuf>> {
        let mut found = Vec::new();
        walk(&self.folder, &mut |path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if name.contains("milepost-tmp") || name.ends_with(".tmp") {
                found.push(path.to_owned());
            }
        })?;
        Ok(found)
    }
}

/// Runs a command to completion. Fails if it hangs, panics or is killed by a signal.
pub fn run_command(mut command: Command, args: &[&str]) -> Result<CommandOutput> {
    let start = Instant::now();
    let output = command.output().with_context(|| format!("cannot start {command:?}"))?;
    let line = args.join(" ");
    let took = start.elapsed();
    let Some(code) = output.status.code() else { bail!("`{line}` ended with {}", output.status) };
    let [stdout, stderr] =
        [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    let output = CommandOutput { line, code, stdout, stderr, duration: took };
    ensure!(output.code != 137 || took < Duration::from_secs(59), "`{}` hung", output.line);
    ensure!(output.code != 101, "`{}` panicked: {}", output.line, output.stderr);
    Ok(output)
}

impl CommandOutput {
    /// Fails unless the exit code is `code`.
    pub fn expect(self, code: i32) -> Result<Self> {
        self.expect_one_of(&[code])
    }

    /// Fails unless the exit code is one of `codes`.
    pub fn expect_one_of(self, codes: &[i32]) -> Result<Self> {
        if !codes.contains(&self.code) {
            bail!("`{}` exited with {}, not {codes:?}: {}", self.line, self.code, self.stderr.trim());
        }
        Ok(self)
    }

    /// Fails unless the last line of stderr is JSON with one of these reason codes.
    pub fn expect_reason(self, reasons: &[&str]) -> Result<Self> {
        let last: Value =
            serde_json::from_str(self.stderr.lines().last().unwrap_or_default()).unwrap_or_default();
        let found = last["reason_code"].as_str().unwrap_or("none").to_owned();
        if !reasons.contains(&found.as_str()) {
            bail!("`{}` has the reason code {found}, not {reasons:?}: {}", self.line, self.stderr.trim());
        }
        Ok(self)
    }

    /// Parses stdout as one JSON document.
    pub fn json(&self) -> Result<Value> {
        serde_json::from_str(&self.stdout)
            .with_context(|| format!("`{}` printed no JSON: {:?}", self.line, self.stdout))
    }
}

/// A string member of a JSON object, or an empty string.
pub fn text(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or_default().to_owned()
}

/// Calls `seen` with every file under a folder.
pub fn walk(folder: &Path, seen: &mut dyn FnMut(&Path)) -> Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() && !path.is_symlink() {
            walk(&path, seen)?;
        } else {
            seen(&path);
        }
    }
    Ok(())
}

/// A pseudo-random number generator with a known seed.
pub struct Rng(pub u64);

impl Rng {
    /// The next number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (x ^ (x >> 31)) % bound.max(1)
    }

    /// Letters that do not compress well.
    pub fn letters(&mut self, length: usize) -> String {
        (0..length)
            .map(|_| {
                char::from(
                    b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
                        [self.below(64) as usize],
                )
            })
            .collect()
    }
}
