//! Reads the environment, in one place. An empty variable counts as unset.

use std::path::{Path, PathBuf};

use milepost::internal::trust::UserState;

use crate::agents::setup::ProgramName;
use crate::agents::{AGENTS, Roots, UserFolders};
use crate::error::{CommandError, Result};

/// Settings from the environment.
#[derive(Debug, Default)]
pub(super) struct Environment {
    pub(super) store: Option<String>,
    pub(super) project: Option<String>,
    pub(super) run: Option<String>,
    pub(super) session: Option<String>,
    pub(super) agent_session: Option<String>,
    pub(super) user: Option<String>,
    pub(super) user_file: Option<PathBuf>,
    pub(super) home: Option<PathBuf>,
    /// The folders in `MILEPOST_TRUST`.
    pub(super) trust: Vec<PathBuf>,
}

impl Environment {
    pub(super) fn read() -> Result<Self> {
        let text = |name: &str| match variable(name).map(std::ffi::OsString::into_string) {
            None => Ok(None),
            Some(Ok(text)) => Ok(Some(text)),
            Some(Err(_)) => Err(CommandError::usage(format!("{name} is not valid UTF-8"))),
        };
        let agent_session = || {
            AGENTS
                .iter()
                .filter_map(|agent| agent.session_variable)
                .find_map(|name| text(name).ok().flatten())
        };
        let user = || USER_NAME.into_iter().find_map(|name| text(name).ok().flatten());
        let trust = variable("MILEPOST_TRUST").unwrap_or_default();
        Ok(Self {
            store: text("MILEPOST_STORE")?,
            project: text("MILEPOST_PROJECT")?,
            run: text("MILEPOST_RUN")?,
            session: text("MILEPOST_SESSION")?,
            agent_session: agent_session(),
            user: user(),
            home: home_folder(),
            user_file: config_folder().map(|folder| folder.join("config.toml")),
            trust: std::env::split_paths(&trust).filter(|path| !path.as_os_str().is_empty()).collect(),
        })
    }
}

/// Makes the kinds of store known that are not part of the library.
pub(crate) fn register_stores() {
    #[cfg(feature = "postgres")]
    {
        use milepost_postgres::connection::Environment;
        let text = |name: &str| variable(name).and_then(|value| value.into_string().ok());
        #[allow(clippy::disallowed_methods, reason = "config reads the environment")]
        let all = std::env::vars_os();
        let variables =
            all.filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        milepost_postgres::register(Environment {
            variables: variables.filter(|(name, _)| name.starts_with("PG")).collect(),
            home: home_folder(),
            user: USER_NAME.into_iter().find_map(text),
            ..Environment::new()
        });
    }
}

/// The variables that name the user.
const USER_NAME: [&str; 3] = ["USER", "LOGNAME", "USERNAME"];

/// The user's home folder. On Windows, shells such as Git Bash also set `HOME`, but only `USERPROFILE` is always set.
fn home_folder() -> Option<PathBuf> {
    let name = if cfg!(windows) { "USERPROFILE" } else { "HOME" };
    variable(name).map(PathBuf::from)
}

/// The folder for the user's settings, following the platform's convention.
fn config_folder() -> Option<PathBuf> {
    user_folder("XDG_CONFIG_HOME", ".config", "APPDATA")
}

/// The folder for the user's state (trust, hook failures, records of agent setups), following the platform's
/// convention.
pub(crate) fn state_folder() -> Option<PathBuf> {
    user_folder("XDG_STATE_HOME", ".local/state", "LOCALAPPDATA")
}

/// This program's own folder for the user: under an XDG folder, `Library/Application Support` or `%APPDATA%`.
/// Does not query the user database, so there is no folder without `HOME`.
fn user_folder(xdg: &str, below_home: &str, windows: &str) -> Option<PathBuf> {
    let absolute = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let folder = if cfg!(windows) {
        absolute(windows)
    } else if cfg!(target_os = "macos") {
        absolute("HOME").map(|home| home.join("Library").join("Application Support"))
    } else {
        // The XDG specification says to ignore relative paths.
        absolute(xdg).or_else(|| absolute("HOME").map(|home| home.join(below_home)))
    };
    folder.map(|folder| folder.join("milepost"))
}

/// The variable that shows that an agent started this process.
pub(crate) fn agent_variable() -> Option<&'static str> {
    let mut names = AGENTS.iter().flat_map(|agent| agent.process_variables);
    names.find(|name| variable(name).is_some()).copied()
}

/// The width that `COLUMNS` sets for output that does not go to a terminal.
pub(crate) fn columns() -> Option<usize> {
    variable("COLUMNS")?.to_str()?.parse().ok()
}

