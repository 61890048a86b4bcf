//! A store on a server together with a store on this machine. What cannot be written to the server now, or should
//! not wait for it, is written locally and sent later (`engine::sync`). Takes both stores and decides for each run
//! which of them is read and written. Reads include what waits to be sent. Must not send anything itself.
//!
//! A run is written on this machine if the server cannot be reached, if a live process of this machine works in it,
//! if some of it waits to be sent, or if a commit refers to files, whose contents stay here. All other writes go to
//! the server directly.

mod fetch;
mod read;
mod thread_positions;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use super::{BlobEntry, Damage};
use super::{
    CollectReport, CommittedWrite, Decide, EventPage, EventQuery, FindLiveBlobs, HeaderQuery, Maintenance,
    MaintenanceReport, OpenOptions, Receipt, RetentionEntry, Row, RunQuery, RunRow, ServerProblem, Store,
    StoreError, StoreInfo, StoreUrl, StoredRun, WriteDecision,
};
use crate::model::{Attachment, BlobId, Message, RunId, RunOrigin, RunRecord, WriteToken};
use crate::owner::{self, Liveness};

/// How long a server that could not be reached is not tried again by the same handle.
const RETRY_AFTER: Duration = Duration::from_secs(20);

/// Added to the stamps of runs and checkpoints that wait to be sent. The two stores count separately; with this,
/// what waits is listed before what the server has.
const WAITING: u64 = 1 << 62;

options! {
    /// Options of a store on a server that has a copy on this machine.
    #[derive(Debug, Clone, Default)]
    pub struct SyncOptions {
        /// Uses only the store on this machine.
        pub offline: bool,
        /// Creates new runs on this machine, even if the server can be reached.
        pub local_first: bool,
        /// Users of the server whose runs are not foreign, in addition to the current user.
        pub trusted_users: Vec<String>,
        /// Treats the runs of every user of the server as trusted.
        pub trusts_all_users: bool,
    }
}

/// A store on a server, and the store on this machine in which its runs wait while it cannot be reached.
pub struct SyncedStore {
    server: Arc<dyn Store>,
    /// The address of the store on this machine, and how it is opened; `None` if it must not be used.
    local_address: Option<(StoreUrl, OpenOptions)>,
    local: Mutex<Option<Arc<dyn Store>>>,
    options: SyncOptions,
    /// The user of the server, once it is known.
    user: OnceLock<Option<String>>,
    outage: Mutex<Option<Outage>>,
    wrote_locally: AtomicBool,
}

/// Why the server could not be reached, and when.
#[derive(Debug, Clone)]
struct Outage {
    at: Instant,
    error: String,
}

/// A run in the store on this machine, with that store.
type LocalRun = Option<(Arc<dyn Store>, StoredRun)>;

/// Where a run is written.
enum Place {
    Local,
    Server,
}

impl SyncedStore {
    /// Combines a store on a server with a store on this machine, which is created when it is first needed. Without
    /// the second one, nothing can be written while the server cannot be reached.
    pub fn new(server: Box<dyn Store>, local: Option<(StoreUrl, OpenOptions)>, options: SyncOptions) -> Self {
        Self {
            server: Arc::from(server),
            local_address: local,
            local: Mutex::new(None),
            options,
            user: OnceLock::new(),
            outage: Mutex::new(None),
            wrote_locally: AtomicBool::new(false),
        }
    }

    /// Why the server could not be reached; `None` if it was reached or was not needed.
    pub fn outage(&self) -> Option<String> {
        self.last_outage().map(|outage| outage.error)
    }

    /// Whether this handle has written to the store on this machine.
    pub fn wrote_locally(&self) -> bool {
        self.wrote_locally.load(Ordering::Relaxed)
    }

    /// The store on the server.
    pub(crate) fn server(&self) -> &Arc<dyn Store> {
        &self.server
    }

    /// The address of the store on this machine.
    pub(crate) fn local_url(&self) -> Option<&StoreUrl> {
        self.local_address.as_ref().map(|(url, _)| url)
    }

    /// The store on this machine, if it exists.
    pub(crate) fn local(&self) -> Result<Option<Arc<dyn Store>>, StoreError> {
        let mut opened = self.local.lock().unwrap_or_else(|e| e.into_inner());
        if let (None, Some((url, options))) = (&*opened, &self.local_address)
            && url.exists()
        {
            *opened = Some(Arc::from(url.open(options)?));
        }
        Ok(opened.clone())
    }

