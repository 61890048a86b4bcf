//! Every file operation of a restore, each relative to an open folder. No operation follows a symbolic link.
//! Tests make any operation fail, or stop the restore there as a killed process would.

#[cfg(test)]
pub(in crate::restore) mod fault;
#[cfg(not(unix))]
mod portable;
#[cfg(unix)]
mod unix;

use std::fs::{File, Metadata};
use std::io::{self, Read as _, Write as _};
use std::path::Path;

#[cfg(not(unix))]
use portable as platform;
#[cfg(unix)]
use unix as platform;

pub(in crate::restore) use platform::Folder;

use super::types::Fingerprint;
use crate::model::BlobId;

/// What a name refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::restore) enum Kind {
    File,
    Symlink,
    Folder,
    Other,
}

/// What is known of a name without opening it.
#[derive(Debug, Clone, Copy)]
pub(in crate::restore) struct Stat {
    pub kind: Kind,
    pub size: u64,
    pub executable: bool,
    /// The device and the inode.
    pub identity: (u64, u64),
    pub links: u64,
    /// The time of the last modification, in nanoseconds since 1970.
    pub modified: i64,
}

impl Stat {
    pub(in crate::restore) fn fingerprint(&self) -> Fingerprint {
        Fingerprint::Stat { size: self.size, modified: self.modified, inode: self.identity.1 }
    }
}

/// The permissions of a new file.
#[derive(Debug)]
#[cfg_attr(not(unix), allow(dead_code, reason = "other platforms have no executable files"))]
pub(in crate::restore) enum Permissions<'a> {
    /// As for any new file: all that the umask allows.
    New { executable: bool },
    /// Those of the file it replaces, apart from execution.
    Like { replaced: &'a Metadata, executable: bool },
}

/// The file operations.
#[derive(Debug, Default, Clone)]
pub(in crate::restore) struct Ops {
    #[cfg(test)]
    pub faults: fault::Faults,
}

// Without tests there is nothing to count, and `self` is unused.
#[cfg_attr(not(test), allow(clippy::unused_self))]
impl Ops {
    /// Called before every operation that only reads.
    #[cfg_attr(not(test), allow(clippy::unnecessary_wraps))]
    fn begin_read(&self) -> io::Result<()> {
        #[cfg(test)]
        self.faults.next(false)?;
        Ok(())
    }

    /// Called before every operation that changes something or makes it durable.
    #[cfg_attr(not(test), allow(clippy::unnecessary_wraps))]
    fn begin(&self) -> io::Result<()> {
        #[cfg(test)]
        self.faults.next(true)?;
        Ok(())
    }

    /// Opens a folder by its path. Links in this path are followed: it is the caller's choice.
    pub(in crate::restore) fn open_path(&self, path: &Path) -> io::Result<Folder> {
        self.begin_read()?;
        platform::open_path(path)
    }

    /// Opens a folder inside another one.
    pub(in crate::restore) fn open_folder(&self, folder: &Folder, name: &[u8]) -> io::Result<Folder> {
        self.begin_read()?;
        platform::open_folder(folder, name)
    }

    /// Opens a folder by its path below another one, one component at a time; `None` if it does not exist.
    pub(in crate::restore) fn open_below(&self, root: &Folder, path: &[u8]) -> io::Result<Option<Folder>> {
        self.begin_read()?;
        // Opening `.` gives every caller a descriptor of its own.
        let mut folder = platform::open_folder(root, b".")?;
        for component in path.split(|b| *b == b'/').filter(|component| !component.is_empty()) {
            match crate::fs::if_exists(platform::open_folder(&folder, component))? {
                Some(inner) => folder = inner,
                None => return Ok(None),
            }
        }
        Ok(Some(folder))
    }

    /// Describes a name; `None` if it does not exist.
    pub(in crate::restore) fn stat(&self, folder: &Folder, name: &[u8]) -> io::Result<Option<Stat>> {
        self.begin_read()?;
        crate::fs::if_exists(platform::stat(folder, name))
    }

    /// Opens a regular file for reading.
    pub(in crate::restore) fn open_file(&self, folder: &Folder, name: &[u8]) -> io::Result<File> {
        self.begin_read()?;
        let file = platform::open_file(folder, name)?;
        if file.metadata()?.is_file() {
            Ok(file)
        } else {
            Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"))
        }
    }

