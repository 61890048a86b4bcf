//! The engine: one file per verb. The command line, hooks, servers and bindings call this module and
//! nothing below it. Takes requests and returns results or one typed error. Must not print or read the
//! environment.

pub(crate) mod agent_session;
mod attachments;
mod bookkeeping;
#[cfg(feature = "brief")]
pub(crate) mod brief;
pub(crate) mod capture;
mod change;
mod collect;
mod complete;
pub(crate) mod compose;
mod conversation;
pub(crate) mod current;
mod delete;
mod diff;
pub(crate) mod doctor;
mod document;
pub(crate) mod due;
mod events;
#[cfg(feature = "interop")]
mod export;
pub(crate) mod files;
mod finish;
#[cfg(feature = "interop")]
pub(crate) mod import;
pub(crate) mod lineage;
mod list;
mod lookup;
mod mark;
pub(crate) mod outbox;
mod patch;
pub(crate) mod pointer;
mod prune;
mod purge;
mod rebuild;
mod record;
mod reference;
mod report;
mod request;
mod restore;
pub(crate) mod resume;
pub(crate) mod run_groups;
pub(crate) mod run_options;
mod runs;
mod save;
#[cfg(feature = "search")]
mod search;
pub(crate) mod show;
pub(crate) mod since;
pub(crate) mod snapshot;
pub(crate) mod start;
pub(crate) mod state;
mod summary;
mod sync;
#[cfg(feature = "threads")]
mod threads;
mod timeline;
pub(crate) mod transfer;
mod transfer_files;
mod verify;
mod verify_files;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub use diff::Diff;
pub(crate) use due::Due;
pub use events::EventList;
#[cfg(feature = "interop")]
pub use export::{ExportOptions, ExportReport};
pub use files::{Files, Worktree};
#[cfg(feature = "interop")]
pub use import::{ImportOptions, ImportReport};
pub use list::{CheckpointList, ListQuery, ListedCheckpoint};
pub use mark::MarkChange;
pub use patch::FilePatches;
pub use prune::{PruneAction, PruneFailure, PruneOptions, PruneReport, PruneStep};
pub use purge::PurgeReport;
pub use reference::Reference;
pub use request::Save;
pub(crate) use request::SaveCondition;
pub use restore::{
    KeptFile, PlannedFile, RestoreAction, RestorePlan, RestoreReport, RestoreScope, UndoPoint,
};
pub(crate) use resume::{ContinueOptions, RunAssessment};
pub(crate) use run_options::{RunLocation, RunOptions};
pub use runs::{RunDetail, RunSummary, RunsQuery};
pub use save::Saved;
pub use show::ShownCheckpoint;
pub(crate) use start::{IfCompleted, StartOptions, StartedRun};
pub use state::{CheckpointState, RestoreOptions};
pub use summary::{FailedOutcome, GitCounts, SessionSummary, Summary, SummaryLine, TouchedFile};
pub use sync::{SyncReport, Waiting};
#[cfg(feature = "threads")]
pub use threads::{LoadedThread, ThreadEntry, ThreadHistory, ThreadList, ThreadQuery, Threads};
pub use timeline::{
    CheckpointFacts, MessageKind, RunFacts, Timeline, TimelineCheckpoint, TimelineGap, TimelineMessage,
    TimelineSession,
};
pub use transfer::CopyReport;
pub use verify::{DamagedFile, VerifyReport, VerifyScope};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::Error;
use crate::clock::{Clock, SystemClock};
use crate::model::{
    ClockReading, Event, KeepCount, Profile, Retention, RunId, RunRecord, SizeLimits, StoreLimits,
    ValidationError,
};
use crate::redact::{AllowList, Redaction};
use crate::resume::ResumePolicy;
use crate::store::project_paths::ProjectPaths;
use crate::store::{
    Commit, Decide, OpenOptions, Receipt, Store, StoreError, StoreReader, StoreUrl, SyncedStore,
    WriteDecision,
};

