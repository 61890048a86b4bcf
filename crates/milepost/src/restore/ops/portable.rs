//! File operations for platforms without descriptors of folders. Each folder is a path that was checked for
//! symbolic links when it was opened. There is no exchange of two files.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use super::{Kind, Permissions, Stat};

/// A folder that existed when it was opened.
#[derive(Debug)]
pub(in crate::restore) struct Folder(PathBuf);

impl Folder {
    fn join(&self, name: &[u8]) -> io::Result<PathBuf> {
        let name = std::str::from_utf8(name)
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "the name is not valid UTF-8"))?;
        Ok(self.0.join(name))
    }
}

pub(super) fn open_path(path: &Path) -> io::Result<Folder> {
    if fs::metadata(path)?.is_dir() {
        Ok(Folder(path.to_owned()))
    } else {
        Err(io::ErrorKind::NotADirectory.into())
    }
}

pub(super) fn open_folder(folder: &Folder, name: &[u8]) -> io::Result<Folder> {
    let path = folder.join(name)?;
    if fs::symlink_metadata(&path)?.is_dir() {
        Ok(Folder(path))
    } else {
        Err(io::ErrorKind::NotADirectory.into())
    }
}

pub(super) fn stat(folder: &Folder, name: &[u8]) -> io::Result<Stat> {
    let path = folder.join(name)?;
    let found = fs::symlink_metadata(&path)?;
    let kind = match found.file_type() {
        kind if kind.is_symlink() => Kind::Symlink,
        kind if kind.is_file() => Kind::File,
        kind if kind.is_dir() => Kind::Folder,
        _ => Kind::Other,
    };
    let since_1970 = found.modified()?.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let modified = i64::try_from(since_1970.as_nanos()).unwrap_or(i64::MAX);
    let identity = crate::fs::file_id::of_path(&path).unwrap_or_default();
    // A link count of zero means that it is unknown whether the file has other names.
    Ok(Stat { kind, size: found.len(), executable: false, identity, links: 0, modified })
}

pub(super) fn is_executable(_: &Metadata) -> bool {
    false
}

pub(super) fn open_file(folder: &Folder, name: &[u8]) -> io::Result<File> {
    let path = folder.join(name)?;
    if fs::symlink_metadata(&path)?.is_symlink() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "a symbolic link"));
    }
    File::open(path)
}

pub(super) fn open_for_writing(folder: &Folder, name: &[u8]) -> io::Result<File> {
    OpenOptions::new().write(true).open(folder.join(name)?)
}

pub(super) fn read_link(folder: &Folder, name: &[u8]) -> io::Result<Vec<u8>> {
    Ok(fs::read_link(folder.join(name)?)?.to_string_lossy().into_owned().into_bytes())
}

pub(super) fn create_file(folder: &Folder, name: &[u8], _: &Permissions<'_>) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).open(folder.join(name)?)
}

pub(super) fn set_permissions(file: &File, permissions: &Permissions<'_>) -> io::Result<()> {
    match permissions {
        Permissions::New { .. } => Ok(()),
        Permissions::Like { replaced, .. } => file.set_permissions(replaced.permissions()),
    }
}

pub(super) fn create_symlink(_: &Folder, _: &[u8], _: &[u8]) -> io::Result<()> {
    Err(io::Error::new(io::ErrorKind::PermissionDenied, "symbolic links are not restored on this platform"))
}

pub(super) fn create_folder(folder: &Folder, name: &[u8]) -> io::Result<()> {
    fs::create_dir(folder.join(name)?)
}

pub(super) fn exchange(_: (&Folder, &[u8]), _: (&Folder, &[u8])) -> io::Result<bool> {
    Ok(false)
}

pub(super) fn rename_new((from, name): (&Folder, &[u8]), (to, new_name): (&Folder, &[u8])) -> io::Result<()> {
    let (source, target) = (from.join(name)?, to.join(new_name)?);
    // Unlike a rename, a hard link fails if the name is taken. Folders and some file systems have none.
    match fs::hard_link(&source, target) {
        Ok(()) => return fs::remove_file(source),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => return Err(e),
        Err(_) => {}
    }
    if crate::fs::if_exists(stat(to, new_name))?.is_some() {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    rename_over((from, name), (to, new_name))
}

pub(super) fn rename_over(
    (from, name): (&Folder, &[u8]),
    (to, new_name): (&Folder, &[u8]),
) -> io::Result<()> {
    fs::rename(from.join(name)?, to.join(new_name)?)
}

pub(super) fn unlink(folder: &Folder, name: &[u8]) -> io::Result<()> {
    fs::remove_file(folder.join(name)?)
}

pub(super) fn remove_folder(folder: &Folder, name: &[u8]) -> io::Result<()> {
    fs::remove_dir(folder.join(name)?)
}

pub(super) fn list(folder: &Folder) -> io::Result<Vec<Vec<u8>>> {
    fs::read_dir(&folder.0)?
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned().into_bytes()))
        .collect()
}

pub(super) fn sync_folder(_: &Folder) -> io::Result<()> {
    Ok(())
}
