//! File access with guarantees that `std::fs` does not give: files are written atomically, and read within a
//! size limit. Other modules of the library write whole files and read untrusted files only through this one.

pub mod atomic;
pub(crate) mod below;
pub mod bounded;
pub(crate) mod file_id;
mod paths;

use std::io;

pub(crate) use self::paths::stored_bytes;
pub use self::paths::{below, canonicalize};

/// Converts a `NotFound` error to `None`.
pub fn if_exists<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        other => other.map(Some),
    }
}
