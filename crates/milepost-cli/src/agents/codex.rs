//! Codex CLI: hooks in `hooks.json`, the server in `config.toml`, and a skill instead of a command.
//! Codex runs only hooks that its user trusts, by position and command.

use super::content::{Content, Part};
use super::hooks::{Hooks, command};
use super::json::Dialect;
use super::{Roots, Scope, Target};

/// No `PreToolUse`: it would tell how long a tool took, and cost the agent one more process for it. `SessionEnd` gets no more than three seconds.
static HOOKS: Hooks = Hooks {
    command: command!("codex"),
    events: &[
        ("SessionStart", 20),
        ("UserPromptSubmit", 10),
        ("PostToolUse", 10),
        ("PreCompact", 20),
        ("Stop", 20),
        ("SessionEnd", 3),
    ],
    named: false,
};

pub(super) fn targets(roots: &Roots, scope: Scope) -> Vec<Target> {
    let (folder, skills) = match scope {
        Scope::User => (roots.user.codex.clone(), roots.user.skills.clone()),
        Scope::Project => (roots.project.join(".codex"), roots.project.join(".agents/skills")),
    };
    let hooks = Content::Settings { dialect: Dialect::Json, hooks: Some(&HOOKS), server: None };
    let text = include_str!("templates/codex.md");
    vec![
        Target::new(folder.join("hooks.json"), hooks),
        Target::new(skills.join("checkpoint/SKILL.md"), Content::Whole { part: Part::Command, text }),
        Target::new(folder.join("config.toml"), Content::Table),
    ]
}

/// What its user has to do still.
pub(super) fn to_do(scope: Scope) -> Option<&'static str> {
    Some(match scope {
        Scope::User => "Codex skips hooks that you have not trusted: open /hooks in it and approve them",
        Scope::Project => {
            "Codex reads .codex only in a project that you trust, and skips hooks that you have not trusted: \
             open /hooks in it and approve them"
        }
    })
}
