//! Hooks: recorded payloads of four agents, intact and truncated, sent to the real binary. Also sessions
//! that are killed and continued by another agent.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use crate::TestEnvironment;

const RECORDED: [(&str, &str); 9] = [
    ("claude-code", include_str!("../fixtures/agent-hooks/claude-code.json")),
    ("claude-code", include_str!("../fixtures/agent-hooks/claude-code-lifecycle.json")),
    ("gemini", include_str!("../fixtures/agent-hooks/gemini.json")),
    ("codex", include_str!("../fixtures/agent-hooks/codex.json")),
    ("opencode", include_str!("../fixtures/agent-hooks/opencode.json")),
    ("claude-code", include_str!("../fixtures/agent-hooks/claude-code-work.json")),
    ("gemini", include_str!("../fixtures/agent-hooks/gemini-work.json")),
    ("codex", include_str!("../fixtures/agent-hooks/codex-work.json")),
    ("opencode", include_str!("../fixtures/agent-hooks/opencode-work.json")),
];

/// Returns every recorded event as the agent writes it to its hook.
fn recorded() -> Vec<(&'static str, Value)> {
    let mut all = Vec::new();
    for (agent, text) in RECORDED {
        let events: Vec<Value> = serde_json::from_str(text).unwrap();
        for event in events {
            match agent {
                "opencode" => all.push((agent, event)),
                _ if event["stdin"].is_object() => all.push((agent, event["stdin"].clone())),
                _ => {}
            }
        }
    }
    all
}

/// A process that calls hooks as an agent does and that can be killed.
pub(crate) struct FakeAgent {
    name: &'static str,
    folder: String,
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

const SOURCE: &str = "
import sys, json, subprocess
for line in sys.stdin:
    event = json.loads(line)
    done = subprocess.run([sys.argv[1], 'hook', event['agent']], input=json.dumps(event['payload']), text=True, capture_output=True)
    print(json.dumps([done.returncode, done.stdout, done.stderr]), flush=True)
";

impl FakeAgent {
    pub(crate) fn new(env: &TestEnvironment, name: &'static str) -> Self {
        Self::within(env, name, &env.project())
    }

    pub(crate) fn within(env: &TestEnvironment, name: &'static str, folder: &std::path::Path) -> Self {
        let mut command = Command::new("python3");
        command.args(["-c", SOURCE, env!("CARGO_BIN_EXE_milepost")]).env_clear();
        command.env("PATH", "/usr/local/bin:/usr/bin:/bin").env("HOME", env.path("home"));
        command.envs(env.store_variables());
        command.current_dir("/").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        Self { name, folder: folder.to_string_lossy().into_owned(), child, stdin, stdout }
    }

    /// Sends an event and returns the hook's output.
    #[track_caller]
    pub(crate) fn hears(&mut self, session: &str, event: &str, more: Value) -> Option<Value> {
        let mut payload = json!({ "session_id": session, "cwd": self.folder, "hook_event_name": event });
        payload.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let line = json!({ "agent": self.name, "payload": payload });
        writeln!(self.stdin, "{line}").unwrap();
        let mut answer = String::new();
        self.stdout.read_line(&mut answer).unwrap();
        let (code, out, err): (i32, String, String) = serde_json::from_str(&answer).unwrap();
        assert_eq!((code, err.as_str()), (0, ""), "{event}: {out}");
        (!out.is_empty()).then(|| serde_json::from_str(&out).unwrap())
    }

    pub(crate) fn works(&mut self, session: &str) {
        self.hears(
            session,
            "UserPromptSubmit",
            json!({ "prompt": "write the parser and make its tests pass" }),
        );
        let file = format!("{}/parser.rs", self.folder);
        let input = json!({ "file_path": file, "content": "fn parse() {}" });
        self.hears(
            session,
            "PostToolUse",
            json!({ "tool_name": "Write", "tool_input": input, "tool_response": {} }),
        );
        let todos = json!({ "todos": [
            { "content": "write the parser", "status": "completed" },
            { "content": "make the tests pass", "status": "in_progress" },
            { "content": "document it", "status": "pending" },
        ] });
        self.hears(
            session,
            "PostToolUse",
            json!({ "tool_name": "TodoWrite", "tool_input": todos, "tool_response": {} }),
        );
        let failed = json!({ "tool_name": "Bash", "tool_input": { "command": "cargo test parser" },
            "tool_response": "Error: Exit code 101\ntest parses ... FAILED", "duration_ms": 5200 });
        self.hears(session, "PostToolUse", failed);
    }

