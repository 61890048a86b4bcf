//! Conformance suite and fault stores for implementers of Milepost's `Store` trait. Takes a function that
//! opens handles on one store, and panics with the rule that the store breaks. Must not depend on a file
//! path, a clock or a particular store, so that the suite also runs on a shared server. The feature
//! `postgres-server` adds private servers to run it on.

// A test reports a failure by panicking.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub mod conformance;
pub mod fault;
pub mod fixtures;
pub mod oracle;
#[cfg(all(unix, feature = "postgres-server"))]
pub mod postgres;
pub mod rng;

pub use fixtures::TestCheckpoint;
pub use oracle::Oracle;
