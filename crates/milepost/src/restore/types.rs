//! The types of a restore: the planned changes, what happened to each of them, and errors. Plain data, which
//! the journal stores as JSON.

use std::fmt;
use std::io;
use std::path::PathBuf;

use data_encoding::BASE64;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::model::{BlobId, CheckpointId, PathText, RunId};

/// The content of a path, as it is or as it shall be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum FileState {
    /// There is no file. A folder may have this path.
    Absent,
    /// A regular file whose content is a blob.
    File {
        /// The hash of the content.
        blob: BlobId,
        /// The size in bytes.
        size: u64,
        /// Whether the owner may execute it.
        executable: bool,
    },
    /// A symbolic link.
    Symlink {
        /// The target, exactly as it is stored in the link.
        #[serde(with = "base64_bytes")]
        target: Vec<u8>,
    },
    /// A regular file that an earlier restore moved aside. Only valid as the state after a change.
    Aside {
        /// The id of the restore that moved it.
        restore: String,
        /// The number of the change that moved it.
        number: usize,
        /// The hash of the content.
        blob: BlobId,
        /// The size in bytes.
        size: u64,
        /// Whether the owner may execute it.
        executable: bool,
    },
}

/// The content of a path before a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "content", rename_all = "snake_case")]
pub enum Before {
    /// The path must have this state, which is stored elsewhere. Otherwise the path is kept as it is.
    Saved {
        /// The expected state.
        state: FileState,
    },
    /// A regular file whose content is stored nowhere. It is moved aside.
    Unsaved {
        /// Identifies the file. Otherwise the path is kept as it is.
        fingerprint: Fingerprint,
    },
}

/// Identifies a version of a regular file whose content is not stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Fingerprint {
    /// By its content.
    Content {
        /// The hash of the content.
        blob: BlobId,
        /// The size in bytes.
        size: u64,
    },
    /// By what the file system says of it, so that a large file need not be read.
    Stat {
        /// The size in bytes.
        size: u64,
        /// The time of the last modification, in nanoseconds since 1970.
        modified: i64,
        /// The number of the file in its file system; 0 if there is none.
        inode: u64,
    },
}

impl Before {
    /// A path that must not exist as a file.
    pub const ABSENT: Self = Self::Saved { state: FileState::Absent };

    /// A path whose state is stored elsewhere.
    pub fn saved(state: FileState) -> Self {
        Self::Saved { state }
    }
}

/// One planned change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileChange {
    /// The path relative to the root, with `/` between components.
    pub path: PathText,
    /// The content that is replaced.
    pub before: Before,
    /// The new content.
    pub after: FileState,
}

/// Describes a restore to the user. The journal and the undo point keep it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestoreMeta {
    /// A new id: 1 to 64 ASCII letters, digits, `-` and `_`.
    pub id: String,
    /// The reference that the user gave.
    pub reference: String,
    /// The run whose files are restored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// The checkpoint that holds the replaced contents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub safety_checkpoint: Option<CheckpointId>,
    /// The id of the restore that this one undoes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undoes: Option<String>,
    /// When the restore began.
    pub time: Timestamp,
}

/// Why a path was kept as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConflictReason {
    /// Its content is not the expected one.
    Changed,
    /// It was expected to exist.
    Gone,
    /// It was expected not to exist.
    Exists,
    /// It is a folder, pipe, socket or device.
    NotAFile,
    /// One of its parents is a symbolic link, a file, or missing.
    ParentNotFolder,
    /// A file shall replace a folder that still contains files.
    FolderNotEmpty,
    /// The system denied access.
    PermissionDenied,
    /// Another path of the plan names the same file, as on a file system that ignores case.
    SameFile,
    /// The content could not be moved aside for lack of space.
    NoSpaceAside,
    /// It is a mount point, or on another file system than its folder.
    OtherFileSystem,
}