    pub(crate) fn dies(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for FakeAgent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Creates a store with a session that did some work and was killed.
pub(crate) fn a_session_is_killed(env: &TestEnvironment) {
    env.run(&["init"]).exits(0);
    let mut agent = FakeAgent::new(env, "claude-code");
    begins(&mut agent, "s1");
    agent.works("s1");
    agent.dies();
}

pub(crate) fn begins(agent: &mut FakeAgent, session: &str) -> Option<String> {
    let answer = agent.hears(session, "SessionStart", json!({ "source": "startup" }))?;
    answer["hookSpecificOutput"]["additionalContext"].as_str().map(str::to_owned)
}

#[test]
fn another_agent_continues_a_killed_session_with_its_brief() {
    let env = TestEnvironment::repository();
    env.run(&["init"]).exits(0);
    let mut first = FakeAgent::new(&env, "claude-code");
    assert_eq!(begins(&mut first, "s1"), None, "there is nothing to continue");
    first.works("s1");
    let live = env.json(&["status"]);
    assert_eq!(live["live"][0]["run_id"], "claude-code-s1");
    // A live run is never offered.
    env.run(&["resume", "--check"]).exits(4);
    first.dies();
    let status = env.json(&["status"]);
    assert_eq!(status["stopped"][0]["class"], "process_crash");
    assert_eq!(status["next"], "milepost resume");
    env.run(&["resume", "--check"]).exits(0);
    let resumed = env.json(&["resume"]);
    assert_eq!(resumed["decision"]["reason_code"], "resume_allowed");
    assert_eq!(resumed["decision"]["next_actions"], json!(["make the tests pass", "document it"]));

    let mut second = FakeAgent::new(&env, "gemini");
    let brief = begins(&mut second, "g1").unwrap();
    for word in ["parser.rs", "make the tests pass", "document it", "cargo test parser", "claude-code-s1"] {
        assert!(brief.contains(word), "{word} in {brief}");
    }
    assert!(brief.len() < 10_000, "{}", brief.len());
    let (record, files) = brief.trim_end().rsplit_once('\n').unwrap();
    assert!(files.starts_with("Milepost stores changed files: `milepost restore prompt`"), "{brief}");
    let end = record.lines().last().unwrap();
    assert!(end.starts_with("</milepost-record "), "the line is not part of the record: {brief}");
    second.hears("g1", "BeforeAgent", json!({ "prompt": "<hook_context>x</hook_context>\n\ngo on" }));
    let run = env.json(&["runs", "gemini-g1"]);
    assert_eq!(run["messages"].as_array().unwrap().last().unwrap()["text"], "go on");
    assert_eq!(run["tasks"].as_array().unwrap().len(), 3, "the to-do list is copied");
    // A run that is being continued is not offered again.
    let mut third = FakeAgent::new(&env, "codex");
    assert_eq!(begins(&mut third, "c1"), None);
    second.hears("g1", "SessionEnd", json!({ "reason": "exit" }));
    assert_eq!(env.json(&["runs", "gemini-g1"])["runs"][0]["status"], "paused", "there are open to-dos");
}

#[test]
fn files_are_mentioned_only_if_they_are_stored() {
    let env = TestEnvironment::repository();
    env.write("milepost.toml", "[capture]\nfiles = false\n");
    a_session_is_killed(&env);
    let brief = begins(&mut FakeAgent::new(&env, "codex"), "c1").unwrap();
    assert!(brief.contains("cargo test parser") && !brief.contains("milepost restore"), "{brief}");
}

#[test]
fn a_failure_is_reported_many_checkpoints_and_sessions_later() {
    let env = TestEnvironment::repository();
    env.run(&["init"]).exits(0);
    let passes = |agent: &mut FakeAgent, session: &str, command: &str| {
        let passed =
            json!({ "tool_name": "Bash", "tool_input": { "command": command }, "tool_response": "ok" });
        agent.hears(session, "PostToolUse", passed);
        agent.hears(session, "PreCompact", json!({ "trigger": "auto" }));
    };
    let mut first = FakeAgent::new(&env, "claude-code");
    begins(&mut first, "s1");
    first.works("s1");
    for n in 0..4 {
        passes(&mut first, "s1", &format!("make part{n}"));
    }
    first.dies();
    for session in ["s2", "s3"] {
        let mut next = FakeAgent::new(&env, "claude-code");
        let brief = begins(&mut next, session).unwrap();
        let failure = brief.lines().find(|line| line.contains("`cargo test parser` failed")).unwrap();
        assert!(failure.contains("(exit_101), not seen to pass since"), "{session}: {brief}");
        next.hears(session, "UserPromptSubmit", json!({ "prompt": "go on" }));
        next.dies();
    }
    let mut last = FakeAgent::new(&env, "claude-code");
    assert!(begins(&mut last, "s4").is_some());
    passes(&mut last, "s4", "cargo test parser");
    last.dies();
    let mut after = FakeAgent::new(&env, "claude-code");
    let brief = begins(&mut after, "s5").unwrap();
    assert!(!brief.contains("failed"), "it has passed since: {brief}");
}

#[test]
fn only_one_of_three_concurrent_sessions_gets_the_brief() {
    let env = TestEnvironment::repository();
    a_session_is_killed(&env);
    let answers: Vec<Option<String>> = std::thread::scope(|scope| {
        let threads: Vec<_> = ["a", "b", "c"]
            .map(|session| {
                let env = &env;
                scope.spawn(move || {
                    let mut agent = FakeAgent::new(env, "claude-code");
                    let answer = begins(&mut agent, session);
                    (answer, agent)
                })
            })
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect();
        threads.into_iter().map(|(answer, _agent)| answer).collect()
    });
    let whole = answers.iter().flatten().filter(|text| text.contains("cargo test parser")).count();
    assert_eq!(whole, 1, "{answers:#?}");
}

#[test]
fn an_idle_session_leaves_no_run_and_uses_no_resume_attempt() {
    let env = TestEnvironment::repository();
    a_session_is_killed(&env);
    for i in 0..4 {
        let mut idle = FakeAgent::new(&env, "claude-code");
        let session = format!("idle{i}");
        assert!(begins(&mut idle, &session).unwrap().contains("cargo test parser"), "round {i}");
        idle.hears(&session, "SessionEnd", json!({ "reason": "other" }));
    }
    assert_eq!(env.json(&["runs"])["runs"].as_array().unwrap().len(), 1);
}

#[test]
fn an_open_to_do_that_no_checkpoint_contains_pauses_an_ended_session() {
    let env = TestEnvironment::repository();
    env.run(&["init"]).exits(0);
    let mut agent = FakeAgent::new(&env, "claude-code");
    begins(&mut agent, "s1");
    agent.hears("s1", "UserPromptSubmit", json!({ "prompt": "fix the parser" }));
    let todos = json!({ "todos": [{ "content": "fix the parser", "status": "pending" }] });
    let written = json!({ "tool_name": "TodoWrite", "tool_input": todos, "tool_response": {} });
    agent.hears("s1", "PostToolUse", written);
    assert_eq!(env.json(&["runs"])["runs"][0]["checkpoints"], 1, "the to-do is in no checkpoint yet");
    agent.hears("s1", "SessionEnd", json!({ "reason": "exit" }));
    assert_eq!(env.json(&["runs"])["runs"][0]["status"], "paused");
}

#[test]
fn sessions_in_worktrees_of_one_repository_stay_separate() {
    let env = TestEnvironment::repository();
    env.run(&["init"]).exits(0);
    for branch in ["one", "two"] {
        env.git(&["worktree", "add", "-q", "-b", branch, &format!("../{branch}")]);
    }
    let mut agents: Vec<_> = [("claude-code", "one"), ("claude-code", "two")]
        .map(|(name, folder)| FakeAgent::within(&env, name, &env.path(folder)))
        .into_iter()
        .collect();
    for (i, agent) in agents.iter_mut().enumerate() {
        begins(agent, &format!("w{i}"));
        agent.works(&format!("w{i}"));
    }
    agents.into_iter().for_each(FakeAgent::dies);
    // Another worktree gets an offer instead of the brief.
    let mut elsewhere = FakeAgent::new(&env, "gemini");
    let offer = begins(&mut elsewhere, "g1").unwrap();
    assert!(offer.lines().count() == 3 && offer.contains("2 interrupted runs"), "{offer}");
    let mut there = FakeAgent::within(&env, "gemini", &env.path("two"));
    let brief = begins(&mut there, "g2").unwrap();
    assert!(brief.contains("claude-code-w1") && !brief.contains("claude-code-w0"), "{brief}");
}

#[test]
fn a_compacted_session_gets_its_brief_and_a_resumed_one_does_not() {
    let env = TestEnvironment::repository();
    env.run(&["init"]).exits(0);
    let mut agent = FakeAgent::new(&env, "claude-code");
    begins(&mut agent, "s1");
    agent.works("s1");
    agent.hears("s1", "PreCompact", json!({ "trigger": "auto" }));
    let list = env.json(&["list", "--run", "claude-code-s1"]);
    let details = list["checkpoints"][0]["source_details"].to_string();
    assert!(details.contains("pre_compaction"), "{list}");
    // After the compaction the agent starts again and gets the brief of its own run.
    let answer = agent.hears("s1", "SessionStart", json!({ "source": "compact" })).unwrap();
    assert!(
        answer["hookSpecificOutput"]["additionalContext"].as_str().unwrap().contains("make the tests pass")
    );
    agent.dies();
    let mut again = FakeAgent::new(&env, "claude-code");
    assert_eq!(
        again.hears("s1", "SessionStart", json!({ "source": "resume" })),
        None,
        "the agent still has its context"
    );
    assert_eq!(env.json(&["runs"])["runs"].as_array().unwrap().len(), 1, "the same run");
}

#[test]
fn status_shows_sessions_that_wait_for_a_limit_or_the_user() {
    let env = TestEnvironment::repository();
    env.run(&["init"]).exits(0);
    let mut agent = FakeAgent::new(&env, "claude-code");
    begins(&mut agent, "s1");
    agent.works("s1");
    agent.hears("s1", "StopFailure", json!({ "error": "Claude usage limit reached, resets at 3pm" }));
    let status = env.json(&["status"]);
    assert_eq!(
        (&status["live"][0]["standing"], &status["live"][0]["class"]),
        (&json!("waiting"), &json!("usage_limit"))
    );
    agent.hears("s1", "UserPromptSubmit", json!({ "prompt": "go on" }));
    assert_eq!(env.json(&["status"])["live"][0]["standing"], "live");
    agent.hears("s1", "Notification", json!({ "message": "Claude needs your permission to use Bash" }));
    let shown = env.run(&["status"]).exits(0).stdout;
    assert!(shown.contains("waiting_for_user") && shown.contains("permission to use Bash"), "{shown}");
}

#[test]
fn repeated_compression_events_of_gemini_save_one_checkpoint() {
    let env = TestEnvironment::repository();
    env.run(&["init"]).exits(0);
    let mut agent = FakeAgent::new(&env, "gemini");
    begins(&mut agent, "g1");
    agent.hears("g1", "BeforeAgent", json!({ "prompt": "work" }));
    for _ in 0..10 {
        agent.hears("g1", "PreCompress", json!({ "trigger": "auto" }));
    }
    assert_eq!(env.json(&["list", "--limit", "0"])["checkpoints"].as_array().unwrap().len(), 1);
}

#[test]
fn without_a_store_hooks_only_print_one_notice() {
    let env = TestEnvironment::repository();
    let told = |project: &std::path::Path| {
        let mut told = Vec::new();
        for (agent, mut payload) in recorded() {
            payload["cwd"] = json!(project);
            let ran = env.run_on(payload.to_string().as_bytes(), &["hook", agent]).exits(0);
            assert_eq!(ran.stderr, "");
            told.extend((!ran.stdout.is_empty()).then(|| ran.json()));
        }
        told
    };
    let notice = json!({ "systemMessage":
        "milepost: nothing is recorded in this repository yet. Run `milepost init` to record sessions here, or \
         `milepost agents install --record all` to record in every git repository" });
    assert_eq!(told(&env.project()), [notice], "once, and only to the user");
    assert_eq!(told(&env.project()), [] as [Value; 0]);
    let elsewhere = json!({ "systemMessage":
        "milepost: nothing is recorded here yet. Run `milepost init` to record sessions here" });
    assert_eq!(told(&env.path("home")), [elsewhere], "once per project");
    assert!(!env.project().join(".git/milepost").exists() && !env.path("home/.milepost").exists());
}

#[test]
fn where_the_notice_cannot_be_remembered_there_is_none() {
    let env = TestEnvironment::repository();
    let start = json!({ "session_id": "s", "cwd": env.project(), "hook_event_name": "SessionStart", "source": "startup" });
    let mut command = env.command(&["hook", "claude-code"]);
    command.env_remove("HOME").stdin(std::process::Stdio::piped());
    assert_eq!(
        crate::environment::finished(&mut command, Some(start.to_string().as_bytes())).exits(0).stdout,
        ""
    );
}

#[test]
fn a_bad_payload_is_told_in_its_own_project_alone() {
    let env = TestEnvironment::repository();
    let other = env.path("other");
    std::fs::create_dir(&other).unwrap();
    env.run(&["init"]).exits(0);
    env.run_in(&other, &["init"]).exits(0);
    env.run_on(b"{", &["hook", "codex"]).exits(0);
    let failures = |folder: &std::path::Path| {
        env.run_in(folder, &["status", "--json"]).exits(0).json()["hook_failures"].as_array().unwrap().len()
    };
    assert_eq!((failures(&env.project()), failures(&other)), (1, 0));
    let start = |folder: &std::path::Path| {
        let start = json!({ "session_id": "s", "cwd": folder, "hook_event_name": "SessionStart", "source": "startup" });
        env.run_on(start.to_string().as_bytes(), &["hook", "claude-code"]).exits(0).stdout
    };
    assert!(start(&env.project()).contains("1 hook failure"));
    assert_eq!(start(&other), "");
    assert!(!env.run_in(&other, &["doctor", "--fix"]).exits(0).stdout.contains("hook failure"));
    assert_eq!(failures(&env.project()), 1, "another project's doctor leaves it alone");
    assert!(env.run(&["doctor", "--fix"]).exits(0).stdout.contains("1 hook failure"));
    assert_eq!(failures(&env.project()), 0);
}

#[test]
fn intact_and_truncated_payloads_never_disturb_the_agent() {
    let env = TestEnvironment::repository();
    env.run(&["init"]).exits(0);
    let quiet = |agent: &str, text: &[u8]| {
        let ran = env.run_on(text, &["hook", agent]).exits(0);
        assert_eq!(ran.stderr, "");
        if !ran.stdout.is_empty() {
            assert!(ran.json().is_object());
        }
    };
    for (agent, mut payload) in recorded() {
        // The recorded folder is on another machine.
        payload["cwd"] = json!(env.project());
        payload["directory"] = json!(env.project());
        let text = payload.to_string();
        quiet(agent, text.as_bytes());
        // The unit tests truncate at every byte; a few positions are enough here.
        for at in (0..text.len()).step_by(text.len() / 3 + 1) {
            quiet(agent, &text.as_bytes()[..at]);
        }
    }
    for agent in ["claude-code", "gemini", "codex", "opencode", "another-agent"] {
        for odd in [
            "",
            "null",
            "[]",
            "3",
            "{}",
            "{\"hook_event_name\":3}",
            "\u{1f40c}",
            "{\"event\":\"x\",\"data\":[]}",
        ] {
            quiet(agent, odd.as_bytes());
        }
    }
    env.run_on(b"{", &["hook", "codex", "--strict"]).exits(2);
}

#[test]
fn a_hook_failure_is_recorded_and_reported() {
    let env = TestEnvironment::repository();
    env.run(&["init"]).exits(0);
    let payload = json!({ "session_id": "s1", "cwd": env.project(), "hook_event_name": "UserPromptSubmit", "prompt": "x" });
    let (store, sound) = (env.project().join(".git/milepost"), env.project().join(".git/sound"));
    std::fs::rename(&store, &sound).unwrap();
    std::fs::create_dir(&store).unwrap();
    env.write(".git/milepost/milepost.db", "this is no database at all, and never was one");
    std::fs::copy(sound.join("milepost.db-id"), store.join("milepost.db-id")).unwrap();
    let ran = env.run_on(payload.to_string().as_bytes(), &["hook", "claude-code"]).exits(0);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("", ""));
    std::fs::remove_dir_all(&store).unwrap();
    std::fs::rename(&sound, &store).unwrap();
    let status = env.json(&["status"]);
    assert_eq!(status["hook_failures"][0]["event"], "UserPromptSubmit");
    assert!(env.run(&["status"]).exits(0).stdout.contains("1 hook failure"));
    let start = json!({ "session_id": "s2", "cwd": env.project(), "hook_event_name": "SessionStart", "source": "startup" });
    let told = env.run_on(start.to_string().as_bytes(), &["hook", "claude-code"]).exits(0).json();
    assert!(told["systemMessage"].as_str().unwrap().contains("1 hook failure"), "{told}");
    assert!(env.run(&["doctor", "--fix"]).exits(0).stdout.contains("1 hook failure"));
    assert_eq!(env.json(&["status"])["hook_failures"], json!([]));
}

#[test]
fn manual_runs_are_offered_in_two_lines_and_a_session_killed_at_its_start_is_removed() {
    let env = TestEnvironment::repository();
    env.save(&["--run", "hand", "--summary", "by hand"]);
    env.run(&["run", "--run", "job", "--", "false"]).exits(1);
    let mut first = FakeAgent::new(&env, "claude-code");
    let offer = begins(&mut first, "s1").unwrap();
    assert!(offer.lines().count() == 3 && offer.contains("2 interrupted runs"), "{offer}");
    first.dies();
    assert_eq!(env.json(&["runs"])["runs"].as_array().unwrap().len(), 3);
    let mut second = FakeAgent::new(&env, "codex");
    let answer = second.hears("c1", "SessionStart", json!({ "source": "startup" })).unwrap();
    assert!(answer["systemMessage"].as_str().unwrap().contains("2 interrupted runs"), "{answer}");
    let runs = env.json(&["runs"])["runs"].clone();
    let runs: Vec<_> = runs.as_array().unwrap().iter().map(|run| run["run_id"].as_str().unwrap()).collect();
    assert_eq!(runs, ["codex-c1", "job", "hand"]);
}

#[test]
fn a_hook_queues_its_save_in_the_outbox_if_the_store_is_read_only() {
    let env = TestEnvironment::repository();
    env.run(&["init"]).exits(0);
    let store = env.project().join(".git/milepost");
    let locked = |mode: &str| {
        assert!(
            std::process::Command::new("chattr")
                .arg(mode)
                .arg("-R")
                .arg(&store)
                .status()
                .is_ok_and(|s| s.success())
        );
    };
    // `chattr +i` stops even root from writing. The test is skipped if it is not supported.
    let can = std::process::Command::new("chattr").arg("+i").arg(&store).stderr(Stdio::null()).status();
    if !can.is_ok_and(|status| status.success()) {
        return;
    }
    std::process::Command::new("chattr").arg("-i").arg(&store).status().unwrap();
    locked("+i");
    let payload = json!({ "session_id": "s1", "cwd": env.project(), "hook_event_name": "UserPromptSubmit", "prompt": "kept" });
    let ran = env.run_on(payload.to_string().as_bytes(), &["hook", "claude-code"]);
    locked("-i");
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (0, "", ""));
    env.run(&["list"]).exits(0);
    let messages = env.json(&["runs", "claude-code-s1"])["messages"].to_string();
    assert!(messages.contains("kept"), "{messages}");
}
