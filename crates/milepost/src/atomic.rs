//! Files that are there whole or not at all: temporary file, fsync, rename, fsync of the folder.
//! In: a path and bytes. Out: the file, durable. Nothing else in the library writes a whole file.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::small_file;

/// How the names of temporary files begin, so that a sweep can find what a crash left.
pub const TEMP_PREFIX: &str = ".milepost-tmp-";

/// Who may read a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Its owner alone: 0600, whatever the file had that it replaces.
    Private,
    /// As the file that it replaces; a new one as the process's umask says.
    Shared,
}

/// Writes a file atomically and durably.
pub fn write(path: &Path, bytes: &[u8], mode: Mode) -> io::Result<()> {
    write_without_folder_sync(path, bytes, mode)?;
    sync_folder(folder_of(path))
}

/// Writes a private file atomically and durably, unless something of that name is there already.
pub fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = folder_of(path);
    let mut temp = create_temp(folder, Mode::Private)?;
    temp.write_all(bytes)?;
    temp.as_file().sync_all()?;
    temp.persist_noclobber(path).map_err(|e| e.error)?;
    sync_folder(folder)
}

/// Writes a file atomically and leaves its folder to the caller, who syncs it once for several files or not at all.
pub(crate) fn write_without_folder_sync(path: &Path, bytes: &[u8], mode: Mode) -> io::Result<()> {
    let replaced = fs::symlink_metadata(path).ok().filter(|about| mode == Mode::Shared && about.is_file());
    // Nobody else reads it before it has the mode of the file that it replaces.
    let temp_mode = if replaced.is_some() { Mode::Private } else { mode };
    let mut temp = create_temp(folder_of(path), temp_mode)?;
    temp.write_all(bytes)?;
    if let Some(replaced) = replaced {
        copy_permissions(&replaced, temp.as_file())?;
    }
    temp.as_file().sync_all()?;
    temp.persist(path).map_err(|e| e.error)?;
    Ok(())
}

/// Gives a file the permissions of the one that it replaces, and its group where that is allowed.
#[cfg(unix)]
fn copy_permissions(replaced: &fs::Metadata, file: &File) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let mut bits = replaced.mode() & 0o777;
    let group = rustix::fs::Gid::from_raw(replaced.gid());
    if file.metadata()?.gid() != replaced.gid() && rustix::fs::fchown(file, None, Some(group)).is_err() {
        // The group could not be kept, so drop the group's permissions.
        bits &= 0o707;
    }
    file.set_permissions(fs::Permissions::from_mode(bits))
}

#[cfg(not(unix))]
fn copy_permissions(replaced: &fs::Metadata, file: &File) -> io::Result<()> {
    file.set_permissions(replaced.permissions())
}

fn create_temp(folder: &Path, mode: Mode) -> io::Result<tempfile::NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(TEMP_PREFIX);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        // The kernel takes the umask off again.
        let bits = if mode == Mode::Private { 0o600 } else { 0o666 };
        builder.permissions(fs::Permissions::from_mode(bits));
    }
    builder.tempfile_in(folder)
}

/// Makes entries of a folder durable.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    #[cfg(unix)]
    File::open(folder)?.sync_all()?;
    Ok(())
}

/// Makes a folder and its missing parents, each 0700 and durable in its parent.
pub fn create_folder(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    let parent = folder_of(folder);
    if !parent.exists() {
        create_folder(parent)?;
    }
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    {
        use std::os::unix::fs::DirBuilderExt;
        builder.mode(0o700);
    }
    match builder.create(folder) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => return Ok(()),
        other => other?,
    }
    sync_folder(parent)
}

/// Opens a small private file for locks and logs, making it if needed. Only a regular file is opened, and no link followed.
pub(crate) fn open_private(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    small_file::open_with(path, options)
}

/// Finds temporary files that a crash left in `folder`.
pub(crate) fn strays(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(TEMP_PREFIX) {
            found.push(entry.path());
        }
    }
    Ok(found)
}

/// The folder a path lies in; `.` for a bare name.
pub(crate) fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_replaced_file_keeps_its_mode() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let bits = || fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        for mode in [0o600, 0o640, 0o644, 0o755] {
            write(&path, b"one", Mode::Shared).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            write(&path, b"two", Mode::Shared).unwrap();
            assert_eq!((bits(), fs::read(&path).unwrap()), (mode, b"two".to_vec()), "{mode:o}");
        }
        write(&path, b"three", Mode::Private).unwrap();
        assert_eq!(bits(), 0o600);
    }
}
