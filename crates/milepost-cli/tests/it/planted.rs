//! Hostile text with escape sequences: plants it in every string that Milepost records or receives, and
//! checks that no output contains it unescaped.

use serde_json::{Value, json};

use crate::TestEnvironment;
use crate::environment::Ran;

/// Sets the window title, clears the screen, sets a colour with a C1 code, reorders text, contains several
/// line breaks and invisible characters, and forges a style and a line.
pub(crate) const HOSTILE: &str =
    "x\u{1b}]0;pwned\u{7}\u{1b}[2J\u{9b}31m\u{7f}\u{202e}\u{2028}\u{feff}\u{e0041}\r\u{1b}[31mpwned\nforged";
/// Unsafe characters that git allows in a branch name and Milepost allows in a tag.
pub(crate) const BRANCH: &str = "b\u{202e}\u{200f}\u{2066}\u{e0041}\u{feff}x";
/// The styles that Milepost itself prints with `--color always`.
const STYLES: [&str; 12] = [
    "\x1b[0m",
    "\x1b[1m",
    "\x1b[2m",
    "\x1b[4m",
    "\x1b[31m",
    "\x1b[32m",
    "\x1b[33m",
    "\x1b[38;5;9m",
    "\x1b[38;5;10m",
    "\x1b[38;5;11m",
    "\x1b[39m",
    "\x1b[36m",
];

fn is_unsafe(c: char) -> bool {
    c.is_control() && c != '\n' && c != '\t'
        || "\u{61c}\u{200e}\u{200f}\u{feff}".contains(c)
        || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{e0000}'..='\u{e007f}')
}

/// Asserts that text is safe to print on a terminal.
#[track_caller]
pub(crate) fn look_at(text: &str, styles: bool, about: &dyn std::fmt::Debug) {
    let mut bare = text.to_owned();
    if styles {
        assert!(!text.contains("\x1b[31mpwned"), "a forged style: {about:?}: {text:?}");
        STYLES.iter().for_each(|style| bare = bare.replace(style, ""));
    }
    if let Some(c) = bare.chars().find(|c| is_unsafe(*c)) {
        panic!("{c:?} in the output of {about:?}: {text:?}");
    }
}

/// Asserts that both output streams of a command are safe.
#[track_caller]
pub(crate) fn look(args: &[&str], ran: &Ran) {
    assert_ne!(ran.code, 101, "{args:?}: {ran:#?}");
    let styles = args.contains(&"always");
    look_at(&ran.stderr, styles, &args);
    // `state` and briefs are printed verbatim unless stdout is a terminal.
    let state = args[0] == "state" && ran.stdout.starts_with('{');
    let brief = args[0] == "brief" && ["show", "new", "fit", "merge"].contains(args.get(1).unwrap_or(&""));
    let exact = (state || brief) && !args.contains(&"--json");
    if !exact {
        look_at(&ran.stdout, styles, &args);
    }
    // A brief may span several lines. Everywhere else, recorded text stays on one line.
    let brief = args.contains(&"brief") || args.contains(&"resume") || exact;
    let forged = |text: &str| text.lines().any(|line| line.starts_with("forged"));
    assert!(!forged(&ran.stderr) && (brief || !forged(&ran.stdout)), "{args:?}: {ran:#?}");
    if args.contains(&"--json") && ran.code == 0 && !ran.stdout.is_empty() {
        let whole = serde_json::Deserializer::from_str(&ran.stdout).into_iter::<Value>().all(|v| v.is_ok());
        assert!(whole, "{args:?}: {ran:#?}");
    }
}

fn state(text: &str) -> Value {
    json!({ text: [text] })
}

