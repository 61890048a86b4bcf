//! The supported coding agents, one `AgentSpec` per agent. `spec` defines what an agent's description
//! contains, `event` parses the events that an agent's hooks send, and `setup` edits its settings files.
//! Nothing here prints, reads the environment or opens a store.

mod claude;
mod codex;
pub(crate) mod event;
mod gemini;
mod opencode;
#[cfg(test)]
mod plugin_tests;
pub(crate) mod setup;
mod spec;
#[cfg(test)]
mod toy_tests;

pub(crate) use self::spec::{AgentSpec, AnswerFormat, EventFormat, Roots, Scope, ToolNames, UserFolders};

/// A supported agent.
pub(crate) type Agent = &'static AgentSpec;

/// All supported agents, in the order they are listed.
pub(crate) static AGENTS: &[Agent] = &[
    &claude::SPEC,
    &gemini::SPEC,
    &codex::SPEC,
    &opencode::SPEC,
    #[cfg(test)]
    &toy_tests::SPEC,
];

pub(crate) fn find_agent(name: &str) -> Option<Agent> {
    AGENTS.iter().copied().find(|agent| agent.name == name)
}

/// The names of all agents, separated by commas, for messages and help.
pub(crate) fn agent_names() -> String {
    AGENTS.iter().map(|agent| agent.name).collect::<Vec<_>>().join(", ")
}
