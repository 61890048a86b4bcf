//! Installs Milepost into an agent's files: plans an install or uninstall, executes the plan, and inspects
//! each part. Takes folders and the text of files, and returns changes with the text before and after. Only
//! `apply` and `record` write.

mod apply;
mod content;
mod edit;
mod hooks;
mod install_state;
mod json;
mod plan;
mod record;
mod server;
mod style;
#[cfg(test)]
mod tests;
mod toml_server;

use std::path::PathBuf;

pub(crate) use self::apply::apply;
pub(crate) use self::content::{Content, Part};
pub(super) use self::hooks::{HookSettings, hook_command};
pub(crate) use self::install_state::{Setup, inspect, inspect_scopes};
pub(super) use self::json::Dialect;
pub(crate) use self::plan::{Action, FileChange, Plan, RefusedFile, plan_install, plan_uninstall};
pub(crate) use self::record::{Access, Records};
pub(super) use self::server::McpServer;

/// A file, and what Milepost sets up in it.
#[derive(Debug)]
pub(crate) struct Target {
    path: PathBuf,
    content: Content,
}

impl Target {
    pub(super) fn new(path: PathBuf, content: Content) -> Self {
        Self { path, content }
    }
}
