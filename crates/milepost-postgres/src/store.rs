//! `PostgresStore`: one handle on a store in a PostgreSQL schema. Connects when it is first used, and delegates each
//! operation to its module. Maps errors of the server to errors of the store.

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use milepost::model::{Attachment, BlobId, Message, RunId, WriteToken};
use milepost::store::{
    BlobEntry, CollectReport, CommittedWrite, Damage, Decide, EventPage, EventQuery, FindLiveBlobs,
    HeaderQuery, Maintenance, MaintenanceReport, OpenOptions, Receipt, RetentionEntry, Row, RunQuery, RunRow,
    ServerProblem, Store, StoreError, StoreInfo, StoredRun,
};

use crate::connection::Settings;
use crate::decode::number;
use crate::error::PostgresError;
use crate::pool::{Deadline, Failed, Pool};
use crate::project::ProjectScope;
use crate::run_cache::RunCache;
use crate::schema::SchemaName;
use crate::session::{Params, Session};
use crate::{blobs, collect, info, maintenance, read, write};

/// How long an operation waits for a server that has not answered the earlier ones.
const TIME_AFTER_SILENCE: Duration = Duration::from_millis(300);

/// A store in a schema of a PostgreSQL database.
pub struct PostgresStore {
    location: String,
    schema: SchemaName,
    pub(crate) options: OpenOptions,
    project: ProjectScope,
    pool: Pool,
    /// Whether the schema is known to exist in a version that this program supports.
    pub(crate) is_ready: AtomicBool,
    pub(crate) written: RunCache,
    /// The user, once it is known.
    pub(crate) user: OnceLock<String>,
    /// Runs and messages that were read, until something is written. Only for a process that exits right after using
    /// the store.
    reads: Mutex<ReadCache>,
}

/// What a short process has read: runs with their messages, which are almost always needed together.
type ReadCache = HashMap<RunId, (Option<StoredRun>, read::runs::Messages)>;

impl PostgresStore {
    /// Opens a store. Does not connect; the first operation does.
    pub fn open(settings: &Settings, options: &OpenOptions) -> Self {
        Self {
            location: settings.address(),
            schema: SchemaName::new(settings.schema()),
            options: options.clone(),
            project: ProjectScope::new(options.project.clone()),
            pool: Pool::new(settings.clone()),
            is_ready: AtomicBool::new(false),
            written: RunCache::default(),
            user: OnceLock::new(),
            reads: Mutex::default(),
        }
    }

    /// A run with its messages, as this process has read it before.
    fn cached_run(&self, run: &RunId) -> Result<(Option<StoredRun>, read::runs::Messages), StoreError> {
        let lock = || self.reads.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(found) = lock().get(run) {
            return Ok(found.clone());
        }
        let found = read::runs::run_with_messages(self, run)?;
        lock().insert(run.clone(), found.clone());
        Ok(found)
    }

    fn forget_reads(&self) {
        self.reads.lock().unwrap_or_else(|e| e.into_inner()).clear();
    }

    pub(crate) fn schema(&self) -> &SchemaName {
        &self.schema
    }

    pub(crate) fn project(&self) -> &ProjectScope {
        &self.project
    }

    pub(crate) fn pool(&self) -> &Pool {
        &self.pool
    }

    pub(crate) fn location(&self) -> String {
        self.location.clone()
    }

    pub(crate) fn deadline(&self) -> Deadline {
        let (options, now) = (&self.options, Instant::now());
        let until = options.deadline.map(|end| end.saturating_duration_since(now));
        // A server that has not answered for the whole waiting time gets only a short time more.
        let silent = self.pool.silent_since().map(|since| {
            (since + options.wait).saturating_duration_since(now).max(TIME_AFTER_SILENCE.min(options.wait))
        });
        let limits = [options.time_limit, until, silent];
        Deadline::after(limits.into_iter().flatten().fold(options.wait, Duration::min))
    }

    pub(crate) fn check_writable(&self) -> Result<(), StoreError> {
        match &self.options.foreign {
            Some(why) => Err(StoreError::Untrusted { location: self.location(), why: why.clone() }),
            None => Ok(()),
        }
    }