options! {
    /// Settings of an engine: retention, limits, redaction.
    #[derive(Debug, Clone, Default)]
    pub struct Settings {
        /// The profile of runs that are opened without one.
        pub(crate) profile: Option<Profile>,
        /// Overrides the number of checkpoints that the profile keeps.
        pub(crate) keep_last: Option<KeepCount> [internal],
        /// Overrides the profile's maximum age; `Some(None)` means no maximum.
        pub(crate) max_age: Option<Option<Duration>>,
        /// Minimum number of kept checkpoints, applied on top of the profile and `keep_last`.
        pub(crate) keep_last_at_least: Option<KeepCount> [internal],
        /// Minimum for the maximum age, applied on top of the profile and `max_age`; `Some(None)` means no
        /// maximum.
        pub(crate) max_age_at_least: Option<Option<Duration>> [internal],
        /// Keeps the newest checkpoint of each of the last N hours that have one.
        pub(crate) keep_hourly: u64 [number],
        /// Keeps the newest checkpoint of each of the last N days that have one.
        pub(crate) keep_daily: u64 [number],
        /// Keeps the newest checkpoint of each of the last N weeks that have one.
        pub(crate) keep_weekly: u64 [number],
        /// Keeps every checkpoint younger than this.
        pub(crate) keep_within: Option<Duration>,
        /// Limits for the store as a whole.
        pub(crate) store_limits: StoreLimits [internal],
        /// Size limits for the caller's input.
        pub(crate) limits: SizeLimits [internal],
        /// Whether secrets are replaced; off by default.
        pub(crate) redaction: Redaction,
        /// Values that look like secrets but are not replaced.
        pub(crate) redaction_allow: AllowList,
        /// Whether files that contain secrets may leave the store in copies and bundles.
        pub(crate) files_with_secrets: bool [internal],
        /// The policy for resuming runs.
        pub(crate) resume: ResumePolicy [internal],
        /// The pointer file, which also contains the current checkpoint's id.
        pub(crate) pointer: Option<pointer::Pointer> [internal],
        /// Whether an abbreviated name ignores runs from elsewhere if it also matches other runs or
        /// checkpoints, and errors do not list them. For callers that pass text to an agent.
        pub(crate) hide_foreign_runs: bool [internal],
    }
}

setters! {
    impl Settings {
        /// Sets the maximum size of one field in bytes (0 = no limit).
        pub fn max_field_bytes(bytes: u64) => limits.field = bytes;

        /// Sets the maximum total size, in bytes, of the fields that a caller passes for one checkpoint. 0
        /// means no limit.
        pub fn max_checkpoint_bytes(bytes: u64) => limits.checkpoint = bytes;

        /// Sets the store size, in bytes, above which `prune` reduces the oldest ended runs to the minimum
        /// that is always kept (0 = no limit).
        pub fn max_store_bytes(bytes: u64) => store_limits.max_bytes = bytes;

        /// Sets how long ended runs are kept before `prune` removes them; `None` keeps them forever.
        pub fn remove_ended_after(age: impl Into<Option<Duration>>) => store_limits.ended_after = age.into();

        /// Sets how often an interrupted run may be continued without making progress.
        pub fn resume_attempts(attempts: u64) => resume.attempts = attempts;

        /// Sets how long a live owner may be silent before its run counts as stalled.
        pub fn stalled_after(silence: Duration) => resume.stalled = silence;
    }
}

impl Settings {
    /// Sets how many of a run's newest checkpoints are kept, at least 1, regardless of its profile.
    pub fn keep_newest(self, count: u64) -> Self {
        self.keep_last(KeepCount::Last(count.max(1)))
    }

    /// The profile of runs that are opened without one.
    pub fn default_profile(&self) -> Profile {
        self.profile.unwrap_or(Profile::Run)
    }

