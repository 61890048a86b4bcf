//! Connections to real servers: TLS modes, kinds of errors, files, standbys, poolers, servers that hang.
#![cfg(unix)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "tests"
)]

mod errors;
mod fake_server;
mod fixture;
mod hanging;
mod hosts;
mod pooler;
mod sslmode;
