//! Escape sequences are planted in every string that Milepost records or is given, and the output of every command is
//! looked at: none of them may reach a terminal. Exact by contract, where stdout is no terminal, is only `state`.

use std::collections::BTreeSet;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::TestEnvironment;
use crate::environment::Ran;

/// Retitles a window, clears it, colours by C1, reorders, breaks the line in four ways, and forges a style and a line.
const HOSTILE: &str =
    "x\u{1b}]0;pwned\u{7}\u{1b}[2J\u{9b}31m\u{7f}\u{202e}\u{2028}\u{feff}\u{e0041}\r\u{1b}[31mpwned\nforged";
/// As much of it as git allows in the name of a branch, and Milepost in a tag.
const BRANCH: &str = "b\u{202e}\u{200f}\u{2066}\u{e0041}\u{feff}x";
/// What Milepost itself may write with `--color always`.
const STYLES: [&str; 11] = [
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
];

fn is_unsafe(c: char) -> bool {
    c.is_control() && c != '\n' && c != '\t'
        || "\u{61c}\u{200e}\u{200f}\u{feff}".contains(c)
        || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{e0000}'..='\u{e007f}')
}

/// Insists that text is safe for a terminal.
#[track_caller]
fn look_at(text: &str, styles: bool, about: &dyn std::fmt::Debug) {
    let mut bare = text.to_owned();
    if styles {
        assert!(!text.contains("\x1b[31mpwned"), "a style of others: {about:?}: {text:?}");
        STYLES.iter().for_each(|style| bare = bare.replace(style, ""));
    }
    if let Some(c) = bare.chars().find(|c| is_unsafe(*c)) {
        panic!("{c:?} in the output of {about:?}: {text:?}");
    }
}

