//! `mcp` against a misbehaving or compromised agent: floods, invalid messages, an early end of stdin, and
//! paths outside the project.

use std::io::Write as _;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::TestEnvironment;
use crate::mcp::{Server, refusal};

/// Takes the store's write lock, so that every writer has to wait.
fn hold(env: &TestEnvironment) -> std::fs::File {
    let held = std::fs::File::open(env.project().join(".milepost/milepost.db-lock")).unwrap();
    held.lock().unwrap();
    held
}

fn save(summary: &str) -> Value {
    json!({ "name": "save", "arguments": { "run": "r", "summary": summary } })
}

fn summaries(env: &TestEnvironment) -> Vec<String> {
    let listed = env.json(&["list", "--limit", "0"]);
    let rows = listed["checkpoints"].as_array().unwrap().iter();
    rows.map(|row| row["task_summary"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn three_hundred_calls_at_once_all_succeed_in_order() {
    let env = TestEnvironment::new();
    env.save(&["--run", "r", "--summary", "first"]);
    // Far less time than 300 saves need: the server must not let calls compete for the store's lock.
    let mut server = Server::of(&env, &["--wait", "0.5"]);
    let sent: Vec<_> = (0..300)
        .map(|n| match n % 2 {
            0 => server.send("tools/call", save(&format!("number {n}"))),
            _ => server.send("tools/call", json!({ "name": "list", "arguments": { "limit": 1 } })),
        })
        .collect();
    for (n, id) in sent.into_iter().enumerate() {
        let answer = server.answer(id);
        assert_eq!(answer["result"]["isError"], false, "{n}: {answer}");
        // Calls run in the order they were sent: a list shows the save before it and none after it.
        if n % 2 == 1 {
            let latest = &answer["result"]["structuredContent"]["checkpoints"][0]["task_summary"];
            assert_eq!(*latest, format!("number {}", n - 1), "{answer}");
        }
    }
    // Retention keeps fewer checkpoints; the sequence number shows that every save happened.
    assert_eq!(env.json(&["list"])["checkpoints"][0]["sequence"], 151);
    server.end();
}

#[test]
fn calls_in_progress_are_answered_after_stdin_closes() {
    let env = TestEnvironment::new();
    env.save(&["--run", "r", "--summary", "first"]);
    let mut server = Server::of(&env, &["--wait", "60"]);
    let held = hold(&env);
    let mut sent: Vec<_> = (0..20).map(|n| server.send("tools/call", save(&format!("number {n}")))).collect();
    // The last line has no line feed, which is allowed.
    let last = json!({ "jsonrpc": "2.0", "id": 1000, "method": "tools/call", "params": save("last") });
    write!(server.stdin.as_mut().unwrap(), "{last}").unwrap();
    sent.push(1000);
    server.stdin = None;
    // Longer than the five seconds that rmcp itself waits.
    std::thread::sleep(Duration::from_secs(6));
    drop(held);
    for id in sent {
        let answer = server.answer(id);
        assert_eq!(answer["result"]["isError"], false, "{answer}");
    }
    assert!(server.wait().success());
    assert_eq!(summaries(&env)[0], "last");
}

#[test]
fn invalid_messages_are_answered_with_an_error_and_the_server_continues() {
    let env = TestEnvironment::new();
    let mut server = Server::start(env.command(&["mcp"]));
    for greeted in [false, true] {
        if greeted {
            server.greet("2025-11-25");
        }
        for (line, code, id) in [
            ("nonsense", -32700, json!(null)),
            ("{\"jsonrpc\":\"2.0\",\"id\":1,\"meth", -32700, json!(null)),
            ("[]", -32600, json!(null)),
            ("42", -32600, json!(null)),
            ("{\"jsonrpc\":\"2.0\",\"id\":\"no method\"}", -32600, json!("no method")),
            ("{\"id\":900,\"method\":\"ping\"}", -32600, json!(900)),
        ] {
            server.write(line);
            let answer = server.answer(id);
            assert_eq!(answer["error"]["code"], code, "{line}: {answer}");
            assert!(answer["error"]["message"].as_str().unwrap().starts_with("the message is not"));
        }
        server.stdin.as_mut().unwrap().write_all(b"\xff\xfe\n").unwrap();
        assert_eq!(server.answer(Value::Null)["error"]["code"], -32700);
        // None of these is answered.
        for line in [
            "",
            "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}",
            "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":5}}",
            "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/teapot\",\"params\":{}}",
            "{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{}}",
            "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32700,\"message\":\"an echo\"}}",
        ] {
            server.write(line);
        }
        assert!(server.request("ping", json!({}))["result"].is_object());
    }
    server.call("save", json!({ "summary": "still here" }));
    server.end();
    // An invalid message is answered even if it is the only message.
    let mut server = Server::start(env.command(&["mcp"]));
    server.write("nonsense");
    server.stdin = None;
    assert_eq!(server.answer(Value::Null)["error"]["code"], -32700);
    assert!(server.wait().success());
}

#[test]
fn messages_above_the_size_limit_are_refused_and_large_ones_below_it_are_read() {
    let env = TestEnvironment::new();
    let mut server = Server::of(&env, &[]);
    let padded = |id: u64, bytes: usize| {
        format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},{}\"method\":\"ping\"}}", " ".repeat(bytes))
    };
    server.write(&padded(500, 20 << 20));
    assert!(server.answer(500)["result"].is_object());
    server.write(&padded(501, 70 << 20));
    let answer = server.answer(Value::Null);
    assert_eq!(answer["error"]["code"], -32600, "{answer}");
    assert!(answer["error"]["message"].as_str().unwrap().contains("longer than 68157440 bytes"), "{answer}");
    assert!(server.request("ping", json!({}))["result"].is_object());
    server.end();
}

