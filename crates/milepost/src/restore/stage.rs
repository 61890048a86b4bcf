//! The first stage of a restore: creates missing folders and writes every new content to a temporary file
//! next to its path. Changes no path. Checks every path first, so that conflicts are found early.

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::io;

use super::context::{Check, Place, Restore, conflict_of};
use super::journal::{ASIDE, NewFolder, Status};
use super::ops::{Folder, Kind, Ops, Permissions};
use super::path::{ancestors, join, split};
use super::plan::{Location, TempNames};
use super::types::{ConflictReason, FileChange, FileState, RestoreError, display_bytes};
use crate::model::{BlobId, PathText};

/// Finds the folders that a plan needs and that do not exist, from the outside inwards.
pub(super) fn missing_folders(
    ops: &Ops,
    root: &Folder,
    changes: &[FileChange],
    locations: &[Location],
) -> io::Result<Vec<NewFolder>> {
    let mut folders: BTreeMap<Vec<u8>, Option<NewFolder>> = BTreeMap::new();
    for (change, location) in changes.iter().zip(locations) {
        if change.after == FileState::Absent {
            continue;
        }
        for folder in ancestors(&location.path) {
            if folders.contains_key(folder) {
                continue;
            }
            let above = location.below.as_ref().filter(|below| below.len() <= folder.len());
            let replaces = match above {
                Some(file) if is_file(ops, root, file)? => locations.iter().position(|l| l.path == *file),
                _ => None,
            };
            let is_missing = replaces.is_some()
                || match ops.open_below(root, folder) {
                    Ok(found) => found.is_none(),
                    // The check of the path finds the reason again.
                    Err(e) if conflict_of(&e).is_some() => break,
                    Err(e) => return Err(e),
                };
            let new = is_missing.then(|| NewFolder { path: PathText::of(folder), replaces });
            folders.insert(folder.to_vec(), new);
        }
    }
    // A folder sorts before the folders in it.
    Ok(folders.into_values().flatten().collect())
}

fn is_file(ops: &Ops, root: &Folder, path: &[u8]) -> io::Result<bool> {
    let (folder, name) = split(path);
    match ops.open_below(root, folder) {
        Ok(Some(folder)) => Ok(ops.stat(&folder, name)?.is_some_and(|stat| stat.kind != Kind::Folder)),
        Ok(None) => Ok(false),
        Err(e) if conflict_of(&e).is_some() => Ok(false),
        Err(e) => Err(e),
    }
}