/// The variable that tells Milepost to print completions. Its value is the name of the shell.
pub(crate) const COMPLETION_VARIABLE: &str = "MILEPOST_COMPLETE";

/// The command that opens an address, its last argument, in the user's browser. `None` if this process has no graphical
/// session: there, `xdg-open` would start a browser in the terminal.
#[cfg(feature = "ui")]
pub(crate) fn graphical_browser() -> Option<std::process::Command> {
    if cfg!(windows) {
        let mut command = std::process::Command::new(find_program("rundll32")?);
        command.arg("url.dll,FileProtocolHandler");
        return Some(command);
    }
    if cfg!(target_os = "macos") {
        return find_program("open").map(std::process::Command::new);
    }
    let has_display = ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| variable(name).is_some());
    find_program("xdg-open").filter(|_| has_display).map(std::process::Command::new)
}

/// The shell that requests completions of a command line.
pub(crate) fn completion_shell() -> Option<std::ffi::OsString> {
    variable(COMPLETION_VARIABLE)
}

/// The run that `resume --with` started this agent for.
pub(crate) fn resumed_run() -> Option<String> {
    variable("MILEPOST_RESUME")?.into_string().ok()
}

/// What is needed from the environment to find agents and to set them up.
#[derive(Debug)]
pub(crate) struct AgentEnvironment {
    /// `None` without a home folder.
    pub(crate) user: Option<UserFolders>,
    /// The folder for the records of what was installed.
    pub(crate) state: Option<PathBuf>,
}

impl AgentEnvironment {
    pub(crate) fn read() -> Self {
        let absolute = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let names = AGENTS.iter().flat_map(|agent| agent.folder_variables);
        let variables = names.filter_map(|name| Some((*name, absolute(name)?))).collect();
        Self {
            user: home_folder().filter(|home| home.is_absolute()).map(|home| UserFolders { home, variables }),
            // Do not use another user's folder, for example under `sudo`.
            state: state_folder().filter(|folder| UserState::at(folder).is_ok()),
        }
    }

    /// The folders that contain the agents' files, for a project.
    pub(crate) fn roots(&self, project: PathBuf) -> Roots {
        Roots { project, user: self.user.clone(), program: program_name() }
    }

    /// Finds a program in `PATH`.
    pub(crate) fn program(&self, name: &str) -> Option<PathBuf> {
        find_program(name)
    }
}

/// How files name this program. A program in an npm package is named by its path if the `milepost` in PATH is the package's
/// launcher, which starts Node, or if there is none, as for `npx`, which extends PATH only for the programs that it starts.
fn program_name() -> ProgramName {
    let is_in_package = |path: &Path| path.components().any(|part| part.as_os_str() == "node_modules");
    let own = std::env::current_exe().and_then(std::fs::canonicalize).ok();
    let Some(own) = own.filter(|own| is_in_package(own)) else { return ProgramName::OnPath };
    let paths = variable("PATH").unwrap_or_default();
    let folders =
        std::env::split_paths(&paths).filter(|folder| folder.is_absolute() && !is_in_package(folder));
    let mut found = folders.map(|folder| folder.join("milepost")).filter(|path| is_executable(path));
    match found.next().and_then(|path| std::fs::canonicalize(path).ok()) {
        Some(path) if path == own => ProgramName::OnPath,
        _ => ProgramName::at(&own).unwrap_or_default(),
    }
}

/// Finds a program in the absolute folders of `PATH`. On Windows, the file of a program has one of a few extensions.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    let extensions: &[&str] = if cfg!(windows) { &[".exe", ".cmd", ".bat", ".com"] } else { &[""] };
    let paths = variable("PATH").unwrap_or_default();
    std::env::split_paths(&paths).filter(|folder| folder.is_absolute()).find_map(|folder| {
        let mut files = extensions.iter().map(|extension| folder.join(format!("{name}{extension}")));
        files.find(|path| is_executable(path))
    })
}

fn is_executable(path: &std::path::Path) -> bool {
    let Ok(meta) = std::fs::metadata(path) else { return false };
    #[cfg(unix)]
    let may_run = std::os::unix::fs::PermissionsExt::mode(&meta.permissions()) & 0o111 != 0;
    #[cfg(not(unix))]
    let may_run = true;
    meta.is_file() && may_run
}

fn variable(name: &str) -> Option<std::ffi::OsString> {
    variable_or_empty(name).filter(|value| !value.is_empty())
}

/// A variable whose empty value has a meaning.
#[allow(clippy::disallowed_methods, reason = "config reads the environment")]
pub(super) fn variable_or_empty(name: &str) -> Option<std::ffi::OsString> {
    std::env::var_os(name)
}
