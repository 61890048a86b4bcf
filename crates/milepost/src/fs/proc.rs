//! What the kernel says in a few lines, about itself or a process.
//! In: a path below `/proc` or one as short. Out: its text. Every call of the kernel counts in a command that lives for a
//! millisecond, and it gives no size beforehand: one read has to do.

use std::io::Read as _;

/// Bytes that are read at most.
const READ_LIMIT: usize = 2048;

/// The first lines of a file; `None` where it is not there.
pub(crate) fn read_file(path: &str) -> Option<String> {
    let mut bytes = [0; READ_LIMIT];
    let read = std::fs::File::open(path).ok()?.read(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes[..read]).into_owned())
}
