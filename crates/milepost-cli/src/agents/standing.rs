//! How an agent is set up: every part in both scopes, what is stale, and what its user has to do still. Reads only.

use std::path::PathBuf;

use super::content::{Part, Refusal, Standing};
use super::plan::{read, real, twice};
use super::{Agent, Roots, Scope, gemini};

/// How an agent is set up in one scope.
#[derive(Debug)]
pub(crate) struct Setup {
    pub(crate) agent: Agent,
    pub(crate) scope: Scope,
    /// Each part, its file, and how it stands; the error says why the file cannot be read.
    pub(crate) parts: Vec<(Part, PathBuf, Result<Standing, String>)>,
    /// What the user has to do still.
    pub(crate) to_do: Vec<String>,
}

impl Setup {
    /// Whether every part is as this version sets it up.
    pub(crate) fn is_current(&self) -> bool {
        self.parts.iter().all(|(.., standing)| *standing == Ok(Standing::Current))
    }

    /// Whether there is anything of ours.
    pub(crate) fn is_there(&self) -> bool {
        self.parts.iter().any(|(.., s)| matches!(s, Ok(Standing::Current | Standing::Stale(_))))
    }

    /// Whether a part of ours is there.
    pub(super) fn has(&self, part: Part) -> bool {
        matches!(self.part(part), Some(Ok(Standing::Current | Standing::Stale(_))))
    }

    /// Whether something is not as this version sets it up.
    pub(crate) fn is_stale(&self) -> bool {
        let stale = |s: &Result<Standing, String>| matches!(s, Ok(Standing::Stale(_)));
        let absent = |s: &Result<Standing, String>| matches!(s, Ok(Standing::Absent));
        self.parts.iter().any(|(.., s)| stale(s))
            || self.is_there() && self.parts.iter().any(|(.., s)| absent(s))
    }

    pub(crate) fn part(&self, part: Part) -> Option<&Result<Standing, String>> {
        self.parts.iter().find(|(known, ..)| *known == part).map(|(.., standing)| standing)
    }
}

/// Looks at an agent's files.
pub(crate) fn look(agent: Agent, scope: Scope, roots: &Roots) -> Setup {
    let mut setup = Setup { agent, scope, parts: Vec::new(), to_do: Vec::new() };
    for target in agent.targets(roots, scope) {
        let text = real(&target.path).and_then(|path| read(&path));
        let found = text.clone().and_then(|text| target.content.standing(text.as_deref()));
        match found {
            Ok(parts) => {
                setup.parts.extend(parts.into_iter().map(|(part, s)| (part, target.path.clone(), Ok(s))));
            }
            Err(Refusal(why)) => {
                let parts = target.content.parts().into_iter();
                setup.parts.extend(parts.map(|part| (part, target.path.clone(), Err(why.clone()))));
            }
        }
        if agent == Agent::Gemini && matches!(&text, Ok(Some(text)) if gemini::hooks_are_off(text)) {
            let path = target.path.display();
            setup.to_do.push(format!("hooks are off: set hooksConfig.enabled to true in {path}"));
        }
    }
    setup.parts.sort_by_key(|(part, ..)| *part);
    if setup.is_there() {
        setup.to_do.extend(agent.to_do(scope).map(str::to_owned));
    }
    setup
}

/// Looks at an agent's files in some scopes.
pub(crate) fn look_at(agent: Agent, scopes: &[Scope], roots: &Roots) -> Vec<Setup> {
    let mut setups: Vec<_> = scopes.iter().map(|scope| look(agent, *scope, roots)).collect();
    let both = setups.len() > 1 && setups.iter().all(|setup| setup.has(Part::Hooks));
    if let (true, Some(last)) = (both && agent == Agent::Codex, setups.last_mut()) {
        last.to_do.push(twice(last.scope));
    }
    setups
}
