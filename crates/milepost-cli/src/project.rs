//! Opens the store of a project for other interfaces than the command line, such as the Python bindings. Takes a folder
//! and an address, and returns an engine with the settings, the trust and the redaction that a command there would use.
//! Must not print: messages are returned.

use std::path::{Path, PathBuf};

use milepost::internal::capture::CaptureOptions;
use milepost::internal::engine::RunOptions;
use milepost::{AllowList, Error, Milepost, ReasonCode};

use crate::cli::Global;
use crate::config::Config;
use crate::context::{Audience, Context};
use crate::error::CommandError;
use crate::error_advice::advice;
use crate::present::Output;

/// An open project.
#[derive(Debug, Clone)]
pub struct Project {
    /// The engine, with the configured settings. Redaction is on.
    pub milepost: Milepost,
    /// The root folder of the project.
    pub root: PathBuf,
    /// The git worktree, or the root outside a repository.
    pub worktree: String,
    /// The address of the store, without a password.
    pub store: String,
    /// The options that runs are opened with: where they work, and who works on them.
    pub run_options: RunOptions,
    /// The session that saves belong to, if the environment names one.
    pub session: Option<String>,
    /// How the files of the worktree are captured; `None` if capturing is turned off.
    pub capture: Option<CaptureOptions>,
    /// Values that redaction does not replace.
    pub allow: AllowList,
    /// Why the store is not trusted. Every write to such a store fails.
    pub untrusted: Option<String>,
    /// Warnings for the user.
    pub messages: Vec<String>,
}

/// Why a project could not be opened.
#[derive(Debug)]
pub enum OpenError {
    /// An error from the library.
    Library(Error),
    /// The settings are not valid.
    Settings {
        /// The reason code.
        reason: ReasonCode,
        /// What is wrong, in one line.
        message: String,
        /// How to fix it.
        hint: Option<String>,
    },
}

/// Opens the store of the project that contains `folder`, and creates it if needed. `store` selects another one, as the
/// flag `--store` does, and `project` selects the runs of a server, as the variable `MILEPOST_PROJECT` does. A store that
/// is not trusted is opened read-only.
pub fn open_project(
    folder: &Path,
    store: Option<String>,
    project: Option<String>,
) -> Result<Project, OpenError> {
    crate::config::register_stores();
    let global = Global { store, ..Global::default() };
    let mut config = Config::load_in(&global, folder, project).map_err(OpenError::from)?;
    // The program may change its working directory while the store is open.
    config.store = config.store.map(|url| url.absolute());
    let output = Output::collecting();
    let context = Context::for_audience(config, &output, Audience::Page);
    let opened = match context.foreign() {
        Some(_) => context.open_existing(),
        None => context.open_or_create(),
    };
    let milepost = opened.map_err(OpenError::Library)?;
    let mut messages = context.config.warnings.clone();
    messages.extend(output.collected());
    Ok(Project {
        milepost,
        root: context.config.paths.root.clone(),
        worktree: context.worktree(),
        store: context.url().to_string(),
        run_options: context.run_options(),
        session: context.config.session.clone(),
        capture: context.capture_options(),
        allow: context.config.redact_allow.clone(),
        untrusted: context.foreign().map(|why| why.to_string()),
        messages,
    })
}

/// How to fix an error, for people.
pub fn hint(error: &Error) -> Option<String> {
    advice(error).1
}

impl From<CommandError> for OpenError {
    fn from(error: CommandError) -> Self {
        match error {
            CommandError::Library(error) => Self::Library(error),
            CommandError::Reported { reason, message, hint, .. } => Self::Settings { reason, message, hint },
            other => Self::Settings { reason: ReasonCode::Usage, message: other.to_string(), hint: None },
        }
    }
}
