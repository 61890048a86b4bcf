//! The manifest of a snapshot: every path of a worktree that has changed since the worktree's first snapshot,
//! with its content then and now. Encodes and parses manifests, whole or as a delta against an earlier one.
//! Pure: blobs are read by the caller.

use std::collections::BTreeMap;
use std::io;

use serde::{Deserialize, Serialize};

use crate::model::{BlobId, PathText, RunId};

/// The version of the format, in the first line of a manifest.
const FORMAT: u64 = 1;
/// Maximum number of deltas between a manifest and the whole one that it is based on.
pub(super) const MAX_DEPTH: u64 = 64;
/// Maximum number of paths in a manifest that is read.
const MAX_PATHS: usize = 500_000;
/// Maximum size of a manifest that is read.
pub(crate) const MAX_BYTES: usize = 64 << 20;

/// The content of a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum FileContent {
    /// There is no file.
    Absent,
    /// A regular file.
    File {
        /// The bytes.
        blob: BlobId,
        /// The number of bytes.
        size: u64,
        /// Whether the owner may execute it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        executable: bool,
    },
    /// A symbolic link.
    Symlink {
        /// The path that it points to.
        target: PathText,
    },
    /// A submodule, whose files are not part of the snapshot.
    Submodule {
        /// The commit that is checked out.
        commit: String,
    },
    /// The content was not stored.
    Omitted {
        /// Why not.
        reason: String,
        /// The size in bytes, if the file was found.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        size: Option<u64>,
    },
}

impl FileContent {
    /// A content that was not stored, for this reason.
    pub(crate) fn omitted(reason: impl Into<String>, size: Option<u64>) -> Self {
        Self::Omitted { reason: reason.into(), size }
    }

    /// The blob with the bytes of the file.
    pub fn blob(&self) -> Option<BlobId> {
        match self {
            Self::File { blob, .. } => Some(*blob),
            _ => None,
        }
    }

    /// Whether the content was not stored.
    pub fn is_omitted(&self) -> bool {
        matches!(self, Self::Omitted { .. })
    }
}

/// The last change of a path that a snapshot observed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastChange {
    /// When it was observed, in milliseconds since 1970.
    pub at: i64,
    /// The run whose tools made it; `None` if someone else did, or if that is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<RunId>,
    /// The last time at which the path was changed by anyone but that run; 0 if that was never observed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub others_until: i64,
    /// Other runs whose tools changed the path earlier, newest last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<RunId>,
}

/// Maximum number of earlier runs in an entry.
const EARLIER: usize = 8;

impl LastChange {
    /// A change that was observed after `previous`, made by a run or by someone else.
    pub(super) fn after(previous: Option<&Self>, at: i64, by: Option<RunId>) -> Self {
        let others_until = match (&by, previous) {
            (Some(_), Some(previous)) if previous.by == by => previous.others_until,
            (_, Some(previous)) => previous.at,
            (_, None) => 0,
        };
        let mut earlier = previous.map(|previous| previous.earlier.clone()).unwrap_or_default();
        earlier.extend(previous.and_then(|previous| previous.by.clone()));
        earlier.retain(|run| by.as_ref() != Some(run));
        let mut seen = std::collections::HashSet::new();
        earlier.retain(|run| seen.insert(run.clone()));
        earlier.drain(..earlier.len().saturating_sub(EARLIER));
        Self { at, by, others_until, earlier }
    }

    /// The same change, now that it is known to be a run's.
    pub(super) fn attributed_to(&self, run: RunId) -> Self {
        let earlier = self.earlier.iter().filter(|earlier| **earlier != run).cloned().collect();
        Self { by: Some(run), earlier, ..self.clone() }
    }

    /// Every run whose tools are known to have changed the path.
    pub fn authors(&self) -> impl Iterator<Item = &RunId> {
        self.by.iter().chain(&self.earlier)
    }
}

fn is_zero(number: &i64) -> bool {
    *number == 0
}

/// A path in a manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestEntry {
    /// The content at the time of the snapshot.
    pub now: FileContent,
    /// The content before the first snapshot that lists the path. Earlier snapshots do not list it, because
    /// it had not changed yet: this is its content in all of them.
    pub was: FileContent,
    /// The last observed change.
    pub change: LastChange,
    /// Whether git tracks the path.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_tracked: bool,
}

#[derive(Debug, Serialize, Deserialize)]
struct EntryLine {
    path: PathText,
    #[serde(flatten)]
    entry: ManifestEntry,
}