    /// The error of an operation that writes. A write can also time out because others hold a lock.
    pub(crate) fn write_error(&self, e: PostgresError) -> StoreError {
        let location = self.location();
        match (e.problem(), e) {
            (_, e) if e.is_missing_schema() => StoreError::Missing { location },
            (_, e) if e.is_read_only() => StoreError::ReadOnly { location, source: e.into() },
            (_, PostgresError::TimedOut { waited }) => StoreError::Busy { location, waited },
            (Some(problem), e) => StoreError::Server { location, problem, source: e.into() },
            (None, e) => StoreError::Write { location, source: e.into() },
        }
    }

    /// The error of an operation that only reads.
    pub(crate) fn read_error(&self, e: PostgresError) -> StoreError {
        let location = self.location();
        match (e.problem(), e) {
            (_, e) if e.is_missing_schema() => StoreError::Missing { location },
            (Some(problem), e) => StoreError::Server { location, problem, source: e.into() },
            (None, e) => StoreError::Read { location, source: e.into() },
        }
    }

    /// The error of the reads that precede a commit. They wait for no lock, so a server that does not answer them in
    /// time cannot be reached.
    pub(crate) fn after_read(&self, e: StoreError) -> StoreError {
        match e {
            StoreError::Busy { location, waited } => StoreError::Server {
                location,
                problem: ServerProblem::TimedOut,
                source: PostgresError::TimedOut { waited }.into(),
            },
            e => e,
        }
    }

    /// The error of a write that cannot be looked up. If its reply may have been lost, its result is unknown.
    pub(crate) fn after_write(&self, e: StoreError, was_sent: bool) -> StoreError {
        match e {
            StoreError::Server { location, .. } | StoreError::Busy { location, .. } if was_sent => {
                StoreError::Unknown { location }
            }
            e => e,
        }
    }

    /// Runs work that may be repeated and that belongs to a write.
    pub(crate) fn run_work<T>(
        &self,
        deadline: &mut Deadline,
        mut work: impl FnMut(&mut Session, &Deadline) -> Result<T, Failed<StoreError>>,
    ) -> Result<T, StoreError> {
        let result =
            self.pool.run(deadline, |session, deadline| work(session, deadline).map_err(WorkError::wrap));
        result.map_err(|e| match e {
            WorkError::Store(e) => e,
            WorkError::Postgres(e) => self.write_error(e),
        })
    }

    /// Runs a read, which is repeated if the connection is lost.
    pub(crate) fn read<T>(
        &self,
        mut work: impl FnMut(&mut Session, &Deadline) -> Result<T, Failed<StoreError>>,
    ) -> Result<T, StoreError> {
        let mut deadline = self.deadline();
        self.prepare_schema(&mut deadline)?;
        // Waiting for the server and reading have the same limit each.
        let mut deadline = self.deadline();
        let result = self
            .pool
            .run(&mut deadline, |session, deadline| work(session, deadline).map_err(WorkError::wrap));
        result.map_err(|e| match e {
            WorkError::Store(e) => e,
            WorkError::Postgres(e) => self.read_error(e),
        })
    }

    /// The stamp of a run's last write; `None` if the run does not exist.
    pub(crate) fn run_row(&self, run: &RunId) -> Result<Option<u64>, StoreError> {
        self.read(|session, deadline| {
            let mut params = Params::new();
            let id = params.text(run.as_str());
            let sql = self.schema().fill(&format!("SELECT stamp FROM {{s}}.run WHERE run_id = {id}"));
            let rows = session.query(&sql, &params, deadline.left())?;
            Ok(rows.first().map(|row| number(row, "stamp")).transpose()?)
        })
    }
}

/// The error of work on a connection: of the store, or of the connection itself.
pub(crate) enum WorkError {
    Store(StoreError),
    Postgres(PostgresError),
}

impl WorkError {
    fn wrap(failed: Failed<StoreError>) -> Failed<Self> {
        match failed {
            Failed::Statement(e) => Failed::Statement(e),
            Failed::Final(e) => Failed::Final(Self::Store(e)),
        }
    }
}

