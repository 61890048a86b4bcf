//! A store in a PostgreSQL database, for teams: the `Store` trait over tables in a schema of its own.
//! Takes addresses such as `postgres://host/database?schema=milepost` and opens handles on them. Must not depend on
//! session state, advisory locks, notifications or triggers, so that it works behind a connection pooler in
//! transaction mode; must not show a password.
//!
//! # Tables
//!
//! All keys start with the run (`run.n`, which is the stamp of the run's first commit). Headers are apart from
//! documents, which are chains of frames (`frames.rs`). Tags and imported ids are in `name`, by their hash.
//! `write_log` has one row for each of a run's latest commits, with the token of the commit if it has one. Foreign
//! keys remove what belongs to a run or a checkpoint with it. Every row has a checksum, as in the SQLite store.
//!
//! Stamps come from a sequence. Each value reserves a block of stamps, one for each checkpoint of a commit. A write
//! takes its value after it has read the run's row, so that stamps increase within a run, and every write that starts
//! after another one was acknowledged has a higher stamp.
//!
//! # Writes
//!
//! A write reads the run, its newest checkpoint and a new stamp (one statement), asks the decision, and applies the
//! commit by a second statement, whose first part updates the run's row only if its stamp and its number of commits
//! are the ones that were read. All other parts write only if that one did. A statement is atomic by itself, so that
//! a plain save takes two round trips. A handle that wrote the run before reads only its stamp (`run_cache.rs`). If another writer was faster, the write starts over; after three lost tries
//! it locks the row first. Writers of different runs have no row in common, so they never wait for each other.
//!
//! # Exactly once
//!
//! If the reply to a commit is lost, the same statement is sent again on a new connection. The comparison lets at most
//! one copy take effect, and waits for a copy whose transaction is still open. If the copy did nothing, the row of the
//! write log with the number that this commit would have tells whose commit it was. If that cannot be found out within
//! the waiting time, the result is `StoreError::Unknown`. So is a commit whose wait for a standby was cancelled. No
//! timeout of the server covers a commit; the client stops waiting at its own deadline.

mod blobs;
mod collect;
mod compact;
pub mod connection;
mod creation;
mod decode;
mod error;
mod frames;
mod info;
mod lookup;
mod maintenance;
mod opener;
mod pool;
mod project;
mod read;
mod run_cache;
mod schema;
mod session;
mod statement;
mod store;
mod view;
mod write;

pub use error::PostgresError;
pub use opener::{create_statements, register};
pub use store::PostgresStore;
