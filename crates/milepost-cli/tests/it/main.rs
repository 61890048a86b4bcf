//! The command line from end to end: the real binary, in a place of its own.

mod config;
mod current_run;
mod environment;
mod exact;
mod house;
mod look;
mod refuse;
mod save;
mod tools;

pub use environment::{Ran, TestEnvironment};
