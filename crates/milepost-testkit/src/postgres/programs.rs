//! Finds and runs the programs of PostgreSQL and pgbouncer. They refuse to run as root, so root runs them as
//! another user. The only file of the testkit that reads the environment.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::ServerError;

/// The variable with the URL of an existing server to use instead of a private cluster.
pub(super) const EXISTING_SERVER: &str = "MILEPOST_TEST_POSTGRES";

/// Folders of PostgreSQL's programs that are usually not in PATH, and whose name ends with a version.
const VERSIONED: [(&str, &str); 4] = [
    ("/usr/lib/postgresql", ""),
    ("/usr", "pgsql-"),
    ("/opt/homebrew/opt", "postgresql@"),
    ("/usr/local/opt", "postgresql@"),
];

/// The users that root may run servers as, in order of preference.
const SERVER_USERS: [&str; 2] = ["postgres", "nobody"];

/// The URL of an existing server, if one is configured.
#[allow(clippy::disallowed_methods, reason = "the only setting of the test harness")]
pub(super) fn existing_server() -> Option<String> {
    std::env::var(EXISTING_SERVER).ok().filter(|url| !url.is_empty())
}

/// How this process runs servers.
#[derive(Clone, Debug)]
pub(super) struct Programs {
    /// The user, user id and group id that root runs servers as; none if this process is not root.
    server_user: Option<(String, u32, u32)>,
}

impl Programs {
    pub(super) fn new() -> Result<Self, ServerError> {
        if id(&["-u"]) != Some(0) {
            return Ok(Self { server_user: None });
        }
        if find("setpriv").is_none() {
            return Err(ServerError::Skipped("setpriv is missing, and servers do not run as root".into()));
        }
        let user = |name: &&str| Some((name.to_string(), id(&["-u", name])?, id(&["-g", name])?));
        match SERVER_USERS.iter().find_map(user) {
            Some(user) => Ok(Self { server_user: Some(user) }),
            None => Err(ServerError::Skipped("there is no user to run a server as, except root".into())),
        }
    }

    /// The command line that runs a program as the server's user, without its arguments.
    pub(super) fn words(&self, program: &Path) -> Vec<String> {
        let mut words = Vec::new();
        if let Some((_, uid, gid)) = &self.server_user {
            words.extend(["setpriv".to_owned(), format!("--reuid={uid}"), format!("--regid={gid}")]);
            words.push("--clear-groups".to_owned());
        }
        words.push(program.to_string_lossy().into_owned());
        words
    }

    /// A command that runs a program as the server's user.
    pub(super) fn command(&self, program: &Path) -> Command {
        let words = self.words(program);
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        clean(&mut command);
        command
    }

    /// Gives a file or folder to the server's user.
    pub(super) fn give(&self, path: &Path) -> Result<(), ServerError> {
        let Some((_, uid, gid)) = self.server_user else { return Ok(()) };
        std::os::unix::fs::chown(path, Some(uid), Some(gid))
            .map_err(|e| ServerError::Failed(format!("cannot change the owner of {}: {e}", path.display())))
    }
}

/// Removes this process's settings, such as `PGHOST`, from a command's environment.
pub(super) fn clean(command: &mut Command) {
    command.env_clear().envs([("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"), ("LC_ALL", "C")]);
    command.current_dir("/");
}

/// Runs a command to its end and returns its stdout.
pub(super) fn output(command: &mut Command) -> Result<String, ServerError> {
    let name = command.get_args().chain([command.get_program()]);
    let name = name.map(OsStr::to_string_lossy).find(|word| word.contains("/bin/")).unwrap_or_default();
    let name = name.rsplit('/').next().unwrap_or_default().to_owned();
    let failed = |text: String| ServerError::Failed(format!("{name} failed: {text}"));
    let output = command.stdin(Stdio::null()).output().map_err(|e| failed(e.to_string()))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if !output.status.success() {
        return Err(failed(format!("{}: {} {}", output.status, text(&output.stderr), text(&output.stdout))));
    }
    Ok(text(&output.stdout))
}

/// The folder of PostgreSQL's server programs; the newest version if there are several.
pub(super) fn server_folder() -> Result<PathBuf, ServerError> {
    let versioned = VERSIONED.iter().flat_map(|(parent, prefix)| {
        let entries = std::fs::read_dir(parent).into_iter().flatten().flatten();
        entries.filter_map(move |entry| {
            let version = entry.file_name().to_str()?.strip_prefix(prefix)?.parse::<u32>().ok()?;
            Some((version, entry.path().join("bin")))
        })
    });
    let newest = versioned.filter(|(_, folder)| folder.join("initdb").is_file()).max();
    let in_path = || Some(find("initdb")?.parent()?.to_owned());
    newest.map(|(_, folder)| folder).or_else(in_path).ok_or_else(|| missing("initdb", "postgresql"))
}

/// A program in PATH or in the folders of system programs.
#[allow(clippy::disallowed_methods, reason = "reads PATH to find a program")]
pub(super) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    folders.map(|folder| folder.join(program)).find(|file| file.is_file())
}

pub(super) fn missing(program: &str, package: &str) -> ServerError {
    ServerError::Skipped(format!("{program} is missing; the package {package} provides it"))
}

/// What `id` prints for these arguments.
fn id(args: &[&str]) -> Option<u32> {
    let output = Command::new("id").args(args).stdin(Stdio::null()).output().ok()?;
    String::from_utf8_lossy(&output.stdout).trim().parse().ok().filter(|_| output.status.success())
}
