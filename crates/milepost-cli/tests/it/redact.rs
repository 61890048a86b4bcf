//! Redaction: text that looks like a key, token or password is never stored, unless the user disables
//! redaction or allows the value.

use std::path::Path;

use serde_json::json;

use crate::TestEnvironment;

fn noise(length: usize) -> String {
    "q7Zk2Xw9Lm4Rt8Vb1Nc6Yd3Hf5Gj0PsAeUiO".chars().cycle().take(length).collect()
}

fn hex(length: usize) -> String {
    "3f9a1c7e5b2d8046".chars().cycle().take(length).collect()
}

/// Secrets of many kinds, each with the part to search for. They are assembled from pieces so that no file
/// of the repository contains one.
fn planted() -> Vec<(String, String)> {
    let (n, h) = (noise, hex);
    let upper = |length: usize| noise(length).to_uppercase();
    let key: String = (0..4).map(|_| format!("{}\n", n(64))).collect();
    let whole = vec![
        format!("AK{}{}", "IA", upper(16)),
        format!("gh{}{}", "p_", n(36)),
        format!("gl{}{}", "pat-", n(20)),
        format!("xo{}2345678901-{}", "xb-", n(24)),
        format!("sk_{}{}", "live_", n(24)),
        format!("AI{}{}", "za", n(35)),
        format!("sk{}{}", "-proj-", n(48)),
        format!("sk{}{}", "-ant-api03-", n(80)),
        format!("np{}{}", "m_", n(36)),
        format!("py{}{}", "pi-AgEIcHlwaS5vcmc", n(60)),
        format!("S{}{}", "K", h(32)),
        format!("S{}{}.{}", "G.", n(22), n(43)),
        format!("abc8{}{}", "Q~", n(34)),
        format!("do{}{}", "p_v1_", h(64)),
        format!("h{}{}", "f_", n(34)),
        format!("1234567890:AA{}", n(33)),
        format!("M{}.{}.{}", n(25), n(6), n(38)),
        format!("ey{}.ey{}.{}", "JhbGciOiJIUzI1NiJ9", "JzdWIiOiIxMjM0In0", n(43)),
        format!("-----{} RSA PRIVATE KEY-----\n{key}-----{} RSA PRIVATE KEY-----", "BEGIN", "END"),
    ];
    let mut all: Vec<_> =
        whole.into_iter().map(|s| (s.clone(), s[s.len().min(60) - 14..s.len().min(60)].to_owned())).collect();
    all.extend([
        ("postgres://app:u7Hq2mPx@db.example.org/app".to_owned(), "u7Hq2mPx".to_owned()),
        ("password=correct-h0rse".to_owned(), "correct-h0rse".to_owned()),
        ("Authorization: Bearer 9c8b7a6d5e4f3a2b1c".to_owned(), "9c8b7a6d5e4f3a2b1c".to_owned()),
        ("DB_TOKEN: tk93mfo20dkw81".to_owned(), "tk93mfo20dkw81".to_owned()),
    ]);
    all
}

/// Collects every file under a folder with its raw bytes.
fn files(folder: &Path, into: &mut Vec<(String, Vec<u8>)>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, into);
        } else {
            into.push((path.display().to_string(), std::fs::read(&path).unwrap()));
        }
    }
}

fn holds(bytes: &[u8], what: &str) -> bool {
    bytes.windows(what.len()).any(|window| window == what.as_bytes())
}

