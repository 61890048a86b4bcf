//! Everything that Milepost knows about an agent, as one value.
//! Each agent's file defines one `AgentSpec`; installing, hooks, resuming and the configuration read it.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::event::todo::TodoFormat;
use super::event::transcript::CommandEnd;
use super::event::{EventRole, HookEvent};
use super::setup::Target;

#[derive(Debug)]
pub(crate) struct AgentSpec {
    /// The name in commands, such as `milepost hook NAME`, and in records.
    pub(crate) name: &'static str,
    pub(crate) display_name: &'static str,
    /// The program that starts it.
    pub(crate) program: &'static str,
    /// Arguments of the program before a first prompt.
    pub(crate) prompt_arguments: &'static [&'static str],
    /// The command line that returns to one of its conversations; `{session}` stands for the session's id.
    pub(crate) resume_command: &'static str,
    /// Variables that it sets for the programs that it starts.
    pub(crate) process_variables: &'static [&'static str],
    /// The one of them that holds the session's id.
    pub(crate) session_variable: Option<&'static str>,
    /// Variables that move its folders of the user.
    pub(crate) folder_variables: &'static [&'static str],
    /// The files in which something is set up, and what.
    pub(crate) targets: fn(&Roots, Scope) -> Vec<Target>,
    /// What the user has to do once it is set up.
    pub(crate) user_step: fn(Scope) -> Option<&'static str>,
    /// The setting that turns all hooks off if it is false.
    pub(crate) hook_switch: Option<&'static [&'static str]>,
    /// Whether hooks that are set up in both scopes run twice.
    pub(crate) runs_hooks_twice: bool,
    pub(crate) events: EventFormat,
    /// Whether it announces a compaction before every call of its model.
    pub(crate) announces_every_call: bool,
    pub(crate) tools: ToolNames,
    /// How a command ended, where its hooks do not say so: reads the transcript and takes the id of the call.
    pub(crate) command_end: Option<fn(&Path, &str) -> Option<CommandEnd>>,
    pub(crate) answer: AnswerFormat,
    /// Maximum number of tokens of a brief that arrive uncut.
    pub(crate) brief_tokens: u64,
}

/// How an agent sends its events.
#[derive(Debug)]
pub(crate) enum EventFormat {
    /// With `hook_event_name`, `session_id` and the other fields that Claude Code, Gemini and Codex share.
    Shared(&'static [HookedEvent]),
    /// In a form of its own.
    Own(fn(&Value, &ToolNames) -> Option<HookEvent>),
}

/// An event that gets a hook.
#[derive(Debug)]
pub(crate) struct HookedEvent {
    pub(crate) name: &'static str,
    pub(crate) role: EventRole,
    /// How long the hook may take, in the agent's unit.
    pub(crate) timeout: u64,
}

/// A shorter way to write a `HookedEvent`.
pub(super) const fn hook(name: &'static str, role: EventRole, timeout: u64) -> HookedEvent {
    HookedEvent { name, role, timeout }
}

/// An agent's names of tools, in lower case.
#[derive(Debug)]
pub(crate) struct ToolNames {
    /// Tools that run a command.
    pub(crate) shell: &'static [&'static str],
    /// Tools that write a file that they name.
    pub(crate) write: &'static [&'static str],
    /// Tools that apply a patch.
    pub(crate) patch: &'static [&'static str],
    /// Tools that change the agent's to-do list, and how they are called.
    pub(crate) todo: &'static [(&'static str, TodoFormat)],
}

/// How an agent reads what a hook prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnswerFormat {
    /// `{"systemMessage", "hookSpecificOutput": {"hookEventName", "additionalContext"}}`.
    HookSpecificOutput,
    /// `{"context", "message"}`, for a plugin of ours.
    Plugin,
}

impl AnswerFormat {
    /// Whether the user sees a message of a hook.
    pub(crate) fn shows_messages(self) -> bool {
        match self {
            Self::HookSpecificOutput => true,
            // The plugin has no place for one.
            Self::Plugin => false,
        }
    }
}

impl PartialEq for AgentSpec {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for AgentSpec {}

impl std::fmt::Display for AgentSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl serde::Serialize for AgentSpec {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name)
    }
}

/// For whom an agent is set up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Scope {
    /// For this user, in every project.
    User,
    /// For everyone who works on this project.
    Project,
}

impl Scope {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Project => "project",
        }
    }

    pub(crate) fn other(self) -> Self {
        match self {
            Self::User => Self::Project,
            Self::Project => Self::User,
        }
    }
}

/// The folders below which agents have their files.
#[derive(Debug, Clone)]
pub(crate) struct Roots {
    /// The root of the project.
    pub(crate) project: PathBuf,
    /// `None` without a home folder: then only a project's files can be found.
    pub(crate) user: Option<UserFolders>,
}

/// The user's home folder, and the folders that variables name.
#[derive(Debug, Clone, Default)]
pub(crate) struct UserFolders {
    pub(crate) home: PathBuf,
    pub(crate) variables: Vec<(&'static str, PathBuf)>,
}

impl Roots {
    /// Picks a folder of the user's or of the project; `None` for the user's without a home folder.
    pub(super) fn folder(
        &self,
        scope: Scope,
        user: impl Fn(&UserFolders) -> PathBuf,
        project: &str,
    ) -> Option<PathBuf> {
        match scope {
            Scope::User => self.user.as_ref().map(user),
            Scope::Project => Some(self.project.join(project)),
        }
    }
}

impl UserFolders {
    pub(super) fn variable(&self, name: &str) -> Option<&PathBuf> {
        self.variables.iter().find(|(known, _)| *known == name).map(|(_, folder)| folder)
    }

    /// The folder that a variable names, or one in the home folder.
    pub(super) fn variable_or(&self, name: &str, in_home: &str) -> PathBuf {
        self.variable(name).cloned().unwrap_or_else(|| self.home.join(in_home))
    }
}
