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
mod plugin;
mod program;
mod record;
mod server;
mod style;
#[cfg(test)]
mod tests;
mod toml_server;

use std::path::PathBuf;

use super::{Agent, Roots, Scope};

pub(crate) use self::apply::apply;
pub(crate) use self::content::{Content, Part};
pub(super) use self::hooks::{HookSettings, hook_command};
pub(crate) use self::install_state::{Setup, has_hooks, inspect, inspect_scopes};
pub(super) use self::json::Dialect;
pub(crate) use self::plan::{Action, FileChange, Plan, RefusedFile, plan_install, plan_uninstall};
pub(crate) use self::plugin::{PluginSpec, PluginTrace, find_plugin};
pub(crate) use self::program::ProgramName;
pub(crate) use self::record::{Access, Records};
pub(super) use self::server::McpServer;

/// A file, and what Milepost sets up in it.
#[derive(Debug)]
pub(crate) struct Target {
    path: PathBuf,
    content: Content,
    program: ProgramName,
}

impl Target {
    pub(super) fn new(path: PathBuf, content: Content) -> Self {
        Self { path, content, program: ProgramName::OnPath }
    }
}

/// The files to set up. A project's files never contain a path of this machine.
fn targets(agent: Agent, roots: &Roots, scope: Scope) -> Vec<Target> {
    let mut targets = (agent.targets)(roots, scope);
    if scope == Scope::User {
        targets.iter_mut().for_each(|target| target.program = roots.program.clone());
    }
    targets
}

/// Installs Milepost into the text of a settings file, twice, and uninstalls it. `None` if the text is refused.
#[cfg(feature = "internal")]
pub(crate) fn settings_round_trip(target: &Target, text: &str) -> Option<crate::internal::SettingsRoundTrip> {
    let content = &target.content;
    if matches!(content, Content::OwnFile { .. }) {
        return None;
    }
    let mut prior = content::PriorState::default();
    let had_parts = content
        .install_state(Some(text), &target.program)
        .ok()?
        .iter()
        .any(|(_, state)| state.is_installed());
    let installed = content.install(Some(text), &mut prior, &target.program).ok()?;
    let installed_again = content.install(Some(&installed), &mut prior, &target.program).ok()?;
    let (uninstalled, _) = content.uninstall(&installed, &prior).ok()?;
    Some(crate::internal::SettingsRoundTrip { installed, installed_again, uninstalled, had_parts })
}
