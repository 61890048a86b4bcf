//! The plugins in `plugins/` contain what `agents install` installs: these tests build their files from the same specs,
//! templates and commands, and compare them with the repository.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::setup::{HookSettings, McpServer};
use super::{claude, codex, gemini};

const DESCRIPTION: &str =
    "Records the agent's work in durable checkpoints and hands it over to the next session";
const REPOSITORY: &str = env!("CARGO_PKG_REPOSITORY");
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Every file of the plugins, by its path in the repository. Files that are the same in every version, such as READMEs,
/// are not listed.
fn files() -> Vec<(PathBuf, String)> {
    let claude_code = Path::new("plugins/claude-code");
    let codex_plugin = Path::new("plugins/codex");
    let extension = Path::new("plugins/gemini");
    let package = Path::new("plugins/opencode");
    vec![
        (".claude-plugin/marketplace.json".into(), text(&claude_marketplace())),
        (claude_code.join(".claude-plugin/plugin.json"), text(&manifest())),
        (claude_code.join("hooks/hooks.json"), hooks(&claude::HOOKS)),
        (claude_code.join(".mcp.json"), servers(&claude::SERVER)),
        (claude_code.join("commands/checkpoint.md"), without_mark(include_str!("templates/claude-code.md"))),
        (".agents/plugins/marketplace.json".into(), text(&codex_marketplace())),
        (codex_plugin.join(".codex-plugin/plugin.json"), text(&codex_manifest())),
        (codex_plugin.join("hooks/hooks.json"), hooks(&codex::HOOKS)),
        (codex_plugin.join(".mcp.json"), servers(&gemini::SERVER)),
        (codex_plugin.join("skills/checkpoint/SKILL.md"), without_mark(include_str!("templates/codex.md"))),
        (extension.join("gemini-extension.json"), text(&gemini_manifest())),
        (extension.join("hooks/hooks.json"), hooks(&gemini::HOOKS)),
        (extension.join("commands/checkpoint.toml"), without_mark(include_str!("templates/gemini.toml"))),
        (package.join("package.json"), text(&opencode_manifest())),
        (package.join("milepost.js"), without_mark(include_str!("templates/opencode.js"))),
        (package.join("checkpoint.md"), without_mark(include_str!("templates/opencode.md"))),
    ]
}

fn text(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap() + "\n"
}

/// Fields that the manifests of Claude Code and Codex share.
fn manifest() -> Value {
    json!({
        "name": "milepost",
        "version": VERSION,
        "description": DESCRIPTION,
        "author": { "name": "The Milepost contributors" },
        "homepage": REPOSITORY,
        "repository": REPOSITORY,
        "license": "MIT OR Apache-2.0",
        "keywords": ["checkpoint", "resume", "restore", "memory"],
    })
}

fn claude_marketplace() -> Value {
    json!({
        "name": "milepost",
        "description": "Milepost: checkpoints for long-running agent work",
        "owner": { "name": "The Milepost contributors" },
        "plugins": [{ "name": "milepost", "source": "./plugins/claude-code", "description": DESCRIPTION }],
    })
}

fn codex_marketplace() -> Value {
    json!({
        "name": "milepost",
        "interface": { "displayName": "Milepost" },
        "plugins": [{
            "name": "milepost",
            "source": { "source": "local", "path": "./plugins/codex" },
            "policy": { "installation": "AVAILABLE", "authentication": "ON_INSTALL" },
            "category": "Developer Tools",
        }],
    })
}

fn codex_manifest() -> Value {
    let mut manifest = manifest();
    manifest["skills"] = json!("./skills/");
    manifest["mcpServers"] = json!("./.mcp.json");
    manifest["hooks"] = json!("./hooks/hooks.json");
    manifest["interface"] = json!({
        "displayName": "Milepost",
        "shortDescription": DESCRIPTION,
        "developerName": "The Milepost contributors",
        "category": "Developer Tools",
        "websiteURL": REPOSITORY,
    });
    manifest
}

fn gemini_manifest() -> Value {
    json!({
        "name": "milepost",
        "version": VERSION,
        "description": DESCRIPTION,
        "mcpServers": { "milepost": entry(&gemini::SERVER) },
    })
}

fn opencode_manifest() -> Value {
    json!({
        "name": "@milepost/opencode",
        "version": VERSION,
        "description": DESCRIPTION,
        "license": "MIT OR Apache-2.0",
        "homepage": REPOSITORY,
        "repository": { "type": "git", "url": format!("git+{REPOSITORY}.git"), "directory": "plugins/opencode" },
        "keywords": ["opencode", "opencode-plugin", "checkpoint"],
        "type": "module",
        "main": "index.js",
        "exports": { ".": "./index.js" },
        "files": ["index.js", "milepost.js", "checkpoint.md"],
    })
}

/// The hooks of a plugin. They run with `--plugin`, so that they give way to hooks that `agents install` set up.
fn hooks(settings: &HookSettings) -> String {
    let mut events = serde_json::Map::new();
    for event in settings.events {
        let group: Value = serde_json::from_str(&settings.plugin_group(event.timeout)).unwrap();
        events.insert(event.name.to_owned(), json!([group]));
    }
    text(&json!({ "hooks": events }))
}

fn entry(server: &McpServer) -> Value {
    serde_json::from_str(server.entry).unwrap()
}

fn servers(server: &McpServer) -> String {
    text(&json!({ "mcpServers": { "milepost": entry(server) } }))
}

/// The text of a template without the line for `agents uninstall`.
fn without_mark(template: &str) -> String {
    let lines =
        template.split_inclusive('\n').filter(|line| !line.contains("Written by `milepost agents install`"));
    let text: String = lines.collect();
    // The rest of that line's comment.
    text.strip_prefix("//\n").map(str::to_owned).unwrap_or(text)
}

#[test]
fn the_plugins_contain_what_agents_install_installs() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    if !root.join("ARCHITECTURE.md").exists() {
        // The package from crates.io does not contain the plugins.
        return;
    }
    let wanted = root.join("target/plugins");
    let mut different = Vec::new();
    for (path, text) in files() {
        let copy = wanted.join(&path);
        fs::create_dir_all(copy.parent().unwrap()).unwrap();
        #[allow(clippy::disallowed_methods, reason = "a file below target")]
        fs::write(&copy, &text).unwrap();
        if !is_same(&path, &fs::read_to_string(root.join(&path)).unwrap_or_default(), &text) {
            different.push(path.display().to_string());
        }
    }
    assert!(
        different.is_empty(),
        "these files of the plugins are out of date; run `cp -r target/plugins/. .`: {}",
        different.join(", ")
    );
}

/// Compares two versions of a file. The order of members in JSON does not matter.
fn is_same(path: &Path, one: &str, other: &str) -> bool {
    if path.extension().is_none_or(|extension| extension != "json") {
        return one == other;
    }
    serde_json::from_str::<Value>(one).is_ok_and(|one| serde_json::from_str::<Value>(other).unwrap() == one)
}

#[test]
fn a_plugin_does_nothing_without_the_program() {
    for settings in [&claude::HOOKS, &codex::HOOKS, &gemini::HOOKS] {
        let command = settings.plugin_command();
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", &command]).env("PATH", "/usr/bin:/bin").stdin(std::process::Stdio::null());
        let output = shell.output().unwrap();
        assert!(output.status.success() && output.stdout.is_empty() && output.stderr.is_empty(), "{command}");
    }
}
