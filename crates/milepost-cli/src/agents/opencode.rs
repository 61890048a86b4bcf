//! OpenCode: a plugin that runs the hook, the MCP server in `opencode.json` or `opencode.jsonc`, and a slash
//! command in Markdown. The plugin sends `{"event", "data", "directory", "worktree"}`, where `data` comes
//! from OpenCode.

use milepost::internal::brief::BriefLimit;
use std::path::PathBuf;

use milepost::model::InterruptionKind;
use serde_json::Value;

use super::event::talk::TalkFormat;
use super::event::todo::TodoFormat;
use super::event::tool::ToolUse;
use super::event::{HookEvent, HookKind, SessionSource, classify_failure, path, text};
use super::setup::{Content, Dialect, McpServer, Part, PluginSpec, PluginTrace, Target};
use super::spec::{AgentSpec, AnswerFormat, EventFormat, Roots, Scope, ToolNames};

pub(super) static SPEC: AgentSpec = AgentSpec {
    name: "opencode",
    display_name: "OpenCode",
    program: "opencode",
    prompt_arguments: &["--prompt"],
    resume_command: "opencode --session {session}",
    process_variables: &["OPENCODE", "OPENCODE_SESSION_ID"],
    session_variable: None,
    folder_variables: &["XDG_CONFIG_HOME"],
    targets,
    plugin: PluginSpec { traces: plugin_traces, removal: "remove @milepost/opencode from its settings" },
    user_step: |_| None,
    hook_switch: None,
    runs_hooks_twice: false,
    events: EventFormat::Own(parse_event),
    announces_every_call: false,
    tools: ToolNames {
        shell: &["bash"],
        write: &["write", "edit", "multiedit"],
        patch: &["patch", "apply_patch"],
        todo: &[("todowrite", TodoFormat::List("todos"))],
        talk: &[("question", TalkFormat::AnswersInOrder)],
    },
    command_end: None,
    proposed_plan: None,
    answer: AnswerFormat::Plugin,
    text_limit: BriefLimit { bytes: Some(28_000), tokens: None, chars: None },
};

static SERVER: McpServer =
    McpServer { list: "mcp", entry: r#"{"type": "local", "command": ["milepost", "mcp"], "enabled": true}"# };

fn plugin_traces(roots: &Roots) -> Vec<PluginTrace> {
    let Some(user) = &roots.user else { return Vec::new() };
    let folder = user.variable_or("XDG_CONFIG_HOME", ".config").join("opencode");
    let files = ["opencode.json", "opencode.jsonc"].map(|name| folder.join(name));
    files.map(PluginTrace::Packages).into()
}

fn targets(roots: &Roots, scope: Scope) -> Vec<Target> {
    let user = |user: &super::UserFolders| user.variable_or("XDG_CONFIG_HOME", ".config").join("opencode");
    let Some(folder) = roots.folder(scope, user, ".opencode") else { return Vec::new() };
    let settings = match scope {
        Scope::User => [folder.clone(), folder.clone()],
        Scope::Project => [roots.project.clone(), folder.clone()],
    };
    let plugin = include_str!("templates/opencode.js");
    let text = include_str!("templates/opencode.md");
    let server = Content::Settings { dialect: Dialect::Jsonc, hooks: None, server: Some(&SERVER) };
    vec![
        Target::new(folder.join("plugins/milepost.js"), Content::OwnFile { part: Part::Hooks, text: plugin }),
        Target::new(folder.join("commands/checkpoint.md"), Content::OwnFile { part: Part::Command, text }),
        Target::new(settings_file(&settings), server),
    ]
}

/// The file that contains our entry, otherwise the first one that exists, otherwise the default. OpenCode
/// reads all of them.
fn settings_file(folders: &[PathBuf; 2]) -> PathBuf {
    let names = ["opencode.json", "opencode.jsonc"];
    let all: Vec<_> = folders.iter().flat_map(|folder| names.map(|name| folder.join(name))).collect();
    let has_entry = |path: &&PathBuf| {
        // Read only regular files. Editing refuses anything else later.
        let is_file = std::fs::metadata(path).is_ok_and(|about| about.is_file());
        is_file && std::fs::read_to_string(path).is_ok_and(|text| text.contains("\"milepost\""))
    };
    let found = all.iter().find(has_entry).or_else(|| all.iter().find(|path| path.exists()));
    found.unwrap_or(&all[0]).clone()
}

fn parse_event(payload: &Value, tools: &ToolNames) -> Option<HookEvent> {
    let name = text(payload, "event")?;
    let data = payload.get("data").unwrap_or(&Value::Null);
    let input = data.get("i").unwrap_or(data);
    let output = data.get("o").unwrap_or(&Value::Null);
    let duration_ms = data.get("duration_ms").and_then(Value::as_u64).unwrap_or(0);
    let kind = match name {
        "experimental.chat.system.transform" => match text(data, "source") {
            Some("resume") => HookKind::SessionStarted(SessionSource::Resume),
            Some("compact") => HookKind::SessionStarted(SessionSource::Compact),
            _ => HookKind::ContextRequested,
        },
        "chat.message" => {
            let parts = output.get("parts").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
            let texts: Vec<_> = parts.iter().filter_map(|part| text(part, "text")).collect();
            HookKind::Prompt((!texts.is_empty()).then(|| texts.join("\n"))?)
        }
        "tool.execute.after" => {
            let args = input.get("args").unwrap_or(&Value::Null);
            let mut tool = ToolUse::parse(tools, text(input, "tool")?, args, output);
            tool.duration_ms = duration_ms;
            HookKind::ToolUsed(Box::new(tool))
        }
        // The plugin sends this event only for failed tool calls, which no other event reports.
        "event:message.part.updated" => {
            let part = data.get("part")?;
            let state = part.get("state").filter(|state| text(state, "status") == Some("error"))?;
            let args = state.get("input").unwrap_or(&Value::Null);
            let mut tool = ToolUse::parse(tools, text(part, "tool")?, args, state);
            (tool.duration_ms, tool.failed) = (duration_ms, true);
            HookKind::ToolUsed(Box::new(tool))
        }
        "event:permission.replied" => HookKind::Continued,
        "experimental.session.compacting" => HookKind::Compacting { accepts_context: true },
        // The plugin adds the last text of the assistant.
        "event:session.idle" => HookKind::TurnEnded(text(data, "last_text").map(str::to_owned)),
        "event:session.error" => {
            let error = data.get("error").unwrap_or(&Value::Null);
            let message = error.get("data").and_then(|data| text(data, "message"));
            let detail = message.or_else(|| text(error, "message")).or_else(|| text(error, "name"));
            HookKind::Interrupted(classify_failure(detail.unwrap_or_default()), detail.map(str::to_owned))
        }
        "event:permission.updated" | "event:permission.asked" => {
            let detail = ["title", "permission", "type"].iter().find_map(|key| text(data, key));
            HookKind::Interrupted(InterruptionKind::WaitingForUser, detail.map(str::to_owned))
        }
        _ => return None,
    };
    let session = ["sessionID", "session_id"].iter().find_map(|key| text(input, key).or(text(data, key)))?;
    Some(HookEvent {
        session: session.to_owned(),
        cwd: path(payload, "directory").or_else(|| path(payload, "worktree")),
        transcript: None,
        name: name.to_owned(),
        kind,
    })
}
