//! The installed OpenCode plugin, run in Node with events that a real OpenCode sent.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::TestEnvironment;

const RECORDED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/agent-hooks/opencode.json");

/// Sends recorded and additional events to a plugin and prints the results.
const HOST: &str = r#"
import { readFileSync } from "node:fs"
const [plugin, recorded, more] = process.argv.slice(2)
const { Milepost, ...others } = await import(plugin)
const again = await import(plugin + "?again")
const place = { directory: process.cwd(), worktree: process.cwd() }
const hooks = await Milepost(place)
const twin = await again.Milepost(place)
const result = { exports: Object.keys(others), twin: Object.keys(twin), calls: [], took: 0 }
const start = Date.now()
for (const { event, data } of [...JSON.parse(readFileSync(recorded)), ...JSON.parse(more)]) {
  if (event === "init") continue
  if (event === "wait") { await new Promise((done) => setTimeout(done, data)); continue }
  if (event.startsWith("event:")) {
    await hooks.event({ event: { type: event.slice(6), properties: data } })
  } else if (event === "raw") {
    for (const hook of Object.values(hooks)) for (const odd of [[], [null], [undefined, undefined], [{}, {}], [{ event: null }], [7, "x"]]) await hook(...odd)
  } else {
    const output = event.includes("system") ? { system: ["base"] } : event.includes("compacting") ? { context: [] } : data.o
    await hooks[event](data.i, output)
    if (event.startsWith("experimental")) result.calls.push(output)
  }
}
result.took = Date.now() - start
console.log(JSON.stringify(result))
if (process.env.ABRUPT) process.exit(0)
"#;

struct Host {
    env: TestEnvironment,
}

impl Host {
    /// Installs the plugin with the binary. Returns `None` if Node is not available.
    fn new() -> Option<Self> {
        if Command::new("node").arg("--version").stdout(Stdio::null()).status().is_err() {
            return None;
        }
        let env = TestEnvironment::new();
        env.run(&["agents", "install", "opencode", "--project"]).exits(0);
        // Node recognises a module by its file extension; OpenCode accepts any extension.
        std::fs::copy(env.project().join(".opencode/plugins/milepost.js"), env.path("plugin.mjs")).unwrap();
        env.write("../host.mjs", HOST);
        std::fs::create_dir(env.path("bin")).unwrap();
        Some(Self { env })
    }

