//! The default store: one SQLite file in WAL mode, with a checksum for each row. Takes decisions and writes
//! their commits; a commit is synced before it is acknowledged (`connection/sync.rs`). Writers of all
//! processes queue at two lock files; readers never wait. Connections are pooled, and reopened after a fork.

mod attachments;
mod blob;
mod connection;
mod decode;
mod error;
mod frames;
mod high_water_mark;
mod loss;
mod maintenance;
mod opener;
mod recover;
mod rows;
mod salvage;
mod schema;
mod thread_positions;
mod transact;
mod verified_cache;
mod view;
mod wal;
mod write;

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use rusqlite::Connection;

use self::connection::{Access, Db};
use self::high_water_mark::HighWaterMark;
pub(super) use self::opener::SQLITE;
use self::transact::{Outcome, transact};
use self::view::StoreView;
use super::blob_folder::BlobFolder;
use super::lock::{FairLock, FairLockGuard, LockError};
use super::{
    BlobEntry, CollectReport, Damage, Decide, EventPage, EventQuery, FindLiveBlobs, HeaderQuery, Maintenance,
    MaintenanceReport, OpenOptions, Part, Receipt, RetentionEntry, Row, RunQuery, RunRow, Store, StoreError,
    StoreInfo, StoreUrl, StoredRun, identity, project_paths,
};
use crate::fs::atomic;
use crate::model::{Attachment, BlobId, Message, RunId};

/// A store in one SQLite file.
#[derive(Debug)]
pub struct SqliteStore {
    path: PathBuf,
    options: OpenOptions,
    lock: FairLock,
    mark: HighWaterMark,
    /// Name of the file system, if WAL is not safe on it.
    unsafe_on: Option<&'static str>,
    pool: Mutex<Pool>,
}

#[derive(Debug)]
struct Pool {
    pid: u32,
    idle: Vec<Db>,
}

/// Result of a store operation, for modules where `Result` is SQLite's.
type StoreResult<T> = Result<T, StoreError>;

/// Path of the file whose name is the database's name with a suffix.
fn sibling(database: &Path, suffix: &str) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

impl SqliteStore {
    /// Opens a store, or creates it if the options allow that.
    pub fn open(path: &Path, options: &OpenOptions) -> Result<Self, StoreError> {
        let folder = atomic::folder_of(path);
        let mut store = Self {
            path: path.to_owned(),
            options: options.clone(),
            lock: FairLock::new(sibling(path, "-turn"), sibling(path, "-lock")),
            mark: HighWaterMark::new(path, project_paths::unsafe_file_system(folder).is_none()),
            unsafe_on: None,
            pool: Mutex::new(Pool { pid: std::process::id(), idle: Vec::new() }),
        };
        let found = std::fs::metadata(path);
        if let (false, Err(e)) = (options.create, &found)
            && let Some(denied) = StoreError::denied(store.location(), path, e)
        {
            return Err(denied);
        }
        let there = found.is_ok_and(|m| m.len() > 0);
        let may_create = options.create && options.foreign.is_none();
        if !there && may_create {
            atomic::create_folder(folder).map_err(|e| store.io_error(e))?;
        }
        store.unsafe_on = project_paths::unsafe_file_system(folder);
        let connected = there.then(|| store.connect(Access::Any)).transpose();
        let mut db = connected.map_err(|e| store.unreadable_file().unwrap_or(e))?;
        let known = db.as_mut().map_or(Ok(false), |db| store.is_ours(db))?;
        let db = match db.filter(|_| known) {
            Some(db) => db,
            None if may_create => store.make()?,
            None => return Err(StoreError::Missing { location: store.location() }),
        };
        store.return_to_pool(db);
        Ok(store)
    }

    /// The error for a database or WAL that this user may not read. Checks without opening the files, because
    /// closing them would release locks that this process holds.
    fn unreadable_file(&self) -> Option<StoreError> {
        #[cfg(unix)]
        {
            let wal = sibling(&self.path, "-wal");
            let denied = |path: &PathBuf| {
                let may = rustix::fs::access(path, rustix::fs::Access::READ_OK);
                may.is_err_and(|e| e == rustix::io::Errno::ACCESS)
            };
            let path = [self.path.clone(), wal].into_iter().find(denied)?;
            let path = std::path::absolute(&path).unwrap_or(path);
            Some(StoreError::Denied { location: self.location(), path })
        }
        #[cfg(not(unix))]
        None
    }

    /// Creates the tables, unless another process has already done so.
    fn make(&self) -> Result<Db, StoreError> {
        let _lock = self.lock_for_writing()?;
        self.make_locked()
    }

