//! Maintenance of a store: what can be done, and what was found.
//! Plain values; the work itself is each store's own.

use derive_getters::Getters;
use jiff::Timestamp;

use crate::model::RunId;

/// A maintenance operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Maintenance<'a> {
    /// Looks for what is wrong beside checkpoints: stray files, wrong counts, damaged pages. Changes nothing.
    Inspect,
    /// Mends what `Inspect` finds and can be mended without losing anything.
    Repair,
    /// Gives the space of removed checkpoints back to the disk.
    Compact,
    /// Compresses documents, in stores that keep them as files; never the newest of a run. Others may write meanwhile.
    Compress {
        /// Only of this run.
        run: Option<&'a RunId>,
        /// Only of checkpoints created before this time.
        before: Timestamp,
    },
}

/// Something `Maintenance` found.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Problem {
    /// What it is.
    pub kind: ProblemKind,
    /// One line for people.
    pub message: String,
    /// Whether `Repair` mends it, or has mended it.
    pub repairable: bool,
}

impl Problem {
    /// A problem that `Repair` cannot fix.
    pub fn new(kind: ProblemKind, message: String) -> Self {
        Self { kind, message, repairable: false }
    }

    /// The same, as one that `Repair` fixes.
    #[must_use]
    pub fn repairable(self, repairable: bool) -> Self {
        Self { repairable, ..self }
    }
}

/// Kinds of problems beside damaged checkpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProblemKind {
    /// A temporary file that a crash left.
    StrayFile,
    /// A file that no commit speaks of.
    Orphan,
    /// A derived file that does not fit, such as `latest.json`.
    Derived,
    /// A run's record or counts that do not fit.
    Record,
    /// Damage to the database itself.
    Pages,
    /// Acknowledged writes are missing.
    Lost,
}

/// What `Maintenance` did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MaintenanceReport {
    /// What was found.
    pub problems: Vec<Problem>,
    /// How many were mended, or compressed.
    pub done: u64,
    /// Bytes given back.
    pub bytes_freed: u64,
}

/// What a store says about itself.
#[derive(Getters, Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreInfo {
    /// Its address.
    pub(crate) url: String,
    /// Bytes it takes on disk.
    pub(crate) bytes: u64,
    /// What the user should know, such as an unsafe file system.
    pub(crate) warning: Option<String>,
}

impl StoreInfo {
    /// A store at this address that takes so many bytes, without a warning.
    pub fn new(url: String, bytes: u64) -> Self {
        Self { url, bytes, warning: None }
    }
}