/// A document that sets every string that a checkpoint can contain. `text` is called with "free" for free
/// text and with a valid value for every restricted string.
pub(crate) fn document(text: &dyn Fn(&str) -> String) -> Value {
    let free = || text("free");
    let at = || text("2026-11-15T18:13:57.338Z");
    json!({
        "brief": format!("---\ncheckpoint: {0}\ncreated: 2026-11-15\n---\n# {0}\n\n## {0}\n\n## Problem\n{0}\n", free()),
        "command_outcomes": [{
            "name": free(), "reason_code": free(), "summary": free(), "kind": text("shell"), "result": text("FAIL"),
            "duration_ms": 1, free(): free(),
        }],
        "context_digest": {
            "policy_profile": free(), "protected_artifacts": [free()], "window_pressure": text("low"), "dropped_items": 1,
        },
        "criteria": [{ "id": free(), "subject": free(), "status": text("pending") }],
        "decisions": [{ "at": at(), "text": free(), "supersedes": free() }],
        "files": [{ "path": free(), "sha256": text(&"a".repeat(64)), "size": 1 }],
        "log": [{ "at": at(), "text": free() }],
        "metadata": { free(): free() },
        "parent": text("cp_parent"),
        "phase": { "name": free(), "number": 4, free(): free() },
        "redacted": { "counts": { free(): 1 }, "pointers": [free()] },
        "run_id": text("tried"),
        "session_id": free(),
        "source": text("manual"),
        "source_details": [free()],
        "state": state(&free()),
        "status": text("in_progress"),
        "step_state": {
            "plan_path": free(), "step_id": free(), "step_status": text("in_progress"), "step_ordinal": 1,
            "step_title": free(), "resume_hints": { "next_actions": [free()], "reason_code": free() },
            "todo_compliance": { "result": free(), "checked_at": at(), "violations": [free()] },
        },
        "task_summary": free(),
        "tasks": [{
            "id": free(), "status": text("in_progress"), "title": free(),
            "subtasks": [{ "id": free(), "title": free(), "status": text("done") }], free(): free(),
        }],
        "workspace": {
            "git": {
                "branch": free(), "error": free(), "head": text(&"a".repeat(40)), "modified": [free()],
                "staged": [free()], "untracked": [free()], "renamed": [{ "from": free(), "to": free() }],
            },
            "watched": { "error": free(), "files": [free()], "sizes": { free(): 1 } },
            "files_modified": [free()], "skipped": [free()],
        },
        free(): { free(): free() },
    })
}

/// Collects the JSON pointers of all strings in a document.
fn strings(value: &Value, at: &str, found: &mut Vec<String>) {
    match value {
        Value::String(_) => found.push(at.to_owned()),
        Value::Array(all) => {
            all.iter().enumerate().for_each(|(n, each)| strings(each, &format!("{at}/{n}"), found));
        }
        Value::Object(all) => all.iter().for_each(|(key, each)| strings(each, &format!("{at}/{key}"), found)),
        _ => {}
    }
}

/// Encodes a TOML string with every unusual character escaped.
pub(crate) fn toml(text: &str) -> String {
    let one = |c: char| match c {
        ' '..='!' | '#'..='[' | ']'..='~' => c.to_string(),
        c => format!("\\U{:08x}", u32::from(c)),
    };
    format!("\"{}\"", text.chars().map(one).collect::<String>())
}

/// Creates a repository with a hostile branch, file names and settings, and a store with a hostile run `r`.
pub(crate) fn planted() -> TestEnvironment {
    let env = TestEnvironment::repository();
    env.git(&["checkout", "-q", "-b", BRANCH]);
    let renamed = format!("{HOSTILE}-old");
    for name in [HOSTILE, &renamed] {
        env.write(name, "one\n");
    }
    env.git(&["add", "."]);
    env.git(&["-c", "user.name=t", "-c", "user.email=t@t", "commit", "-q", "-m", HOSTILE]);
    env.git(&["mv", &renamed, &format!("{HOSTILE}-new")]);
    env.write(HOSTILE, "two\n");
    env.write(&format!("{HOSTILE}-untracked"), "x");
    std::fs::create_dir(env.project().join(format!("{HOSTILE}-folder"))).unwrap();
    env.write(
        &format!("{HOSTILE}-folder/{HOSTILE}.md"),
        document(&|_| HOSTILE.into())["brief"].as_str().unwrap(),
    );
    let watch = toml(&format!("{HOSTILE}-folder"));
    env.write(
        "milepost.toml",
        format!("{} = {}\n[capture]\nwatch = [{watch}]\n", toml(HOSTILE), toml(HOSTILE)),
    );
    for (folder, content) in [
        (".claude", json!({ "hooks": {}, HOSTILE: HOSTILE }).to_string()),
        (".gemini", format!("{{ {HOSTILE}")),
    ] {
        std::fs::create_dir(env.project().join(folder)).unwrap();
        env.write(&format!("{folder}/settings.json"), content);
    }
    // Try each string on its own. A refusal must be printed safely too.
    let save = |document: &Value| {
        let args = ["save", "--pin", "--tag", BRANCH, "--input", "-"];
        let ran = env.run_on(document.to_string().as_bytes(), &args);
        look(&args, &ran);
        ran
    };
    let plain = document(&str::to_owned);
    save(&plain).exits(0);
    let mut all = Vec::new();
    strings(&plain, "", &mut all);
    let (mut accepted, mut refused) = (plain.clone(), Vec::new());
    for at in all {
        let mut one = plain.clone();
        // A brief's own name can be used only once.
        one["brief"] = Value::Null;
        let hostile = plain.pointer(&at).unwrap().as_str().unwrap().replace("free", HOSTILE);
        let hostile = if at == "/brief" { hostile } else { HOSTILE.to_owned() };
        *one.pointer_mut(&at).unwrap() = hostile.clone().into();
        match save(&one).code {
            0 => *accepted.pointer_mut(&at).unwrap() = hostile.into(),
            _ => refused.push(at),
        }
    }
    assert!(refused.len() < 20, "{refused:?}");
    accepted["brief"] = document(&|_| format!("2{HOSTILE}"))["brief"].clone();
    accepted["run_id"] = "r".into();
    save(&accepted).exits(0);
    // Plant the text in member names as well.
    let mut named = document(&|text| if text == "free" { format!("3{HOSTILE}") } else { text.to_owned() });
    for at in refused {
        *named.pointer_mut(&at).unwrap_or(&mut Value::Null) = plain.pointer(&at).unwrap().clone();
    }
    named["run_id"] = "r".into();
    save(&named).exits(0);
    env
}

