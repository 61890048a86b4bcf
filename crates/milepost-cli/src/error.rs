//! Why a command did not end well: an error of the library's, something of the command line's own, or stdout itself.
//! Every failure has a reason code, a message, an exit code and perhaps a hint; how they look is `present`'s matter.

use std::fmt;
use std::io;

use milepost::model::{IdError, ValidationError};
use milepost::store::{StoreError, UrlError};
use milepost::{Error, ReasonCode};

use crate::error_advice::Exit;

/// Why a command did not end well.
#[derive(Debug)]
pub(crate) enum CommandError {
    /// The library said no.
    Library(Error),
    /// The command line says no, or has found something.
    Reported {
        /// The word for programs.
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
    Stdout(io::Error),
    /// The page that was shown has said it; only the code is left.
    ExitOnly(Exit),
    /// A failure of a command that runs another: said as ever, with a code that is not the other's.
    Supervisor(Box<CommandError>),
    /// Another command was run, and this is its code.
    ChildExit(u8),
}

impl CommandError {
    /// A failure of the command line's own, with the exit code that fits its reason.
    pub(crate) fn new(reason: ReasonCode, message: impl Into<String>) -> Self {
        let exit = match reason {
            ReasonCode::Usage => Exit::Usage,
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

    /// A failure of the command itself, not of the one it runs.
    pub(crate) fn into_supervisor(self) -> Self {
        match self {
            Self::ChildExit(_) | Self::Supervisor(_) => self,
            // What the code already says is not said twice.
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

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Library(e) => e.fmt(f),
            Self::Reported { message, .. } => f.write_str(message),
            Self::Stdout(_) => f.write_str("stdout could not be written"),
            Self::ExitOnly(_) | Self::ChildExit(_) => Ok(()),
            Self::Supervisor(failure) => failure.fmt(f),
        }
    }
}

impl std::error::Error for CommandError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Library(e) => e.source(),
            Self::Reported { .. } | Self::ExitOnly(_) | Self::ChildExit(_) => None,
            Self::Supervisor(failure) => failure.source(),
            Self::Stdout(e) => Some(e),
        }
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

from_library!(Error, StoreError, UrlError, IdError, ValidationError);
