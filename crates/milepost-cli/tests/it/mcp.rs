//! `mcp`: the real server, tested over pipes with one JSON message per line.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use serde_json::{Value, json};

use crate::TestEnvironment;

const TOOLS: [&str; 15] = [
    "complete", "decide", "diff", "file", "list", "patch", "record", "restore", "resume", "save", "search",
    "show", "step", "tasks", "undo",
];

/// A running server and the replies that were read before they were needed.
pub(super) struct Server {
    pub(super) child: Child,
    pub(super) stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    early: Vec<Value>,
    next: u64,
}

impl Server {
    pub(super) fn start(mut command: Command) -> Self {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (sender, lines) = channel();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in stdout.lines() {
                if sender.send(line.unwrap()).is_err() {
                    return;
                }
            }
        });
        let stdin = child.stdin.take();
        Self { child, stdin, lines, early: Vec::new(), next: 0 }
    }

    /// Starts a server in the test's project and completes the handshake.
    pub(super) fn of(env: &TestEnvironment, args: &[&str]) -> Self {
        let args: Vec<_> = std::iter::once("mcp").chain(args.iter().copied()).collect();
        let mut server = Self::start(env.command(&args));
        server.greet("2025-11-25");
        server
    }

    pub(super) fn greet(&mut self, version: &str) -> Value {
        let client = json!({ "name": "test", "version": "1" });
        let params = json!({ "protocolVersion": version, "capabilities": {}, "clientInfo": client });
        let greeted = self.request("initialize", params);
        self.write(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }).to_string());
        greeted["result"].clone()
    }

    pub(super) fn write(&mut self, line: &str) {
        writeln!(self.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    /// Sends a request and returns its id.
    pub(super) fn send(&mut self, method: &str, params: Value) -> u64 {
        self.next += 1;
        let id = self.next;
        self.write(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string());
        id
    }

    /// Waits for the reply to a request. Other replies are kept for later.
    #[track_caller]
    pub(super) fn answer(&mut self, id: impl Into<Value>) -> Value {
        let id = id.into();
        loop {
            if let Some(at) = self.early.iter().position(|answer| answer.get("id") == Some(&id)) {
                return self.early.remove(at);
            }
            let line = match self.lines.recv_timeout(Duration::from_secs(60)) {
                Ok(line) => line,
                Err(e) => panic!("no reply to {id}: {e}"),
            };
            // Every line on stdout must be a protocol message.
            let answer: Value = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line}"));
            assert_eq!(answer["jsonrpc"], "2.0", "{answer}");
            self.early.push(answer);
        }
    }

    #[track_caller]
    pub(super) fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        self.answer(id)
    }

    /// Calls a tool, asserts success and returns its document.
    #[track_caller]
    pub(super) fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let answer = self.request("tools/call", json!({ "name": tool, "arguments": arguments }));
        assert_eq!(answer["result"]["isError"], false, "{tool} {arguments}: {answer}");
        answer["result"]["structuredContent"].clone()
    }

    /// Calls a tool and returns the text that the model reads.
    #[track_caller]
    pub(super) fn text(&mut self, tool: &str, arguments: Value) -> String {
        let answer = self.request("tools/call", json!({ "name": tool, "arguments": arguments }));
        answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
    }

    /// Calls a tool, asserts a tool error (not a protocol error) and returns its reason code.
    #[track_caller]
    pub(super) fn refused(&mut self, tool: &str, arguments: Value) -> Value {
        let answer = self.request("tools/call", json!({ "name": tool, "arguments": arguments }));
        refusal(&answer)
    }

    pub(super) fn wait(&mut self) -> std::process::ExitStatus {
        for _ in 0..600 {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("the server did not exit");
    }

    /// Closes stdin and asserts that the server exits successfully without unread output.
    pub(super) fn end(mut self) {
        self.stdin = None;
        assert!(self.wait().success());
        assert_eq!(self.lines.recv_timeout(Duration::from_secs(5)), Err(RecvTimeoutError::Disconnected));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[track_caller]
pub(super) fn refusal(answer: &Value) -> Value {
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    assert!(answer["result"].get("structuredContent").is_none(), "{answer}");
    let line: Value = serde_json::from_str(answer["result"]["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(line["type"], "error");
    assert!(!line["message"].as_str().unwrap().is_empty() && line["exit"].is_u64(), "{line}");
    line["reason_code"].clone()
}

/// Asserts that a value matches a schema. Supports only the keywords that these schemas use.
pub(super) fn fits(schema: &Value, value: &Value, at: &str) {
    let is = |name: &str| match name {
        "null" => value.is_null(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("{at}: type {other}"),
    };
    if let Some(choices) = schema["anyOf"].as_array() {
        let own = |choice: &&Value| choice["type"] == "null" && value.is_null() || choice["type"] != "null";
        return fits(choices.iter().find(own).unwrap(), value, at);
    }
    match &schema["type"] {
        Value::String(name) => assert!(is(name), "{at}: {value} is not of type {name}"),
        Value::Array(names) => assert!(names.iter().any(|n| is(n.as_str().unwrap())), "{at}: {value}"),
        _ => {}
    }
    // Members are required of objects only.
    let required = schema["required"].as_array().filter(|_| value.is_object());
    for name in required.into_iter().flatten() {
        assert!(value.get(name.as_str().unwrap()).is_some(), "{at}: {name} is missing in {value}");
    }
    for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
        if let Some(member) = value.get(name) {
            fits(schema, member, &format!("{at}/{name}"));
        }
    }
    for element in value.as_array().into_iter().flatten().filter(|_| schema["items"].is_object()) {
        fits(&schema["items"], element, &format!("{at}/-"));
    }
}

#[test]
fn every_tool_result_matches_its_schema() {
    let env = TestEnvironment::repository();
    let mut server = Server::of(&env, &[]);
    let listed = server.request("tools/list", json!({}))["result"]["tools"].clone();
    let mut names: Vec<_> = listed.as_array().unwrap().iter().map(|t| t["name"].as_str().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, TOOLS);
    let mut check = |tool: &str, arguments: Value| {
        let answer = server.call(tool, arguments);
        let definition = listed.as_array().unwrap().iter().find(|t| t["name"] == tool).unwrap();
        fits(&definition["outputSchema"], &answer, tool);
        assert_eq!(answer["schema"], format!("milepost.{tool}/1"));
        answer
    };
    let input = json!({ "state": { "n": 1 } });
    let first = check(
        "save",
        json!({ "summary": "parser half done", "phase": "BUILD", "phase_number": 4, "reason": ["phase_completed"],
                "source": "step_boundary", "tag": ["half"], "pin": true, "input": input }),
    );
    let run = first["run_id"].as_str().unwrap().to_owned();
    check("decide", json!({ "text": "SQLite it is" }));
    check("record", json!({ "kind": "shell", "name": "make", "result": "FAIL", "duration_ms": 7 }));
    let plan = json!([{ "id": "a", "status": "in_progress", "title": "Parser" }, { "id": "b", "status": "pending" }]);
    assert!(check("tasks", json!({ "tasks": plan }))["snapshot_id"].is_null());
    let ended = check("tasks", json!({ "tasks": [{ "id": "a", "status": "done" }] }));
    assert!(ended["snapshot_id"].is_string() && ended["tasks"][1]["id"] == "b", "{ended}");
    assert_eq!(check("tasks", json!({}))["tasks"].as_array().unwrap().len(), 2);
    check("step", json!({ "what": "begin", "id": "s1", "plan": "plan.md", "ordinal": 1, "title": "One" }));
    check("step", json!({ "what": "done", "id": "s1" }));
    let list = check("list", json!({ "limit": 0, "status": "in_progress" }));
    assert_eq!(list["checkpoints"].as_array().unwrap().len(), 4);
    assert!(list["checkpoints"].as_array().unwrap().iter().all(|row| row["run_id"] == *run));
    let found = check("search", json!({ "query": "sqlite", "kind": "decision", "since": "1h", "limit": 3 }));
    assert_eq!(found["hits"][0]["excerpt"], "SQLite it is");
    assert!(found["notice"].is_string() && found["hits"][0].get("matches").is_none(), "{found}");
    assert_eq!(check("search", json!({ "query": "zebra" }))["hits"], json!([]));
    let shown = check("show", json!({ "ref": "half" }));
    assert_eq!(shown["checkpoint"]["state"]["n"], 1);
    assert!(shown["checkpoint"]["workspace"]["git"]["branch"] == "main", "captured as by `save`: {shown}");
    assert!(check("diff", json!({ "from": "half" }))["differs"] == true);
    let resumed = check("resume", json!({}));
    assert_eq!(resumed["decision"]["run_id"], *run);
    assert!(resumed["brief"].as_str().unwrap().contains("SQLite it is"), "{resumed}");
    assert_eq!(check("complete", json!({ "ref": "latest" }))["completed"].as_array().unwrap().len(), 4);
    let nothing = check("resume", json!({}));
    assert!(nothing["decision"]["run_id"].is_null() && nothing["brief"].is_null(), "{nothing}");
    // The command line shows the same checkpoints.
    assert_eq!(env.json(&["list", "--limit", "0"])["checkpoints"].as_array().unwrap().len(), 4);
    assert_eq!(env.json(&["list"])["checkpoints"], check("list", json!({}))["checkpoints"]);
    server.end();
}

#[test]
fn every_argument_of_a_tool_is_a_flag_or_operand_of_the_command() {
    let env = TestEnvironment::new();
    let mut server = Server::of(&env, &[]);
    let tools = server.request("tools/list", json!({}))["result"]["tools"].clone();
    let own = ["run", "ref", "from", "to", "what", "id", "text", "input", "brief", "paths", "token", "query"];
    let without_command = ["tasks", "file"];
    let is_command = |tool: &&Value| !without_command.contains(&tool["name"].as_str().unwrap());
    for tool in tools.as_array().unwrap().iter().filter(is_command) {
        let command = if tool["name"] == "patch" { "diff" } else { tool["name"].as_str().unwrap() };
        let help = env.run(&["help", command]).exits(0).stdout;
        for name in tool["inputSchema"]["properties"].as_object().unwrap().keys() {
            let flag = format!("--{}", name.replace('_', "-"));
            assert!(own.contains(&name.as_str()) || help.contains(&flag), "{} {name}", tool["name"]);
        }
        assert_eq!(tool["inputSchema"]["additionalProperties"], false);
    }
}

#[test]
fn both_protocol_versions_are_supported_and_instructions_are_sent() {
    let env = TestEnvironment::new();
    for version in ["2025-11-25", "2025-06-18"] {
        let mut server = Server::start(env.command(&["mcp"]));
        let greeted = server.greet(version);
        assert_eq!(greeted["protocolVersion"], version);
        assert_eq!(greeted["serverInfo"]["name"], "milepost");
        assert!(greeted["instructions"].as_str().unwrap().contains("`resume` tool first"), "{greeted}");
        for what in ["tools", "resources", "prompts"] {
            assert!(greeted["capabilities"][what].is_object(), "{greeted}");
        }
        assert!(server.request("ping", json!({}))["result"].is_object());
        server.end();
    }
}

#[test]
fn reading_tools_create_no_store() {
    let env = TestEnvironment::new();
    let mut server = Server::of(&env, &[]);
    for (tool, arguments) in [
        ("list", json!({})),
        ("show", json!({})),
        ("diff", json!({ "from": "latest" })),
        ("patch", json!({ "from": "latest" })),
        ("file", json!({ "ref": "latest", "path": "x" })),
        ("restore", json!({ "ref": "latest" })),
        ("undo", json!({})),
        ("resume", json!({})),
        ("tasks", json!({})),
        ("complete", json!({ "ref": "latest" })),
        ("step", json!({ "what": "done", "id": "s" })),
    ] {
        assert_eq!(server.refused(tool, arguments), "store_missing", "{tool}");
    }
    let resources = server.request("resources/list", json!({}));
    assert_eq!(resources["result"]["resources"][0]["uri"], "milepost://brief/latest");
    let read = server.request("resources/read", json!({ "uri": "milepost://brief/latest" }));
    assert_eq!(read["error"]["data"]["reason_code"], "store_missing");
    let prompt = server.request("prompts/get", json!({ "name": "resume" }));
    assert!(prompt["result"]["messages"][0]["content"]["text"].as_str().unwrap().contains("store_missing"));
    assert!(!env.project().join(".milepost").exists());
}

#[test]
fn wrong_arguments_are_reported_as_tool_errors() {
    let env = TestEnvironment::new();
    let mut server = Server::of(&env, &[]);
    for (tool, arguments) in [
        ("teapot", json!({})),
        ("save", json!({ "sumary": "x" })),
        ("save", json!({ "source": "banana" })),
        ("save", json!({ "phase_number": "four" })),
        ("list", json!({ "limit": -1 })),
        ("list", json!({ "completed": true, "incomplete": true })),
        ("decide", json!({})),
        ("step", json!({ "what": "teapot", "id": "s" })),
        ("record", json!({ "kind": "shell" })),
        ("tasks", json!({ "tasks": [{ "id": "a" }] })),
        ("resume", json!({ "start": true, "dismiss": true })),
        ("show", json!([])),
        ("show", json!("latest")),
    ] {
        assert_eq!(server.refused(tool, arguments.clone()), "usage", "{tool} {arguments}");
    }
    let text = server.text("save", json!({ "summary": "x", "phase_number": "four" }));
    assert!(text.contains("phase_number"), "{text}");
    assert!(!env.project().join(".milepost").exists());
    assert_eq!(server.refused("save", json!({ "run": "no such/run" })), "checkpoint_id_invalid");
    assert_eq!(server.refused("save", json!({ "input": "[1" })), "checkpoint_schema_invalid");
    assert_eq!(server.refused("save", json!({ "input": { "sequence": 1 } })), "checkpoint_schema_invalid");
    server.call("save", json!({ "summary": "fine" }));
    assert_eq!(server.refused("show", json!({ "ref": "nope" })), "checkpoint_not_found");
    assert_eq!(server.refused("list", json!({ "run": "nobody" })), "run_not_found");
    assert_eq!(server.refused("step", json!({ "what": "done", "id": "s" })), "checkpoint_schema_invalid");
    let nameless = server.request("tools/call", json!({}));
    assert_eq!(refusal(&nameless), "usage");
    assert_eq!(server.request("teapot/brew", json!({}))["error"]["code"], -32601);
    server.end();
}

#[test]
fn invalid_lines_do_not_disturb_the_server() {
    let env = TestEnvironment::new();
    let mut server = Server::start(env.command(&["mcp"]));
    let wrong =
        ["", "nonsense", "{", "{\"jsonrpc\":\"2.0\",\"id\":1,\"meth", "\u{feff}", "[]", "42", "\"x\"", "{}"];
    for line in wrong {
        server.write(line);
    }
    server.greet("2025-06-18");
    let whole = json!({ "jsonrpc": "2.0", "id": "t", "method": "tools/call",
                        "params": { "name": "save", "arguments": { "summary": "x" } } })
    .to_string();
    for (at, _) in whole.char_indices() {
        server.write(&whole[..at]);
    }
    for line in wrong {
        server.write(line);
    }
    server.write(&format!("{{\"x\": \"{}\"}}", "y".repeat(1 << 20)));
    server.stdin.as_mut().unwrap().write_all(b"\xff\xfe\n").unwrap();
    server.call("save", json!({ "summary": "still here" }));
    assert_eq!(server.call("list", json!({}))["checkpoints"].as_array().unwrap().len(), 1);
}

#[test]
fn concurrent_requests_are_all_answered() {
    let env = TestEnvironment::new();
    let mut server = Server::of(&env, &[]);
    let save = |n: u64| {
        let arguments = json!({ "run": "many", "summary": format!("number {n}") });
        json!({ "name": "save", "arguments": arguments })
    };
    let sent: Vec<_> = (0..12).map(|n| server.send("tools/call", save(n))).collect();
    let ping = server.send("ping", json!({}));
    assert!(server.answer(ping)["result"].is_object());
    let mut ids: Vec<_> = sent
        .into_iter()
        .map(|id| server.answer(id)["result"]["structuredContent"]["snapshot_id"].to_string())
        .collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 12);
    assert_eq!(env.json(&["list", "--limit", "0"])["checkpoints"].as_array().unwrap().len(), 12);
}

#[test]
fn the_server_finishes_its_work_and_exits_when_stdin_closes() {
    let env = TestEnvironment::new();
    let mut server = Server::of(&env, &[]);
    let id = server.send("tools/call", json!({ "name": "save", "arguments": { "summary": "last words" } }));
    server.stdin = None;
    assert_eq!(server.answer(id)["result"]["isError"], false);
    assert!(server.wait().success());
    assert_eq!(env.json(&["list"])["checkpoints"][0]["task_summary"], "last words");
    // A server that never received a message exits too.
    Server::start(env.command(&["mcp"])).end();
}

#[test]
fn acknowledged_saves_survive_a_signal_that_ends_the_server() {
    let env = TestEnvironment::new();
    let mut server = Server::of(&env, &[]);
    server.call("save", json!({ "summary": "one" }));
    let pid = server.child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&server.wait()), Some(15));
    assert_eq!(env.json(&["list"])["checkpoints"][0]["task_summary"], "one");
    env.run(&["verify"]).exits(0);
}

#[test]
fn the_server_survives_a_store_that_appears_and_disappears() {
    let env = TestEnvironment::new();
    let mut server = Server::of(&env, &["--wait", "0.2"]);
    assert_eq!(server.refused("list", json!({})), "store_missing");
    env.save(&["--run", "outside", "--summary", "made by a command"]);
    assert_eq!(server.call("list", json!({}))["checkpoints"].as_array().unwrap().len(), 1);
    let folder = env.project().join(".milepost");
    // Another process holds the write lock.
    let held = std::fs::File::open(folder.join("milepost.db-lock")).unwrap();
    held.lock().unwrap();
    assert_eq!(server.refused("save", json!({ "summary": "in vain" })), "store_busy");
    assert_eq!(server.call("list", json!({}))["checkpoints"].as_array().unwrap().len(), 1);
    drop(held);
    server.call("save", json!({ "run": "outside", "summary": "now" }));
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(server.refused("list", json!({})), "store_missing");
    server.call("save", json!({ "summary": "anew" }));
    let database = folder.join("milepost.db");
    for rest in ["milepost.db-wal", "milepost.db-shm"] {
        let _ = std::fs::remove_file(folder.join(rest));
    }
    env.write(".milepost/milepost.db", vec![0xa5; 8192]);
    let reason = server.refused("save", json!({ "summary": "into rubble" }));
    assert!(reason == "checkpoint_integrity_mismatch" || reason == "store_unreadable", "{reason}");
    server.refused("list", json!({}));
    std::fs::remove_file(database).unwrap();
    server.call("save", json!({ "summary": "and again" }));
    // Every call reports an invalid configuration until it is repaired.
    env.write("milepost.toml", "profile = 7");
    assert_eq!(server.refused("list", json!({})), "usage");
    env.write("milepost.toml", "");
    assert_eq!(server.call("list", json!({}))["checkpoints"][0]["task_summary"], "and again");
    server.end();
}

#[test]
fn the_server_finds_its_run_as_the_commands_do() {
    let mut env = TestEnvironment::new();
    // An ancestor of the server owns the run, as with an agent's run.
    let pid = std::process::id().to_string();
    env.run(&["start", "--run", "agents-own", "--owner-pid", &pid]).exits(0);
    env.save(&["--run", "another", "--summary", "x"]);
    let mut server = Server::of(&env, &[]);
    assert_eq!(server.call("save", json!({ "summary": "a" }))["run_id"], "agents-own");
    assert_eq!(server.call("save", json!({ "run": "third", "summary": "b" }))["run_id"], "third");
    server.end();
    let mut server = Server::of(&env, &["--run", "named"]);
    assert_eq!(server.call("decide", json!({ "text": "c" }))["run_id"], "named");
    server.end();
    env.set("CLAUDE_CODE_SESSION_ID", "session-7");
    let mut server = Server::of(&env, &["--run", "of-session"]);
    server.call("save", json!({ "summary": "d" }));
    server.end();
    let mut server = Server::of(&env, &[]);
    assert_eq!(server.call("save", json!({ "summary": "e" }))["run_id"], "of-session");
}

#[test]
fn a_dead_run_is_offered_continued_and_dismissed() {
    let env = TestEnvironment::new();
    let mut owner = Command::new("sleep").arg("600").spawn().unwrap();
    env.run(&["start", "--run", "dead", "--title", "Port", "--owner-pid", &owner.id().to_string()]).exits(0);
    env.save(&["--run", "dead", "--summary", "half of the parser"]);
    env.run(&["decide", "--run", "dead", "no regex"]).exits(0);
    let mut server = Server::of(&env, &[]);
    let alive = server.call("resume", json!({ "run": "dead", "check": true }));
    assert!(alive["decision"]["reason_code"] == "resume_run_active" && alive["brief"].is_null(), "{alive}");
    owner.kill().unwrap();
    owner.wait().unwrap();
    let text = server.text("resume", json!({ "budget": 800 }));
    assert!(text.contains("Run dead stopped") && text.contains("no regex"), "{text}");
    let prompt = server.request("prompts/get", json!({ "name": "resume", "arguments": { "budget": "800" } }));
    let message = &prompt["result"]["messages"][0];
    assert!(message["role"] == "user" && message["content"]["text"].as_str().unwrap().contains("no regex"));
    let begun = server.call("resume", json!({ "start": true }));
    assert_eq!(begun["started"]["continues"], "dead");
    assert!(begun["brief"].as_str().unwrap().contains("no regex"));
    // Later saves go to the new run.
    let own = server.call("save", json!({ "summary": "the other half" }))["run_id"].clone();
    assert_eq!(own, begun["started"]["run_id"]);
    assert_eq!(server.refused("resume", json!({ "run": "dead", "start": true })), "resume_claimed");
    let dismissed = server.call("resume", json!({ "run": own, "dismiss": true }));
    assert_eq!(dismissed["dismissed"], own);
    assert_eq!(env.json(&["resume", "dead", "--dismiss"])["dismissed"], "dead");
}

#[test]
fn resources_are_the_latest_brief_and_each_run() {
    let env = TestEnvironment::new();
    for n in 0..3 {
        env.save(&["--run", &format!("r{n}"), "--summary", &format!("about {n}")]);
    }
    env.run(&["decide", "--run", "r1", "keep it"]).exits(0);
    let mut server = Server::of(&env, &[]);
    let listed = server.request("resources/list", json!({}))["result"].clone();
    let uris: Vec<_> =
        listed["resources"].as_array().unwrap().iter().map(|r| r["uri"].as_str().unwrap()).collect();
    assert_eq!(uris.len(), 4);
    assert!(uris.contains(&"milepost://run/r1") && listed.get("nextCursor").is_none(), "{listed}");
    let templates = server.request("resources/templates/list", json!({}))["result"].clone();
    assert_eq!(templates["resourceTemplates"][0]["uriTemplate"], "milepost://run/{run_id}");
    let read = |server: &mut Server, uri: &str| {
        server.request("resources/read", json!({ "uri": uri }))["result"]["contents"][0].clone()
    };
    let brief = read(&mut server, "milepost://brief/latest");
    assert_eq!(brief["mimeType"], "text/markdown");
    assert!(brief["text"].as_str().unwrap().contains("about 2"), "{brief}");
    let run = read(&mut server, "milepost://run/r1");
    let text = run["text"].as_str().unwrap();
    let record = text.lines().find(|line| line.starts_with('{')).unwrap_or_else(|| panic!("{text}"));
    let run: Value = serde_json::from_str(record).unwrap();
    assert_eq!(run["decisions"][0]["text"], "keep it");
    for uri in ["milepost://run/nobody", "milepost://run/", "milepost://teapot", "file:///etc/passwd"] {
        let answer = server.request("resources/read", json!({ "uri": uri }));
        assert_eq!(answer["error"]["code"], -32002, "{answer}");
    }
    assert_eq!(server.request("prompts/get", json!({ "name": "x" }))["error"]["code"], -32602);
}

#[test]
fn secrets_are_redacted_and_numbers_keep_every_digit() {
    let env = TestEnvironment::new();
    let mut server = Server::of(&env, &[]);
    let secret = concat!("ghp_", "0123456789abcdefghijABCDEFGHIJ012345");
    let saved = server.call("save", json!({ "summary": format!("the token is {secret}") }));
    assert_eq!(saved["replaced"], 1);
    let shown = server.text("show", json!({}));
    assert!(shown.contains("[redacted:") && !shown.contains(secret), "{shown}");
    let exact = r#"{"state": {"big": 123456789012345678901234567890, "f": 1.0}}"#;
    server.call("save", json!({ "input": exact }));
    assert_eq!(env.run(&["state"]).exits(0).stdout.trim(), &exact[10..exact.len() - 1]);
    let brief = "# A brief of my own\n\nword for word\n";
    server.call("save", json!({ "brief": brief }));
    let shown = server.call("show", json!({}))["checkpoint"]["brief"].clone();
    assert!(shown.as_str().unwrap().contains(&format!(">\n{brief}</milepost-record ")), "{shown}");
}

#[test]
fn without_an_interrupted_run_a_session_gets_its_own_brief() {
    let env = TestEnvironment::new();
    let pid = std::process::id().to_string();
    env.run(&["start", "--run", "mine", "--owner-pid", &pid]).exits(0);
    let mut server = Server::of(&env, &[]);
    let text = server.text("resume", json!({}));
    assert!(text.starts_with("Nothing to resume"), "{text}");
    server.call("save", json!({ "summary": "before the context was cut" }));
    let own = server.call("resume", json!({}));
    assert_eq!(own["decision"]["run_id"], "mine");
    assert_eq!(own["decision"]["reason_code"], "resume_run_active");
    assert!(own["brief"].as_str().unwrap().contains("before the context was cut"), "{own}");
    // A live run cannot be continued.
    let refused = server.call("resume", json!({ "start": true }));
    assert!(refused["decision"]["run_id"].is_null() && refused.get("started").is_none(), "{refused}");
}
