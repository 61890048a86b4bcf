//! Reads files that an agent names. Takes the project's root and a path, and returns the file's text with
//! secrets redacted. Reads only regular files inside the project up to a size limit. Must not follow symbolic
//! symbolic links or block on a pipe.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Component, Path, PathBuf};

use milepost::AllowList;

use crate::error::{CommandError, Result};

/// The largest file that is read.
const MAX_BYTES: u64 = 1 << 20;

const HINT: &str =
    "name a regular file inside the project, of at most 1 MiB, without `..` or symbolic links in its path";

/// Why a file is not read.
enum Refused {
    Outside,
    Parent,
    Link,
    NotRegular,
    TooLarge,
    NotText,
    Failed(io::Error),
}

impl From<io::Error> for Refused {
    fn from(e: io::Error) -> Self {
        Self::Failed(e)
    }
}

#[cfg(unix)]
impl From<rustix::io::Errno> for Refused {
    fn from(e: rustix::io::Errno) -> Self {
        Self::Failed(e.into())
    }
}

/// Reads a file of the project at `root`. `given` is absolute, or relative to the current folder.
pub(super) fn read(root: &Path, given: &str, allow: &AllowList) -> Result<String> {
    open(root, Path::new(given)).and_then(|file| text(file, allow)).map_err(|refused| {
        let why = match refused {
            Refused::Outside => format!("it is outside the project at {}", root.display()),
            Refused::Parent => "its path contains `..`".to_owned(),
            Refused::Link => "its path contains a symbolic link".to_owned(),
            Refused::NotRegular => "it is not a regular file".to_owned(),
            Refused::TooLarge => format!("it is larger than {MAX_BYTES} bytes"),
            Refused::NotText => "it is not UTF-8 text".to_owned(),
            Refused::Failed(e) => e.to_string(),
        };
        CommandError::usage(format!("from: cannot read {given}: {why}")).with_hint(HINT)
    })
}

/// Opens a file one folder at a time, so that no part of its path can be a symbolic link.
fn open(root: &Path, given: &Path) -> Result<File, Refused> {
    if given.components().any(|part| part == Component::ParentDir) {
        return Err(Refused::Parent);
    }
    // A project at `/` would contain every file.
    if root.parent().is_none() {
        return Err(Refused::Outside);
    }
    let path = std::env::current_dir()?.join(given);
    let inside: PathBuf = path.strip_prefix(root).map_err(|_| Refused::Outside)?.into();
    let name = inside.file_name().ok_or(Refused::NotRegular)?;
    open_below(root, inside.parent().unwrap_or(Path::new("")), name)
}

/// Opens a file of a folder below the root, one folder at a time.
#[cfg(unix)]
fn open_below(root: &Path, folder: &Path, name: &OsStr) -> Result<File, Refused> {
    use std::os::fd::OwnedFd;

    use rustix::fs::{AtFlags, FileType, Mode, OFlags};

    /// Opens an entry of a folder that must be of this type. The type is checked before opening, because opening
    /// a device can have side effects, and again on the opened file.
    fn open_at(folder: &OwnedFd, name: &OsStr, wanted: FileType) -> Result<OwnedFd, Refused> {
        let check = |found: FileType| match found {
            found if found == wanted => Ok(()),
            FileType::Symlink => Err(Refused::Link),
            _ => Err(Refused::NotRegular),
        };
        let before = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
        check(FileType::from_raw_mode(before.st_mode))?;
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(folder, name, flags, Mode::empty())?;
        check(FileType::from_raw_mode(rustix::fs::fstat(&opened)?.st_mode))?;
        Ok(opened)
    }

    let mut at: OwnedFd = File::open(root)?.into();
    for part in folder.components() {
        at = open_at(&at, part.as_os_str(), FileType::Directory)?;
    }
    Ok(open_at(&at, name, FileType::RegularFile)?.into())
}

/// Opens a file of a folder below the root, after checking every part of its path. A folder that another program replaces
/// by a link at the same moment is not noticed.
#[cfg(not(unix))]
fn open_below(root: &Path, folder: &Path, name: &OsStr) -> Result<File, Refused> {
    let check = |path: &Path, wanted: fn(&std::fs::FileType) -> bool| {
        let kind = std::fs::symlink_metadata(path)?.file_type();
        match kind.is_symlink() {
            true => Err(Refused::Link),
            false if wanted(&kind) => Ok(()),
            false => Err(Refused::NotRegular),
        }
    };
    let mut at = root.to_owned();
    for part in folder.components() {
        at.push(part);
        check(&at, std::fs::FileType::is_dir)?;
    }
    at.push(name);
    check(&at, std::fs::FileType::is_file)?;
    let file = File::open(&at)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(Refused::NotRegular) }
}

/// Reads the whole file as text and redacts secrets.
fn text(file: File, allow: &AllowList) -> Result<String, Refused> {
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(Refused::TooLarge);
    }
    let text = String::from_utf8(bytes).map_err(|_| Refused::NotText)?;
    Ok(allow.redact_text(&text).unwrap_or(text))
}
