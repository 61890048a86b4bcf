//! The command line of Milepost as a library, so that cargo compiles it alongside the library `milepost`. The
//! binary calls [`main`], and the Python bindings call [`open_project`]. Programs should use the crate `milepost`
//! instead.

mod agents;
mod cli;
mod command;
mod completion;
mod config;
mod context;
mod error;
mod error_advice;
mod handover;
mod hook;
mod input;
#[cfg(feature = "internal")]
pub mod internal;
mod parse_error;
mod present;
mod project;
mod recorder;
mod supervise;

pub use cli::main;
pub use project::{OpenError, Project, hint, open_project};
