//! Tests of the PostgreSQL store on a server: `MILEPOST_TEST_POSTGRES` if it is set, else a private cluster.

#![cfg(unix)]
// Tests report failures by panicking and print what they skip; they write settings of servers and read which one to use.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::disallowed_methods
)]

mod conformance;
mod damage;
mod exactly_once;
mod info;
mod plans;
mod projects;
mod rights;
mod run_cache;
mod server;
mod servers;
mod sql;
mod unavailable;
