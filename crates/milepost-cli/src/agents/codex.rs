//! Codex CLI: hooks in `hooks.json`, the MCP server in `config.toml`, and a skill instead of a slash command.
//! Codex runs only hooks that its user has trusted, and identifies a hook by its position and command.

use super::event::EventRole::*;
use super::event::talk::TalkFormat;
use super::event::todo::TodoFormat;
use super::event::transcript::{find_command_end, find_proposed_plan};
use super::setup::{Content, Dialect, HookSettings, Part, PluginSpec, PluginTrace, Target, hook_command};
use super::spec::{AgentSpec, AnswerFormat, EventFormat, HookedEvent, Roots, Scope, ToolNames, hook};
use milepost::internal::brief::BriefLimit;

pub(super) static SPEC: AgentSpec = AgentSpec {
    name: "codex",
    display_name: "Codex",
    program: "codex",
    prompt_arguments: &[],
    resume_command: "codex resume {session}",
    process_variables: &["CODEX_SANDBOX", "CODEX_THREAD_ID"],
    session_variable: None,
    folder_variables: &["CODEX_HOME"],
    targets,
    plugin: PluginSpec { traces: plugin_traces, removal: "run `codex plugin remove milepost@milepost`" },
    user_step: |scope| {
        Some(match scope {
            Scope::User => {
                "Codex skips hooks that you have not trusted: open /hooks in Codex and approve them"
            }
            Scope::Project => {
                "Codex reads .codex only in a project that you trust, and skips hooks that you have not trusted: \
                 open /hooks in Codex and approve them"
            }
        })
    },
    hook_switch: None,
    runs_hooks_twice: true,
    events: EventFormat::Shared(EVENTS),
    announces_every_call: false,
    tools: ToolNames {
        shell: &["bash", "shell", "local_shell", "exec_command"],
        write: &[],
        patch: &["apply_patch"],
        todo: &[("update_plan", TodoFormat::List("plan"))],
        talk: &[("update_plan", TalkFormat::Explanation), ("request_user_input", TalkFormat::AnswersById)],
    },
    // Hooks receive only the output, not the exit code.
    command_end: Some(find_command_end),
    // Codex removes the plan from the message that it reports.
    proposed_plan: Some(find_proposed_plan),
    answer: AnswerFormat::HookSpecificOutput,
    // Codex shows 2,500 tokens, which it counts as a quarter of the bytes.
    text_limit: BriefLimit { tokens: Some(2_400), bytes: Some(9_600), chars: None },
};

/// There is no hook for `PreToolUse`: it would only report how long a tool took, at the cost of one more
/// process per tool call. `SessionEnd` gets at most three seconds.
static EVENTS: &[HookedEvent] = &[
    hook("SessionStart", SessionStart, 20),
    hook("UserPromptSubmit", Prompt, 10),
    hook("PostToolUse", ToolUse, 10),
    hook("PreCompact", Compaction, 20),
    hook("Stop", TurnEnd, 20),
    hook("SessionEnd", SessionEnd, 3),
];

pub(super) static HOOKS: HookSettings =
    HookSettings { command: hook_command!("codex"), events: EVENTS, named: false };

fn plugin_traces(roots: &Roots) -> Vec<PluginTrace> {
    let user = roots.user.as_ref().map(|user| user.variable_or("CODEX_HOME", ".codex"));
    user.map(|folder| PluginTrace::PluginTables(folder.join("config.toml"))).into_iter().collect()
}

fn targets(roots: &Roots, scope: Scope) -> Vec<Target> {
    let folder = roots.folder(scope, |user| user.variable_or("CODEX_HOME", ".codex"), ".codex");
    let skills = roots.folder(scope, |user| user.home.join(".agents/skills"), ".agents/skills");
    let (Some(folder), Some(skills)) = (folder, skills) else { return Vec::new() };
    let hooks = Content::Settings { dialect: Dialect::Json, hooks: Some(&HOOKS), server: None };
    let text = include_str!("templates/codex.md");
    vec![
        Target::new(folder.join("hooks.json"), hooks),
        Target::new(skills.join("checkpoint/SKILL.md"), Content::OwnFile { part: Part::Command, text }),
        Target::new(folder.join("config.toml"), Content::TomlServer),
    ]
}
