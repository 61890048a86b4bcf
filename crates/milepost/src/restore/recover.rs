//! Recovers a restore that was interrupted: completes it, or rolls it back if that is impossible. Touches only
//! files with the content before or after a change. Can itself be interrupted and repeated.

use std::io;

use super::context::{Place, Restore, TempState};
use super::journal::{JOURNAL, Journal, Lock, Phase, Status, unfinished};
use super::types::{Before, ContentSource, FileState, Outcome, RestoreError, RestoreMeta};
use super::{RestoreTarget, incomplete_folders, remove_incomplete_folders};

/// How an interrupted restore ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecoveryResult {
    /// All changes are made, except those that are conflicts.
    Completed,
    /// No change is made.
    RolledBack,
}

/// What a recovery did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovery {
    /// The restore that was interrupted.
    pub meta: RestoreMeta,
    /// How it ended.
    pub result: RecoveryResult,
    /// What happened to each path.
    pub outcome: Outcome,
}

/// Completes or rolls back a restore that was interrupted. Returns `None` if there is none.
pub fn recover(target: &RestoreTarget, source: &dyn ContentSource) -> Result<Option<Recovery>, RestoreError> {
    let folder = &target.journal_folder;
    if unfinished(folder)?.is_none() && incomplete_folders(folder)?.is_empty() {
        return Ok(None);
    }
    let _lock = Lock::acquire(&target.journal_folder)?;
    remove_incomplete_folders(&target.journal_folder)?;
    // Another process may have recovered it while this one waited.
    let Some((id, folder)) = unfinished(&target.journal_folder)? else { return Ok(None) };
    let path = folder.join(JOURNAL);
    let Some(journal) = Journal::read(&path)? else { return Ok(None) };
    let meta = journal.record.meta.clone();
    if meta.id != id {
        let why = "its id is not the name of its folder".to_owned();
        return Err(RestoreError::DamagedJournal { path, why });
    }
    let phase = journal.phase;
    let mut restore = Restore::open(&target.ops, source, (&target.root, &target.journal_folder), journal)?;
    let recovered = match phase {
        Phase::Staging => restore.abandon().map(|outcome| (RecoveryResult::RolledBack, outcome)),
        Phase::RollingBack => restore.roll_back().map(|outcome| (RecoveryResult::RolledBack, outcome)),
        Phase::Finishing => restore.finish().map(|outcome| (RecoveryResult::Completed, outcome)),
        Phase::Applying => match restore.complete(false) {
            Ok(outcome) => Ok((RecoveryResult::Completed, outcome)),
            Err(e) if restore.journal.phase == Phase::Finishing => Err(e),
            Err(_) => restore.roll_back().map(|outcome| (RecoveryResult::RolledBack, outcome)),
        },
    };
    let interrupted = |cause| RestoreError::Interrupted { id, cause: Box::new(cause) };
    let (result, outcome) = recovered.map_err(interrupted)?;
    Ok(Some(Recovery { meta, result, outcome }))
}

impl Restore<'_> {
    /// Makes all changes and cleans up.
    pub(super) fn complete(&mut self, staged: bool) -> Result<Outcome, RestoreError> {
        self.swap_all(staged)?;
        self.journal.enter(Phase::Finishing, self.ops, &self.folder)?;
        self.finish()
    }

    /// Removes what was staged. Nothing was changed.
    pub(super) fn abandon(&mut self) -> Result<Outcome, RestoreError> {
        self.unstage()?;
        self.close(false)?;
        Ok(self.outcome(false))
    }

    /// Takes back every change that was made.
    pub(super) fn roll_back(&mut self) -> Result<Outcome, RestoreError> {
        for status in &mut self.journal.statuses {
            if matches!(status, Status::Done | Status::DoneAside) {
                *status = Status::Pending;
            }
        }
        if self.journal.phase != Phase::RollingBack {
            self.journal.enter(Phase::RollingBack, self.ops, &self.folder)?;
        }
        let deletions = self.deletions();
        for n in (deletions..self.len()).rev() {
            self.roll_back_and_note(n)?;
        }
        self.remove_new_folders()?;
        for n in (0..deletions).rev() {
            self.roll_back_and_note(n)?;
        }
        self.sync_folders()?;
        self.discard_temporary_files()?;
        self.remove_new_folders()?;
        self.sync_folders()?;
        self.note_aside_files()?;
        let has_aside = self.journal.statuses.contains(&Status::KeptAside);
        self.close(has_aside)?;
        Ok(self.outcome(has_aside))
    }

    fn roll_back_and_note(&mut self, n: usize) -> Result<(), RestoreError> {
        let rolled_back = self.roll_back_one(n);
        self.note_leftover(n, rolled_back)
    }

    fn roll_back_one(&mut self, n: usize) -> io::Result<()> {
        let place = self.place(n)?;
        self.complete_exchange(&place)?;
        self.return_from_aside(n, &place)?;
        let creates = self.change(n).before == Before::ABSENT && self.change(n).after != FileState::Absent;
        let was_skipped = matches!(self.journal.statuses[n], Status::Unchanged | Status::Kept(_));
        match self.temp_state(n, &place)? {
            TempState::Old => self.take_back(n, &place),
            TempState::Missing if creates && !was_skipped => {
                let (Some(temp), Some(target)) = (place.temp(), place.target()) else { return Ok(()) };
                if self.matches(place.target(), &self.change(n).after)? {
                    self.ops.rename_new(target, temp)?;
                }
                Ok(())
            }
            TempState::Missing | TempState::New => Ok(()),
        }
    }

    /// Moves an old content back from the aside folder, or removes it there if it is only a copy.
    fn return_from_aside(&self, n: usize, place: &Place) -> io::Result<()> {
        let Some(temp) = place.temp() else { return Ok(()) };
        let is_unsaved = matches!(self.change(n).before, Before::Unsaved { .. });
        if !is_unsaved || self.journal.statuses[n] == Status::KeptAside || !self.is_aside(n)? {
            return Ok(());
        }
        let name = Self::aside_name(n);
        if self.ops.stat(temp.0, temp.1)?.is_some() {
            self.ops.unlink(&self.aside, &name)
        } else {
            self.ops.rename_across((&self.aside, &name), temp)
        }
    }
}