/// Plants every secret wherever a command accepts text.
fn plant(env: &TestEnvironment, secrets: &[(String, String)]) {
    for (i, (secret, _)) in secrets.iter().enumerate() {
        let run = format!("r{}", i % 3);
        let (text, ended) = (format!("see {secret} now"), format!("x{i}: {secret}"));
        let of = |args: &[&str]| {
            let args: Vec<_> = args.iter().copied().chain(["--run", &run]).collect();
            env.run(&args).exits(0);
        };
        of(&["start", "--title", &text, "--plan", &ended]);
        of(&["note", &text]);
        of(&["decide", &text, "--supersedes", &ended]);
        of(&["task", "set", &format!("t{i}"), "pending", "--title", &text]);
        of(&["criterion", "set", &format!("c{i}"), "pending", "--subject", &ended]);
        of(&["context", "set", "--protect", &text, "--policy", &ended]);
        of(&[
            "record",
            "--kind",
            "shell",
            "--name",
            &text,
            "--result",
            "FAIL",
            "--duration-ms",
            "1",
            "--summary",
            &ended,
            "--reason-code",
            &text,
        ]);
        env.write("said", &ended);
        env.run(&["record", "--run", &run, "--", "cat", "said"]).exits(0);
        of(&["step", "begin", &format!("s{i}"), "--title", &text, "--plan", &ended]);
        let input = json!({
            "state": { "a": [text, { secret.as_str(): 1, "deep": [[secret]] }] },
            "metadata": { "prompt": ended, "env": [{ "name": "X", "value": secret }] },
            "own_field": { "nested": secret },
            "task_summary": text,
            "tasks": [{ "id": "t", "status": "done", "why": secret, "title": ended }],
            "step_state": { "step_id": "s", "resume_hints": { "next_actions": [text] } },
            "workspace": { "git": { "branch": "main", "error": ended }, "skipped": [text] },
            "files": [{ "path": text }],
            "source_details": [text],
        });
        env.write("brief.md", format!("# Brief\n\n## User Rules\n\n- use `{secret}`\n\n{ended}\n"));
        // Unicode escapes must not hide a secret.
        let escaped: String = secret.chars().map(|c| format!("\\u{:04x}", u32::from(c))).collect();
        let input =
            input.to_string().replacen("\"state\":{", &format!("\"state\":{{\"u\":\"{escaped}\","), 1);
        let args = [
            "save", "--run", &run, "--input", "-", "--brief", "brief.md", "--phase", &text, "--reason",
            &ended,
        ];
        env.run_on(input.as_bytes(), &args).exits(0);
        // A URL cannot be a folder name, because a path has no two consecutive slashes.
        let folder = if secret.contains("://") { "." } else { secret };
        let (pass, watch) = (format!("--password={secret}"), format!("--watch={folder}"));
        env.run(&["run", "--title", &text, &watch, "--", "true", "--header", &ended, &pass]).exits(0);
        if !secret.contains([' ', '\n', '@']) {
            of(&["mark", "latest", "--tag", secret]);
        }
        env.run_with(
            &[("MILEPOST_SESSION", secret), ("SOME_VARIABLE", secret)],
            &["save", "--run", &run, "--pin"],
        )
        .exits(0);
    }
}

fn is_in_no_byte(url: Option<&str>) {
    let mut env = TestEnvironment::new();
    if let Some(url) = url {
        env.set("MILEPOST_STORE", url);
    }
    // The contents of files are stored as they are, and stay on this machine.
    env.write("milepost.toml", "[capture]\nfiles = false\n");
    let secrets = planted();
    plant(&env, &secrets);
    let mut all = Vec::new();
    files(&env.project().join(if url.is_some() { "store" } else { ".milepost" }), &mut all);
    assert!(all.len() > 1);
    // Compressed content is checked by reading it back: every document, every run and every event.
    for run in env.json(&["runs"])["runs"].as_array().unwrap() {
        let run = run["run_id"].as_str().unwrap();
        all.push(("runs".into(), env.run(&["runs", run, "--json"]).exits(0).stdout.into_bytes()));
    }
    for checkpoint in env.json(&["list", "--limit", "0"])["checkpoints"].as_array().unwrap() {
        let id = checkpoint["snapshot_id"].as_str().unwrap();
        all.push((id.into(), env.run(&["show", id, "--json"]).exits(0).stdout.into_bytes()));
    }
    all.push(("events".into(), env.run(&["events", "--json"]).exits(0).stdout.into_bytes()));
    assert!(all.iter().any(|(_, bytes)| holds(bytes, "[redacted:github_token]")));
    for (place, bytes) in &all {
        for (_, part) in &secrets {
            let at = bytes.windows(part.len()).position(|window| window == part.as_bytes());
            let around =
                at.map(|at| String::from_utf8_lossy(&bytes[at.saturating_sub(120)..at + part.len()]));
            assert_eq!(around, None, "{part} is in {place}");
        }
    }
    env.run(&["verify"]).exits(0);
}

