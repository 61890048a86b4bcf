//! Runs git on a repository and returns its output, within limits of time and size. Nothing else runs git.
//! A repository is untrusted: git must not run a program or access a network, regardless of the repository's
//! configuration. The user's own settings (global, system, environment) apply unless they run programs.

mod drivers;
mod executable;
mod process;
mod repository_check;

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::{self, BufRead, Read as _};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

pub(crate) use process::GitOutput;

use crate::store::Repository;

/// Settings that keep git from running programs, accessing a network, or inspecting submodules.
const SAFE_SETTINGS: [&str; 31] = [
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.untrackedCache=keep",
    "core.sshCommand=false",
    "core.gitProxy=",
    "core.askPass=",
    "core.editor=:",
    "sequence.editor=:",
    "core.pager=cat",
    "core.alternateRefsCommand=",
    "credential.helper=",
    "protocol.allow=never",
    "diff.external=",
    "diff.orderFile=/dev/null",
    "diff.submodule=short",
    "diff.ignoreSubmodules=dirty",
    "status.submoduleSummary=false",
    "submodule.recurse=false",
    "commit.gpgSign=false",
    "tag.gpgSign=false",
    "log.showSignature=false",
    "gpg.program=false",
    "gpg.openpgp.program=false",
    "gpg.x509.program=false",
    "gpg.ssh.program=false",
    "gpg.ssh.defaultKeyCommand=",
    "gc.auto=0",
    "gc.recentObjectsHook=",
    "maintenance.auto=false",
    "uploadpack.packObjectsHook=",
    // A folder with the layout of a bare repository is not used as one.
    "safe.bareRepository=explicit",
];

/// Environment variables with the same purpose as `SAFE_SETTINGS`. Some of them override any setting.
const SAFE_VARIABLES: [(&str, &str); 12] = [
    ("LC_ALL", "C"),
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_TERMINAL_PROMPT", "0"),
    // Do not fetch the missing objects of a partial clone.
    ("GIT_NO_LAZY_FETCH", "1"),
    // Older versions do not support the variable above, so all transports are disabled too.
    ("GIT_ALLOW_PROTOCOL", "none"),
    ("GIT_PROTOCOL_FROM_USER", "0"),
    ("GIT_SSH_COMMAND", "false"),
    ("GIT_ASKPASS", ""),
    ("GIT_PAGER", "cat"),
    ("GIT_EDITOR", ":"),
    ("GIT_SEQUENCE_EDITOR", ":"),
    ("GIT_MERGE_AUTOEDIT", "no"),
];

/// Variables that redirect git to another repository, as in a git hook, or make it run or write something.
const REMOVED_VARIABLES: [&str; 49] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_COMMON_DIR",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_DISCOVERY_ACROSS_FILESYSTEM",
    "GIT_NAMESPACE",
    "GIT_PREFIX",
    "GIT_CONFIG",
    "GIT_GRAFT_FILE",
    "GIT_SHALLOW_FILE",
    "GIT_REPLACE_REF_BASE",
    "GIT_NO_REPLACE_OBJECTS",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_INTERNAL_SUPER_PREFIX",
    "GIT_QUARANTINE_PATH",
    "GIT_ATTR_SOURCE",
    "GIT_LITERAL_PATHSPECS",
    "GIT_GLOB_PATHSPECS",
    "GIT_NOGLOB_PATHSPECS",
    "GIT_ICASE_PATHSPECS",
    "GIT_DEFAULT_HASH",
    "GIT_DEFAULT_REF_FORMAT",
    "GIT_REF_STORAGE_FORMAT",
    "GIT_REFLOG_ACTION",
    "GIT_EXTERNAL_DIFF",
    "GIT_DIFF_OPTS",
    "GIT_SSH",
    "GIT_SSH_VARIANT",
    "GIT_PROXY_COMMAND",
    "SSH_ASKPASS",
    "GIT_REDIRECT_STDIN",
    "GIT_REDIRECT_STDOUT",
    "GIT_REDIRECT_STDERR",
    "GIT_TRACE",
    "GIT_TRACE_CURL",
    "GIT_TRACE_FSMONITOR",
    "GIT_TRACE_PACKET",
    "GIT_TRACE_PACKFILE",
    "GIT_TRACE_PACK_ACCESS",
    "GIT_TRACE_PERFORMANCE",
    "GIT_TRACE_REFS",
    "GIT_TRACE_SETUP",
    "GIT_TRACE_SHALLOW",
    "GIT_TRACE2",
    "GIT_TRACE2_BRIEF",
    "GIT_TRACE2_EVENT",
    "GIT_TRACE2_PERF",
];

