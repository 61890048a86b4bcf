//! File operations relative to the descriptor of an open folder. The kernel resolves one name at a time and
//! never follows a symbolic link, so that nobody can redirect an operation.

use std::fs::{File, Metadata, OpenOptions, Permissions as Bits};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::{Kind, Permissions, Stat};
use crate::fs::atomic;

/// An open folder.
pub(in crate::restore) type Folder = File;

const FOLDER_FLAGS: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

pub(super) fn open_path(path: &Path) -> io::Result<Folder> {
    let folder = OpenOptions::new().read(true).open(path)?;
    if folder.metadata()?.is_dir() { Ok(folder) } else { Err(io::ErrorKind::NotADirectory.into()) }
}

pub(super) fn open_folder(folder: &Folder, name: &[u8]) -> io::Result<Folder> {
    let opened = rustix::fs::openat(folder, name, FOLDER_FLAGS, Mode::empty());
    match opened {
        // Systems differ in the error for a symbolic link.
        Err(Errno::LOOP | Errno::MLINK) => Err(io::ErrorKind::NotADirectory.into()),
        other => Ok(File::from(other?)),
    }
}

#[allow(clippy::unnecessary_cast, clippy::useless_conversion, reason = "the types differ between systems")]
pub(super) fn stat(folder: &Folder, name: &[u8]) -> io::Result<Stat> {
    let found = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
    let kind = match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile => Kind::File,
        FileType::Symlink => Kind::Symlink,
        FileType::Directory => Kind::Folder,
        _ => Kind::Other,
    };
    Ok(Stat {
        kind,
        size: u64::try_from(found.st_size).unwrap_or_default(),
        executable: found.st_mode & 0o100 != 0,
        identity: (found.st_dev as u64, found.st_ino as u64),
        links: found.st_nlink as u64,
        modified: (found.st_mtime as i64)
            .saturating_mul(1_000_000_000)
            .saturating_add(found.st_mtime_nsec as i64),
    })
}

pub(super) fn is_executable(metadata: &Metadata) -> bool {
    metadata.mode() & 0o100 != 0
}

pub(super) fn open_file(folder: &Folder, name: &[u8]) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    match rustix::fs::openat(folder, name, flags, Mode::empty()) {
        Err(Errno::LOOP | Errno::MLINK) => {
            Err(io::Error::new(io::ErrorKind::InvalidInput, "a symbolic link"))
        }
        other => Ok(File::from(other?)),
    }
}

pub(super) fn open_for_writing(folder: &Folder, name: &[u8]) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::openat(folder, name, flags, Mode::empty())?))
}

pub(super) fn read_link(folder: &Folder, name: &[u8]) -> io::Result<Vec<u8>> {
    Ok(rustix::fs::readlinkat(folder, name, Vec::new())?.into_bytes())
}

pub(super) fn create_file(folder: &Folder, name: &[u8], permissions: &Permissions<'_>) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mode = match permissions {
        Permissions::New { executable: false } => Mode::from_raw_mode(0o666),
        Permissions::New { executable: true } => Mode::from_raw_mode(0o777),
        // The file stays private until it has the mode of the file it replaces.
        Permissions::Like { .. } => Mode::from_raw_mode(0o600),
    };
    Ok(File::from(rustix::fs::openat(folder, name, flags, mode)?))
}

pub(super) fn set_permissions(file: &File, permissions: &Permissions<'_>) -> io::Result<()> {
    let Permissions::Like { replaced, executable } = permissions else { return Ok(()) };
    atomic::copy_permissions(replaced, file)?;
    let bits = file.metadata()?.mode() & 0o777;
    let wanted = match (*executable, bits & 0o100 != 0) {
        (true, true) => bits,
        // Whoever may read an executable file may execute it.
        (true, false) => bits | 0o100 | (bits & 0o444) >> 2,
        (false, _) => bits & !0o111,
    };
    if wanted == bits { Ok(()) } else { file.set_permissions(Bits::from_mode(wanted)) }
}

pub(super) fn create_symlink(folder: &Folder, name: &[u8], target: &[u8]) -> io::Result<()> {
    Ok(rustix::fs::symlinkat(target, folder, name)?)
}

pub(super) fn create_folder(folder: &Folder, name: &[u8]) -> io::Result<()> {
    Ok(rustix::fs::mkdirat(folder, name, Mode::from_raw_mode(0o777))?)
}

#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
pub(super) fn exchange((a, a_name): (&Folder, &[u8]), (b, b_name): (&Folder, &[u8])) -> io::Result<bool> {
    match rustix::fs::renameat_with(a, a_name, b, b_name, rustix::fs::RenameFlags::EXCHANGE) {
        Ok(()) => Ok(true),
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => Ok(false),
        Err(e) => Err(e.into()),
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
pub(super) fn exchange(_: (&Folder, &[u8]), _: (&Folder, &[u8])) -> io::Result<bool> {
    Ok(false)
}

pub(super) fn rename_new((from, name): (&Folder, &[u8]), (to, new_name): (&Folder, &[u8])) -> io::Result<()> {
    #[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
    match rustix::fs::renameat_with(from, name, to, new_name, rustix::fs::RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {}
        other => return Ok(other?),
    }
    // The file system cannot refuse to replace a file, so check first.
    if crate::fs::if_exists(stat(to, new_name))?.is_some() {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    rename_over((from, name), (to, new_name))
}

pub(super) fn rename_over(
    (from, name): (&Folder, &[u8]),
    (to, new_name): (&Folder, &[u8]),
) -> io::Result<()> {
    Ok(rustix::fs::renameat(from, name, to, new_name)?)
}

pub(super) fn unlink(folder: &Folder, name: &[u8]) -> io::Result<()> {
    Ok(rustix::fs::unlinkat(folder, name, AtFlags::empty())?)
}

pub(super) fn remove_folder(folder: &Folder, name: &[u8]) -> io::Result<()> {
    Ok(rustix::fs::unlinkat(folder, name, AtFlags::REMOVEDIR)?)
}

pub(super) fn list(folder: &Folder) -> io::Result<Vec<Vec<u8>>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(folder)? {
        let name = entry?.file_name().to_bytes().to_vec();
        if name != b"." && name != b".." {
            names.push(name);
        }
    }
    Ok(names)
}

pub(super) fn sync_folder(folder: &Folder) -> io::Result<()> {
    match folder.sync_all() {
        // Some file systems cannot sync a folder.
        Err(e) if e.kind() == io::ErrorKind::InvalidInput => Ok(()),
        other => other,
    }
}
