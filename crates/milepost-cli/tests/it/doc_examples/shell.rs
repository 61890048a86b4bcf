//! A shell in a temporary project that runs the commands of a page in order. Its working directory and
//! variables persist between commands.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use regex::Regex;
use rustix::process::{Pid, Signal, kill_process_group};
use tempfile::TempDir;

use super::repository;

/// Reads the path of a file of commands, runs it in this shell, and prints the exit code of the last one.
const LOOP: &str =
    r#"while IFS= read -r _file; do . "$_file" </dev/null >>"$_file.out" 2>&1; echo "$?"; done"#;

/// Maximum time for a command.
const TIMEOUT: Duration = Duration::from_secs(60);

const GIT_CONFIG: &str = "[user]\n\tname = Ada\n\temail = ada@example.org\n[init]\n\tdefaultBranch = main\n";
const GIT_DATE: &str = "2026-11-15T12:00:00Z";
const GIT_SETUP: &str = "git init -q && git commit -q --allow-empty -m 'Start the project'";

/// A project in `~/app`, and a shell in it.
pub(super) struct Shell {
    home: TempDir,
    /// The file of commands and their output; not in the home folder, where commands could see it.
    control: TempDir,
    child: Child,
    stdin: ChildStdin,
    exit_codes: Receiver<i32>,
    last_exit: i32,
}

/// The output of a command and its exit code.
pub(super) struct Output {
    pub(super) text: String,
    pub(super) exit: i32,
}

impl Shell {
    pub(super) fn new(git: bool) -> Result<Self, String> {
        let home = short_tempdir();
        let control = tempfile::tempdir().unwrap();
        let path = home.path().canonicalize().unwrap();
        std::fs::create_dir_all(path.join("app")).unwrap();
        std::fs::create_dir_all(path.join(".local/bin")).unwrap();
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_milepost"), path.join(".local/bin/milepost")).unwrap();
        write(&path.join(".gitconfig"), GIT_CONFIG);
        let mut child = Command::new("sh")
            .args(["-c", LOOP])
            .current_dir(path.join("app"))
            .env_clear()
            .envs(variables(&path))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        let stdin = child.stdin.take().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, exit_codes) = channel();
        std::thread::spawn(move || {
            let codes = stdout.lines().map_while(Result::ok).filter_map(|line| line.parse().ok());
            codes.take_while(|code| sender.send(*code).is_ok()).for_each(drop);
        });
        let mut shell = Self { home, control, child, stdin, exit_codes, last_exit: 0 };
        if git {
            let made = shell.run(GIT_SETUP)?;
            assert_eq!(made.exit, 0, "{}", made.text);
        }
        Ok(shell)
    }

    /// The home folder, with links resolved.
    fn home(&self) -> PathBuf {
        self.home.path().canonicalize().unwrap()
    }

    /// Writes a file into the project.
    pub(super) fn write_file(&self, name: &str, content: &str) {
        let path = self.home().join("app").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        write(&path, content);
    }

    /// Runs a command until it ends. Returns an error if it does not end, or if it ends the shell.
    pub(super) fn run(&mut self, command: &str) -> Result<Output, String> {
        let file = self.control.path().join("command");
        // The first line gives the command the exit code of the previous one.
        write(&file, &format!("(exit {})\n{command}\n", self.last_exit));
        write(&self.control.path().join("command.out"), "");
        // Writing fails if the shell has ended. In that case no exit code arrives either.
        drop(writeln!(self.stdin, "{}", file.display()));
        let exit = self.exit_codes.recv_timeout(TIMEOUT);
        let text = std::fs::read(self.control.path().join("command.out")).unwrap();
        let text = self.as_shown(&String::from_utf8_lossy(&text));
        match exit {
            Ok(exit) => {
                self.last_exit = exit;
                Ok(Output { text, exit })
            }
            Err(RecvTimeoutError::Disconnected) => Err(format!("it ended the shell\n{text}")),
            Err(RecvTimeoutError::Timeout) => {
                Err(format!("it did not end within {} s\n{text}", TIMEOUT.as_secs()))
            }
        }
    }

    /// The output as a page shows it: the home folder is `~`, even in a path that is truncated at its start,
    /// and the shell's own messages do not name the command file.
    fn as_shown(&self, text: &str) -> String {
        let file = regex::escape(&self.control.path().join("command").to_string_lossy());
        let own_messages =
            Regex::new(&format!(r"(?m)^(?:sh: \d+: (?:{file}: )?|{file}: line \d+: )")).unwrap();
        let home = self.home().to_string_lossy().into_owned();
        let binary = Path::new(env!("CARGO_BIN_EXE_milepost")).canonicalize().unwrap();
        let text = own_messages.replace_all(text, "sh: ");
        let text = text.replace(&*binary.to_string_lossy(), "~/.local/bin/milepost");
        let mut text: String =
            text.split_inclusive('\n').map(|line| with_home_as_tilde(line, &home)).collect();
        for start in 1..home.len() {
            text = text.replace(&format!("…{}/", &home[start..]), "…/");
        }
        text
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // Background processes of the page belong to the group.
        if let Some(group) = Pid::from_raw(self.child.id().cast_signed()) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        drop(self.child.wait());
    }
}

/// Replaces the home folder in a line. Columns after it stay aligned.
fn with_home_as_tilde(line: &str, home: &str) -> String {
    let Some((before, after)) = line.split_once(home) else { return line.to_owned() };
    let after = with_home_as_tilde(after, home);
    let column = after.find("  ").unwrap_or(0);
    let lost = if column > 0 { home.len() - 1 } else { 0 };
    format!("{before}~{}{:lost$}{}", &after[..column], "", &after[column..])
}

/// A folder whose path has the same length on every machine, because tables are fitted to the screen width.
fn short_tempdir() -> TempDir {
    tempfile::Builder::new().prefix("mp-").rand_bytes(6).tempdir_in("/tmp").unwrap()
}

/// Folders of the programs that examples may use.
const FOLDERS: [&str; 3] = ["/usr/local/bin", "/usr/bin", "/bin"];

/// Whether examples can use a program.
pub(super) fn has_program(name: &str) -> bool {
    FOLDERS.iter().any(|folder| Path::new(folder).join(name).is_file())
}

fn variables(home: &Path) -> Vec<(&'static str, String)> {
    let below = |folder: &str| home.join(folder).to_string_lossy().into_owned();
    let mut variables = vec![
        ("PATH", format!("{}:{}", below(".local/bin"), FOLDERS.join(":"))),
        ("HOME", home.to_string_lossy().into_owned()),
        ("XDG_CONFIG_HOME", below(".config")),
        ("XDG_STATE_HOME", below(".local/state")),
        ("XDG_DATA_HOME", below(".local/share")),
        ("XDG_CACHE_HOME", below(".cache")),
        // For set-up commands that use files of the repository.
        ("REPOSITORY", repository().to_string_lossy().into_owned()),
    ];
    let fixed = [
        ("USER", "ada"),
        ("LOGNAME", "ada"),
        ("LC_ALL", "C.UTF-8"),
        ("TZ", "UTC"),
        ("COLUMNS", "80"),
        ("NO_COLOR", "1"),
        ("GIT_CONFIG_NOSYSTEM", "1"),
        ("GIT_AUTHOR_DATE", GIT_DATE),
        ("GIT_COMMITTER_DATE", GIT_DATE),
    ];
    variables.extend(fixed.map(|(name, value)| (name, value.to_owned())));
    variables
}

fn write(path: &Path, content: &str) {
    #[allow(clippy::disallowed_methods, reason = "a test's own file")]
    std::fs::write(path, content).unwrap();
}