    /// The store on this machine, which is created if needed; `None` if it must not be used.
    fn local_or_new(&self) -> Result<Option<Arc<dyn Store>>, StoreError> {
        if let Some(local) = self.local()? {
            return Ok(Some(local));
        }
        let Some((url, options)) = &self.local_address else { return Ok(None) };
        if let Some(folder) = url.path().and_then(std::path::Path::parent) {
            crate::fs::atomic::create_folder(folder)
                .map_err(|e| StoreError::Write { location: url.to_string(), source: e.into() })?;
        }
        let new: Arc<dyn Store> = Arc::from(url.open(&options.clone().create(true))?);
        *self.local.lock().unwrap_or_else(|e| e.into_inner()) = Some(Arc::clone(&new));
        Ok(Some(new))
    }

    fn last_outage(&self) -> Option<Outage> {
        self.outage.lock().unwrap_or_else(|e| e.into_inner()).clone()
    }

    /// Whether the server may be used now. One that could not be reached a moment ago is not tried again, because
    /// every try may take the whole waiting time.
    fn may_use_server(&self) -> bool {
        !self.options.offline && self.last_outage().is_none_or(|outage| outage.at.elapsed() > RETRY_AFTER)
    }

    /// Remembers an error of the server if it means that the server cannot be reached. Returns whether it does.
    pub(crate) fn note_outage(&self, e: &StoreError) -> bool {
        let is_outage = is_outage(e);
        if is_outage {
            let cause: &dyn std::error::Error = match e {
                StoreError::Server { source, .. } => &**source,
                other => other,
            };
            let outage = Outage { at: Instant::now(), error: crate::error::error_chain(cause) };
            *self.outage.lock().unwrap_or_else(|e| e.into_inner()) = Some(outage);
        }
        is_outage
    }

    /// Calls the server. Returns `None` if it is not to be used or cannot be reached, and there is a store on this
    /// machine to use instead.
    fn try_server<T>(
        &self,
        call: impl FnOnce(&dyn Store) -> Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        let has_local = self.options.offline || self.local()?.is_some();
        if has_local && !self.may_use_server() {
            return Ok(None);
        }
        match call(&*self.server) {
            Err(e) if self.note_outage(&e) && has_local => Ok(None),
            result => result.map(Some),
        }
    }

    /// A run in the store on this machine.
    fn local_run(&self, run: &RunId) -> Result<LocalRun, StoreError> {
        let Some(local) = self.local()? else { return Ok(None) };
        Ok(local.run(run)?.map(|stored| (local, stored)))
    }

    fn place_of(&self, run: &RunId) -> Result<Place, StoreError> {
        if self.options.offline {
            return Ok(Place::Local);
        }
        if let Some((_, stored)) = self.local_run(run)? {
            let stays = self.options.local_first
                || is_waiting(&stored.row)
                || is_live(&stored.row)
                || !self.may_use_server();
            return Ok(if stays { Place::Local } else { Place::Server });
        }
        if self.options.local_first {
            let exists = self.try_server(|server| server.run(run))?.flatten().is_some();
            return Ok(if exists { Place::Server } else { Place::Local });
        }
        Ok(if self.may_use_server() || self.local_address.is_none() { Place::Server } else { Place::Local })
    }

    /// Writes to the server. Returns `None` if the commit refers to files, so that the run must be written on this
    /// machine first.
    fn write_to_server(&self, run: &RunId, decide: &mut Decide<'_>) -> Result<Option<Receipt>, StoreError> {
        let keeps_files = self.local_address.is_some();
        let mut has_files = false;
        let written = self.server.write(run, &mut |view| {
            has_files = false;
            match decide(view) {
                WriteDecision::Commit(commit)
                    if keeps_files && !(commit.blobs.is_empty() && commit.roots.is_empty()) =>
                {
                    has_files = true;
                    WriteDecision::NoChange
                }
                decision => decision,
            }
        })?;
        Ok((!has_files).then_some(written))
    }

    fn write_locally(&self, run: &RunId, decide: &mut Decide<'_>) -> Result<Receipt, StoreError> {
        let Some(local) = self.local_or_new()? else {
            return Err(StoreError::Rules("there is no store on this machine to write to"));
        };
        self.wrote_locally.store(true, Ordering::Relaxed);
        let missing = match local.write(run, decide) {
            Err(StoreError::BlobsMissing(missing)) => missing,
            written => return written,
        };
        // The contents may be on the server only.
        for id in &missing {
            match self.try_server(|server| server.blob(id)) {
                Ok(Some(content)) => local.put_blobs(&[&content])?,
                Ok(None) | Err(StoreError::NoBlob(_)) => return Err(StoreError::BlobsMissing(missing)),
                Err(e) => return Err(e),
            }
        }
        local.write(run, decide)
    }

