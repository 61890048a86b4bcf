//! The cache of a worktree's newest snapshot, with which unchanged files are not read again. Takes the file's
//! path and returns the cache if it is intact and belongs to this store. Derived data: without it, the next
//! snapshot reads every changed file again.

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::file::Signature;
use super::manifest::{ManifestEntry, SeriesId};
use crate::fs::{atomic, bounded};
use crate::model::id::random_suffix;
use crate::model::{BlobId, PathText, RunId};

/// Maximum size of a cache that is read.
const MAX_BYTES: u64 = 128 << 20;
/// The first bytes of a cache of this version.
const MAGIC: &[u8] = b"milepost snapshot cache 1\n";

/// The start of the extension of files with noted windows.
const WINDOW: &str = "window-";
/// Maximum size of such a file, and maximum number to read at once.
const MAX_WINDOW_BYTES: u64 = 4 << 10;
const MAX_NOTED_WINDOWS: usize = 1_000;

/// The time during which a tool of a run may have changed files, in milliseconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ToolWindow {
    /// The run.
    pub run: RunId,
    /// When the tool started.
    pub from: i64,
    /// When it ended.
    pub to: i64,
}

/// Notes beside the cache that a tool ran. A process does so without a lock, while another one takes a snapshot.
/// A failure costs only that the changes of the tool are not attributed.
pub(super) fn note_window(cache: &Path, window: &ToolWindow) {
    let path = cache.with_extension(format!("{WINDOW}{}", random_suffix(16)));
    let mut options = std::fs::OpenOptions::new();
    let file = atomic::open_private(&path, options.write(true).create_new(true));
    let bytes = serde_json::to_vec(window).unwrap_or_default();
    let _ = file.and_then(|mut file| file.write_all(&bytes));
}

/// The windows that were noted beside the cache, and their files.
pub(super) fn noted_windows(cache: &Path) -> (Vec<ToolWindow>, Vec<PathBuf>) {
    let name = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
    let start = name(&cache.with_extension(WINDOW)).unwrap_or_default();
    let files = std::fs::read_dir(atomic::folder_of(cache)).into_iter().flatten().flatten();
    let files =
        files.map(|file| file.path()).filter(|path| name(path).is_some_and(|n| n.starts_with(&start)));
    let files: Vec<_> = files.take(MAX_NOTED_WINDOWS).collect();
    let read = |path: &PathBuf| serde_json::from_slice(&bounded::read(path, MAX_WINDOW_BYTES).ok()?).ok();
    (files.iter().filter_map(read).collect(), files)
}

/// The newest snapshot of a worktree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Cache {
    /// The store that contains the manifest.
    pub(super) store: String,
    pub(super) series: SeriesId,
    /// The newest manifest.
    pub(super) manifest: BlobId,
    pub(super) depth: u64,
    pub(super) head: Option<String>,
    /// When the newest snapshot was taken, in milliseconds since 1970.
    pub(super) taken_at: i64,
    /// How many snapshots in a row did not examine every path in time.
    pub(super) overdue: u32,
    /// Whether paths were left out because of a limit.
    #[serde(default)]
    pub(super) left_out: bool,
    /// Tools that ran since the last snapshot that examined every path.
    pub(super) windows: Vec<ToolWindow>,
    #[serde(with = "entry_list")]
    pub(super) entries: BTreeMap<Vec<u8>, CachedEntry>,
}

/// A path of the newest manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CachedEntry {
    #[serde(flatten)]
    pub(super) entry: ManifestEntry,
    /// The signature of the file whose content is known; `None` if it has to be read again.
    pub(super) signature: Option<Signature>,
}

/// Writes the entries as a list, because JSON has no keys of arbitrary bytes.
mod entry_list {
    use serde::{Deserializer, Serializer, de::Error as _};

    use super::*;

    pub(super) fn serialize<S: Serializer>(
        entries: &BTreeMap<Vec<u8>, CachedEntry>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(entries.iter().map(|(path, entry)| (PathText::of(path), entry)))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<BTreeMap<Vec<u8>, CachedEntry>, D::Error> {
        let list = Vec::<(PathText, CachedEntry)>::deserialize(deserializer)?;
        let entry = |(path, entry): (PathText, _)| path.to_bytes().map(|path| (path, entry));
        list.into_iter().map(entry).collect::<Option<_>>().ok_or_else(|| D::Error::custom("invalid base64"))
    }
}

impl Cache {
    /// Reads a cache. Returns `None` if there is none, if it is damaged, or if it belongs to another store.
    pub(super) fn read(path: &Path, store: &str) -> Option<Self> {
        let bytes = bounded::read(path, MAX_BYTES).ok()?;
        let (sum, json) = bytes.strip_prefix(MAGIC)?.split_at_checked(32)?;
        if blake3::hash(json).as_bytes() != sum {
            return None;
        }
        serde_json::from_slice::<Self>(json).ok().filter(|cache| cache.store == store)
    }

    /// Writes the cache. It is not synced: its checksum detects a file that a power failure damaged.
    pub(super) fn write(&self, path: &Path) -> io::Result<()> {
        let json = serde_json::to_vec(self)?;
        let bytes = [MAGIC, blake3::hash(&json).as_bytes(), &json].concat();
        atomic::write_derived(path, &bytes)
    }
}
