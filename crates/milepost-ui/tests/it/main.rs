//! The page over real sockets, with real stores: who gets an answer, what the views contain, live updates.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests and their harness")]

mod access;
mod client;
mod live;
mod views;
