//! Reads one file of a worktree for a snapshot. Takes a path and returns its content and a signature that
//! recognises an unchanged file. Must not block on a pipe, follow a symbolic link, or exceed the size limit.

use std::fs::{File, Metadata};
use std::io::{self, Read as _};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::manifest::FileContent;
use crate::fs::{bounded, stored_bytes};
use crate::model::{BlobId, PathText};

/// What identifies an unchanged file without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Signature {
    size: u64,
    /// The times of the last change to the content and to the file, in nanoseconds since 1970.
    mtime: i64,
    pub(super) ctime: i64,
    inode: u64,
    device: u64,
    mode: u32,
}

impl Signature {
    #[cfg(unix)]
    pub(super) fn of(about: &Metadata) -> Self {
        use std::os::unix::fs::MetadataExt as _;
        let nanos = |seconds: i64, nanos: i64| seconds.saturating_mul(1_000_000_000).saturating_add(nanos);
        Self {
            size: about.len(),
            mtime: nanos(about.mtime(), about.mtime_nsec()),
            ctime: nanos(about.ctime(), about.ctime_nsec()),
            inode: about.ino(),
            device: about.dev(),
            mode: about.mode(),
        }
    }

    #[cfg(not(unix))]
    pub(super) fn of(about: &Metadata) -> Self {
        let nanos = |time: io::Result<std::time::SystemTime>| {
            let time = time.ok().and_then(|time| jiff::Timestamp::try_from(time).ok());
            time.map_or(0, |time| i64::try_from(time.as_nanosecond()).unwrap_or(0))
        };
        let mtime = nanos(about.modified());
        // The metadata has no file number. A file that replaces another one has its own time of creation.
        let inode = nanos(about.created()).cast_unsigned();
        Self { size: about.len(), mtime, ctime: mtime, inode, device: 0, mode: 0 }
    }

    /// Whether the file may change again without a new signature: it changed within two seconds before it
    /// was read, which is the coarsest resolution of a file system's clock. `now` is in nanoseconds.
    pub(super) fn is_recent(&self, now: i64) -> bool {
        const RESOLUTION: i64 = 2_000_000_000;
        now.saturating_sub(self.mtime.max(self.ctime)) < RESOLUTION
    }

    /// The time of the last change in milliseconds since 1970.
    pub(super) fn changed_ms(&self) -> i64 {
        self.ctime / 1_000_000
    }
}

/// A file that was looked at.
pub(super) enum Examined {
    /// There is no file, or a folder took its place.
    Absent,
    /// Not a file with content: a symbolic link, a pipe, a file that cannot be read.
    Special(FileContent),
    /// A regular file.
    Regular(Signature),
}

/// Looks at a path without reading the file. `about` is its metadata.
pub(super) fn examine(path: &Path, about: io::Result<Metadata>) -> Examined {
    let about = match about {
        Ok(about) => about,
        Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Examined::Absent;
        }
        Err(e) => return Examined::Special(cannot_read(&e)),
    };
    let kind = about.file_type();
    if kind.is_symlink() {
        return Examined::Special(match std::fs::read_link(path) {
            Ok(target) => FileContent::Symlink { target: PathText::of(&stored_bytes(&target)) },
            Err(e) => cannot_read(&e),
        });
    }
    if kind.is_dir() {
        return Examined::Absent;
    }
    if !kind.is_file() {
        return Examined::Special(FileContent::omitted("it is not a regular file", None));
    }
    Examined::Regular(Signature::of(&about))
}

/// Whether a folder of a path below the root is a symbolic link, so that the path leads elsewhere. To git, such
/// a path does not exist.
pub(super) fn is_behind_link(root: &Path, path: &[u8]) -> bool {
    let mut folder = root.to_owned();
    path_of(path).parent().is_some_and(|parent| {
        parent.components().any(|part| {
            folder.push(part);
            is_link(&folder)
        })
    })
}

pub(super) fn is_link(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|about| about.is_symlink())
}

/// A file that was read.
pub(super) struct ReadFile {
    pub(super) content: FileContent,
    pub(super) bytes: Vec<u8>,
    pub(super) signature: Signature,
}

/// Reads a regular file of at most `limit` bytes. Fails with the reason why its content is omitted.
pub(super) fn read(path: &Path, limit: u64) -> Result<ReadFile, FileContent> {
    let open = || bounded::open_with_metadata(path);
    let (file, about) = open().map_err(|e| cannot_read(&e))?;
    read_opened(file, &about, limit, open)
}

/// Reads a regular file that was just opened. `open` opens it again if it changes while it is read.
pub(super) fn read_opened(
    mut file: File,
    about: &Metadata,
    limit: u64,
    open: impl FnOnce() -> io::Result<(File, Metadata)>,
) -> Result<ReadFile, FileContent> {
    match read_once(&mut file, about, limit)? {
        Some(read) => return Ok(read),
        None => drop(file),
    }
    let (mut file, about) = open().map_err(|e| cannot_read(&e))?;
    read_once(&mut file, &about, limit)?
        .ok_or_else(|| FileContent::omitted("it changed while it was read", Some(about.len())))
}