impl fmt::Display for ConflictReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Changed => "its content changed",
            Self::Gone => "it no longer exists",
            Self::Exists => "it already exists",
            Self::NotAFile => "it is not a regular file or symbolic link",
            Self::ParentNotFolder => "its parent is not a folder",
            Self::FolderNotEmpty => "the folder in its place is not empty",
            Self::PermissionDenied => "access is denied",
            Self::SameFile => "another path of the plan is the same file",
            Self::NoSpaceAside => "there is no space to move its content aside",
            Self::OtherFileSystem => "it is on another file system or in use",
        })
    }
}

/// A path that was kept as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// The path.
    pub path: PathText,
    /// Why it was kept.
    pub reason: ConflictReason,
    /// The system's message, if the system refused.
    pub detail: Option<String>,
}

/// What a restore did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Paths that have their new content.
    pub changed: Vec<PathText>,
    /// Paths that already had their new content.
    pub unchanged: Vec<PathText>,
    /// Paths that were kept.
    pub conflicts: Vec<Conflict>,
    /// Paths with a content that is now in the aside folder.
    pub aside: Vec<PathText>,
    /// Temporary files that could not be removed because access was denied.
    pub leftover: Vec<PathText>,
    /// Whether there is an undo point.
    pub undo_point: bool,
}

/// Reads contents by their hash.
pub trait ContentSource {
    /// Returns the content of a blob. The restore verifies it.
    fn read(&self, blob: &BlobId) -> Result<Vec<u8>, ContentError>;
}

/// Why a content cannot be read.
pub type ContentError = Box<dyn std::error::Error + Send + Sync>;

/// Why a restore failed. Unless it says otherwise, the files are as they were.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// A path could lead outside the root or into a repository's own files.
    #[error("cannot restore the path {path}: {why}")]
    InvalidPath {
        /// The path, as text.
        path: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The changes contradict each other.
    #[error("invalid restore plan: {why}: {path}")]
    InvalidPlan {
        /// The path, as text.
        path: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The id is not valid or already taken.
    #[error("invalid restore id \"{id}\": {why}")]
    InvalidId {
        /// The id.
        id: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// An earlier restore was interrupted and must be recovered first.
    #[error("the restore {id} was interrupted and is not recovered yet")]
    Unfinished {
        /// The id of the earlier restore.
        id: String,
    },
    /// Another process restores files in the same worktree.
    #[error("another restore is running in this worktree")]
    Busy,
    /// A new content cannot be read or is damaged.
    #[error("cannot read the content to restore for {path}: {why}")]
    Content {
        /// The path, as text.
        path: String,
        /// The reason.
        why: String,
    },
    /// There is no such undo point.
    #[error("there is no restore {id} to undo")]
    UnknownUndoPoint {
        /// The id.
        id: String,
    },
    /// The journal cannot be understood.
    #[error("the restore journal {} is damaged: {why}", path.display())]
    DamagedJournal {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A file operation failed.
    #[error("cannot {action} {path}: {error}")]
    Io {
        /// What was attempted, as a verb.
        action: &'static str,
        /// The path, as text.
        path: String,
        /// The system's error.
        #[source]
        error: io::Error,
    },
    /// The restore stopped half-way. The next recovery completes it or rolls it back.
    #[error("the restore {id} stopped half-way and will be recovered by the next command: {cause}")]
    Interrupted {
        /// The id of the restore.
        id: String,
        /// Why it stopped.
        #[source]
        cause: Box<RestoreError>,
    },
}

impl RestoreError {
    pub(super) fn io(action: &'static str, path: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |error| Self::Io { action, path, error }
    }
}

/// Returns the bytes as text for messages.
pub(super) fn display_bytes(path: &[u8]) -> String {
    String::from_utf8_lossy(path).into_owned()
}

mod base64_bytes {
    use super::BASE64;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&BASE64.encode(bytes))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        BASE64.decode(String::deserialize(deserializer)?.as_bytes()).map_err(D::Error::custom)
    }
}