/// Why git did not return a result.
#[derive(Debug)]
pub(crate) enum GitError {
    /// The program was not found.
    NotInstalled,
    /// Git could not be started, or its output could not be read.
    Io(io::Error),
    /// Git did not finish before the deadline and was terminated.
    TooSlow,
    /// Git printed more than this number of bytes and was terminated.
    TooLarge(u64),
    /// Git must not run on this repository, or refuses to, for this reason.
    Refused(String),
}

impl fmt::Display for GitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotInstalled => {
                f.write_str("git is not installed, or not in an absolute PATH folder outside the project")
            }
            Self::Io(e) => write!(f, "cannot run git: {e}"),
            Self::TooSlow => f.write_str("git took too long"),
            Self::TooLarge(limit) => write!(f, "git printed more than {limit} bytes"),
            Self::Refused(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for GitError {}

/// Git on one repository.
#[derive(Debug, Clone)]
pub(crate) struct Git {
    repository: Repository,
    program: executable::Executable,
    /// Settings that override the repository's own.
    overrides: Vec<(OsString, OsString)>,
}

impl Git {
    /// Prepares to run git. Starts no process unless the repository belongs to another user or its
    /// configuration may define filters or hooks.
    pub(crate) fn new(repository: &Repository, deadline: Instant) -> Result<Self, GitError> {
        let program = executable::find_git(repository).ok_or(GitError::NotInstalled)?;
        repository_check::check_readable(repository)?;
        let mut git = Self { repository: repository.clone(), program, overrides: Vec::new() };
        if belongs_to_another_user(repository) {
            git.check_owner_is_trusted(deadline)?;
        }
        if drivers::may_be_defined(repository) {
            git.overrides = drivers::overrides(&git, deadline)?;
        }
        Ok(git)
    }

    /// Runs a subcommand. `read` processes its output.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        args: impl IntoIterator<Item = impl AsRef<OsStr>>,
        deadline: Instant,
        read: impl FnOnce(&mut dyn BufRead) -> io::Result<T> + Send + 'static,
    ) -> Result<GitOutput<T>, GitError> {
        let mut command = self.command(true, true);
        command.args(args);
        process::run(&mut command, None, deadline, read)
    }

    /// Like `run`, but writes `input` to the standard input of git.
    pub(crate) fn run_with_input<T: Send + 'static>(
        &self,
        args: impl IntoIterator<Item = impl AsRef<OsStr>>,
        input: Vec<u8>,
        deadline: Instant,
        read: impl FnOnce(&mut dyn BufRead) -> io::Result<T> + Send + 'static,
    ) -> Result<GitOutput<T>, GitError> {
        let mut command = self.command(true, true);
        command.args(args);
        process::run(&mut command, Some(input), deadline, read)
    }

    /// Returns the paths among these that git ignores and does not track.
    pub(crate) fn ignored<'a>(
        &self,
        paths: impl Iterator<Item = &'a [u8]>,
        deadline: Instant,
    ) -> Result<BTreeSet<Vec<u8>>, GitError> {
        /// Keeps a path that starts with a colon from being a pattern.
        const HERE: &[u8] = b"./";
        let input: Vec<u8> = paths.flat_map(|path| [HERE, path, b"\0"].concat()).collect();
        if input.is_empty() {
            return Ok(BTreeSet::new());
        }
        // `check-ignore` refuses literal paths.
        let mut command = self.command(true, false);
        command.args(["check-ignore", "-z", "--stdin"]);
        let read = |out: &mut dyn BufRead| {
            let mut bytes = Vec::new();
            out.read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        let done = process::run(&mut command, Some(input), deadline, read)?;
        // Exit code 1 means that no path is ignored.
        if !done.status.success() && done.status.code() != Some(1) {
            return Err(GitError::Refused(done.stderr.unwrap_or_else(|| "git check-ignore failed".into())));
        }
        let listed = done.output.split(|byte| *byte == 0).filter_map(|path| path.strip_prefix(HERE));
        Ok(listed.map(<[u8]>::to_vec).collect())
    }

    /// Runs a subcommand and returns its output. Fails if the output is larger than `limit` bytes.
    pub(crate) fn output(
        &self,
        args: impl IntoIterator<Item = impl AsRef<OsStr>>,
        deadline: Instant,
        limit: u64,
    ) -> Result<GitOutput<Vec<u8>>, GitError> {
        let read = move |out: &mut dyn BufRead| {
            let mut bytes = Vec::new();
            out.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
            if bytes.len() as u64 > limit {
                return Err(io::ErrorKind::FileTooLarge.into());
            }
            Ok(bytes)
        };
        self.run(args, deadline, read).map_err(|e| match e {
            GitError::Io(e) if e.kind() == io::ErrorKind::FileTooLarge => GitError::TooLarge(limit),
            other => other,
        })
    }

    /// Refuses a git directory with symbolic links that would redirect the writes of a commit.
    pub(crate) fn check_writable(&self) -> Result<(), GitError> {
        repository_check::check_writable(&self.repository)
    }

    /// Builds every git command. With `explicit`, the command names the git directory. Without it, git
    /// searches only the worktree's root and decides itself whether to trust the owner. With `literal`, paths
    /// are not patterns.
    fn command(&self, explicit: bool, literal: bool) -> Command {
        let repository = &self.repository;
        let worktree = repository.worktree();
        let mut command = Command::new(&self.program.path);
        command.current_dir(worktree).env("PATH", &self.program.search_path);
        for name in REMOVED_VARIABLES {
            command.env_remove(name);
        }
        command.envs(SAFE_VARIABLES);
        command.env("GIT_CEILING_DIRECTORIES", worktree.parent().unwrap_or(worktree));
        if explicit {
            command.arg(path_option("--git-dir=", repository.git_dir()));
            command.arg(path_option("--work-tree=", worktree));
            if repository.common_dir() != repository.git_dir() {
                command.env("GIT_COMMON_DIR", repository.common_dir());
            }
        }
        command.args(["--no-optional-locks", "--no-pager"]);
        if literal {
            command.arg("--literal-pathspecs");
        }
        for setting in SAFE_SETTINGS {
            command.args(["-c", setting]);
        }
        // Driver names may contain `=`, which `-c` would treat as the end of the key.
        for (n, (key, value)) in self.overrides.iter().enumerate() {
            let variable = format!("MILEPOST_GIT_VALUE_{n}");
            let mut setting = OsString::from("--config-env=");
            setting.push(key);
            setting.push("=");
            setting.push(&variable);
            command.arg(setting).env(variable, value);
        }
        command
    }

    /// Checks whether git trusts a repository of another user (`safe.directory`). Git checks this only when
    /// it searches for the git directory.
    fn check_owner_is_trusted(&self, deadline: Instant) -> Result<(), GitError> {
        let mut command = self.command(false, true);
        command.args(["rev-parse", "--git-dir"]);
        let done = process::run(&mut command, None, deadline, |out| io::copy(out, &mut io::sink()))?;
        if done.status.success() {
            return Ok(());
        }
        let why = done.stderr.unwrap_or_else(|| "git does not trust the repository's owner".to_owned());
        Err(GitError::Refused(why))
    }
}

/// Whether a text is an object name, complete or abbreviated, which git cannot mistake for an option or
/// another expression. Text from a record or a file is passed to git only if it is one.
pub(crate) fn is_object_name(text: &str) -> bool {
    (4..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The deadline of a time limit that starts now.
pub(crate) fn deadline_in(limit: Duration) -> Instant {
    Instant::now() + limit
}

fn path_option(flag: &str, path: &Path) -> OsString {
    let mut option = OsString::from(flag);
    option.push(path);
    option
}

#[cfg(unix)]
fn belongs_to_another_user(repository: &Repository) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let user = rustix::process::geteuid().as_raw();
    let is_ours = |path: &Path| std::fs::symlink_metadata(path).is_ok_and(|about| about.uid() == user);
    !is_ours(repository.worktree()) || !is_ours(repository.git_dir()) || !is_ours(repository.common_dir())
}

#[cfg(not(unix))]
fn belongs_to_another_user(_: &Repository) -> bool {
    true
}

#[cfg(test)]
mod tests;
