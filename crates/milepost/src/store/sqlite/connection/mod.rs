//! One connection to a store file: opens, identifies, creates, reads and writes it. Takes a path and provides
//! transactions. Syncing and the size of the WAL are handled in `sync`.

mod sync;

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, Result, TransactionBehavior};

pub(super) use self::sync::incremental_vacuum;
use super::{schema, sibling};
use crate::database;
use crate::fs::bounded;

/// What a connection is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// Reading, and writing if the file permits it.
    Any,
    /// Writing.
    Write,
}

/// The number of the file at a path; `None` if there is no file.
pub(super) fn file_number(path: &Path) -> Option<u64> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        std::fs::metadata(path).ok().map(|meta| meta.ino())
    }
    #[cfg(not(unix))]
    {
        crate::fs::file_id::of_path(path).ok().map(|(_, number)| number)
    }
}

fn corrupt(why: &str) -> rusqlite::Error {
    let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_NOTADB);
    rusqlite::Error::SqliteFailure(code, Some(why.to_owned()))
}

fn io(e: std::io::Error) -> rusqlite::Error {
    rusqlite::Error::ToSqlConversionFailure(e.into())
}

/// A connection and the state of its WAL.
#[derive(Debug)]
pub(super) struct Db {
    connection: Connection,
    /// Temporary folder of the copy that is read instead of the original, if there is one.
    copy: Option<tempfile::TempDir>,
    path: PathBuf,
    /// Inode number of the opened file.
    file: Option<u64>,
    /// Whether the directory entry of the WAL is known to be on disk.
    named: bool,
    read_only: bool,
    wal: bool,
    /// Whether commits are synced by `sync_commit` instead of SQLite.
    syncs_commits: bool,
    /// Pages in the WAL after the last commit of this connection.
    wal_pages: Arc<AtomicI32>,
    /// Pages in the WAL when this connection was opened.
    pages_on_disk: i32,
    /// Pages that the last commit added to the WAL.
    pages_per_commit: i32,
    /// Start of the current transaction, if its time is limited.
    began: Option<Arc<Mutex<Instant>>>,
}

/// How long SQLite waits for its own locks. Only programs that do not use the lock files make it wait.
const FOREIGN_WAIT: Duration = Duration::from_secs(2);

/// Instructions of SQLite's virtual machine between two checks of the deadline.
const OPS_PER_TIME_CHECK: i32 = 10_000;
/// Maximum size of a file that is copied for reading.
const COPY_LIMIT: u64 = 16 << 30;
/// Size of a WAL frame in bytes: a page and its header.
const WAL_PAGE: u64 = 4096 + 24;

/// A transaction whose BEGIN and COMMIT are compiled once per connection. Dropping it rolls it back.
pub(super) struct Tx<'a> {
    connection: &'a Connection,
    open: bool,
}

impl<'a> Tx<'a> {
    fn begin(connection: &'a Connection, how: &str) -> Result<Self> {
        connection.prepare_cached(how)?.execute([])?;
        Ok(Self { connection, open: true })
    }

    pub(super) fn commit(mut self) -> Result<()> {
        self.connection.prepare_cached("COMMIT")?.execute([])?;
        self.open = false;
        Ok(())
    }
}

impl Drop for Tx<'_> {
    fn drop(&mut self) {
        // Some errors end the transaction automatically.
        if self.open && !self.connection.is_autocommit() {
            let _ = self.connection.execute_batch("ROLLBACK");
        }
    }
}

impl std::ops::Deref for Tx<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.connection
    }
}

/// The identification of a database file.
pub(super) struct Identity {
    pub(super) application: i64,
    pub(super) version: i64,
    /// Whether the file has no tables yet: it is new, or its creator died.
    pub(super) is_empty: bool,
}

