//! Temporary folders for one execution of a target, and inputs that contain several files. Creates folders in memory
//! where the system has such a file system, and removes them afterwards.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path, PathBuf};

use tempfile::TempDir;

/// A file system in memory, on Linux.
const MEMORY: &str = "/dev/shm";
/// Starts a line that names the file whose content follows.
const FILE_MARK: &[u8] = b"=== ";
/// Maximum number of files in an input.
const MOST_FILES: usize = 24;

/// A new temporary folder.
pub(crate) fn folder() -> TempDir {
    let mut builder = tempfile::Builder::new();
    builder.prefix("milepost-fuzz-");
    builder.tempdir_in(MEMORY).or_else(|_| builder.tempdir()).expect("a temporary folder can be created")
}

/// The files in an input: each starts with a line `=== PATH`. `None` if a path is not relative and plain.
pub(crate) fn parse_files(data: &[u8]) -> Option<Vec<(PathBuf, &[u8])>> {
    let mut starts: Vec<usize> = if data.starts_with(FILE_MARK) { vec![0] } else { Vec::new() };
    starts.extend(
        data.windows(FILE_MARK.len() + 1)
            .enumerate()
            .filter(|(_, window)| window[0] == b'\n' && &window[1..] == FILE_MARK)
            .map(|(at, _)| at + 1),
    );
    if starts.len() > MOST_FILES {
        return None;
    }
    let ends = starts.iter().skip(1).map(|start| start - 1).chain([data.len()]);
    let mut files = Vec::new();
    for (start, end) in starts.iter().zip(ends) {
        let part = &data[start + FILE_MARK.len()..end];
        let line = part.iter().position(|byte| *byte == b'\n').unwrap_or(part.len());
        let path = PathBuf::from(std::str::from_utf8(&part[..line]).ok()?);
        let is_plain = path.components().all(|part| matches!(part, Component::Normal(_)));
        if path.as_os_str().is_empty() || path.as_os_str().len() > 200 || !is_plain {
            return None;
        }
        files.push((path, part.get(line + 1..).unwrap_or_default()));
    }
    Some(files)
}

/// Writes files below a folder. Returns false if a path is not possible, for example because it is below a file.
pub(crate) fn write_files(folder: &Path, files: &[(PathBuf, &[u8])]) -> bool {
    files.iter().all(|(path, content)| {
        let path = folder.join(path);
        path.parent().is_some_and(|parent| fs::create_dir_all(parent).is_ok()) && write(&path, content)
    })
}

/// Writes one file.
#[allow(clippy::disallowed_methods, reason = "a file of a test")]
pub(crate) fn write(path: &Path, content: &[u8]) -> bool {
    fs::write(path, content).is_ok()
}

/// Every file below a folder with its content.
pub(crate) fn read_files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                _ => drop(found.insert(entry.path(), fs::read(entry.path()).unwrap_or_default())),
            }
        }
    }
    found
}
