//! Gemini CLI: hooks and the server in `settings.json`, which may have comments, and a command in TOML.

use super::content::{Content, Part};
use super::edit::Document;
use super::hooks::{Hooks, command};
use super::json::Dialect;
use super::server::Form;
use super::{Roots, Scope, Target};

/// Times are in milliseconds. No `BeforeTool`: it would tell how long a tool took, and cost the agent one more process for it.
static HOOKS: Hooks = Hooks {
    command: command!("gemini"),
    events: &[
        ("SessionStart", 20_000),
        ("BeforeAgent", 10_000),
        ("AfterTool", 10_000),
        ("PreCompress", 20_000),
        ("AfterAgent", 20_000),
        ("Notification", 10_000),
        ("SessionEnd", 20_000),
    ],
    named: true,
};

const DIALECT: Dialect = Dialect::Jsonc;

pub(super) fn targets(roots: &Roots, scope: Scope) -> Vec<Target> {
    let folder = match scope {
        Scope::User => roots.user.gemini.clone(),
        Scope::Project => roots.project.join(".gemini"),
    };
    let settings = Content::Settings { dialect: DIALECT, hooks: Some(&HOOKS), server: Some(Form::Gemini) };
    let text = include_str!("templates/gemini.toml");
    vec![
        Target::new(folder.join("settings.json"), settings),
        Target::new(folder.join("commands/checkpoint.toml"), Content::Whole { part: Part::Command, text }),
    ]
}

/// What its user has to do still.
pub(super) fn to_do(scope: Scope) -> Option<&'static str> {
    (scope == Scope::Project)
        .then_some("Gemini runs hooks of a project only in a folder that you trust: say so in it")
}

/// Whether the settings turn all hooks off.
pub(super) fn hooks_are_off(text: &str) -> bool {
    let Ok(document) = Document::parse(text, DIALECT) else { return false };
    let switch = document.find(&["hooksConfig", "enabled"]);
    switch.and_then(|place| document.source(&place).map(|text| text == "false")).unwrap_or(false)
}
