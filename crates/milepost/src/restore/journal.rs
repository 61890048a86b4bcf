//! The journal of a restore: one JSON file with the planned changes, written before anything is changed. Its
//! last member has one character for the phase and one per change, which are overwritten in place, so that
//! progress needs no space. A finished journal becomes the undo point.

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::ops::{Folder, Ops};
use super::plan::{Location, check_id, locate};
use super::types::{ConflictReason, FileChange, RestoreError, RestoreMeta};
use crate::fs::{atomic, bounded, if_exists};
use crate::model::PathText;

pub(super) const JOURNAL: &str = "journal.json";
pub(super) const UNDO: &str = "undo.json";
pub(super) const ASIDE: &str = "aside";
const LOCK: &str = "lock";

/// The largest journal that is read: some million changes.
const MAX_SIZE: u64 = 512 << 20;

/// How far a restore got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// New contents are written to temporary files. Recovery removes them.
    Staging,
    /// Files are replaced. Recovery goes on, or rolls back if that is impossible.
    Applying,
    /// Files are put back. Recovery goes on.
    RollingBack,
    /// Every change is made or given up. Recovery removes the temporary files.
    Finishing,
}

const PHASES: [(Phase, u8); 4] =
    [(Phase::Staging, b's'), (Phase::Applying, b'a'), (Phase::RollingBack, b'r'), (Phase::Finishing, b'f')];

/// What happened to one change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    Pending,
    /// The path already had its new content.
    Unchanged,
    /// The path has its new content, and the old content is stored elsewhere.
    Done,
    /// The path has its new content, and the old content was moved aside.
    DoneAside,
    /// The path was kept.
    Kept(ConflictReason),
    /// The path was kept, and another content that was there for a moment was moved aside.
    KeptAside,
}

const STATUSES: [(Status, u8); 15] = [
    (Status::Pending, b'.'),
    (Status::Unchanged, b'='),
    (Status::Done, b'd'),
    (Status::DoneAside, b'a'),
    (Status::KeptAside, b'k'),
    (Status::Kept(ConflictReason::Changed), b'C'),
    (Status::Kept(ConflictReason::Gone), b'G'),
    (Status::Kept(ConflictReason::Exists), b'E'),
    (Status::Kept(ConflictReason::NotAFile), b'N'),
    (Status::Kept(ConflictReason::ParentNotFolder), b'P'),
    (Status::Kept(ConflictReason::FolderNotEmpty), b'F'),
    (Status::Kept(ConflictReason::PermissionDenied), b'D'),
    (Status::Kept(ConflictReason::SameFile), b'S'),
    (Status::Kept(ConflictReason::NoSpaceAside), b'R'),
    (Status::Kept(ConflictReason::OtherFileSystem), b'X'),
];

fn code<T: PartialEq>(table: &[(T, u8)], value: &T) -> u8 {
    table.iter().find(|(known, _)| known == value).map_or(b'?', |(_, code)| *code)
}

fn decode<T: Copy>(table: &[(T, u8)], code: u8) -> Option<T> {
    table.iter().find(|(_, known)| *known == code).map(|(value, _)| *value)
}

/// A folder that the restore creates.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct NewFolder {
    pub path: PathText,
    /// The number of the change that deletes the file whose place this folder or one above it takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<usize>,
}

/// The part of the journal that never changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    pub meta: RestoreMeta,
    pub changes: Vec<FileChange>,
    pub folders: Vec<NewFolder>,
}

#[derive(Deserialize)]
struct Document {
    record: Record,
    state: String,
}

/// A journal, on disk and in memory.
#[derive(Debug)]
pub(super) struct Journal {
    pub record: Record,
    pub locations: Vec<Location>,
    pub phase: Phase,
    pub statuses: Vec<Status>,
    /// The offset of the state in the file.
    offset: u64,
}

/// What follows the state in the file.
const END: &str = "\"}\n";

impl Journal {
    /// Writes a new journal durably.
    pub(super) fn create(
        folder: &Path,
        record: Record,
        locations: Vec<Location>,
        statuses: Vec<Status>,
    ) -> Result<Self, RestoreError> {
        let path = folder.join(JOURNAL);
        let fail = |error: std::io::Error| RestoreError::io("write", path.display().to_string())(error);
        let text = serde_json::to_string(&record).map_err(|e| fail(e.into()))?;
        let mut journal = Self { record, locations, phase: Phase::Staging, statuses, offset: 0 };
        let start = format!("{{\"record\":{text},\"state\":\"");
        journal.offset = start.len() as u64;
        let state = String::from_utf8_lossy(&journal.state()).into_owned();
        atomic::write_new(&path, format!("{start}{state}{END}").as_bytes()).map_err(fail)?;
        Ok(journal)
    }

