//! Reads small text files that belong to the user's configuration: services, passwords, certificates.
//! Bounded, so that a wrong path cannot exhaust the memory.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Far above the size of any such file.
const MAX_LEN: u64 = 4 << 20;

/// The bytes of a regular file.
pub(super) fn read(file: &Path) -> io::Result<Vec<u8>> {
    // Checked before opening: opening a named pipe would wait for its other end.
    if !std::fs::metadata(file)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    let mut bytes = Vec::new();
    File::open(file)?.take(MAX_LEN + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_LEN {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "the file is too large"));
    }
    Ok(bytes)
}

/// A file as text. Bytes that are not UTF-8 are replaced.
pub(super) fn read_text(file: &Path) -> io::Result<String> {
    read(file).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// Whether the group or other users have any access to a file.
#[cfg(unix)]
pub(super) fn is_accessible_to_others(file: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt;
    Ok(std::fs::metadata(file)?.mode() & 0o077 != 0)
}

/// Other platforms have no such permissions, and libpq checks nothing there.
#[cfg(not(unix))]
pub(super) fn is_accessible_to_others(_: &Path) -> io::Result<bool> {
    Ok(false)
}