    /// The user of the server.
    fn user(&self) -> Result<Option<String>, StoreError> {
        if let Some(user) = self.user.get() {
            return Ok(user.clone());
        }
        let user = self.server.current_user()?;
        Ok(self.user.get_or_init(|| user).clone())
    }

    /// Gives a run of another user an origin, unless this user trusts the other one. Only the returned record has
    /// it: who wrote a run is known to the server, and who is trusted differs from user to user.
    fn mark_foreign(&self, row: &mut RunRow) -> Result<(), StoreError> {
        let (false, false, Ok(record)) =
            (self.options.trusts_all_users, row.users.is_empty(), &mut row.record)
        else {
            return Ok(());
        };
        let user = self.user()?;
        let is_trusted =
            |name: &&String| Some(*name) == user.as_ref() || self.options.trusted_users.contains(*name);
        if let (None, Some(other)) = (&record.origin, row.users.iter().find(|name| !is_trusted(name))) {
            record.origin =
                Some(RunOrigin { kind: "user".to_owned(), from: other.clone(), at: record.updated_at });
        }
        Ok(())
    }
}

/// Whether an error means that the server cannot be reached at the moment, and that nothing was changed.
fn is_outage(e: &StoreError) -> bool {
    use ServerProblem::{ConnectionLost, NotReady, Refused, TimedOut, TooManyConnections, UnknownHost};
    let StoreError::Server { problem, .. } = e else { return false };
    matches!(problem, Refused | UnknownHost | TimedOut | ConnectionLost | NotReady | TooManyConnections)
}

/// Whether some of a run in the store on this machine was not sent yet.
pub(crate) fn is_waiting(row: &RunRow) -> bool {
    let Ok(record) = &row.record else { return true };
    record.sync.as_ref().is_none_or(|sync| sync.stamp < row.stamp)
}

/// A digest of what a record says about the work. It does not change when others change marks or prune the run.
pub(crate) fn record_digest(record: &RunRecord) -> String {
    let work = RunRecord {
        origin: None,
        sync: None,
        maintenance: None,
        marks_changed: 0,
        completed_through: 0,
        updated_at: record.started_at,
        recent: Vec::new(),
        ..record.clone()
    };
    // A record always has a JSON form.
    let json = serde_json::to_vec(&work).unwrap_or_default();
    blake3::hash(&json).to_hex()[..32].to_owned()
}

/// Whether a live process of this machine works in a run.
pub(crate) fn is_live(row: &RunRow) -> bool {
    let is_live = |record: &RunRecord| {
        let owner = record.owner.as_ref().filter(|_| record.is_open());
        owner.is_some_and(|owner| owner::liveness(owner, None, None) == Liveness::Alive)
    };
    row.record.as_ref().is_ok_and(|record| is_live(record))
}

impl Store for SyncedStore {
    fn write(&self, run: &RunId, decide: &mut Decide<'_>) -> Result<Receipt, StoreError> {
        if matches!(self.place_of(run)?, Place::Local) {
            return self.write_locally(run, decide);
        }
        match self.write_to_server(run, decide) {
            Ok(Some(receipt)) => {
                if self.local_run(run)?.is_some() {
                    // The copy here must not stay behind. If this fails, the next fetch or send notices it.
                    let _ = self.fetch(run);
                }
                Ok(receipt)
            }
            Ok(None) => {
                self.fetch(run)?;
                self.write_locally(run, decide)
            }
            Err(e) if self.local_address.is_some() && self.note_outage(&e) => self.write_locally(run, decide),
            Err(e) => Err(e),
        }
    }

    fn find_commit(&self, run: &RunId, token: &WriteToken) -> Result<Option<CommittedWrite>, StoreError> {
        if let Some((local, _)) = self.local_run(run)?
            && let Some(found) = local.find_commit(run, token)?
        {
            return Ok(Some(found));
        }
        Ok(self.try_server(|server| server.find_commit(run, token))?.flatten())
    }

    fn run(&self, run: &RunId) -> Result<Option<StoredRun>, StoreError> {
        self.read_run(run)
    }

    fn runs(&self, query: &RunQuery<'_>) -> Result<Vec<RunRow>, StoreError> {
        self.list_runs(query)
    }

    fn headers(&self, query: &HeaderQuery<'_>) -> Result<Vec<Row>, StoreError> {
        self.list_headers(query)
    }