    /// Puts a fake `milepost` on the path that logs its input and then runs `script`.
    fn with_milepost(self, script: &str) -> Self {
        let log = self.env.path("log");
        let text =
            format!("#!/bin/sh\nread -r line\nprintf '%s\\n' \"$line\" >> '{}'\n{script}\n", log.display());
        let fake = self.env.write("../bin/milepost", text);
        std::fs::set_permissions(&fake, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        self
    }

    fn run(&self, more: &Value, abrupt: bool) -> Value {
        let mut node = Command::new("node");
        node.current_dir(self.env.project()).arg(self.env.path("host.mjs"));
        node.arg(self.env.path("plugin.mjs")).arg(RECORDED).arg(more.to_string());
        node.env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", self.env.path("bin").display()));
        if abrupt {
            node.env("ABRUPT", "1");
        }
        let output = node.output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn log(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.env.path("log")).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

fn events(log: &[Value]) -> Vec<&str> {
    log.iter().map(|line| line["event"].as_str().unwrap()).collect()
}

const SESSION: &str = "ses_e1fa3003cffeJhD4npoSjtDClS";

#[test]
fn the_plugin_reports_events_in_order_and_adds_the_brief() {
    let Some(host) = Host::new() else { return };
    let host = host.with_milepost("case $line in *transform*|*compacting*) echo the brief;; esac");
    let result = host.run(&json!([]), false);
    assert_eq!(
        (&result["exports"], &result["twin"]),
        (&json!([]), &json!([])),
        "one export, and hooks only once"
    );
    let brief = json!({"system": ["base", "the brief"]});
    assert_eq!(
        result["calls"],
        json!([brief, brief]),
        "the brief is in every request, including one for a title"
    );
    let log = host.log();
    assert_eq!(
        events(&log),
        ["experimental.chat.system.transform", "chat.message", "tool.execute.after", "event:session.idle"]
    );
    let project = host.env.project();
    for line in &log {
        assert_eq!(Path::new(line["directory"].as_str().unwrap()), project);
        assert_eq!(line["worktree"], line["directory"]);
    }
    assert_eq!(log[0]["data"], json!({"i": {"sessionID": SESSION}, "source": "startup"}));
    assert_eq!(log[1]["data"]["o"]["parts"][0]["text"], "\"create hello.txt\"");
    assert_eq!(log[2]["data"]["i"]["args"]["filePath"], "/home/user/project/hello.txt");
    assert!(log[2]["data"]["duration_ms"].is_u64());
    assert_eq!(log[3]["data"]["sessionID"], SESSION);
}

#[test]
fn the_plugin_handles_compaction_sub_agents_failures_and_large_outputs() {
    let Some(host) = Host::new() else { return };
    let answer = r#"case $line in
*compacting*) echo '{"hookSpecificOutput":{"hookEventName":"x","additionalContext":"keep this"}}';;
*compact*transform*|*transform*compact*) echo 'after compaction';;
*transform*) echo '{}';;
esac"#;
    let host = host.with_milepost(answer);
    let child = json!({"info": {"id": "child", "parentID": SESSION}});
    let failure = json!({"sessionID": SESSION, "part": {"type": "tool", "tool": "bash", "callID": "c9",
        "state": {"status": "error", "error": "exit 2", "input": {"command": "make"}, "time": {"start": 1000, "end": 1250}}}});
    let more = json!([
        {"event": "raw"},
        {"event": "event:session.created", "data": child},
        {"event": "chat.message", "data": {"i": {"sessionID": "child"}, "o": {"parts": []}}},
        {"event": "experimental.chat.system.transform", "data": {"i": {"sessionID": "child"}}},
        {"event": "tool.execute.after", "data": {"i": {"tool": "read", "sessionID": "child", "callID": "c8"}, "o": {"output": "x".repeat(100_000)}}},
        {"event": "event:session.idle", "data": {"sessionID": "child"}},
        {"event": "event:message.part.updated", "data": failure},
        {"event": "event:message.part.updated", "data": failure},
        {"event": "event:permission.asked", "data": {"sessionID": SESSION, "id": "p"}},
        {"event": "experimental.session.compacting", "data": {"i": {"sessionID": SESSION}}},
        {"event": "event:session.compacted", "data": {"sessionID": SESSION}},
        {"event": "experimental.chat.system.transform", "data": {"i": {"sessionID": SESSION}}},
        {"event": "experimental.chat.system.transform", "data": {"i": {"sessionID": "resumed"}}},
    ]);
    let result = host.run(&more, false);
    let bare = json!({"system": ["base"]});
    assert_eq!(
        result["calls"],
        json!([bare, bare, bare, {"context": ["keep this"]}, {"system": ["base", "after compaction"]}, bare])
    );
    let log = host.log();
    let new = &log[4..];
    let wanted = [
        "tool.execute.after",
        "event:message.part.updated",
        "event:permission.asked",
        "experimental.session.compacting",
        "event:session.compacted",
        "experimental.chat.system.transform",
        "experimental.chat.system.transform",
    ];
    let odd = |line: &&Value| line["data"]["i"] != json!({}) && line["data"]["i"] != json!(7);
    let new: Vec<_> =
        new.iter().filter(|line| wanted.contains(&line["event"].as_str().unwrap())).filter(odd).collect();
    let told: Vec<_> = new
        .iter()
        .filter(|line| {
            line["data"]["i"]["sessionID"] != Value::Null || line["data"]["sessionID"] != Value::Null
        })
        .collect();
    assert_eq!(told.iter().map(|line| line["event"].as_str().unwrap()).collect::<Vec<_>>(), wanted);
    assert_eq!(told[0]["data"]["i"]["sessionID"], SESSION, "tools of a sub-agent belong to its parent");
    assert!(told[0]["data"]["o"]["output"].as_str().unwrap().len() < 20_000);
    assert_eq!(told[1]["data"]["duration_ms"], 250);
    assert_eq!(
        (&told[5]["data"]["source"], &told[6]["data"]["source"]),
        (&json!("compact"), &json!("resume"))
    );
}

#[test]
fn the_plugin_changes_nothing_if_milepost_is_missing_or_fails() {
    let Some(host) = Host::new() else { return };
    let bare = json!({"system": ["base"]});
    assert_eq!(host.run(&json!([{"event": "raw"}]), false)["calls"], json!([bare, bare]));
    let host = host.with_milepost("exit 3");
    assert_eq!(host.run(&json!([]), false)["calls"], json!([bare, bare]));
}

#[test]
fn a_hanging_hook_does_not_block_the_agent() {
    let Some(host) = Host::new() else { return };
    let host = host.with_milepost("exec sleep 30");
    let result = host.run(&json!([]), true);
    assert_eq!(result["calls"][0], json!({"system": ["base"]}));
    let took = result["took"].as_u64().unwrap();
    assert!((4_500..25_000).contains(&took), "waits five seconds only once: {took}");
}

#[test]
fn pending_events_are_still_sent_when_the_agent_exits() {
    let Some(host) = Host::new() else { return };
    let host = host.with_milepost("sleep 0.05");
    let result = host.run(&json!([]), true);
    assert!(result["took"].as_u64().unwrap() < 4_500);
    assert!(events(&host.log()).contains(&"event:session.idle"));
}
