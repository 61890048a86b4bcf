//! The captured state of a workspace: git, watched folders and memory.

use std::collections::BTreeMap;

use data_encoding::BASE64;

use jiff::Timestamp;

use super::{BlobId, FromRawJson, JsonPath, ValidationError, json::kind_of, record};

/// A path exactly as it is on disk: text if it is UTF-8, otherwise its bytes in base64.
#[derive(
    Debug,
    Clone,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    serde::Serialize,
    serde::Deserialize,
    schemars::JsonSchema,
)]
#[serde(untagged)]
pub enum PathText {
    /// A path that is valid UTF-8.
    Text(String),
    /// A path that is not valid UTF-8.
    Bytes {
        /// The bytes of the path, in base64.
        b64: String,
    },
}

impl PathText {
    /// Creates a path from its bytes.
    pub fn of(bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::Text(text.to_owned()),
            Err(_) => Self::Bytes { b64: BASE64.encode(bytes) },
        }
    }

    /// Returns the bytes of the path, or `None` if the base64 is invalid.
    pub fn to_bytes(&self) -> Option<Vec<u8>> {
        match self {
            Self::Text(text) => Some(text.as_bytes().to_vec()),
            Self::Bytes { b64 } => BASE64.decode(b64.as_bytes()).ok(),
        }
    }

    /// Returns the key for this path in a map: the text, or `b64:` followed by the base64 bytes.
    pub fn key(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Bytes { b64 } => format!("b64:{b64}"),
        }
    }
}

impl FromRawJson for PathText {
    fn from_raw(text: &str, path: &JsonPath<'_>) -> Result<Self, ValidationError> {
        serde_json::from_str(text)
            .map_err(|_| ValidationError::at(path, format!("expected a path, found {}", kind_of(text))))
    }
}

record! {
    /// A renamed file in the git index.
    pub struct RenamedFile {
        /// The old path.
        from: PathText [required],
        /// The new path.
        to: PathText [required],
    }
}

record! {
    /// The state of the git worktree.
    #[derive(Default)]
    pub struct GitFacts {
        /// The current branch.
        branch: Option<String> [optional],
        /// The reason why facts are missing or incomplete.
        error: Option<String> [optional],
        /// The current commit.
        head: Option<String> [optional],
        /// Paths where the worktree differs from the index.
        modified: Vec<PathText> [optional],
        /// The renamed files.
        renamed: Vec<RenamedFile> [optional],
        /// Paths where the index differs from the commit.
        staged: Vec<PathText> [optional],
        /// Paths that git does not track.
        untracked: Vec<PathText> [optional],
    }
}

impl GitFacts {
    /// The value of `error` outside of a repository.
    pub(crate) const NO_REPOSITORY: &str = "not a git repository";
}

record! {
    /// The content of the watched folders.
    #[derive(Default)]
    pub struct WatchedFiles {
        /// The reason why files are missing or incomplete.
        error: Option<String> [optional],
        /// The paths of the files.
        files: Vec<PathText> [optional],
        /// The sizes in bytes, by path.
        sizes: BTreeMap<String, u64> [optional],
    }
}

record! {
    /// The memory usage of the watched processes, in bytes.
    #[derive(Default)]
    pub struct MemoryUsage {
        /// The heap in use, if known.
        heap_used: Option<u64> [optional],
        /// The largest resident set observed in the run so far.
        peak_rss: Option<u64> [optional],
        /// The resident set size.
        rss: Option<u64> [optional],
    }
}

record! {
    /// The files of the worktree at the time of a checkpoint.
    pub struct FileSnapshot {
        /// The blob that lists the changed files and their contents.
        manifest: BlobId [required],
        /// The number of listed files without content: too large, secret-looking or unreadable.
        omitted: u64 [required],
        /// The number of listed files.
        paths: u64 [required],
    }
}

record! {
    /// The files of the worktree when the user sent a prompt, before the agent worked on it.
    pub struct RestorePoint {
        /// When the prompt was sent.
        at: Timestamp [required],
        /// The blob that lists the changed files and their contents.
        manifest: BlobId [required],
        /// The first line of the prompt.
        prompt: Option<String> [optional],
    }
}

record! {
    /// The captured state of a workspace.
    #[derive(Default)]
    pub struct Workspace {
        /// Every file that was touched since the run began.
        files_modified: Vec<PathText> [optional],
        /// The state of the git worktree.
        git: Option<GitFacts> [optional],
        /// The memory usage of the watched processes.
        memory: Option<MemoryUsage> [optional],
        /// What was omitted, and why.
        skipped: Vec<String> [optional],
        /// The snapshot of the files.
        snapshot: Option<FileSnapshot> [optional],
        /// The content of the watched folders.
        watched: Option<WatchedFiles> [optional],
    }
}
