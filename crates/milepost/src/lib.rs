//! Milepost saves checkpoints of long-running agent work and resumes it after an interruption.
//!
//! A run saves sealed checkpoints into a store. An acknowledged checkpoint survives a crash, a kill or a
//! power failure, and its seal detects any damage. The library never prints, never reads the home folder,
//! reads no environment variable except `PATH` (to find git), and needs no async runtime. [`Milepost`] is the
//! entry point.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! use milepost::{Milepost, Status};
//!
//! let mp = Milepost::open(dir.path())?;
//! let run = mp.run("nightly").rejoin_or_start()?; // rejoins the same run after a crash
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

// Items that only Milepost's own crates use look unused without the feature `internal`.
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
mod failures;
mod front_matter;
mod fs;
mod git;
#[cfg(feature = "internal")]
mod humanize;
#[cfg(feature = "internal")]
pub mod internal;
#[cfg(feature = "interop")]
pub mod interop;
pub mod model;
mod owner;
mod parallel;
mod platform;
mod redact;
mod restore;
mod resume;
mod retain;
mod run;
mod seal;
#[cfg(feature = "search")]
mod search;
mod snapshot;
pub mod store;
mod threads;
mod trigger;
mod trust;

pub use clock::Clock;
pub use diff::patch::{FilePatch, PatchStatus};
pub use diff::{FieldChange, FileChanges};
pub use engine::{
    CheckpointFacts, CheckpointList, CheckpointState, CopyReport, DamagedFile, Diff, EventList,
    FailedOutcome, FilePatches, Files, GitCounts, KeptFile, ListQuery, ListedCheckpoint, MarkChange,
    MessageKind, Milepost, PlannedFile, PruneAction, PruneFailure, PruneOptions, PruneReport, PruneStep,
    PurgeReport, Reference, RestoreAction, RestoreOptions, RestorePlan, RestoreReport, RestoreScope,
    RunDetail, RunFacts, RunSummary, RunsQuery, Save, Saved, SessionSummary, Settings, ShownCheckpoint,
    Summary, SummaryLine, SyncReport, Timeline, TimelineCheckpoint, TimelineGap, TimelineMessage,
    TimelineSession, TouchedFile, UndoPoint, VerifyReport, VerifyScope, Waiting, Worktree,
};
#[cfg(feature = "interop")]
pub use engine::{ExportOptions, ExportReport, ImportOptions, ImportReport};
#[cfg(feature = "threads")]
pub use engine::{LoadedThread, ThreadEntry, ThreadHistory, ThreadList, ThreadQuery, Threads};
pub use error::{Error, ReasonCode};
pub use model::{Profile, Source, Status};
pub use owner::Liveness;
pub use redact::{AllowList, Redaction};
pub use run::{
    Run, RunBuilder, SaveTimer, Session, SessionEvent, SessionOptions, TaskGuard, TimerGuard,
    format_duration, recommended_interval,
};
#[cfg(feature = "search")]
pub use search::{SearchHit, SearchKind, SearchQuery, SearchResults};
pub use snapshot::FileContent;
#[cfg(feature = "threads")]
pub use threads::{NewThreadCheckpoint, ThreadKey, ThreadWrite, TypedValue};

/// Compiles and runs the code blocks of the library guide as doctests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/library.md")]
mod guide {}

/// Compiles and runs the code block of the guide to files.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/files.md")]
mod files_guide {}

/// Compiles the code block of the front page.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
mod front_page {}
