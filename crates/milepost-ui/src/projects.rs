//! What the page shows: the projects of this user with their runs, and the open store of one of them. The caller
//! implements [`Projects`], because it knows which stores exist and which are trusted.

use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;
use milepost::{AllowList, Milepost, SearchQuery, SearchResults};

/// Provides projects and their stores. Called on threads that may block.
pub trait Projects: Send + Sync + 'static {
    /// The runs of all projects that need attention.
    fn overview(&self) -> Overview;

    /// Searches all projects. Returns the results of each, and the projects that could not be searched.
    fn search(&self, query: &SearchQuery) -> (Vec<(ProjectSummary, SearchResults)>, Vec<UnreadableProject>);

    /// Opens the project with this key. Returns `None` if there is no such project.
    fn open(&self, key: &str) -> Result<Option<Arc<Project>>, String>;
}

/// A project and its open store.
pub struct Project {
    /// Identifies the project in addresses of the page.
    pub key: String,
    /// The name of its folder.
    pub name: String,
    /// The folder.
    pub root: PathBuf,
    /// The address of the store, without a password.
    pub store: String,
    /// The start of commands for this project, such as `milepost -C /home/me/app`.
    pub command: String,
    /// The open store.
    pub milepost: Milepost,
    /// Values that look like secrets but are shown.
    pub allow: AllowList,
    /// Whether runs that came from elsewhere are hidden, because the page was opened by an agent.
    pub hides_foreign_runs: bool,
    /// Why the store is not trusted, if it is not.
    pub untrusted: Option<String>,
}

/// The runs of all projects, in groups.
#[derive(Debug, Clone, Default, Hash)]
pub struct Overview {
    /// The groups in the order in which they are shown, without empty ones.
    pub groups: Vec<OverviewGroup>,
    /// All projects, by the name of their folder.
    pub projects: Vec<ProjectSummary>,
    /// Stores that could not be read, or not completely.
    pub unreadable: Vec<UnreadableProject>,
}

/// Runs in the same state.
#[derive(Debug, Clone, Hash)]
pub struct OverviewGroup {
    /// The heading.
    pub name: &'static str,
    /// The runs, newest first.
    pub runs: Vec<OverviewRun>,
}

/// A run in an overview.
#[derive(Debug, Clone, Hash)]
pub struct OverviewRun {
    /// The key of the project.
    pub project: String,
    /// The folder of the project.
    pub root: String,
    /// The id of the run.
    pub run: String,
    /// The state of the run, in one word.
    pub state: &'static str,
    /// Why it stopped or waits.
    pub why: String,
    /// What it is about.
    pub about: String,
    /// The time of its last write.
    pub updated_at: Option<Timestamp>,
    /// The command to type next.
    pub next: String,
}

/// A project in an overview.
#[derive(Debug, Clone, Hash)]
pub struct ProjectSummary {
    /// The key of the project.
    pub key: String,
    /// The folder of the project.
    pub root: String,
    /// The address of the store, without a password.
    pub store: String,
    /// The number of its runs.
    pub runs: u64,
}

/// A project whose store could not be read completely.
#[derive(Debug, Clone, Hash)]
pub struct UnreadableProject {
    /// The folder of the project.
    pub root: String,
    /// Why.
    pub message: String,
}
