//! Records acknowledged writes that are missing because the WAL was damaged or an older copy replaced the
//! database. Stores one row per loss, computes the numbers that must not be assigned again, and copies the
//! damaged files. `recover` restores what those copies still contain.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, Result, params};

use super::decode::{bytes, integer, number, text};
use super::sibling;
use crate::fs::{atomic, bounded, if_exists};
use crate::store::Part;
use crate::store::check::checksum;

/// A range of acknowledged writes that are missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Loss {
    /// The newest stamp in the database when the loss was detected.
    pub(super) found: u64,
    /// The newest stamp that was acknowledged.
    pub(super) expected: u64,
    /// Whether `doctor --fix` has recovered everything it could.
    pub(super) acknowledged: bool,
    /// Name of the copy of the damaged database, in the same folder. Empty if no copy could be made.
    pub(super) kept: String,
}

impl Loss {
    /// Number of missing writes. A damaged row counts as one.
    pub(super) fn writes(&self) -> u64 {
        self.expected.saturating_sub(self.found).max(1)
    }

    /// Path of the copy of the damaged database.
    pub(super) fn copy(&self, database: &Path) -> Option<PathBuf> {
        let name = Path::new(&self.kept).file_name()?;
        Some(atomic::folder_of(database).join(name))
    }

    fn checksum(&self) -> [u8; 16] {
        let numbers = [self.found, self.expected, u64::from(self.acknowledged)].map(u64::to_le_bytes);
        checksum(Part::Wal, &[b"loss", &numbers[0], &numbers[1], &numbers[2]], self.kept.as_bytes())
    }
}

/// All losses, oldest first. Only the key of a damaged row is used.
pub(super) fn load(tx: &Connection) -> Result<Vec<Loss>> {
    let mut statement =
        tx.prepare_cached("SELECT found, expected, acknowledged, kept, checksum FROM loss ORDER BY found")?;
    let mut rows = statement.query([])?;
    let mut losses = Vec::new();
    while let Some(row) = rows.next()? {
        let loss = Loss {
            found: number(row, 0)?,
            expected: number(row, 1)?,
            acknowledged: number(row, 2)? == 1,
            kept: text(row, 3)?,
        };
        let proven = loss.checksum()[..] == bytes(row, 4)?[..] && loss.expected > loss.found;
        losses.push(if proven {
            loss
        } else {
            Loss { expected: loss.found, acknowledged: false, kept: String::new(), ..loss }
        });
    }
    Ok(losses)
}

/// Inserts a loss or replaces its row.
pub(super) fn store(tx: &Connection, loss: &Loss) -> Result<()> {
    tx.execute(
        "INSERT OR REPLACE INTO loss (found, expected, acknowledged, kept, checksum) VALUES (?1, ?2, ?3, ?4, ?5)",
        params![
            integer(loss.found),
            integer(loss.expected),
            i64::from(loss.acknowledged),
            loss.kept,
            loss.checksum()
        ],
    )?;
    Ok(())
}

/// The newest stamp that was acknowledged and lost; 0 if there are no losses.
pub(super) fn newest(losses: &[Loss]) -> u64 {
    losses.iter().map(|loss| loss.expected).max().unwrap_or(0)
}

/// How many sequence numbers a run must skip, because each lost write may have used one of them.
/// `stamp` is the stamp of the run's last write. A new run skips numbers only until the loss is acknowledged.
pub(super) fn skipped(losses: &[Loss], stamp: Option<u64>) -> u64 {
    let concerns = |loss: &&Loss| match stamp {
        Some(stamp) => stamp <= loss.found,
        None => !loss.acknowledged,
    };
    losses
        .iter()
        .filter(concerns)
        .map(|loss| loss.expected.saturating_sub(loss.found))
        .fold(0, u64::saturating_add)
}

/// Copies the database and its WAL within their folder, before a write overwrites their
/// content. Returns the name of the copy.
pub(super) fn keep_copy(database: &Path) -> io::Result<String> {
    let mut number = 1;
    let (kept, mut file) = loop {
        let path = sibling(database, &format!(".damaged-{number}"));
        let mut options = File::options();
        match atomic::open_private(&path, options.write(true).create_new(true)) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => number += 1,
            file => break (path, file?),
        }
    };
    let mut copied = || -> io::Result<()> {
        let mut from = bounded::open(database)?;
        let result = io::copy(&mut from, &mut file);
        // Closing this handle would release the locks that SQLite holds on the database in this process.
        std::mem::forget(from);
        result?;
        file.sync_all()?;
        let mut options = File::options();
        let wal =
            atomic::open_private(&sibling(&kept, "-wal"), options.write(true).create(true).truncate(true));
        let mut wal = wal?;
        if let Some(mut from) = if_exists(bounded::open(&sibling(database, "-wal")))? {
            io::copy(&mut from, &mut wal)?;
        }
        wal.sync_all()?;
        atomic::sync_folder(atomic::folder_of(database))
    };
    match copied() {
        Ok(()) => Ok(kept.file_name().unwrap_or_default().to_string_lossy().into_owned()),
        Err(e) => {
            for suffix in ["", "-wal"] {
                let _ = std::fs::remove_file(sibling(&kept, suffix));
            }
            Err(e)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_skipped_by_runs_that_may_have_lost_them() {
        let loss =
            |found, expected, acknowledged| Loss { found, expected, acknowledged, kept: String::new() };
        let losses = [loss(10, 14, true), loss(30, 31, false)];
        assert_eq!(skipped(&losses, Some(9)), 5);
        assert_eq!(skipped(&losses, Some(10)), 5);
        assert_eq!(skipped(&losses, Some(15)), 1);
        assert_eq!(skipped(&losses, Some(32)), 0);
        assert_eq!(skipped(&losses, None), 1);
        assert_eq!((newest(&losses), newest(&[])), (31, 0));
    }
}