/// Reads a file. Returns `None` if it changed in the meantime.
fn read_once(file: &mut File, before: &Metadata, limit: u64) -> Result<Option<ReadFile>, FileContent> {
    let size = Some(before.len());
    if before.len() > limit {
        return Err(FileContent::omitted(too_large(limit), size));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(before.len()).unwrap_or_default());
    let read = file.by_ref().take(limit.saturating_add(1)).read_to_end(&mut bytes);
    read.map_err(|e| FileContent::omitted(describe(&e), size))?;
    if bytes.len() as u64 > limit {
        return Err(FileContent::omitted(too_large(limit), Some(bytes.len() as u64)));
    }
    let after = file.metadata().map_err(|e| FileContent::omitted(describe(&e), size))?;
    let signature = Signature::of(&after);
    if Signature::of(before) != signature || bytes.len() as u64 != after.len() {
        return Ok(None);
    }
    let (blob, size) = (BlobId::of(&bytes), bytes.len() as u64);
    let content = FileContent::File { blob, size, executable: is_executable(&after) };
    Ok(Some(ReadFile { content, bytes, signature }))
}

pub(super) fn too_large(limit: u64) -> String {
    format!("it is larger than {}", bounded::format_limit(limit))
}

#[cfg(unix)]
fn is_executable(about: &Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    about.permissions().mode() & 0o100 != 0
}

#[cfg(not(unix))]
fn is_executable(_: &Metadata) -> bool {
    false
}

/// The content of a file that cannot be opened.
pub(super) fn cannot_read(error: &io::Error) -> FileContent {
    FileContent::omitted(describe(error), None)
}

fn describe(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        _ => error.to_string(),
    }
}

/// The path with these bytes, relative to the worktree.
#[cfg(unix)]
pub(super) fn path_of(bytes: &[u8]) -> &Path {
    use std::os::unix::ffi::OsStrExt as _;
    Path::new(std::ffi::OsStr::from_bytes(bytes))
}

#[cfg(not(unix))]
pub(super) fn path_of(bytes: &[u8]) -> &Path {
    Path::new(std::str::from_utf8(bytes).unwrap_or_default())
}

/// Whether a file's name suggests that it contains secrets: an environment file, a private key, a password
/// store. Its content is never stored.
pub(super) fn may_hold_secrets(path: &[u8]) -> bool {
    const NAMES: [&str; 22] = [
        ".env",
        ".netrc",
        "_netrc",
        ".pgpass",
        ".npmrc",
        ".pypirc",
        ".htpasswd",
        ".git-credentials",
        ".dockercfg",
        ".vault-token",
        ".my.cnf",
        "id_rsa",
        "id_dsa",
        "id_ecdsa",
        "id_ed25519",
        "credentials",
        "credentials.json",
        "secrets.json",
        "secrets.yaml",
        "secrets.yml",
        "secrets.toml",
        "kubeconfig",
    ];
    const ENDINGS: [&str; 10] =
        [".pem", ".key", ".p12", ".pfx", ".jks", ".keystore", ".kdbx", ".ppk", ".asc", ".tfstate"];
    // Templates list the names of variables and are meant to be committed.
    const TEMPLATES: [&str; 5] = [".example", ".sample", ".template", ".dist", ".defaults"];
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let name = String::from_utf8_lossy(name).to_ascii_lowercase();
    if TEMPLATES.iter().any(|end| name.ends_with(end)) {
        return false;
    }
    NAMES.contains(&name.as_str())
        || name.starts_with(".env.")
        || (name.ends_with(".env") && name.len() > 4)
        || ENDINGS.iter().any(|end| name.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_with_secrets_are_recognised_by_their_names() {
        for name in
            [".env", "app/.env.local", "prod.env", "deploy/id_rsa", "server.PEM", "a/credentials", ".npmrc"]
        {
            assert!(may_hold_secrets(name.as_bytes()), "{name}");
        }
        for name in [".env.example", "environment.rs", "env", "id_rsa.pub", "keyboard.rs", "README.md"] {
            assert!(!may_hold_secrets(name.as_bytes()), "{name}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn only_regular_files_have_content() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        crate::fs::atomic::write(&at("file"), b"text", crate::fs::atomic::Mode::Shared).unwrap();
        std::os::unix::fs::symlink("file", at("link")).unwrap();
        let mode = rustix::fs::Mode::RUSR;
        rustix::fs::mknodat(rustix::fs::CWD, at("pipe"), rustix::fs::FileType::Fifo, mode, 0).unwrap();
        let examine = |path: &Path| examine(path, std::fs::symlink_metadata(path));
        assert!(matches!(examine(&at("none")), Examined::Absent));
        assert!(matches!(examine(dir.path()), Examined::Absent));
        assert!(matches!(examine(&at("link")), Examined::Special(FileContent::Symlink { .. })));
        assert!(matches!(examine(&at("pipe")), Examined::Special(FileContent::Omitted { .. })));
        let read_file = read(&at("file"), 4).ok().unwrap();
        assert_eq!(
            (read_file.bytes.as_slice(), read_file.content.blob()),
            (&b"text"[..], Some(BlobId::of(b"text")))
        );
        assert_eq!(
            read(&at("file"), 3).err(),
            Some(FileContent::omitted("it is larger than 3 bytes", Some(4)))
        );
    }
}
