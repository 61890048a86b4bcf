//! The store's stamps: one counter for all runs, which never decreases.
//! Finds the next free stamp, and reserves the stamps that a commit uses.
//! `.store/stamp` is a cache that is valid within one boot. `.store/floor` is written when a run is deleted,
//! so that the run's stamps are not reused.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use super::FilesStore;
use super::opener::OWN_FOLDER;
use crate::clock;
use crate::fs::atomic::{self, Mode};
use crate::fs::bounded;
use crate::store::check::{checksummed_line, parse_checksummed_line};
use crate::store::{Part, StoreError};

impl FilesStore {
    fn stamp_file(&self) -> PathBuf {
        self.root.join(OWN_FOLDER).join("stamp")
    }

    fn floor_file(&self) -> PathBuf {
        self.root.join(OWN_FOLDER).join("floor")
    }

    /// The next free stamp, after the last stamp of a run. The caller must hold the lock.
    pub(super) fn next_stamp(&self, last_of_run: u64) -> Result<u64, StoreError> {
        let last = match number(&read(&self.stamp_file())) {
            Some((boot, n)) if Some(boot.as_str()) == clock::boot_id() => n,
            // After a power failure the cache may be stale, so also use the logs and the floor.
            stale => {
                let runs = self.load_all()?;
                let floor = number(&read(&self.floor_file()));
                let known = [stale, floor].into_iter().flatten().map(|(_, n)| n).max().unwrap_or(0);
                runs.iter().map(|(_, log)| log.highest_stamp()).max().unwrap_or(0).max(known)
            }
        };
        Ok(last.max(last_of_run) + 1)
    }

    /// Records the last stamp of a commit before the commit is written, so that a crash leaves a gap but
    /// never a duplicate.
    pub(super) fn reserve(&self, last: u64) -> Result<(), StoreError> {
        let path = self.stamp_file();
        let mut options = File::options();
        // The text always has the same length and is overwritten in one write, so a killed process leaves
        // either the old or the new text.
        atomic::open_private(&path, options.write(true).create(true).truncate(false))
            .and_then(|mut file| file.write_all(text(last).as_bytes()))
            .map_err(|e| self.write_error(&path, e))
    }

    /// Durably records the last stamp before a run is deleted.
    pub(super) fn raise_floor(&self, last: u64) -> Result<(), StoreError> {
        let path = self.floor_file();
        atomic::write(&path, text(last).as_bytes(), Mode::Private).map_err(|e| self.write_error(&path, e))
    }
}

fn read(path: &Path) -> Vec<u8> {
    bounded::read(path, 256).unwrap_or_default()
}

fn text(n: u64) -> String {
    let text = format!("{} {n:020}", clock::boot_id().unwrap_or("unknown"));
    checksummed_line(Part::Log, b"stamp", &text)
}

/// Parses the boot id and the number; `None` if the checksum does not match.
fn number(bytes: &[u8]) -> Option<(String, u64)> {
    let line = std::str::from_utf8(bytes).ok()?.trim_end();
    let (boot, n) = parse_checksummed_line(Part::Log, b"stamp", line)?.split_once(' ')?;
    Some((boot.to_owned(), n.parse().ok()?))
}
