//! Private PostgreSQL servers for tests: a cluster in a temporary folder, a standby, pgbouncer, and a TCP
//! proxy that breaks connections. Starts programs of the machine; whatever this process starts ends with it,
//! even if it is killed. Must not touch a server that it did not start, except the one that
//! `MILEPOST_TEST_POSTGRES` names.

mod cluster;
mod pgbouncer;
mod programs;
mod proxy;
mod watchdog;

use std::fmt;

pub use cluster::{ClusterOptions, PrivateCluster};
pub use pgbouncer::Pgbouncer;
pub use proxy::{Direction, Proxy, RequestFault, Target};

/// Why a server cannot be used by a test.
#[derive(Debug)]
pub enum ServerError {
    /// This machine does not have what the test needs; the reason names it.
    Skipped(String),
    /// The existing server that `MILEPOST_TEST_POSTGRES` names cannot do this.
    Unsupported(&'static str),
    /// A program failed; the text has its name and its output.
    Failed(String),
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Skipped(reason) => write!(f, "skipped: {reason}"),
            Self::Unsupported(action) => {
                write!(f, "cannot {action} the existing server named by {}", programs::EXISTING_SERVER)
            }
            Self::Failed(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for ServerError {}

/// Returns the server, or the reason why the test is skipped. Panics on every other error, so that a broken
/// server never counts as a skipped test.
pub fn unless_skipped<T>(started: Result<T, ServerError>) -> Result<T, String> {
    match started {
        Ok(server) => Ok(server),
        Err(error @ (ServerError::Skipped(_) | ServerError::Unsupported(_))) => Err(error.to_string()),
        Err(error) => panic!("{error}"),
    }
}