impl Restore<'_> {
    /// Writes every new content to its temporary file.
    pub(super) fn stage(&mut self) -> Result<(), RestoreError> {
        self.create_folders()?;
        for n in 0..self.len() {
            let staged = self.stage_one(n);
            let status = match staged {
                Err(RestoreError::Io { error, .. }) if conflict_of(&error).is_some() => {
                    self.details.insert(n, error.to_string());
                    Status::Kept(conflict_of(&error).unwrap_or(ConflictReason::PermissionDenied))
                }
                other => other?,
            };
            self.journal.statuses[n] = status;
        }
        self.sync_folders()
    }

    fn stage_one(&mut self, n: usize) -> Result<Status, RestoreError> {
        let place = self.place(n).map_err(|e| self.fail(n, e))?;
        if let Some((reason, detail)) = self.failed_folders.get(split(&self.location(n).path).0).cloned() {
            self.details.insert(n, detail);
            return Ok(Status::Kept(reason));
        }
        match self.check(n, &place).map_err(|e| self.fail(n, e))? {
            Check::Unchanged => return Ok(Status::Unchanged),
            Check::Keep(reason) => return Ok(Status::Kept(reason)),
            Check::Apply => {}
        }
        if self.is_second_name(n, &place).map_err(|e| self.fail(n, e))? {
            return Ok(Status::Kept(ConflictReason::SameFile));
        }
        if self.change(n).after != FileState::Absent {
            let replaced = self.replaced_metadata(&place).map_err(|e| self.fail(n, e))?;
            let Some(folder) = &place.temp_folder else {
                return Ok(Status::Kept(ConflictReason::ParentNotFolder));
            };
            self.write_content(n, folder, &place.names.temp, &place.names.temp, replaced.as_ref())?;
        }
        Ok(Status::Pending)
    }

    /// Whether an earlier change of the plan replaces the same file under another name. Hard links are
    /// different files here: each name is replaced on its own.
    fn is_second_name(&mut self, n: usize, place: &Place) -> io::Result<bool> {
        let Some(stat) =
            self.stat(place.target())?.filter(|stat| stat.kind != Kind::Folder && stat.links > 0)
        else {
            return Ok(false);
        };
        let folded = String::from_utf8_lossy(&self.location(n).path).to_lowercase();
        match self.seen.get(&stat.identity) {
            Some(first) => Ok(stat.links == 1 || *first == folded),
            None => {
                self.seen.insert(stat.identity, folded);
                Ok(false)
            }
        }
    }

    /// The permissions that a new file takes over. `None` unless it replaces a regular file.
    fn replaced_metadata(&self, place: &Place) -> io::Result<Option<Metadata>> {
        let Some((folder, name)) = place.target() else { return Ok(None) };
        match self.ops.stat(folder, name)? {
            Some(stat) if stat.kind == Kind::File => self.ops.open_file(folder, name)?.metadata().map(Some),
            _ => Ok(None),
        }
    }

    /// Writes the new content of a change to `name`. A file that comes from the aside folder of another
    /// restore is moved to `temp` instead, if it is on the same file system.
    fn write_content(
        &self,
        n: usize,
        folder: &Folder,
        name: &[u8],
        temp: &[u8],
        replaced: Option<&Metadata>,
    ) -> Result<(), RestoreError> {
        let fail = |error| self.fail(n, error);
        let path = || display_bytes(&self.location(n).path);
        match &self.change(n).after {
            FileState::Absent => Ok(()),
            FileState::Symlink { target } => self.ops.create_symlink(folder, name, target).map_err(fail),
            FileState::File { blob, size, executable } => {
                let content = self.source.read(blob);
                let content =
                    content.map_err(|e| RestoreError::Content { path: path(), why: e.to_string() })?;
                if BlobId::of(&content) != *blob || content.len() as u64 != *size {
                    let why = format!("the content does not have the hash {blob}");
                    return Err(RestoreError::Content { path: path(), why });
                }
                let executable = *executable;
                let permissions = match replaced {
                    Some(replaced) => Permissions::Like { replaced, executable },
                    None => Permissions::New { executable },
                };
                self.ops.create_file(folder, name, &content, &permissions).map_err(fail)
            }
            FileState::Aside { blob, size, number, .. } => {
                let missing = |why: &str| RestoreError::Content { path: path(), why: why.to_owned() };
                let Some(aside) = self.aside_of(n).map_err(fail)? else {
                    return Err(missing("it is no longer in the aside folder"));
                };
                let original = number.to_string().into_bytes();
                match crate::fs::if_exists(self.ops.hash(&aside, &original)).map_err(fail)? {
                    Some(found) if found == (*blob, *size) => {}
                    Some(_) => return Err(missing("the file in the aside folder changed")),
                    None => return Err(missing("it is no longer in the aside folder")),
                }
                match self.ops.rename_across((&aside, &original), (folder, temp)) {
                    Err(e) if e.kind() == io::ErrorKind::CrossesDevices => {
                        self.ops.copy_file((&aside, &original), (folder, name)).map_err(fail)
                    }
                    other => other.map_err(fail),
                }
            }
        }
    }

    /// The aside folder that the new content of a change comes from; `None` if it does not exist.
    pub(super) fn aside_of(&self, n: usize) -> io::Result<Option<Folder>> {
        let FileState::Aside { restore, .. } = &self.change(n).after else { return Ok(None) };
        self.ops.open_below(&self.restores, format!("{restore}/{ASIDE}").as_bytes())
    }

    /// Writes a temporary file again that vanished after it was staged.
    pub(super) fn stage_again(&self, n: usize, place: &Place) -> io::Result<()> {
        let Some(folder) = &place.temp_folder else { return Err(io::ErrorKind::NotADirectory.into()) };
        let replaced = self.replaced_metadata(place)?;
        let names = &place.names;
        self.ops.unlink(folder, &names.partial)?;
        self.write_content(n, folder, &names.partial, &names.temp, replaced.as_ref())
            .map_err(io::Error::other)?;
        if self.ops.stat(folder, &names.partial)?.is_some() {
            self.ops.rename_new((folder, &names.partial), (folder, &names.temp))?;
        }
        Ok(())
    }

    /// Removes what `stage` wrote. Before the phase `Applying`, temporary files hold new content only.
    pub(super) fn unstage(&mut self) -> Result<(), RestoreError> {
        for n in 0..self.len() {
            let removed = self.unstage_one(n);
            self.note_leftover(n, removed)?;
        }
        self.remove_new_folders()?;
        self.sync_folders()
    }

    fn unstage_one(&self, n: usize) -> io::Result<()> {
        let place = self.place(n)?;
        let Some(folder) = &place.temp_folder else { return Ok(()) };
        self.ops.unlink(folder, &place.names.partial)?;
        if matches!(self.change(n).after, FileState::Aside { .. }) {
            self.return_to_aside(n, folder, &place.names.temp).map(|_| ())
        } else {
            self.ops.unlink(folder, &place.names.temp)
        }
    }

    /// Moves a staged file back to the aside folder that it came from. Returns `false` if that folder does
    /// not exist anymore.
    pub(super) fn return_to_aside(&self, n: usize, folder: &Folder, name: &[u8]) -> io::Result<bool> {
        let FileState::Aside { number, .. } = &self.change(n).after else { return Ok(false) };
        let Some(aside) = self.aside_of(n)? else { return Ok(false) };
        let original = number.to_string().into_bytes();
        if self.ops.stat(folder, name)?.is_none() {
            return Ok(true);
        }
        if self.ops.stat(&aside, &original)?.is_none() {
            // If the original is gone, the file was moved here, so both are on the same file system.
            self.ops.rename_across((folder, name), (&aside, &original))?;
        } else {
            self.ops.unlink(folder, name)?;
        }
        Ok(true)
    }

    /// The path of a new folder while it is staged, or in its final place.
    pub(super) fn new_folder_path(&self, folder: &NewFolder, staged: bool) -> Option<Vec<u8>> {
        let path = folder.path.to_bytes()?;
        let replaces = folder.replaces.filter(|_| staged);
        let Some(k) = replaces else { return (!staged).then_some(path) };
        let file = &self.journal.locations.get(k)?.path;
        let temp = TempNames::new(&self.journal.record.meta.id, k).folder;
        let rest = path.strip_prefix(file.as_slice())?;
        Some([join(split(file).0, &temp).as_slice(), rest].concat())
    }

    fn create_folders(&mut self) -> Result<(), RestoreError> {
        for folder in self.journal.record.folders.clone() {
            let Some(path) = self.new_folder_path(&folder, folder.replaces.is_some()) else { continue };
            let Some(real) = folder.path.to_bytes() else { continue };
            if let Some(failed) = self.failed_folders.get(split(&real).0).cloned() {
                self.failed_folders.insert(real, failed);
                continue;
            }
            let (parent, name) = split(&path);
            let created = match self.open_folder(parent) {
                Ok(Some(parent)) => self.ops.create_folder(&parent, name),
                Ok(None) => Err(io::ErrorKind::NotADirectory.into()),
                Err(e) => Err(e),
            };
            match created {
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                Err(e) => match conflict_of(&e) {
                    Some(reason) => {
                        self.failed_folders.insert(real, (reason, e.to_string()));
                    }
                    None => return Err(RestoreError::io("create the folder", display_bytes(&path))(e)),
                },
                Ok(()) => {}
            }
        }
        Ok(())
    }

    /// Moves folders to the places of the files that they replace. If a file is still there, the changes
    /// below it become conflicts.
    pub(super) fn place_folders(&self) -> io::Result<()> {
        for folder in &self.journal.record.folders {
            let file = folder.replaces.and_then(|k| self.journal.locations.get(k));
            let Some(file) = file.filter(|file| folder.path.to_bytes().as_ref() == Some(&file.path)) else {
                continue;
            };
            let Some(staged) = self.new_folder_path(folder, true) else { continue };
            let Some(parent) = self.open_folder(split(&staged).0)? else { continue };
            let (from, to) = ((&parent, split(&staged).1), (&parent, split(&file.path).1));
            match self.ops.rename_new(from, to) {
                Err(e) if matches!(e.kind(), io::ErrorKind::AlreadyExists | io::ErrorKind::NotFound) => {}
                Err(e) if conflict_of(&e).is_some() => {}
                other => other?,
            }
        }
        Ok(())
    }

    /// Removes the folders that the restore created, if they are empty.
    pub(super) fn remove_new_folders(&self) -> Result<(), RestoreError> {
        for folder in self.journal.record.folders.iter().rev() {
            for staged in [true, false] {
                let Some(path) = self.new_folder_path(folder, staged) else { continue };
                self.remove_folder(&path)
                    .map_err(RestoreError::io("remove the folder", display_bytes(&path)))?;
            }
        }
        Ok(())
    }

    /// Removes a folder of the worktree. Returns `false` if it still exists.
    pub(super) fn remove_folder(&self, path: &[u8]) -> io::Result<bool> {
        let (parent, name) = split(path);
        let removed = match self.open_folder(parent) {
            Ok(Some(parent)) => self.ops.remove_folder(&parent, name),
            Ok(None) => Ok(true),
            Err(e) => Err(e),
        };
        match removed {
            Err(e) if conflict_of(&e).is_some() => Ok(false),
            other => other,
        }
    }
}
