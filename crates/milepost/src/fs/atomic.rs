//! Writes files atomically and durably: temporary file, fsync, rename, fsync of the folder. Takes a path and
//! bytes. Other modules of the library write whole files only through this one.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::fs::bounded;
use crate::fs::file_id::{self, FileId};

/// Prefix of the names of temporary files, so that cleanup can find files that a crash left.
pub const TEMP_PREFIX: &str = ".milepost-tmp-";

/// The permissions of a written file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Only the owner can read it: mode 0600, regardless of the mode of the file it replaces.
    Private,
    /// The mode of the file it replaces. The mode of a new file depends on the process's umask.
    Shared,
}

/// Writes a file atomically and durably.
pub fn write(path: &Path, bytes: &[u8], mode: Mode) -> io::Result<()> {
    write_without_folder_sync(path, bytes, mode)?;
    sync_folder(folder_of(path))
}

/// Writes a private file atomically and durably. Fails if the path already exists.
pub fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temp = write_temp(path, bytes, Mode::Private, None)?;
    temp.persist_noclobber(path).map_err(|e| e.error)?;
    sync_folder(folder_of(path))
}

/// Writes a file atomically without syncing its folder. The caller syncs the folder once
/// for several files, or not at all.
pub(crate) fn write_without_folder_sync(path: &Path, bytes: &[u8], mode: Mode) -> io::Result<()> {
    let replaced = fs::symlink_metadata(path).ok().filter(|about| mode == Mode::Shared && about.is_file());
    let temp = write_temp(path, bytes, mode, replaced.as_ref())?;
    put_in_place(temp, path)?;
    Ok(())
}

/// Writes a private file atomically, but syncs nothing. For derived files whose content has a checksum.
pub(crate) fn write_derived(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut temp = tempfile::Builder::new().prefix(TEMP_PREFIX).tempfile_in(folder_of(path))?;
    temp.write_all(bytes)?;
    put_in_place(temp, path)?;
    Ok(())
}

/// Replaces a file atomically and durably if its content is still `expected`; `None` expects that there is no
/// file. Returns whether the file was replaced. Another program may rename its own file into place at any
/// time. If the file system can exchange two files, that program's file is not lost.
pub(crate) fn replace(path: &Path, expected: Option<&[u8]>, bytes: &[u8]) -> io::Result<bool> {
    let folder = folder_of(path);
    let Some(expected) = expected else {
        let temp = write_temp(path, bytes, Mode::Shared, None)?;
        return match temp.persist_noclobber(path) {
            Err(e) if e.error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(e) => Err(e.error),
            Ok(_) => sync_folder(folder).map(|()| true),
        };
    };
    let holds_expected =
        |path: &Path| bounded::read(path, expected.len() as u64).is_ok_and(|found| found == expected);
    let replaced = fs::symlink_metadata(path).ok().filter(fs::Metadata::is_file);
    let Some(replaced) = replaced else { return Ok(false) };
    let temp = write_temp(path, bytes, Mode::Shared, Some(&replaced))?;
    // Syncing takes the longest, so this check detects nearly every concurrent change.
    if !holds_expected(path) {
        return Ok(false);
    }
    let ours = file_id::of_path(temp.path())?;
    match exchange(temp.path(), path) {
        Ok(true) if holds_expected(temp.path()) => sync_folder(folder).map(|()| true),
        Ok(true) => put_back(temp.path(), path, ours).map(|()| false),
        // The file was removed after the check.
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        // The exchange is not supported or not permitted. If a rename fails too, its error gives the reason.
        Ok(false) | Err(_) => {
            put_in_place(temp, path)?;
            sync_folder(folder).map(|()| true)
        }
    }
}

/// Puts back the file that an exchange moved from `path` to `taken`. If another program puts a newer file at
/// `path` in the meantime, the newest file stays there.
fn put_back(taken: &Path, path: &Path, mut put_there: FileId) -> io::Result<()> {
    loop {
        let in_hand = file_id::of_path(taken)?;
        exchange(taken, path)?;
        if file_id::of_path(taken)? == put_there {
            return Ok(());
        }
        put_there = in_hand;
    }
}

/// Exchanges two files in one step. Returns `false` if the file system or the platform does not support it.
fn exchange(a: &Path, b: &Path) -> io::Result<bool> {
    #[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
    {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        use rustix::io::Errno;
        match renameat_with(CWD, a, CWD, b, RenameFlags::EXCHANGE) {
            Ok(()) => Ok(true),
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => Ok(false),
            Err(e) => Err(e.into()),
        }
    }
    #[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
    {
        let _ = (a, b);
        Ok(false)
    }
}

