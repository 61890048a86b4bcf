//! Access to parsers of the command line for Milepost's own fuzz targets. Compiled only with the feature `internal`.
//! This module is not part of the public API and can change in any release.

use std::path::{Path, PathBuf};

use milepost::model::Change;

use crate::agents::event::{self, HookKind, payload, transcript};
use crate::agents::setup::{ProgramName, settings_round_trip};
use crate::agents::{AGENTS, Roots, Scope, UserFolders, find_agent};
use crate::config::Config;

/// The names of all agents.
pub fn agent_names() -> Vec<&'static str> {
    AGENTS.iter().map(|agent| agent.name).collect()
}

/// Parses the payload of an agent's hook, and returns the changes that its run records. `None` if the payload is not
/// JSON, or if the event is not used.
pub fn parse_hook(agent: &str, payload: &[u8], project: &Path) -> Option<Vec<Change>> {
    let event = event::parse(find_agent(agent)?, &payload::read(payload).ok()?)?;
    Some(match event.kind {
        HookKind::ToolUsed(tool) => tool.into_changes(project, event.cwd.as_deref()),
        _ => Vec::new(),
    })
}

/// Searches a Codex transcript for the end of a command and for a proposed plan. Returns the exit code and the plan.
pub fn search_transcript(file: &Path, call: &str) -> (Option<i64>, Option<String>) {
    let end = transcript::find_command_end(file, call).map(|end| end.exit_code);
    (end, transcript::find_proposed_plan(file))
}

/// Loads the settings of a project, with a user's configuration file and without the environment. Returns each setting
/// and its value, or the error message.
pub fn load_settings(
    folder: &Path,
    user_file: Option<PathBuf>,
) -> Result<Vec<(&'static str, String)>, String> {
    let config = Config::load_files(folder, user_file).map_err(|e| e.to_string())?;
    Ok(config.settings.into_iter().map(|setting| (setting.key, setting.value)).collect())
}

/// What an install and an uninstall did to the text of one of an agent's settings files.
#[derive(Debug)]
pub struct SettingsRoundTrip {
    /// The text with Milepost's part.
    pub installed: String,
    /// The text after a second install.
    pub installed_again: String,
    /// The text after the uninstall.
    pub uninstalled: String,
    /// Whether the text contained a part of Milepost before.
    pub had_parts: bool,
}

/// Installs Milepost into the text of every settings file of an agent, and uninstalls it. Files whose text is refused
/// are left out.
pub fn edit_settings(agent: &str, text: &str) -> Vec<SettingsRoundTrip> {
    let roots =
        Roots { project: "/p".into(), user: Some(UserFolders::default()), program: ProgramName::OnPath };
    let targets = find_agent(agent).map(|agent| (agent.targets)(&roots, Scope::Project)).unwrap_or_default();
    targets.iter().filter_map(|target| settings_round_trip(target, text)).collect()
}
