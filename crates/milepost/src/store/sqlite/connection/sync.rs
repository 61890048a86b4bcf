//! Durability of a connection's commits: who syncs them, the names of WAL and journal, and the size of the WAL.
//! In: a connection around its commits. Out: commits on disk, and a WAL that stays short. Knows no tables.

use std::sync::atomic::Ordering;
use std::time::Duration;

use rusqlite::{Connection, Result};

use super::super::{sibling, wal};
use super::{Db, io};
use crate::fs::{atomic, bounded};

/// Commits after which a long-lived connection copies the WAL back and starts it again in place: from then on commits
/// overwrite what is there, and a file that does not grow takes half the time to sync.
const LONG_WAL_COMMITS: i32 = 128;
/// Bounds of that threshold in pages: a WAL below the first is never copied back, one above the second always is.
const LONG_WAL_PAGES: (i32, i32) = (512, 4096);
/// Commits after which the WAL is emptied at the end: every later opener has to read what is in it.
const SHORT_WAL_COMMITS: i32 = 16;
/// Bounds of that threshold in pages: a WAL below the first is never emptied, one above the second always is.
const SHORT_WAL_PAGES: (i32, i32) = (64, 1024);

/// Returns at most so many free pages to the disk; 0 for all.
pub(in crate::store::sqlite) fn incremental_vacuum(connection: &Connection, pages: u64) -> Result<()> {
    let mut vacuum = connection.prepare(&format!("PRAGMA incremental_vacuum({pages})"))?;
    let mut rows = vacuum.query([])?;
    while rows.next()?.is_some() {}
    Ok(())
}

impl Db {
    /// In WAL mode `sync_commit` syncs each commit; SQLite syncs only around checkpoints. Its own sync of a commit is an
    /// fsync where SQLite was compiled without HAVE_FDATASYNC, and one more of the folder in every process.
    /// A file that is not in WAL mode, such as one that was made on a network file system, is synced by SQLite.
    pub(super) fn set_sync_mode(&mut self) -> Result<()> {
        let mode: String = self.connection.pragma_query_value(None, "journal_mode", |row| row.get(0))?;
        self.syncs_commits = self.wal && mode == "wal";
        let level = if self.syncs_commits { "NORMAL" } else { "FULL" };
        self.connection.pragma_update(None, "synchronous", level)
    }

    /// Makes the last commit durable. The caller keeps other writers away until it returns.
    pub(in crate::store::sqlite) fn sync_commit(&self) -> std::io::Result<()> {
        if !self.syncs_commits {
            return Ok(());
        }
        let wal = sibling(&self.path, "-wal");
        bounded::open_with(&wal, std::fs::File::options().write(true))?.sync_data()
    }

    /// Makes sure that the name of the WAL is on disk. A WAL with content was synced by whoever wrote it; an empty one may
    /// just have been created, also by a reader.
    pub(super) fn sync_wal_name(&self) -> Result<()> {
        let wal = sibling(&self.path, "-wal");
        if !std::fs::metadata(wal).is_ok_and(|meta| meta.len() > 0) {
            atomic::sync_folder(atomic::folder_of(&self.path)).map_err(io)?;
        }
        Ok(())
    }

    /// Creates an empty journal and syncs its name, so that it is there to roll back after a power cut.
    pub(super) fn create_journal(&self) -> Result<()> {
        let journal = sibling(&self.path, "-journal");
        if !journal.exists() {
            let mut options = std::fs::OpenOptions::new();
            atomic::open_private(&journal, options.write(true).create(true).truncate(false)).map_err(io)?;
            atomic::sync_folder(atomic::folder_of(&self.path)).map_err(io)?;
        }
        Ok(())
    }

    /// After a commit: copies a long WAL back, so that the next commit starts it again in place. That costs fewer fsyncs
    /// than emptying it, and commits that do not make the file longer are cheaper to sync.
    pub(in crate::store::sqlite) fn after_commit(&mut self, pages_before: i32) {
        let pages = self.pages();
        self.pages_per_commit = match pages - pages_before {
            0 => return,
            grown if grown > 0 => grown,
            _ => pages,
        };
        if pages > (LONG_WAL_COMMITS * self.pages_per_commit).clamp(LONG_WAL_PAGES.0, LONG_WAL_PAGES.1) {
            self.copy_back();
        }
    }

    /// Copies the WAL back as far as no reader needs it, so that the next commit may start it again in place.
    /// Not copying back loses nothing: the next writer tries again.
    pub(in crate::store::sqlite) fn copy_back(&self) {
        if self.wal {
            let _ = self.checkpoint("PASSIVE");
        }
    }

    /// How many frames of the WAL its index knows.
    pub(in crate::store::sqlite) fn frames(&self) -> Result<u64> {
        if !self.wal {
            return Ok(0);
        }
        Ok(u64::try_from(self.checkpoint("NOOP")?).unwrap_or(0))
    }

    /// Runs a checkpoint of SQLite's; returns the frames that the WAL holds.
    pub(super) fn checkpoint(&self, mode: &str) -> Result<i64> {
        self.connection.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |row| row.get(1))
    }

    /// Writes and syncs the frames of the WAL again; gives their number.
    pub(in crate::store::sqlite) fn rewrite_wal(&self) -> std::io::Result<u64> {
        if !self.wal {
            return Ok(0);
        }
        let frames = wal::rewrite(&sibling(&self.path, "-wal"))?;
        atomic::sync_folder(atomic::folder_of(&self.path))?;
        Ok(frames)
    }

    /// Pages in the WAL after the last commit of this connection; before its first, what the file's length says.
    pub(in crate::store::sqlite) fn pages(&self) -> i32 {
        match self.wal_pages.load(Ordering::Relaxed) {
            0 => self.pages_on_disk,
            pages => pages,
        }
    }

    /// Whether the WAL is so long that the next opener should not have to read it.
    pub(in crate::store::sqlite) fn leaves_long_wal(&self) -> bool {
        let most = (SHORT_WAL_COMMITS * self.pages_per_commit).clamp(SHORT_WAL_PAGES.0, SHORT_WAL_PAGES.1);
        // A connection that has only read leaves the WAL as it is.
        self.wal && !self.read_only && self.pages_per_commit > 0 && self.pages() > most
    }

    /// Copies the WAL back and empties it, if nobody reads it.
    pub(in crate::store::sqlite) fn empty_wal(&mut self) -> Result<()> {
        self.connection.busy_timeout(Duration::ZERO)?;
        self.checkpoint("TRUNCATE").map(drop)
    }

    /// Gives free pages back to the disk.
    pub(in crate::store::sqlite) fn compact(&mut self) -> Result<()> {
        incremental_vacuum(&self.connection, 0)?;
        if self.wal {
            self.checkpoint("TRUNCATE")?;
            self.wal_pages.store(0, Ordering::Relaxed);
            self.pages_on_disk = 0;
        }
        Ok(())
    }
}
