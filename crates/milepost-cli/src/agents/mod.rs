//! Agents: one `AgentSpec` per agent, its events in one form for all, and what is set up in its files.
//! `spec` says what there is to know about an agent, `event` parses what it sends, `setup` edits its files.
//! Nothing here prints, reads the environment or opens a store.

mod claude;
mod codex;
pub(crate) mod event;
mod gemini;
mod opencode;
pub(crate) mod setup;
mod spec;
#[cfg(test)]
mod toy_tests;

pub(crate) use self::spec::{AgentSpec, AnswerFormat, EventFormat, Roots, Scope, ToolNames, UserFolders};

/// An agent that Milepost knows.
pub(crate) type Agent = &'static AgentSpec;

/// Every agent, in the order in which they are listed.
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

/// The names of all agents, for messages and help.
pub(crate) fn agent_names() -> String {
    AGENTS.iter().map(|agent| agent.name).collect::<Vec<_>>().join(", ")
}
