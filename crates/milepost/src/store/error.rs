//! `StoreError`: why an operation on a store failed.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Damage, identity};
use crate::model::{CheckpointId, RunId};

/// Why an operation on a store failed.
#[derive(Debug, thiserror::Error)]
#[cfg_attr(not(feature = "internal"), non_exhaustive)]
pub enum StoreError {
    /// Somebody else was writing for too long.
    #[error("{location} was busy for {:.1} s", waited.as_secs_f64())]
    Busy {
        /// The store.
        location: String,
        /// How long was waited.
        waited: Duration,
    },
    /// An address that names no store.
    #[error("\"{0}\" is not a store's address: sqlite:PATH or files:DIR")]
    Address(String),
    /// There is no store.
    #[error("no store at {location}")]
    Missing {
        /// The store that was looked for.
        location: String,
    },
    /// The store is there, or may be, and this user may not read it.
    #[error("cannot open the store at {location}: permission denied on {}", path.display())]
    Denied {
        /// The store.
        location: String,
        /// The file or folder that cannot be read.
        path: PathBuf,
    },
    /// A newer program made it.
    #[error("{location} has store format {found}; this program knows formats up to {known}")]
    Newer {
        /// The store.
        location: String,
        /// Its format.
        found: u64,
        /// The newest known.
        known: u64,
    },
    /// Something stored does not fit its checksum.
    #[error(transparent)]
    Damaged(Box<Damage>),
    /// The run is not there.
    #[error("no run {0}")]
    NoRun(RunId),
    /// The checkpoint is not there.
    #[error("no checkpoint {0}@{1}")]
    NoCheckpoint(RunId, u64),
    /// A checkpoint with this id is there already.
    #[error("checkpoint {0} exists already")]
    Exists(CheckpointId),
    /// Something has this name already.
    #[error("something is called {0} already")]
    Named(String),
    /// Marks were set by somebody else since they were read: their revision is not the next one.
    #[error("the marks of {0}@{1} have changed meanwhile")]
    MarksMoved(RunId, u64),
    /// The decision broke the trait's rules.
    #[error("not a valid commit: {0}")]
    Rules(&'static str),
    /// The store's file or folder cannot be written.
    #[error("{location} cannot be written")]
    ReadOnly {
        /// The store.
        location: String,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The store is foreign, and so is not written.
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
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Reading failed.
    #[error("reading {location} failed")]
    Read {
        /// The file or store.
        location: String,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A write could not be synced. It was not acknowledged, and may still appear after a crash or a restart.
    #[error("not acknowledged, because {location} could not be synced; {}", match may_appear.as_slice() {
        [] => "the change may still appear".to_owned(),
        ids => format!("may appear as {}", ids.iter().map(CheckpointId::as_str).collect::<Vec<_>>().join(", ")),
    })]
    NotAcknowledged {
        /// The store.
        location: String,
        /// The checkpoints that may appear.
        may_appear: Vec<CheckpointId>,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The reply to a commit was lost; it may or may not have happened.
    #[error("the reply of {location} was lost")]
    Unknown {
        /// The store.
        location: String,
    },
}

impl StoreError {
    /// The error for a store whose file at `path` could not be read, if the reason is a missing permission.
    pub(super) fn denied(location: String, path: &Path, e: &io::Error) -> Option<Self> {
        if e.kind() != io::ErrorKind::PermissionDenied {
            return None;
        }
        // A path that cannot be looked at lies in a folder that cannot be entered.
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
