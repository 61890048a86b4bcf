//! Conformance suite and fault stores for implementers of milepost's `Store` trait.
//! In: a way to open handles on one store. Out: a panic that names the rule the store breaks, or nothing.
//! Nothing here knows a file path, a clock or a particular store; the suite runs on a shared server as it is.

// A test's only way to report is to panic.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub mod conformance;
pub mod fault;
pub mod fixtures;
pub mod oracle;
pub mod rng;

pub use fixtures::TestCheckpoint;
pub use oracle::Oracle;