    /// The retention policy for runs of this profile, with these settings applied.
    #[cfg_attr(feature = "internal", visibility::make(pub))]
    pub(crate) fn retention(&self, profile: Profile) -> Retention {
        let mut retention = profile.retention();
        // The program that keeps a thread decides: a checkpoint may need the values of its ancestors.
        if profile == Profile::Thread {
            return retention;
        }
        if let Some(keep_last) = self.keep_last {
            retention.keep_last = keep_last;
        }
        if let Some(max_age) = self.max_age {
            retention.max_age = max_age;
        }
        if let Some(least) = self.keep_last_at_least {
            retention.keep_last = retention.keep_last.larger(least);
        }
        if let Some(least) = self.max_age_at_least {
            retention.max_age = retention.max_age.zip(least).map(|(age, least)| age.max(least));
        }
        Retention {
            keep_hourly: self.keep_hourly,
            keep_daily: self.keep_daily,
            keep_weekly: self.keep_weekly,
            keep_within: self.keep_within,
            ..retention
        }
    }
}

/// An open store and the operations on it. Cheap to clone and safe to share between threads.
#[derive(Clone)]
pub struct Milepost {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    settings: Arc<Settings>,
    /// The folder of the owners' lock files; `None` for a store that the caller supplied.
    pub(crate) owners: Option<PathBuf>,
    /// Touched files of the newest capture saved through this handle, so that the next capture need not
    /// read them.
    touched: Arc<Mutex<Option<capture::TouchedFiles>>>,
    /// The location of runs that are opened without one.
    pub(crate) location: RunLocation,
    /// The address of the store; empty for a store that the caller supplied.
    address: Arc<str>,
    /// The store, if it is on a server and has a copy on this machine.
    synced: Option<Arc<SyncedStore>>,
    /// The index for searches.
    #[cfg(feature = "search")]
    search: search::SearchSlot,
}

impl std::fmt::Debug for Milepost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Milepost").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Milepost {
    /// Opens the store of the project that contains `folder`, and creates it if needed.
    #[cfg(feature = "sqlite")]
    pub fn open(folder: impl AsRef<Path>) -> Result<Self, Error> {
        let folder = folder.as_ref();
        let paths = ProjectPaths::find(folder).map_err(Error::file(folder, "read"))?;
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let location = RunLocation {
            project: Some(text(&paths.root)),
            project_id: None,
            worktree: paths.worktree.as_deref().map(text),
            branch: paths.branch,
            head: paths.repository.as_ref().and_then(crate::store::Repository::head_commit),
            user: None,
            host: None,
        };
        let url = StoreUrl::sqlite(paths.database);
        let opened = Self::at(&url, &OpenOptions::new().create(true))?;
        Ok(Self { location, ..opened })
    }

    /// Opens the store at an address.
    pub fn at(url: &StoreUrl, options: &OpenOptions) -> Result<Self, Error> {
        let store = Arc::from(url.open(options)?);
        let address = url.absolute().to_string().into();
        Ok(Self {
            owners: url.owners_folder(),
            address,
            // A foreign store is never written to.
            #[cfg(feature = "search")]
            search: search::SearchSlot::at(url.search_index().filter(|_| options.foreign.is_none())),
            ..Self::on(store)
        })
    }

    /// Uses a store that the caller supplies.
    pub fn on(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            clock: Arc::new(SystemClock),
            settings: Arc::default(),
            owners: None,
            touched: Arc::default(),
            location: RunLocation::default(),
            address: Arc::from(""),
            synced: None,
            #[cfg(feature = "search")]
            search: search::SearchSlot::default(),
        }
    }

    /// Uses these settings.
    #[must_use]
    pub fn with_settings(mut self, settings: Settings) -> Self {
        self.settings = Arc::new(settings);
        self
    }

    /// Uses this clock.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Read access to the store.
    pub fn store(&self) -> StoreReader<'_> {
        StoreReader(&*self.store)
    }

    /// The store itself. Writes through it bypass redaction.
    #[cfg(feature = "internal")]
    pub fn raw_store(&self) -> &dyn Store {
        &*self.store
    }

    /// The engine's settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The current time, by the engine's clock.
    pub fn now(&self) -> jiff::Timestamp {
        self.clock.now()
    }

    fn read_clock(&self) -> ClockReading {
        crate::clock::read(&*self.clock)
    }

    /// Runs a decision inside a store write. Retries if the reply to a commit was lost; the decision recognises its own
    /// commit by its token, and a commit without one gets a token here. Rebuilds the run's record first if it is
    /// damaged.
    fn write(&self, run: &RunId, decide: &mut Decide<'_>) -> Result<Receipt, Error> {
        self.write_with_blobs(run, &[], decide)
    }

    /// Like `write`, but first stores blobs that the commit refers to.
    fn write_with_blobs(
        &self,
        run: &RunId,
        contents: &[&[u8]],
        decide: &mut Decide<'_>,
    ) -> Result<Receipt, Error> {
        const TRIES: u32 = 5;
        let mut tries = 1;
        let mut in_doubt = false;
        loop {
            let (mut damaged, mut token) = (false, None);
            let written = self.store.write_with_blobs(run, contents, &mut |view| {
                damaged = view.record.is_none() && view.count > 0;
                let mut decision = if damaged { WriteDecision::NoChange } else { decide(view) };
                token = match &mut decision {
                    WriteDecision::Commit(commit) => Some(commit.token_or_new()),
                    _ => None,
                };
                decision
            });
            match written {
                Err(unknown @ StoreError::Unknown { .. }) => {
                    match token.map(|token| self.store.find_commit(run, &token)).transpose() {
                        Ok(Some(Some(_))) => return Ok(Receipt::default()),
                        Ok(_) if tries < TRIES => in_doubt = true,
                        // Whether the commit was applied cannot be found out.
                        Ok(_) | Err(_) => return Err(unknown.into()),
                    }
                }
                // What happened to the earlier try is still not known.
                Err(StoreError::Server { location, .. } | StoreError::Busy { location, .. }) if in_doubt => {
                    return Err(StoreError::Unknown { location }.into());
                }
                Ok(_) if damaged && tries < TRIES => self.rebuild_record(run)?,
                other => return Ok(other?),
            }
            tries += 1;
        }
    }
}

