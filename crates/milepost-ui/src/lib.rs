//! The local page of Milepost: an HTTP server on the loopback address that shows projects, runs and checkpoints in a
//! browser, and the timeline of a run as one SVG or HTML file. Read-only. Must not print, read the environment, or
//! open a store: the caller provides open stores.

mod assets;
mod facts;
mod live;
mod markdown;
mod pages;
mod projects;
pub mod report;
mod server;
mod text;
pub mod timeline;

pub use projects::{
    Overview, OverviewGroup, OverviewRun, Project, ProjectSummary, Projects, UnreadableProject,
};
pub use server::{Server, StopHandle};
