//! `agents install` and `uninstall` on real files: uninstalling restores every byte.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::TestEnvironment;

/// Returns every file and folder under `root`, with the content of the files.
fn tree(root: &Path) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root).unwrap().to_owned();
            if path.is_dir() {
                found.insert(name, None);
                folders.push(path);
            } else {
                found.insert(name, Some(std::fs::read(&path).unwrap()));
            }
        }
    }
    found
}

impl TestEnvironment {
    pub(crate) fn put(&self, name: &str, content: &str) -> PathBuf {
        std::fs::create_dir_all(self.project().join(name).parent().unwrap()).unwrap();
        self.write(name, content)
    }

    pub(crate) fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.project().join(name)).unwrap()
    }

    /// The state of each installed part of an agent in a scope.
    pub(crate) fn states(&self, agent: &str, scope: usize) -> Vec<String> {
        let status = self.json(&["agents", "status", agent]);
        let parts = status["agents"][0]["scopes"][scope]["parts"].as_array().unwrap().clone();
        parts.iter().map(|part| part["state"].as_str().unwrap().to_owned()).collect()
    }
}

/// Settings files before an install, and whether only an agent that reads comments accepts them.
const STARTS: [(&str, bool); 14] = [
    ("", false),
    ("\n\n", false),
    ("{}", false),
    ("{ }\n", false),
    ("{\n  \"model\": \"m\",\n  \"hooks\": {}\n}\n", false),
    (
        "{\n\t\"hooks\": {\n\t\t\"Stop\": [\n\t\t\t{ \"hooks\": [ { \"type\": \"command\", \"command\": \"notify\" } ] }\n\t\t]\n\t}\n}\n",
        false,
    ),
    (
        "{\r\n    \"hooks\": {\r\n        \"SessionStart\": [],\r\n        \"AfterTool\": []\r\n    },\r\n    \"z\": 1\r\n}\r\n",
        false,
    ),
    ("{\n       \"odd\":   [1,\n 2 ,3],\n   \"mcpServers\": { },\n \"mcp\" : {}\n    }", false),
    (
        "{\"permissions\":{\"allow\":[\"Bash(ls)\"]},\"mcpServers\":{\"x\":{\"command\":\"x\"}},\"mcp\":{\"x\":{}}}",
        false,
    ),
    ("\u{feff}{ \"a\": 9007199254740993, \"b\": 1.0, \"a\": \"\\u00e9\" }\n", false),
    (
        "// mine\n{\n  // one\n  \"a\": 1, // two\n  /* three */ \"hooks\": {\n    // four\n  }, // five\n}\n",
        true,
    ),
    ("{ \"mcp\": { // none yet\n }, \"mcpServers\": {/* none */}, }", true),
    ("{\n  \"a\": 1 // last\n}\n", true),
    ("{// only this\n}", true),
];

fn settings(agent: &str) -> &'static [&'static str] {
    match agent {
        "claude-code" => &[".claude/settings.json", ".mcp.json"],
        "gemini" => &[".gemini/settings.json"],
        "codex" => &[".codex/hooks.json"],
        _ => &["opencode.json"],
    }
}

#[test]
fn installing_twice_and_uninstalling_once_restores_every_byte() {
    for agent in ["claude-code", "gemini", "codex", "opencode"] {
        let reads_comments = matches!(agent, "gemini" | "opencode");
        let missing = std::iter::once((None, false));
        for (start, comments) in missing.chain(STARTS.iter().map(|(text, comments)| (Some(*text), *comments)))
        {
            let env = TestEnvironment::new();
            for name in settings(agent) {
                start.map(|text| env.put(name, text));
            }
            let before = tree(&env.project());
            let ran = env.run(&["agents", "install", agent, "--project"]);
            if comments && !reads_comments {
                assert!(ran.exits(1).stderr.contains("comments are not allowed"), "{agent} {start:?}");
                assert_eq!(tree(&env.project()), before, "{agent} {start:?}");
                continue;
            }
            ran.exits(0);
            let installed = tree(&env.project());
            assert_ne!(installed, before);
            assert!(env.states(agent, 1).iter().all(|state| state == "current"), "{agent} {start:?}");
            let again = env.json(&["agents", "install", agent, "--project"]);
            let files = again["agents"][0]["files"].as_array().unwrap();
            assert!(files.iter().all(|file| file["change"] == "unchanged"), "{again}");
            assert_eq!(tree(&env.project()), installed, "{agent} {start:?}");
            env.run(&["agents", "uninstall", agent, "--project"]).exits(0);
            assert_eq!(tree(&env.project()), before, "{agent} {start:?}");
            assert!(!env.path("home/.local/state/milepost/agents.json").exists());
        }
    }
}

