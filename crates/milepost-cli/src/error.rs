//! The error of a command: from the library, from the command line itself, from stdout, or from a program that was run.
//! Each has a reason code, a message, an exit code and perhaps a hint. How they look is decided in `present`.

use std::io;

use milepost::model::{IdError, ValidationError};
use milepost::store::StoreError;
use milepost::{Error, ReasonCode};

use crate::error_advice::Exit;

/// The result of a command, or of a step of one.
pub(crate) type Result<T, E = CommandError> = std::result::Result<T, E>;

/// The error of a command.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommandError {
    /// An error of the library.
    #[error(transparent)]
    Library(Error),
    /// An error that the command line reports itself.
    #[error("{message}")]
    Reported {
        /// The code for programs.
        reason: ReasonCode,
        /// One line for people.
        message: String,
        /// What to do about it.
        hint: Option<String>,
        /// The exit code.
        exit: Exit,
        /// Lines for people above the message.
        details: Vec<String>,
    },
    /// stdout could not be written.
    #[error("stdout could not be written")]
    Stdout(#[source] io::Error),
    /// The document has reported it; only the exit code is left.
    #[error("")]
    ExitOnly(Exit),
    /// An error of a command that runs a program: reported as ever, with an exit code of its own.
    #[error(transparent)]
    Supervisor(Box<CommandError>),
    /// The exit code of the program that was run.
    #[error("")]
    ChildExit(u8),
}

impl CommandError {
    /// An error of the command line itself, with the exit code that fits its reason.
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

    /// A wrong flag, argument or setting.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(ReasonCode::Usage, message)
    }

    /// Adds what to do about it.
    pub(crate) fn with_hint(mut self, text: impl Into<String>) -> Self {
        if let Self::Reported { hint, .. } = &mut self {
            *hint = Some(text.into());
        }
        self
    }

    /// Lines for people above the message.
    pub(crate) fn details(&self) -> &[String] {
        match self {
            Self::Reported { details, .. } => details,
            Self::Supervisor(inner) => inner.details(),
            _ => &[],
        }
    }

    /// Adds lines above the message.
    pub(crate) fn with_details(mut self, lines: Vec<String>) -> Self {
        if let Self::Reported { details, .. } = &mut self {
            *details = lines;
        }
        self
    }

    /// The same as an error of a command that runs a program.
    pub(crate) fn into_supervisor(self) -> Self {
        match self {
            Self::ChildExit(_) | Self::Supervisor(_) => self,
            // These exit codes are the supervisor's already.
            Self::Reported { exit: Exit::Supervisor | Exit::NotExecutable | Exit::NoProgram, .. } => self,
            other => Self::Supervisor(Box::new(other)),
        }
    }

    /// Ends with another code.
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
