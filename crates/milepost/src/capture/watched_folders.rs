//! Lists the files of the watched folders with their sizes. Takes the folders and limits, and returns the
//! list and notes on what could not be read. Must not fail or follow a symbolic link out of the project.

use std::collections::{HashSet, VecDeque};
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::time::Instant;

use super::{CaptureLimits, CaptureOptions, DEFAULT_WATCHED_FOLDER, StorePaths, relative_path};
use crate::fs::stored_bytes;
use crate::model::{PathText, WatchedFiles};

/// Maximum number of notes to keep. Further notes are only counted.
const MAX_NOTES: usize = 20;

const LEADS_OUT: &str = "points outside the project";

/// Maximum number of configured folders to watch.
const MAX_FOLDERS: usize = 200;
/// Maximum number of files to list.
const MAX_FILES: usize = 20_000;
/// Maximum number of directory entries to read.
const MAX_ENTRIES: usize = 50_000;
/// Maximum depth of a folder under a watched one.
const MAX_DEPTH: usize = 64;

/// A folder to watch.
pub(super) struct WatchedFolder {
    path: PathBuf,
    /// Whether it was requested, so that its absence is reported.
    requested: bool,
    /// Whether it may be outside the project: the configured path itself is absolute or contains `..`.
    may_be_outside: bool,
}

/// The folders to watch: the requested ones, and `.aiwg` if it exists.
pub(super) fn watched_folders(root: &Path, scope: &CaptureOptions) -> Vec<WatchedFolder> {
    let usual = root.join(DEFAULT_WATCHED_FOLDER);
    let mut folders: Vec<WatchedFolder> = Vec::new();
    if usual.is_dir() {
        folders.push(WatchedFolder { path: usual, requested: false, may_be_outside: false });
    }
    for path in scope.watch.iter().chain(&scope.watch_in_run).take(MAX_FOLDERS) {
        let outside = path.is_absolute() || path.components().any(|part| part == Component::ParentDir);
        // Normalise the path: `./docs/` is `docs`.
        let path: PathBuf = root.join(path).components().collect();
        match folders.iter_mut().find(|folder| folder.path == path) {
            Some(folder) => folder.may_be_outside |= outside,
            None => folders.push(WatchedFolder { path, requested: true, may_be_outside: outside }),
        }
    }
    folders
}

/// Lists the files in the folders. Also returns notes on what was omitted.
pub(super) fn list_files(
    root: &Path,
    folders: &[WatchedFolder],
    store: &StorePaths,
    bounds: &CaptureLimits,
    deadline: Instant,
) -> (WatchedFiles, Vec<String>) {
    let mut walk = FolderWalk {
        root,
        top: PathBuf::new(),
        store,
        max_files: bounds.paths.min(MAX_FILES),
        entries: MAX_ENTRIES,
        bytes: bounds.bytes,
        deadline,
        seen: HashSet::new(),
        watched: WatchedFiles::default(),
        notes: Vec::new(),
        more_notes: 0,
        left_out: 0,
        timed_out: false,
    };
    let mut errors = Vec::new();
    for folder in folders {
        match fs::metadata(&folder.path) {
            Ok(kind) if kind.is_dir() => {
                walk.top = crate::fs::canonicalize(&folder.path).unwrap_or_else(|_| folder.path.clone());
                if folder.may_be_outside || walk.top.starts_with(root) {
                    walk.walk_folder(&folder.path);
                } else {
                    walk.add_note(&folder.path, LEADS_OUT);
                }
            }
            Ok(_) => errors.push(format!("{} is not a folder", display_path(root, &folder.path))),
            Err(e) if folder.requested => errors.push(format!("{}: {e}", display_path(root, &folder.path))),
            Err(_) => {}
        }
    }
    walk.finish(errors)
}

fn display_path(root: &Path, path: &Path) -> String {
    relative_path(root, path).display().to_string()
}

struct FolderWalk<'a> {
    root: &'a Path,
    /// Canonical path of the watched folder.
    top: PathBuf,
    store: &'a StorePaths,
    max_files: usize,
    /// Number of entries that may still be read.
    entries: usize,
    bytes: usize,
    deadline: Instant,
    /// Canonical paths of the folders already listed.
    seen: HashSet<PathBuf>,
    watched: WatchedFiles,
    notes: Vec<String>,
    more_notes: usize,
    left_out: usize,
    timed_out: bool,
}

