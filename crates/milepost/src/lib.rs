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

pub mod brief;
pub mod capture;
pub mod clock;
mod database;
pub mod diff;
pub mod engine;
mod error;
mod front_matter;
pub mod fs;
pub mod git;
pub mod interop;
pub mod model;
pub mod owner;
pub mod redact;
pub mod resume;
pub mod retain;
pub mod run;
pub mod seal;
pub mod store;
pub mod trigger;
pub mod trust;

pub use engine::{Milepost, Save, Saved};
pub use error::{Error, ReasonCode};
pub use model::{Profile, Status};
pub use run::{Run, Session};

/// The guide's code, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/library.md")]
mod guide {}