#[test]
fn planted_secrets_never_reach_the_database() {
    is_in_no_byte(None);
}

#[test]
fn planted_secrets_never_reach_the_file_store() {
    is_in_no_byte(Some("files:store"));
}

#[test]
fn save_and_state_report_redacted_places() {
    let env = TestEnvironment::new();
    let (token, _) = &planted()[1];
    let input =
        format!(r#"{{"state":{{"n":1.0,"auth":{{"h":"x {token}"}}}},"metadata":{{"password":"hunter2"}}}}"#);
    let ran = env.run_on(input.as_bytes(), &["save", "--run", "r", "--input", "-"]).exits(0);
    assert!(ran.stderr.contains("2 secrets"), "{}", ran.stderr);
    let body = &env.json(&["show", "latest"])["checkpoint"];
    assert_eq!(body["redacted"]["counts"], json!({ "github_token": 1, "password": 1 }));
    assert_eq!(body["redacted"]["pointers"], json!(["/metadata/password", "/state/auth/h"]));
    let ran = env.run(&["state", "--json"]).exits(3);
    assert_eq!(ran.reason(), "state_redacted");
    assert_eq!(ran.json()["redacted"], json!(["/state/auth/h"]));
    assert_eq!(env.run(&["state"]).exits(3).stdout, r#"{"n":1.0,"auth":{"h":"x [redacted:github_token]"}}"#);
}

#[test]
fn no_redact_stores_the_original_text() {
    let env = TestEnvironment::new();
    let (token, _) = &planted()[1];
    let state = format!(r#"{{"key":"{token}"}}"#);
    let input = format!(r#"{{"state":{state}}}"#);
    env.run_on(input.as_bytes(), &["save", "--run", "r", "--no-redact", "--input", "-"]).exits(0);
    assert_eq!(env.run(&["state"]).exits(0).stdout, state);
    assert!(env.json(&["show", "latest"])["checkpoint"]["redacted"].is_null());
    assert!(env.run(&["save", "--help"]).stdout.contains("--no-redact"));
}

#[test]
fn a_run_id_cannot_be_a_secret() {
    let env = TestEnvironment::new();
    let (token, part) = &planted()[1];
    for command in [&["save"][..], &["start"], &["note", "x"]] {
        let args: Vec<_> = command.iter().copied().chain(["--run", token, "--json"]).collect();
        let ran = env.run(&args).exits(2);
        assert!(ran.stderr.contains("github_token") && !ran.stderr.contains(part.as_str()), "{}", ran.stderr);
    }
}

const ALLOW: &str = "[redact]\nallow = [\"hunter2x\", \"fixture-*\"]\n";

/// The newest checkpoint of a run as JSON text.
fn newest(env: &TestEnvironment, run: &str) -> String {
    env.run(&["show", "latest", "--run", run, "--json"]).exits(0).stdout
}

#[test]
fn a_projects_allow_list_applies_once_it_is_trusted() {
    let mut env = TestEnvironment::repository();
    env.save(&["--run", "r"]);
    env.write("milepost.toml", ALLOW);
    let save = ["save", "--run", "r", "--summary", "password=hunter2x"];
    let ran = env.run(&save).exits(0);
    assert!(ran.stderr.contains("sets redact.allow, which you have not trusted"), "{}", ran.stderr);
    assert!(newest(&env, "r").contains("password=[redacted:password]"));
    let shown = env.json(&["config", "show"]).to_string();
    assert!(!shown.contains("hunter2x"), "{shown}");

    env.trust_project();
    let ran = env.run(&save).exits(0);
    assert!(!ran.stderr.contains("redacted"), "{}", ran.stderr);
    assert!(newest(&env, "r").contains("password=hunter2x"));
    let shown = env.json(&["config", "show"]).to_string();
    assert!(shown.contains("hunter2x, fixture-*"), "{shown}");
}

#[test]
fn the_users_own_allow_list_needs_no_trust_and_covers_the_projects() {
    let env = TestEnvironment::repository();
    let folder = env.path("home/.config/milepost");
    std::fs::create_dir_all(&folder).unwrap();
    #[allow(clippy::disallowed_methods, reason = "a test's own file")]
    std::fs::write(folder.join("config.toml"), ALLOW).unwrap();
    env.run(&["save", "--run", "r", "--summary", "password=fixture-7"]).exits(0);
    assert!(newest(&env, "r").contains("password=fixture-7"));
    // A project may repeat values that the user already allows.
    env.write("milepost.toml", "[redact]\nallow = [\"hunter2x\"]\n");
    let ran = env.run(&["save", "--run", "r", "--summary", "password=hunter2x"]).exits(0);
    assert!(!ran.stderr.contains("not trusted"), "{}", ran.stderr);
    assert!(newest(&env, "r").contains("password=hunter2x"));
    // Invalid entries are errors.
    env.write("milepost.toml", "[redact]\nallow = [\"*\"]\n");
    let ran = env.run(&["save", "--run", "r"]).exits(2);
    assert!(ran.stderr.contains("redact.allow in"), "{}", ran.stderr);
}

#[test]
fn allowed_values_are_kept_in_every_kind_of_input() {
    let mut env = TestEnvironment::repository();
    env.write("milepost.toml", ALLOW);
    env.trust_project();
    let text = "password=hunter2x password=h0rse99";
    let kept = "password=hunter2x password=[redacted:password]";
    let of = |args: &[&str]| {
        let args: Vec<_> = args.iter().copied().chain(["--run", "r"]).collect();
        env.run(&args).exits(0);
    };
    of(&["start", "--title", text]);
    of(&["note", text]);
    of(&["task", "set", "t", "pending", "--title", text]);
    env.run(&["record", "--run", "r", "--", "echo", text]).exits(0);
    let input = json!({ "state": { "password": "hunter2x", "other": text } }).to_string();
    env.run_on(input.as_bytes(), &["save", "--run", "r", "--input", "-"]).exits(0);
    let body = env.json(&["show", "latest", "--run", "r"])["checkpoint"].clone();
    assert_eq!(body["state"], json!({ "password": "hunter2x", "other": kept }));
    for place in ["log", "tasks", "command_outcomes"] {
        let there = body[place].to_string();
        assert!(there.contains(kept) && !there.contains("h0rse99"), "{place}: {there}");
    }
    assert!(body["command_outcomes"][0]["summary"].as_str().unwrap().contains(kept), "{body}");
    env.run(&["run", "--run", "s", "--title", text, "--", "true", "--password", "hunter2x"]).exits(0);
    let shown = env.run(&["runs", "s", "--json"]).exits(0).stdout;
    assert!(shown.contains("hunter2x") && !shown.contains("h0rse99"), "{shown}");
    let payload = json!({
        "session_id": "s1", "cwd": env.project(), "hook_event_name": "UserPromptSubmit", "prompt": text,
    });
    env.run_on(payload.to_string().as_bytes(), &["hook", "claude-code", "--strict"]).exits(0);
    let runs = env.run(&["runs", "--json"]).exits(0).stdout;
    let mut all = Vec::new();
    files(&env.project().join(".git/milepost"), &mut all);
    assert!(!runs.contains("h0rse99") && !all.iter().any(|(_, bytes)| holds(bytes, "h0rse99")));
}

#[test]
fn show_explains_how_to_allow_a_false_positive() {
    let env = TestEnvironment::repository();
    let ran = env.run(&["save", "--run", "r", "--summary", "password=hunter2x"]).exits(0);
    assert!(ran.stderr.contains("run `milepost show` for details"), "{}", ran.stderr);
    let shown = env.run(&["show"]).exits(0).stdout;
    assert!(shown.contains("/task_summary: password 1") && shown.contains("`redact.allow`"), "{shown}");
}

/// A password that contains a space is one argument of the recorded command.
#[test]
fn a_password_argument_of_a_recorded_command_is_redacted_as_a_whole() {
    let env = TestEnvironment::repository();
    env.write("sshpass", "#!/bin/sh\ntrue\n");
    env.run(&["record", "--run", "r", "--", "sh", "sshpass", "-p", "two horses", "ssh", "host"]).exits(0);
    env.save(&["--run", "r"]);
    let outcome = env.json(&["show", "latest", "--run", "r"])["checkpoint"]["command_outcomes"][0].clone();
    assert_eq!(outcome["name"], "sh sshpass -p [redacted:sshpass_password] ssh host");
}
