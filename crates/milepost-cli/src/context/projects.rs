//! Opens the stores of all projects that this user created or trusted on this machine, several at a time. Projects
//! whose folder is gone, and stores that are no longer trusted, are left out. Those that cannot be read are reported.
//! Changes nothing.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use milepost::internal::store::identity::read_id;
use milepost::internal::trust::StoreRecord;
use milepost::store::StoreUrl;
use milepost::{Error, Milepost};

use super::Context;
use super::store::lost_writes;
use crate::config::Config;
use crate::error::{CommandError, Result};
use crate::present::Output;

/// Maximum number of projects that are read at the same time. Most of the time of a server is spent waiting.
const THREADS: usize = 16;
/// Maximum time for a store on a server.
const SERVER_TIME: Duration = Duration::from_secs(1);
/// Maximum time to wait for a store on this machine that another process is writing to.
const LOCAL_WAIT: Duration = Duration::from_millis(300);

/// A project of this user, and its store.
#[derive(Debug, Clone)]
pub(crate) struct KnownProject {
    /// Identifies the project while its store and its folder stay the same.
    #[cfg_attr(not(feature = "ui"), allow(dead_code, reason = "only the page uses it"))]
    pub(crate) key: String,
    pub(crate) root: PathBuf,
    /// The address of the store, without a password.
    pub(crate) store: String,
}

/// The key of the current project, if its store is not recorded.
#[cfg(feature = "ui")]
const CURRENT: &str = "current";
/// Maximum time that a page waits for a store.
#[cfg(feature = "ui")]
const PAGE_WAIT: Duration = Duration::from_secs(5);

/// A project that was opened to look at it.
#[cfg(feature = "ui")]
pub(crate) struct OpenedProject {
    pub(crate) key: String,
    pub(crate) root: PathBuf,
    pub(crate) store: String,
    pub(crate) milepost: Milepost,
    pub(crate) allow: milepost::AllowList,
    /// Whether runs that came from elsewhere are hidden.
    pub(crate) hides_foreign_runs: bool,
    /// Why the store is not trusted.
    pub(crate) untrusted: Option<String>,
}

/// A project whose store could not be read completely.
#[derive(Debug)]
pub(crate) struct ProjectError {
    pub(crate) project: KnownProject,
    pub(crate) message: String,
}

/// A project with its settings. The settings of the user and of the project decide, and the store that was chosen for
/// the current command if it is the recorded one.
struct Candidate {
    project: KnownProject,
    config: Config,
}

impl Context<'_> {
    /// Calls `work` for every project of this user, and returns the results. `work` gets an open store that was not
    /// read yet.
    pub(crate) fn read_projects<T: Send>(
        &self,
        work: impl Fn(&KnownProject, &Context<'_>, &Milepost) -> Result<T> + Sync,
    ) -> (Vec<(KnownProject, T)>, Vec<ProjectError>) {
        let places = self.recorded_places();
        let chosen = self.chosen_store();
        let (output, audience) = (Output::collecting(), self.audience);
        let (found, failed) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
        let read = |place: &(StoreRecord, PathBuf)| {
            let (candidate, problem) = find(&place.0, &place.1, chosen.as_deref());
            lock(&failed).extend(problem);
            let Some(Candidate { project, config }) = candidate else { return };
            let context = Context::for_audience(config, &output, audience);
            let result = context.open_to_look().map_err(CommandError::from).and_then(|mp| {
                let done = work(&project, &context, &mp)?;
                let outage = mp.synced().and_then(milepost::store::SyncedStore::outage);
                Ok((done, outage.or_else(|| lost_writes(&mp))))
            });
            match result {
                Ok((done, problem)) => {
                    if let Some(message) = problem {
                        lock(&failed).push(ProjectError { project: project.clone(), message });
                    }
                    lock(&found).push((project, done));
                }
                Err(e) => lock(&failed).push(ProjectError { project, message: e.to_string() }),
            }
        };
        let next = AtomicUsize::new(0);
        let is_server = |place: &&(StoreRecord, PathBuf)| place.0.store.contains("/server-");
        let servers = places.iter().filter(is_server).count();
        // Stores on this machine need a processor, servers mostly need time.
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = processors.max(servers).min(places.len()).min(THREADS);
        let read_next = || {
            while let Some(place) = places.get(next.fetch_add(1, Ordering::Relaxed)) {
                read(place);
            }
        };
        std::thread::scope(|scope| {
            // The current thread takes part. Its memory also grows in larger steps than that of others.
            for _ in 1..threads {
                scope.spawn(read_next);
            }
            read_next();
        });
        let into_inner = |failed: Mutex<Vec<ProjectError>>| failed.into_inner().unwrap_or_default();
        let mut failed = into_inner(failed);
        failed.sort_by(|a, b| a.project.root.cmp(&b.project.root));
        (found.into_inner().unwrap_or_default(), failed)
    }

    /// Every folder in which this user used a recorded store.
    fn recorded_places(&self) -> Vec<(StoreRecord, PathBuf)> {
        let records = self.config.trust.state.as_ref().ok().and_then(|state| state.records().ok());
        let mut places = Vec::new();
        for record in records.unwrap_or_default() {
            let roots: BTreeSet<_> = record.projects.iter().map(|project| project.root.clone()).collect();
            places.extend(roots.into_iter().map(|root| (record.clone(), PathBuf::from(root))));
        }
        places
    }

    /// The address of the store that a flag or the environment selects.
    fn chosen_store(&self) -> Option<String> {
        let chosen = self.config.store_is_chosen.then(|| self.config.url());
        chosen.map(|url| format!("{}:{}", url.scheme(), url.location().display()))
    }

    /// Opens the project with this key to look at it. Returns `None` if there is no such project, or if its folder is
    /// gone.
    #[cfg(feature = "ui")]
    pub(crate) fn open_project(&self, wanted: &str) -> Result<Option<OpenedProject>> {
        if wanted == CURRENT {
            return self.has_store().then(|| self.opened(CURRENT, self.open_read_only()?)).transpose();
        }
        let place = self.recorded_places().into_iter().find(|(record, root)| key(record, root) == wanted);
        let found = place.and_then(|(record, root)| find(&record, &root, self.chosen_store().as_deref()).0);
        let Some(Candidate { config, .. }) = found else { return Ok(None) };
        let context = Context::for_audience(config, self.output, self.audience);
        let mut source = context.store_source(false).for_long_use();
        source.options.wait = PAGE_WAIT;
        let mp = source.open()?.with_settings(context.settings());
        context.opened(wanted, mp).map(Some)
    }

    #[cfg(feature = "ui")]
    fn opened(&self, key: &str, milepost: Milepost) -> Result<OpenedProject> {
        Ok(OpenedProject {
            key: key.to_owned(),
            root: self.config.paths.root.clone(),
            store: self.config.url().to_string(),
            milepost,
            allow: self.config.redact_allow.clone(),
            hides_foreign_runs: self.is_for_agent(),
            untrusted: self.foreign().map(|why| why.to_string()),
        })
    }

    /// The current project, if it has a store that is not recorded: one that is not trusted, or that a flag selects.
    #[cfg(feature = "ui")]
    pub(crate) fn unrecorded_project(&self) -> Option<milepost_ui::ProjectSummary> {
        let is_recorded = self.config.record.is_some() && self.config.may_use_local();
        if is_recorded || !self.has_store() {
            return None;
        }
        let runs = self.open_read_only().and_then(|mp| Ok(mp.runs(&milepost::RunsQuery::default())?.len()));
        Some(milepost_ui::ProjectSummary {
            key: CURRENT.to_owned(),
            root: self.config.paths.root.to_string_lossy().into_owned(),
            store: self.config.url().to_string(),
            runs: runs.unwrap_or_default() as u64,
        })
    }

    /// Whether the current folder belongs to no project, but this user has others.
    pub(crate) fn is_outside_projects(&self) -> bool {
        let has_projects = || {
            let state = self.config.trust.state.as_ref().ok();
            state.and_then(|state| state.records().ok()).is_some_and(|records| !records.is_empty())
        };
        let config = &self.config;
        let is_project = config.paths.repository.is_some() || config.store_is_chosen || config.file.exists();
        !is_project && !self.has_store() && has_projects()
    }

    /// Opens the store to look at it: sends nothing, imports nothing and waits only for a short time.
    fn open_to_look(&self) -> Result<Milepost, Error> {
        self.config.check()?;
        let mut source = self.store_source(false);
        source.options.wait = LOCAL_WAIT;
        if self.config.server.is_some() {
            source.options.wait = SERVER_TIME;
            source.options.deadline = Some(Instant::now() + SERVER_TIME);
        }
        Ok(source.open()?.with_settings(self.settings()))
    }
}

