//! Undo points: the journals of finished restores. Lists them, and computes the changes that undo one. The
//! caller applies these like any other plan, so that an undo can be undone.

use std::collections::BTreeSet;
use std::fs;

use super::RestoreTarget;
use super::journal::{ASIDE, JOURNAL, Journal, Lock, Status, UNDO, restore_folders};
use super::ops::Kind;
use super::plan::check_id;
use super::types::{Before, FileChange, FileState, Fingerprint, RestoreError, RestoreMeta};
use crate::fs::{atomic, if_exists};
use crate::model::{BlobId, PathText};

/// A restore that can be undone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UndoPoint {
    /// The restore.
    pub meta: RestoreMeta,
    /// How many paths it changed.
    pub changed: usize,
    /// How many paths it kept because of conflicts.
    pub conflicts: usize,
    /// How many contents it moved aside.
    pub aside: usize,
}

/// The changes that undo a restore.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UndoPlan {
    /// The changes.
    pub changes: Vec<FileChange>,
    /// Paths whose old content is no longer in the aside folder, because an earlier undo put it back.
    pub unavailable: Vec<PathText>,
}

/// Lists the restores that can be undone, newest first.
pub fn undo_points(target: &RestoreTarget) -> Result<Vec<UndoPoint>, RestoreError> {
    let mut points = Vec::new();
    for (_, folder) in restore_folders(&target.journal_folder)? {
        let Some(journal) = Journal::read(&folder.join(UNDO))? else { continue };
        let count = |wanted: fn(&Status) -> bool| journal.statuses.iter().filter(|s| wanted(s)).count();
        points.push(UndoPoint {
            changed: count(|s| matches!(s, Status::Done | Status::DoneAside)),
            conflicts: count(|s| matches!(s, Status::Kept(_) | Status::KeptAside)),
            aside: count(|s| matches!(s, Status::DoneAside | Status::KeptAside)),
            meta: journal.record.meta,
        });
    }
    points.sort_by(|a, b| (b.meta.time, &b.meta.id).cmp(&(a.meta.time, &a.meta.id)));
    Ok(points)
}

/// Computes the changes that undo a restore.
pub fn undo_plan(target: &RestoreTarget, id: &str) -> Result<UndoPlan, RestoreError> {
    let folder = target.journal_folder.join(existing_id(id)?);
    let journal = Journal::read(&folder.join(UNDO))?;
    let journal = journal.ok_or_else(|| RestoreError::UnknownUndoPoint { id: id.to_owned() })?;
    let mut plan = UndoPlan::default();
    for (n, (change, status)) in journal.record.changes.into_iter().zip(journal.statuses).enumerate() {
        let after = match (status, change.before) {
            (Status::Done, Before::Saved { state }) => Some(state),
            (Status::Done | Status::DoneAside, _) => aside_state(target, id, n)?,
            _ => continue,
        };
        let before = match change.after {
            FileState::Aside { blob, size, .. } => {
                Before::Unsaved { fingerprint: Fingerprint::Content { blob, size } }
            }
            state => Before::Saved { state },
        };
        match after {
            Some(after) => plan.changes.push(FileChange { path: change.path, before, after }),
            None => plan.unavailable.push(change.path),
        }
    }
    Ok(plan)
}

/// Describes a file that was moved aside; `None` if it is not there, or not a regular file.
fn aside_state(target: &RestoreTarget, id: &str, number: usize) -> Result<Option<FileState>, RestoreError> {
    let aside = format!("{id}/{ASIDE}");
    let fail = |e| RestoreError::io("read", format!("{aside}/{number}"))(e);
    let journals = target.ops.open_path(&target.journal_folder).map_err(fail)?;
    let folder = target.ops.open_below(&journals, aside.as_bytes()).map_err(fail)?;
    let Some(folder) = folder else { return Ok(None) };
    let name = number.to_string().into_bytes();
    let stat = target.ops.stat(&folder, &name).map_err(fail)?;
    let Some(stat) = stat.filter(|stat| stat.kind == Kind::File) else { return Ok(None) };
    let (blob, size) = target.ops.hash(&folder, &name).map_err(fail)?;
    let restore = id.to_owned();
    Ok(Some(FileState::Aside { restore, number, blob, size, executable: stat.executable }))
}

/// Removes an undo point and the contents that it moved aside.
pub fn remove_undo_point(target: &RestoreTarget, id: &str) -> Result<(), RestoreError> {
    let folder = target.journal_folder.join(existing_id(id)?);
    if folder.join(UNDO).symlink_metadata().is_err() {
        return Err(RestoreError::UnknownUndoPoint { id: id.to_owned() });
    }
    let _lock = Lock::acquire(&target.journal_folder)?;
    let fail = |e| RestoreError::io("remove", folder.display().to_string())(e);
    // The record goes last, so that an interrupted removal can be repeated.
    if_exists(fs::remove_dir_all(folder.join(ASIDE))).map_err(fail)?;
    if_exists(fs::remove_file(folder.join(UNDO))).map_err(fail)?;
    if_exists(fs::remove_dir(&folder)).map_err(fail)?;
    atomic::sync_folder(&target.journal_folder).map_err(fail)
}

/// Removes files that restores moved aside from wanted paths. An undo then cannot bring them back. Returns their
/// number.
pub fn remove_aside(
    target: &RestoreTarget,
    is_wanted: &dyn Fn(&[u8]) -> bool,
    dry_run: bool,
) -> Result<u64, RestoreError> {
    let mut removed = 0;
    if !target.journal_folder.exists() {
        return Ok(removed);
    }
    let _lock = Lock::acquire(&target.journal_folder)?;
    for (_, folder) in restore_folders(&target.journal_folder)? {
        let Some(journal) = Journal::read(&folder.join(UNDO))? else { continue };
        for (n, change) in journal.record.changes.iter().enumerate() {
            let is_wanted = change.path.to_bytes().is_some_and(|path| is_wanted(&path));
            let aside = folder.join(ASIDE).join(n.to_string());
            if !is_wanted || aside.symlink_metadata().is_err() {
                continue;
            }
            removed += 1;
            if !dry_run {
                let fail = |e| RestoreError::io("remove", aside.display().to_string())(e);
                if_exists(fs::remove_file(&aside)).map_err(fail)?;
            }
        }
    }
    Ok(removed)
}

/// The blobs that undo points and an unfinished restore need. The store must not remove them.
pub fn referenced_blobs(target: &RestoreTarget) -> Result<BTreeSet<BlobId>, RestoreError> {
    let mut blobs = BTreeSet::new();
    for (_, folder) in restore_folders(&target.journal_folder)? {
        for file in [JOURNAL, UNDO] {
            let Some(journal) = Journal::read(&folder.join(file))? else { continue };
            for change in journal.record.changes {
                let before = match change.before {
                    Before::Saved { state } => Some(state),
                    Before::Unsaved { .. } => None,
                };
                for state in before.into_iter().chain([change.after]) {
                    if let FileState::File { blob, .. } = state {
                        blobs.insert(blob);
                    }
                }
            }
        }
    }
    Ok(blobs)
}

/// An id that is safe as the name of a folder.
fn existing_id(id: &str) -> Result<&str, RestoreError> {
    check_id(id).map(|()| id)
}
