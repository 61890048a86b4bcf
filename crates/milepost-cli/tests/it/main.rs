//! End-to-end tests of the command line: each test runs the real binary in its own temporary environment.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests and their harness")]

mod agent_text;
mod agents;
mod agents_plugin;
mod agents_setup;
mod bounds;
mod brief;
mod capture;
mod completion;
mod config;
#[cfg(unix)]
mod copy;
mod current_run;
mod disk_faults;
// Pages describe the binary with all default features.
#[cfg(feature = "mcp")]
mod doc_examples;
mod documents;
mod environment;
mod escapes;
mod exact;

mod files;
#[cfg(unix)]
mod files_abuse;
#[cfg(unix)]
mod files_eviction;
#[cfg(unix)]
mod files_git;
#[cfg(unix)]
mod files_purge;
#[cfg(target_os = "linux")]
mod files_worker;
mod foreign;
mod handover;
mod hook;
mod hook_work;
mod hostile_git;
mod hostile_project;
mod housekeeping;
mod input;
mod items;
mod listings;
#[cfg(feature = "mcp")]
mod mcp;
#[cfg(feature = "mcp")]
mod mcp_files;
#[cfg(feature = "mcp")]
mod mcp_robust;
mod mistakes;
mod opencode;
mod output;
mod patch;
mod permissions;
mod planted;
mod prune;
mod record_scope;
mod redact;
mod refuse;
mod resume;
mod run;
mod run_interrupted;
mod run_output;
mod run_view;
mod save;
mod script;
mod search;
mod server;
mod status_all;
#[cfg(feature = "ui")]
mod summary_file;
mod task;
#[cfg(all(unix, feature = "postgres"))]
mod team;
#[cfg(all(unix, feature = "postgres"))]
mod team_search;
mod terminal;
mod tools;
mod trust;
mod trust_abuse;
#[cfg(all(unix, feature = "ui"))]
mod ui;
mod widths;

pub(crate) use environment::TestEnvironment;
