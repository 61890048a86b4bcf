//! Unix: finds and reopens the files that stdout and stderr of this process are redirected to.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};

use rustix::fs::{FileType, OFlags};

use super::output_files::OutputFile;

/// Neither waits for a pipe nor adopts a terminal.
pub(super) const FLAGS: i32 = (OFlags::NONBLOCK.bits() | OFlags::NOCTTY.bits()).cast_signed();

/// The regular files of stdout and stderr. A file that receives both is listed once.
pub(super) fn files() -> Vec<OutputFile> {
    let (stdout, stderr) = (io::stdout(), io::stderr());
    let mut files: Vec<OutputFile> = Vec::new();
    for stream in [stdout.as_fd(), stderr.as_fd()] {
        let Some((file, metadata)) = reopened(stream) else { continue };
        let same = |other: &OutputFile| other.file.metadata().is_ok_and(|m| is_same(&m, &metadata));
        if !files.iter().any(same) {
            files.push(OutputFile { file, start: written(stream, &metadata) });
        }
    }
    files
}

/// Opens the file of a stream for reading. `None` if it is not a regular file or cannot be read.
fn reopened(stream: BorrowedFd<'_>) -> Option<(File, Metadata)> {
    let about = rustix::fs::fstat(stream).ok()?;
    if FileType::from_raw_mode(about.st_mode) != FileType::RegularFile {
        return None;
    }
    let file = OpenOptions::new().read(true).custom_flags(FLAGS).open(path_of(stream)?).ok()?;
    let metadata = file.metadata().ok().filter(Metadata::is_file)?;
    (metadata.ino() == about.st_ino as u64 && metadata.dev() == about.st_dev as u64)
        .then_some((file, metadata))
}

/// A path that leads to the file of a stream.
#[cfg(not(target_vendor = "apple"))]
fn path_of(stream: BorrowedFd<'_>) -> Option<String> {
    use std::os::fd::AsRawFd as _;
    Some(format!("/proc/self/fd/{}", stream.as_raw_fd()))
}

/// The current path of the file of a stream. `/dev/fd` would not open a stream for reading that is open for writing.
#[cfg(target_vendor = "apple")]
fn path_of(stream: BorrowedFd<'_>) -> Option<std::path::PathBuf> {
    use std::os::unix::ffi::OsStringExt as _;
    let path = rustix::fs::getpath(stream).ok()?;
    Some(std::ffi::OsString::from_vec(path.into_bytes()).into())
}

/// The position in a stream's file at which its next output begins.
fn written(stream: BorrowedFd<'_>, metadata: &Metadata) -> u64 {
    let appends = rustix::fs::fcntl_getfl(stream).is_ok_and(|flags| flags.contains(OFlags::APPEND));
    let position = if appends { None } else { rustix::fs::tell(stream).ok() };
    position.unwrap_or(metadata.len())
}

fn is_same(a: &Metadata, b: &Metadata) -> bool {
    (a.dev(), a.ino()) == (b.dev(), b.ino())
}
