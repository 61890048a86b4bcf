//! What can go wrong between this program and a server, and which `ServerProblem` it is. Takes errors of the
//! driver. Never contains a password or a connection string.

use std::time::Duration;

use milepost::store::ServerProblem;
use tokio_postgres::error::SqlState;

use crate::connection::{ConnectError, ErrorKind, classify, describe, ends_connection};

/// Why a statement did not succeed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum PostgresError {
    /// No connection could be made.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The connection was lost. The statement may or may not have been executed.
    #[error("the connection was lost: {message}")]
    Lost {
        /// The cause.
        message: String,
    },
    /// The server did not answer in time. The statement may or may not have been executed.
    #[error("no answer within {:.1} s", waited.as_secs_f64())]
    TimedOut {
        /// How long the program waited.
        waited: Duration,
    },
    /// The server refused the statement, which changed nothing.
    #[error("{message} (SQLSTATE {code})")]
    Refused {
        /// The server's error code.
        code: String,
        /// The server's message.
        message: String,
        /// The index or constraint that the statement violates.
        constraint: Option<String>,
    },
    /// The schema of the store does not exist, and this role has no right to create it.
    #[error(
        "the schema {schema} has no store, and this role may not create one ({message}); an administrator can run \
         the statements that `milepost store init --print` prints"
    )]
    MayNotCreate {
        /// The name of the schema.
        schema: String,
        /// The server's message.
        message: String,
    },
    /// The program could not encode or decode a value.
    #[error("unexpected value: {message}")]
    Value {
        /// The cause.
        message: String,
    },
}

impl PostgresError {
    /// The error of a statement.
    pub(crate) fn of_statement(e: &tokio_postgres::Error) -> Self {
        let message = describe(e);
        match e.as_db_error() {
            _ if ends_connection(e) => Self::Lost { message },
            Some(error) => Self::Refused {
                code: error.code().code().to_owned(),
                message,
                constraint: error.constraint().map(str::to_owned),
            },
            // An error of the network that no list contains.
            None if is_io(e) && classify(e) == ErrorKind::Other => Self::Lost { message },
            None => Self::Value { message },
        }
    }

    /// The server's error code, if it refused the statement.
    pub(crate) fn code(&self) -> Option<&str> {
        match self {
            Self::Refused { code, .. } => Some(code),
            _ => None,
        }
    }

    /// Whether the statement may succeed if it is repeated, although the server refused it.
    pub(crate) fn is_conflict(&self) -> bool {
        self.code().is_some_and(|code| code == "40001" || code == "40P01" || code == "55P03")
    }

    /// Whether a row with the same key already exists.
    pub(crate) fn is_duplicate(&self) -> bool {
        self.code() == Some(SqlState::UNIQUE_VIOLATION.code())
    }

    /// Whether a new connection may work soon.
    pub(crate) fn is_temporary(&self) -> bool {
        match self {
            Self::Lost { .. } => true,
            Self::Connect(e) => e.is_retryable(),
            Self::Refused { .. } | Self::TimedOut { .. } | Self::MayNotCreate { .. } | Self::Value { .. } => {
                false
            }
        }
    }

    /// Whether nothing answers at the address. A server that restarts is back within about a second; a server
    /// that does not run is not.
    pub(crate) fn is_refused_connection(&self) -> bool {
        matches!(self, Self::Connect(ConnectError::Refused { .. }))
    }

    /// Whether the schema or one of its tables does not exist.
    pub(crate) fn is_missing_schema(&self) -> bool {
        self.code().is_some_and(|code| code == "3F000" || code == "42P01")
    }

    /// Whether this role or this server cannot write.
    pub(crate) fn is_read_only(&self) -> bool {
        self.code().is_some_and(|code| code == "42501" || code == "25006")
    }

    /// Why the server cannot be used; `None` if it works and only refused the statement.
    pub(crate) fn problem(&self) -> Option<ServerProblem> {
        match self {
            Self::Connect(e) => Some(connect_problem(e)),
            Self::Lost { .. } => Some(ServerProblem::ConnectionLost),
            Self::TimedOut { .. } => Some(ServerProblem::TimedOut),
            Self::MayNotCreate { .. } => Some(ServerProblem::MissingRights),
            Self::Refused { code, .. } if code == "42501" => Some(ServerProblem::MissingRights),
            Self::Refused { .. } | Self::Value { .. } => None,
        }
    }
}

fn connect_problem(e: &ConnectError) -> ServerProblem {
    match e {
        ConnectError::Refused { .. } => ServerProblem::Refused,
        ConnectError::UnknownHost { .. } => ServerProblem::UnknownHost,
        ConnectError::TimedOut { .. } => ServerProblem::TimedOut,
        ConnectError::Lost { .. } => ServerProblem::ConnectionLost,
        ConnectError::PasswordMissing { .. } => ServerProblem::NoPassword,
        ConnectError::PasswordWrong { .. } => ServerProblem::WrongPassword,
        ConnectError::UnknownDatabase { .. } => ServerProblem::UnknownDatabase,
        ConnectError::NotPermitted { .. } => ServerProblem::MissingRights,
        ConnectError::Rejected { .. } => ServerProblem::AccessRejected,
        ConnectError::NoTls { .. } => ServerProblem::NoTls,
        ConnectError::UntrustedCertificate { .. } => ServerProblem::UntrustedCertificate,
        ConnectError::WrongHostName { .. } => ServerProblem::WrongHostName,
        ConnectError::Tls { .. } | ConnectError::NoChannelBinding { .. } => ServerProblem::TlsFailed,
        ConnectError::TlsFile { .. } | ConnectError::TlsSettings { .. } => ServerProblem::TlsSettings,
        ConnectError::TooManyConnections { .. } => ServerProblem::TooManyConnections,
        ConnectError::NotReady { .. } => ServerProblem::NotReady,
        ConnectError::ServerTooOld { .. } => ServerProblem::TooOld,
        ConnectError::ReadOnly { .. } => ServerProblem::ReadOnly,
        ConnectError::NotReadOnly { .. } | ConnectError::Other { .. } => ServerProblem::Other,
    }
}

fn is_io(e: &tokio_postgres::Error) -> bool {
    std::error::Error::source(e).is_some_and(|source| source.is::<std::io::Error>())
}
