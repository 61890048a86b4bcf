//! What every stage of a restore works with: the open folders, the journal, and the comparison of a file with
//! an expected state.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::path::Path;

use super::journal::{ASIDE, Journal, Status};
use super::ops::{Folder, Kind, Ops, Stat};
use super::path::split;
use super::plan::{Location, TempNames};
use super::types::{
    Before, Conflict, ConflictReason, ContentSource, FileChange, FileState, Fingerprint, Outcome,
    RestoreError, display_bytes,
};
use crate::model::PathText;

/// A restore in progress.
pub(super) struct Restore<'a> {
    pub ops: &'a Ops,
    pub source: &'a dyn ContentSource,
    /// The root of the worktree.
    pub root: Folder,
    /// The folder that contains the folders of all restores.
    pub restores: Folder,
    /// The folder of this restore.
    pub folder: Folder,
    pub aside: Folder,
    pub journal: Journal,
    /// Messages of the system about changes that it refused.
    pub details: BTreeMap<usize, String>,
    pub leftover: Vec<PathText>,
    /// The files that changes were staged for, to detect two names of one file.
    pub seen: HashMap<(u64, u64), String>,
    /// The folders that could not be created.
    pub failed_folders: BTreeMap<Vec<u8>, (ConflictReason, String)>,
}

/// The open folders and the names of one change.
pub(super) struct Place {
    /// The folder of the path, unless it is missing or not a folder.
    pub parent: Option<Folder>,
    /// Whether a parent exists but is not a folder.
    pub parent_is_not_folder: bool,
    pub name: Vec<u8>,
    pub temp_folder: Option<Folder>,
    pub names: TempNames,
}

impl Place {
    pub(super) fn target(&self) -> Option<(&Folder, &[u8])> {
        self.parent.as_ref().map(|folder| (folder, self.name.as_slice()))
    }

    pub(super) fn temp(&self) -> Option<(&Folder, &[u8])> {
        self.temp_folder.as_ref().map(|folder| (folder, self.names.temp.as_slice()))
    }
}

/// What the temporary file of a change holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TempState {
    Missing,
    /// The new content.
    New,
    /// What was at the path.
    Old,
}

/// Whether a path may be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Check {
    Apply,
    Unchanged,
    Keep(ConflictReason),
}

impl<'a> Restore<'a> {
    pub(super) fn open(
        ops: &'a Ops,
        source: &'a dyn ContentSource,
        (root, restores): (&Path, &Path),
        journal: Journal,
    ) -> Result<Self, RestoreError> {
        let open =
            |path: &Path| ops.open_path(path).map_err(RestoreError::io("open", path.display().to_string()));
        let open_in = |folder: &Folder, name: &str| {
            ops.open_folder(folder, name.as_bytes()).map_err(RestoreError::io("open the folder", name))
        };
        let restores = open(restores)?;
        let folder = open_in(&restores, &journal.record.meta.id)?;
        Ok(Self {
            root: open(root)?,
            aside: open_in(&folder, ASIDE)?,
            restores,
            folder,
            ops,
            source,
            journal,
            details: BTreeMap::new(),
            leftover: Vec::new(),
            seen: HashMap::new(),
            failed_folders: BTreeMap::new(),
        })
    }

    pub(super) fn change(&self, n: usize) -> &FileChange {
        &self.journal.record.changes[n]
    }

    pub(super) fn location(&self, n: usize) -> &Location {
        &self.journal.locations[n]
    }

    pub(super) fn len(&self) -> usize {
        self.journal.record.changes.len()
    }

    /// The number of deletions. They come first.
    pub(super) fn deletions(&self) -> usize {
        self.journal.record.changes.iter().take_while(|change| change.after == FileState::Absent).count()
    }

    /// Wraps an error with the path of a change.
    pub(super) fn fail(&self, n: usize, error: io::Error) -> RestoreError {
        RestoreError::io("restore", display_bytes(&self.location(n).path))(error)
    }

    /// Opens a folder of the worktree; `None` if it does not exist.
    pub(super) fn open_folder(&self, path: &[u8]) -> io::Result<Option<Folder>> {
        self.ops.open_below(&self.root, path)
    }

