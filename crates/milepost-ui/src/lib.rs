//! The local page of Milepost: an HTTP server on the loopback address that shows projects, runs and checkpoints in a
//! browser, and the timeline of a run as one SVG or HTML file. Read-only. Must not print, read the environment, or
//! open a store: the caller provides open stores.

pub mod report;
pub mod timeline;