    fn make_locked(&self) -> Result<Db, StoreError> {
        let mut options = std::fs::OpenOptions::new();
        atomic::open_private(&self.path, options.write(true).create(true).truncate(false))
            .map_err(|e| self.io_error(e))?;
        let mut db = self.connect(Access::Write)?;
        if db.identity().map_err(|e| self.error(e))?.is_empty {
            // Register before creating the tables, so that every existing store has an id and a record.
            let url = StoreUrl::sqlite(&self.path);
            identity::register(&url, self.options.user_state.as_ref()).map_err(|e| self.io_error(e))?;
            db.make(self.unsafe_on.is_none()).map_err(|e| self.error(e))?;
            self.mark.set(0);
        }
        atomic::sync_folder(atomic::folder_of(&self.path)).map_err(|e| self.io_error(e))?;
        Ok(db)
    }

    /// Whether the file is a store. Returns `false` if it has no tables, and fails if it is another
    /// database or in a newer format.
    fn is_ours(&self, db: &mut Db) -> Result<bool, StoreError> {
        let connection::Identity { application, version, is_empty } =
            db.identity().map_err(|e| self.error(e))?;
        if application != schema::APPLICATION_ID {
            if is_empty {
                return Ok(false);
            }
            let found = format!("application id {application:#x}");
            return Err(Damage::integrity(Part::Pages, "a Milepost store", found).into());
        }
        if version > schema::STORE_VERSION {
            return Err(StoreError::Newer {
                location: self.location(),
                found: version as u64,
                known: schema::STORE_VERSION as u64,
            });
        }
        db.check_schema().map_err(|e| self.error(e))?;
        Ok(true)
    }

    /// Invalidates the record of a run, so that the engine rebuilds it from the run's checkpoints.
    fn forget_record(&self, run: &RunId) -> Result<(), StoreError> {
        self.change_tables(|tx, view| {
            view.merge()?;
            tx.execute("UPDATE run SET checksum = x'' WHERE run_id = ?1", [run.as_str()])?;
            Ok(())
        })
    }

    fn location(&self) -> String {
        self.path.display().to_string()
    }

    fn connect(&self, access: Access) -> Result<Db, StoreError> {
        let wal = self.unsafe_on.is_none();
        let opened = match self.options.foreign {
            Some(_) => Db::open_foreign(&self.path, wal),
            None => Db::open(&self.path, access, wal),
        };
        let mut db = opened.map_err(|e| self.error(e))?;
        db.limit_time(self.options.time_limit).map_err(|e| self.error(e))?;
        Ok(db)
    }

    /// Runs `work` on a pooled connection.
    fn with<T>(
        &self,
        access: Access,
        work: impl FnOnce(&mut Db) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let pooled = {
            let mut pool = self.pool.lock().unwrap_or_else(|e| e.into_inner());
            if pool.pid != std::process::id() {
                // A connection must be neither used nor closed after a fork, to protect the parent's locks.
                pool.idle.drain(..).for_each(std::mem::forget);
                pool.pid = std::process::id();
            }
            // Drop connections to a file that was replaced or removed: writes to it would be lost.
            let there = connection::file_number(&self.path);
            pool.idle.retain(|db| db.is_of(there));
            let fits = pool.idle.iter().rposition(|db| access == Access::Any || !db.read_only());
            fits.map(|at| pool.idle.swap_remove(at))
        };
        let mut db = match pooled {
            Some(db) => db,
            None if self.path.exists() => self.connect(access)?,
            None => return Err(StoreError::Missing { location: self.location() }),
        };
        let result = work(&mut db);
        match &result {
            // Do not reuse a connection after an error: its view of the file may be inconsistent. Frames that
            // a failed write left in the WAL may not be on disk.
            Err(
                StoreError::NotAcknowledged { .. }
                | StoreError::Write { .. }
                | StoreError::Read { .. }
                | StoreError::Damaged(_),
            ) => {
                if access == Access::Write {
                    self.mark.set_unsynced();
                }
            }
            _ => self.return_to_pool(db),
        }
        result
    }