impl From<PostgresError> for WorkError {
    fn from(e: PostgresError) -> Self {
        Self::Postgres(e)
    }
}

impl Store for PostgresStore {
    fn write(&self, run: &RunId, decide: &mut Decide<'_>) -> Result<Receipt, StoreError> {
        self.forget_reads();
        let written = write::write(self, run, decide);
        self.forget_reads();
        written
    }

    fn find_commit(&self, run: &RunId, token: &WriteToken) -> Result<Option<CommittedWrite>, StoreError> {
        read::runs::find_commit(self, run, token)
    }

    fn run(&self, run: &RunId) -> Result<Option<StoredRun>, StoreError> {
        if self.options.one_shot { Ok(self.cached_run(run)?.0) } else { read::runs::run(self, run) }
    }

    fn runs(&self, query: &RunQuery<'_>) -> Result<Vec<RunRow>, StoreError> {
        read::runs::runs(self, query)
    }

    fn headers(&self, query: &HeaderQuery<'_>) -> Result<Vec<Row>, StoreError> {
        read::headers::headers(self, query)
    }

    fn body(&self, run: &RunId, sequence: u64) -> Result<Vec<u8>, StoreError> {
        read::body::body(self, run, sequence)
    }

    fn events(&self, query: &EventQuery<'_>) -> Result<EventPage, StoreError> {
        read::events::events(self, query)
    }

    fn messages(&self, run: &RunId) -> Result<Vec<Result<Message, Damage>>, StoreError> {
        if self.options.one_shot { Ok(self.cached_run(run)?.1) } else { read::runs::messages(self, run) }
    }

    fn attachments(
        &self,
        run: &RunId,
        checkpoint: Option<&str>,
    ) -> Result<Vec<Result<Attachment, Damage>>, StoreError> {
        read::runs::attachments(self, run, checkpoint)
    }

    fn retention_entries(
        &self,
        run: &RunId,
        _newest: Option<u64>,
    ) -> Result<Vec<RetentionEntry>, StoreError> {
        read::headers::retention_entries(self, run)
    }

    fn put_blobs(&self, contents: &[&[u8]]) -> Result<(), StoreError> {
        blobs::put(self, contents)
    }

    fn missing_blobs(&self, ids: &[BlobId]) -> Result<Vec<BlobId>, StoreError> {
        blobs::missing(self, ids)
    }

    fn blob(&self, id: &BlobId) -> Result<Vec<u8>, StoreError> {
        blobs::read(self, id)
    }

    fn blob_contents(&self, ids: &[BlobId]) -> Result<Vec<Vec<u8>>, StoreError> {
        blobs::read_all(self, ids)
    }

    fn blobs(&self, after: Option<&BlobId>, limit: usize) -> Result<Vec<BlobEntry>, StoreError> {
        blobs::list(self, after, limit)
    }

    fn blob_bytes(&self) -> Result<u64, StoreError> {
        blobs::bytes(self)
    }

    fn blob_roots(&self) -> Result<Vec<(String, BlobId)>, StoreError> {
        blobs::roots(self)
    }

    fn collect_blobs(&self, find_live: &mut FindLiveBlobs<'_>) -> Result<CollectReport, StoreError> {
        collect::collect(self, find_live)
    }

    fn delete_run(&self, run: &RunId, only_at: Option<u64>) -> Result<bool, StoreError> {
        self.forget_reads();
        write::delete_run(self, run, only_at)
    }

    fn maintain(&self, what: Maintenance<'_>) -> Result<MaintenanceReport, StoreError> {
        maintenance::maintain(self, what)
    }

    fn current_user(&self) -> Result<Option<String>, StoreError> {
        self.prepare_schema(&mut self.deadline())?;
        Ok(self.user.get().cloned())
    }

    fn info(&self) -> Result<StoreInfo, StoreError> {
        info::info(self)
    }

    fn detailed_info(&self) -> Result<StoreInfo, StoreError> {
        info::detailed_info(self)
    }
}