/// The first line of a manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ManifestHeader {
    milepost_manifest: u64,
    /// The series of snapshots that the manifest belongs to.
    pub series: SeriesId,
    /// The commit that was checked out.
    pub head: Option<String>,
    /// The manifest that this one is a delta against.
    pub base: Option<BlobId>,
    /// The number of deltas down to the whole manifest.
    pub depth: u64,
}

/// A series of snapshots of one worktree. Its manifests list every path that has changed since it began. When
/// the list becomes too long, the next series begins.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct SeriesId {
    /// Identifies the worktree: a hash of its path.
    pub worktree: String,
    /// The number of the series, starting at 1.
    pub number: u64,
}

/// The start of the names of roots that keep the newest manifest of each series.
pub(crate) const ROOT_PREFIX: &str = "files/";

/// The start of the names of roots that keep the contents which an undo needs.
pub(crate) const UNDO_PREFIX: &str = "undo/";

impl SeriesId {
    /// The name of the root that keeps the newest manifest of the series.
    pub(crate) fn root(&self) -> String {
        format!("{ROOT_PREFIX}{}/{}", self.worktree, self.number)
    }

    /// The series that a root belongs to.
    pub(crate) fn of_root(root: &str) -> Option<Self> {
        let (worktree, number) = root.strip_prefix(ROOT_PREFIX)?.split_once('/')?;
        Some(Self { worktree: worktree.to_owned(), number: number.parse().ok()? })
    }
}

/// A manifest with all its paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// The series that it belongs to.
    pub(crate) series: SeriesId,
    /// The commit that was checked out.
    pub head: Option<String>,
    /// The number of deltas down to the whole manifest.
    pub depth: u64,
    /// The paths, by their bytes.
    pub entries: BTreeMap<Vec<u8>, ManifestEntry>,
}

/// Encodes a manifest. With a base, `entries` are only the paths that differ from it.
pub(super) fn encode<'a>(
    series: &SeriesId,
    head: Option<&String>,
    base: Option<(BlobId, u64)>,
    entries: impl Iterator<Item = (&'a Vec<u8>, &'a ManifestEntry)>,
) -> io::Result<Vec<u8>> {
    let header = ManifestHeader {
        milepost_manifest: FORMAT,
        series: series.clone(),
        head: head.cloned(),
        base: base.map(|(id, _)| id),
        depth: base.map_or(0, |(_, depth)| depth + 1),
    };
    let mut bytes = serde_json::to_vec(&header)?;
    for (path, entry) in entries {
        bytes.push(b'\n');
        serde_json::to_writer(&mut bytes, &EntryLine { path: PathText::of(path), entry: entry.clone() })?;
    }
    Ok(bytes)
}

/// A parsed manifest, without the paths of its base.
pub(crate) struct ManifestPart {
    /// The first line.
    pub header: ManifestHeader,
    /// The listed paths.
    pub entries: Vec<(Vec<u8>, ManifestEntry)>,
}

/// Parses one manifest.
pub(crate) fn parse(bytes: &[u8]) -> Result<ManifestPart, String> {
    if bytes.len() > MAX_BYTES {
        return Err("the manifest is too large".into());
    }
    let mut lines = bytes.split(|byte| *byte == b'\n');
    let header: ManifestHeader =
        serde_json::from_slice(lines.next().unwrap_or_default()).map_err(|e| e.to_string())?;
    if header.milepost_manifest != FORMAT {
        return Err(format!("unknown manifest format {}", header.milepost_manifest));
    }
    let mut entries = Vec::new();
    for line in lines {
        let EntryLine { path, entry } = serde_json::from_slice(line).map_err(|e| e.to_string())?;
        let path = path.to_bytes().ok_or("a path is not valid base64")?;
        if !is_inside(&path) {
            return Err("a path leads out of the worktree".into());
        }
        entries.push((path, entry));
        if entries.len() > MAX_PATHS {
            return Err("the manifest lists too many paths".into());
        }
    }
    Ok(ManifestPart { header, entries })
}

/// Whether a path is relative and names a file below the worktree, outside of git's and Milepost's own folders.
pub(crate) fn is_inside(path: &[u8]) -> bool {
    let is_reserved = |part: &[u8]| {
        let part = part.to_ascii_lowercase();
        [&b".git"[..], b"git~1", crate::snapshot::OWN_FOLDER.as_bytes()].contains(&&part[..])
    };
    let is_plain = |part: &[u8]| !part.is_empty() && part != b"." && part != b".." && !is_reserved(part);
    !path.is_empty() && !path.contains(&0) && path.split(|byte| *byte == b'/').all(is_plain)
}

