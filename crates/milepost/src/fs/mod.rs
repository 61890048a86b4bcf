//! File access with guarantees that `std::fs` does not give.
//! In: paths and bytes. Out: files written atomically, or read within a size limit. Nothing else in the library writes a
//! whole file or reads one that somebody else may have put there.

pub mod atomic;
pub mod bounded;
pub(crate) mod proc;

use std::io;

/// What an operation on a file or folder gave; `None` where there is no such file or folder.
pub fn if_exists<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        other => other.map(Some),
    }
}
