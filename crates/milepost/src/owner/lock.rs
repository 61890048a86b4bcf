//! The lock file of a run's owner: held as long as the process lives, seen also where its pid is not (another pid
//! namespace of the same machine). Whether it is held is asked of the kernel; the file's content says nothing.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use crate::fs::atomic;
use crate::fs::bounded;
use crate::model::RunId;

/// A lock that is held until it is dropped.
#[derive(Debug)]
pub struct OwnerLock {
    path: PathBuf,
    file: File,
    pid: u32,
}

fn lock_path(folder: &Path, run: &RunId) -> PathBuf {
    folder.join(format!("{run}.lock"))
}

/// Takes the lock of a run; `None` where somebody holds it.
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
        // Whoever let go of it may have removed the file in between: a lock on a removed file holds nothing.
        if is_still_there(&file, &path) {
            return Ok(Some(OwnerLock { path, file, pid: std::process::id() }));
        }
    }
}

/// Whether somebody holds the lock of a run; never where there is no lock file, or locks do not work.
pub fn is_held(folder: &Path, run: &RunId) -> bool {
    let Ok(file) = bounded::open(&lock_path(folder, run)) else { return false };
    matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock))
}

/// Removes the lock file of a run that is gone.
pub(crate) fn remove_lock_file(folder: &Path, run: &RunId) {
    let _ = fs::remove_file(lock_path(folder, run));
}

fn is_still_there(file: &File, path: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let (Ok(held), Ok(named)) = (file.metadata(), fs::metadata(path)) else { return false };
        (held.dev(), held.ino()) == (named.dev(), named.ino())
    }
    #[cfg(not(unix))]
    {
        let _ = (file, path);
        true
    }
}

impl Drop for OwnerLock {
    fn drop(&mut self) {
        // A forked child has the parent's lock in its hands, and it is not the child's to give up.
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