impl FolderWalk<'_> {
    /// Walks a folder. Symbolic links to folders come last, so that a folder is listed under its own name
    /// first.
    fn walk_folder(&mut self, top: &Path) {
        let depth = top.components().count();
        let mut folders = VecDeque::from([top.to_owned()]);
        let mut links = VecDeque::new();
        while let Some((folder, by_link)) =
            folders.pop_front().map(|f| (f, false)).or_else(|| links.pop_front().map(|f| (f, true)))
        {
            if self.timed_out || self.entries == 0 {
                return;
            }
            if folder.components().count() > depth + MAX_DEPTH {
                self.add_note(&folder, "is nested too deeply");
                continue;
            }
            let real = crate::fs::canonicalize(&folder).unwrap_or_else(|_| folder.clone());
            if self.store.contains(&real) {
                continue;
            }
            if !self.seen.insert(real) {
                if by_link {
                    self.add_note(&folder, "points to a folder that is already listed");
                }
                continue;
            }
            self.list_folder(&folder, &mut folders, &mut links);
        }
    }

    fn list_folder(&mut self, folder: &Path, folders: &mut VecDeque<PathBuf>, links: &mut VecDeque<PathBuf>) {
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(e) => return self.add_note(folder, &e.to_string()),
        };
        for entry in entries {
            if Instant::now() >= self.deadline {
                self.timed_out = true;
                return;
            }
            if self.entries == 0 {
                return;
            }
            self.entries -= 1;
            let entry = match entry {
                Ok(entry) => entry,
                Err(e) => return self.add_note(folder, &e.to_string()),
            };
            let path = entry.path();
            let Ok(kind) = entry.file_type() else {
                self.add_note(&path, "unknown file type");
                continue;
            };
            if kind.is_dir() {
                // Git's own files are skipped in every folder.
                if entry.file_name() != ".git" {
                    folders.push_back(path);
                }
                continue;
            }
            if kind.is_symlink() && self.leads_out(&path) {
                self.add_note(&path, LEADS_OUT);
                continue;
            }
            // A symbolic link is treated as its target.
            match if kind.is_symlink() { fs::metadata(&path) } else { entry.metadata() } {
                Ok(target) if target.is_dir() => links.push_back(path),
                Ok(target) => self.add_file(&path, target.len()),
                Err(e) => self.add_note(&path, &e.to_string()),
            }
        }
    }

    /// Whether a symbolic link points outside both the project and the watched folder.
    fn leads_out(&self, link: &Path) -> bool {
        let real = crate::fs::canonicalize(link);
        real.is_ok_and(|real| !real.starts_with(self.root) && !real.starts_with(&self.top))
    }

    fn add_file(&mut self, path: &Path, size: u64) {
        if self.store.contains(path) {
            return;
        }
        let path = PathText::of(&stored_bytes(&relative_path(self.root, path)));
        // The path is stored twice: in the list, and with its size.
        let cost = 2 * super::to_workspace::json_len(&path) + 12;
        if self.watched.files.len() >= self.max_files || cost > self.bytes {
            self.left_out += 1;
            return;
        }
        self.bytes -= cost;
        self.watched.sizes.insert(path.key(), size);
        self.watched.files.push(path);
    }

    fn add_note(&mut self, path: &Path, what: &str) {
        if self.notes.len() < MAX_NOTES {
            self.notes.push(format!("{}: {what}", display_path(self.root, path)));
        } else {
            self.more_notes += 1;
        }
    }

    fn finish(mut self, mut errors: Vec<String>) -> (WatchedFiles, Vec<String>) {
        self.watched.files.sort_unstable();
        self.watched.files.dedup();
        // Folders are read in arbitrary order, but the same workspace must give the same result.
        self.notes.sort_unstable();
        let mut skipped: Vec<_> = self.notes.into_iter().map(|note| format!("watched: {note}")).collect();
        if self.more_notes > 0 {
            skipped.push(format!("watched: {} more could not be read", self.more_notes));
        }
        if self.left_out > 0 {
            skipped.push(format!("watched: {} more files not listed", self.left_out));
        }
        if self.entries == 0 {
            errors.push(format!(
                "the watched folders contain more than {MAX_ENTRIES} entries: the list is incomplete"
            ));
        }
        if self.timed_out {
            errors.push("reading the watched folders took too long: the list is incomplete".to_owned());
        }
        self.watched.error = (!errors.is_empty()).then(|| errors.join("; "));
        (self.watched, skipped)
    }
}
