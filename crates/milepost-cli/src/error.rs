//! `CommandError`: an error from the library, from the command line, from stdout, or from a program that a
//! command ran. It carries a reason code, a message, an exit code and sometimes a hint. `present` decides how
//! it looks.

use std::io;

use milepost::model::{IdError, ValidationError};
use milepost::store::StoreError;
use milepost::{Error, ReasonCode};

use crate::error_advice::Exit;

/// The result of a command or of one of its steps.
pub(crate) type Result<T, E = CommandError> = std::result::Result<T, E>;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommandError {
    /// An error from the library.
    #[error(transparent)]
    Library(Error),
    /// An error that the command line itself detected.
    #[error("{message}")]
    Reported {
        /// The machine-readable code.
        reason: ReasonCode,
        /// One line of text for people.
        message: String,
        /// How to fix the problem.
        hint: Option<String>,
        /// The exit code.
        exit: Exit,
        /// Lines printed above the message.
        details: Vec<String>,
    },
    /// Writing to stdout failed.
    #[error("stdout could not be written")]
    Stdout(#[source] io::Error),
    /// The printed document already reports the problem; only the exit code remains.
    #[error("")]
    ExitOnly(Exit),
    /// An error in a command that runs another program: reported as usual, with exit code 125.
    #[error(transparent)]
    Supervisor(Box<CommandError>),
    /// The exit code of the program that the command ran.
    #[error("")]
    ChildExit(u8),
}

impl CommandError {
    /// Creates an error of the command line, with the default exit code for its reason.
    pub(crate) fn new(reason: ReasonCode, message: impl Into<String>) -> Self {
        let exit = match reason {
            ReasonCode::Usage | ReasonCode::CheckpointIdInvalid => Exit::Usage,
            ReasonCode::ConfirmationNeeded => Exit::Unconfirmed,
            ReasonCode::StoreMissing => Exit::NoStore,
            ReasonCode::StateRedacted => Exit::Partly,
            _ => Exit::Failed,
        };
        Self::Reported { reason, message: message.into(), hint: None, exit, details: Vec::new() }
    }

    /// Creates an error for an invalid flag, argument or setting.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(ReasonCode::Usage, message)
    }

    /// Adds a hint on how to fix the problem.
    pub(crate) fn with_hint(mut self, text: impl Into<String>) -> Self {
        if let Self::Reported { hint, .. } = &mut self {
            *hint = Some(text.into());
        }
        self
    }

    /// Lines printed above the message.
    pub(crate) fn details(&self) -> &[String] {
        match self {
            Self::Reported { details, .. } => details,
            Self::Supervisor(inner) => inner.details(),
            _ => &[],
        }
    }

    /// Adds lines to print above the message.
    pub(crate) fn with_details(mut self, lines: Vec<String>) -> Self {
        if let Self::Reported { details, .. } = &mut self {
            *details = lines;
        }
        self
    }

    /// Turns this into the error of a command that runs another program.
    pub(crate) fn into_supervisor(self) -> Self {
        match self {
            Self::ChildExit(_) | Self::Supervisor(_) => self,
            // These exit codes already belong to the supervisor.
            Self::Reported { exit: Exit::Supervisor | Exit::NotExecutable | Exit::NoProgram, .. } => self,
            other => Self::Supervisor(Box::new(other)),
        }
    }

    /// Replaces the exit code.
    pub(crate) fn with_exit(mut self, code: Exit) -> Self {
        if let Self::Reported { exit, .. } = &mut self {
            *exit = code;
        }
        self
    }
}

macro_rules! from_library {
    ($($error:ty),*) => { $(
        impl From<$error> for CommandError {
            fn from(e: $error) -> Self {
                Self::Library(e.into())
            }
        }
    )* };
}

from_library!(Error, StoreError, IdError, ValidationError);
