//! Fuzz targets: one function per kind of input that Milepost parses. Each takes any bytes, and panics if the code under
//! test panics or breaks a property. The programs in `fuzz/` run them with libFuzzer, and `tests/corpus.rs` with the
//! committed inputs. Must not write outside a temporary folder.

// A target reports a finding by panicking.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod mutate;
mod scratch;
mod targets;

pub use mutate::Mutator;
pub use targets::{TARGETS, Target, find_target};
