//! Why a command did not end well: an error of the library's, something of the command line's own, or stdout itself.
//! Every failure has a reason code, a message, an exit code and perhaps a hint; how they look is `present`'s matter.

use std::fmt;
use std::io;

use milepost::model::{IdError, Invalid};
use milepost::store::{StoreError, UrlError};
use milepost::{Error, Exit, ReasonCode};

/// Why a command did not end well.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The library said no.
    Library(Error),
    /// The command line says no, or has found something.
    Told {
        /// The word for programs.
        reason: ReasonCode,
        /// One line for people.
        message: String,
        /// What to do about it.
        hint: Option<String>,
        /// The exit code.
        exit: Exit,
    },
    /// stdout could not be written.
    Output(io::Error),
    /// The page that was shown has said it; only the code is left.
    Said(Exit),
    /// A failure of a command that runs another: said as ever, with a code that is not the other's.
    Own(Box<Failure>),
    /// Another command was run, and this is its code.
    Child(u8),
}

impl Failure {
    /// A failure of the command line's own, with the exit code that fits its reason.
    pub(crate) fn told(reason: ReasonCode, message: impl Into<String>) -> Self {
        let exit = match reason {
            ReasonCode::Usage => Exit::Usage,
            ReasonCode::ConfirmationNeeded => Exit::Unconfirmed,
            ReasonCode::StoreMissing => Exit::NoStore,
            ReasonCode::StateRedacted => Exit::Partly,
            _ => Exit::Failed,
        };
        Self::Told { reason, message: message.into(), hint: None, exit }
    }

    /// A wrong flag, argument or setting.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::told(ReasonCode::Usage, message)
    }

    /// Adds what to do about it.
    pub(crate) fn hint(mut self, text: impl Into<String>) -> Self {
        if let Self::Told { hint, .. } = &mut self {
            *hint = Some(text.into());
        }
        self
    }

    /// A failure of the command itself, not of the one it runs.
    pub(crate) fn own(self) -> Self {
        match self {
            Self::Child(_) | Self::Own(_) => self,
            // What the code already says is not said twice.
            Self::Told { exit: Exit::Supervisor | Exit::NotExecutable | Exit::NoProgram, .. } => self,
            other => Self::Own(Box::new(other)),
        }
    }

    /// Ends with another code.
    pub(crate) fn exits(mut self, code: Exit) -> Self {
        if let Self::Told { exit, .. } = &mut self {
            *exit = code;
        }
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Library(e) => e.fmt(f),
            Self::Told { message, .. } => f.write_str(message),
            Self::Output(_) => f.write_str("stdout could not be written"),
            Self::Said(_) | Self::Child(_) => Ok(()),
            Self::Own(failure) => failure.fmt(f),
        }
    }
}

impl std::error::Error for Failure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Library(e) => e.source(),
            Self::Told { .. } | Self::Said(_) | Self::Child(_) => None,
            Self::Own(failure) => failure.source(),
            Self::Output(e) => Some(e),
        }
    }
}

macro_rules! from_library {
    ($($error:ty),*) => { $(
        impl From<$error> for Failure {
            fn from(e: $error) -> Self {
                Self::Library(e.into())
            }
        }
    )* };
}

from_library!(Error, StoreError, UrlError, IdError, Invalid);
