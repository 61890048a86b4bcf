//! The last stage of a restore: removes temporary files and empty folders, and turns the journal into an undo
//! point. A temporary file is removed only if its content is stored elsewhere; otherwise it is moved aside.

use std::io;

use super::context::{Restore, conflict_of};
use super::journal::{ASIDE, JOURNAL, Status, UNDO};
use super::ops::{Folder, Kind};
use super::path::ancestors;
use super::swap::is_no_space;
use super::types::{Before, FileState, Outcome, RestoreError};

impl Restore<'_> {
    /// Cleans up after all changes are made, and keeps the journal as an undo point.
    pub(super) fn finish(&mut self) -> Result<Outcome, RestoreError> {
        self.discard_temporary_files()?;
        self.remove_new_folders()?;
        for n in 0..self.deletions() {
            if matches!(self.journal.statuses[n], Status::Done | Status::DoneAside) {
                self.remove_empty_parents(n).map_err(|e| self.fail(n, e))?;
            }
        }
        for n in self.deletions()..self.len() {
            if matches!(self.journal.statuses[n], Status::Done | Status::DoneAside) {
                self.remove_copied_original(n).map_err(|e| self.fail(n, e))?;
            }
        }
        self.note_aside_files()?;
        self.sync_folders()?;
        let made = |status: &Status| matches!(status, Status::Done | Status::DoneAside | Status::KeptAside);
        let undo_point = self.journal.statuses.iter().any(made);
        self.close(undo_point)?;
        Ok(self.outcome(undo_point))
    }

    /// Sets the statuses of changes with a content in the aside folder. An interrupted attempt may have moved
    /// it there without writing the status.
    pub(super) fn note_aside_files(&mut self) -> Result<(), RestoreError> {
        let fail = |e| RestoreError::io("read the folder", ASIDE)(e);
        for name in self.ops.list(&self.aside).map_err(fail)? {
            if name.ends_with(b"-partial") {
                self.ops.unlink(&self.aside, &name).map_err(fail)?;
                continue;
            }
            let digits = name.iter().take_while(|b| b.is_ascii_digit()).count();
            let number = std::str::from_utf8(&name[..digits]).ok().and_then(|n| n.parse::<usize>().ok());
            let Some(status) = number.and_then(|n| self.journal.statuses.get_mut(n)) else { continue };
            *status = match status {
                Status::Done | Status::DoneAside => Status::DoneAside,
                _ => Status::KeptAside,
            };
        }
        Ok(())
    }

    /// Removes the journal, or keeps it as an undo point.
    pub(super) fn close(&mut self, undo_point: bool) -> Result<(), RestoreError> {
        let fail = |e| RestoreError::io("finish", JOURNAL)(e);
        if undo_point {
            self.journal.write_statuses(self.ops, &self.folder)?;
            self.ops
                .rename_over((&self.folder, JOURNAL.as_bytes()), (&self.folder, UNDO.as_bytes()))
                .map_err(fail)?;
            return self.ops.sync_folder(&self.folder).map_err(fail);
        }
        let id = self.journal.record.meta.id.clone();
        // Without its journal, the next restore removes what remains of the folder.
        self.ops.unlink(&self.folder, JOURNAL.as_bytes()).map_err(fail)?;
        self.ops.remove_folder(&self.folder, ASIDE.as_bytes()).map_err(fail)?;
        self.ops.remove_folder(&self.restores, id.as_bytes()).map_err(fail)?;
        self.ops.sync_folder(&self.restores).map_err(fail)
    }

    /// Removes every temporary file whose content is stored elsewhere, and moves the others aside.
    pub(super) fn discard_temporary_files(&mut self) -> Result<(), RestoreError> {
        for n in 0..self.len() {
            let discarded = self.discard(n);
            self.note_leftover(n, discarded)?;
        }
        Ok(())
    }

    fn discard(&mut self, n: usize) -> io::Result<()> {
        let place = self.place(n)?;
        let Some(folder) = &place.temp_folder else { return Ok(()) };
        self.ops.unlink(folder, &place.names.partial)?;
        let aside_name = Self::aside_name(n);
        let second_name = [aside_name.as_slice(), b"-old"].concat();
        for (name, aside_name) in [(&place.names.temp, aside_name), (&place.names.old, second_name)] {
            let Some(stat) = self.ops.stat(folder, name)? else { continue };
            let is_stored = match stat.kind {
                Kind::Folder => self.remove_empty_tree(folder, name)?,
                _ => self.remove_stored(n, folder, name, &aside_name)?,
            };
            if !is_stored {
                match self.move_aside((folder, name), &aside_name, true) {
                    // The file stays where it is, so that nothing is lost.
                    Err(e) if is_no_space(&e) => {
                        self.leftover.push(self.change(n).path.clone());
                        continue;
                    }
                    other => other?,
                }
            }
        }
        Ok(())
    }

    /// Removes a temporary file if its content is stored elsewhere. Otherwise returns `false`.
    fn remove_stored(&self, n: usize, folder: &Folder, name: &[u8], aside_name: &[u8]) -> io::Result<bool> {
        let at = Some((folder, name));
        if self.matches(at, &self.change(n).after)? {
            if matches!(self.change(n).after, FileState::Aside { .. }) {
                return self.return_to_aside(n, folder, name);
            }
            return self.ops.unlink(folder, name).map(|()| true);
        }
        let is_saved = matches!(self.change(n).before, Before::Saved { .. });
        let is_stored =
            (is_saved && self.matches_before(n, at)?) || self.is_copied((folder, name), aside_name)?;
        if is_stored {
            self.ops.unlink(folder, name)?;
        }
        Ok(is_stored)
    }

    /// Whether a file was copied to the aside folder and did not change since.
    fn is_copied(&self, (folder, name): (&Folder, &[u8]), aside_name: &[u8]) -> io::Result<bool> {
        let both_are_files = [(folder, name), (&self.aside, aside_name)]
            .into_iter()
            .map(|(folder, name)| {
                Ok(self.ops.stat(folder, name)?.is_some_and(|stat| stat.kind == Kind::File))
            })
            .collect::<io::Result<Vec<_>>>()?;
        Ok(both_are_files == [true, true]
            && self.ops.hash(folder, name)? == self.ops.hash(&self.aside, aside_name)?)
    }

    /// Removes a folder that contains nothing but folders. Returns `false` if it contains anything else.
    fn remove_empty_tree(&self, folder: &Folder, name: &[u8]) -> io::Result<bool> {
        let inner = self.ops.open_folder(folder, name)?;
        for inner_name in self.ops.list(&inner)? {
            let is_folder = self.ops.stat(&inner, &inner_name)?.is_some_and(|stat| stat.kind == Kind::Folder);
            if !is_folder || !self.remove_empty_tree(&inner, &inner_name)? {
                return Ok(false);
            }
        }
        self.ops.remove_folder(folder, name)
    }

    /// Removes the folders that a deletion left empty.
    fn remove_empty_parents(&self, n: usize) -> io::Result<()> {
        for folder in ancestors(&self.location(n).path).rev() {
            if !self.remove_folder(folder)? {
                break;
            }
        }
        Ok(())
    }

    /// Removes a file from the aside folder of another restore after it was copied to its path.
    fn remove_copied_original(&self, n: usize) -> io::Result<()> {
        let FileState::Aside { number, .. } = &self.change(n).after else { return Ok(()) };
        match self.aside_of(n)? {
            Some(aside) => self.ops.unlink(&aside, number.to_string().as_bytes()),
            None => Ok(()),
        }
    }

    /// Remembers a temporary file that the system refuses to remove. Other errors are returned.
    pub(super) fn note_leftover(&mut self, n: usize, result: io::Result<()>) -> Result<(), RestoreError> {
        match result {
            Err(e) if conflict_of(&e).is_some() => {
                self.leftover.push(self.change(n).path.clone());
                Ok(())
            }
            other => other.map_err(|e| self.fail(n, e)),
        }
    }
}
