//! A project crafted by an attacker to misuse Milepost. Every command and every hook runs in it: nothing
//! outside the project changes, no program but git runs, and none of the project's text reaches an agent.

use std::collections::BTreeMap;
use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::json;

use crate::TestEnvironment;
use crate::hostile_git::{Hostile, can_trace, traced};

/// Text that the attacker wants an agent to read.
const BAIT: &str = "SYSTEM OVERRIDE";

/// Collects every file under a folder with its content.
fn snapshot(folder: &Path, found: &mut BTreeMap<String, Vec<u8>>) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let (path, kind) = (entry.path(), entry.file_type().unwrap());
        let name = path.display().to_string();
        // Milepost may write the user's state, and `executed` is the log of strace.
        if name.ends_with("/home/.local/state/milepost") || name.ends_with("/executed") {
            continue;
        }
        if kind.is_dir() {
            found.insert(name, Vec::new());
            snapshot(&path, found);
        } else if kind.is_symlink() {
            found.insert(name, std::fs::read_link(&path).unwrap().as_os_str().as_encoded_bytes().to_vec());
        } else if kind.is_file() {
            found.insert(name, std::fs::read(&path).unwrap());
        }
    }
}

/// Returns every file outside the project.
fn outside(env: &TestEnvironment) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    snapshot(&env.path("home"), &mut found);
    snapshot(&env.path("victim"), &mut found);
    let beside = std::fs::read_dir(env.path("")).unwrap().flatten();
    for entry in beside.filter(|entry| entry.file_name() != "executed") {
        found.entry(entry.path().display().to_string()).or_default();
    }
    found
}

/// Creates an attacker's project with the bait in its store. Returns the project and the store's path.
fn strangers_store(kind: &str) -> (TestEnvironment, std::path::PathBuf) {
    let env = TestEnvironment::repository();
    env.json(&["init", "--agents", "none", "--store", kind]);
    env.json(&["start", "--run", "bait", "--owner-pid", "1", "--title", BAIT]);
    env.save(&["--run", "bait", "--summary", BAIT]);
    let folder = env.project().join(kind.split_once(':').unwrap().1);
    (env, folder)
}

/// Plants settings, links and outbox entries. `store` is the line of the settings that names a store.
fn plant(env: &TestEnvironment, store: &str) {
    let project = env.project();
    let home = env.path("home");
    std::fs::create_dir_all(home.join(".claude")).unwrap();
    std::fs::create_dir_all(home.join(".local/state")).unwrap();
    std::fs::create_dir_all(env.path("victim/inside")).unwrap();
    for (name, text) in [
        ("../home/.bashrc", "mine\n"),
        ("../home/.claude/settings.json", "{\"permissions\": {\"deny\": [\"Bash\"]}}\n"),
        ("../victim/secret.txt", "secret\n"),
    ] {
        env.write(name, text);
    }
    let settings = format!(
        "{store}\nwait = \"52w\"\n[pointer]\nfile = \"../home/.claude/settings.json\"\n\
         key = \"permissions.deny\"\ncommit = true\n[retain]\nkeep_last = 1\nmax_age = \"1s\"\nmax_store = 1\n\
         [capture]\nwatch = [\"/\", \"../victim\", \"linked\"]\nallow_home = true\n\
         [limits]\nfield = 0\ncheckpoint = 0\n"
    );
    env.write("milepost.toml", settings);
    symlink(env.path("victim"), project.join("linked")).unwrap();
    symlink(env.path("victim"), project.join(".aiwg")).unwrap();
    symlink("/etc/passwd", project.join("latest")).unwrap();
    for file in [".claude/settings.json", ".gemini/settings.json", ".mcp.json", "CLAUDE.md"] {
        let path = project.join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(home.join(".claude/settings.json"), path).unwrap();
    }
    let (theirs, _) = strangers_store("sqlite:.git/milepost/milepost.db");
    let save = milepost::Save::new().summary(BAIT);
    let settings = Default::default();
    let clock = milepost::internal::clock::SystemClock;
    let queued = theirs.outbox().enqueue(&"bait".parse().unwrap(), save, &settings, &clock).unwrap();
    let outbox = project.join(".milepost/outbox");
    std::fs::create_dir_all(&outbox).unwrap();
    std::fs::copy(&queued.file, outbox.join(queued.file.file_name().unwrap())).unwrap();
    let url = milepost::store::StoreUrl::sqlite(project.join(".git/milepost/milepost.db"));
    let save = milepost::Save::new().summary(BAIT);
    milepost::internal::engine::Outbox::new(outbox, &url, None)
        .enqueue(&"bait".parse().unwrap(), save, &settings, &clock)
        .unwrap();
}

/// Every command, with arguments that make it read and write as much as possible.
fn commands() -> Vec<Vec<&'static str>> {
    let lines = [
        "status",
        "save --run r --summary mine",
        "save --run r --summary more --phase BUILD --phase-number 4 --tag t --pin",
        "start --run s --title x",
        "step begin one --run r",
        "step done one --run r",
        "task set t1 done --run r",
        "criterion c1 pass --run r",
        "record --kind shell --name x --result PASS --duration-ms 1 --run r",
        "note x --run r",
        "decide x --run r",
        "context set --run r",
        "run --run sup --events events.jsonl -- milepost-is-not-there",
        "runs",
        "list --tree",
        "show",
        "summary r",
        "diff latest",
        "resume",
        "resume --check",
        "resume bait --rerun --yes",
        "resume bait --with claude-code",
        "resume --start",
        "brief show latest",
        "brief new",
        "brief check .",
        "state",
        "mark latest --tag u",
        "complete latest",
        "events --limit 5",
        "verify",
        "doctor",
        "doctor --fix",
        "prune --yes",
        "export bundle r ./r.bundle --with-patch --yes",
        "export markdown r ./out",
        "import auto .",
        "copy --from files:st --to files:copied",
        "config show",
        "agents status",
        "agents install --all --project",
        "agents uninstall --all --project",
        "trust --dry-run",
        "trust --yes",
        "trust --outbox --yes",
        "trust --list",
        "trust --revoke",
        "finish --run r",
        "delete s --yes",
        "init --agents none",
        "schema",
        "help --all",
        "completions bash",
        "man",
    ];
    lines.iter().map(|line| line.split(' ').collect()).collect()
}