/// A file of another tool with the hostile text in each string.
pub(crate) fn foreign() -> String {
    json!({
        "number": 1, "timestamp": "2026-11-15T18:13:57.338Z", "duration": 1, "sessionId": HOSTILE,
        "gitStatus": { "branch": HOSTILE, "modified": [HOSTILE], "untracked": [HOSTILE], "staged": [HOSTILE] },
        "aiwgState": { "files": [HOSTILE], "sizes": { HOSTILE: 1 } }, "filesModified": [HOSTILE],
        "memory": { "heapUsed": 1, "rss": 2 }, HOSTILE: HOSTILE,
    })
    .to_string()
}

/// Sends recorded hook payloads of every agent, with the hostile text appended to each string.
pub(crate) fn hooks(env: &TestEnvironment) {
    const KEPT: [&str; 5] = ["hook_event_name", "event", "source", "type", "status"];
    fn plant(value: &mut Value, project: &str) {
        match value {
            Value::String(text) => text.push_str(HOSTILE),
            Value::Array(all) => all.iter_mut().for_each(|each| plant(each, project)),
            Value::Object(all) => {
                for (key, each) in all {
                    match key.as_str() {
                        "cwd" | "directory" | "worktree" => *each = project.into(),
                        key if KEPT.contains(&key) && each.is_string() => {}
                        _ => plant(each, project),
                    }
                }
            }
            _ => {}
        }
    }
    let project = env.project().to_string_lossy().into_owned();
    let recorded = [
        ("claude-code", include_str!("../fixtures/agent-hooks/claude-code-lifecycle.json")),
        ("claude-code", include_str!("../fixtures/agent-hooks/claude-code-work.json")),
        ("gemini", include_str!("../fixtures/agent-hooks/gemini-work.json")),
        ("codex", include_str!("../fixtures/agent-hooks/codex-work.json")),
        ("opencode", include_str!("../fixtures/agent-hooks/opencode-work.json")),
    ];
    for (agent, text) in recorded {
        for event in serde_json::from_str::<Vec<Value>>(text).unwrap() {
            let mut payload = if agent == "opencode" { event } else { event["stdin"].clone() };
            plant(&mut payload, &project);
            let args = ["hook", agent, "--strict"];
            look(&args, &env.run_on(payload.to_string().as_bytes(), &args));
        }
    }
    // After a compaction, the hook returns the run's content to the agent.
    let mut answer = Value::Null;
    for (event, more) in [("UserPromptSubmit", HOSTILE), ("PreCompact", ""), ("SessionStart", "compact")] {
        let payload = json!({ "hook_event_name": event, "session_id": HOSTILE, "cwd": project, "prompt": more, "source": more });
        let args = ["hook", "claude-code", "--strict", "--json"];
        let ran = env.run_on(payload.to_string().as_bytes(), &args);
        look(&args, &ran);
        answer = serde_json::from_str(&ran.stdout).unwrap_or_default();
    }
    assert!(answer.to_string().contains("pwned"), "{answer}");
    let failing = json!({ "hook_event_name": "Stop", "session_id": "s", "cwd": HOSTILE });
    look(
        &["hook"],
        &env.run_on(failing.to_string().as_bytes(), &["hook", "claude-code", "--store", HOSTILE]),
    );
    look(&["hook"], &env.run_on(HOSTILE.as_bytes(), &["hook", "claude-code"]));
    let failures = env.run(&["status"]);
    assert!(failures.stdout.contains("hook failure"), "{failures:#?}");
    look(&["status"], &failures);
}
