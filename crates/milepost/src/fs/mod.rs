//! File access with guarantees that `std::fs` does not give: files are written atomically, and read within a
//! size limit. Other modules of the library write whole files and read untrusted files only through this one.

pub mod atomic;
pub(crate) mod below;
pub mod bounded;
pub(crate) mod file_id;

use std::io;
use std::path::{Path, PathBuf};

/// Converts a `NotFound` error to `None`.
pub fn if_exists<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        other => other.map(Some),
    }
}

/// The absolute path without symbolic links. On Windows, without the prefix `\\?\` where the path is valid without it:
/// git and many other programs do not accept the prefix.
pub fn canonicalize(path: impl AsRef<Path>) -> io::Result<PathBuf> {
    #[cfg(windows)]
    return dunce::canonicalize(path);
    #[cfg(not(windows))]
    return std::fs::canonicalize(path);
}
