//! Tests of restores, with every kind of change, hostile paths, concurrent writers, and faults at every file
//! operation.

mod changes;
mod conflicts;
mod faults;
mod undo;
mod writer;

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use super::*;
use crate::model::BlobId;

/// A source of contents in memory.
#[derive(Default)]
pub(super) struct Blobs(Mutex<HashMap<BlobId, Vec<u8>>>);

impl ContentSource for Blobs {
    fn read(&self, blob: &BlobId) -> Result<Vec<u8>, ContentError> {
        self.0.lock().unwrap().get(blob).cloned().ok_or_else(|| "no such blob".into())
    }
}

/// What a path of a worktree is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Entry {
    File(Vec<u8>, bool),
    Symlink(Vec<u8>),
    Folder,
}

pub(super) type Tree = BTreeMap<Vec<u8>, Entry>;

/// A worktree with its journal folder and stored contents.
pub(super) struct World {
    _dir: tempfile::TempDir,
    pub root: PathBuf,
    pub journals: PathBuf,
    pub target: RestoreTarget,
    pub blobs: Blobs,
}

impl World {
    pub(super) fn new() -> Self {
        // A file system in memory makes the tests faster.
        let memory = Path::new("/dev/shm");
        let dir = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap();
        let (root, journals) = (dir.path().join("root"), dir.path().join("journals"));
        fs::create_dir(&root).unwrap();
        let target = RestoreTarget::new(&root, &journals);
        Self { _dir: dir, root, journals, target, blobs: Blobs::default() }
    }

    pub(super) fn at(&self, path: impl AsRef<[u8]>) -> PathBuf {
        self.root.join(OsStr::from_bytes(path.as_ref()))
    }

    /// Writes a file and its folders.
    pub(super) fn write(&self, path: impl AsRef<[u8]>, content: impl AsRef<[u8]>) {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        write_file(&path, content.as_ref());
    }

    pub(super) fn make_executable(&self, path: &str) {
        fs::set_permissions(self.at(path), fs::Permissions::from_mode(0o755)).unwrap();
    }

    pub(super) fn link(&self, path: &str, target: &str) {
        fs::create_dir_all(self.at(path).parent().unwrap()).unwrap();
        symlink(target, self.at(path)).unwrap();
    }

    /// Stores a content and returns the state of a file with it.
    pub(super) fn file(&self, content: impl AsRef<[u8]>) -> FileState {
        let content = content.as_ref();
        let blob = BlobId::of(content);
        self.blobs.0.lock().unwrap().insert(blob, content.to_vec());
        FileState::File { blob, size: content.len() as u64, executable: false }
    }

    pub(super) fn executable(&self, content: &str) -> FileState {
        let FileState::File { blob, size, .. } = self.file(content) else { unreachable!() };
        FileState::File { blob, size, executable: true }
    }

    /// A change of a file whose content is stored nowhere.
    pub(super) fn unsaved(&self, path: &str, after: FileState) -> FileChange {
        let path = PathText::of(path.as_bytes());
        let fingerprint = fingerprint(&self.target, &path).ok().flatten();
        let fingerprint = fingerprint.unwrap_or(Fingerprint::Stat { size: 0, modified: 0, inode: 0 });
        FileChange { path, before: Before::Unsaved { fingerprint }, after }
    }

    pub(super) fn apply(&self, id: &str, changes: Vec<FileChange>) -> Result<Outcome, RestoreError> {
        apply(&self.target, meta(id), changes, &self.blobs)
    }

    /// Undoes a restore as the restore `new_id`.
    pub(super) fn undo(&self, id: &str, new_id: &str) -> Result<Outcome, RestoreError> {
        let plan = undo_plan(&self.target, id)?;
        assert_eq!(plan.unavailable, []);
        self.apply(new_id, plan.changes)
    }

    pub(super) fn recover(&self) -> Result<Option<Recovery>, RestoreError> {
        recover(&self.target, &self.blobs)
    }

    pub(super) fn tree(&self) -> Tree {
        tree(&self.root)
    }

    pub(super) fn text(&self, path: &str) -> String {
        fs::read_to_string(self.at(path)).unwrap()
    }

    /// All contents of files in the worktree and in the journal folder.
    pub(super) fn contents(&self) -> Vec<Vec<u8>> {
        let entries = self.tree().into_values().chain(tree(&self.journals).into_values());
        entries.filter_map(|e| if let Entry::File(content, _) = e { Some(content) } else { None }).collect()
    }

    /// Whether the journal folder contains no trace of a restore.
    pub(super) fn has_no_journal(&self) -> bool {
        !self.journals.exists()
            || fs::read_dir(&self.journals).unwrap().all(|e| e.unwrap().file_name() == "lock")
    }
}

pub(super) fn tree(root: &Path) -> Tree {
    fn add(root: &Path, folder: &Path, found: &mut Tree) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let about = fs::symlink_metadata(&path).unwrap();
            let key = path.strip_prefix(root).unwrap().as_os_str().as_bytes().to_vec();
            let entry = if about.is_symlink() {
                Entry::Symlink(fs::read_link(&path).unwrap().as_os_str().as_bytes().to_vec())
            } else if about.is_dir() {
                add(root, &path, found);
                Entry::Folder
            } else {
                Entry::File(fs::read(&path).unwrap_or_default(), about.permissions().mode() & 0o100 != 0)
            };
            found.insert(key, entry);
        }
    }
    let mut found = Tree::new();
    add(root, root, &mut found);
    found
}

pub(super) fn write_file(path: &Path, content: &[u8]) {
    use std::io::Write as _;
    fs::File::create(path).unwrap().write_all(content).unwrap();
}

pub(super) fn meta(id: &str) -> RestoreMeta {
    // Later ids are later restores.
    let second = id.bytes().map(i64::from).sum::<i64>();
    RestoreMeta {
        id: id.to_owned(),
        reference: "latest".to_owned(),
        run: Some("r".parse().unwrap()),
        safety_checkpoint: None,
        undoes: None,
        time: jiff::Timestamp::from_second(second).unwrap(),
    }
}

pub(super) fn change(path: impl AsRef<[u8]>, before: FileState, after: FileState) -> FileChange {
    FileChange { path: PathText::of(path.as_ref()), before: Before::saved(before), after }
}

pub(super) fn symlink_to(target: &str) -> FileState {
    FileState::Symlink { target: target.as_bytes().to_vec() }
}

pub(super) fn reasons(outcome: &Outcome) -> Vec<(String, ConflictReason)> {
    outcome.conflicts.iter().map(|c| (c.path.key(), c.reason)).collect()
}

pub(super) const ABSENT: FileState = FileState::Absent;
