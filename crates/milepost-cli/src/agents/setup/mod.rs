//! What is set up in an agent's files: the plan of an install or uninstall, its execution, and the state of each part.
//! In: folders and the text of files. Out: changes, each with the text before and after. Only `apply` and `record` write.

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

/// A file, and what is set up in it.
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
