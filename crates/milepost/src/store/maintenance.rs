//! Maintenance operations of a store, and their reports.
//! Contains only plain values; each store implements the operations itself.

use derive_getters::Getters;
use jiff::Timestamp;

use super::ServerInfo;
use crate::model::RunId;

/// A maintenance operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Maintenance<'a> {
    /// Finds problems outside of checkpoints: stray files, wrong counts, damaged pages. Changes nothing.
    Inspect,
    /// Repairs the problems found by `Inspect` that can be repaired without losing data.
    Repair,
    /// Releases the disk space of removed checkpoints.
    Compact,
    /// Compresses documents in stores that keep them as files, except the newest document of each run. Blocks
    /// other writers only briefly.
    Compress {
        /// Only documents of this run.
        run: Option<&'a RunId>,
        /// Only documents of checkpoints created before this time.
        before: Timestamp,
    },
}

/// A problem that maintenance found.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Problem {
    /// The kind of problem.
    pub kind: ProblemKind,
    /// A one-line message for people.
    pub message: String,
    /// Whether `Repair` can repair the problem, or has repaired it.
    pub repairable: bool,
}

impl Problem {
    /// A problem that `Repair` cannot repair.
    pub fn new(kind: ProblemKind, message: String) -> Self {
        Self { kind, message, repairable: false }
    }

    /// The same problem with `repairable` set.
    #[must_use]
    pub fn repairable(self, repairable: bool) -> Self {
        Self { repairable, ..self }
    }
}

/// Kinds of problems other than damaged checkpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProblemKind {
    /// A temporary file left by a crash.
    StrayFile,
    /// A file that no commit refers to.
    Orphan,
    /// A derived file, such as `latest.json`, with the wrong content.
    Derived,
    /// A run's record or counts are damaged or wrong.
    Record,
    /// The database's pages are damaged.
    Pages,
    /// Acknowledged writes are missing.
    Lost,
}

/// The result of a maintenance operation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MaintenanceReport {
    /// The problems found.
    pub problems: Vec<Problem>,
    /// Number of problems repaired, documents compressed or logs compacted.
    pub done: u64,
    /// Bytes of disk space released.
    pub bytes_freed: u64,
}

/// Information about a store.
#[derive(Getters, Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreInfo {
    /// The store's address.
    pub(crate) url: String,
    /// The store's size on disk in bytes.
    pub(crate) bytes: u64,
    /// A warning for the user, such as an unsafe file system.
    pub(crate) warning: Option<String>,
    /// What the store's server says about itself; `None` without a server, and if only `Store::info` was asked.
    pub(crate) server: Option<ServerInfo>,
}

impl StoreInfo {
    /// Information without a warning: the store's address and its size on disk in bytes.
    pub fn new(url: String, bytes: u64) -> Self {
        Self { url, bytes, warning: None, server: None }
    }

    /// Adds what the store's server says about itself.
    #[must_use]
    pub fn with_server(self, server: ServerInfo) -> Self {
        Self { server: Some(server), ..self }
    }
}
