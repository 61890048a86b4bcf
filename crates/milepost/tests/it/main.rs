//! The library's integration tests, one binary: every store under the same rules, alone and with faults around it.
//! In: stores in temporary folders. Out: nothing; a failure names the rule.

// A test's only way to report is to panic.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod changes;
mod conformance;
mod diff;
mod engine;
mod examples;
mod interop;
mod lost;
mod meanwhile;
mod property;
mod prune;
mod resume;
mod run;
mod session;
mod sqlite_damage;
mod sqlite_wal;
mod store_calls;
mod stores;
mod toy_store;
