//! The files of one run: documents in `history/<snapshot_id>.json[.gz]`, `latest.json` and the log.
//! Reads and writes sealed bytes by checkpoint id, and appends lines to the log.
//! Never parses a document. Rejects a compressed file that does not match the checksum in the log.

use std::collections::{BTreeSet, HashSet};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;

use super::state::Live;
use crate::fs::atomic::{self, Mode};
use crate::fs::{bounded, if_exists};
use crate::model::{CheckpointId, RunId};
use crate::store::check::checksum;
use crate::store::{Damage, Part, identity};

/// Maximum size of a document: the largest accepted input plus the rest of the document.
const DOCUMENT_LIMIT: u64 = 72 << 20;

/// The folder of one run.
#[derive(Debug, Clone)]
pub(super) struct History {
    folder: PathBuf,
}

/// Why a document could not be read.
#[derive(Debug)]
pub(super) enum Unread {
    /// The file does not exist.
    Gone,
    /// The compressed file does not match its checksum.
    Damaged(Box<Damage>),
    /// Reading the file failed.
    Io(PathBuf, io::Error),
}

impl History {
    pub(super) fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// The run's folder.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The folder that contains the documents.
    pub(super) fn documents(&self) -> PathBuf {
        self.folder.join("history")
    }

    /// Refuses folders that are symbolic links.
    pub(super) fn check_links(&self) -> io::Result<()> {
        identity::refuse_links(self.folder.parent().unwrap_or(&self.folder), &self.documents())
    }

    /// The commit log.
    pub(super) fn log(&self) -> PathBuf {
        self.folder.join("log.jsonl")
    }

    /// The copy of the newest document.
    pub(super) fn latest(&self) -> PathBuf {
        self.folder.join("latest.json")
    }

    /// Path of a document in plain form.
    pub(super) fn plain(&self, id: &CheckpointId) -> PathBuf {
        self.documents().join(format!("{id}.json"))
    }

    /// Path of a document in compressed form.
    pub(super) fn compressed(&self, id: &CheckpointId) -> PathBuf {
        self.documents().join(format!("{id}.json.gz"))
    }

    /// Whether a document with this id exists in either form.
    pub(super) fn holds(&self, id: &CheckpointId) -> bool {
        self.plain(id).exists() || self.compressed(id).exists()
    }

    /// The ids of all documents.
    pub(super) fn ids(&self) -> BTreeSet<CheckpointId> {
        self.files().unwrap_or_default().into_iter().map(|(id, _)| id).collect()
    }

    /// All documents with their files, in directory order. Skips other files.
    pub(super) fn files(&self) -> io::Result<Vec<(CheckpointId, PathBuf)>> {
        let Some(folder) = if_exists(fs::read_dir(self.documents()))? else { return Ok(Vec::new()) };
        let mut files = Vec::new();
        for entry in folder {
            let entry = entry?;
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let stem = name.strip_suffix(".gz").unwrap_or(&name).strip_suffix(".json");
            if let Some(Ok(id)) = stem.map(str::parse) {
                files.push((id, entry.path()));
            }
        }
        Ok(files)
    }

    /// Reads the document of a checkpoint that is in the log.
    pub(super) fn bytes(&self, run: &RunId, live: &Live) -> Result<Vec<u8>, Unread> {
        let header = &live.entry.header;
        let plain = self.plain(&header.snapshot_id);
        let Some(expected) = &live.gz else {
            // The line that recorded the compression may be lost. The caller verifies the seal in any case.
            return read(&plain).or_else(|why| match why {
                Unread::Gone => self.any_bytes(&header.snapshot_id).ok_or(Unread::Gone),
                why => Err(why),
            });
        };
        let unpacked = self.unpacked(run, &header.snapshot_id, expected);
        // The plain file may still exist: it is removed after the commit that records the compression.
        match unpacked {
            Err(why) => read(&plain).map_err(|_| match why {
                Unread::Damaged(damage) => Unread::Damaged(Box::new(
                    damage.at(Some(run), Some(header.sequence)).named(Some(header.snapshot_id.clone())),
                )),
                why => why,
            }),
            unpacked => unpacked,
        }
    }

    fn unpacked(&self, run: &RunId, id: &CheckpointId, expected: &str) -> Result<Vec<u8>, Unread> {
        let path = self.compressed(id);
        let packed = read(&path)?;
        let found = packed_check(run, id, &packed);
        if found != expected {
            return Err(Unread::Damaged(Box::new(Damage::integrity(Part::Body, expected, found))));
        }
        unpack(&packed).map_err(|e| Unread::Io(path, e))
    }

    /// Reads the compressed form of a document; `None` if it does not match the checksum in the log.
    pub(super) fn unpacked_of(&self, run: &RunId, live: &Live) -> Option<Vec<u8>> {
        self.unpacked(run, &live.entry.header.snapshot_id, live.gz.as_deref()?).ok()
    }

