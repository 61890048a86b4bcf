//! Opens the stores of all projects that this user created or trusted on this machine, several at a time. Projects
//! whose folder is gone, and stores that are no longer trusted, are left out. Changes nothing.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use milepost::internal::trust::StoreRecord;
use milepost::{Error, Milepost};

use super::Context;
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
    pub(crate) root: PathBuf,
    /// The address of the store, without a password.
    pub(crate) store: String,
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
        let records = self.config.trust.state.as_ref().ok().and_then(|state| state.records().ok());
        let mut places: Vec<(StoreRecord, PathBuf)> = Vec::new();
        for record in records.unwrap_or_default() {
            let roots: BTreeSet<_> = record.projects.iter().map(|project| project.root.clone()).collect();
            places.extend(roots.into_iter().map(|root| (record.clone(), PathBuf::from(root))));
        }
        let chosen = self.config.store_is_chosen.then(|| self.config.url());
        let chosen = chosen.map(|url| format!("{}:{}", url.scheme(), url.location().display()));
        let (output, audience) = (Output::collecting(), self.audience);
        let (found, failed) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
        let read = |place: &(StoreRecord, PathBuf)| {
            let Some(candidate) = find(&place.0, &place.1, chosen.as_deref()) else { return };
            let Candidate { project, config } = candidate;
            let context = Context::for_audience(config, &output, audience);
            let result = context.open_to_look().map_err(CommandError::from).and_then(|mp| {
                let done = work(&project, &context, &mp)?;
                Ok((done, mp.synced().and_then(milepost::store::SyncedStore::outage)))
            });
            match result {
                Ok((done, outage)) => {
                    if let Some(message) = outage {
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

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}

/// The settings with which a project uses a recorded store; `None` if its folder is gone, or if the store there is no
/// longer the recorded one or no longer trusted.
fn find(record: &StoreRecord, root: &Path, chosen: Option<&str>) -> Option<Candidate> {
    if !root.is_dir() {
        return None;
    }
    let addresses = [chosen.map(str::to_owned), None, Some(record.store.clone())];
    let choices = addresses.into_iter().enumerate().filter(|(n, address)| *n > 0 || address.is_some());
    choices.map(|(_, address)| Config::load_project(root, address)).find_map(|loaded| {
        let config = loaded.ok()?;
        let is_recorded = config.record.as_ref().is_some_and(|found| found.id == record.id);
        (is_recorded && config.may_use_local()).then(|| Candidate {
            project: KnownProject { root: config.paths.root.clone(), store: config.url().to_string() },
            config,
        })
    })
}
