//! The second stage of a restore: replaces, creates and deletes files by renaming only, so that it needs no
//! space. Each step looks at what is on disk and can be repeated after an interruption. A file whose content
//! is not the expected one goes back to its place.

use std::io;

use super::context::{Check, Place, Restore, TempState, conflict_of, fatal};
use super::journal::Status;
use super::ops::{Folder, Kind};
use super::types::{Before, ConflictReason, FileState, RestoreError};

impl Restore<'_> {
    /// Makes all changes that are pending. `staged` says that this process staged them just now.
    pub(super) fn swap_all(&mut self, staged: bool) -> Result<(), RestoreError> {
        let deletions = self.deletions();
        for n in 0..deletions {
            self.swap_and_note(n, staged)?;
        }
        self.place_folders().map_err(RestoreError::io("create", "a folder in the place of a file"))?;
        for n in deletions..self.len() {
            self.swap_and_note(n, staged)?;
        }
        self.sync_folders()?;
        for n in 0..self.len() {
            let is_unsaved = matches!(self.change(n).before, Before::Unsaved { .. });
            if is_unsaved && self.journal.statuses[n] == Status::Done {
                let status = self.set_aside(n).map_err(|e| self.fail(n, e))?;
                self.journal.statuses[n] = status;
            }
        }
        self.ops.sync_folder(&self.aside).map_err(RestoreError::io("sync the folder", "aside"))
    }

    fn swap_and_note(&mut self, n: usize, staged: bool) -> Result<(), RestoreError> {
        if self.journal.statuses[n] != Status::Pending {
            return Ok(());
        }
        let status = match self.swap(n, staged) {
            Ok(status) => status,
            Err(e) => match conflict_of(&e) {
                Some(reason) => {
                    self.details.insert(n, e.to_string());
                    Status::Kept(reason)
                }
                None => return Err(self.fail(n, e)),
            },
        };
        self.journal.statuses[n] = status;
        Ok(())
    }

    /// Makes one change, from whatever an interrupted attempt left.
    fn swap(&self, n: usize, staged: bool) -> io::Result<Status> {
        let place = self.place(n)?;
        if !staged {
            self.complete_exchange(&place)?;
        }
        if self.change(n).after == FileState::Absent {
            self.delete(n, &place)
        } else {
            self.put(n, &place, staged)
        }
    }

    fn delete(&self, n: usize, place: &Place) -> io::Result<Status> {
        let temp = place.temp().ok_or(io::ErrorKind::NotADirectory)?;
        if self.ops.stat(temp.0, temp.1)?.is_none() {
            if self.is_aside(n)? {
                return Ok(Status::Done);
            }
            match self.check(n, place)? {
                Check::Unchanged => return Ok(Status::Unchanged),
                Check::Keep(reason) => return Ok(Status::Kept(reason)),
                Check::Apply => {}
            }
            let Some(target) = place.target() else { return Ok(Status::Unchanged) };
            match self.ops.rename_new(target, temp) {
                Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Status::Unchanged),
                other => other?,
            }
        }
        if self.taken_matches(n, place)? {
            return Ok(Status::Done);
        }
        // Somebody wrote the file after the check.
        self.return_deleted(place).map_err(fatal)?;
        Ok(Status::Kept(ConflictReason::Changed))
    }

    /// Puts a deleted file back, unless there is a newer one. Then the deleted one is moved aside later.
    fn return_deleted(&self, place: &Place) -> io::Result<()> {
        let (Some(temp), Some(target)) = (place.temp(), place.target()) else { return Ok(()) };
        match self.ops.rename_new(temp, target) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            other => other,
        }
    }

    fn put(&self, n: usize, place: &Place, staged: bool) -> io::Result<Status> {
        let state = if staged { TempState::New } else { self.temp_state(n, place)? };
        match state {
            TempState::New => self.put_new(n, place),
            TempState::Old if self.taken_matches(n, place)? => Ok(Status::Done),
            TempState::Old => {
                if self.matches(place.target(), &self.change(n).after)? {
                    let ours = self.stat(place.target())?.map(|stat| stat.identity);
                    self.put_back(place, ours).map_err(fatal)?;
                }
                Ok(Status::Kept(ConflictReason::Changed))
            }
            TempState::Missing => {
                // The temporary file was renamed to the path, its old content was already moved aside, or
                // somebody removed it.
                if self.is_aside(n)? || self.matches(place.target(), &self.change(n).after)? {
                    return Ok(Status::Done);
                }
                match self.check(n, place)? {
                    Check::Apply => {
                        self.stage_again(n, place).map_err(fatal)?;
                        self.put_new(n, place)
                    }
                    Check::Unchanged => Ok(Status::Unchanged),
                    Check::Keep(reason) => Ok(Status::Kept(reason)),
                }
            }
        }
    }

    /// Moves the staged file to its path.
    fn put_new(&self, n: usize, place: &Place) -> io::Result<Status> {
        match self.check(n, place)? {
            Check::Unchanged => return Ok(Status::Unchanged),
            Check::Keep(reason) => return Ok(Status::Kept(reason)),
            Check::Apply => {}
        }
        let (Some(temp), Some(target)) = (place.temp(), place.target()) else {
            return Ok(Status::Kept(ConflictReason::ParentNotFolder));
        };
        let Some(present) = self.ops.stat(target.0, target.1)? else {
            return match self.ops.rename_new(temp, target) {
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                    Ok(Status::Kept(ConflictReason::Exists))
                }
                other => other.map(|()| Status::Done),
            };
        };
        let ours = self.ops.stat(temp.0, temp.1)?.map(|stat| stat.identity);
        match self.exchange(place) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Status::Kept(ConflictReason::Gone)),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                return Ok(Status::Kept(ConflictReason::Changed));
            }
            other => other?,
        }
        if self.taken_matches(n, place)? {
            return Ok(Status::Done);
        }
        // Somebody wrote the file after the check.
        self.put_back(place, ours).map_err(fatal)?;
        let is_folder = present.kind == Kind::Folder;
        Ok(Status::Kept(if is_folder { ConflictReason::FolderNotEmpty } else { ConflictReason::Changed }))
    }

    /// Exchanges the temporary file and the path. Where the file system cannot do it in one step, the path is
    /// missing for a moment.
    pub(super) fn exchange(&self, place: &Place) -> io::Result<()> {
        let (Some(temp), Some(target)) = (place.temp(), place.target()) else {
            return Err(io::ErrorKind::NotFound.into());
        };
        if self.ops.exchange(temp, target)? {
            return Ok(());
        }
        let old = (temp.0, place.names.old.as_slice());
        self.ops.rename_new(target, old)?;
        match self.ops.rename_new(temp, target) {
            Ok(()) => self.ops.rename_new(old, temp).map_err(fatal),
            // Somebody created a file at the path. The temporary files are moved aside or removed later.
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Err(e),
            Err(e) => {
                self.ops.rename_new(old, target).map_err(fatal)?;
                Err(e)
            }
        }
    }

    /// Completes an exchange in several steps that was interrupted.
    pub(super) fn complete_exchange(&self, place: &Place) -> io::Result<()> {
        let Some(temp) = place.temp() else { return Ok(()) };
        let old = (temp.0, place.names.old.as_slice());
        if self.ops.stat(old.0, old.1)?.is_none() {
            return Ok(());
        }
        let Some(target) = place.target() else { return Ok(()) };
        let has_temp = self.ops.stat(temp.0, temp.1)?.is_some();
        let has_target = self.ops.stat(target.0, target.1)?.is_some();
        match (has_temp, has_target) {
            // Somebody created a file at the path.
            (true, true) => return Ok(()),
            (true, false) => self.ops.rename_new(temp, target)?,
            // Somebody removed the new content before it was at the path.
            (false, false) => return self.ops.rename_new(old, target),
            (false, true) => {}
        }
        self.ops.rename_new(old, temp)
    }

    /// Puts back the file that an exchange took from the path. `ours` is the file that was put there. If
    /// another program puts a newer file there in the meantime, the newest file stays.
    pub(super) fn put_back(&self, place: &Place, ours: Option<(u64, u64)>) -> io::Result<()> {
        let Some(temp) = place.temp() else { return Ok(()) };
        let mut expected = ours;
        loop {
            let in_hand = self.ops.stat(temp.0, temp.1)?.map(|stat| stat.identity);
            match self.exchange(place) {
                // Our file was removed.
                Err(e) if e.kind() == io::ErrorKind::NotFound => return self.return_deleted(place),
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
                other => other?,
            }
            let received = self.ops.stat(temp.0, temp.1)?.map(|stat| stat.identity);
            if received == expected || received == Some((0, 0)) {
                return Ok(());
            }
            expected = in_hand;
        }
    }

    /// The name of an old content in the aside folder.
    pub(super) fn aside_name(n: usize) -> Vec<u8> {
        n.to_string().into_bytes()
    }

    pub(super) fn is_aside(&self, n: usize) -> io::Result<bool> {
        Ok(self.ops.stat(&self.aside, &Self::aside_name(n))?.is_some())
    }

    /// Moves an old content that is stored nowhere else to the aside folder. If there is no space for it, the
    /// change is taken back.
    fn set_aside(&self, n: usize) -> io::Result<Status> {
        let place = self.place(n)?;
        let Some((folder, name)) = place.temp() else { return Ok(Status::Done) };
        if self.ops.stat(folder, name)?.is_none() {
            return Ok(if self.is_aside(n)? { Status::DoneAside } else { Status::Done });
        }
        let refused = match self.move_aside((folder, name), &Self::aside_name(n), false) {
            Ok(()) => return Ok(Status::DoneAside),
            Err(e) if is_no_space(&e) || conflict_of(&e).is_some() => e,
            Err(e) => return Err(e),
        };
        let status = conflict_of(&refused).filter(|_| !is_no_space(&refused));
        self.take_back(n, &place).map_err(fatal)?;
        Ok(Status::Kept(status.unwrap_or(ConflictReason::NoSpaceAside)))
    }

    /// Takes back a change whose temporary file holds the old content.
    pub(super) fn take_back(&self, n: usize, place: &Place) -> io::Result<()> {
        let is_new = self.change(n).after != FileState::Absent;
        match self.stat(place.target())? {
            Some(stat) if is_new => {
                // A content that somebody wrote over the new one stays.
                if self.matches(place.target(), &self.change(n).after)? {
                    self.put_back(place, Some(stat.identity))
                } else {
                    Ok(())
                }
            }
            _ => self.return_deleted(place),
        }
    }

    /// Moves a file to the aside folder. Copies it if the folder is on another file system; then
    /// `remove_original` decides whether the original is removed.
    pub(super) fn move_aside(
        &self,
        (folder, name): (&Folder, &[u8]),
        aside_name: &[u8],
        remove_original: bool,
    ) -> io::Result<()> {
        match self.ops.rename_across((folder, name), (&self.aside, aside_name)) {
            // An earlier copy of the same file.
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                return self.ops.rename_over((folder, name), (&self.aside, aside_name));
            }
            Err(e) if e.kind() == io::ErrorKind::CrossesDevices => {}
            other => return other,
        }
        let partial = [aside_name, b"-partial"].concat();
        self.ops.unlink(&self.aside, &partial)?;
        if self.ops.stat(folder, name)?.is_some_and(|stat| stat.kind == Kind::Symlink) {
            let target = self.ops.read_link(folder, name)?;
            self.ops.create_symlink(&self.aside, &partial, &target)?;
        } else {
            self.ops.copy_file((folder, name), (&self.aside, &partial))?;
        }
        self.ops.rename_over((&self.aside, &partial), (&self.aside, aside_name))?;
        if remove_original {
            self.ops.sync_folder(&self.aside)?;
            self.ops.unlink(folder, name)?;
        }
        Ok(())
    }
}

pub(super) fn is_no_space(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
