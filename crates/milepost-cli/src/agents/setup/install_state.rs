//! Inspects how an agent is set up: every part in both scopes, what is stale, and what the user still has to do.
//! In: an agent and folders. Out: the state of each part. Reads files and changes nothing.

use std::path::PathBuf;

use super::super::{Agent, Roots, Scope};
use super::content::{InstallState, Part, Refusal};
use super::edit::Document;
use super::json::Dialect;
use super::plan::{duplicate_hooks, read_text, resolve_links};

/// How an agent is set up in one scope.
#[derive(Debug)]
pub(crate) struct Setup {
    pub(crate) agent: Agent,
    pub(crate) scope: Scope,
    /// Each part, its file and its state; the error says why the file cannot be read.
    pub(crate) parts: Vec<(Part, PathBuf, Result<InstallState, String>)>,
    /// What the user still has to do.
    pub(crate) user_steps: Vec<String>,
}

impl Setup {
    /// Whether every part is as this version sets it up.
    pub(crate) fn is_current(&self) -> bool {
        self.parts.iter().all(|(.., state)| *state == Ok(InstallState::Current))
    }

    /// Whether any part of ours exists.
    pub(crate) fn is_installed(&self) -> bool {
        self.parts.iter().any(|(.., s)| matches!(s, Ok(InstallState::Current | InstallState::Stale(_))))
    }

    /// Whether a part of ours exists.
    pub(super) fn has(&self, part: Part) -> bool {
        matches!(self.part(part), Some(Ok(InstallState::Current | InstallState::Stale(_))))
    }

    /// Whether something is not as this version sets it up.
    pub(crate) fn is_stale(&self) -> bool {
        let stale = |s: &Result<InstallState, String>| matches!(s, Ok(InstallState::Stale(_)));
        let absent = |s: &Result<InstallState, String>| matches!(s, Ok(InstallState::Absent));
        self.parts.iter().any(|(.., s)| stale(s))
            || self.is_installed() && self.parts.iter().any(|(.., s)| absent(s))
    }

    pub(crate) fn part(&self, part: Part) -> Option<&Result<InstallState, String>> {
        self.parts.iter().find(|(known, ..)| *known == part).map(|(.., state)| state)
    }
}

pub(crate) fn inspect(agent: Agent, scope: Scope, roots: &Roots) -> Setup {
    let mut setup = Setup { agent, scope, parts: Vec::new(), user_steps: Vec::new() };
    for target in (agent.targets)(roots, scope) {
        let text = resolve_links(&target.path).and_then(|path| read_text(&path));
        let found = text.clone().and_then(|text| target.content.install_state(text.as_deref()));
        match found {
            Ok(parts) => {
                setup.parts.extend(parts.into_iter().map(|(part, s)| (part, target.path.clone(), Ok(s))));
            }
            Err(Refusal(why)) => {
                let parts = target.content.parts().into_iter();
                setup.parts.extend(parts.map(|part| (part, target.path.clone(), Err(why.clone()))));
            }
        }
        if let (Some(switch), Ok(Some(text))) = (agent.hook_switch, &text)
            && is_off(text, switch)
        {
            let (switch, path) = (switch.join("."), target.path.display());
            setup.user_steps.push(format!("hooks are off: set {switch} to true in {path}"));
        }
    }
    setup.parts.sort_by_key(|(part, ..)| *part);
    if setup.is_installed() {
        setup.user_steps.extend((agent.user_step)(scope).map(str::to_owned));
    }
    setup
}

pub(crate) fn inspect_scopes(agent: Agent, scopes: &[Scope], roots: &Roots) -> Vec<Setup> {
    let mut setups: Vec<_> = scopes.iter().map(|scope| inspect(agent, *scope, roots)).collect();
    let both = setups.len() > 1 && setups.iter().all(|setup| setup.has(Part::Hooks));
    if let (true, Some(last)) = (both && agent.runs_hooks_twice, setups.last_mut()) {
        last.user_steps.push(duplicate_hooks(agent, last.scope));
    }
    setups
}

/// Whether settings have a switch that is false.
fn is_off(text: &str, switch: &[&str]) -> bool {
    let Ok(document) = Document::parse(text, Dialect::Jsonc) else { return false };
    document.find(switch).is_some_and(|path| document.source(&path) == Some("false"))
}