#[test]
fn uninstalling_restores_every_byte_of_codex_toml() {
    for start in [
        "",
        "model = \"m\"  # mine\n\n# end",
        "[mcp_servers.other]\r\ncommand = \"x\"\r\n",
        "# nothing\n\n\n",
        "text = \"\"\"\n[mcp_servers.milepost]\n\"\"\"\n",
    ] {
        let env = TestEnvironment::new();
        env.put(".codex/config.toml", start);
        let before = tree(&env.project());
        for _ in 0..2 {
            env.run(&["agents", "install", "codex", "--project"]).exits(0);
            assert!(env.states("codex", 1).iter().all(|state| state == "current"), "{start}");
        }
        env.run(&["agents", "uninstall", "codex", "--project"]).exits(0);
        assert_eq!(tree(&env.project()), before, "{start}");
    }
    let env = TestEnvironment::new();
    env.put(".codex/config.toml", "mcp_servers = { x = { command = \"x\" } }\n");
    let before = tree(&env.project());
    let ran = env.run(&["agents", "install", "codex", "--project", "--json"]).exits(1);
    assert_eq!(ran.reason(), "agent_settings_invalid");
    assert_eq!(tree(&env.project()), before);
}

#[test]
fn another_machine_can_uninstall_committed_settings() {
    let env = TestEnvironment::new();
    let text = "{\n  \"a\": 1\n}\n";
    for name in [".claude/settings.json", ".gemini/settings.json", ".codex/hooks.json", "opencode.json"] {
        env.put(name, text);
    }
    env.put(".codex/config.toml", "a = 1");
    env.run(&["agents", "install", "--all", "--project"]).exits(0);
    // A teammate has neither the installation record nor the backups.
    std::fs::remove_dir_all(env.path("home/.local")).unwrap();
    for name in [
        ".claude/settings.json",
        ".gemini/settings.json",
        ".codex/hooks.json",
        "opencode.json",
        ".codex/config.toml",
    ] {
        std::fs::remove_file(env.project().join(format!("{name}.before-milepost"))).unwrap();
    }
    env.run(&["agents", "uninstall", "--all", "--project"]).exits(0);
    let left: Vec<_> = tree(&env.project()).into_iter().filter(|(_, bytes)| bytes.is_some()).collect();
    assert_eq!(left.len(), 5, "{left:?}");
    assert_eq!(env.text(".claude/settings.json"), text);
    assert_eq!(env.text("opencode.json"), text);
    assert_eq!(env.text(".codex/config.toml"), "a = 1");
}

#[test]
fn changes_by_the_user_survive_uninstalling() {
    let env = TestEnvironment::new();
    env.put(".gemini/settings.json", "{\n  \"hooks\": {},\n  \"theme\": \"dark\"\n}\n");
    env.run(&["agents", "install", "gemini", "claude-code", "--project"]).exits(0);
    let settings = env.text(".gemini/settings.json").replace("dark", "light");
    env.put(".gemini/settings.json", &settings);
    let command = env.text(".claude/commands/checkpoint.md") + "And be brief.\n";
    env.put(".claude/commands/checkpoint.md", &command);
    env.put(".claude/commands/mine.md", "mine");
    let ran = env.json(&["agents", "uninstall", "--all", "--project"]);
    assert_eq!(env.text(".gemini/settings.json"), "{\n  \"hooks\": {},\n  \"theme\": \"light\"\n}\n");
    assert_eq!(
        env.text(".gemini/settings.json.before-milepost"),
        "{\n  \"hooks\": {},\n  \"theme\": \"dark\"\n}\n"
    );
    assert!(!env.project().join(".claude/commands/checkpoint.md").exists());
    assert_eq!(env.text(".claude/commands/checkpoint.md.before-milepost"), command, "{ran}");
    assert_eq!(env.text(".claude/commands/mine.md"), "mine");
    assert!(!env.project().join(".claude/settings.json").exists());
}

#[test]
fn an_agent_with_an_invalid_settings_file_is_not_changed() {
    let env = TestEnvironment::new();
    env.put(".claude/settings.json", "{\n  \"a\": 1,\n  \"b\"\n}\n");
    env.write("opencode.json", b"{\"a\": \"\xff\"}");
    let before = tree(&env.project());
    let ran = env.run(&["agents", "install", "claude-code", "opencode", "--project", "--json"]).exits(1);
    assert_eq!(ran.reason(), "agent_settings_invalid");
    assert!(ran.stderr.contains("line 4: expected colon"), "{ran:?}");
    assert!(ran.stdout.contains("it is not UTF-8 text"), "{ran:?}");
    assert_eq!(tree(&env.project()), before, "their other files are unchanged too");
    // Another agent is still set up.
    env.run(&["agents", "install", "claude-code", "gemini", "--project"]).exits(3);
    assert_eq!(env.states("gemini", 1), ["current", "current", "current"]);
    assert_eq!(env.states("claude-code", 1)[0], "invalid");
}

