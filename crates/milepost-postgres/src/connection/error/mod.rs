//! Why a connection cannot be made, and which kind an error of the server or the network has. Texts are one
//! line without advice, and never contain a password.

mod kind;

use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;

pub(crate) use kind::describe;
pub use kind::{ErrorKind, classify, ends_connection};

/// Why a connection cannot be made. `address` is the host and port that was tried.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the fields have the meaning that their names say")]
pub enum ConnectError {
    /// Nothing listens there, or the network refuses the way.
    #[error("cannot connect to {address}: {reason}")]
    Refused { address: String, reason: String },
    /// The name of the host has no address.
    #[error("cannot find the host {host}: {reason}")]
    UnknownHost { host: String, reason: String },
    /// The server did not answer in time.
    #[error("{address} did not answer within {} s", waited.as_secs_f32().ceil())]
    TimedOut { address: String, waited: Duration },
    /// The connection ended while it was being set up.
    #[error("the connection to {address} was lost: {reason}")]
    Lost { address: String, reason: String },
    /// The server asked for a password, and there is none.
    #[error("{address} requires a password for user {user}, and none is configured")]
    PasswordMissing { address: String, user: String },
    /// The server rejected the password.
    #[error("{address} rejected the password of user {user}")]
    PasswordWrong { address: String, user: String },
    /// The database does not exist.
    #[error("database {database} does not exist at {address}")]
    UnknownDatabase { address: String, database: String },
    /// The role has no right to connect to the database.
    #[error("user {user} may not connect to database {database} at {address}: {message}")]
    NotPermitted { address: String, user: String, database: String, message: String },
    /// The server's access rules (`pg_hba.conf`) do not let this user in.
    #[error("{address} rejected the connection: {message}")]
    Rejected { address: String, message: String },
    /// TLS is required, and the server does not offer it.
    #[error("{address} does not offer TLS")]
    NoTls { address: String },
    /// The certificate has no trusted issuer, or is expired.
    #[error("the certificate of {address} is not trusted: {reason}")]
    UntrustedCertificate { address: String, reason: String },
    /// The certificate belongs to another host.
    #[error("the certificate of {address} is not valid for host {host}")]
    WrongHostName { address: String, host: String },
    /// TLS failed for another reason.
    #[error("TLS with {address} failed: {reason}")]
    Tls { address: String, reason: String },
    /// A certificate or key file cannot be used.
    #[error("cannot use {}: {reason}", file.display())]
    TlsFile { file: PathBuf, reason: String },
    /// The settings of TLS cannot be used together on this machine.
    #[error("cannot use TLS: {reason}")]
    TlsSettings { reason: String },
    /// Channel binding is required, and the server or its certificate cannot do it.
    #[error("{address} cannot use channel binding")]
    NoChannelBinding { address: String },
    /// All connections are in use.
    #[error("{address} has too many connections: {message}")]
    TooManyConnections { address: String, message: String },
    /// The server is starting up, shutting down or recovering.
    #[error("{address} is not ready: {message}")]
    NotReady { address: String, message: String },
    /// The server is older than Milepost supports.
    #[error("{address} runs PostgreSQL {found}; the oldest supported version is {minimum}")]
    ServerTooOld { address: String, found: String, minimum: u32 },
    /// A server that accepts writes is wanted, and this one is a standby or read-only.
    #[error("{address} is read-only")]
    ReadOnly { address: String },
    /// `target_session_attrs` asks for a standby or read-only server, and this one is not.
    #[error("{address} is not read-only, as target_session_attrs requires")]
    NotReadOnly { address: String },
    /// Another error of the server.
    #[error("{address} reported: {message}")]
    Other { address: String, code: Option<String>, message: String },
}

impl ConnectError {
    /// Whether the same connection can succeed a little later.
    pub fn is_retryable(&self) -> bool {
        matches!(
            self,
            Self::Refused { .. }
                | Self::TimedOut { .. }
                | Self::Lost { .. }
                | Self::TooManyConnections { .. }
                | Self::NotReady { .. }
        )
    }

    /// Whether another host of the list can succeed. As in libpq, a server that answers and says no ends the
    /// search.
    pub(super) fn tries_next_host(&self) -> bool {
        self.is_retryable()
            || matches!(self, Self::UnknownHost { .. } | Self::ReadOnly { .. } | Self::NotReadOnly { .. })
    }

    /// Whether a connection with or without TLS, whichever was not tried yet, can succeed.
    pub(super) fn depends_on_tls(&self) -> bool {
        matches!(
            self,
            Self::Rejected { .. }
                | Self::NoTls { .. }
                | Self::UntrustedCertificate { .. }
                | Self::WrongHostName { .. }
                | Self::Tls { .. }
        )
    }
}
