//! The environment, read in one place. A variable that is empty counts as unset.

use std::path::PathBuf;

use crate::failure::Failure;

/// What the environment says.
#[derive(Debug, Default)]
pub(super) struct Environment {
    pub(super) store: Option<String>,
    pub(super) run: Option<String>,
    pub(super) session: Option<String>,
    pub(super) agent_session: Option<String>,
    pub(super) user: Option<String>,
    pub(super) user_file: Option<PathBuf>,
    pub(super) home: Option<PathBuf>,
}

impl Environment {
    pub(super) fn read() -> Result<Self, Failure> {
        let text = |name: &str| match variable(name).map(std::ffi::OsString::into_string) {
            None => Ok(None),
            Some(Ok(text)) => Ok(Some(text)),
            Some(Err(_)) => Err(Failure::usage(format!("{name} is not valid UTF-8"))),
        };
        let user = || ["USER", "LOGNAME"].into_iter().find_map(|name| text(name).ok().flatten());
        // As the XDG specification has it, a relative path there is ignored.
        let folder = variable("XDG_CONFIG_HOME")
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
            .or_else(|| variable("HOME").map(|home| PathBuf::from(home).join(".config")));
        Ok(Self {
            store: text("MILEPOST_STORE")?,
            run: text("MILEPOST_RUN")?,
            session: text("MILEPOST_SESSION")?,
            agent_session: text("CLAUDE_CODE_SESSION_ID").ok().flatten(),
            user: user(),
            home: variable("HOME").map(PathBuf::from),
            user_file: folder.map(|folder| folder.join("milepost").join("config.toml")),
        })
    }
}

/// Where small files of the user's are kept that are no settings.
pub(crate) fn state_folder() -> Option<PathBuf> {
    let folder = variable("XDG_STATE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let folder = folder.or_else(|| variable("HOME").map(|home| PathBuf::from(home).join(".local/state")))?;
    Some(folder.join("milepost"))
}

/// The run that `resume --with` started this agent for.
pub(crate) fn resuming() -> Option<String> {
    variable("MILEPOST_RESUME")?.into_string().ok()
}

#[allow(clippy::disallowed_methods, reason = "this is the config room")]
fn variable(name: &str) -> Option<std::ffi::OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}
