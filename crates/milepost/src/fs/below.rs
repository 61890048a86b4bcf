//! Opens files below a folder in one step, without following a symbolic link in any component of the path, so that
//! a folder that is replaced by a link at the same time cannot redirect the read. Takes a relative path. Where the
//! system does not support this, the caller checks each folder itself.

use std::fs::{File, Metadata};
use std::io;
use std::path::Path;

/// An open folder.
pub(crate) struct Folder {
    #[cfg(target_os = "linux")]
    folder: File,
}

impl Folder {
    /// Opens a folder. Fails if the system cannot check paths while it opens files.
    #[cfg(target_os = "linux")]
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        use rustix::fs::{Mode, OFlags};
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = Self { folder: File::from(rustix::fs::open(path, flags, Mode::empty())?) };
        folder.metadata(Path::new("."))?;
        Ok(folder)
    }

    /// Always fails, because this platform cannot check paths while it opens files.
    #[cfg(not(target_os = "linux"))]
    pub(crate) fn open(_: &Path) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Opens a regular file below the folder for reading. Fails if a component of the path is a symbolic link or
    /// leads out of the folder.
    #[cfg(target_os = "linux")]
    pub(crate) fn open_file(&self, path: &Path) -> io::Result<(File, Metadata)> {
        use rustix::fs::{Mode, OFlags, ResolveFlags};
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let file = File::from(rustix::fs::openat2(&self.folder, path, flags, Mode::empty(), resolve)?);
        let metadata = file.metadata()?;
        if metadata.is_file() {
            Ok((file, metadata))
        } else {
            Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"))
        }
    }

    /// The metadata of a path below the folder. If the path itself is a symbolic link, describes the link. Fails
    /// if another component is one.
    #[cfg(target_os = "linux")]
    pub(crate) fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        use rustix::fs::{Mode, OFlags, ResolveFlags};
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        File::from(rustix::fs::openat2(&self.folder, path, flags, Mode::empty(), resolve)?).metadata()
    }

    #[cfg(not(target_os = "linux"))]
    pub(crate) fn open_file(&self, _: &Path) -> io::Result<(File, Metadata)> {
        Err(io::ErrorKind::Unsupported.into())
    }

    #[cfg(not(target_os = "linux"))]
    pub(crate) fn metadata(&self, _: &Path) -> io::Result<Metadata> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::io::Read as _;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn no_link_is_followed() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::create_dir_all(at("root/folder")).unwrap();
        std::fs::create_dir(at("outside")).unwrap();
        for file in ["root/folder/file", "outside/file"] {
            crate::fs::atomic::write(&at(file), file.as_bytes(), crate::fs::atomic::Mode::Shared).unwrap();
        }
        symlink("folder", at("root/link")).unwrap();
        symlink("../outside", at("root/way-out")).unwrap();
        symlink("file", at("root/folder/link")).unwrap();
        let root = Folder::open(&at("root")).unwrap();
        let mut text = String::new();
        root.open_file(Path::new("folder/file")).unwrap().0.read_to_string(&mut text).unwrap();
        assert_eq!(text, "root/folder/file");
        let absolute = at("outside/file");
        let others = ["link/file", "way-out/file", "folder/link", "../outside/file", "folder", "none"];
        for path in others.map(Path::new).into_iter().chain([absolute.as_path()]) {
            assert!(root.open_file(path).is_err(), "{}", path.display());
        }
        assert!(root.metadata(Path::new("folder/link")).unwrap().is_symlink());
        assert!(root.metadata(Path::new("way-out/file")).is_err());
    }
}
