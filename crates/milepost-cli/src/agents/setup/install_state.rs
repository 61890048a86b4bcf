//! Inspects how an agent is set up: the state of every part, and what the user still has to do. Takes an
//! agent, scopes and folders, and returns the state of each part. Reads files and changes nothing.

use serde::ser::{Serialize, SerializeStruct as _, Serializer};

use super::super::{Agent, Roots, Scope};
use super::content::{InstallState, Part, Refusal};
use super::edit::Document;
use super::json::Dialect;
use super::plan::{duplicate_hooks, read_text, resolve_links};
use super::plugin::{find_plugin, plugin_as_well};
use super::targets;

/// How an agent is set up in one scope.
#[derive(Debug)]
pub(crate) struct Setup {
    pub(crate) agent: Agent,
    pub(crate) scope: Scope,
    pub(crate) parts: Vec<PartState>,
    /// What the user still has to do.
    pub(crate) user_steps: Vec<String>,
}

/// A part, its file and its state.
#[derive(Debug, serde::Serialize)]
pub(crate) struct PartState {
    pub(crate) part: Part,
    pub(crate) path: String,
    #[serde(flatten)]
    pub(crate) state: InstallState,
}

impl Setup {
    /// Whether every part matches what this version installs.
    pub(crate) fn is_current(&self) -> bool {
        self.states().all(|state| *state == InstallState::Current)
    }

    /// Whether any part is installed.
    pub(crate) fn is_installed(&self) -> bool {
        self.states().any(InstallState::is_installed)
    }

    /// Whether a part is installed.
    pub(super) fn has(&self, part: Part) -> bool {
        self.part(part).is_some_and(InstallState::is_installed)
    }

    /// Whether a part is outdated, or only some of the parts are installed.
    pub(crate) fn is_stale(&self) -> bool {
        self.states().any(|state| matches!(state, InstallState::Stale(_)))
            || self.is_installed() && self.states().any(|state| *state == InstallState::Absent)
    }

    pub(crate) fn part(&self, part: Part) -> Option<&InstallState> {
        self.parts.iter().find(|known| known.part == part).map(|known| &known.state)
    }

    fn states(&self) -> impl Iterator<Item = &InstallState> {
        self.parts.iter().map(|part| &part.state)
    }
}

impl Serialize for Setup {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut members = serializer.serialize_struct("Setup", 5)?;
        members.serialize_field("scope", &self.scope)?;
        members.serialize_field("installed", &self.is_installed())?;
        members.serialize_field("stale", &self.is_stale())?;
        members.serialize_field("parts", &self.parts)?;
        members.serialize_field("to_do", &self.user_steps)?;
        members.end()
    }
}

pub(crate) fn inspect(agent: Agent, scope: Scope, roots: &Roots) -> Setup {
    let mut setup = Setup { agent, scope, parts: Vec::new(), user_steps: Vec::new() };
    for target in targets(agent, roots, scope) {
        let text = resolve_links(&target.path).and_then(|path| read_text(&path));
        let found =
            text.clone().and_then(|text| target.content.install_state(text.as_deref(), &target.program));
        let states = found.unwrap_or_else(|Refusal(why)| {
            let parts = target.content.parts().into_iter();
            parts.map(|part| (part, InstallState::Invalid(why.clone()))).collect()
        });
        let path = target.path.display().to_string();
        setup.parts.extend(states.into_iter().map(|(part, state)| PartState {
            part,
            path: path.clone(),
            state,
        }));
        if let (Some(switch), Ok(Some(text))) = (agent.hook_switch, &text)
            && is_off(text, switch)
        {
            setup.user_steps.push(format!("hooks are off: set {} to true in {path}", switch.join(".")));
        }
    }
    setup.parts.sort_by_key(|part| part.part);
    if setup.is_installed() {
        setup.user_steps.extend((agent.user_step)(scope).map(str::to_owned));
        let plugin = find_plugin(agent, roots).filter(|_| scope == Scope::User);
        setup.user_steps.extend(plugin.map(|file| plugin_as_well(agent, &file)));
    }
    setup
}

/// Whether `agents install` set up hooks that the agent runs, in the user's or the project's settings. An agent that asks
/// for approval of each hook may not run those of a project.
pub(crate) fn has_hooks(agent: Agent, roots: &Roots) -> bool {
    let mut scopes = [Scope::User, Scope::Project].into_iter();
    scopes.any(|scope| {
        (scope == Scope::User || !agent.runs_hooks_twice)
            && targets(agent, roots, scope).iter().any(|target| {
                let text = resolve_links(&target.path).and_then(|path| read_text(&path)).ok().flatten();
                target.content.parts().contains(&Part::Hooks)
                    && text.is_some_and(|text| text.contains("milepost"))
                    && inspect(agent, scope, roots).has(Part::Hooks)
            })
    })
}

pub(crate) fn inspect_scopes(agent: Agent, scopes: &[Scope], roots: &Roots) -> Vec<Setup> {
    let mut setups: Vec<_> = scopes.iter().map(|scope| inspect(agent, *scope, roots)).collect();
    let both = setups.len() > 1 && setups.iter().all(|setup| setup.has(Part::Hooks));
    if let (true, Some(last)) = (both && agent.runs_hooks_twice, setups.last_mut()) {
        last.user_steps.push(duplicate_hooks(agent, last.scope));
    }
    setups
}

/// Whether a switch in the settings is false.
fn is_off(text: &str, switch: &[&str]) -> bool {
    let Ok(document) = Document::parse(text, Dialect::Jsonc) else { return false };
    document.find(switch).is_some_and(|path| document.source(&path) == Some("false"))
}
