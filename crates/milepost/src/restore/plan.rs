//! Checks and orders the changes of a plan, and decides where the temporary file of each change is. Takes the
//! caller's changes and returns them in the order in which they are applied. Pure.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::path::{TEMP_PREFIX, ancestors, check_path, split};
use super::types::{Before, FileChange, FileState, RestoreError, display_bytes};

/// Where a change happens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Location {
    /// The path that is changed.
    pub path: Vec<u8>,
    /// The folder of the change's temporary file. Usually the folder of the path. Below a file that becomes a
    /// folder, or a folder that becomes a file, it is the folder that contains both.
    pub temp_folder: Vec<u8>,
    /// The outermost folder above the path that another change creates or removes as a file.
    pub below: Option<Vec<u8>>,
}

/// Orders changes: deletions first, from the innermost folder outwards, so that a file can take the place of
/// a folder; then the others by path. Refuses plans that contradict themselves.
pub(super) fn order(mut changes: Vec<FileChange>) -> Result<(Vec<FileChange>, Vec<Location>), RestoreError> {
    let key = |change: &FileChange| {
        let path = change.path.to_bytes().unwrap_or_default();
        let depth = path.iter().filter(|b| **b == b'/').count();
        (
            change.after != FileState::Absent,
            Reverse(if change.after == FileState::Absent { depth } else { 0 }),
            path,
        )
    };
    changes.sort_by_cached_key(key);
    let locations = locate(&changes)?;
    Ok((changes, locations))
}

/// Returns the locations of ordered changes. Also checks what a damaged journal may contain.
pub(super) fn locate(changes: &[FileChange]) -> Result<Vec<Location>, RestoreError> {
    let paths = changes.iter().map(|change| check_path(&change.path)).collect::<Result<Vec<_>, _>>()?;
    let invalid = |path: &[u8], why| RestoreError::InvalidPlan { path: display_bytes(path), why };
    let mut all = BTreeSet::new();
    let mut present = BTreeSet::new();
    for (change, path) in changes.iter().zip(&paths) {
        if !all.insert(path.as_slice()) {
            return Err(invalid(path, "two changes of one path"));
        }
        if change.after != FileState::Absent {
            present.insert(path.as_slice());
        }
        if matches!(&change.before, Before::Saved { state: FileState::Aside { .. } }) {
            return Err(invalid(path, "a file that was moved aside cannot be replaced"));
        }
        if matches!(&change.after, FileState::Symlink { target } if target.is_empty() || target.contains(&0))
        {
            return Err(invalid(path, "the target of a symbolic link is invalid"));
        }
        if let FileState::Aside { restore, .. } = &change.after {
            check_id(restore)?;
        }
    }
    let mut locations = Vec::with_capacity(paths.len());
    for path in &paths {
        if present.contains(path.as_slice()) && ancestors(path).any(|folder| present.contains(folder)) {
            return Err(invalid(path, "a file cannot be in another file"));
        }
        let below = ancestors(path).find(|folder| all.contains(folder));
        let temp_folder = split(below.unwrap_or(path)).0.to_vec();
        locations.push(Location { path: path.clone(), temp_folder, below: below.map(<[u8]>::to_vec) });
    }
    Ok(locations)
}

/// Checks the id of a restore, which is part of file names.
pub(super) fn check_id(id: &str) -> Result<(), RestoreError> {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
    let why = match id.len() {
        1..=64 if id.bytes().all(allowed) => return Ok(()),
        1..=64 => "only letters, digits, - and _ are allowed",
        _ => "it must have 1 to 64 characters",
    };
    Err(RestoreError::InvalidId { id: id.chars().take(64).collect(), why })
}

/// The temporary names of one change.
pub(super) struct TempNames {
    /// Holds the new content, and after the exchange the old one.
    pub temp: Vec<u8>,
    /// Holds the old content for a moment if the file system cannot exchange files.
    pub old: Vec<u8>,
    /// Holds new content that is not complete yet.
    pub partial: Vec<u8>,
    /// Becomes the folder that replaces the file of this change.
    pub folder: Vec<u8>,
}

impl TempNames {
    pub(super) fn new(id: &str, n: usize) -> Self {
        let name = |end: &str| format!("{TEMP_PREFIX}{id}-{n}{end}").into_bytes();
        Self { temp: name(""), old: name("-old"), partial: name("-partial"), folder: name("-folder") }
    }
}