impl Db {
    pub(super) fn open(path: &Path, access: Access, wal: bool) -> Result<Self> {
        let flags = OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_EXRESCODE;
        let opened = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_READ_WRITE)
            .and_then(|connection| Self::configure(connection, path, wal));
        match opened {
            Ok(db) if !db.read_only => Ok(db),
            Err(e) if access == Access::Write => Err(e),
            // On read-only media, a read-only connection reads the remaining WAL without any changes.
            _ => Self::open_read_only(path, flags, wal)
                .or_else(|e| Self::open_copy(path, flags, wal).map_err(|_| e)),
        }
    }

    /// Opens a foreign file for reading only. It is never copied, because SQLite would replay an
    /// untrusted journal next to the copy.
    pub(super) fn open_foreign(path: &Path, wal: bool) -> Result<Self> {
        let flags = OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_EXRESCODE;
        for suffix in ["-wal", "-shm", "-journal"] {
            let irregular = |about: std::fs::Metadata| !about.is_file() || about.len() > COPY_LIMIT;
            if std::fs::symlink_metadata(sibling(path, suffix)).is_ok_and(irregular) {
                return Err(corrupt("its -wal, -shm or -journal file is too large or not a regular file"));
            }
        }
        Self::open_read_only(path, flags, wal)
    }

    fn open_read_only(path: &Path, flags: OpenFlags, wal: bool) -> Result<Self> {
        let connection = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        let mut db = Self::configure(connection, path, wal)?;
        db.identity()?;
        Ok(db)
    }

    /// Opens a copy in a temporary folder. In a folder where no file can be created, a WAL without
    /// its `-shm` file is unreadable.
    fn open_copy(path: &Path, flags: OpenFlags, wal: bool) -> Result<Self> {
        #[cfg_attr(not(unix), allow(unused_mut, reason = "this platform has no modes"))]
        let mut builder = tempfile::Builder::new();
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
        let folder = builder.tempdir().map_err(io)?;
        let copy = folder.path().join("copy.db");
        for suffix in ["", "-wal", "-journal"] {
            match bounded::open(&sibling(path, suffix)) {
                Err(e) if !suffix.is_empty() && e.kind() == std::io::ErrorKind::NotFound => {}
                from => {
                    let mut from = from.map_err(io)?.take(COPY_LIMIT);
                    let mut to = std::fs::File::create(sibling(&copy, suffix)).map_err(io)?;
                    std::io::copy(&mut from, &mut to).map_err(io)?;
                }
            }
        }
        let connection = Connection::open_with_flags(&copy, flags | OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        let mut db = Self::configure(connection, path, wal)?;
        db.identity()?;
        Ok(Self { read_only: true, copy: Some(folder), ..db })
    }

    fn configure(mut connection: Connection, path: &Path, wal: bool) -> Result<Self> {
        let read_only = connection.is_readonly("main")?;
        database::restrict(&connection)?;
        connection.busy_timeout(FOREIGN_WAIT)?;
        connection.set_prepared_statement_cache_capacity(64);
        // Without this, a cached statement is recompiled whenever its parameters change.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        let wal_pages = Arc::new(AtomicI32::new(0));
        let length = std::fs::metadata(sibling(path, "-wal")).map_or(0, |meta| meta.len());
        let pages_on_disk = i32::try_from(length / WAL_PAGE).unwrap_or(i32::MAX);
        if !read_only {
            #[cfg(target_os = "macos")]
            // On macOS, only a full sync reaches the disk.
            connection.execute_batch("PRAGMA fullfsync = ON; PRAGMA checkpoint_fullfsync = ON")?;
            // Closing does not copy the WAL back, so that one-shot commands stay fast. `after_commit` and the
            // store's `drop` copy a long WAL back.
            connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
            if !wal {
                connection.pragma_update(None, "journal_mode", "TRUNCATE")?;
            }
            // This hook also replaces SQLite's automatic WAL checkpoints.
            let pages = Arc::clone(&wal_pages);
            connection.wal_hook(Some(move |_: &mut rusqlite::hooks::Wal, n| {
                pages.store(n, Ordering::Relaxed);
                Ok(())
            }))?;
        }
        let mut db = Self {
            connection,
            copy: None,
            path: path.to_owned(),
            file: file_number(path),
            named: false,
            read_only,
            wal,
            syncs_commits: false,
            wal_pages,
            pages_on_disk,
            pages_per_commit: 0,
            began: None,
        };
        if !read_only {
            db.set_sync_mode()?;
        }
        Ok(db)
    }

    /// Whether this connection is to the file with this inode number.
    pub(super) fn is_of(&self, file: Option<u64>) -> bool {
        self.file == file
    }

    pub(super) fn read_only(&self) -> bool {
        self.read_only
    }

    /// Identifies the file in one read transaction, because another process may be creating its tables.
    pub(super) fn identity(&mut self) -> Result<Identity> {
        self.snapshot(|tx| {
            let read = |name: &str| tx.pragma_query_value(None, name, |row| row.get(0));
            let is_empty = "SELECT count(*) = 0 FROM sqlite_schema";
            let (application, version) = (read("application_id")?, read("user_version")?);
            let is_ours = application == schema::APPLICATION_ID;
            let is_empty = !is_ours && tx.query_row(is_empty, [], |row| row.get(0))?;
            Ok(Identity { application, version, is_empty })
        })
    }

    /// Compares the schema with the expected one before any table is used. Views, triggers and generated
    /// columns could execute SQL from an untrusted source.
    pub(super) fn check_schema(&self) -> Result<()> {
        let mut statement = self.connection.prepare("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL")?;
        let mut rows = statement.query([])?;
        let mut known = 0;
        while let Some(row) = rows.next()? {
            if !schema::is_known(row.get_ref(0)?.as_str().unwrap_or_default()) {
                return Err(corrupt("its schema is not that of a Milepost store"));
            }
            known += 1;
        }
        if known == schema::COUNT {
            Ok(())
        } else {
            Err(corrupt("its schema is not that of a Milepost store"))
        }
    }

    /// Interrupts transactions that take longer than `limit`.
    pub(super) fn limit_time(&mut self, limit: Option<Duration>) -> Result<()> {
        let Some(limit) = limit else { return Ok(()) };
        let began = Arc::new(Mutex::new(Instant::now()));
        self.began = Some(Arc::clone(&began));
        let is_late = move || began.lock().is_ok_and(|began| began.elapsed() > limit);
        self.connection.progress_handler(OPS_PER_TIME_CHECK, Some(is_late))
    }

    /// Starts the time limit of a transaction. Waiting for the store's lock does not count.
    fn start_time(&self) {
        if let Some(mut began) = self.began.as_ref().and_then(|began| began.lock().ok()) {
            *began = Instant::now();
        }
    }

    /// Whether this connection reads a copy instead of the original file.
    pub(super) fn is_copy(&self) -> bool {
        self.copy.is_some()
    }

    pub(super) fn make(&mut self, wal: bool) -> Result<()> {
        self.connection.execute_batch("PRAGMA auto_vacuum = INCREMENTAL;")?;
        let mode = if wal { "WAL" } else { "TRUNCATE" };
        self.connection.pragma_update_and_check(None, "journal_mode", mode, |_| Ok(()))?;
        self.set_sync_mode()?;
        let tx = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        tx.execute_batch(schema::TABLES)?;
        tx.pragma_update(None, "application_id", schema::APPLICATION_ID)?;
        tx.pragma_update(None, "user_version", schema::STORE_VERSION)?;
        tx.commit()?;
        if wal {
            // Copy the tables from the WAL to the database before the first write. Otherwise a WAL with a
            // damaged start would leave a file that looks new.
            self.checkpoint("PASSIVE")?;
        }
        Ok(())
    }

    /// Runs `work` in a read transaction.
    pub(super) fn snapshot<T>(&mut self, work: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        self.start_time();
        let tx = Tx::begin(&self.connection, "BEGIN")?;
        let result = work(&tx)?;
        tx.commit()?;
        Ok(result)
    }

    pub(super) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Begins a write transaction, always immediate: upgrading a read transaction fails under contention.
    pub(super) fn begin(&mut self) -> Result<Tx<'_>> {
        if !self.wal {
            self.create_journal()?;
        }
        self.start_time();
        let tx = Tx::begin(&self.connection, "BEGIN IMMEDIATE")?;
        if self.wal && !self.named {
            self.sync_wal_name()?;
            self.named = true;
        }
        Ok(tx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::atomic;

    #[test]
    fn with_a_rollback_journal_its_name_is_there_before_it_is_needed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("milepost.db");
        let mut options = std::fs::OpenOptions::new();
        atomic::open_private(&path, options.write(true).create(true).truncate(false)).unwrap();
        Db::open(&path, Access::Write, false).unwrap().make(false).unwrap();
        let write = |rolled_back: bool| {
            let mut db = Db::open(&path, Access::Write, false).unwrap();
            let tx = db.begin().unwrap();
            assert!(sibling(&path, "-journal").exists());
            let sql = "INSERT INTO meta (key, value, checksum) VALUES (hex(randomblob(8)), 1, x'')";
            tx.execute(sql, []).unwrap();
            if !rolled_back {
                tx.commit().unwrap();
            }
        };
        write(false);
        std::fs::remove_file(sibling(&path, "-journal")).unwrap();
        write(false);
        write(true);
        let db = Db::open(&path, Access::Any, false).unwrap();
        let rows: i64 = db.connection().query_row("SELECT count(*) FROM meta", [], |row| row.get(0)).unwrap();
        assert_eq!(rows, 2);
        assert!(!sibling(&path, "-wal").exists());
    }

    /// Another process creates the tables while a new file is being identified.
    #[test]
    fn a_file_that_is_being_made_has_no_tables_or_all_of_them() {
        use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("milepost.db");
        let mut options = std::fs::OpenOptions::new();
        atomic::open_private(&path, options.write(true).create(true).truncate(false)).unwrap();
        let maker = Db::open(&path, Access::Write, true).unwrap();
        maker.connection().pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(())).unwrap();
        let mut looker = Db::open(&path, Access::Any, true).unwrap();
        let maker = Mutex::new(Some(maker));
        let make = move |about: AuthContext<'_>| {
            if matches!(about.action, AuthAction::Select)
                && let Some(mut maker) = maker.lock().unwrap().take()
            {
                maker.make(true).unwrap();
            }
            Authorization::Allow
        };
        looker.connection.authorizer(Some(make)).unwrap();
        let first = looker.identity().unwrap();
        assert!(first.application == 0 && first.is_empty);
        let second = looker.identity().unwrap();
        assert!(second.application == schema::APPLICATION_ID && !second.is_empty);
    }
}
