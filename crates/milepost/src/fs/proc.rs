//! Reads short files that the kernel provides, such as those under `/proc`. Takes a path and returns the
//! start of its text. Uses a single read: these files report no size in advance, and every system call counts
//! in a command that runs for a millisecond.

use std::io::Read as _;

/// Maximum number of bytes to read.
const READ_LIMIT: usize = 2048;

/// The start of a file; `None` if it cannot be read.
pub(crate) fn read_file(path: &str) -> Option<String> {
    let mut bytes = [0; READ_LIMIT];
    let read = std::fs::File::open(path).ok()?.read(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes[..read]).into_owned())
}