#[test]
fn a_dry_run_shows_the_diff_and_changes_nothing() {
    let env = TestEnvironment::new();
    env.put(".mcp.json", "{\n  \"mcpServers\": {\n    \"x\": {}\n  }\n}\n");
    let before = tree(&env.path(""));
    let ran = env.run(&["agents", "install", "claude-code", "--project", "--dry-run"]).exits(0);
    for line in [
        "--- /dev/null",
        "+++ ",
        "@@ -1,5 +1,10 @@",
        "-    \"x\": {}",
        "+    \"x\": {},",
        "+      \"args\": [\"mcp\"]",
    ] {
        assert!(ran.stdout.contains(line), "{line}: {}", ran.stdout);
    }
    let json = env.json(&["agents", "install", "claude-code", "--project", "--dry-run"]);
    assert_eq!((&json["dry_run"], &json["schema"]), (&Value::Bool(true), &Value::from("milepost.agents/1")));
    assert!(json["agents"][0]["files"][2]["diff"].as_str().unwrap().contains("+    \"x\": {},\n"));
    assert_eq!(tree(&env.path("")), before);
    env.run(&["agents", "install", "claude-code", "--project"]).exits(0);
    let installed = tree(&env.path(""));
    let ran = env.run(&["agents", "uninstall", "claude-code", "--project", "--dry-run"]).exits(0);
    assert!(
        ran.stdout.contains("+++ /dev/null") && ran.stdout.contains("-      \"args\": [\"mcp\"]"),
        "{ran:?}"
    );
    assert_eq!(tree(&env.path("")), installed);
}

#[test]
fn the_user_scope_is_the_default_and_uses_each_agents_folders() {
    let mut env = TestEnvironment::new();
    std::fs::create_dir_all(env.path("home/.claude")).unwrap();
    env.write("../home/.claude.json", "{\"numStartups\": 3}");
    let before = tree(&env.path("home"));
    env.run(&["agents", "install", "--all"]).exits(0);
    for name in [
        ".claude/settings.json",
        ".claude/commands/checkpoint.md",
        ".gemini/settings.json",
        ".gemini/commands/checkpoint.toml",
        ".codex/hooks.json",
        ".codex/config.toml",
        ".agents/skills/checkpoint/SKILL.md",
        ".config/opencode/plugins/milepost.js",
        ".config/opencode/opencode.json",
        ".config/opencode/commands/checkpoint.md",
    ] {
        assert!(env.path("home").join(name).is_file(), "{name}");
    }
    let servers = std::fs::read_to_string(env.path("home/.claude.json")).unwrap();
    assert!(servers.starts_with("{\"numStartups\": 3, \"mcpServers\": {\"milepost\": "), "{servers}");
    assert!(tree(&env.project()).is_empty());
    env.run(&["agents", "uninstall", "--all"]).exits(0);
    let mut after = tree(&env.path("home"));
    after.retain(|path, _| !path.starts_with(".local"));
    assert_eq!(after, before);
    // The agents' own environment variables move their folders.
    for (name, folder) in
        [("CLAUDE_CONFIG_DIR", "c"), ("CODEX_HOME", "x"), ("GEMINI_CLI_HOME", "g"), ("XDG_CONFIG_HOME", "o")]
    {
        env.set(name, env.path(folder).to_str().unwrap());
    }
    env.run(&["agents", "install", "--all"]).exits(0);
    for name in [
        "c/settings.json",
        "c/.claude.json",
        "x/hooks.json",
        "g/.gemini/settings.json",
        "o/opencode/opencode.json",
    ] {
        assert!(env.path(name).is_file(), "{name}");
    }
    let ran = env.run_with(&[("HOME", "")], &["agents", "install", "gemini"]).exits(2);
    assert!(ran.stderr.contains("HOME is not set"), "{ran:?}");
    env.run_with(&[("HOME", "")], &["agents", "install", "gemini", "--project"]).exits(0);
}

#[test]
fn uninstalling_covers_folders_that_moved() {
    let env = TestEnvironment::new();
    let settings = env.path("home/.claude/settings.json");
    env.run(&["agents", "install", "claude-code"]).exits(0);
    let elsewhere = env.path("c");
    let variables = [("CLAUDE_CONFIG_DIR", elsewhere.to_str().unwrap())];
    env.run_with(&variables, &["agents", "install", "claude-code"]).exits(0);
    assert!(settings.exists() && elsewhere.join("settings.json").exists());
    env.run_with(&variables, &["agents", "uninstall", "claude-code"]).exits(0);
    assert!(!settings.exists() && !elsewhere.exists() && !env.path("home/.claude.json").exists());
}