/// Looks at both streams of a command.
#[track_caller]
fn look(args: &[&str], ran: &Ran) {
    assert_ne!(ran.code, 101, "{args:?}: {ran:#?}");
    let styles = args.contains(&"always");
    look_at(&ran.stderr, styles, &args);
    // A state is given exactly, unless to a terminal.
    let exact = args[0] == "state" && !args.contains(&"--json") && ran.stdout.starts_with('{');
    if !exact {
        look_at(&ran.stdout, styles, &args);
    }
    // A brief is several lines; elsewhere a text of others has only one.
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

/// A document with `text` for every string that a checkpoint can hold: of the second argument, where it is closed.
fn document(text: &dyn Fn(&str) -> String) -> Value {
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

/// Where the strings of a document are.
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

/// Names of members that the schema says are strings of any content.
fn string_members(schema: &Value, found: &mut BTreeSet<String>) {
    let is_text = |about: &Value| {
        let of = |about: &Value| {
            about["type"].to_string().contains("\"string\"") && about["format"].is_null()
                || about["$ref"] == "#/$defs/PathText"
        };
        of(about) || of(&about["items"])
    };
    if let Some(members) = schema["properties"].as_object() {
        found.extend(members.iter().filter(|(_, about)| is_text(about)).map(|(name, _)| name.clone()));
    }
    if let Some(parts) = schema.as_object() {
        parts.values().for_each(|part| string_members(part, found));
    }
}

/// A string as TOML writes it, with every odd character escaped.
fn toml(text: &str) -> String {
    let one = |c: char| match c {
        ' '..='!' | '#'..='[' | ']'..='~' => c.to_string(),
        c => format!("\\U{:08x}", u32::from(c)),
    };
    format!("\"{}\"", text.chars().map(one).collect::<String>())
}

/// A repository whose branch, files and settings have hostile names, and a store with a hostile run `r`.
fn planted() -> TestEnvironment {
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
    // Each string on its own: what is refused is refused safely.
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
        // The name that a brief gives itself can be taken once.
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
    // The names of members as well.
    let mut named = document(&|text| if text == "free" { format!("3{HOSTILE}") } else { text.to_owned() });
    for at in refused {
        *named.pointer_mut(&at).unwrap_or(&mut Value::Null) = plain.pointer(&at).unwrap().clone();
    }
    named["run_id"] = "r".into();
    save(&named).exits(0);
    env
}

/// What to type after each command: first what shows or changes something that is recorded, then what is wrong.
fn arguments(command: &str) -> Vec<Vec<String>> {
    let h = HOSTILE;
    let folder = format!("{h}-folder");
    let file = format!("{h}-folder/{h}.md");
    let (url, to) = ("sqlite:.git/milepost/milepost.db", format!("files:{h}-copy"));
    let cases: Vec<Vec<&str>> = match command {
        "init" => vec![vec!["--agents", "none"], vec!["--agents", h]],
        "config" => vec![vec!["show"], vec![h]],
        "status" | "doctor" | "schema" => vec![vec![], vec![h]],
        "run" => vec![
            vec![
                "--run",
                "sup",
                "--rejoin",
                "--title",
                h,
                "--plan",
                h,
                "--watch",
                h,
                "--events",
                "events.jsonl",
                "--",
                "true",
                h,
            ],
            vec!["--every", h, "--", "true"],
            vec!["--", h],
        ],
        "save" => vec![
            vec!["--run", "s", "--summary", h, "--phase", h, "--reason", h],
            vec!["--run", "s", "--brief", &file],
            vec!["--input", h],
            vec!["--brief", h],
            vec!["--tag", h],
            vec!["--source", h],
            vec!["--phase-number", h],
        ],
        "resume" => vec![
            vec![],
            vec!["r"],
            vec!["sup"],
            vec!["r", "--check"],
            vec!["r", "--start"],
            vec!["--from", &file],
            vec!["r", "--with", h],
            vec!["sup", "--rerun"],
            vec!["tried", "--dismiss"],
            vec![h],
            vec!["--from", h],
        ],
        "show" => vec![vec!["r@1"], vec!["r@2"], vec![], vec![h]],
        "diff" => vec![vec!["r@1", "r@2"], vec!["tried@1", "r@1"], vec![h, h]],
        "prune" => {
            vec![vec!["--dry-run", "--keep-last", "1"], vec!["--keep-last", "1"], vec!["--keep-last", h]]
        }
        "agents" => vec![
            vec!["status"],
            vec!["install", "--all", "--project", "--dry-run"],
            vec!["install", "--all", "--project"],
            vec!["uninstall", "--all", "--project"],
            vec!["install", h],
            vec![h],
        ],
        "start" => vec![vec!["--run", "st", "--title", h, "--plan", h], vec!["--owner-pid", h]],
        "finish" => vec![vec!["--run", "s", "--summary", h], vec!["--run", "s", "--status", h]],
        "step" => vec![
            vec!["begin", h, "--run", "s", "--plan", h, "--title", h],
            vec!["done", "never", "--run", "s"],
            vec!["done", h, "--run", "s"],
            vec!["begin", "x", "--ordinal", h],
            vec![h, h],
        ],
        "task" => vec![
            vec!["set", h, "done", "--title", h, "--run", "s"],
            vec!["is", h, "done", "--run", "s"],
            vec!["run", h, "--title", h, "--run", "s", "--", "true", h],
            vec!["run", h, "--run", "s", "--", h],
            vec!["set", h, h],
        ],
        "criterion" => vec![vec!["set", h, "pending", "--subject", h, "--run", "s"], vec!["set", h, h]],
        "record" => vec![
            vec![
                "--run",
                "s",
                "--kind",
                "shell",
                "--name",
                h,
                "--result",
                "FAIL",
                "--duration-ms",
                "1",
                "--summary",
                h,
                "--reason-code",
                h,
            ],
            vec!["--run", "s", "--name", h, "--", "true", h],
            vec!["--run", "s", "--", h],
            vec!["--kind", h, "--name", h, "--result", h, "--duration-ms", h],
        ],
        "note" => vec![vec![h, "--run", "s"], vec![h, h]],
        "decide" => vec![
            vec![h, "--run", "s"],
            vec![h, "--supersedes", "no such decision", "--run", "s"],
            vec![h, "--supersedes", h, "--run", "s"],
        ],
        "context" => {
            vec![vec!["set", "--protect", h, "--policy", h, "--run", "s"], vec!["set", "--pressure", h]]
        }
        "runs" => {
            vec![vec![], vec!["r"], vec!["s"], vec!["sup"], vec![h], vec!["--since", h], vec!["--status", h]]
        }
        "list" => vec![
            vec!["--limit", "0"],
            vec!["--tree", "--limit", "0"],
            vec!["--tag", h],
            vec!["--source", h],
            vec!["--limit", h],
        ],
        "summary" => vec![vec!["r"], vec!["s"], vec![h]],
        "mark" => vec![
            vec!["r@1", "--pin", "--tag", BRANCH],
            vec!["r@1", "--tag", h],
            vec![BRANCH, "--pin"],
            vec![h, "--pin"],
        ],
        "complete" => vec![vec!["s@1"], vec![h]],
        "brief" => vec![
            vec!["show", "r@1"],
            vec!["show", "s@1"],
            vec!["show", &file],
            vec!["new"],
            vec!["new", "--from", "r@1"],
            vec!["fit", "r@1", "--budget", "300", "--overflow", "shrink"],
            vec!["fit", &file, "--budget", "5"],
            vec!["merge", "r@1", &file],
            vec!["check", &file],
            vec!["check", &folder, h],
            vec!["show", h],
            vec!["fit", &file, "--budget", h],
            vec!["fit", &file, "--budget", "1", "--counter", h, "--overflow", h],
        ],
        "state" => {
            vec![
                vec!["r@1"],
                vec!["r@1", "--to", h, "--run", "r"],
                vec!["r@1", "--to", h, "--run", "r", "--force"],
                vec!["s@1"],
                vec![h],
            ]
        }
        "delete" => vec![vec!["r", "--dry-run"], vec!["r"], vec![h, "--yes"]],
        "verify" => vec![vec![], vec!["r@1"], vec![h]],
        "events" => vec![vec!["--limit", "0"], vec!["--after", h]],
        "hook" => vec![vec!["claude-code", "--strict"], vec![h, "--strict"], vec![h]],
        "mcp" => vec![vec![h]],
        "import" => vec![
            vec!["markdown", &folder, "--dry-run"],
            vec!["auto", &folder],
            vec!["aiwg", "foreign"],
            vec!["jsonl", &file],
            vec!["auto", h],
            vec![h, h],
        ],
        "export" => vec![
            vec!["markdown", "r", &to],
            vec!["aiwg", "r", &to, "--dry-run"],
            vec!["pai", "r", &to, "--dry-run"],
            vec!["snapshot", "r", &to, "--dry-run"],
            vec!["nova26", "r", &to, "--dry-run"],
            vec!["jsonl", "r", &url[7..]],
            vec!["bundle", "r", &to, "--with-patch", "--dry-run"],
            vec!["jsonl", h],
            vec![h, "r"],
        ],
        "copy" => vec![vec!["--from", url, "--to", &to, "--verify"], vec!["--from", h, "--to", h]],
        "completions" => vec![vec!["bash"], vec![h]],
        "man" => vec![vec![], vec!["save"], vec![h]],
        "help" => vec![vec!["--all"], vec!["save"], vec![h]],
        new => panic!("`milepost {new}`: give it arguments that show what is recorded, and wrong ones"),
    };
    cases.into_iter().map(|case| case.into_iter().map(str::to_owned).collect()).collect()
}

/// Every command there is.
fn commands(env: &TestEnvironment) -> Vec<String> {
    let help = env.run(&["help", "--all"]).exits(0).stdout;
    let listed =
        help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let names: Vec<_> = listed.filter_map(|line| line.split_whitespace().next().map(str::to_owned)).collect();
    assert!(names.len() > 30, "{help}");
    names
}

#[test]
fn no_command_prints_an_escape_that_was_recorded() {
    let env = planted();
    hooks(&env);
    std::fs::create_dir(env.project().join("foreign")).unwrap();
    env.write("foreign/001-checkpoint.json", foreign());
    for command in commands(&env) {
        for case in arguments(&command) {
            for flags in [&[][..], &["--json"], &["--verbose"], &["--color", "always"]] {
                let end = case.iter().position(|word| word == "--").unwrap_or(case.len());
                let mut args = vec![command.as_str()];
                args.extend(case[..end].iter().map(String::as_str));
                args.extend(flags);
                args.extend(case[end..].iter().map(String::as_str));
                look(&args, &env.run_on(HOSTILE.as_bytes(), &args));
            }
        }
    }
    let events = std::fs::read_to_string(env.project().join("events.jsonl")).unwrap();
    look_at(&events, false, &"events.jsonl");
    // Escaped, but the same for a program; and as it was for whoever reads the state.
    let shown = env.json(&["show", "r@1"]);
    assert_eq!(shown["checkpoint"]["task_summary"], HOSTILE);
    assert_eq!(shown["checkpoint"]["tasks"][0]["title"], HOSTILE);
    assert!(env.run(&["state", "r@1"]).stdout.contains('\u{202e}'));
}

#[test]
fn no_wrong_flag_is_repeated_as_it_is() {
    let env = planted();
    let flag = format!("--{HOSTILE}");
    for command in commands(&env) {
        let command = command.as_str();
        for args in [
            &[command, &flag][..],
            &["-C", HOSTILE, command],
            &[command, "--store", HOSTILE],
            &[command, "--run", HOSTILE],
            &[command, "--profile", HOSTILE],
            &[command, "--wait", HOSTILE],
            &[command, "--color", HOSTILE],
        ] {
            look(args, &env.run(args));
            let args: Vec<_> = args.iter().copied().chain(["--json"]).collect();
            look(&args, &env.run(&args));
        }
    }
    for args in [&[HOSTILE][..], &["--json", HOSTILE], &["sav"], &["--version"], &["--help"]] {
        look(args, &env.run(args));
    }
    for name in ["MILEPOST_RUN", "MILEPOST_STORE", "MILEPOST_SESSION", "HOME", "XDG_STATE_HOME", "USER"] {
        for args in [&["status"][..], &["save"], &["agents", "status"], &["config", "show", "--json"]] {
            look(args, &env.run_with(&[(name, HOSTILE)], args));
        }
    }
}

#[test]
fn no_setting_is_repeated_as_it_is() {
    let env = TestEnvironment::new();
    env.save(&["--run", "r"]);
    let settings = env.json(&["config", "show"])["settings"].as_array().unwrap().clone();
    let text = toml(HOSTILE);
    let mut files: Vec<_> =
        settings.iter().map(|s| format!("{} = {text}\n", s["key"].as_str().unwrap())).collect();
    files.push(format!("store = {}\n", toml(&format!("sqlite:{HOSTILE}.db"))));
    files.push(format!("[pointer]\nfile = {text}\nkey = {text}\n"));
    files.push(format!("x = [{HOSTILE}"));
    files.push(format!("{HOSTILE} = 1"));
    for file in files {
        env.write("milepost.toml", &file);
        for args in [
            &["config", "show"][..],
            &["config", "show", "--json"],
            &["save", "-v"],
            &["status"],
            &["doctor"],
        ] {
            look(args, &env.run(args));
        }
    }
}

#[test]
fn no_damage_is_told_with_escapes() {
    let env = planted();
    let outbox = env.project().join(".milepost/outbox");
    std::fs::create_dir_all(&outbox).unwrap();
    env.write(&format!(".milepost/outbox/{HOSTILE}.json"), HOSTILE);
    for name in ["list", "doctor", "status"] {
        look(&[name], &env.run(&[name]));
        look(&[name, "-v"], &env.run(&[name, "-v"]));
    }
    for damage in [
        "UPDATE whole SET data = CAST(?1 AS BLOB)",
        "UPDATE marks SET marks = ?1",
        "UPDATE checkpoint SET header = ?1 WHERE sequence > 1",
        "UPDATE run SET record = ?1",
        "UPDATE checkpoint SET snapshot_id = ?1 || stamp",
        "UPDATE run SET run_id = ?1 || n",
    ] {
        let db = rusqlite::Connection::open(env.project().join(".git/milepost/milepost.db")).unwrap();
        assert!(db.execute(damage, [HOSTILE]).unwrap() > 0, "{damage}");
        drop(db);
        for name in [
            "show", "list", "runs", "resume", "verify", "doctor", "status", "summary", "state", "events",
            "prune",
        ] {
            for more in ["-v", "--json", "--yes"] {
                let args = [name, more];
                look(&args, &env.run(&args));
            }
        }
        for args in [["runs", "r"], ["show", "r@1"], ["show", "r@2"], ["brief", "new"], ["note", "x"]] {
            look(&args, &env.run(&args));
        }
    }
}

#[test]
fn every_string_of_the_schema_is_planted() {
    let env = TestEnvironment::new();
    let schema: Value = serde_json::from_str(&env.run(&["schema"]).exits(0).stdout).unwrap();
    let mut members = BTreeSet::new();
    string_members(&schema, &mut members);
    assert!(members.len() > 30, "{members:?}");
    let text = document(&str::to_owned).to_string();
    // Only Milepost itself writes the seal.
    let missing: Vec<_> = members
        .iter()
        .filter(|name| *name != "checksum" && !text.contains(&format!("\"{name}\":")))
        .collect();
    assert!(missing.is_empty(), "not planted: {missing:?}");
}

/// A file of another tool, with the payload in each of its strings.
fn foreign() -> String {
    json!({
        "number": 1, "timestamp": "2026-11-15T18:13:57.338Z", "duration": 1, "sessionId": HOSTILE,
        "gitStatus": { "branch": HOSTILE, "modified": [HOSTILE], "untracked": [HOSTILE], "staged": [HOSTILE] },
        "aiwgState": { "files": [HOSTILE], "sizes": { HOSTILE: 1 } }, "filesModified": [HOSTILE],
        "memory": { "heapUsed": 1, "rss": 2 }, HOSTILE: HOSTILE,
    })
    .to_string()
}

/// Every recorded payload of every agent, with the payload at the end of each of its strings.
fn hooks(env: &TestEnvironment) {
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
    // What the run holds goes back into a context that was made smaller.
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

#[cfg(feature = "mcp")]
#[test]
fn no_tool_of_the_server_gives_text_with_escapes() {
    fn texts(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(all) => all.iter().for_each(|(key, each)| match each {
                Value::String(text) if key == "text" => found.push(text.clone()),
                // Data: what a program makes of it is its own matter.
                _ if key == "structuredContent" => {}
                each => texts(each, found),
            }),
            Value::Array(all) => all.iter().for_each(|each| texts(each, found)),
            _ => {}
        }
    }
    let env = planted();
    let about = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    let call = |name: &str, arguments: Value| ("tools/call", json!({ "name": name, "arguments": arguments }));
    let requests = [
        ("initialize", about),
        call("resume", json!({ "run": "r" })),
        call("show", json!({ "ref": "r@1" })),
        call("list", json!({})),
        call("diff", json!({ "from": "r@1", "to": HOSTILE })),
        call("show", json!({ "ref": HOSTILE })),
        call("decide", json!({ "text": HOSTILE, "supersedes": HOSTILE, "run": "r" })),
        call("step", json!({ "what": "done", "id": HOSTILE, "run": "r" })),
        ("resources/read", json!({ "uri": "milepost://brief/latest" })),
        ("prompts/get", json!({ "name": "resume", "arguments": { "run": "r" } })),
    ];
    let mut input = String::new();
    for (id, (method, params)) in requests.iter().enumerate() {
        input.push_str(&format!(
            "{}\n",
            json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
        ));
        if id == 0 {
            input.push_str("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n");
        }
    }
    let ran = env.run_on(input.as_bytes(), &["mcp"]).exits(0);
    look_at(&ran.stderr, false, &"mcp");
    let mut found = Vec::new();
    ran.stdout.lines().for_each(|line| texts(&serde_json::from_str(line).unwrap(), &mut found));
    assert!(found.len() >= 7 && found.concat().contains("pwned"), "{ran:#?}");
    found.iter().for_each(|text| look_at(text, false, text));
}

/// On a terminal, where there are colours, questions and pages that a pipe never sees, and where a state is not exact.
#[test]
fn no_escape_reaches_a_real_terminal() {
    let env = planted();
    let terminal = |command: &str| {
        let line = format!("'{}' {command}", env!("CARGO_BIN_EXE_milepost"));
        let mut script = std::process::Command::new("script");
        script.args(["-q", "-e", "-c", &line, "/dev/null"]).current_dir(env.project()).env_clear();
        script.env("PATH", "/usr/local/bin:/usr/bin:/bin").env("HOME", env.path("home")).env("TERM", "xterm");
        script.env("HOSTILE", HOSTILE).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = script.spawn().ok()?;
        // Kept open: `script` would show the end of its input.
        let mut stdin = child.stdin.take();
        let _ = stdin.as_mut().map(|pipe| std::io::Write::write_all(pipe, b"n\n"));
        let output = child.wait_with_output().unwrap();
        drop(stdin);
        Some(String::from_utf8_lossy(&output.stdout).replace("\r\n", "\n"))
    };
    if terminal("--version").is_none_or(|text| !text.contains("milepost")) {
        return;
    }
    for command in [
        "status",
        "show r@1",
        "list",
        "runs r",
        "resume r",
        "resume r --check",
        "brief show r@1",
        "state r@1",
        "diff r@1 r@2 -v",
        "delete r",
        "summary r",
        "show \"$HOSTILE\"",
        "\"$HOSTILE\"",
        "task run --run s \"$HOSTILE\" -- \"$HOSTILE\"",
        "resume --from \"$HOSTILE-folder/$HOSTILE.md\"",
    ] {
        let text = terminal(command).unwrap();
        assert!(text.lines().count() > 1, "{command}: {text:?}");
        // What was typed ahead is shown by the terminal itself.
        look_at(&text, true, &command);
    }
}
