//! The lock file of a run's owner. The owner holds the lock while it is running, and other processes can see
//! this even if they cannot see its pid, such as in another pid namespace of the same machine. Only the
//! kernel's lock counts; the file's content is never read.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use crate::fs::atomic;
use crate::fs::{bounded, file_id};
use crate::model::RunId;

/// A held lock. Dropping it releases the lock and removes the file.
#[derive(Debug)]
pub struct OwnerLock {
    path: PathBuf,
    file: File,
    pid: u32,
}

fn lock_path(folder: &Path, run: &RunId) -> PathBuf {
    folder.join(format!("{run}.lock"))
}

/// Acquires the lock of a run. Returns `None` if it is already held.
pub fn acquire(folder: &Path, run: &RunId) -> io::Result<Option<OwnerLock>> {
    if fs::symlink_metadata(folder).is_ok_and(|about| about.is_symlink()) {
        let why = format!("{} is a symbolic link, which is not followed here", folder.display());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    atomic::create_folder(folder)?;
    let path = lock_path(folder, run);
    loop {
        let mut options = OpenOptions::new();
        let file = atomic::open_private(&path, options.write(true).create(true).truncate(false))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(e)) => return Err(e),
        }
        // The previous holder may have removed the file. A lock on a removed file protects nothing.
        if is_still_there(&file, &path) {
            return Ok(Some(OwnerLock { path, file, pid: std::process::id() }));
        }
    }
}

/// Whether the lock of a run is held. Returns `false` if there is no lock file or locks do not work.
pub fn is_held(folder: &Path, run: &RunId) -> bool {
    let Ok(file) = bounded::open(&lock_path(folder, run)) else { return false };
    matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock))
}

/// Removes the lock file of a deleted run.
pub(crate) fn remove_lock_file(folder: &Path, run: &RunId) {
    let _ = fs::remove_file(lock_path(folder, run));
}

fn is_still_there(file: &File, path: &Path) -> bool {
    matches!((file_id::of_file(file), file_id::of_path(path)), (Ok(held), Ok(named)) if held == named)
}

impl Drop for OwnerLock {
    fn drop(&mut self) {
        // A forked child inherits the parent's lock and must not release it.
        if self.pid == std::process::id() {
            let _ = fs::remove_file(&self.path);
            let _ = self.file.unlock();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_holds_it_at_a_time_and_letting_go_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("owners");
        let run: RunId = "r".parse().unwrap();
        assert!(!is_held(&folder, &run));
        let held = acquire(&folder, &run).unwrap().unwrap();
        assert!(is_held(&folder, &run));
        assert!(acquire(&folder, &run).unwrap().is_none());
        assert!(acquire(&folder, &"other".parse().unwrap()).unwrap().is_some());
        drop(held);
        assert!(!is_held(&folder, &run));
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
        assert!(acquire(&folder, &run).unwrap().is_some());
    }
}
