//! What a connection and its user share while statements run: when the client stops waiting for the server,
//! and which warnings the server sent. The driver offers neither. Must not interpret a warning.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use postgres::error::{DbError, Severity};

/// The most warnings that are kept until they are taken.
const MAX_WARNINGS: usize = 100;

/// A handle on a connection's deadline and warnings. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct ConnectionMonitor(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    reply_deadline: Option<Instant>,
    warnings: Vec<ServerWarning>,
}

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

impl ConnectionMonitor {
    /// Without a deadline at first.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets when the client stops waiting on a TCP connection, which the server's own timeouts cannot ensure
    /// if the network delivers nothing. A read or write that is still blocked then fails with `TimedOut`,
    /// and the connection is unusable from then on. None waits as long as the connection seems alive.
    /// Unix sockets ignore it.
    pub fn set_reply_deadline(&self, deadline: Option<Instant>) {
        self.lock().reply_deadline = deadline;
    }

    /// The warnings since the last call.
    pub fn take_warnings(&self) -> Vec<ServerWarning> {
        std::mem::take(&mut self.lock().warnings)
    }

    pub(super) fn reply_deadline(&self) -> Option<Instant> {
        self.lock().reply_deadline
    }

    /// Keeps a notice if it is a warning.
    pub(super) fn record(&self, notice: &DbError) {
        let mut state = self.lock();
        if notice.parsed_severity() == Some(Severity::Warning) && state.warnings.len() < MAX_WARNINGS {
            let (code, message) = (notice.code().code().to_owned(), notice.message().to_owned());
            state.warnings.push(ServerWarning { code, message });
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