    /// Reads a document in either form, without a checksum from the log.
    pub(super) fn any_bytes(&self, id: &CheckpointId) -> Option<Vec<u8>> {
        let packed = || read(&self.compressed(id)).ok().and_then(|packed| unpack(&packed).ok());
        read(&self.plain(id)).ok().or_else(packed)
    }

    /// Writes the compressed form of a document and returns its checksum and size. Keeps the plain file.
    pub(super) fn compress(&self, run: &RunId, id: &CheckpointId, bytes: &[u8]) -> io::Result<(String, u64)> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(bytes)?;
        let packed = encoder.finish()?;
        atomic::write_without_folder_sync(&self.compressed(id), &packed, Mode::Private)?;
        Ok((packed_check(run, id, &packed), packed.len() as u64))
    }

    /// Size of a document on disk, in the form that the log names.
    pub(super) fn weight(&self, live: &Live) -> u64 {
        let header = &live.entry.header;
        match live.gz {
            Some(_) => fs::metadata(self.compressed(&header.snapshot_id)).map_or(0, |meta| meta.len()),
            // The plain file contains only the document.
            None => header.size,
        }
    }

    /// Removes both forms of a document. Returns the files that could not be removed, which are now orphans.
    pub(super) fn remove(&self, id: &CheckpointId) -> Vec<(PathBuf, io::ErrorKind)> {
        [self.plain(id), self.compressed(id)].into_iter().filter_map(stays).collect()
    }

    /// Like `remove`, for several documents. Trying to remove a missing file takes about as long as removing
    /// one, so for many documents the folder is listed first. Removal is fastest in directory order.
    pub(super) fn remove_all(&self, ids: &[CheckpointId]) -> Vec<(PathBuf, io::ErrorKind)> {
        const FEW: usize = 16;
        if ids.len() <= FEW {
            return ids.iter().flat_map(|id| self.remove(id)).collect();
        }
        let gone: HashSet<_> = ids.iter().collect();
        let there = self.files().unwrap_or_default().into_iter();
        there.filter(|(id, _)| gone.contains(id)).filter_map(|(_, path)| stays(path)).collect()
    }
}

/// Removes a file. Returns its path and the reason if it still exists.
fn stays(path: PathBuf) -> Option<(PathBuf, io::ErrorKind)> {
    let why = fs::remove_file(&path).err()?.kind();
    (why != io::ErrorKind::NotFound).then_some((path, why))
}

/// Removes a file if possible. Returns its size, or 0 if it was not removed.
pub(super) fn remove(path: &Path) -> u64 {
    let size = fs::symlink_metadata(path).map_or(0, |meta| meta.len());
    if fs::remove_file(path).is_ok() { size } else { 0 }
}

/// Why a line was not appended.
#[derive(Debug)]
pub(super) enum NotAppended {
    /// The log is unchanged.
    Unchanged(io::Error),
    /// The line could not be synced, or not removed after a failed write. It may appear after a crash.
    NotSynced(io::Error),
}

/// Truncates the log at `at`, which removes what a crash left there, then appends a line and syncs it. If
/// the sync fails, the line is written and synced again: the kernel may consider pages clean that never
/// reached the disk.
pub(super) fn append(log: &Path, at: u64, line: &[u8]) -> Result<(), NotAppended> {
    use NotAppended::{NotSynced, Unchanged};
    let fresh = !log.exists();
    let mut options = File::options();
    let file =
        atomic::open_private(log, options.write(true).create(true).truncate(false)).map_err(Unchanged)?;
    let cut = || if fresh { fs::remove_file(log) } else { file.set_len(at) };
    let written = |e| match cut() {
        Ok(()) => Unchanged(e),
        Err(_) => NotSynced(e),
    };
    let sync = || {
        file.sync_data()?;
        if fresh { atomic::sync_folder(atomic::folder_of(log)) } else { Ok(()) }
    };
    write_at(&file, at, line).map_err(written)?;
    let Err(_) = sync() else { return Ok(()) };
    write_at(&file, at, line).and_then(|()| sync()).map_err(|e| {
        // Best effort: the error is the same whether or not this succeeds.
        let _ = cut();
        NotSynced(e)
    })
}

fn write_at(mut file: &File, at: u64, line: &[u8]) -> io::Result<()> {
    use std::io::{Seek, SeekFrom};
    if file.metadata()?.len() != at {
        file.set_len(at)?;
    }
    file.seek(SeekFrom::Start(at))?;
    file.write_all(line)
}

pub(super) fn read(path: &Path) -> Result<Vec<u8>, Unread> {
    bounded::read(path, DOCUMENT_LIMIT).map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => Unread::Gone,
        _ => Unread::Io(path.to_owned(), e),
    })
}

fn packed_check(run: &RunId, id: &CheckpointId, packed: &[u8]) -> String {
    HEXLOWER.encode(&checksum(Part::Body, &[run.as_str().as_bytes(), id.as_str().as_bytes()], packed))
}

fn unpack(packed: &[u8]) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    GzDecoder::new(packed).take(DOCUMENT_LIMIT + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > DOCUMENT_LIMIT {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("larger than {DOCUMENT_LIMIT} bytes"),
        ));
    }
    Ok(bytes)
}
