//! Wrappers that make any store misbehave within the rules, one fault each: repeated decisions, lost
//! requests, lost replies, changes between two reads. Deterministic by seed. Must not break a rule of the
//! trait, so that a failure is always a bug of the caller or of the wrapped store.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use milepost::model::{Attachment, BlobId, Message, RunId, WriteToken};
use milepost::store::{
    BlobEntry, CollectReport, CommittedWrite, Damage, Decide, EventPage, EventQuery, FindLiveBlobs,
    HeaderQuery, Maintenance, MaintenanceReport, Receipt, RetentionEntry, Row, RunQuery, RunRow, RunView,
    ServerProblem, Store, StoreError, StoreInfo, StoredRun, WriteDecision,
};

use crate::rng::Rng;

/// Forwards all methods except `write`, and `body` if it is excluded, to the store that the expression
/// returns. The expression may use the name of the method.
macro_rules! forward {
    ($this:ident, $name:ident => $store:expr) => {
        forward! { @methods $this, $name => $store;
            body(run: &RunId, sequence: u64) -> Vec<u8>;
        }
        forward!($this, $name => $store, without body);
    };
    ($this:ident, $name:ident => $store:expr, without body) => {
        forward! { @methods $this, $name => $store;
            find_commit(run: &RunId, token: &WriteToken) -> Option<CommittedWrite>;
            run(run: &RunId) -> Option<StoredRun>;
            runs(query: &RunQuery<'_>) -> Vec<RunRow>;
            headers(query: &HeaderQuery<'_>) -> Vec<Row>;
            events(query: &EventQuery<'_>) -> EventPage;
            messages(run: &RunId) -> Vec<Result<Message, Damage>>;
            attachments(run: &RunId, checkpoint: Option<&str>) -> Vec<Result<Attachment, Damage>>;
            retention_entries(run: &RunId, newest: Option<u64>) -> Vec<RetentionEntry>;
            put_blobs(contents: &[&[u8]]) -> ();
            missing_blobs(ids: &[BlobId]) -> Vec<BlobId>;
            blob(id: &BlobId) -> Vec<u8>;
            blobs(after: Option<&BlobId>, limit: usize) -> Vec<BlobEntry>;
            blob_bytes() -> u64;
            blob_roots() -> Vec<(String, BlobId)>;
            collect_blobs(find_live: &mut FindLiveBlobs<'_>) -> CollectReport;
            delete_run(run: &RunId, only_at: Option<u64>) -> bool;
            maintain(what: Maintenance<'_>) -> MaintenanceReport;
            info() -> StoreInfo;
            detailed_info() -> StoreInfo;
        }
    };
    (@methods $this:ident, $name:ident => $store:expr;
        $($method:ident($($arg:ident: $kind:ty),*) -> $answer:ty;)*) => {
        $(
            fn $method(&$this, $($arg: $kind),*) -> Result<$answer, StoreError> {
                let $name = stringify!($method);
                $store.$method($($arg),*)
            }
        )*
    };
}

/// Counts the calls of each method, so that a test can check how often data is read.
pub struct CountCalls {
    inner: Arc<dyn Store>,
    calls: Mutex<BTreeMap<&'static str, u64>>,
}

impl CountCalls {
    /// Wraps a store.
    pub fn new(inner: Arc<dyn Store>) -> Self {
        Self { inner, calls: Mutex::default() }
    }

    /// Returns the number of calls per method since the last `take`.
    pub fn take(&self) -> Vec<(&'static str, u64)> {
        std::mem::take(&mut *self.calls.lock().unwrap()).into_iter().collect()
    }

    fn count(&self, method: &'static str) -> &dyn Store {
        *self.calls.lock().unwrap().entry(method).or_default() += 1;
        self.inner.as_ref()
    }
}

impl Store for CountCalls {
    fn write(&self, run: &RunId, decide: &mut Decide<'_>) -> Result<Receipt, StoreError> {
        self.count("write").write(run, decide)
    }

    forward!(self, method => self.count(method));
}

/// Calls each decision one to three times and uses only the last result, as a store that retries does.
#[derive(Debug)]
pub struct AskAgain<S> {
    inner: S,
    rng: Rng,
}

impl<S: Store> AskAgain<S> {
    /// Wraps a store.
    pub fn new(inner: S, seed: u64) -> Self {
        Self { inner, rng: Rng::new(seed) }
    }
}

impl<S: Store> Store for AskAgain<S> {
    fn write(&self, run: &RunId, decide: &mut Decide<'_>) -> Result<Receipt, StoreError> {
        let extra = self.rng.below(3);
        // Half of the retries follow an abandoned transaction, so that other writers can write in between.
        let given_up = self.rng.below(2) == 0;
        if extra > 0 && given_up {
            self.inner.write(run, &mut |view| match decide(&view.clone()) {
                WriteDecision::NeedDetails => WriteDecision::NeedDetails,
                _ => WriteDecision::NoChange,
            })?;
        }
        let repeats = extra - u64::from(extra > 0 && given_up);
        self.inner.write(run, &mut |view: &RunView| {
            for _ in 0..repeats {
                let _ = decide(&view.clone());
            }
            decide(view)
        })
    }

    forward!(self, _method => self.inner);
}

/// Applies some commits and then reports that the reply was lost.
#[derive(Debug)]
pub struct LoseReplies<S> {
    inner: S,
    rng: Rng,
    per_mille: u64,
}

impl<S: Store> LoseReplies<S> {
    /// Wraps a store. `per_mille` commits in a thousand lose their reply.
    pub fn new(inner: S, seed: u64, per_mille: u64) -> Self {
        Self { inner, rng: Rng::new(seed), per_mille }
    }
}

impl<S: Store> Store for LoseReplies<S> {
    fn write(&self, run: &RunId, decide: &mut Decide<'_>) -> Result<Receipt, StoreError> {
        let mut commits = false;
        let receipt = self.inner.write(run, &mut |view| {
            let verdict = decide(view);
            commits = matches!(verdict, WriteDecision::Commit(_));
            verdict
        })?;
        if commits && self.rng.per_mille(self.per_mille) { Err(lost()) } else { Ok(receipt) }
    }

    forward!(self, _method => self.inner);
}

/// Discards some commits after the decision, with the same error as for a lost reply. The store is unchanged.
#[derive(Debug)]
pub struct LoseRequests<S> {
    inner: S,
    rng: Rng,
    per_mille: u64,
}

impl<S: Store> LoseRequests<S> {
    /// Wraps a store. `per_mille` commits in a thousand are discarded.
    pub fn new(inner: S, seed: u64, per_mille: u64) -> Self {
        Self { inner, rng: Rng::new(seed), per_mille }
    }
}

impl<S: Store> Store for LoseRequests<S> {
    fn write(&self, run: &RunId, decide: &mut Decide<'_>) -> Result<Receipt, StoreError> {
        if !self.rng.per_mille(self.per_mille) {
            return self.inner.write(run, decide);
        }
        let mut lose = false;
        let receipt = self.inner.write(run, &mut |view| {
            let verdict = decide(view);
            lose = matches!(verdict, WriteDecision::Commit(_));
            if let WriteDecision::NeedDetails = verdict { verdict } else { WriteDecision::NoChange }
        })?;
        if lose { Err(lost()) } else { Ok(receipt) }
    }

    forward!(self, _method => self.inner);
}

/// A store on a server that can be made unreachable: every call then fails, and nothing is changed.
pub struct Outage {
    inner: Arc<dyn Store>,
    is_down: Arc<AtomicBool>,
}

impl Outage {
    /// Wraps a store. The server is unreachable while `is_down` is true.
    pub fn new(inner: Arc<dyn Store>, is_down: Arc<AtomicBool>) -> Self {
        Self { inner, is_down }
    }

    fn reached(&self) -> Result<&dyn Store, StoreError> {
        if !self.is_down.load(Ordering::Relaxed) {
            return Ok(&*self.inner);
        }
        let source = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        let location = "a server".to_owned();
        Err(StoreError::Server { location, problem: ServerProblem::Refused, source: source.into() })
    }
}

impl Store for Outage {
    fn write(&self, run: &RunId, decide: &mut Decide<'_>) -> Result<Receipt, StoreError> {
        self.reached()?.write(run, decide)
    }

    forward!(self, _method => self.reached()?);
}

type BeforeBody = dyn Fn(&dyn Store, &RunId, u64) -> Result<(), StoreError> + Send + Sync;
type AfterWrite = dyn Fn(&dyn Store, &RunId) + Send + Sync;

/// Runs an action on the store between two calls of its user, as another process may do: before a document is
/// read, for example after it was listed, and after a write.
pub struct Interleave {
    inner: Arc<dyn Store>,
    before_body: Box<BeforeBody>,
    after_write: Box<AfterWrite>,
}

impl Interleave {
    /// Wraps a store, without callbacks.
    pub fn new(inner: Arc<dyn Store>) -> Self {
        Self { inner, before_body: Box::new(|_, _, _| Ok(())), after_write: Box::new(|_, _| ()) }
    }

    /// Sets a callback that is called with the run and the sequence number before a document is read. If it
    /// returns an error, the read fails with that error.
    #[must_use]
    pub fn before_body(
        mut self,
        act: impl Fn(&dyn Store, &RunId, u64) -> Result<(), StoreError> + Send + Sync + 'static,
    ) -> Self {
        self.before_body = Box::new(act);
        self
    }

    /// Sets a callback that is called after each successful write.
    #[must_use]
    pub fn after_write(mut self, act: impl Fn(&dyn Store, &RunId) + Send + Sync + 'static) -> Self {
        self.after_write = Box::new(act);
        self
    }
}

impl Store for Interleave {
    fn write(&self, run: &RunId, decide: &mut Decide<'_>) -> Result<Receipt, StoreError> {
        let receipt = self.inner.write(run, decide)?;
        (self.after_write)(&*self.inner, run);
        Ok(receipt)
    }

    fn body(&self, run: &RunId, sequence: u64) -> Result<Vec<u8>, StoreError> {
        (self.before_body)(&*self.inner, run, sequence)?;
        self.inner.body(run, sequence)
    }

    forward!(self, _method => self.inner, without body);
}

fn lost() -> StoreError {
    StoreError::Unknown { location: "fault store".into() }
}

/// All faults around one store.
pub type FaultStore<S> = LoseReplies<LoseRequests<AskAgain<S>>>;

/// How often each fault occurs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Faults {
    /// Seed of the pseudo-random choices.
    pub seed: u64,
    /// Commits in a thousand that are applied, but whose reply is lost.
    pub lost_replies: u64,
    /// Commits in a thousand that are discarded and reported as if their reply were lost.
    pub lost_requests: u64,
}

impl Faults {
    /// Wraps a store in all faults. Decisions are always called one to three times.
    pub fn around<S: Store>(self, inner: S) -> FaultStore<S> {
        let inner = AskAgain::new(inner, self.seed);
        let inner = LoseRequests::new(inner, self.seed ^ 0x5eed, self.lost_requests);
        LoseReplies::new(inner, self.seed ^ 0xfade, self.lost_replies)
    }
}