    /// Runs `work` on one consistent view of the store.
    fn read<T>(&self, work: impl FnOnce(&StoreView<'_>) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        self.with(Access::Any, |db| db.snapshot(|tx| work(&StoreView::load(tx)?)).map_err(|e| self.error(e)))
    }

    /// Runs `work` in a read transaction, without a view of the append log.
    fn snapshot<T>(&self, work: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        self.with(Access::Any, |db| db.snapshot(work).map_err(|e| self.error(e)))
    }

    /// Changes the tables in one write that takes no stamp. The caller must hold the lock.
    fn change_tables<T>(
        &self,
        mut work: impl FnMut(&Connection, &StoreView<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        self.with(Access::Write, |db| {
            transact(self, db, &mut |tx, view, base| {
                let value = work(tx, view).map_err(|e| self.write_error(e))?;
                Ok(Outcome::same_stamp(value, base))
            })
        })
    }

    fn return_to_pool(&self, db: Db) {
        let mut pool = self.pool.lock().unwrap_or_else(|e| e.into_inner());
        if pool.idle.len() < 8 {
            pool.idle.push(db);
        }
    }

    fn lock_for_writing(&self) -> Result<FairLockGuard, StoreError> {
        if let Some(why) = &self.options.foreign {
            return Err(StoreError::Untrusted { location: self.location(), why: why.clone() });
        }
        self.lock.acquire(self.options.wait).map_err(|e| match e {
            LockError::Busy(waited) => StoreError::Busy { location: self.location(), waited },
            LockError::Io(_, e) => self.io_error(e),
        })
    }

    /// Acquires the lock. Creates the store again if it was removed while it was open.
    fn lock_or_create(&self) -> Result<FairLockGuard, StoreError> {
        let lock = match self.lock_for_writing() {
            Err(StoreError::Write { .. }) if self.options.create && !self.path.exists() => {
                atomic::create_folder(atomic::folder_of(&self.path)).map_err(|e| self.io_error(e))?;
                self.lock_for_writing()?
            }
            locked => locked?,
        };
        if self.options.create && !self.path.exists() {
            let db = self.make_locked()?;
            self.return_to_pool(db);
        }
        Ok(lock)
    }

    /// Runs `work` on a connection that can write.
    fn with_writable<T>(&self, work: impl FnOnce(&mut Db) -> StoreResult<T>) -> StoreResult<T> {
        self.with(Access::Write, |db| {
            if db.read_only() {
                return Err(self.io_error(std::io::ErrorKind::ReadOnlyFilesystem.into()));
            }
            work(db)
        })
    }

    /// The folder of the blobs that are files.
    fn blob_folder(&self) -> BlobFolder {
        BlobFolder::new(sibling(&self.path, "-blobs"))
    }
}

impl Drop for SqliteStore {
    /// Empties a long WAL, unless another writer holds the lock.
    fn drop(&mut self) {
        let pool = self.pool.get_mut().unwrap_or_else(|e| e.into_inner());
        if pool.pid != std::process::id() {
            pool.idle.drain(..).for_each(std::mem::forget);
            return;
        }
        if let Some(db) = pool.idle.iter_mut().find(|db| db.leaves_long_wal())
            && let Some(_lock) = self.lock.try_acquire()
        {
            let _ = db.empty_wal();
        }
        if self.options.one_shot {
            // The process is about to exit, so skip closing connections, except those to a copy:
            // closing one removes its folder.
            pool.idle.drain(..).filter(|db| !db.is_copy()).for_each(std::mem::forget);
        }
    }
}

impl Store for SqliteStore {
    fn write(&self, run: &RunId, decide: &mut Decide<'_>) -> Result<Receipt, StoreError> {
        self.write_with_blobs(run, &[], decide)
    }

    fn write_with_blobs(
        &self,
        run: &RunId,
        contents: &[&[u8]],
        decide: &mut Decide<'_>,
    ) -> Result<Receipt, StoreError> {
        let mut blobs = blob::NewBlobs::prepare(self, contents)?;
        let _lock = self.lock_or_create()?;
        self.with_writable(|db| {
            let pages = db.pages();
            let result = write::write(self, db, run, &mut blobs, decide);
            db.after_commit(pages);
            result
        })
    }

    fn run(&self, run: &RunId) -> Result<Option<StoredRun>, StoreError> {
        self.read(|view| view.run(run))
    }

    fn runs(&self, query: &RunQuery<'_>) -> Result<Vec<RunRow>, StoreError> {
        self.read(|view| view.runs(query))
    }

    fn headers(&self, query: &HeaderQuery<'_>) -> Result<Vec<Row>, StoreError> {
        self.read(|view| view.headers(query))
    }

    fn body(&self, run: &RunId, sequence: u64) -> Result<Vec<u8>, StoreError> {
        self.with(Access::Any, |db| {
            let read = db.snapshot(|tx| {
                let view = StoreView::load(tx)?;
                let Some(n) = view.run_n(run)? else {
                    return Ok(Err(StoreError::NoRun(run.clone())));
                };
                Ok(match view.document(n, sequence)? {
                    Some(Ok(document)) => Ok(document),
                    Some(Err(damage)) => Err(damage.at(Some(run), Some(sequence)).into()),
                    None => Err(StoreError::NoCheckpoint(run.clone(), sequence)),
                })
            });
            read.map_err(|e| self.error(e))?
        })
    }

    fn events(&self, query: &EventQuery<'_>) -> Result<EventPage, StoreError> {
        self.read(|view| view.events(query))
    }

    fn messages(&self, run: &RunId) -> Result<Vec<Result<Message, Damage>>, StoreError> {
        self.read(|stored| {
            let Some(n) = stored.run_n(run)? else { return Ok(Vec::new()) };
            let messages = stored.messages(n)?.into_iter();
            Ok(messages.map(|(_, message)| message.map_err(|damage| damage.at(Some(run), None))).collect())
        })
    }

    fn attachments(
        &self,
        run: &RunId,
        checkpoint: Option<&str>,
    ) -> Result<Vec<Result<Attachment, Damage>>, StoreError> {
        self.read(|stored| {
            let Some(n) = stored.run_n(run)? else { return Ok(Vec::new()) };
            let found = stored.attachments(n, checkpoint)?.into_iter();
            let located = |damage: Damage| damage.at(Some(run), None);
            Ok(found.map(|one| one.map(|(_, attachment)| attachment).map_err(located)).collect())
        })
    }

    fn retention_entries(&self, run: &RunId, newest: Option<u64>) -> Result<Vec<RetentionEntry>, StoreError> {
        self.read(|view| view.retention_entries(run, newest))
    }

    fn put_blobs(&self, contents: &[&[u8]]) -> Result<(), StoreError> {
        blob::put(self, contents)
    }

    fn missing_blobs(&self, ids: &[BlobId]) -> Result<Vec<BlobId>, StoreError> {
        self.snapshot(|tx| blob::find_missing(tx, &self.blob_folder(), ids))
    }

    fn blob(&self, id: &BlobId) -> Result<Vec<u8>, StoreError> {
        blob::read(self, id)
    }

    fn blob_contents(&self, ids: &[BlobId]) -> Result<Vec<Vec<u8>>, StoreError> {
        blob::read_all(self, ids)
    }

    fn blobs(&self, after: Option<&BlobId>, limit: usize) -> Result<Vec<BlobEntry>, StoreError> {
        self.snapshot(|tx| blob::list(tx, after, limit))
    }

    fn blob_bytes(&self) -> Result<u64, StoreError> {
        self.snapshot(blob::total_bytes)
    }

    fn blob_roots(&self) -> Result<Vec<(String, BlobId)>, StoreError> {
        let roots = self.snapshot(blob::roots)?;
        roots.into_iter().map(|root| root.map_err(StoreError::from)).collect()
    }

    fn collect_blobs(&self, find_live: &mut FindLiveBlobs<'_>) -> Result<CollectReport, StoreError> {
        blob::collect(self, find_live)
    }

    fn delete_run(&self, run: &RunId, only_at: Option<u64>) -> Result<bool, StoreError> {
        let _lock = self.lock_for_writing()?;
        self.with(Access::Write, |db| {
            let deleted = write::delete_run(self, db, run, only_at)?;
            if deleted {
                // The run is already deleted. If releasing its space fails, the next maintenance does it.
                let _ = db.compact();
            }
            Ok(deleted)
        })
    }

    fn maintain(&self, what: Maintenance<'_>) -> Result<MaintenanceReport, StoreError> {
        maintenance::maintain(self, what)
    }

    fn lost_writes(&self) -> Result<u64, StoreError> {
        let mark = self.mark.read();
        self.read(|view| {
            let losses = view.losses()?;
            let newest = view.newest_stamp()?.max(loss::newest(&losses));
            let known = losses.iter().filter(|loss| !loss.acknowledged).map(loss::Loss::writes);
            let known = known.fold(0, u64::saturating_add);
            Ok(known.saturating_add(mark.ahead_of(newest).map_or(0, |expected| expected - newest)))
        })
    }

    fn info(&self) -> Result<StoreInfo, StoreError> {
        let size = |suffix: &str| std::fs::metadata(sibling(&self.path, suffix)).map_or(0, |m| m.len());
        Ok(StoreInfo {
            url: format!("sqlite:{}", self.path.display()),
            bytes: size("") + size("-wal") + self.blob_folder().bytes().unwrap_or(0),
            warning: self.unsafe_on.map(|name| {
                format!(
                    "the store is on {name}, where SQLite's shared memory is not safe: \
                     a rollback journal is used, which is slower"
                )
            }),
            server: None,
        })
    }
}
