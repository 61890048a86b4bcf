//! Applies a set of file changes to a worktree without losing a byte. Takes changes with the content before
//! and after each of them, and a source of contents; returns what happened to each path. A journal makes it
//! safe against crashes and undoable. Must not know checkpoints, git or stores.

mod context;
mod finish;
mod journal;
mod ops;
mod path;
mod plan;
mod recover;
mod stage;
mod swap;
#[cfg(test)]
mod tests;
mod types;
mod undo;

use std::path::{Path, PathBuf};

use context::Restore;
use journal::{ASIDE, JOURNAL, Journal, Lock, Phase, Record, Status, UNDO, restore_folders, unfinished};
use ops::Ops;
pub use path::check_path;
pub use recover::{Recovery, RecoveryResult, recover};
pub use types::{
    Before, Conflict, ConflictReason, ContentError, ContentSource, FileChange, FileState, Fingerprint,
    Outcome, RestoreError, RestoreMeta,
};
pub use undo::{
    UndoPlan, UndoPoint, referenced_blobs, remove_aside, remove_undo_point, undo_plan, undo_points,
};

use crate::fs::{atomic, if_exists};
use crate::model::PathText;

/// Where files are restored.
#[derive(Debug, Clone)]
pub struct RestoreTarget {
    root: PathBuf,
    journal_folder: PathBuf,
    ops: Ops,
}

impl RestoreTarget {
    /// Describes a worktree and the folder for its journals. That folder must belong to this worktree only,
    /// and should be on the same file system.
    pub fn new(root: impl Into<PathBuf>, journal_folder: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), journal_folder: journal_folder.into(), ops: Ops::default() }
    }
}

/// Identifies a regular file whose content is not stored; `None` if there is no regular file at this path.
pub fn fingerprint(target: &RestoreTarget, path: &PathText) -> Result<Option<Fingerprint>, RestoreError> {
    let path = check_path(path)?;
    let fail = |e| RestoreError::io("read", types::display_bytes(&path))(e);
    let root = target.ops.open_path(&target.root).map_err(fail)?;
    let (folder, name) = path::split(&path);
    let Some(folder) = target.ops.open_below(&root, folder).map_err(fail)? else { return Ok(None) };
    let stat = target.ops.stat(&folder, name).map_err(fail)?;
    Ok(stat.filter(|stat| stat.kind == ops::Kind::File).map(|stat| stat.fingerprint()))
}

/// Applies changes to a worktree. On success every path has its new content or is a conflict. On failure every
/// path has its old content, unless the error is `Interrupted`.
pub fn apply(
    target: &RestoreTarget,
    meta: RestoreMeta,
    changes: Vec<FileChange>,
    source: &dyn ContentSource,
) -> Result<Outcome, RestoreError> {
    plan::check_id(&meta.id)?;
    let (changes, locations) = plan::order(changes)?;
    let _lock = Lock::acquire(&target.journal_folder)?;
    if let Some((id, _)) = unfinished(&target.journal_folder)? {
        return Err(RestoreError::Unfinished { id });
    }
    remove_incomplete_folders(&target.journal_folder)?;
    let mut restore = begin(target, meta, changes, locations, source)?;
    let interrupted = |restore: &Restore<'_>, cause| RestoreError::Interrupted {
        id: restore.journal.record.meta.id.clone(),
        cause: Box::new(cause),
    };
    if let Err(e) = restore.stage() {
        restore.abandon().map_err(|cause| interrupted(&restore, cause))?;
        return Err(e);
    }
    let entered = restore.journal.enter(Phase::Applying, &target.ops, &restore.folder);
    // The new phase may be on disk even if writing it failed. Either way, rolling back is possible.
    let completed = entered.and_then(|()| restore.complete(true));
    match completed {
        Ok(outcome) => Ok(outcome),
        Err(e) if restore.journal.phase == Phase::Finishing => Err(interrupted(&restore, e)),
        Err(e) => {
            restore.roll_back().map_err(|cause| interrupted(&restore, cause))?;
            Err(e)
        }
    }
}

/// Creates the folder of a restore and writes its journal.
fn begin<'a>(
    target: &'a RestoreTarget,
    meta: RestoreMeta,
    changes: Vec<FileChange>,
    locations: Vec<plan::Location>,
    source: &'a dyn ContentSource,
) -> Result<Restore<'a>, RestoreError> {
    let id = meta.id.clone();
    let folder = target.journal_folder.join(&id);
    if folder.symlink_metadata().is_ok() {
        return Err(RestoreError::InvalidId { id, why: "a restore with this id exists" });
    }
    let root = target.ops.open_path(&target.root);
    let root = root.map_err(RestoreError::io("open", target.root.display().to_string()))?;
    let folders = stage::missing_folders(&target.ops, &root, &changes, &locations)
        .map_err(RestoreError::io("read", target.root.display().to_string()))?;
    let created = atomic::create_folder(&folder.join(ASIDE));
    let created = created.map_err(RestoreError::io("create the folder", folder.display().to_string()));
    let statuses = vec![Status::Pending; changes.len()];
    let journal = created
        .and_then(|()| Journal::create(&folder, Record { meta, changes, folders }, locations, statuses));
    match journal {
        Ok(journal) => Restore::open(&target.ops, source, (&target.root, &target.journal_folder), journal)
            .map_err(|cause| RestoreError::Interrupted { id, cause: Box::new(cause) }),
        Err(e) => {
            let _ = remove_incomplete_folders(&target.journal_folder);
            Err(e)
        }
    }
}

/// The folders of restores that were interrupted before their journal was written, and of undo points whose
/// removal was interrupted.
fn incomplete_folders(journal_folder: &Path) -> Result<Vec<PathBuf>, RestoreError> {
    let exists = |folder: &Path, name: &str| folder.join(name).symlink_metadata().is_ok();
    let folders = restore_folders(journal_folder)?.into_iter().map(|(_, folder)| folder);
    Ok(folders.filter(|folder| !exists(folder, JOURNAL) && !exists(folder, UNDO)).collect())
}

/// Removes incomplete folders. The caller holds the lock.
fn remove_incomplete_folders(journal_folder: &Path) -> Result<(), RestoreError> {
    for folder in incomplete_folders(journal_folder)? {
        let fail = |e| RestoreError::io("remove", folder.display().to_string())(e);
        // A folder that contains a file that was moved aside is not empty, and stays.
        if if_exists(std::fs::remove_dir(folder.join(ASIDE))).is_err() {
            continue;
        }
        for temp in atomic::leftover_temp_files(&folder).map_err(fail)? {
            if_exists(std::fs::remove_file(temp)).map_err(fail)?;
        }
        let _ = std::fs::remove_dir(&folder);
    }
    Ok(())
}
