//! Converts errors of the library to the exceptions of `milepost.errors`, with their reason code and hint.

use milepost::internal::error_chain;
use milepost::store::StoreError;
use milepost::{Error, ReasonCode};
use milepost_cli::OpenError;
use pyo3::prelude::*;

/// The Python exceptions, by the names of their classes.
const EXCEPTIONS: &str = "milepost.errors";

/// The class of the exception for a reason code.
fn class(reason: ReasonCode) -> &'static str {
    use ReasonCode as R;
    match reason {
        R::CheckpointIntegrityMismatch => "Damaged",
        R::CheckpointNotFound | R::RunNotFound | R::FilesUnavailable => "NotFound",
        R::CheckpointSchemaInvalid | R::CheckpointIdInvalid | R::Usage | R::CheckpointRefAmbiguous => {
            "InvalidValue"
        }
        R::StoreUntrusted | R::ConfigUntrusted => "Untrusted",
        R::StoreBusy => "StoreBusy",
        R::CheckpointAtomicWriteFailed
        | R::CheckpointNotAcknowledged
        | R::StoreMissing
        | R::StoreNewer
        | R::StoreUnreadable
        | R::StoreUnavailable
        | R::StoreCommitUnknown => "StoreError",
        R::RestoreRefused | R::RestoreConflict => "RestoreRefused",
        R::ResumeRunActive => "RunActive",
        R::ResumeMissingCheckpoint
        | R::ResumeNonIdempotentStep
        | R::ResumeClaimed
        | R::ResumeAttemptLimitReached
        | R::ResumeBlockedCooldown
        | R::ResumeUnknownInterruptionClass => "NotResumable",
        _ => "MilepostError",
    }
}

/// The exception for an error of the library.
pub(crate) fn exception(error: &Error) -> PyErr {
    let reason = error.reason();
    let name = match error {
        Error::Forked { .. } => "Forked",
        Error::NotResumable { .. } => "NotResumable",
        // A store can be damaged without a checksum that does not match.
        Error::Damaged(_) | Error::Store(StoreError::Damaged(_)) => "Damaged",
        _ => class(reason),
    };
    raise(name, &error_chain(error), reason, milepost_cli::hint(error).as_deref())
}

/// The exception for a project that could not be opened.
pub(crate) fn open_exception(error: &OpenError) -> PyErr {
    match error {
        OpenError::Library(error) => exception(error),
        OpenError::Settings { reason, message, hint } => {
            raise(class(*reason), message, *reason, hint.as_deref())
        }
    }
}

/// The exception for a value that cannot be used.
pub(crate) fn invalid(message: &str) -> PyErr {
    raise("InvalidValue", message, ReasonCode::CheckpointSchemaInvalid, None)
}

/// The exception for a handle that a fork copied into another process.
pub(crate) fn forked(pid: u32) -> PyErr {
    let message = format!("this handle belongs to process {pid}, not to the current process");
    raise("Forked", &message, ReasonCode::Usage, Some("open the store again in this process"))
}

/// The exception for a handle that was closed.
pub(crate) fn closed(what: &str) -> PyErr {
    raise("MilepostError", &format!("{what} is closed"), ReasonCode::Usage, None)
}

fn raise(name: &str, message: &str, reason: ReasonCode, hint: Option<&str>) -> PyErr {
    Python::attach(|py| {
        let made = py
            .import(EXCEPTIONS)
            .and_then(|module| module.getattr(name))
            .and_then(|class| class.call1((message, reason.as_str(), hint)));
        made.map_or_else(|error| error, PyErr::from_value)
    })
}

/// Adds the conversion to an exception to results of the library.
pub(crate) trait OrRaise<T> {
    /// The value, or the error as an exception.
    fn or_raise(self) -> PyResult<T>;
}

impl<T, E: Into<Error>> OrRaise<T> for Result<T, E> {
    fn or_raise(self) -> PyResult<T> {
        self.map_err(|error| exception(&error.into()))
    }
}
