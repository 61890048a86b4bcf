//! Agents: what Milepost sets up in their files, how that stands, and how it goes away again.
//! In: folders and texts. Out: changes, each with the text before and after; nothing is written but by `apply`.
//! One file an agent says where its files are and what goes in; the editors leave every other byte as it is.

mod apply;
mod claude;
mod codex;
mod content;
mod edit;
mod gemini;
mod hooks;
mod json;
mod opencode;
mod plan;
mod record;
mod server;
mod standing;
mod style;
mod table;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

pub(crate) use self::apply::apply;
pub(crate) use self::content::{Part, Standing};
pub(crate) use self::plan::{Action, Change, Plan, install, uninstall};
pub(crate) use self::record::{Records, Turn};
pub(crate) use self::standing::{Setup, look, look_at};

use self::content::Content;
use crate::config::Homes;

/// An agent that can be set up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Agent {
    ClaudeCode,
    Gemini,
    Codex,
    #[serde(rename = "opencode")]
    OpenCode,
}

impl Agent {
    pub(crate) const ALL: [Self; 4] = [Self::ClaudeCode, Self::Gemini, Self::Codex, Self::OpenCode];

    /// What `milepost` calls it, here and in `milepost hook NAME`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::Gemini => "gemini",
            Self::Codex => "codex",
            Self::OpenCode => "opencode",
        }
    }

    /// Its program.
    pub(crate) fn program(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude",
            Self::Gemini => "gemini",
            Self::Codex => "codex",
            Self::OpenCode => "opencode",
        }
    }

    fn targets(self, roots: &Roots, scope: Scope) -> Vec<Target> {
        match self {
            Self::ClaudeCode => claude::targets(roots, scope),
            Self::Gemini => gemini::targets(roots, scope),
            Self::Codex => codex::targets(roots, scope),
            Self::OpenCode => opencode::targets(roots, scope),
        }
    }

    /// What its user has to do still, once it is set up.
    pub(crate) fn to_do(self, scope: Scope) -> Option<&'static str> {
        match self {
            Self::ClaudeCode => claude::to_do(scope),
            Self::Gemini => gemini::to_do(scope),
            Self::Codex => codex::to_do(scope),
            Self::OpenCode => None,
        }
    }
}

impl std::fmt::Display for Agent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl std::str::FromStr for Agent {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|agent| agent.name() == text).ok_or(())
    }
}

/// For whom it is set up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Scope {
    /// For this user, in every project.
    User,
    /// For everyone who works on this project.
    Project,
}

impl Scope {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Project => "project",
        }
    }
}

/// Where agents keep their files.
#[derive(Debug, Clone)]
pub(crate) struct Roots {
    /// The root of the project.
    pub(crate) project: PathBuf,
    /// The user's folders; none of them is used for a project.
    pub(crate) user: Homes,
}

/// A file, and what is set up in it.
#[derive(Debug)]
struct Target {
    path: PathBuf,
    content: Content,
}

impl Target {
    fn new(path: PathBuf, content: Content) -> Self {
        Self { path, content }
    }
}
