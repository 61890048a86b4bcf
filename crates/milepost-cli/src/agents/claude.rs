//! Claude Code: hooks in `settings.json`, the server in `.mcp.json` or the user's `.claude.json`, a command in Markdown.
//! Its files are plain JSON.

use super::content::{Content, Part};
use super::hooks::{Hooks, command};
use super::json::Dialect;
use super::server::Form;
use super::{Roots, Scope, Target};

/// No `PreToolUse`: `PostToolUse` brings `duration_ms`, and each hook costs the agent milliseconds. A tool that failed
/// has an event of its own, and so has a turn that an error of the API ended.
static HOOKS: Hooks = Hooks {
    command: command!("claude-code"),
    events: &[
        ("SessionStart", 20),
        ("UserPromptSubmit", 10),
        ("PostToolUse", 10),
        ("PostToolUseFailure", 10),
        ("PreCompact", 20),
        ("Stop", 20),
        ("StopFailure", 20),
        ("Notification", 10),
        ("SessionEnd", 20),
    ],
    named: false,
};

pub(super) fn targets(roots: &Roots, scope: Scope) -> Vec<Target> {
    let (folder, servers) = match scope {
        Scope::User => (roots.user.claude.clone(), roots.user.claude_servers.clone()),
        Scope::Project => (roots.project.join(".claude"), roots.project.join(".mcp.json")),
    };
    let settings = |hooks, server| Content::Settings { dialect: Dialect::Json, hooks, server };
    let text = include_str!("templates/claude-code.md");
    vec![
        Target::new(folder.join("settings.json"), settings(Some(&HOOKS), None)),
        Target::new(folder.join("commands/checkpoint.md"), Content::Whole { part: Part::Command, text }),
        Target::new(servers, settings(None, Some(Form::Claude))),
    ]
}

/// What its user has to do still.
pub(super) fn to_do(scope: Scope) -> Option<&'static str> {
    (scope == Scope::Project)
        .then_some("Claude Code asks once whether it may use the MCP server of .mcp.json: say yes in it")
}
