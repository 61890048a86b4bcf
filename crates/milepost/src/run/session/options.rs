//! Options for building a session. A store and a project root are required; everything else has a default.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::{Listeners, Session, SessionEvent, Shared};
use crate::Error;
use crate::capture::CaptureOptions;
use crate::engine::Milepost;
use crate::model::{Body, RunId};
use crate::snapshot::SnapshotOptions;
use crate::store::{OpenOptions, StoreUrl};

/// The default capture interval.
pub(crate) const INTERVAL: Duration = Duration::from_secs(30 * 60);

/// Options for a session; `build` creates it.
#[must_use = "a session does nothing until it is built and started"]
#[derive(Default)]
pub struct SessionOptions {
    store: Option<String>,
    milepost: Option<Milepost>,
    project: Option<PathBuf>,
    interval: Option<Duration>,
    session_id: Option<String>,
    run: Option<String>,
    title: Option<String>,
    scope: CaptureOptions,
    heap: Option<Box<dyn Fn() -> u64 + Send + Sync>>,
    listeners: Listeners,
}

setters! {
    impl SessionOptions {
        /// Sets the address of the store: `sqlite:PATH`, `files:DIR`, or a path, which means SQLite. Required
        /// unless `milepost` is set.
        pub fn store(url: impl Into<String>) => store = Some(url.into());

        /// Uses an existing engine and its store.
        pub fn milepost(mp: &Milepost) => milepost = Some(mp.clone());

        /// Sets the root of the project to capture. Required.
        pub fn project_root(root: impl Into<PathBuf>) => project = Some(root.into());

        /// Sets the capture interval; 30 minutes by default.
        pub fn interval(interval: Duration) => interval = Some(interval);

        /// Sets the session id; `unknown` by default.
        pub fn session_id(id: impl Into<String>) => session_id = Some(id.into());

        /// Sets the id of the run, which is continued if it exists; a new run by default.
        pub fn run(id: impl Into<String>) => run = Some(id.into());

        /// Sets the title of the run.
        pub fn title(title: impl Into<String>) => title = Some(title.into());

        /// Sets the user's home folder. A repository whose root is the home folder is usually a mistake and
        /// is not read.
        pub fn home(home: impl Into<PathBuf>) => scope.home = Some(home.into());

        /// Sets whether to read a repository whose root is the home folder or `/`.
        pub fn allow_home(allow: bool) => scope.allow_home_repository = allow;

        /// Sets a function that returns the heap memory in use, if the host can measure it.
        pub fn heap(used: impl Fn() -> u64 + Send + Sync + 'static) => heap = Some(Box::new(used));
    }
}

impl SessionOptions {
    /// Watches a folder in addition to `.aiwg`: absolute, or relative to the project root.
    pub fn watch(mut self, folder: impl Into<PathBuf>) -> Self {
        self.scope.watch_in_run.push(folder.into());
        self
    }

    /// Adds a callback for every checkpoint.
    pub fn on_checkpoint(self, callback: impl Fn(&Body) + Send + Sync + 'static) -> Self {
        self.on_event(move |event| {
            if let SessionEvent::Checkpoint(body) = event {
                callback(body);
            }
        })
    }

    /// Adds a callback for every event. Can be called more than once.
    pub fn on_event(mut self, callback: impl Fn(&SessionEvent) + Send + Sync + 'static) -> Self {
        self.listeners.callbacks.push(Box::new(callback));
        self
    }

    /// Builds the session; opens the store, and creates it if necessary. If an option is missing or invalid,
    /// the error names it and no store is created.
    pub fn build(self) -> Result<Session, Error> {
        let url = match (&self.milepost, self.store) {
            (Some(_), _) => None,
            (None, Some(url)) => Some(url.parse::<StoreUrl>()?),
            (None, None) => return Err(Error::MissingOption("store")),
        };
        let root = self.project.ok_or(Error::MissingOption("project_root"))?;
        let run = self.run.map(|id| id.parse::<RunId>()).transpose()?;
        let mp = match (self.milepost, url) {
            (Some(mp), _) => mp,
            (None, Some(url)) => Milepost::at(&url, &OpenOptions::new().create(true))?,
            (None, None) => return Err(Error::MissingOption("store")),
        };
        let run = run.unwrap_or_else(|| RunId::generate(mp.now()));
        // The store reports its own address, so that captures exclude its files.
        let url = mp.store().info()?.url;
        let files = Some(SnapshotOptions::default());
        let scope = CaptureOptions { root, store: url.parse().ok(), files, ..self.scope };
        let interval = self.interval.unwrap_or(INTERVAL);
        Ok(Session {
            shared: Arc::new(Shared {
                mp,
                run,
                url,
                title: self.title,
                scope,
                heap: self.heap,
                interval,
                session_id: self.session_id,
                listeners: self.listeners,
                state: Default::default(),
            }),
        })
    }
}