#[test]
fn an_id_in_use_is_refused_and_a_cancelled_call_never_starts() {
    let env = TestEnvironment::new();
    env.save(&["--run", "r", "--summary", "first"]);
    let mut server = Server::of(&env, &["--wait", "60"]);
    let held = hold(&env);
    let under_way = server.send("tools/call", save("under way"));
    let again = json!({ "jsonrpc": "2.0", "id": under_way, "method": "tools/call", "params": save("twin") });
    server.write(&again.to_string());
    let refused = server.answer(under_way);
    assert_eq!(refused["error"]["code"], -32600, "{refused}");
    let cancelled = server.send("tools/call", save("cancelled"));
    let params = json!({ "requestId": cancelled });
    let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params });
    server.write(&cancel.to_string());
    assert!(server.request("ping", json!({}))["result"].is_object());
    // An unanswered call does not keep the server from exiting.
    server.stdin = None;
    drop(held);
    assert_eq!(server.answer(under_way)["result"]["isError"], false);
    assert!(server.wait().success());
    assert_eq!(summaries(&env), ["under way", "first"]);
}

#[test]
fn a_brief_is_read_only_from_regular_files_inside_the_project() {
    let env = TestEnvironment::new();
    let brief = "## Problem\nIt leaks.\n\n### Next Actions\n- Find the leak\n";
    let outside = env.write("../outside.md", "the words of somebody else\n").canonicalize().unwrap();
    env.write("brief.md", brief);
    std::fs::create_dir_all(env.project().join("docs/folder")).unwrap();
    env.write("docs/deep.md", brief);
    let link = |target: &str, name: &str| {
        std::os::unix::fs::symlink(target, env.project().join(name)).unwrap();
    };
    link("/etc/passwd", "passwd");
    link("brief.md", "inward.md");
    link("..", "up");
    link("docs", "linked");
    link("nowhere", "dangling.md");
    assert!(Command::new("mkfifo").arg(env.project().join("pipe.md")).status().unwrap().success());
    let _socket = std::os::unix::net::UnixListener::bind(env.project().join("socket")).unwrap();
    env.write("bytes.md", [0xff, 0xfe, 0x00]);
    env.write("large.md", "x".repeat((1 << 20) + 1));
    env.write("largest.md", format!("{brief}{}", "\n".repeat((1 << 20) - brief.len())));
    let mut server = Server::of(&env, &[]);
    for (file, why) in [
        ("/etc/passwd", "outside the project"),
        (outside.to_str().unwrap(), "outside the project"),
        ("/dev/zero", "outside the project"),
        ("../outside.md", "contains `..`"),
        ("docs/../brief.md", "contains `..`"),
        ("passwd", "symbolic link"),
        ("inward.md", "symbolic link"),
        ("up/outside.md", "symbolic link"),
        ("linked/deep.md", "symbolic link"),
        ("dangling.md", "symbolic link"),
        ("pipe.md", "not a regular file"),
        ("socket", "not a regular file"),
        ("docs", "not a regular file"),
        (".", "not a regular file"),
        ("brief.md/x", "not a regular file"),
        ("large.md", "larger than 1048576 bytes"),
        ("bytes.md", "not UTF-8"),
        ("missing.md", "No such file"),
        ("a\0b", "nvalid argument"),
        ("", "not a regular file"),
    ] {
        let answer = server.request("tools/call", json!({ "name": "resume", "arguments": { "from": file } }));
        assert_eq!(refusal(&answer), "usage", "{file}: {answer}");
        let line = answer["result"]["content"][0]["text"].as_str().unwrap();
        let line: Value = serde_json::from_str(line).unwrap();
        assert!(line["message"].as_str().unwrap().contains(why), "{file}: {line}");
        assert!(line["hint"].as_str().unwrap().contains("inside the project"), "{line}");
    }
    let absolute = env.project().canonicalize().unwrap().join("brief.md");
    for file in ["brief.md", "./docs//deep.md", "largest.md", absolute.to_str().unwrap()] {
        let text = server.text("resume", json!({ "from": file }));
        assert!(text.contains("Find the leak"), "{file}: {text}");
    }
    server.end();
    // A path is relative to the server's folder and may point anywhere in the project.
    env.save(&["--summary", "so that the project has a root"]);
    let mut server = Server::of(&env, &["-C", "docs"]);
    assert!(server.text("resume", json!({ "from": "deep.md" })).contains("Find the leak"));
    assert!(server.text("resume", json!({ "from": absolute })).contains("Find the leak"));
    assert_eq!(server.refused("resume", json!({ "from": "../brief.md" })), "usage");
}

#[test]
fn secrets_are_redacted_in_a_brief_from_a_file() {
    let env = TestEnvironment::new();
    let key = concat!("AKIA", "Z7Q2M4XK9RW3TB6V");
    env.write("brief.md", format!("## Problem\nThe key {key} leaks.\n\n### Next Actions\n- Revoke it\n"));
    let mut server = Server::of(&env, &[]);
    let answer =
        server.request("tools/call", json!({ "name": "resume", "arguments": { "from": "brief.md" } }));
    assert!(!answer.to_string().contains(key), "{answer}");
    let brief = answer["result"]["structuredContent"]["brief"].as_str().unwrap();
    assert!(brief.contains("[redacted:") && brief.contains("Revoke it"), "{brief}");
}
