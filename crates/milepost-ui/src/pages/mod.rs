//! The pages: one file per view. A view reads a store on a thread that may block and returns HTML. All recorded text
//! passes through `Shown`, and every value is escaped where it becomes part of a page.

mod checkpoint;
mod diff;
mod layout;
mod overview;
mod parts;
mod patch;
mod run;
mod runs;
mod search;
mod timeline;
mod tree;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use maud::Markup;
use milepost::Error;
use milepost::model::{RunId, RunRecord};
use tokio::sync::Semaphore;

pub(crate) use self::layout::message_page;
use self::layout::{Page, error_page};
use crate::facts::FactsCache;
use crate::projects::{Project, Projects};
use crate::text::Shown;
use crate::{assets, live};

/// Maximum time to build a page.
const PAGE_TIME: Duration = Duration::from_secs(30);

/// Maximum number of searches that run at the same time.
const MAX_SEARCHES: usize = 2;

/// What all requests share.
pub(crate) struct PageState {
    pub(crate) projects: Box<dyn Projects>,
    pub(crate) facts: FactsCache,
    /// The searches that run at the same time.
    pub(crate) searches: Arc<Semaphore>,
    /// The pages that are updated live.
    pub(crate) streams: Arc<Semaphore>,
}

pub(crate) type SharedState = Arc<PageState>;

/// Why a view has no page.
#[derive(Debug, Hash)]
pub(crate) enum PageError {
    /// There is no such project, run or checkpoint.
    NotFound(String),
    /// The request is wrong.
    Invalid(String),
    /// The store could not be read.
    Failed(String),
}

impl From<Error> for PageError {
    fn from(error: Error) -> Self {
        let text = milepost::internal::error_chain(&error);
        match error {
            Error::NoRun(_) | Error::NotFound { .. } => Self::NotFound(text),
            Error::Value { .. } => Self::Invalid(text),
            _ => Self::Failed(text),
        }
    }
}

impl From<milepost::store::StoreError> for PageError {
    fn from(error: milepost::store::StoreError) -> Self {
        Error::from(error).into()
    }
}

impl From<milepost::model::ValidationError> for PageError {
    fn from(error: milepost::model::ValidationError) -> Self {
        Self::Invalid(error.to_string())
    }
}

/// The router of all pages.
pub(crate) fn router(projects: impl Projects) -> Router {
    let state = PageState {
        projects: Box::new(projects),
        facts: FactsCache::default(),
        searches: Arc::new(Semaphore::new(MAX_SEARCHES)),
        streams: Arc::new(Semaphore::new(live::MAX_STREAMS)),
    };
    Router::new()
        .route("/", get(overview::answer))
        .route("/p/{project}", get(runs::answer))
        .route("/p/{project}/r/{run}", get(run::answer))
        .route("/p/{project}/r/{run}/timeline", get(run::answer_timeline))
        .route("/p/{project}/r/{run}/c/{sequence}", get(checkpoint::answer))
        .route("/p/{project}/r/{run}/c/{sequence}/document", get(checkpoint::answer_document))
        .route("/p/{project}/diff", get(diff::answer))
        .route("/search", get(search::answer))
        .route("/live", get(live::answer))
        // Browsers request this path for documents without a link to an icon, such as plain text.
        .route("/favicon.ico", get(|| async { assets::icon() }))
        .route("/assets/{name}", get(|Path(name): Path<String>| async move { assets::answer(&name) }))
        .fallback(|| async { error_page(&PageError::NotFound("There is no such page.".to_owned())) })
        .with_state(Arc::new(state))
}

/// Builds a page on a thread that may block.
async fn build<F>(State(state): State<SharedState>, view: F) -> Response
where
    F: FnOnce(&SharedState) -> Result<Page, PageError> + Send + 'static,
{
    match read(state, view).await {
        Ok(page) => page.into_response(),
        Err(error) => error_page(&error),
    }
}

/// Reads something on a thread that may block, for a limited time.
pub(crate) async fn read<T, F>(state: SharedState, work: F) -> Result<T, PageError>
where
    T: Send + 'static,
    F: FnOnce(&SharedState) -> Result<T, PageError> + Send + 'static,
{
    let task = tokio::task::spawn_blocking(move || work(&state));
    match tokio::time::timeout(PAGE_TIME, task).await {
        Ok(Ok(result)) => result,
        Ok(Err(_)) => {
            Err(PageError::Failed("The page could not be built because of an internal error.".into()))
        }
        Err(_) => Err(PageError::Failed("Reading the store took too long.".to_owned())),
    }
}

/// Opens the project with this key.
pub(crate) fn open(state: &SharedState, key: &str) -> Result<Arc<Project>, PageError> {
    let opened = state.projects.open(key).map_err(PageError::Failed)?;
    opened.ok_or_else(|| {
        PageError::NotFound("There is no such project, or it was moved or deleted.".to_owned())
    })
}

impl Project {
    fn shown(&self) -> Shown<'_> {
        Shown::new(&self.allow)
    }

    /// The run with exactly this id, if it may be shown.
    pub(crate) fn visible_run(&self, id: &str) -> Result<RunId, PageError> {
        let missing = || PageError::NotFound("There is no such run in this project.".to_owned());
        let id: RunId = id.parse().map_err(|_| missing())?;
        let run = self.milepost.store().run(&id)?.ok_or_else(missing)?;
        if self.may_show(run.row.record.as_deref().ok()) { Ok(id) } else { Err(missing()) }
    }

    /// Whether a run with this record may be shown.
    pub(crate) fn may_show(&self, record: Option<&RunRecord>) -> bool {
        !self.hides_foreign_runs || record.is_some_and(|record| !record.is_foreign())
    }
}

/// A part of a page, for the script.
fn fragment(markup: Markup) -> Response {
    ([(header::CONTENT_TYPE, "text/html; charset=utf-8")], markup.into_string()).into_response()
}

/// The status code of an error.
fn status_of(error: &PageError) -> StatusCode {
    match error {
        PageError::NotFound(_) => StatusCode::NOT_FOUND,
        PageError::Invalid(_) => StatusCode::BAD_REQUEST,
        PageError::Failed(_) => StatusCode::INTERNAL_SERVER_ERROR,
    }
}
