//! Claude Code: hooks in `settings.json`, the MCP server in `.mcp.json` or the user's `.claude.json`, and a
//! slash command in Markdown. Its settings are plain JSON.

use super::event::EventRole::*;
use super::event::talk::TalkFormat;
use super::event::todo::TodoFormat;
use super::setup::{
    Content, Dialect, HookSettings, McpServer, Part, PluginSpec, PluginTrace, Target, hook_command,
};
use super::spec::{AgentSpec, AnswerFormat, EventFormat, HookedEvent, Roots, Scope, ToolNames, hook};
use milepost::internal::brief::BriefLimit;

pub(super) static SPEC: AgentSpec = AgentSpec {
    name: "claude-code",
    display_name: "Claude Code",
    program: "claude",
    prompt_arguments: &[],
    resume_command: "claude --resume {session}",
    process_variables: &["CLAUDECODE", "CLAUDE_CODE_SESSION_ID", "CLAUDE_CODE_ENTRYPOINT"],
    session_variable: Some("CLAUDE_CODE_SESSION_ID"),
    folder_variables: &["CLAUDE_CONFIG_DIR"],
    targets,
    plugin: PluginSpec { traces: plugin_traces, removal: "run `claude plugin uninstall milepost@milepost`" },
    user_step: |scope| {
        (scope == Scope::Project)
            .then_some("Claude Code asks once whether to use the MCP server in .mcp.json: answer yes")
    },
    hook_switch: None,
    runs_hooks_twice: false,
    events: EventFormat::Shared(EVENTS),
    announces_every_call: false,
    tools: ToolNames {
        shell: &["bash", "powershell"],
        write: &["write", "edit", "multiedit", "notebookedit"],
        patch: &[],
        todo: &[
            ("todowrite", TodoFormat::List("todos")),
            ("taskcreate", TodoFormat::Create),
            ("taskupdate", TodoFormat::Update),
        ],
        talk: &[("exitplanmode", TalkFormat::Plan), ("askuserquestion", TalkFormat::AnswersByQuestion)],
    },
    command_end: None,
    proposed_plan: None,
    answer: AnswerFormat::HookSpecificOutput,
    text_limit: BriefLimit { chars: Some(9_900), tokens: None, bytes: None },
};

/// There is no hook for `PreToolUse`: `PostToolUse` already has `duration_ms`, and each hook costs time.
static EVENTS: &[HookedEvent] = &[
    hook("SessionStart", SessionStart, 20),
    hook("UserPromptSubmit", Prompt, 10),
    hook("PostToolUse", ToolUse, 10),
    hook("PostToolUseFailure", ToolFailure, 10),
    hook("PreCompact", Compaction, 20),
    hook("Stop", TurnEnd, 20),
    hook("StopFailure", TurnFailure, 20),
    hook("Notification", Notification, 10),
    hook("SessionEnd", SessionEnd, 20),
];

pub(super) static HOOKS: HookSettings =
    HookSettings { command: hook_command!("claude-code"), events: EVENTS, named: false };

pub(super) static SERVER: McpServer =
    McpServer { list: "mcpServers", entry: r#"{"type": "stdio", "command": "milepost", "args": ["mcp"]}"# };

fn plugin_traces(roots: &Roots) -> Vec<PluginTrace> {
    let user = roots.user.as_ref().map(|user| user.variable_or("CLAUDE_CONFIG_DIR", ".claude"));
    user.map(|folder| PluginTrace::EnabledPlugins(folder.join("settings.json"))).into_iter().collect()
}

fn targets(roots: &Roots, scope: Scope) -> Vec<Target> {
    let own = "CLAUDE_CONFIG_DIR";
    let folder = roots.folder(scope, |user| user.variable_or(own, ".claude"), ".claude");
    // Claude Code keeps this file inside CLAUDE_CONFIG_DIR if that is set, otherwise in the home folder.
    let servers = roots.folder(
        scope,
        |user| user.variable(own).unwrap_or(&user.home).join(".claude.json"),
        ".mcp.json",
    );
    let (Some(folder), Some(servers)) = (folder, servers) else { return Vec::new() };
    let settings = |hooks, server| Content::Settings { dialect: Dialect::Json, hooks, server };
    let text = include_str!("templates/claude-code.md");
    vec![
        Target::new(folder.join("settings.json"), settings(Some(&HOOKS), None)),
        Target::new(folder.join("commands/checkpoint.md"), Content::OwnFile { part: Part::Command, text }),
        Target::new(servers, settings(None, Some(&SERVER))),
    ]
}
