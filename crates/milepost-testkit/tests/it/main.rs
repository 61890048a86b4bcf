//! Integration tests of the testkit's private servers.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::disallowed_methods, reason = "tests")]

mod proxy;
mod servers;
