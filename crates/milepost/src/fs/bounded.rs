//! Reads small files from untrusted sources: a repository, another user, an archive. Takes a path and a size
//! limit, and returns the bytes. Never follows a symbolic link in the last component of the path, never
//! blocks on a pipe or device, and never returns more than the limit.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read as _};
use std::path::Path;

/// Reads a regular file of at most `limit` bytes.
pub fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    read_with_metadata(path, limit).map(|(bytes, _)| bytes)
}

/// Like `read`, but returns text.
pub fn read_text(path: &Path, limit: u64) -> io::Result<String> {
    String::from_utf8(read(path, limit)?)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "not valid UTF-8"))
}

/// Like `read`, but also returns the metadata of the file that was read.
pub fn read_with_metadata(path: &Path, limit: u64) -> io::Result<(Vec<u8>, Metadata)> {
    let (file, metadata) = open_with_metadata(path)?;
    let size = metadata.len();
    let too_large =
        || io::Error::new(io::ErrorKind::FileTooLarge, format!("larger than {}", format_limit(limit)));
    if size > limit {
        return Err(too_large());
    }
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or_default());
    // A file may grow while it is read.
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit { Err(too_large()) } else { Ok((bytes, metadata)) }
}

/// Opens a regular file for reading, for callers that need only its start.
pub fn open(path: &Path) -> io::Result<File> {
    open_with(path, OpenOptions::new().read(true))
}

/// Like `open`, but also returns the metadata of the open file.
pub(crate) fn open_with_metadata(path: &Path) -> io::Result<(File, Metadata)> {
    open_regular(path, OpenOptions::new().read(true))
}

/// Opens a regular file; the options decide whether it is created.
pub(crate) fn open_with(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    open_regular(path, options).map(|(file, _)| file)
}

fn open_regular(path: &Path, options: &mut OpenOptions) -> io::Result<(File, Metadata)> {
    #[cfg(unix)]
    {
        use rustix::fs::OFlags;
        use std::os::unix::fs::OpenOptionsExt as _;
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        options.custom_flags(flags.bits().cast_signed());
    }
    // O_NOFOLLOW does not exist on this platform.
    #[cfg(not(unix))]
    if std::fs::symlink_metadata(path).is_ok_and(|about| about.is_symlink()) {
        return Err(refusal("a symbolic link"));
    }
    let file = options.open(path).map_err(|e| explain_open_error(path, e))?;
    let metadata = file.metadata()?;
    if metadata.is_file() { Ok((file, metadata)) } else { Err(refusal("not a regular file")) }
}

/// The user id of a file's owner; `None` if the platform has no user ids.
pub fn owner(metadata: &Metadata) -> Option<u32> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        Some(metadata.uid())
    }
    #[cfg(not(unix))]
    {
        let _ = metadata;
        None
    }
}

/// Replaces the error of a refused open with a readable reason.
fn explain_open_error(path: &Path, error: io::Error) -> io::Error {
    match std::fs::symlink_metadata(path) {
        Ok(about) if about.is_symlink() => refusal("a symbolic link"),
        Ok(about) if !about.is_file() && error.kind() != io::ErrorKind::PermissionDenied => {
            refusal("not a regular file")
        }
        _ => error,
    }
}

fn refusal(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
}

/// Formats a size limit in readable units.
pub(crate) fn format_limit(limit: u64) -> String {
    match limit {
        _ if limit > 0 && limit.is_multiple_of(1 << 20) => format!("{} MiB", limit >> 20),
        _ if limit > 0 && limit.is_multiple_of(1 << 10) => format!("{} KiB", limit >> 10),
        _ => format!("{limit} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn only_a_regular_file_within_the_limit_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        File::create(at("file")).unwrap().write_all(b"12345678").unwrap();
        assert_eq!(read(&at("file"), 8).unwrap(), b"12345678");
        assert_eq!(read(&at("file"), 7).unwrap_err().to_string(), "larger than 7 bytes");
        File::create(at("large")).unwrap().set_len(65537).unwrap();
        assert_eq!(read(&at("large"), 64 << 10).unwrap_err().to_string(), "larger than 64 KiB");
        symlink("file", at("link")).unwrap();
        symlink("nowhere", at("dangling")).unwrap();
        for link in ["link", "dangling"] {
            assert_eq!(read(&at(link), 8).unwrap_err().to_string(), "a symbolic link");
        }
        let _socket = UnixListener::bind(at("socket")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            at("pipe"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
        for other in [at("socket"), at("pipe"), dir.path().to_owned(), "/dev/zero".into()] {
            assert_eq!(read(&other, 8).unwrap_err().to_string(), "not a regular file", "{}", other.display());
        }
        assert_eq!(read(&at("none"), 8).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
