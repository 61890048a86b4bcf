//! Records what was installed where, in one small file in the user's state folder. It stores what an
//! uninstall cannot derive from the agents' files. Without it, an uninstall still works, but also removes
//! containers that were empty before.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use milepost::internal::fs::{atomic, if_exists};
use serde::{Deserialize, Serialize};

use super::super::Scope;
use super::content::PriorState;

const NAME: &str = "agents.json";

/// One file that was changed or created.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(super) path: PathBuf,
    /// The agent's name.
    pub(crate) agent: String,
    pub(crate) scope: Scope,
    /// The project's root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) project: Option<PathBuf>,
    /// Whether the file existed before.
    pub(super) existed: bool,
    /// Digest of the text that was written. A file with another digest was changed since.
    pub(super) digest_after: String,
    /// Digest of the text that an uninstall restores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) digest_before: Option<String>,
    /// Copies of the file from before each change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) backups: Vec<PathBuf>,
    #[serde(flatten)]
    pub(super) prior: PriorState,
    /// Folders that were created for the file, outermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) folders: Vec<PathBuf>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct RecordFile {
    version: u32,
    files: Vec<Record>,
}

/// All records, and the folder that stores them.
#[derive(Debug)]
pub(crate) struct Records {
    folder: Option<PathBuf>,
    content: RecordFile,
    /// Held while files are changed, so that two installs do not overlap.
    _lock: Option<fs::File>,
}

impl Records {
    /// Reads the records, and locks them for `Access::ReadWrite`. Returns no records if there is no folder or
    /// the file cannot be parsed.
    pub(crate) fn open(folder: Option<PathBuf>, access: Access) -> io::Result<Self> {
        let mut held = None;
        if let (Some(folder), Access::ReadWrite) = (&folder, access) {
            atomic::create_folder(folder)?;
            let lock = fs::File::open(folder)?;
            lock.lock()?;
            held = Some(lock);
        }
        let text = folder.as_ref().and_then(|folder| fs::read_to_string(folder.join(NAME)).ok());
        let content = text.and_then(|text| serde_json::from_str::<RecordFile>(&text).ok());
        Ok(Self { folder, content: content.unwrap_or_default(), _lock: held })
    }

    /// An empty set of records that is never written.
    pub(crate) fn none() -> Self {
        Self { folder: None, content: RecordFile::default(), _lock: None }
    }

    pub(super) fn get(&self, path: &Path) -> Option<&Record> {
        self.content.files.iter().find(|record| record.path == path)
    }

    pub(crate) fn all(&self) -> &[Record] {
        &self.content.files
    }

    pub(super) fn insert(&mut self, record: Record) {
        self.remove(&record.path.clone());
        self.content.files.push(record);
    }

    pub(super) fn remove(&mut self, path: &Path) {
        self.content.files.retain(|known| known.path != path);
    }

    /// Drops the records of files that no longer exist.
    pub(super) fn remove_missing(&mut self) {
        self.content.files.retain(|known| known.path.exists());
    }

    /// Writes the records, or removes the file if there are none.
    pub(super) fn save(&self) -> io::Result<()> {
        let Some(folder) = &self.folder else { return Ok(()) };
        let file = folder.join(NAME);
        if self.content.files.is_empty() {
            return if_exists(fs::remove_file(&file)).map(drop);
        }
        let content = RecordFile { version: 1, files: self.content.files.clone() };
        let mut text = serde_json::to_vec_pretty(&content).map_err(io::Error::other)?;
        text.push(b'\n');
        atomic::write(&file, &text, atomic::Mode::Private)
    }
}

/// The digest of a file's content.
pub(super) fn digest(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

/// Whether the caller is going to change files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    ReadWrite,
    ReadOnly,
}
