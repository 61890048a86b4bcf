//! What a session is made with. Store and project are needed; the rest has defaults.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::{Listeners, Session, SessionEvent, Shared};
use crate::Error;
use crate::capture::CaptureOptions;
use crate::engine::Milepost;
use crate::model::{Body, RunId};
use crate::store::{OpenOptions, StoreUrl};

/// How often a session is captured unless told otherwise.
pub(crate) const INTERVAL: Duration = Duration::from_secs(30 * 60);

/// A session to be built.
#[must_use = "a session does nothing before it is built and started"]
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
        /// Keeps checkpoints in the store at this address: `sqlite:PATH`, `files:DIR`, or a path, which means SQLite. Needed,
        /// unless an engine is given.
        pub fn store(url: impl Into<String>) => store = Some(url.into());

        /// Keeps checkpoints with an engine that is there already.
        pub fn milepost(mp: &Milepost) => milepost = Some(mp.clone());

        /// Looks at the project with this root. Needed.
        pub fn project_root(root: impl Into<PathBuf>) => project = Some(root.into());

        /// Captures this often; 30 minutes unless given.
        pub fn interval(interval: Duration) => interval = Some(interval);

        /// Names the session; `unknown` unless given.
        pub fn session_id(id: impl Into<String>) => session_id = Some(id.into());

        /// Names the run, which is gone on with if it is there; a run of its own unless given.
        pub fn run(id: impl Into<String>) => run = Some(id.into());

        /// Says what people call the run.
        pub fn title(title: impl Into<String>) => title = Some(title.into());

        /// Says where the person's home is: a repository there is a stray one, and not looked at.
        pub fn home(home: impl Into<PathBuf>) => scope.home = Some(home.into());

        /// Looks at a repository in the home folder all the same.
        pub fn allow_home(allow: bool) => scope.allow_home_repository = allow;

        /// Tells how much of the heap is in use, where the host knows that.
        pub fn heap(used: impl Fn() -> u64 + Send + Sync + 'static) => heap = Some(Box::new(used));
    }
}

impl SessionOptions {
    /// Watches a folder beside `.aiwg`, absolute or from the project's root.
    pub fn watch(mut self, folder: impl Into<PathBuf>) -> Self {
        self.scope.watch_in_run.push(folder.into());
        self
    }

    /// Is called with every checkpoint.
    pub fn on_checkpoint(self, callback: impl Fn(&Body) + Send + Sync + 'static) -> Self {
        self.on_event(move |event| {
            if let SessionEvent::Checkpoint(body) = event {
                callback(body);
            }
        })
    }

    /// Is called with everything that happens. May be given more than once.
    pub fn on_event(mut self, callback: impl Fn(&SessionEvent) + Send + Sync + 'static) -> Self {
        self.listeners.callbacks.push(Box::new(callback));
        self
    }

    /// Makes the session; opens the store and creates it if needed. An option that is missing or not valid is an error
    /// that names it; no store is created then.
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
        // The store says itself where it is, so that its files are left out.
        let url = mp.store().info()?.url;
        let scope = CaptureOptions { root, store: url.parse().ok(), ..self.scope };
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
