//! The command line of Milepost as a library, so that cargo compiles it alongside the library `milepost`. Its
//! only public item is [`main`], which the binary calls. Programs should use the crate `milepost` instead.

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
mod parse_error;
mod present;
mod recorder;
mod supervise;

pub use cli::main;