impl ManifestPart {
    /// The contents that the listed paths refer to.
    pub(crate) fn contents(&self) -> impl Iterator<Item = BlobId> + '_ {
        let contents = self.entries.iter().flat_map(|(_, entry)| [&entry.now, &entry.was]);
        contents.filter_map(FileContent::blob)
    }
}

impl Manifest {
    /// Loads a manifest and everything that it is based on. `read` returns the content of a blob.
    pub fn load<E: From<String>>(
        id: &BlobId,
        mut read: impl FnMut(&BlobId) -> Result<Vec<u8>, E>,
    ) -> Result<Self, E> {
        let newest = parse(&read(id)?)?;
        let mut parts = Vec::new();
        let mut paths = newest.entries.len();
        let mut base = newest.header.base;
        while let Some(id) = base {
            if parts.len() as u64 > MAX_DEPTH {
                return Err("the manifest is based on too many others".to_owned().into());
            }
            let part = parse(&read(&id)?)?;
            paths += part.entries.len();
            if paths > MAX_PATHS {
                return Err("the manifest and its bases list too many paths".to_owned().into());
            }
            base = part.header.base;
            parts.push(part);
        }
        let ManifestHeader { series, head, depth, .. } = newest.header;
        let oldest_first = parts.into_iter().rev().flat_map(|part| part.entries);
        let entries = oldest_first.chain(newest.entries).collect();
        Ok(Self { series, head, depth, entries })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn entry(text: &str) -> ManifestEntry {
        let blob = BlobId::of(text.as_bytes());
        ManifestEntry {
            now: FileContent::File { blob, size: text.len() as u64, executable: false },
            was: FileContent::Absent,
            change: LastChange::after(None, 1, None),
            is_tracked: true,
        }
    }

    #[test]
    fn a_delta_is_applied_to_its_base() {
        let series = SeriesId { worktree: "w".into(), number: 1 };
        let all: BTreeMap<_, _> = [(b"a".to_vec(), entry("1")), (b"\xff\n".to_vec(), entry("2"))].into();
        let whole = encode(&series, None, None, all.iter()).unwrap();
        let base = BlobId::of(&whole);
        let changed: BTreeMap<_, _> = [(b"a".to_vec(), entry("3"))].into();
        let delta = encode(&series, Some(&"abc".into()), Some((base, 0)), changed.iter()).unwrap();
        let id = BlobId::of(&delta);
        let blobs: HashMap<_, _> = [(base, whole), (id, delta)].into();
        let read = |id: &BlobId| blobs.get(id).cloned().ok_or("missing".to_owned());
        let loaded = Manifest::load(&id, read).unwrap();
        assert_eq!(loaded.entries[&b"a".to_vec()], entry("3"));
        assert_eq!(loaded.entries[&b"\xff\n".to_vec()], entry("2"));
        assert_eq!((loaded.head.as_deref(), loaded.depth), (Some("abc"), 1));
        assert!(Manifest::load(&BlobId::of(b"other"), read).is_err());
    }

    #[test]
    fn a_path_that_leads_out_of_the_worktree_is_refused() {
        for path in [
            "",
            "/etc/passwd",
            "../x",
            "a/../x",
            "a//b",
            ".git/config",
            "a/.GIT/hooks",
            ".milepost/x",
            "a/",
            ".",
        ] {
            assert!(!is_inside(path.as_bytes()), "{path}");
        }
        for path in ["a", "a/b", ".github/x", "...", "-rf", "\u{1f600}", ".gitignore"] {
            assert!(is_inside(path.as_bytes()), "{path}");
        }
        let bytes = br#"{"milepost_manifest":1,"series":{"worktree":"w","number":1},"head":null,"base":null,"depth":0}
{"path":"../x","now":{"type":"absent"},"was":{"type":"absent"},"change":{"at":1}}"#;
        assert!(parse(bytes).is_err());
    }

    #[test]
    fn a_series_is_found_by_the_name_of_its_root() {
        let series = SeriesId { worktree: "abc".into(), number: 12 };
        assert_eq!(SeriesId::of_root(&series.root()), Some(series));
        assert_eq!(SeriesId::of_root("other/abc/1"), None);
    }
}
