//! No command prints an escape sequence that was planted in its input or in recorded text, on stdout or
//! stderr, piped or on a terminal. Only `state` and briefs are printed verbatim, and only if stdout is not
//! a terminal.

use std::collections::BTreeSet;
use std::process::Stdio;

use serde_json::Value;

use crate::TestEnvironment;
use crate::planted::{BRANCH, HOSTILE, document, foreign, hooks, look, look_at, planted, toml};
use crate::tools::command_names;

/// Collects the names of members that the schema declares as free text.
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

/// Arguments to try with each command: first some that show or change recorded data, then invalid ones.
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
        "search" => vec![
            vec!["x", "--limit", "0"],
            vec!["pwned", "--limit", "0"],
            vec!["pwned", "--all"],
            vec![h],
            vec!["x", "--kind", h],
            vec!["x", "--since", h],
        ],
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
        "restore" => vec![
            vec!["latest", "--dry-run"],
            vec!["latest", "--all", "--force", "--yes"],
            vec!["r@1", "--dry-run"],
            vec!["prompt~3", h],
            vec![h, h],
        ],
        "undo" => vec![vec!["--list"], vec!["--yes"], vec![h, "--yes"]],
        "purge" => vec![vec![".", "--dry-run"], vec![".", "--yes"], vec![h, "--yes"]],
        "delete" => vec![vec!["r", "--dry-run"], vec!["r"], vec![h, "--yes"]],
        "verify" => vec![vec![], vec!["r@1"], vec![h]],
        "events" => vec![vec!["--limit", "0"], vec!["--after", h]],
        "hook" => vec![vec!["claude-code", "--strict"], vec![h, "--strict"], vec![h]],
        "mcp" => vec![vec![h]],
        // The page would be served until the test ends.
        "ui" => vec![vec!["--listen", h], vec!["--port", h]],
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
        "trust" => {
            vec![
                vec!["--dry-run"],
                vec![],
                vec!["--outbox"],
                vec!["--list"],
                vec!["--revoke"],
                vec!["user", h],
                vec![h],
            ]
        }
        "store" => vec![vec!["info"], vec!["init"], vec!["init", "--print", "--role", h], vec![h]],
        "sync" => vec![vec![], vec![h]],
        "completions" => vec![vec!["bash"], vec![h]],
        "man" => vec![vec![], vec!["save"], vec!["--install", &to], vec![h]],
        "help" => vec![vec!["--all"], vec!["save"], vec![h]],
        new => panic!("`milepost {new}` needs arguments that show recorded data, and invalid ones"),
    };
    cases.into_iter().map(|case| case.into_iter().map(str::to_owned).collect()).collect()
}

#[test]
fn no_command_prints_a_recorded_escape_sequence() {
    let env = planted();
    hooks(&env);
    std::fs::create_dir(env.project().join("foreign")).unwrap();
    env.write("foreign/001-checkpoint.json", foreign());
    for command in command_names(&env) {
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
    // Escaped JSON decodes to the original text, and `state` prints the original bytes.
    let shown = env.json(&["show", "r@1"]);
    assert_eq!(shown["checkpoint"]["task_summary"], HOSTILE);
    assert_eq!(shown["checkpoint"]["tasks"][0]["title"], HOSTILE);
    assert!(env.run(&["state", "r@1"]).stdout.contains('\u{202e}'));
}

#[test]
fn wrong_arguments_are_escaped_in_messages() {
    let env = planted();
    let flag = format!("--{HOSTILE}");
    for command in command_names(&env) {
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
fn settings_are_escaped_in_messages() {
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
fn reports_about_damage_contain_no_escape_sequences() {
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
fn the_planted_document_covers_every_string_of_the_schema() {
    let env = TestEnvironment::new();
    let schema: Value = serde_json::from_str(&env.run(&["schema"]).exits(0).stdout).unwrap();
    let mut members = BTreeSet::new();
    string_members(&schema, &mut members);
    assert!(members.len() > 30, "{members:?}");
    let text = document(&str::to_owned).to_string();
    // Only Milepost itself writes the seal, the prompts in restore points come from hooks, and positions in threads
    // from programs that use the library.
    let own = ["checksum", "prompt", "invocation", "namespace"];
    let missing: Vec<_> = members
        .iter()
        .filter(|name| !own.contains(&name.as_str()) && !text.contains(&format!("\"{name}\":")))
        .collect();
    assert!(missing.is_empty(), "not planted: {missing:?}");
}

#[cfg(feature = "mcp")]
#[test]
fn mcp_tools_return_no_text_with_escape_sequences() {
    use serde_json::json;
    fn texts(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(all) => all.iter().for_each(|(key, each)| match each {
                Value::String(text) if key == "text" => found.push(text.clone()),
                // Structured data is for programs and is not escaped.
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

/// A terminal shows colours, prompts and pages that a pipe does not, and `state` is escaped there.
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
        // Kept open, because `script` would print the end of its input.
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
        // The text includes the input, which the terminal echoes.
        look_at(&text, true, &command);
    }
}