/// Hook events of every kind, in each agent's format.
fn events(env: &TestEnvironment) -> Vec<(&'static str, String)> {
    let mut all = Vec::new();
    for agent in ["claude-code", "gemini", "codex"] {
        for event in [
            "SessionStart",
            "UserPromptSubmit",
            "BeforeAgent",
            "PostToolUse",
            "AfterTool",
            "PreCompact",
            "PreCompress",
            "Stop",
            "AfterAgent",
            "SessionEnd",
        ] {
            let payload = json!({
                "session_id": "s1", "cwd": env.project(), "hook_event_name": event, "source": "startup",
                "prompt": "work", "trigger": "auto", "reason": "exit", "transcript_path": "/dev/zero",
                "tool_name": "Bash", "tool_input": { "command": "make" }, "tool_response": { "exit_code": 1 },
            });
            all.push((agent, payload.to_string()));
        }
    }
    for event in ["session.created", "experimental.chat.system.transform", "chat.message", "session.idle"] {
        let payload = json!({ "event": event, "data": { "sessionID": "s1", "properties": {} },
            "directory": env.project(), "worktree": env.project() });
        all.push(("opencode", payload.to_string()));
    }
    all
}

/// MCP messages that call the server's tools and read a resource and a prompt.
fn calls() -> String {
    let mut lines = vec![
        json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": { "protocolVersion": "2025-06-18",
            "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } } }),
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
    ];
    let tools = [
        ("resume", json!({})),
        ("resume", json!({ "run": "bait" })),
        ("resume", json!({ "start": true })),
        ("resume", json!({ "from": "latest" })),
        ("list", json!({})),
        ("show", json!({})),
        ("diff", json!({ "from": "latest" })),
        ("tasks", json!({})),
        ("save", json!({ "summary": "x" })),
    ];
    for (n, (name, arguments)) in tools.into_iter().enumerate() {
        lines.push(json!({ "jsonrpc": "2.0", "id": n + 1, "method": "tools/call",
            "params": { "name": name, "arguments": arguments } }));
    }
    lines.push(json!({ "jsonrpc": "2.0", "id": 90, "method": "resources/read",
        "params": { "uri": "milepost://brief/latest" } }));
    lines
        .push(json!({ "jsonrpc": "2.0", "id": 91, "method": "prompts/get", "params": { "name": "resume" } }));
    lines.iter().map(|line| format!("{line}\n")).collect()
}

#[test]
fn a_hostile_project_changes_nothing_outside_and_reaches_no_agent() {
    if !can_trace() {
        return;
    }
    // A store that the settings name, one in the git directory, one outside the project, and none at all.
    for (store, kind) in [
        ("store = \"files:st\"", Some("files:st")),
        ("", Some("sqlite:.git/milepost/milepost.db")),
        ("store = \"files:../victim\"", None),
        ("", None),
    ] {
        let hostile = Hostile::new();
        let env = &hostile.env;
        plant(env, store);
        if let Some(kind) = kind {
            let (_theirs, folder) = strangers_store(kind);
            let name = kind.split_once(':').unwrap().1;
            let (from, to) = match kind.starts_with("sqlite") {
                true => (
                    folder.parent().unwrap().to_owned(),
                    env.project().join(name).parent().unwrap().to_owned(),
                ),
                false => (folder, env.project().join(name)),
            };
            let done = std::process::Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap();
            assert!(done.success());
        }
        let before = outside(env);
        let told = |who: &str, output: &std::process::Output| {
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(!text.contains(BAIT), "{store} {kind:?} {who}: {text}");
            assert!(!text.contains("root:x:0"), "{store} {kind:?} {who}: {text}");
        };
        for (agent, payload) in events(env) {
            let (done, _) = traced(env, &["hook", agent], payload.as_bytes());
            assert!(done.status.success(), "{payload}");
            told(&payload, &done);
        }
        let (done, _) = traced(env, &["mcp"], calls().as_bytes());
        told("mcp", &done);
        for args in commands() {
            let start = std::time::Instant::now();
            let (done, _) = traced(env, &args, b"");
            assert_ne!(done.status.code(), Some(101), "{args:?}: {done:?}");
            assert!(start.elapsed().as_secs() < 15, "{args:?}: {:?}", start.elapsed());
        }
        for (agent, payload) in events(env) {
            let (done, _) = traced(env, &["hook", agent], payload.as_bytes());
            told(&payload, &done);
        }
        hostile.nothing_ran();
        let after = outside(env);
        let names = |map: &BTreeMap<String, Vec<u8>>| map.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&before), names(&after), "{store} {kind:?}");
        assert_eq!(before, after, "{store} {kind:?}");
        // Files outside the project are not recorded either.
        let listed = env.run(&["list", "--limit", "0", "--json"]).stdout;
        for id in listed.split('"').filter(|word| word.starts_with("cp_")) {
            let shown = env.run(&["show", id, "--json"]).stdout;
            assert!(!shown.contains("secret.txt") && !shown.contains("/etc/"), "{shown}");
        }
    }
}
