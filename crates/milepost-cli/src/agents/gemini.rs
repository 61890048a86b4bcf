//! Gemini CLI: hooks and the MCP server in `settings.json`, which may contain comments, and a slash command
//! in TOML.

use super::event::EventRole::*;
use super::event::talk::TalkFormat;
use super::event::todo::TodoFormat;
use super::setup::{
    Content, Dialect, HookSettings, McpServer, Part, PluginSpec, PluginTrace, Target, hook_command,
};
use super::spec::{AgentSpec, AnswerFormat, EventFormat, HookedEvent, Roots, Scope, ToolNames, hook};
use milepost::internal::brief::BriefLimit;

pub(super) static SPEC: AgentSpec = AgentSpec {
    name: "gemini",
    display_name: "Gemini",
    program: "gemini",
    prompt_arguments: &["-i"],
    resume_command: "gemini --resume",
    process_variables: &["GEMINI_CLI"],
    session_variable: None,
    folder_variables: &["GEMINI_CLI_HOME"],
    targets,
    plugin: PluginSpec { traces: plugin_traces, removal: "run `gemini extensions uninstall milepost`" },
    user_step: |scope| {
        (scope == Scope::Project)
            .then_some("Gemini runs a project's hooks only in a trusted folder: trust this folder in Gemini")
    },
    hook_switch: Some(&["hooksConfig", "enabled"]),
    runs_hooks_twice: false,
    events: EventFormat::Shared(EVENTS),
    announces_every_call: true,
    tools: ToolNames {
        shell: &["run_shell_command"],
        write: &["write_file", "replace", "edit_file"],
        patch: &[],
        todo: &[
            ("write_todos", TodoFormat::List("todos")),
            ("tracker_create_task", TodoFormat::Displayed),
            ("tracker_update_task", TodoFormat::Displayed),
        ],
        talk: &[("exit_plan_mode", TalkFormat::PlanPath), ("ask_user", TalkFormat::AnswersById)],
    },
    command_end: None,
    proposed_plan: None,
    answer: AnswerFormat::HookSpecificOutput,
    text_limit: BriefLimit { bytes: Some(28_000), tokens: None, chars: None },
};

/// Timeouts are in milliseconds. There is no hook for `BeforeTool`: it would only report how long a tool
/// took, at the cost of one more process per tool call.
static EVENTS: &[HookedEvent] = &[
    hook("SessionStart", SessionStart, 20_000),
    hook("BeforeAgent", Prompt, 10_000),
    hook("AfterTool", ToolUse, 10_000),
    hook("PreCompress", Compaction, 20_000),
    hook("AfterAgent", TurnEnd, 20_000),
    hook("Notification", Notification, 10_000),
    hook("SessionEnd", SessionEnd, 20_000),
];

pub(super) static HOOKS: HookSettings =
    HookSettings { command: hook_command!("gemini"), events: EVENTS, named: true };

pub(super) static SERVER: McpServer =
    McpServer { list: "mcpServers", entry: r#"{"command": "milepost", "args": ["mcp"]}"# };

fn plugin_traces(roots: &Roots) -> Vec<PluginTrace> {
    let user = roots.user.as_ref().map(|user| user.variable_or("GEMINI_CLI_HOME", "").join(".gemini"));
    let manifest = "extensions/milepost/gemini-extension.json";
    user.map(|folder| PluginTrace::OwnFile(folder.join(manifest))).into_iter().collect()
}

fn targets(roots: &Roots, scope: Scope) -> Vec<Target> {
    let user = |user: &super::UserFolders| user.variable_or("GEMINI_CLI_HOME", "").join(".gemini");
    let Some(folder) = roots.folder(scope, user, ".gemini") else { return Vec::new() };
    let settings = Content::Settings { dialect: Dialect::Jsonc, hooks: Some(&HOOKS), server: Some(&SERVER) };
    let text = include_str!("templates/gemini.toml");
    vec![
        Target::new(folder.join("settings.json"), settings),
        Target::new(folder.join("commands/checkpoint.toml"), Content::OwnFile { part: Part::Command, text }),
    ]
}
