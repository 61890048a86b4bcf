//! What `agents` installs and reports: stale entries, the user's own files and remaining steps. Also
//! `init --agents`.

use serde_json::Value;

use crate::TestEnvironment;

#[test]
fn stale_entries_are_reported_and_updated() {
    let env = TestEnvironment::new();
    let old =
        r#"{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "milepost hook claude-code"}]}]}}"#;
    env.put(".claude/settings.json", old);
    env.put(
        ".mcp.json",
        r#"{"mcpServers": {"milepost": {"command": "milepost", "args": ["mcp", "--old"]}}}"#,
    );
    env.put(".claude/commands/checkpoint.md", "<!-- Written by `milepost agents install` -->\nold\n");
    assert_eq!(env.states("claude-code", 1), ["stale", "stale", "stale"]);
    let page = env.run(&["agents", "status", "claude-code"]).exits(0).stdout;
    assert!(page.contains("another command for Stop") && page.contains("no hook for SessionStart"), "{page}");
    assert!(page.contains("Next: milepost agents install claude-code --project"), "{page}");
    env.run(&["agents", "install", "claude-code", "--project"]).exits(0);
    assert_eq!(env.states("claude-code", 1), ["current", "current", "current"]);
    assert_eq!(env.text(".claude/settings.json.before-milepost"), old);
    env.run(&["agents", "uninstall", "claude-code", "--project"]).exits(0);
    assert!(!env.project().join(".claude/commands/checkpoint.md").exists());
    assert!(!env.text(".claude/settings.json").contains("milepost"));
}

#[test]
fn the_users_own_files_are_not_changed() {
    let env = TestEnvironment::new();
    env.put(".claude/commands/checkpoint.md", "my own");
    env.put(".mcp.json", r#"{"mcpServers": {"milepost": {"command": "docker"}}}"#);
    let ran = env.run(&["agents", "install", "claude-code", "--project"]).exits(0);
    assert!(ran.stdout.contains("a file of your own") && ran.stdout.contains("runs docker"), "{ran:?}");
    assert_eq!(env.states("claude-code", 1), ["current", "yours", "yours"]);
    env.run(&["agents", "uninstall", "claude-code", "--project"]).exits(0);
    assert_eq!(env.text(".claude/commands/checkpoint.md"), "my own");
    assert!(env.text(".mcp.json").contains("docker"));
}

#[test]
fn hooks_are_silent_without_the_binary_and_pass_it_their_input() {
    let env = TestEnvironment::new();
    env.run(&["agents", "install", "claude-code", "gemini", "codex", "--project"]).exits(0);
    let bin = env.path("bin");
    std::fs::create_dir(&bin).unwrap();
    let fake = env.write("../bin/milepost", "#!/bin/sh\necho \"$@\" $(wc -c)\nexit 1\n");
    #[cfg(unix)]
    std::fs::set_permissions(&fake, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    for (agent, file) in [
        ("claude-code", ".claude/settings.json"),
        ("gemini", ".gemini/settings.json"),
        ("codex", ".codex/hooks.json"),
    ] {
        let settings: Value = serde_json::from_str(&env.text(file)).unwrap();
        for (event, groups) in settings["hooks"].as_object().unwrap() {
            let hook = &groups[0]["hooks"][0];
            let command = hook["command"].as_str().unwrap();
            let timeout = hook["timeout"].as_u64().unwrap();
            assert_eq!(timeout >= 1000, agent == "gemini", "{event}: only Gemini uses milliseconds");
            assert!(agent != "codex" || event != "SessionEnd" || timeout <= 3);
            if event != "SessionStart" {
                continue;
            }
            for shell in ["sh", "bash", "zsh", "fish"] {
                let run = |path: &str| {
                    use std::io::Write;
                    let mut child = std::process::Command::new(shell)
                        .args(["-c", command])
                        .env("PATH", path)
                        .stdin(std::process::Stdio::piped())
                        .stdout(std::process::Stdio::piped())
                        .stderr(std::process::Stdio::piped())
                        .spawn()
                        .ok()?;
                    // More than a pipe can buffer, so the hook has to read it.
                    let written = child.stdin.take().unwrap().write_all(&vec![b'x'; 300_000]);
                    let output = child.wait_with_output().unwrap();
                    assert!(
                        written.is_ok() && output.status.success() && output.stderr.is_empty(),
                        "{output:?}"
                    );
                    Some(String::from_utf8(output.stdout).unwrap())
                };
                let Some(absent) = run("/usr/bin:/bin") else { continue };
                assert_eq!(absent, "", "{shell}");
                let there = run(&format!("{}:/usr/bin:/bin", bin.display())).unwrap();
                assert_eq!(there, format!("hook {agent} 300000\n"), "{shell}");
            }
        }
    }
}

#[test]
fn codex_installed_in_both_scopes_is_reported() {
    let env = TestEnvironment::new();
    env.run(&["agents", "install", "codex"]).exits(0);
    let ran = env.run(&["agents", "install", "codex", "--project"]).exits(0);
    assert!(ran.stdout.contains("recorded twice"), "{ran:?}");
    assert!(env.run(&["agents", "status"]).exits(0).stdout.contains("recorded twice"));
    assert!(!env.run(&["agents", "install", "gemini", "--project"]).exits(0).stdout.contains("twice"));
}

#[test]
fn agent_names_are_checked_and_disabled_hooks_are_reported() {
    let env = TestEnvironment::new();
    let ran = env.run(&["agents", "install"]).exits(2);
    assert!(ran.stderr.contains("claude-code, gemini, codex, opencode"), "{ran:?}");
    assert!(env.run(&["agents", "install", "claude"]).exits(2).stderr.contains("did you mean claude-code?"));
    env.run(&["agents", "install", "gemini", "--all"]).exits(2);
    env.put(".gemini/settings.json", "{\"hooksConfig\": {\"enabled\": false}}");
    env.run(&["agents", "install", "gemini", "codex", "--project"]).exits(0);
    let page = env.run(&["agents", "status", "--project"]).exits(0).stdout;
    assert!(page.contains("set hooksConfig.enabled to true") && page.contains("open /hooks"), "{page}");
    let status = env.json(&["agents", "status", "gemini", "--project"]);
    assert_eq!(status["agents"][0]["scopes"][0]["to_do"].as_array().unwrap().len(), 2);
    assert_eq!(status["agents"][0]["program"], Value::Null);
}

#[test]
fn init_sets_up_agents_only_on_request() {
    let env = TestEnvironment::new();
    assert_eq!(env.json(&["init", "--yes"])["agents"], serde_json::json!([]));
    assert!(!env.path("home/.claude").exists());
    env.run(&["init", "--agents", "teapot"]).exits(2);
    let made = env.json(&["init", "--agents", "claude-code", "codex"]);
    assert_eq!(made["agents"], serde_json::json!(["claude-code", "codex"]));
    assert!(env.path("home/.claude/settings.json").exists() && env.path("home/.codex/hooks.json").exists());
    let ran = env.run(&["init", "--agents", "all"]).exits(0);
    assert!(ran.stdout.contains("gemini") && ran.stdout.contains("To do: Codex"), "{ran:?}");
    env.write("../home/.claude/settings.json", "{");
    let ran = env.run(&["init", "--agents", "claude-code", "--json"]).exits(1);
    assert_eq!(ran.reason(), "agent_settings_invalid");
    assert_eq!(ran.json()["created"], false);
}