/// The key of a project: its store and its folder.
fn key(record: &StoreRecord, root: &Path) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(record.id.as_str().as_bytes()).update(b"\0").update(root.as_os_str().as_encoded_bytes());
    hasher.finalize().to_hex()[..12].to_owned()
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}

/// The settings with which a project uses a recorded store, and why it cannot be used completely. There are no settings
/// if its folder is gone, or if the store there cannot be read, is no longer the recorded one or no longer trusted.
fn find(
    record: &StoreRecord,
    root: &Path,
    chosen: Option<&str>,
) -> (Option<Candidate>, Option<ProjectError>) {
    if !root.is_dir() {
        return (None, None);
    }
    let project =
        |root: &Path, store: String| KnownProject { key: key(record, root), root: root.to_owned(), store };
    let mut message = None;
    let addresses = [chosen.map(str::to_owned), None, Some(record.store.clone())];
    let choices = addresses.into_iter().enumerate().filter(|(n, address)| *n > 0 || address.is_some());
    let found =
        choices.map(|(_, address)| Config::load_project(root, address)).find_map(|loaded| match loaded {
            Ok(config) => {
                let is_recorded = config.record.as_ref().is_some_and(|found| found.id == record.id);
                (is_recorded && config.may_use_local()).then(|| Candidate {
                    project: KnownProject {
                        key: key(record, root),
                        ..project(&config.paths.root, config.url().to_string())
                    },
                    config,
                })
            }
            Err(e) => {
                message.get_or_insert_with(|| e.to_string());
                None
            }
        });
    if found.is_none() && message.is_none() {
        message = unreadable_store(&record.store);
    }
    let failed =
        message.map(|message| ProjectError { project: project(root, record.store.clone()), message });
    (found, failed)
}

/// Why the file of a recorded store cannot be read; `None` if it does not exist, or belongs to another store.
fn unreadable_store(address: &str) -> Option<String> {
    let url: StoreUrl = address.parse().ok()?;
    let about = std::fs::symlink_metadata(url.path()?).ok()?;
    if url.scheme() == "sqlite" && !about.is_file() {
        return Some(format!("{} is not a regular file", url.path()?.display()));
    }
    if url.scheme() == "sqlite" && about.len() == 0 {
        return Some(format!("{} is empty", url.path()?.display()));
    }
    match read_id(&url) {
        Ok(Some(_)) => None,
        Ok(None) => {
            Some(format!("the id file of {url} is missing; `milepost trust` there reviews the store"))
        }
        Err(e) => Some(e.to_string()),
    }
}
