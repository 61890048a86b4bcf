//! Whether an agent has Milepost's plugin. Takes the files in which the agent notes its plugins, and returns the one that
//! names ours. Reads files and changes nothing.

use std::path::PathBuf;

use toml::{Table, Value};

use super::super::{Agent, Roots};
use super::edit::Document;
use super::json::Dialect;
use super::plan::{read_text, resolve_links};

/// What is known about an agent's plugins.
#[derive(Debug)]
pub(crate) struct PluginSpec {
    /// Where the agent notes that the user has the plugin. A project must not decide what is set up for the user, so
    /// its files do not count.
    pub(in crate::agents) traces: fn(&Roots) -> Vec<PluginTrace>,
    /// How a user removes the plugin.
    pub(in crate::agents) removal: &'static str,
}

/// A file that shows that a plugin is installed.
#[derive(Debug)]
pub(crate) enum PluginTrace {
    /// JSON settings in which `enabledPlugins` has a member for each plugin.
    EnabledPlugins(PathBuf),
    /// TOML settings in which `plugins` has a table for each plugin.
    PluginTables(PathBuf),
    /// A file of the plugin itself.
    OwnFile(PathBuf),
    /// JSON settings in which `plugin` lists packages.
    Packages(PathBuf),
}

/// The name of the plugin before the `@` that precedes its marketplace.
const NAME: &str = "milepost";
/// The package for OpenCode, with or without a version.
const PACKAGE: &str = "@milepost/opencode";
/// The ends of the package's path in a clone of the repository.
const PACKAGE_PATHS: [&str; 2] = ["/plugins/opencode", "/plugins/opencode/index.js"];

/// The file that shows that an agent has the plugin.
pub(crate) fn find_plugin(agent: Agent, roots: &Roots) -> Option<PathBuf> {
    (agent.plugin.traces)(roots).into_iter().find_map(|trace| match trace {
        PluginTrace::EnabledPlugins(path) => is_enabled(&read(&path)?)?.then_some(path),
        PluginTrace::PluginTables(path) => has_table(&read(&path)?)?.then_some(path),
        PluginTrace::OwnFile(path) => path.is_file().then_some(path),
        PluginTrace::Packages(path) => lists_package(&read(&path)?)?.then_some(path),
    })
}

fn read(path: &std::path::Path) -> Option<String> {
    read_text(&resolve_links(path).ok()?).ok()?
}

fn is_ours(plugin: &str) -> bool {
    plugin.split('@').next() == Some(NAME)
}

fn is_enabled(text: &str) -> Option<bool> {
    let document = Document::parse(text, Dialect::Json).ok()?;
    let plugins = document.children(&document.find(&["enabledPlugins"])?);
    Some(
        plugins.iter().any(|(name, path)| name.is_some_and(is_ours) && document.source(path) == Some("true")),
    )
}

fn has_table(text: &str) -> Option<bool> {
    let settings: Table = text.trim_start_matches('\u{feff}').parse().ok()?;
    let plugins = settings.get("plugins")?.as_table()?;
    let is_on = |plugin: &Value| plugin.get("enabled").and_then(Value::as_bool) != Some(false);
    Some(plugins.iter().any(|(name, plugin)| is_ours(name) && is_on(plugin)))
}

fn lists_package(text: &str) -> Option<bool> {
    let document = Document::parse(text, Dialect::Jsonc).ok()?;
    let packages = document.children(&document.find(&["plugin"])?);
    let is_listed =
        |name: &str| name.starts_with(PACKAGE) || PACKAGE_PATHS.iter().any(|path| name.ends_with(path));
    Some(packages.iter().any(|(_, path)| document.string(path).is_some_and(is_listed)))
}

/// The note for an agent that has the plugin instead of an installation.
pub(super) fn plugin_instead(agent: Agent, path: &std::path::Path) -> String {
    format!(
        "{} has Milepost's plugin ({}), so nothing is set up; to use this set-up instead, first {}",
        agent.display_name,
        path.display(),
        agent.plugin.removal
    )
}

/// The note for an agent that has both.
pub(super) fn plugin_as_well(agent: Agent, path: &std::path::Path) -> String {
    format!(
        "{} also has Milepost's plugin ({}), whose hooks do nothing while this set-up exists; \
         keep one: run `milepost agents uninstall {agent}`, or {}",
        agent.display_name,
        path.display(),
        agent.plugin.removal
    )
}
