//! Which file a name or a handle refers to, independently of its name. Takes a path or an open file; returns the numbers
//! of its volume and of the file.

use std::fs::File;
use std::io;
use std::path::Path;

/// The volume and the number of a file on it. Zero on platforms without such numbers.
pub(crate) type FileId = (u64, u64);

/// The file or the folder at a path. On Unix, a symbolic link counts as itself.
pub(crate) fn of_path(path: &Path) -> io::Result<FileId> {
    #[cfg(unix)]
    return std::fs::symlink_metadata(path).map(|about| of_metadata(&about));
    #[cfg(windows)]
    return winapi_util::Handle::from_path_any(path).and_then(of_handle);
    #[cfg(not(any(unix, windows)))]
    return std::fs::symlink_metadata(path).map(|_| (0, 0));
}

/// An open file.
pub(crate) fn of_file(file: &File) -> io::Result<FileId> {
    #[cfg(unix)]
    return file.metadata().map(|about| of_metadata(&about));
    #[cfg(windows)]
    return of_handle(file);
    #[cfg(not(any(unix, windows)))]
    return file.metadata().map(|_| (0, 0));
}

#[cfg(unix)]
fn of_metadata(about: &std::fs::Metadata) -> FileId {
    use std::os::unix::fs::MetadataExt as _;
    (about.dev(), about.ino())
}

#[cfg(windows)]
fn of_handle(handle: impl winapi_util::AsHandleRef) -> io::Result<FileId> {
    let about = winapi_util::file::information(handle)?;
    Ok((about.volume_serial_number(), about.file_index()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_keeps_its_id_under_another_name_and_a_copy_has_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let (first, second, copy) = (dir.path().join("a"), dir.path().join("b"), dir.path().join("c"));
        crate::fs::atomic::write(&first, b"text", crate::fs::atomic::Mode::Shared).unwrap();
        let (id, open) = (of_path(&first).unwrap(), File::open(&first).unwrap());
        std::fs::copy(&first, &copy).unwrap();
        std::fs::rename(&first, &second).unwrap();
        assert_eq!((id, id), (of_path(&second).unwrap(), of_file(&open).unwrap()));
        assert!(of_path(&copy).unwrap() != id && of_path(&first).is_err());
        assert!(of_path(dir.path()).is_ok());
    }
}
