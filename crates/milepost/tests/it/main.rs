//! The library's integration tests in one binary: every store must follow the same rules, with and without
//! faults. The stores are in temporary folders. A failure names the violated rule.

// Tests report failures by panicking.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod attachments;
mod changes;
mod conformance;
mod diff;
mod engine;
mod examples;
mod handover;
mod interop;
mod lost;
mod meanwhile;
mod property;
mod prune;
mod resume;
mod rounds;
mod run;
mod search;
mod session;
mod sqlite_blobs;
mod sqlite_damage;
mod sqlite_threads;
mod sqlite_wal;
mod store_calls;
mod stores;
mod sync;
mod sync_threads;
mod threads;
mod threads_model;
mod timeline;
mod toy_store;