impl Milepost {
    /// Changes a run's record and adds the events that `change` returns, in one write. If `change` returns
    /// `None`, nothing is written. Returns whether the run has a record.
    fn update_record(
        &self,
        run: &RunId,
        mut change: impl FnMut(&mut RunRecord) -> Option<Vec<Event>>,
    ) -> Result<bool, Error> {
        let mut found = false;
        self.write(run, &mut |view| {
            let Some(mut record) = view.record.clone() else { return WriteDecision::NoChange };
            found = true;
            let Some(events) = change(&mut record) else { return WriteDecision::NoChange };
            let mut commit = Commit::new(record);
            commit.events = events;
            WriteDecision::Commit(Box::new(commit))
        })?;
        Ok(found)
    }

    /// Replaces secrets in the value if the settings enable redaction.
    fn redact<T: Serialize + DeserializeOwned>(&self, value: T, name: &str) -> Result<T, Error> {
        match self.settings.redaction {
            Redaction::On => Ok(self.settings.redaction_allow.redact_value(value, name)?.0),
            Redaction::Off => Ok(value),
        }
    }

    /// Refuses a run id that contains a secret, if redaction is on.
    pub(crate) fn check_run_name(&self, run: &RunId, redaction: Redaction) -> Result<(), Error> {
        match redaction {
            Redaction::On => check_run_name(run, &self.settings.redaction_allow),
            Redaction::Off => Ok(()),
        }
    }
}

/// Refuses a run id that contains a secret. The secret cannot be redacted, because folders and rows are named
/// by the id.
fn check_run_name(run: &RunId, allow: &AllowList) -> Result<(), Error> {
    match allow.redact_text(run.as_str()) {
        None => Ok(()),
        Some(clean) => Err(Error::Value {
            name: "the run's id".into(),
            source: ValidationError {
                path: "/run_id".into(),
                message: format!("it contains a secret: {clean}"),
            },
        }),
    }
}
