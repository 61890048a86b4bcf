//! Makes a connection's commits durable: syncs them, syncs the directory entries of WAL and journal, and
//! limits the size of the WAL. Does not depend on the tables.

use std::sync::atomic::Ordering;
use std::time::Duration;

use rusqlite::{Connection, Result};

use super::super::{sibling, wal};
use super::{Db, io};
use crate::fs::{atomic, bounded};

/// Number of commits after which a long-lived connection copies the WAL back and restarts it in place. Later
/// commits overwrite the file, and syncing a file that does not grow takes half the time.
const LONG_WAL_COMMITS: i32 = 160;
/// Bounds of that threshold in pages. A WAL below the first is never copied back; above the second, always.
const LONG_WAL_PAGES: (i32, i32) = (512, 4096);
/// Number of commits after which the WAL is emptied when the store is closed, because every process that
/// opens the store later must read it.
const SHORT_WAL_COMMITS: i32 = 16;
/// Bounds of that threshold in pages. A WAL below the first is never emptied; above the second, always.
const SHORT_WAL_PAGES: (i32, i32) = (64, 1024);

/// Releases at most `pages` free pages to the file system; 0 releases all of them.
pub(in crate::store::sqlite) fn incremental_vacuum(connection: &Connection, pages: u64) -> Result<()> {
    let mut vacuum = connection.prepare(&format!("PRAGMA incremental_vacuum({pages})"))?;
    let mut rows = vacuum.query([])?;
    while rows.next()?.is_some() {}
    Ok(())
}

impl Db {
    /// Selects who syncs commits. In WAL mode, `sync_commit` syncs each commit, and SQLite syncs only around
    /// WAL checkpoints. SQLite's own commit sync would be an fsync if it was compiled without HAVE_FDATASYNC,
    /// plus one of the folder in every process. In any other mode, such as for a file created on a network
    /// file system, SQLite syncs each commit.
    pub(super) fn set_sync_mode(&mut self) -> Result<()> {
        let mode: String = self.connection.pragma_query_value(None, "journal_mode", |row| row.get(0))?;
        self.syncs_commits = self.wal && mode == "wal";
        let level = if self.syncs_commits { "NORMAL" } else { "FULL" };
        self.connection.pragma_update(None, "synchronous", level)
    }

    /// Makes the last commit durable. The caller excludes other writers until this returns.
    pub(in crate::store::sqlite) fn sync_commit(&self) -> std::io::Result<()> {
        if !self.syncs_commits {
            return Ok(());
        }
        let wal = sibling(&self.path, "-wal");
        bounded::open_with(&wal, std::fs::File::options().write(true))?.sync_data()
    }

    /// Makes the directory entry of the WAL durable. A WAL with content was synced by its writer. An empty
    /// one may have just been created, even by a reader.
    pub(super) fn sync_wal_name(&self) -> Result<()> {
        let wal = sibling(&self.path, "-wal");
        if !std::fs::metadata(wal).is_ok_and(|meta| meta.len() > 0) {
            atomic::sync_folder(atomic::folder_of(&self.path)).map_err(io)?;
        }
        Ok(())
    }

    /// Creates an empty journal and makes its directory entry durable, so that the journal is available for a
    /// rollback after a power failure.
    pub(super) fn create_journal(&self) -> Result<()> {
        let journal = sibling(&self.path, "-journal");
        if !journal.exists() {
            let mut options = std::fs::OpenOptions::new();
            atomic::open_private(&journal, options.write(true).create(true).truncate(false)).map_err(io)?;
            atomic::sync_folder(atomic::folder_of(&self.path)).map_err(io)?;
        }
        Ok(())
    }

    /// Copies a long WAL back after a commit, so that the next commit restarts it in place. This takes fewer
    /// fsyncs than emptying it, and commits that do not extend the file are cheaper to sync.
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

    /// Copies a long WAL back after an unsynced commit. Such commits are large and rare, so they do not count
    /// as the typical commit that `after_commit` derives its limits from.
    pub(in crate::store::sqlite) fn after_unsynced_commit(&self) {
        if self.pages() > LONG_WAL_PAGES.1 {
            self.copy_back();
        }
    }

    /// Copies the WAL back as far as readers permit, so that the next commit can restart it in place. A
    /// failure loses nothing: the next writer tries again.
    pub(in crate::store::sqlite) fn copy_back(&self) {
        if self.wal {
            let _ = self.checkpoint("PASSIVE");
        }
    }

    /// Number of WAL frames that the WAL index contains.
    pub(in crate::store::sqlite) fn frames(&self) -> Result<u64> {
        if !self.wal {
            return Ok(0);
        }
        Ok(u64::try_from(self.checkpoint("NOOP")?).unwrap_or(0))
    }

    /// Runs an SQLite WAL checkpoint. Returns the number of frames in the WAL.
    pub(super) fn checkpoint(&self, mode: &str) -> Result<i64> {
        self.connection.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |row| row.get(1))
    }

    /// Rewrites and syncs the frames of the WAL. Returns their number.
    pub(in crate::store::sqlite) fn rewrite_wal(&self) -> std::io::Result<u64> {
        if !self.wal {
            return Ok(0);
        }
        let frames = wal::rewrite(&sibling(&self.path, "-wal"))?;
        atomic::sync_folder(atomic::folder_of(&self.path))?;
        Ok(frames)
    }

    /// Pages in the WAL after the last commit of this connection. Before the first commit, this is
    /// computed from the length of the file.
    pub(in crate::store::sqlite) fn pages(&self) -> i32 {
        match self.wal_pages.load(Ordering::Relaxed) {
            0 => self.pages_on_disk,
            pages => pages,
        }
    }

    /// Whether the WAL is so long that it should be emptied before another process opens the store.
    pub(in crate::store::sqlite) fn leaves_long_wal(&self) -> bool {
        let most = (SHORT_WAL_COMMITS * self.pages_per_commit).clamp(SHORT_WAL_PAGES.0, SHORT_WAL_PAGES.1);
        // A connection that only reads does not change the WAL.
        self.wal && !self.read_only && self.pages_per_commit > 0 && self.pages() > most
    }

    /// Copies the WAL back and empties it, if no other connection is using it.
    pub(in crate::store::sqlite) fn empty_wal(&mut self) -> Result<()> {
        self.connection.busy_timeout(Duration::ZERO)?;
        self.checkpoint("TRUNCATE").map(drop)
    }

    /// Releases all free pages to the file system and empties the WAL.
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
