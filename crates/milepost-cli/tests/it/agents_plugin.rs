//! An agent that has both the plugin and the hooks of `agents install` must be recorded once. The hooks of an installation
//! from npm must not start Node.

use std::path::{Path, PathBuf};

use serde_json::json;

use crate::TestEnvironment;
use crate::environment::finished;

/// What each agent writes when the plugin is installed, as its version in `docs/agents.md` does.
const PLUGINS: [(&str, &str, &str); 4] = [
    ("claude-code", ".claude/settings.json", r#"{"enabledPlugins": {"milepost@milepost": true}}"#),
    ("codex", ".codex/config.toml", "[plugins.\"milepost@milepost\"]\nenabled = true\n"),
    ("gemini", ".gemini/extensions/milepost/gemini-extension.json", "{}"),
    ("opencode", ".config/opencode/opencode.json", r#"{"plugin": ["@milepost/opencode@0.1.0"]}"#),
];

fn put_in_home(env: &TestEnvironment, name: &str, text: &str) -> PathBuf {
    let file = env.path("home").join(name);
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    env.write(&format!("../home/{name}"), text);
    file
}

fn send_prompt(env: &TestEnvironment, session: &str, options: &[&str]) {
    let event = json!({
        "session_id": session, "cwd": env.project(), "hook_event_name": "UserPromptSubmit", "prompt": "Go on",
    });
    let args = [&["hook", "claude-code", "--strict"], options].concat();
    let ran = env.run_on(event.to_string().as_bytes(), &args).exits(0);
    assert_eq!(ran.stdout, "");
}

#[test]
fn an_agent_with_the_plugin_is_not_set_up_twice() {
    let env = TestEnvironment::new();
    for (agent, file, text) in PLUGINS {
        let file = put_in_home(&env, file, text);
        let ran = env.run(&["agents", "install", agent]).exits(0);
        assert!(ran.stdout.contains("has Milepost's plugin") && ran.stdout.contains("first "), "{ran:?}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), text, "{agent}");
        let status = env.json(&["agents", "status", agent]);
        assert_eq!(status["agents"][0]["plugin"], file.to_str().unwrap(), "{status}");
        assert_eq!(status["agents"][0]["scopes"][0]["installed"], false, "{status}");
        // A team's files are for people without the plugin too.
        env.run(&["agents", "install", agent, "--project"]).exits(0);
        assert_eq!(env.json(&["agents", "status", agent])["agents"][0]["scopes"][1]["installed"], true);
        env.run(&["agents", "uninstall", agent, "--project"]).exits(0);
    }
}

#[test]
fn plugins_of_others_and_disabled_plugins_do_not_count() {
    let env = TestEnvironment::new();
    for text in [
        r#"{"enabledPlugins": {"milepost@milepost": false}}"#,
        r#"{"enabledPlugins": {"milepost-theme@milepost": true}}"#,
        r#"{"enabledPlugins": ["milepost@milepost"]}"#,
        "{",
    ] {
        put_in_home(&env, ".claude/settings.json", text);
        let status = env.json(&["agents", "status", "claude-code"]);
        assert_eq!(status["agents"][0]["plugin"], json!(null), "{text}");
    }
    // A project must not decide what is set up for its user.
    put_in_home(&env, ".claude/settings.json", "{}");
    env.put(".claude/settings.json", PLUGINS[0].2);
    let status = env.json(&["agents", "status", "claude-code"]);
    assert_eq!(status["agents"][0]["plugin"], json!(null));
    put_in_home(&env, ".codex/config.toml", "[plugins.\"milepost@milepost\"]\nenabled = false\n");
    assert_eq!(env.json(&["agents", "status", "codex"])["agents"][0]["plugin"], json!(null));
}

#[test]
fn hooks_of_a_plugin_give_way_to_installed_hooks() {
    let env = TestEnvironment::repository();
    env.run(&["init", "--yes"]).exits(0);
    send_prompt(&env, "with-plugin", &["--plugin"]);
    assert!(env.run(&["runs"]).stdout.contains("with-plugin"));

    for project in [&[][..], &["--project"]] {
        env.run(&[&["agents", "install", "claude-code"], project].concat()).exits(0);
        send_prompt(&env, "twice", &["--plugin"]);
        assert!(!env.run(&["runs"]).stdout.contains("twice"), "the plugin recorded as well");
        send_prompt(&env, "once", &[]);
        assert!(env.run(&["runs"]).stdout.contains("once"));
        env.run(&[&["agents", "uninstall", "claude-code"], project].concat()).exits(0);
    }

    env.run(&["agents", "install", "claude-code"]).exits(0);
    let (_, file, text) = PLUGINS[0];
    let hooks = std::fs::read_to_string(env.path("home").join(file)).unwrap();
    put_in_home(&env, file, &hooks.replacen('{', &text.replace('}', "").replace("true", "true},"), 1));
    let status = env.run(&["agents", "status", "claude-code"]).exits(0).stdout;
    assert!(status.contains("also has Milepost's plugin") && status.contains("keep one"), "{status}");
}

/// Puts the binary where npm does, with a launcher, and returns both.
#[cfg(unix)]
fn install_with_npm(env: &TestEnvironment) -> (PathBuf, PathBuf) {
    let program = env.path("lib/node_modules/@milepost/linux-x64/bin/milepost");
    std::fs::create_dir_all(program.parent().unwrap()).unwrap();
    let binary = env!("CARGO_BIN_EXE_milepost");
    if std::fs::hard_link(binary, &program).is_err() {
        std::fs::copy(binary, &program).unwrap();
    }
    let launcher = env.path("bin/milepost");
    std::fs::create_dir_all(launcher.parent().unwrap()).unwrap();
    env.write("../bin/milepost", "#!/usr/bin/env node\n");
    std::fs::set_permissions(&launcher, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    (program, launcher)
}

#[cfg(unix)]
fn run_program(env: &TestEnvironment, program: &Path, args: &[&str]) -> String {
    let mut command = env.program(program.to_str().unwrap());
    let path = format!("{}:/usr/bin:/bin", env.path("bin").display());
    finished(command.args(args).env("PATH", path), None).exits(0).stdout
}

#[cfg(unix)]
#[test]
fn hooks_of_an_npm_package_do_not_start_node() {
    let env = TestEnvironment::new();
    let (program, launcher) = install_with_npm(&env);
    let files = [
        ".claude/settings.json",
        ".claude.json",
        ".gemini/settings.json",
        ".codex/hooks.json",
        ".codex/config.toml",
        ".config/opencode/plugins/milepost.js",
        ".config/opencode/opencode.json",
    ];
    let read = |name: &str| std::fs::read_to_string(env.path("home").join(name)).unwrap();
    run_program(&env, &program, &["agents", "install", "--all"]);
    let path = program.to_str().unwrap();
    for file in files {
        assert!(read(file).contains(path), "{file}: {}", read(file));
    }
    let command = format!("test -x '{path}' && '{path}' hook codex || cat >/dev/null");
    assert!(read(".codex/hooks.json").contains(&command), "{}", read(".codex/hooks.json"));
    let again = run_program(&env, &program, &["agents", "install", "--all"]);
    assert!(!again.contains("changed ") || again.contains("unchanged"), "{again}");
    let status = run_program(&env, &program, &["agents", "status", "--json"]);
    assert!(!status.contains("\"stale\":true"), "{status}");
    // As for `npx`, there may be no `milepost` in PATH.
    let mut alone = env.program(path);
    let ran =
        finished(alone.args(["agents", "install", "--all"]).env("PATH", "/usr/bin:/bin"), None).exits(0);
    assert!(!ran.stderr.contains("not on PATH"), "{ran:?}");
    // A team's files work on every machine.
    run_program(&env, &program, &["agents", "install", "--all", "--project"]);
    for file in [".claude/settings.json", ".mcp.json", ".opencode/plugins/milepost.js"] {
        assert!(!env.text(file).contains("node_modules"), "{file}");
    }
    run_program(&env, &program, &["agents", "uninstall", "--all", "--project"]);

    // The package's installation has replaced the launcher with the program.
    std::fs::remove_file(&launcher).unwrap();
    std::os::unix::fs::symlink(&program, &launcher).unwrap();
    let status = run_program(&env, &program, &["agents", "status", "claude-code"]);
    assert!(status.contains("another command"), "{status}");
    run_program(&env, &program, &["agents", "install", "--all"]);
    for file in files {
        assert!(!read(file).contains("node_modules"), "{file}: {}", read(file));
    }
    run_program(&env, &program, &["agents", "uninstall", "--all"]);
    assert!(!env.path("home/.claude").exists() && !env.path("home/.codex").exists());
}