    /// Hashes a regular file and counts its bytes.
    pub(in crate::restore) fn hash(&self, folder: &Folder, name: &[u8]) -> io::Result<(BlobId, u64)> {
        let mut file = self.open_file(folder, name)?;
        let mut hasher = blake3::Hasher::new();
        let mut buffer = vec![0; 64 << 10];
        let mut size = 0;
        loop {
            let read = match file.read(&mut buffer) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                other => other?,
            };
            if read == 0 {
                return Ok((BlobId::from_bytes(*hasher.finalize().as_bytes()), size));
            }
            hasher.update(&buffer[..read]);
            size += read as u64;
        }
    }

    pub(in crate::restore) fn read_link(&self, folder: &Folder, name: &[u8]) -> io::Result<Vec<u8>> {
        self.begin_read()?;
        platform::read_link(folder, name)
    }

    /// Creates a file with this content and makes the content durable.
    pub(in crate::restore) fn create_file(
        &self,
        folder: &Folder,
        name: &[u8],
        content: &[u8],
        permissions: &Permissions<'_>,
    ) -> io::Result<()> {
        self.begin()?;
        let mut file = platform::create_file(folder, name, permissions)?;
        self.begin()?;
        file.write_all(content)?;
        platform::set_permissions(&file, permissions)?;
        self.sync_file(&file)
    }

    /// Copies a regular file into a new one with the same permissions, and makes its content durable.
    pub(in crate::restore) fn copy_file(
        &self,
        (from, name): (&Folder, &[u8]),
        (to, copy): (&Folder, &[u8]),
    ) -> io::Result<()> {
        let mut original = self.open_file(from, name)?;
        let replaced = original.metadata()?;
        let executable = platform::is_executable(&replaced);
        let permissions = Permissions::Like { replaced: &replaced, executable };
        self.begin()?;
        let mut file = platform::create_file(to, copy, &permissions)?;
        self.begin()?;
        io::copy(&mut original, &mut file)?;
        platform::set_permissions(&file, &permissions)?;
        self.sync_file(&file)
    }

    /// Overwrites bytes of an existing file and makes them durable.
    pub(in crate::restore) fn overwrite(
        &self,
        folder: &Folder,
        name: &[u8],
        offset: u64,
        bytes: &[u8],
    ) -> io::Result<()> {
        use std::io::Seek as _;
        self.begin()?;
        let mut file = platform::open_for_writing(folder, name)?;
        file.seek(io::SeekFrom::Start(offset))?;
        file.write_all(bytes)?;
        self.sync_file(&file)
    }

    pub(in crate::restore) fn create_symlink(
        &self,
        folder: &Folder,
        name: &[u8],
        target: &[u8],
    ) -> io::Result<()> {
        self.begin()?;
        platform::create_symlink(folder, name, target)
    }

    pub(in crate::restore) fn create_folder(&self, folder: &Folder, name: &[u8]) -> io::Result<()> {
        self.begin()?;
        platform::create_folder(folder, name)
    }

    /// Exchanges two names in one step. Returns `false` if the file system does not support it.
    pub(in crate::restore) fn exchange(
        &self,
        (a, a_name): (&Folder, &[u8]),
        (b, b_name): (&Folder, &[u8]),
    ) -> io::Result<bool> {
        self.begin()?;
        #[cfg(test)]
        if self.faults.exchange_is_unsupported() {
            return Ok(false);
        }
        platform::exchange((a, a_name), (b, b_name))
    }

    /// Renames a file. Fails with `AlreadyExists` if the new name exists.
    pub(in crate::restore) fn rename_new(
        &self,
        (from, name): (&Folder, &[u8]),
        (to, new_name): (&Folder, &[u8]),
    ) -> io::Result<()> {
        self.begin()?;
        platform::rename_new((from, name), (to, new_name))
    }

    /// Renames a file over another one.
    pub(in crate::restore) fn rename_over(
        &self,
        (from, name): (&Folder, &[u8]),
        (to, new_name): (&Folder, &[u8]),
    ) -> io::Result<()> {
        self.begin()?;
        platform::rename_over((from, name), (to, new_name))
    }

    /// Renames a file between the worktree and the journal folder, which may be on another file system.
    pub(in crate::restore) fn rename_across(
        &self,
        (from, name): (&Folder, &[u8]),
        (to, new_name): (&Folder, &[u8]),
    ) -> io::Result<()> {
        #[cfg(test)]
        if self.faults.aside_is_elsewhere() {
            return Err(io::ErrorKind::CrossesDevices.into());
        }
        self.rename_new((from, name), (to, new_name))
    }

    /// Removes a name that is not a folder. Does nothing if it does not exist.
    pub(in crate::restore) fn unlink(&self, folder: &Folder, name: &[u8]) -> io::Result<()> {
        self.begin()?;
        crate::fs::if_exists(platform::unlink(folder, name)).map(|_| ())
    }

    /// Removes an empty folder. Returns `false` if it is not empty or not a folder.
    pub(in crate::restore) fn remove_folder(&self, folder: &Folder, name: &[u8]) -> io::Result<bool> {
        use io::ErrorKind::{DirectoryNotEmpty, NotADirectory, NotFound, ResourceBusy};
        self.begin()?;
        match platform::remove_folder(folder, name) {
            Ok(()) => Ok(true),
            Err(e) if e.kind() == NotFound => Ok(true),
            // Some systems report a folder with content as an existing one.
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(e) if matches!(e.kind(), DirectoryNotEmpty | NotADirectory | ResourceBusy) => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// The names in a folder.
    pub(in crate::restore) fn list(&self, folder: &Folder) -> io::Result<Vec<Vec<u8>>> {
        self.begin_read()?;
        platform::list(folder)
    }

    fn sync_file(&self, file: &File) -> io::Result<()> {
        self.begin()?;
        // Tests stop a restore, not the machine, so they need no fsync.
        if cfg!(test) { Ok(()) } else { file.sync_all() }
    }

    /// Makes the names in a folder durable.
    pub(in crate::restore) fn sync_folder(&self, folder: &Folder) -> io::Result<()> {
        self.begin()?;
        if cfg!(test) { Ok(()) } else { platform::sync_folder(folder) }
    }
}
