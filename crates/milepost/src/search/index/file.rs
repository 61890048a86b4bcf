//! The file of an index: checks, creates and removes it, and locks updates. Follows no symbolic link and uses no
//! file of another user. Does not read the tables.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::IndexError;
use crate::fs::{atomic, bounded, file_id, if_exists};
use crate::store::project_paths;
use crate::trust::user_id;

/// Files that SQLite creates beside an index.
const SUFFIXES: [&str; 4] = ["", "-wal", "-shm", "-journal"];
/// Pause between two tries to get the lock.
const PAUSE: Duration = Duration::from_millis(20);

fn sibling(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Refuses an index that is not a regular file of this user, before SQLite opens it. Does not open it: closing a file
/// would release the locks of other connections of this process.
pub(super) fn check(path: &Path) -> Result<(), IndexError> {
    for suffix in SUFFIXES {
        let file = sibling(path, suffix);
        let about = match fs::symlink_metadata(&file) {
            Err(e) if e.kind() == io::ErrorKind::NotFound && !suffix.is_empty() => continue,
            other => other?,
        };
        let is_other_user = bounded::owner(&about).is_some_and(|owner| Some(owner) != user_id());
        if !about.is_file() || is_other_user {
            return Err(IndexError::Unusable(format!(
                "{} is not a regular file of this user",
                file.display()
            )));
        }
    }
    Ok(())
}

/// Creates an empty file that only this user can read.
pub(super) fn create(path: &Path) -> io::Result<()> {
    atomic::open_private(path, OpenOptions::new().write(true).create_new(true)).map(drop)
}

/// Removes an index. An empty folder in its place is removed; any other folder is an error.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    // The database goes first: a journal without it means nothing.
    for suffix in SUFFIXES {
        let file = sibling(path, suffix);
        let Some(about) = if_exists(fs::symlink_metadata(&file))? else { continue };
        let removed = if about.is_dir() { fs::remove_dir(&file) } else { fs::remove_file(&file) };
        if_exists(removed)?;
    }
    Ok(())
}

/// The number of the file; `None` if there is none.
pub(super) fn number(path: &Path) -> Option<u64> {
    file_id::of_path(path).ok().map(|(_, number)| number)
}

/// Whether the file system supports the write-ahead log.
pub(super) fn is_wal_safe(path: &Path) -> bool {
    project_paths::unsafe_file_system(atomic::folder_of(path)).is_none()
}

/// The path with the symbolic links of its folder resolved, because SQLite is told to refuse any link.
pub(super) fn with_real_folder(path: &Path) -> PathBuf {
    let folder = crate::fs::canonicalize(atomic::folder_of(path));
    match (folder, path.file_name()) {
        (Ok(folder), Some(name)) => folder.join(name),
        _ => path.to_owned(),
    }
}

/// The right to update an index. One process has it at a time; the system releases it if the process dies.
pub(crate) struct UpdateLock {
    _file: File,
}

impl UpdateLock {
    /// Acquires the lock; `None` if another process still has it after `wait`.
    pub(crate) fn acquire(index: &Path, wait: Duration) -> io::Result<Option<Self>> {
        let path = sibling(index, "-lock");
        let file = atomic::open_private(&path, OpenOptions::new().write(true).create(true).truncate(false))?;
        let start = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Some(Self { _file: file })),
                Err(TryLockError::Error(e)) => return Err(e),
                Err(TryLockError::WouldBlock) if start.elapsed() >= wait => return Ok(None),
                Err(TryLockError::WouldBlock) => std::thread::sleep(PAUSE),
            }
        }
    }
}
