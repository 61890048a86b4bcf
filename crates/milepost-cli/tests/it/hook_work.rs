//! Hooks: payloads of four real agents that set a to-do list, wrote a file and ran a failing command.

use std::io::Write;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::TestEnvironment;
use crate::hook::a_session_is_killed;

const RECORDED: [(&str, &str); 4] = [
    ("claude-code", include_str!("../fixtures/agent-hooks/claude-code-work.json")),
    ("gemini", include_str!("../fixtures/agent-hooks/gemini-work.json")),
    ("codex", include_str!("../fixtures/agent-hooks/codex-work.json")),
    ("opencode", include_str!("../fixtures/agent-hooks/opencode-work.json")),
];

/// Codex reports the exit code of a command only in its transcript.
const TRANSCRIPT: &str = include_str!("../fixtures/agent-hooks/codex-work-transcript.jsonl");

/// The recorded payloads of an agent, with their paths moved to this project.
fn recorded(env: &TestEnvironment, agent: &str) -> Vec<Value> {
    let (_, text) = RECORDED.into_iter().find(|(name, _)| *name == agent).unwrap();
    let text = text.replace("/home/user/project", env.project().to_str().unwrap());
    let events: Vec<Value> = serde_json::from_str(&text).unwrap();
    let payload = |event: Value| if event["stdin"].is_object() { event["stdin"].clone() } else { event };
    events.into_iter().map(payload).collect()
}

fn hears(env: &TestEnvironment, agent: &str, payload: &Value) -> String {
    let ran = env.run_on(payload.to_string().as_bytes(), &["hook", agent, "--strict"]).exits(0);
    assert_eq!(ran.stderr, "");
    ran.stdout
}

/// The `resume` document of a live session, which the test process itself owns.
fn held(env: &TestEnvironment, run: &str) -> Value {
    env.run(&["resume", run, "--json"]).exits(4).json()
}

#[test]
fn the_work_of_real_agents_is_recorded() {
    for (agent, _) in RECORDED {
        let env = TestEnvironment::repository();
        env.run(&["init"]).exits(0);
        let transcript = env.write("../rollout.jsonl", TRANSCRIPT);
        for mut payload in recorded(&env, agent) {
            if agent == "codex" {
                payload["transcript_path"] = json!(transcript);
            }
            assert_eq!(hears(&env, agent, &payload), "");
        }
        let run = env.json(&["runs"])["runs"][0]["run_id"].as_str().unwrap().to_owned();
        let resumed = held(&env, &run);
        let open = json!(["Feed the parser its input", "Count the widgets twice"]);
        assert_eq!(resumed["decision"]["next_actions"], open, "{agent}");
        let failed =
            "cat no-such-input.txt (exit_1), output: \"cat: no-such-input.txt: No such file or directory\"";
        assert_eq!(resumed["about"]["failed"], failed, "{agent}");
        let brief = resumed["brief"].as_str().unwrap();
        assert!(brief.contains("| `notes/parser.txt` |"), "{agent}: {brief}");
        let tasks = env.json(&["runs", &run])["tasks"].clone();
        assert_eq!(tasks[0]["status"], "completed", "{agent}: {tasks}");
    }
}

#[test]
fn a_codex_command_without_an_exit_code_is_not_recorded_as_failed() {
    let env = TestEnvironment::repository();
    env.run(&["init"]).exits(0);
    for payload in recorded(&env, "codex") {
        hears(&env, "codex", &payload);
    }
    let run = env.json(&["runs"])["runs"][0]["run_id"].as_str().unwrap().to_owned();
    assert_eq!(held(&env, &run)["about"]["failed"], Value::Null);
}

#[test]
fn opencode_gets_the_brief_before_its_first_message_is_recorded() {
    let env = TestEnvironment::repository();
    a_session_is_killed(&env);
    let mut answers = recorded(&env, "opencode").into_iter().map(|payload| hears(&env, "opencode", &payload));
    let told: Value = serde_json::from_str(&answers.next().unwrap()).unwrap();
    assert!(told["context"].as_str().unwrap().contains("cargo test parser"), "{told}");
    assert!(answers.all(|answer| answer.is_empty()));
    let status = env.json(&["status"]);
    assert_eq!(status["ended"], 1, "the killed run is continued: {status}");
}

#[test]
fn the_dash_c_folder_overrides_the_agents_folder() {
    let env = TestEnvironment::repository();
    env.run(&["init"]).exits(0);
    for (event, more) in [("SessionStart", ("source", "startup")), ("UserPromptSubmit", ("prompt", "fix it"))]
    {
        let payload = serde_json::json!({
            "session_id": "abc", "hook_event_name": event, "cwd": env.path("home"), more.0: more.1,
        });
        let project = env.project().to_string_lossy().into_owned();
        let mut hook = env.command(&["-C", &project, "hook", "claude-code", "--strict"]);
        let mut child =
            hook.current_dir(env.path("home")).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        write!(child.stdin.take().unwrap(), "{payload}").unwrap();
        assert!(child.wait().unwrap().success());
    }
    let runs = env.json(&["runs"])["runs"].clone();
    assert_eq!(runs.as_array().unwrap().len(), 1, "{runs}");
    // A missing folder is recorded as a hook failure.
    let gone = env.run_on(
        b"{\"session_id\":\"x\",\"hook_event_name\":\"SessionStart\"}",
        &["-C", "gone", "hook", "claude-code"],
    );
    assert_eq!((gone.code, gone.stdout.as_str()), (0, ""));
    assert_eq!(env.json(&["status"])["hook_failures"].as_array().unwrap().len(), 1);
}
