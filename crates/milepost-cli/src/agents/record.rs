//! What was installed where, in one small file of the user's state folder: what removal cannot read from the files
//! themselves. Without it removal still works, and leaves out what has become empty.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use milepost::fs::atomic;
use serde::{Deserialize, Serialize};

use super::content::Traces;
use super::{Agent, Scope};

const NAME: &str = "agents.json";

/// One file that was changed or made.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(super) path: PathBuf,
    pub(crate) agent: Agent,
    pub(crate) scope: Scope,
    /// The project's root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) project: Option<PathBuf>,
    /// Whether the file was there before.
    pub(super) existed: bool,
    /// The digest of what was written: while the file has it, nobody else has changed it.
    pub(super) after: String,
    /// The digest of what the file becomes again, while nobody else changes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) before: Option<String>,
    /// What stood in the file before each change, kept beside it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) backups: Vec<PathBuf>,
    #[serde(flatten)]
    pub(super) traces: Traces,
    /// Folders that were made for it, outermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) folders: Vec<PathBuf>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Book {
    version: u32,
    files: Vec<Record>,
}

/// All records, and where they are kept.
#[derive(Debug)]
pub(crate) struct Records {
    folder: Option<PathBuf>,
    book: Book,
    /// Held while files are changed, so that two installs do not cross.
    _turn: Option<fs::File>,
}

impl Records {
    /// Reads what is known, and takes the turn if files are going to be changed. A folder that is not there, or a file
    /// that cannot be read as a record, counts as nothing known.
    pub(crate) fn open(folder: Option<PathBuf>, turn: Turn) -> io::Result<Self> {
        let mut held = None;
        if let (Some(folder), Turn::Take) = (&folder, turn) {
            atomic::create_folder(folder)?;
            let lock = fs::File::open(folder)?;
            lock.lock()?;
            held = Some(lock);
        }
        let text = folder.as_ref().and_then(|folder| fs::read_to_string(folder.join(NAME)).ok());
        let book = text.and_then(|text| serde_json::from_str::<Book>(&text).ok());
        Ok(Self { folder, book: book.unwrap_or_default(), _turn: held })
    }

    /// Nothing known, and nowhere to write it.
    pub(crate) fn none() -> Self {
        Self { folder: None, book: Book::default(), _turn: None }
    }

    pub(super) fn of(&self, path: &Path) -> Option<&Record> {
        self.book.files.iter().find(|record| record.path == path)
    }

    /// Everything that is recorded.
    pub(crate) fn all(&self) -> &[Record] {
        &self.book.files
    }

    pub(super) fn put(&mut self, record: Record) {
        self.forget(&record.path.clone());
        self.book.files.push(record);
    }

    pub(super) fn forget(&mut self, path: &Path) {
        self.book.files.retain(|known| known.path != path);
    }

    /// Forgets files that somebody has removed.
    pub(super) fn forget_what_is_gone(&mut self) {
        self.book.files.retain(|known| known.path.exists());
    }

    /// Writes it down, or removes the file when nothing is left to know.
    pub(super) fn save(&self) -> io::Result<()> {
        let Some(folder) = &self.folder else { return Ok(()) };
        let file = folder.join(NAME);
        if self.book.files.is_empty() {
            return match fs::remove_file(&file) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
                _ => Ok(()),
            };
        }
        let book = Book { version: 1, files: self.book.files.clone() };
        let mut text = serde_json::to_vec_pretty(&book).map_err(io::Error::other)?;
        text.push(b'\n');
        atomic::write(&file, &text, atomic::Mode::Private)
    }
}

/// A digest of a file's content.
pub(super) fn digest(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

/// Whether files are going to be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    Take,
    Leave,
}
