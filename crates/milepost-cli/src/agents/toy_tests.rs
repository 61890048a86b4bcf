//! A toy agent for tests. It shows that a new agent needs only a file like this one and one line in `AGENTS`.

use milepost::internal::brief::BriefLimit;
use std::fs;

use serde_json::json;

use super::event::EventRole::*;
use super::event::{HookKind, SessionSource, parse};
use super::setup::{
    Access, Content, Dialect, HookSettings, McpServer, Part, PluginSpec, ProgramName, Records, Target, apply,
    hook_command, inspect, plan_install, plan_uninstall,
};
use super::spec::{AgentSpec, AnswerFormat, EventFormat, HookedEvent, Roots, Scope, ToolNames, hook};
use super::{UserFolders, find_agent};

pub(super) static SPEC: AgentSpec = AgentSpec {
    name: "toy",
    display_name: "Toy",
    program: "toy",
    prompt_arguments: &["--ask"],
    resume_command: "toy --again {session}",
    process_variables: &["TOY"],
    session_variable: None,
    folder_variables: &["TOY_HOME"],
    targets,
    plugin: PluginSpec { traces: |_| Vec::new(), removal: "break the toy" },
    user_step: |_| Some("wind it up"),
    hook_switch: None,
    runs_hooks_twice: false,
    events: EventFormat::Shared(EVENTS),
    announces_every_call: false,
    tools: ToolNames { shell: &["toyshell"], write: &["toywrite"], patch: &[], todo: &[], talk: &[] },
    command_end: None,
    proposed_plan: None,
    answer: AnswerFormat::HookSpecificOutput,
    text_limit: BriefLimit { tokens: Some(100), bytes: None, chars: None },
};

static EVENTS: &[HookedEvent] = &[hook("ToyStart", SessionStart, 5), hook("ToyTool", ToolUse, 5)];
static HOOKS: HookSettings = HookSettings { command: hook_command!("toy"), events: EVENTS, named: false };
static SERVER: McpServer = McpServer {
    list: "servers",
    entry: r#"{"run": "milepost mcp", "command": "milepost", "args": ["mcp"]}"#,
};

fn targets(roots: &Roots, scope: Scope) -> Vec<Target> {
    let folder = roots.folder(scope, |user| user.variable_or("TOY_HOME", ".toy"), ".toy");
    let Some(folder) = folder else { return Vec::new() };
    let settings = Content::Settings { dialect: Dialect::Jsonc, hooks: Some(&HOOKS), server: Some(&SERVER) };
    let text = include_str!("templates/codex.md");
    vec![
        Target::new(folder.join("toy.json"), settings),
        Target::new(folder.join("checkpoint.md"), Content::OwnFile { part: Part::Command, text }),
    ]
}

#[test]
fn a_spec_is_all_that_an_install_needs() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    let user = UserFolders { home: home.clone(), variables: vec![("TOY_HOME", home.join("toys"))] };
    let roots =
        Roots { project: folder.path().join("project"), user: Some(user), program: ProgramName::OnPath };
    let settings = home.join("toys/toy.json");
    let before = "{\n  // mine\n  \"a\": 1,\n}\n";
    fs::create_dir_all(home.join("toys")).unwrap();
    milepost::internal::fs::atomic::write(
        &settings,
        before.as_bytes(),
        milepost::internal::fs::atomic::Mode::Private,
    )
    .unwrap();

    let agent = find_agent("toy").unwrap();
    let mut records = Records::open(Some(folder.path().join("state")), Access::ReadWrite).unwrap();
    let mut plan = plan_install(agent, Scope::User, &roots, &records);
    assert!(plan.is_possible() && plan.has_changes());
    assert!(apply(&mut plan, &mut records).is_empty());
    let setup = inspect(agent, Scope::User, &roots);
    assert!(setup.is_current());
    assert_eq!(setup.user_steps, ["wind it up"]);
    assert!(fs::read_to_string(&settings).unwrap().contains("milepost hook toy"));

    drop(records);
    let mut records = Records::open(Some(folder.path().join("state")), Access::ReadWrite).unwrap();
    let mut plan = plan_uninstall(agent, Scope::User, &roots, &records);
    assert!(apply(&mut plan, &mut records).is_empty());
    assert_eq!(fs::read_to_string(&settings).unwrap(), before);
    assert!(!inspect(agent, Scope::User, &roots).is_installed());
    assert!(!home.join("toys/checkpoint.md").exists());
}

#[test]
fn a_spec_is_all_that_hooks_need() {
    let event = |name: &str| {
        let payload = json!({
            "hook_event_name": name, "session_id": "s1", "source": "clear", "tool_name": "ToyShell",
            "tool_input": {"command": "make"}, "tool_response": {"exit_code": 2},
        });
        parse(&SPEC, &payload)
    };
    assert_eq!(event("ToyStart").unwrap().kind, HookKind::SessionStarted(SessionSource::Clear));
    let HookKind::ToolUsed(tool) = event("ToyTool").unwrap().kind else { panic!() };
    assert!(tool.failed);
    assert_eq!(event("SessionStart"), None);
}
