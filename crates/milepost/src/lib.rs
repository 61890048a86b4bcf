//! Milepost: one checkpoint system for long-running agent work.
//!
//! A run saves sealed checkpoints into a store; whatever was acknowledged is there after a crash, a kill or a power
//! cut, and proves that it is intact. The library never prints, never reads the environment or the home folder, and
//! needs no async runtime. Everything a caller does goes through [`Milepost`].
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! use milepost::{Milepost, Save};
//!
//! let mp = Milepost::open(dir.path())?;
//! let run = "nightly".parse()?;
//! let saved = mp.save(&run, Save::new().summary("hello").state(&[1, 2, 3])?)?;
//! assert_eq!(saved.sequence, 1);
//! assert_eq!(mp.state_of::<Vec<u32>>(&run)?, Some(vec![1, 2, 3]));
//! # Ok(())
//! # }
//! ```

pub mod atomic;
pub mod clock;
pub mod engine;
mod error;
pub mod model;
pub mod owner;
pub mod redact;
pub mod retain;
pub mod run;
pub mod seal;
pub mod store;
pub mod trigger;

pub use engine::{Milepost, Save, Saved};
pub use error::{Error, Exit, ReasonCode};
pub use model::{Profile, Status};
pub use run::Run;
