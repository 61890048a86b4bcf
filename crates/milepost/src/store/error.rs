//! `StoreError`, the error of every operation on a store.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Damage, identity};
use crate::model::{BlobId, CheckpointId, RunId};

/// Why an operation on a store failed.
#[derive(Debug, thiserror::Error)]
#[cfg_attr(not(feature = "internal"), non_exhaustive)]
pub enum StoreError {
    /// Other writers held the lock for too long.
    #[error("{location} was busy for {:.1} s", waited.as_secs_f64())]
    Busy {
        /// The store.
        location: String,
        /// How long this writer waited.
        waited: Duration,
    },
    /// The text is not a store address.
    #[error("\"{0}\" is not a store address (expected {forms})", forms = super::opener::address_forms())]
    Address(String),
    /// The store does not exist.
    #[error("no store at {location}")]
    Missing {
        /// The store.
        location: String,
    },
    /// The store exists or might exist, but this user has no permission to read it.
    #[error("cannot open the store at {location}: permission denied on {}", path.display())]
    Denied {
        /// The store.
        location: String,
        /// The file or folder that cannot be read.
        path: PathBuf,
    },
    /// A newer program created the store.
    #[error("{location} has store format {found}; this program supports formats up to {known}")]
    Newer {
        /// The store.
        location: String,
        /// The store's format.
        found: u64,
        /// The newest supported format.
        known: u64,
    },
    /// A stored value is damaged.
    #[error(transparent)]
    Damaged(Box<Damage>),
    /// The run does not exist.
    #[error("no run {0}")]
    NoRun(RunId),
    /// The checkpoint does not exist.
    #[error("no checkpoint {0}@{1}")]
    NoCheckpoint(RunId, u64),
    /// A checkpoint with this id already exists.
    #[error("checkpoint {0} already exists")]
    Exists(CheckpointId),
    /// A checkpoint already has this name as its id, a tag or an imported id.
    #[error("the name {0} is already taken")]
    Named(String),
    /// Another writer has changed the marks since they were read: the revision is not above the stored one.
    #[error("the marks of {0}@{1} have changed since they were read")]
    MarksMoved(RunId, u64),
    /// The store does not have the content of this blob.
    #[error("blob {0} is not in the store")]
    NoBlob(BlobId),
    /// A commit refers to blobs that the store does not have.
    #[error("the commit refers to {} missing blobs, the first of which is {}", .0.len(), .0[0])]
    BlobsMissing(Vec<BlobId>),
    /// The caller broke a rule of the `Store` trait.
    #[error("store rule violated: {0}")]
    Rules(&'static str),
    /// The store's file or folder is not writable.
    #[error("{location} is not writable")]
    ReadOnly {
        /// The store.
        location: String,
        /// The cause.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The store is foreign, so it must not be written.
    #[error("{location} is not trusted: {why}")]
    Untrusted {
        /// The store.
        location: String,
        /// Why it is foreign.
        why: identity::ForeignReason,
    },
    /// Writing failed; nothing was changed.
    #[error("writing {location} failed")]
    Write {
        /// The file or store.
        location: String,
        /// The cause.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Reading failed.
    #[error("reading {location} failed")]
    Read {
        /// The file or store.
        location: String,
        /// The cause.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A write could not be synced. It is not acknowledged, but may still appear after a crash or a restart.
    #[error("syncing {location} failed; the write is not acknowledged, but {}", match may_appear.as_slice() {
        [] => "may still appear".to_owned(),
        ids => format!("may appear as {}", ids.iter().map(CheckpointId::as_str).collect::<Vec<_>>().join(", ")),
    })]
    NotAcknowledged {
        /// The store.
        location: String,
        /// The checkpoints that may appear.
        may_appear: Vec<CheckpointId>,
        /// The cause.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The server of the store cannot be used; nothing was changed.
    #[error("cannot use the store at {location}")]
    Server {
        /// The store.
        location: String,
        /// Which problem it is.
        problem: ServerProblem,
        /// The cause.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The reply to a commit was lost, so the commit may or may not have happened.
    #[error("the reply from {location} was lost")]
    Unknown {
        /// The store.
        location: String,
    },
}

/// Why the server of a store cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(not(feature = "internal"), non_exhaustive)]
pub enum ServerProblem {
    /// The address or another setting of the connection is invalid.
    Settings,
    /// Nothing answers at the address.
    Refused,
    /// The name of the host has no address.
    UnknownHost,
    /// The server did not answer in time.
    TimedOut,
    /// The connection was lost.
    ConnectionLost,
    /// The server requires a password, and none is configured.
    NoPassword,
    /// The server rejected the password.
    WrongPassword,
    /// The server's access rules do not let this user in.
    AccessRejected,
    /// The database does not exist.
    UnknownDatabase,
    /// The user has no right to connect to the database, or to read its tables.
    MissingRights,
    /// The settings require TLS, and the server does not offer it.
    NoTls,
    /// The server's certificate has no trusted issuer, or is expired.
    UntrustedCertificate,
    /// The server's certificate is for another host.
    WrongHostName,
    /// TLS failed for another reason.
    TlsFailed,
    /// A certificate or key file cannot be used.
    TlsSettings,
    /// All connections of the server are in use.
    TooManyConnections,
    /// The server is starting up, shutting down or recovering.
    NotReady,
    /// The server is older than Milepost supports.
    TooOld,
    /// The settings require a server that accepts writes, and this one is a standby or read-only.
    ReadOnly,
    /// Another problem; the cause describes it.
    Other,
}

impl StoreError {
    /// The error for a store whose file at `path` could not be read; `None` unless a permission is missing.
    pub(super) fn denied(location: String, path: &Path, e: &io::Error) -> Option<Self> {
        if e.kind() != io::ErrorKind::PermissionDenied {
            return None;
        }
        // If the path is not accessible, name its nearest accessible ancestor, which denies access.
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let existing = path.ancestors().find(|at| std::fs::symlink_metadata(at).is_ok());
        Some(Self::Denied { location, path: existing.unwrap_or(&path).to_owned() })
    }
}

impl From<Damage> for StoreError {
    fn from(damage: Damage) -> Self {
        Self::Damaged(Box::new(damage))
    }
}