    fn body(&self, run: &RunId, sequence: u64) -> Result<Vec<u8>, StoreError> {
        self.read_body(run, sequence)
    }

    fn events(&self, query: &EventQuery<'_>) -> Result<EventPage, StoreError> {
        match query.run {
            Some(run) => self.read_of_run(run, |store| store.events(query)),
            None => Ok(self.try_server(|server| server.events(query))?.unwrap_or_default()),
        }
    }

    fn messages(&self, run: &RunId) -> Result<Vec<Result<Message, Damage>>, StoreError> {
        self.read_of_run(run, |store| store.messages(run))
    }

    fn attachments(
        &self,
        run: &RunId,
        checkpoint: Option<&str>,
    ) -> Result<Vec<Result<Attachment, Damage>>, StoreError> {
        self.read_of_run(run, |store| store.attachments(run, checkpoint))
    }

    fn retention_entries(&self, run: &RunId, newest: Option<u64>) -> Result<Vec<RetentionEntry>, StoreError> {
        match (self.place_of(run)?, self.local()?) {
            (Place::Local, Some(local)) => local.retention_entries(run, newest),
            (Place::Local, None) => Ok(Vec::new()),
            (Place::Server, _) => self.server.retention_entries(run, newest),
        }
    }

    fn put_blobs(&self, contents: &[&[u8]]) -> Result<(), StoreError> {
        match self.local_or_new()? {
            Some(local) => local.put_blobs(contents),
            None => self.server.put_blobs(contents),
        }
    }

    fn missing_blobs(&self, ids: &[BlobId]) -> Result<Vec<BlobId>, StoreError> {
        let missing = match self.local()? {
            Some(local) => local.missing_blobs(ids)?,
            None => ids.to_vec(),
        };
        if missing.is_empty() {
            return Ok(missing);
        }
        Ok(self.try_server(|server| server.missing_blobs(&missing))?.unwrap_or(missing))
    }

    fn blob(&self, id: &BlobId) -> Result<Vec<u8>, StoreError> {
        if let Some(local) = self.local()? {
            match local.blob(id) {
                Err(StoreError::NoBlob(_)) => {}
                found => return found,
            }
        }
        self.try_server(|server| server.blob(id))?.ok_or(StoreError::NoBlob(*id))
    }

    fn blobs(&self, after: Option<&BlobId>, limit: usize) -> Result<Vec<BlobEntry>, StoreError> {
        self.of_files(|store| store.blobs(after, limit))
    }

    fn blob_bytes(&self) -> Result<u64, StoreError> {
        self.of_files(|store| store.blob_bytes())
    }

    fn blob_roots(&self) -> Result<Vec<(String, BlobId)>, StoreError> {
        self.of_files(|store| store.blob_roots())
    }

    fn collect_blobs(&self, find_live: &mut FindLiveBlobs<'_>) -> Result<CollectReport, StoreError> {
        match (self.local()?, &self.local_address) {
            (Some(local), _) => local.collect_blobs(find_live),
            (None, Some(_)) => Ok(CollectReport::default()),
            (None, None) => self.server.collect_blobs(find_live),
        }
    }

    fn delete_run(&self, run: &RunId, only_at: Option<u64>) -> Result<bool, StoreError> {
        if let Some(at) = only_at.filter(|at| *at >= WAITING) {
            let local = self.local()?;
            return local.map_or(Ok(false), |local| local.delete_run(run, Some(at - WAITING)));
        }
        let deleted = self.server.delete_run(run, only_at)?;
        match self.local()? {
            Some(local) if deleted || only_at.is_none() => Ok(local.delete_run(run, None)? || deleted),
            _ => Ok(deleted),
        }
    }

    fn maintain(&self, what: Maintenance<'_>) -> Result<MaintenanceReport, StoreError> {
        match self.try_server(|server| server.maintain(what))? {
            Some(report) => Ok(report),
            None => {
                self.local()?.map_or_else(|| Ok(MaintenanceReport::default()), |local| local.maintain(what))
            }
        }
    }

    fn lost_writes(&self) -> Result<u64, StoreError> {
        self.local()?.map_or(Ok(0), |local| local.lost_writes())
    }

    fn current_user(&self) -> Result<Option<String>, StoreError> {
        self.user()
    }

    fn info(&self) -> Result<StoreInfo, StoreError> {
        self.info_by(|store| store.info())
    }

    fn detailed_info(&self) -> Result<StoreInfo, StoreError> {
        self.info_by(|store| store.detailed_info())
    }
}