    /// Reads a journal or an undo point; `None` if it does not exist.
    pub(super) fn read(path: &Path) -> Result<Option<Self>, RestoreError> {
        let damaged = |why: String| RestoreError::DamagedJournal { path: path.to_owned(), why };
        let read = if_exists(bounded::read(path, MAX_SIZE));
        let Some(bytes) = read.map_err(RestoreError::io("read", path.display().to_string()))? else {
            return Ok(None);
        };
        let document: Document = serde_json::from_slice(&bytes).map_err(|e| damaged(e.to_string()))?;
        let record = document.record;
        check_id(&record.meta.id).map_err(|e| damaged(e.to_string()))?;
        let locations = locate(&record.changes).map_err(|e| damaged(e.to_string()))?;
        for folder in &record.folders {
            super::path::check_path(&folder.path).map_err(|e| damaged(e.to_string()))?;
        }
        let state = document.state.as_bytes();
        let offset = bytes.len().checked_sub(state.len() + END.len());
        let offset = offset.filter(|offset| bytes[*offset..].starts_with(state));
        let (Some(offset), true) = (offset, state.len() == record.changes.len() + 1) else {
            return Err(damaged("the state has the wrong length".to_owned()));
        };
        let phase = decode(&PHASES, state[0]);
        let statuses = state[1..].iter().map(|code| decode(&STATUSES, *code)).collect::<Option<Vec<_>>>();
        let (Some(phase), Some(statuses)) = (phase, statuses) else {
            return Err(damaged("the state is unknown".to_owned()));
        };
        Ok(Some(Self { record, locations, phase, statuses, offset: offset as u64 }))
    }

    fn state(&self) -> Vec<u8> {
        let statuses = self.statuses.iter().map(|status| code(&STATUSES, status));
        std::iter::once(code(&PHASES, &self.phase)).chain(statuses).collect()
    }

    /// Makes the statuses durable.
    pub(super) fn write_statuses(&self, ops: &Ops, folder: &Folder) -> Result<(), RestoreError> {
        let state = self.state();
        ops.overwrite(folder, JOURNAL.as_bytes(), self.offset + 1, &state[1..])
            .map_err(RestoreError::io("write", JOURNAL))
    }

    /// Makes the statuses durable, then a new phase.
    pub(super) fn enter(&mut self, phase: Phase, ops: &Ops, folder: &Folder) -> Result<(), RestoreError> {
        self.write_statuses(ops, folder)?;
        ops.overwrite(folder, JOURNAL.as_bytes(), self.offset, &[code(&PHASES, &phase)])
            .map_err(RestoreError::io("write", JOURNAL))?;
        self.phase = phase;
        Ok(())
    }
}

/// Excludes other restores in the same worktree while it exists.
#[derive(Debug)]
pub(super) struct Lock {
    _file: fs::File,
}

impl Lock {
    /// Takes the lock, or fails with `Busy`. Creates the journal folder.
    pub(super) fn acquire(journal_folder: &Path) -> Result<Self, RestoreError> {
        let path = journal_folder.join(LOCK);
        let fail = |e| RestoreError::io("lock", path.display().to_string())(e);
        atomic::create_folder(journal_folder).map_err(fail)?;
        let mut options = OpenOptions::new();
        let file = atomic::open_private(&path, options.write(true).create(true).truncate(false));
        let file = file.map_err(fail)?;
        match file.try_lock() {
            Ok(()) => Ok(Self { _file: file }),
            Err(fs::TryLockError::WouldBlock) => Err(RestoreError::Busy),
            Err(fs::TryLockError::Error(e)) => Err(fail(e)),
        }
    }
}

/// The folders of all restores, by id. An unsafe name is not a restore's.
pub(super) fn restore_folders(journal_folder: &Path) -> Result<Vec<(String, PathBuf)>, RestoreError> {
    let fail = |e| RestoreError::io("read", journal_folder.display().to_string())(e);
    let Some(entries) = if_exists(fs::read_dir(journal_folder)).map_err(fail)? else { return Ok(Vec::new()) };
    let mut folders = Vec::new();
    for entry in entries {
        let entry = entry.map_err(fail)?;
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if let Some(id) = entry.file_name().to_str().filter(|id| is_folder && check_id(id).is_ok()) {
            folders.push((id.to_owned(), entry.path()));
        }
    }
    folders.sort();
    Ok(folders)
}

/// The unfinished journal, if there is one.
pub(super) fn unfinished(journal_folder: &Path) -> Result<Option<(String, PathBuf)>, RestoreError> {
    let folders = restore_folders(journal_folder)?;
    Ok(folders.into_iter().find(|(_, folder)| folder.join(JOURNAL).symlink_metadata().is_ok()))
}
