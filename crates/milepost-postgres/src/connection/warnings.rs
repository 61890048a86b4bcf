//! The warnings that a server sent on a connection, which are not part of any reply. Must not interpret them.

use std::sync::{Arc, Mutex, PoisonError};

use tokio_postgres::error::{DbError, Severity};

/// The most warnings that are kept until they are taken.
const MAX_WARNINGS: usize = 100;

/// The warnings of a connection. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct ServerWarnings(Arc<Mutex<Vec<ServerWarning>>>);

/// A warning that the server sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerWarning {
    code: String,
    message: String,
}

impl ServerWarning {
    /// Its SQLSTATE.
    pub fn code(&self) -> &str {
        &self.code
    }

    /// Its text, in the server's language.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl ServerWarnings {
    /// The warnings since the last call.
    pub fn take(&self) -> Vec<ServerWarning> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Keeps a notice if it is a warning.
    pub(super) fn record(&self, notice: &DbError) {
        // A pooler may leave out the field that is never translated.
        let is_warning = match notice.parsed_severity() {
            Some(severity) => severity == Severity::Warning,
            None => notice.severity() == "WARNING",
        };
        let mut warnings = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if is_warning && warnings.len() < MAX_WARNINGS {
            let (code, message) = (notice.code().code().to_owned(), notice.message().to_owned());
            warnings.push(ServerWarning { code, message });
        }
    }
}
