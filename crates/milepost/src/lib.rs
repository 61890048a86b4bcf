//! Milepost: one checkpoint system for long-running agent work.
//!
//! A run saves sealed checkpoints into a store; whatever was acknowledged is there after a crash, a kill or a power
//! cut, and proves that it is intact. The library never prints, never reads the environment or the home folder, and
//! needs no async runtime. Everything a caller does goes through [`Milepost`].
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! use milepost::{Milepost, Status};
//!
//! let mp = Milepost::open(dir.path())?;
//! let run = mp.run("nightly").rejoin_or_start()?; // the same id after a crash
//! let mut sum: u64 = run.state()?.unwrap_or_default();
//! for (task, n) in [("one", 1), ("two", 2)] {
//!     if !run.is_done(task) {
//!         let guard = run.begin_task(task)?;
//!         sum += n;
//!         guard.complete_with(&sum)?; // task and state in one transaction
//!     }
//! }
//! run.finish(Status::Completed)?;
//! assert_eq!(run.state::<u64>()?, Some(3));
//! # Ok(())
//! # }
//! ```

// What only Milepost's own crates use is reachable with the feature `internal` alone.
#![cfg_attr(not(feature = "internal"), allow(dead_code, unreachable_pub, unused_imports))]

#[macro_use]
mod options;

#[cfg(feature = "brief")]
pub mod brief;
mod capture;
mod clock;
#[cfg(feature = "sqlite")]
mod database;
mod diff;
mod engine;
mod error;
mod front_matter;
mod fs;
mod git;
#[cfg(feature = "internal")]
pub mod internal;
#[cfg(feature = "interop")]
pub mod interop;
pub mod model;
mod owner;
mod redact;
mod resume;
mod retain;
mod run;
mod seal;
pub mod store;
mod trigger;
mod trust;

pub use clock::Clock;
pub use diff::{FieldChange, FileChanges};
pub use engine::{
    CheckpointList, CheckpointState, CopyReport, Diff, EventList, FailedOutcome, GitCounts, ListQuery,
    ListedCheckpoint, MarkChange, Milepost, PruneAction, PruneFailure, PruneOptions, PruneReport, PruneStep,
    Reference, RestoreOptions, RunDetail, RunSummary, RunsQuery, Save, Saved, SessionSummary, Settings,
    ShownCheckpoint, Summary, SummaryLine, TouchedFile, VerifyReport, VerifyScope,
};
#[cfg(feature = "interop")]
pub use engine::{ExportOptions, ExportReport, ImportOptions, ImportReport};
pub use error::{Error, ReasonCode};
pub use model::{Profile, Source, Status};
pub use owner::Liveness;
pub use redact::{AllowList, Redaction};
pub use run::{
    Run, RunBuilder, SaveTimer, Session, SessionEvent, SessionOptions, TaskGuard, TimerGuard,
    format_duration, recommended_interval,
};

/// The guide's code, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/library.md")]
mod guide {}