/// Renames a temporary file over a file or a free name.
fn put_in_place(temp: tempfile::NamedTempFile, path: &Path) -> io::Result<()> {
    let start = Instant::now();
    let mut temp = temp;
    loop {
        match temp.persist(path) {
            Ok(_) => return Ok(()),
            Err(e) if is_in_use(&e.error) && start.elapsed() < IN_USE_TIMEOUT => temp = e.file,
            Err(e) => return Err(e.error),
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// How long to wait until other programs close a file that is to be replaced.
const IN_USE_TIMEOUT: Duration = Duration::from_secs(2);

/// Whether a file cannot be replaced because a program has it open, such as a reader or a virus scanner. On Windows, both
/// "access denied" and "sharing violation" may mean that.
fn is_in_use(error: &io::Error) -> bool {
    cfg!(windows) && matches!(error.raw_os_error(), Some(5 | 32))
}

/// Copies the permissions of the replaced file, and its group if that is permitted.
#[cfg(unix)]
pub(crate) fn copy_permissions(replaced: &fs::Metadata, file: &File) -> io::Result<()> {
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
pub(crate) fn copy_permissions(replaced: &fs::Metadata, file: &File) -> io::Result<()> {
    file.set_permissions(replaced.permissions())
}

/// Writes and syncs a temporary file in the folder of `path`, with the permissions of the replaced file.
fn write_temp(
    path: &Path,
    bytes: &[u8],
    mode: Mode,
    replaced: Option<&fs::Metadata>,
) -> io::Result<tempfile::NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(TEMP_PREFIX);
    #[cfg(not(unix))]
    let _ = mode;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        // The kernel applies the umask. A file that replaces another one stays private
        // until it has that file's mode.
        let bits = if mode == Mode::Private || replaced.is_some() { 0o600 } else { 0o666 };
        builder.permissions(fs::Permissions::from_mode(bits));
    }
    let mut temp = builder.tempfile_in(folder_of(path))?;
    temp.write_all(bytes)?;
    if let Some(replaced) = replaced {
        copy_permissions(replaced, temp.as_file())?;
    }
    temp.as_file().sync_all()?;
    Ok(temp)
}

/// Makes the directory entries of a folder durable. Windows cannot sync folders; NTFS writes their changes to its journal.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    #[cfg(unix)]
    File::open(folder)?.sync_all()?;
    #[cfg(not(unix))]
    let _ = folder;
    Ok(())
}

/// Creates a folder and its missing parents, each with mode 0700 and durable in its parent.
pub fn create_folder(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    let parent = folder_of(folder);
    if !parent.exists() {
        create_folder(parent)?;
    }
    #[cfg_attr(not(unix), allow(unused_mut, reason = "this platform has no modes"))]
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

/// Opens a small private file for locks and logs; the options decide whether it is created. Opens only
/// regular files and does not follow symbolic links.
pub(crate) fn open_private(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    bounded::open_with(path, options)
}

/// Finds temporary files that a crash left in `folder`.
pub(crate) fn leftover_temp_files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(TEMP_PREFIX) {
            found.push(entry.path());
        }
    }
    Ok(found)
}

/// The folder that contains a path; `.` for a bare name.
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
    fn a_file_that_changed_since_it_was_read_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        assert!(!replace(&path, Some(b"one"), b"two").unwrap(), "the file does not exist");
        assert!(replace(&path, None, b"one").unwrap());
        assert!(!replace(&path, None, b"two").unwrap(), "the file already exists");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(replace(&path, Some(b"one"), b"two").unwrap());
        assert!(!replace(&path, Some(b"one"), b"three").unwrap());
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        std::os::unix::fs::symlink("file", dir.path().join("link")).unwrap();
        assert!(
            !replace(&dir.path().join("link"), Some(b"two"), b"three").unwrap(),
            "symbolic links are not followed"
        );
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "no temporary file remains");
    }

    #[test]
    fn what_an_exchange_took_away_goes_back_and_a_newer_file_stays() {
        let dir = tempfile::tempdir().unwrap();
        let (path, taken) = (dir.path().join("file"), dir.path().join("taken"));
        let put = |path: &Path, text: &str| write(path, text.as_bytes(), Mode::Shared).unwrap();
        let text = |path: &Path| fs::read_to_string(path).unwrap();
        put(&path, "ours");
        put(&taken, "edited");
        put_back(&taken, &path, file_id::of_path(&path).unwrap()).unwrap();
        assert_eq!((text(&path), text(&taken)), ("edited".to_owned(), "ours".to_owned()));
        put(&path, "ours");
        put(&taken, "edited");
        let ours = file_id::of_path(&path).unwrap();
        put(&path, "edited again");
        put_back(&taken, &path, ours).unwrap();
        assert_eq!(text(&path), "edited again");
    }

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