    pub(super) fn place(&self, n: usize) -> io::Result<Place> {
        let location = self.location(n);
        let (folder, name) = split(&location.path);
        let (parent, parent_is_not_folder) = match self.open_folder(folder) {
            Err(e) if e.kind() == io::ErrorKind::NotADirectory => (None, true),
            other => (other?, false),
        };
        let temp_folder = match self.open_folder(&location.temp_folder) {
            Err(e) if e.kind() == io::ErrorKind::NotADirectory => None,
            other => other?,
        };
        let names = TempNames::new(&self.journal.record.meta.id, n);
        Ok(Place { parent, parent_is_not_folder, name: name.to_vec(), temp_folder, names })
    }

    pub(super) fn stat(&self, at: Option<(&Folder, &[u8])>) -> io::Result<Option<Stat>> {
        at.map_or(Ok(None), |(folder, name)| self.ops.stat(folder, name))
    }

    /// Whether a name has exactly this state.
    pub(super) fn matches(&self, at: Option<(&Folder, &[u8])>, state: &FileState) -> io::Result<bool> {
        let Some(((folder, name), stat)) = at.zip(self.stat(at)?) else {
            return Ok(*state == FileState::Absent);
        };
        let matches = match state {
            FileState::Absent => Ok(false),
            FileState::File { blob, size, executable } | FileState::Aside { blob, size, executable, .. } => {
                // Other platforms have no executable files.
                let same_mode = stat.executable == *executable || cfg!(not(unix));
                if stat.kind != Kind::File || stat.size != *size || !same_mode {
                    return Ok(false);
                }
                self.ops.hash(folder, name).map(|found| found == (*blob, *size))
            }
            FileState::Symlink { target } => {
                if stat.kind != Kind::Symlink {
                    return Ok(false);
                }
                self.ops.read_link(folder, name).map(|found| found == *target)
            }
        };
        match matches {
            // Somebody may remove the file, or replace it with something else, before it is opened.
            Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidInput) => Ok(false),
            other => other,
        }
    }

    /// Whether a name has the state that a change replaces.
    pub(super) fn matches_before(&self, n: usize, at: Option<(&Folder, &[u8])>) -> io::Result<bool> {
        let fingerprint = match &self.change(n).before {
            Before::Saved { state } => return self.matches(at, state),
            Before::Unsaved { fingerprint } => *fingerprint,
        };
        let Some(((folder, name), stat)) = at.zip(self.stat(at)?) else { return Ok(false) };
        match fingerprint {
            _ if stat.kind != Kind::File => Ok(false),
            Fingerprint::Content { blob, size } => {
                let hash = crate::fs::if_exists(self.ops.hash(folder, name))?;
                Ok(stat.size == size && hash == Some((blob, size)))
            }
            Fingerprint::Stat { .. } => Ok(stat.fingerprint() == fingerprint),
        }
    }

    /// Whether the file that was taken from the path of a change may be kept from it: it has the expected
    /// state, or it will be moved aside. A file that cannot be read has not.
    pub(super) fn taken_matches(&self, n: usize, place: &Place) -> io::Result<bool> {
        let matches = self.stat(place.temp()).and_then(|stat| match stat.map(|stat| stat.kind) {
            Some(Kind::Folder) if self.change(n).before == Before::ABSENT => {
                self.contains_only_folders(place.temp())
            }
            kind if matches!(self.change(n).before, Before::Unsaved { .. }) => Ok(kind == Some(Kind::File)),
            _ => self.matches_before(n, place.temp()),
        });
        match matches {
            Err(e) if conflict_of(&e).is_some() => Ok(false),
            other => other,
        }
    }

    fn contains_only_folders(&self, at: Option<(&Folder, &[u8])>) -> io::Result<bool> {
        let Some((folder, name)) = at else { return Ok(false) };
        let folder = self.ops.open_folder(folder, name)?;
        for name in self.ops.list(&folder)? {
            let is_folder = self.ops.stat(&folder, &name)?.is_none_or(|stat| stat.kind == Kind::Folder);
            if !is_folder || !self.contains_only_folders(Some((&folder, &name)))? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    pub(super) fn temp_state(&self, n: usize, place: &Place) -> io::Result<TempState> {
        Ok(match self.stat(place.temp())? {
            None => TempState::Missing,
            Some(_) if self.matches(place.temp(), &self.change(n).after)? => TempState::New,
            Some(_) => TempState::Old,
        })
    }

    /// Decides whether a path may be changed, from what is there now.
    pub(super) fn check(&self, n: usize, place: &Place) -> io::Result<Check> {
        let change = self.change(n);
        let deletes = change.after == FileState::Absent;
        if place.parent_is_not_folder && !self.gets_new_folder(n) {
            return Ok(Check::Keep(ConflictReason::ParentNotFolder));
        }
        let expects_nothing = change.before == Before::ABSENT;
        Ok(match self.stat(place.target())? {
            None if deletes => Check::Unchanged,
            None if expects_nothing => Check::Apply,
            None => Check::Keep(ConflictReason::Gone),
            Some(stat) if stat.kind == Kind::Folder && expects_nothing && self.deletes_below(n) => {
                Check::Apply
            }
            Some(stat) if matches!(stat.kind, Kind::Folder | Kind::Other) => {
                Check::Keep(ConflictReason::NotAFile)
            }
            Some(_) if self.matches(place.target(), &change.after)? => Check::Unchanged,
            Some(_) if expects_nothing => Check::Keep(ConflictReason::Exists),
            Some(_) if self.matches_before(n, place.target())? => Check::Apply,
            Some(_) => Check::Keep(ConflictReason::Changed),
        })
    }

    /// Whether the path is below a file that becomes a folder.
    pub(super) fn gets_new_folder(&self, n: usize) -> bool {
        let Some(below) = &self.location(n).below else { return false };
        let replaced = self.journal.record.folders.iter().filter_map(|folder| folder.replaces);
        self.change(n).after != FileState::Absent
            && replaced.into_iter().any(|k| self.journal.locations.get(k).is_some_and(|l| l.path == *below))
    }

    /// Whether the plan deletes files in a folder with the path of this change.
    fn deletes_below(&self, n: usize) -> bool {
        let path = Some(&self.location(n).path);
        self.journal.locations[..self.deletions()].iter().any(|location| location.below.as_ref() == path)
    }

    /// Makes the names in every folder of the plan durable.
    pub(super) fn sync_folders(&self) -> Result<(), RestoreError> {
        let mut paths: BTreeSet<Vec<u8>> = BTreeSet::new();
        for location in &self.journal.locations {
            paths.extend([location.temp_folder.clone(), split(&location.path).0.to_vec()]);
        }
        for folder in &self.journal.record.folders {
            let places = [true, false].into_iter().filter_map(|staged| self.new_folder_path(folder, staged));
            paths.extend(places.map(|path| split(&path).0.to_vec()));
        }
        for path in paths {
            let synced = match self.open_folder(&path) {
                Ok(Some(folder)) => self.ops.sync_folder(&folder),
                Ok(None) => Ok(()),
                Err(e) => Err(e),
            };
            match synced {
                Err(e) if conflict_of(&e).is_none() => {
                    return Err(RestoreError::io("sync the folder", display_bytes(&path))(e));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Describes what happened, from the statuses.
    pub(super) fn outcome(&self, undo_point: bool) -> Outcome {
        let mut outcome = Outcome { leftover: self.leftover.clone(), undo_point, ..Outcome::default() };
        for (n, status) in self.journal.statuses.iter().enumerate() {
            let path = self.change(n).path.clone();
            let mut conflict = |reason| {
                let detail = self.details.get(&n).cloned();
                outcome.conflicts.push(Conflict { path: path.clone(), reason, detail });
            };
            match status {
                Status::Kept(reason) => conflict(*reason),
                Status::KeptAside => conflict(ConflictReason::Changed),
                Status::Unchanged => outcome.unchanged.push(path.clone()),
                Status::Done | Status::DoneAside => outcome.changed.push(path.clone()),
                Status::Pending => {}
            }
            if matches!(status, Status::DoneAside | Status::KeptAside) {
                outcome.aside.push(path);
            }
        }
        outcome
    }
}

/// The reason to keep a path if the system refused to change it. Other errors concern the whole restore.
pub(super) fn conflict_of(error: &io::Error) -> Option<ConflictReason> {
    use io::ErrorKind as K;
    match error.kind() {
        K::PermissionDenied | K::ReadOnlyFilesystem => Some(ConflictReason::PermissionDenied),
        K::CrossesDevices | K::ResourceBusy => Some(ConflictReason::OtherFileSystem),
        K::NotADirectory => Some(ConflictReason::ParentNotFolder),
        _ => None,
    }
}

/// Marks an error as one that concerns the whole restore, whatever its kind is.
pub(super) fn fatal(error: io::Error) -> io::Error {
    io::Error::other(error)
}