#[test]
fn everywhere_covers_the_user_and_every_project() {
    let env = TestEnvironment::new();
    let other = env.path("other");
    std::fs::create_dir(&other).unwrap();
    env.run(&["agents", "install", "gemini"]).exits(0);
    env.run(&["agents", "install", "--all", "--project"]).exits(0);
    env.run_in(&other, &["agents", "install", "gemini", "codex", "--project"]).exits(0);
    let status = env.json(&["agents", "status"]);
    assert_eq!(status["elsewhere"], serde_json::json!([other.to_str().unwrap()]));
    env.run(&["agents", "uninstall", "--all", "--everywhere"]).exits(0);
    assert!(tree(&env.project()).is_empty() && tree(&other).is_empty());
    assert!(!env.path("home/.gemini").exists());
    assert!(
        env.run(&["agents", "uninstall", "--all", "--everywhere"])
            .exits(0)
            .stdout
            .contains("Nothing is set up here")
    );
}

#[cfg(unix)]
#[test]
fn links_and_permissions_are_preserved() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let env = TestEnvironment::new();
    std::fs::create_dir_all(env.project().join(".gemini")).unwrap();
    let outside = env.write("../outside.json", "{}");
    symlink(&outside, env.project().join(".gemini/settings.json")).unwrap();
    let ran = env.run(&["agents", "install", "gemini", "--project"]).exits(1);
    assert!(ran.stderr.contains("leads out of the project"), "{ran:#?}");
    assert_eq!(std::fs::read_to_string(&outside).unwrap(), "{}");
    std::fs::remove_file(env.project().join(".gemini/settings.json")).unwrap();
    let real = env.project().join("dotfiles.json");
    env.write("dotfiles.json", "{}");
    std::fs::set_permissions(&real, std::fs::Permissions::from_mode(0o640)).unwrap();
    let link = env.project().join(".gemini/settings.json");
    symlink(&real, &link).unwrap();
    env.run(&["agents", "install", "gemini", "--project"]).exits(0);
    assert!(link.is_symlink() && std::fs::read_to_string(&real).unwrap().contains("milepost hook gemini"));
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&real), mode(&env.project().join("dotfiles.json.before-milepost"))), (0o640, 0o640));
    env.run(&["agents", "uninstall", "gemini", "--project"]).exits(0);
    assert!(link.is_symlink());
    assert_eq!((std::fs::read_to_string(&real).unwrap().as_str(), mode(&real)), ("{}", 0o640));
    std::fs::remove_file(&real).unwrap();
    assert!(
        env.run(&["agents", "install", "gemini", "--project"]).exits(1).stderr.contains("link to a file")
    );
}

#[test]
fn a_failed_write_is_reported_and_the_rest_is_installed() {
    let env = TestEnvironment::new();
    env.put(".claude", "a file, not a folder");
    let ran = env.run(&["agents", "install", "claude-code", "--project", "--json"]).exits(3);
    assert_eq!(ran.reason(), "checkpoint_atomic_write_failed");
    assert!(env.text(".mcp.json").contains("milepost") && env.text(".claude") == "a file, not a folder");
    env.run(&["agents", "uninstall", "claude-code", "--project"]).exits(0);
    assert!(!env.project().join(".mcp.json").exists());
    // Without a state folder, the settings files alone are enough to uninstall.
    std::fs::remove_dir_all(env.path("home/.local")).unwrap();
    env.write("../home/.local", "no folder");
    env.put(".gemini/settings.json", "{\"a\":1}");
    let ran = env.run(&["agents", "install", "gemini", "--project"]).exits(0);
    assert!(ran.stderr.contains("cannot open the installation records"), "{ran:?}");
    env.run(&["agents", "uninstall", "gemini", "--project"]).exits(0);
    assert_eq!(env.text(".gemini/settings.json"), "{\"a\":1}");
}

#[test]
fn uninstalling_works_after_manual_changes() {
    let env = TestEnvironment::new();
    env.put(".gemini/settings.json", "{}");
    let before = tree(&env.project());
    env.run(&["agents", "install", "gemini", "codex", "--project"]).exits(0);
    env.put(".gemini/settings.json", "{}");
    for name in [".gemini/commands", ".codex", ".agents"] {
        std::fs::remove_dir_all(env.project().join(name)).unwrap();
    }
    env.run(&["agents", "uninstall", "--all", "--project"]).exits(0);
    assert_eq!(tree(&env.project()), before);
    assert!(!env.path("home/.local/state/milepost/agents.json").exists());
    // The user removed the file between two installs, so uninstalling removes it.
    env.run(&["agents", "install", "gemini", "--project"]).exits(0);
    std::fs::remove_dir_all(env.project().join(".gemini")).unwrap();
    env.run(&["agents", "install", "gemini", "--project"]).exits(0);
    env.run(&["agents", "uninstall", "gemini", "--project"]).exits(0);
    assert!(tree(&env.project()).is_empty());
}
