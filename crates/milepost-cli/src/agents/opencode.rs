//! OpenCode: a plugin that starts the hook, the server in `opencode.json` or `.jsonc`, a command in Markdown.

use std::path::PathBuf;

use super::content::{Content, Part};
use super::json::Dialect;
use super::server::Form;
use super::{Roots, Scope, Target};

pub(super) fn targets(roots: &Roots, scope: Scope) -> Vec<Target> {
    let (folder, settings) = match scope {
        Scope::User => {
            (roots.user.opencode.clone(), [roots.user.opencode.clone(), roots.user.opencode.clone()])
        }
        Scope::Project => {
            let folder = roots.project.join(".opencode");
            (folder.clone(), [roots.project.clone(), folder])
        }
    };
    let plugin = include_str!("templates/opencode.js");
    let text = include_str!("templates/opencode.md");
    let server = Content::Settings { dialect: Dialect::Jsonc, hooks: None, server: Some(Form::OpenCode) };
    vec![
        Target::new(folder.join("plugins/milepost.js"), Content::Whole { part: Part::Hooks, text: plugin }),
        Target::new(folder.join("commands/checkpoint.md"), Content::Whole { part: Part::Command, text }),
        Target::new(config(&settings), server),
    ]
}

/// The file that holds our entry, else the first that is there, else the usual one: OpenCode reads them all.
fn config(folders: &[PathBuf; 2]) -> PathBuf {
    let names = ["opencode.json", "opencode.jsonc"];
    let all: Vec<_> = folders.iter().flat_map(|folder| names.map(|name| folder.join(name))).collect();
    let holds = |path: &&PathBuf| {
        // Anything but a file is refused by whoever edits it.
        let is_file = std::fs::metadata(path).is_ok_and(|about| about.is_file());
        is_file && std::fs::read_to_string(path).is_ok_and(|text| text.contains("\"milepost\""))
    };
    let found = all.iter().find(holds).or_else(|| all.iter().find(|path| path.exists()));
    found.unwrap_or(&all[0]).clone()
}
