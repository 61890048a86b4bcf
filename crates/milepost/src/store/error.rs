//! Why a store could not do what it was asked.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Damage, identity};
use crate::model::{CheckpointId, RunId};

/// Why a store could not do it.
#[derive(Debug, thiserror::Error)]
#[cfg_attr(not(feature = "internal"), non_exhaustive)]
pub enum StoreError {
    /// Somebody else was writing for too long.
    #[error("{place} was busy for {:.1} s", waited.as_secs_f64())]
    Busy {
        /// The store.
        place: String,
        /// How long was waited.
        waited: Duration,
    },
    /// An address that names no store.
    #[error("\"{0}\" is not a store's address: sqlite:PATH or files:DIR")]
    Address(String),
    /// There is no store.
    #[error("no store at {place}")]
    Missing {
        /// Where it was looked for.
        place: String,
    },
    /// The store is there, or may be, and this user may not read it.
    #[error("cannot open the store at {place}: permission denied on {}", path.display())]
    Denied {
        /// The store.
        place: String,
        /// The file or folder that does not let itself be read.
        path: PathBuf,
    },
    /// A newer program made it.
    #[error("{place} has store format {found}; this program knows formats up to {known}")]
    Newer {
        /// The store.
        place: String,
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
    /// The store's place does not let itself be written.
    #[error("{place} cannot be written")]
    ReadOnly {
        /// The store.
        place: String,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The store is foreign, and so is not written.
    #[error("{place} is not trusted: {why}")]
    Untrusted {
        /// The store.
        place: String,
        /// Why it is foreign.
        why: identity::ForeignReason,
    },
    /// Writing failed; nothing was changed.
    #[error("writing {place} failed")]
    Write {
        /// The file or store.
        place: String,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Reading failed.
    #[error("reading {place} failed")]
    Read {
        /// The file or store.
        place: String,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A write could not be synced. It was not acknowledged, and may still appear after a crash or a restart.
    #[error("not acknowledged, because {place} could not be synced; {}", match may_appear.as_slice() {
        [] => "the change may still appear".to_owned(),
        ids => format!("may appear as {}", ids.iter().map(CheckpointId::as_str).collect::<Vec<_>>().join(", ")),
    })]
    NotAcknowledged {
        /// The store.
        place: String,
        /// The checkpoints that may appear.
        may_appear: Vec<CheckpointId>,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The reply to a commit was lost; it may or may not have happened.
    #[error("the reply of {place} was lost")]
    Unknown {
        /// The store.
        place: String,
    },
}

impl StoreError {
    /// The error for a store whose file at `path` could not be looked at or read, if that is a matter of permissions.
    pub(super) fn denied(place: String, path: &Path, e: &io::Error) -> Option<Self> {
        if e.kind() != io::ErrorKind::PermissionDenied {
            return None;
        }
        // A path that cannot be looked at lies in a folder that cannot be entered.
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let seen = path.ancestors().find(|at| std::fs::symlink_metadata(at).is_ok());
        Some(Self::Denied { place, path: seen.unwrap_or(&path).to_owned() })
    }
}

impl From<Damage> for StoreError {
    fn from(damage: Damage) -> Self {
        Self::Damaged(Box::new(damage))
    }
}
