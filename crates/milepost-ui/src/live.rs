//! Live updates: tells a page over server-sent events that what it shows has changed. The page then loads itself
//! again and replaces the parts that can change.

use std::convert::Infallible;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Query, State};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use milepost::internal::engine::AssessedRun;
use milepost::store::RunQuery;
use serde::Deserialize;
use tokio::sync::OwnedSemaphorePermit;

use crate::pages::{PageError, SharedState, open, read};

/// Maximum number of pages that are updated at the same time.
pub(crate) const MAX_STREAMS: usize = 32;
/// How often a run is checked, which is what people watch.
const RUN_INTERVAL: Duration = Duration::from_millis(400);
/// How often the runs of a project are checked.
const PROJECT_INTERVAL: Duration = Duration::from_secs(1);
/// How often all projects are checked, which takes the longest.
const OVERVIEW_INTERVAL: Duration = Duration::from_secs(5);
/// Interval of the keep-alive comments on an idle stream.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// What a page shows.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "view", rename_all = "snake_case")]
pub(crate) enum Watched {
    /// All projects.
    Overview,
    /// The runs of a project.
    Project {
        /// Its key.
        project: String,
    },
    /// One run.
    Run {
        /// The key of its project.
        project: String,
        /// Its id.
        run: String,
    },
}

impl Watched {
    fn interval(&self) -> Duration {
        match self {
            Self::Overview => OVERVIEW_INTERVAL,
            Self::Project { .. } => PROJECT_INTERVAL,
            Self::Run { .. } => RUN_INTERVAL,
        }
    }

    /// What a page shows now. It is different when something has changed.
    pub(crate) fn version(&self, state: &SharedState) -> Result<Version, PageError> {
        Ok(match self {
            Self::Overview => Version::of(&state.projects.overview()),
            Self::Project { project } => {
                let project = open(state, project)?;
                let newest = project.milepost.store().runs(&RunQuery::default().limit(1))?;
                let groups = project.milepost.run_groups(None, |_| true)?;
                let runs = [groups.live, groups.open, groups.stopped].concat();
                let states: Vec<_> = runs.iter().map(AssessedRun::state_name).collect();
                Version::of(&(newest.first().map(|run| run.stamp), states))
            }
            Self::Run { project, run } => {
                let project = open(state, project)?;
                let run = project.visible_run(run)?;
                let stamp = project.milepost.store().run(&run)?.map(|stored| stored.row.stamp);
                Version::of(&(stamp, project.milepost.assessed_run(&run)?.state_name()))
            }
        })
    }
}

/// Identifies what a page shows, without its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Version(u64);

impl Version {
    pub(crate) fn of(content: &impl Hash) -> Self {
        let mut hasher = DefaultHasher::new();
        content.hash(&mut hasher);
        Self(hasher.finish())
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Where a stream is.
struct Watcher {
    state: SharedState,
    watched: Watched,
    version: Option<Version>,
    _permit: OwnedSemaphorePermit,
}

pub(crate) async fn answer(State(state): State<SharedState>, Query(watched): Query<Watched>) -> Response {
    let Ok(permit) = Arc::clone(&state.streams).try_acquire_owned() else {
        return (axum::http::StatusCode::SERVICE_UNAVAILABLE, "too many open pages").into_response();
    };
    let watcher = Watcher { state, watched, version: None, _permit: permit };
    let events = stream::unfold(watcher, |mut watcher| async move {
        let changed = watcher.next_change().await;
        let event = Event::default().event("changed").data(changed.to_string());
        Some((Ok::<_, Infallible>(event), watcher))
    });
    Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response()
}

impl Watcher {
    /// Waits for the next change. The first version is always reported: the page knows which one it shows.
    async fn next_change(&mut self) -> Version {
        loop {
            if self.version.is_some() {
                tokio::time::sleep(self.watched.interval()).await;
            }
            let watched = self.watched.clone();
            let version = read(Arc::clone(&self.state), move |state| watched.version(state)).await;
            // An error is a version as well: the page then shows the error.
            let version = version.unwrap_or_else(|error| Version::of(&error));
            if self.version != Some(version) {
                self.version = Some(version);
                return version;
            }
        }
    }
}
