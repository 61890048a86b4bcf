//! What capture saw of the workspace: git, watched directories, memory.

use std::collections::BTreeMap;

use data_encoding::BASE64;

use super::{FromRawJson, JsonPath, ValidationError, json::kind_of, record};

/// A path as it is on disk: text where it is UTF-8, else its bytes in base64.
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
    /// A path that is UTF-8.
    Text(String),
    /// A path that is not.
    Bytes {
        /// Its bytes, in base64.
        b64: String,
    },
}

impl PathText {
    /// A path by its bytes.
    pub fn of(bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::Text(text.to_owned()),
            Err(_) => Self::Bytes { b64: BASE64.encode(bytes) },
        }
    }

    /// Its bytes; `None` where they are no base64.
    pub fn to_bytes(&self) -> Option<Vec<u8>> {
        match self {
            Self::Text(text) => Some(text.as_bytes().to_vec()),
            Self::Bytes { b64 } => BASE64.decode(b64.as_bytes()).ok(),
        }
    }

    /// What a map of paths calls it: the text, or `b64:` and its bytes in base64.
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
            .map_err(|_| ValidationError::at(path, format!("{} where a path is needed", kind_of(text))))
    }
}

record! {
    /// A rename seen in the index.
    pub struct RenamedFile {
        /// Where it was.
        from: PathText [required],
        /// Where it is.
        to: PathText [required],
    }
}

record! {
    /// What git said.
    #[derive(Default)]
    pub struct GitFacts {
        /// The branch.
        branch: Option<String> [optional],
        /// Why there are no facts, or fewer.
        error: Option<String> [optional],
        /// The commit.
        head: Option<String> [optional],
        /// Where the worktree differs from the index.
        modified: Vec<PathText> [optional],
        /// What was renamed.
        renamed: Vec<RenamedFile> [optional],
        /// Where the index differs from the commit.
        staged: Vec<PathText> [optional],
        /// What git does not know.
        untracked: Vec<PathText> [optional],
    }
}

record! {
    /// What stood in the watched directories.
    #[derive(Default)]
    pub struct WatchedFiles {
        /// Why there are no facts, or fewer.
        error: Option<String> [optional],
        /// The files.
        files: Vec<PathText> [optional],
        /// Their sizes in bytes.
        sizes: BTreeMap<String, u64> [optional],
    }
}

record! {
    /// How much memory the watched processes used.
    #[derive(Default)]
    pub struct MemoryUsage {
        /// Heap in use, where known.
        heap_used: Option<u64> [optional],
        /// The largest resident set so far.
        peak_rss: Option<u64> [optional],
        /// The resident set.
        rss: Option<u64> [optional],
    }
}

record! {
    /// What capture saw.
    #[derive(Default)]
    pub struct Workspace {
        /// Every file touched since the run began.
        files_modified: Vec<PathText> [optional],
        /// What git said.
        git: Option<GitFacts> [optional],
        /// Memory of the watched processes.
        memory: Option<MemoryUsage> [optional],
        /// What was left out, and why.
        skipped: Vec<String> [optional],
        /// The watched directories.
        watched: Option<WatchedFiles> [optional],
    }
}
