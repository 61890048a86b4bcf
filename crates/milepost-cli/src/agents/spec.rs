//! `AgentSpec`: everything that Milepost knows about an agent, as one value.
//! Each agent's file defines one. Setup, hooks, resuming and the configuration read it.

use milepost::internal::brief::BriefLimit;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::event::talk::TalkFormat;
use super::event::todo::TodoFormat;
use super::event::transcript::CommandEnd;
use super::event::{EventRole, HookEvent};
use super::setup::{PluginSpec, ProgramName, Target};

#[derive(Debug)]
pub(crate) struct AgentSpec {
    /// The name in commands, such as `milepost hook NAME`, and in records.
    pub(crate) name: &'static str,
    pub(crate) display_name: &'static str,
    /// The name of its executable.
    pub(crate) program: &'static str,
    /// Arguments that precede an initial prompt.
    pub(crate) prompt_arguments: &'static [&'static str],
    /// The command line that resumes a conversation. `{session}` is a placeholder for the session id.
    pub(crate) resume_command: &'static str,
    /// Environment variables that it sets for the programs that it starts.
    pub(crate) process_variables: &'static [&'static str],
    /// The one of `process_variables` that contains the session id.
    pub(crate) session_variable: Option<&'static str>,
    /// Environment variables that change the location of its user folders.
    pub(crate) folder_variables: &'static [&'static str],
    /// The files to set up, and the content of each.
    pub(crate) targets: fn(&Roots, Scope) -> Vec<Target>,
    /// Its plugin with the same content, as an alternative to those files.
    pub(crate) plugin: PluginSpec,
    /// What the user has to do after the setup.
    pub(crate) user_step: fn(Scope) -> Option<&'static str>,
    /// The path of a setting that turns off all hooks if it is false.
    pub(crate) hook_switch: Option<&'static [&'static str]>,
    /// Whether hooks that are installed in both scopes run twice.
    pub(crate) runs_hooks_twice: bool,
    pub(crate) events: EventFormat,
    /// Whether it announces a compaction before every model call.
    pub(crate) announces_every_call: bool,
    pub(crate) tools: ToolNames,
    /// Finds how a command ended, if the hooks do not report it. Takes the transcript's path and the id of
    /// the call.
    pub(crate) command_end: Option<fn(&Path, &str) -> Option<CommandEnd>>,
    /// Finds a plan that the agent proposed at the end of its turn, in its transcript.
    pub(crate) proposed_plan: Option<fn(&Path) -> Option<String>>,
    pub(crate) answer: AnswerFormat,
    /// Maximum size of a text that reaches the model without being truncated.
    pub(crate) text_limit: BriefLimit,
}

/// The format of an agent's events.
#[derive(Debug)]
pub(crate) enum EventFormat {
    /// The format that Claude Code, Gemini and Codex share, with `hook_event_name`, `session_id` and other
    /// fields.
    Shared(&'static [HookedEvent]),
    /// The agent's own format, with its parser.
    Own(fn(&Value, &ToolNames) -> Option<HookEvent>),
}

/// An event for which a hook is installed.
#[derive(Debug)]
pub(crate) struct HookedEvent {
    pub(crate) name: &'static str,
    pub(crate) role: EventRole,
    /// Timeout of the hook, in the agent's unit.
    pub(crate) timeout: u64,
}

/// Shorthand for a `HookedEvent`.
pub(super) const fn hook(name: &'static str, role: EventRole, timeout: u64) -> HookedEvent {
    HookedEvent { name, role, timeout }
}

/// An agent's tool names, in lower case.
#[derive(Debug)]
pub(crate) struct ToolNames {
    /// Tools that run a command.
    pub(crate) shell: &'static [&'static str],
    /// Tools that write one file, named in their input.
    pub(crate) write: &'static [&'static str],
    /// Tools that apply a patch.
    pub(crate) patch: &'static [&'static str],
    /// Tools that change the agent's to-do list, and how each one does it.
    pub(crate) todo: &'static [(&'static str, TodoFormat)],
    /// Tools that report a plan or the user's answers, and how each one does it.
    pub(crate) talk: &'static [(&'static str, TalkFormat)],
}

/// The format an agent expects for a hook's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnswerFormat {
    /// `{"systemMessage", "hookSpecificOutput": {"hookEventName", "additionalContext"}}`.
    HookSpecificOutput,
    /// `{"context", "message"}`, which Milepost's own plugin reads.
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

/// Who a setup applies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Scope {
    /// This user, in every project.
    User,
    /// Everyone who works on this project.
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

/// The folders that contain the agents' files.
#[derive(Debug, Clone)]
pub(crate) struct Roots {
    /// The root of the project.
    pub(crate) project: PathBuf,
    /// `None` without a home folder. Then only the project's files can be found.
    pub(crate) user: Option<UserFolders>,
    /// How the user's files name the program.
    pub(crate) program: ProgramName,
}

/// The user's home folder, and the folders that environment variables set.
#[derive(Debug, Clone, Default)]
pub(crate) struct UserFolders {
    pub(crate) home: PathBuf,
    pub(crate) variables: Vec<(&'static str, PathBuf)>,
}

impl Roots {
    /// Picks the user's or the project's folder, by scope. Returns `None` for the user's if there is no home
    /// folder.
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

    /// The folder that a variable sets, or the default one in the home folder.
    pub(super) fn variable_or(&self, name: &str, in_home: &str) -> PathBuf {
        self.variable(name).cloned().unwrap_or_else(|| self.home.join(in_home))
    }
}
