//! One view of a run in every command: after a session was killed, all commands name the same failed
//! command, files and to-dos, although no checkpoint contains them.

use serde_json::{Value, json};

use crate::TestEnvironment;
use crate::hook::{FakeAgent, a_session_is_killed, begins};

const RUN: &str = "claude-code-s1";

/// The names of outcomes.
fn names(outcomes: &Value) -> Vec<&str> {
    outcomes.as_array().unwrap().iter().map(|outcome| outcome["name"].as_str().unwrap()).collect()
}

/// The open to-dos among tasks.
fn open_titles(tasks: &Value) -> Vec<&str> {
    let open = tasks.as_array().unwrap().iter().filter(|task| task["status"] != "completed");
    open.map(|task| task["title"].as_str().unwrap()).collect()
}

/// Runs a command and checks that its text contains all words.
#[track_caller]
fn shows(env: &TestEnvironment, args: &[&str], words: &[&str]) -> String {
    let text = env.run(args).exits(0).stdout;
    for word in words {
        assert!(text.contains(word), "{word} in the output of {args:?}: {text}");
    }
    text
}

#[test]
fn all_commands_agree_about_a_killed_session() {
    let env = TestEnvironment::repository();
    a_session_is_killed(&env);
    let open = ["make the tests pass", "document it"];
    let failed = ["cargo test parser"];

    let run = env.json(&["runs", RUN]);
    assert_eq!(names(&run["failures"]), failed);
    assert_eq!(open_titles(&run["tasks"]), open);

    let resumed = env.json(&["resume"]);
    assert_eq!(resumed["decision"]["next_actions"], json!(open));
    assert!(resumed["about"]["failed"].as_str().unwrap().starts_with(failed[0]), "{resumed}");

    let summary = env.json(&["summary", RUN]);
    assert_eq!(
        (&summary["total"], &summary["files_modified"]),
        (&json!(1), &json!(["milepost.toml", "parser.rs"]))
    );
    assert_eq!(names(&summary["unfixed"]), failed);
    assert_eq!(names(&summary["failed"]), failed);
    assert_eq!((&summary["failed"][0]["number"], &summary["failed"][0]["fixed"]), (&json!(0), &json!(false)));
    assert_eq!(open_titles(&summary["tasks"]), open);
    let pending = &summary["pending"];
    assert_eq!(
        (&pending["outcomes"], &pending["failed"], &pending["files"], &pending["tasks"]),
        (&json!(3), &json!(1), &json!(1), &json!(3)),
        "{pending}"
    );

    let shown = env.json(&["show", RUN]);
    assert_eq!(names(&shown["unfixed"]), failed);
    assert_eq!(names(&shown["since"]["outcomes"]).last(), Some(&failed[0]));
    assert_eq!(shown["since"]["files"][0]["path"], "parser.rs");
    assert_eq!(open_titles(&shown["since"]["tasks"]), open);
    assert_eq!(shown["messages"][0]["text"], "write the parser and make its tests pass");

    let list = env.json(&["list"]);
    let status = env.json(&["status"]);
    assert_eq!(list["checkpoints"][0]["task_summary"], status["stopped"][0]["about"]);

    let words = [failed[0], open[0], open[1], "parser.rs"];
    shows(&env, &["runs", RUN], &words);
    shows(&env, &["resume"], &words);
    let text = shows(&env, &["summary"], &words);
    assert!(text.contains("changes since the newest checkpoint: 3 outcomes, 1 file, 3 tasks"), "{text}");
    assert!(text.contains("2 files touched") && text.contains("after @1, not seen to pass since"), "{text}");
    let text = shows(&env, &["show"], &words);
    assert!(text.contains("Since this checkpoint\n  tasks\n"), "{text}");
    assert!(text.contains("user: write the parser"), "{text}");
    shows(&env, &["list"], &["session_start", "write the parser"]);
    shows(&env, &["status"], &["write the parser"]);
}

#[test]
fn show_and_summary_fit_the_terminal() {
    let env = TestEnvironment::repository();
    a_session_is_killed(&env);
    for (columns, args) in [("80", ["show", RUN]), ("80", ["summary", RUN]), ("60", ["summary", RUN])] {
        let ran = env.run_with(&[("COLUMNS", columns)], &args).exits(0);
        let widest = ran.stdout.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(widest <= columns.parse().unwrap(), "{args:?} at {columns}: {}", ran.stdout);
    }
}

#[test]
fn a_failure_that_passed_later_is_marked_so() {
    let env = TestEnvironment::repository();
    env.run(&["init"]).exits(0);
    let mut agent = FakeAgent::new(&env, "claude-code");
    begins(&mut agent, "s1");
    agent.works("s1");
    agent.hears("s1", "PreCompact", json!({ "trigger": "auto" }));
    let summary = env.json(&["summary", RUN]);
    assert_eq!((&summary["failed"][0]["number"], &summary["failed"][0]["fixed"]), (&json!(2), &json!(false)));
    assert_eq!(summary["pending"]["changes"], 0);
    let shown = env.json(&["show", RUN]);
    assert!(shown["since"].is_null() && names(&shown["unfixed"]) == ["cargo test parser"], "{shown}");
    let bash = |command: &str, response: &str| json!({ "tool_name": "Bash", "tool_input": { "command": command }, "tool_response": response });
    agent.hears("s1", "PostToolUse", bash("cargo test", "ok"));
    agent.hears("s1", "PostToolUse", bash("grep -r todo src", "Error: Exit code 1"));
    agent.dies();
    let summary = env.json(&["summary", RUN]);
    assert_eq!(summary["failed"][0]["fixed"], true);
    assert!(summary["failed"][1]["fixed"].is_null(), "an answer is no failure: {summary}");
    assert_eq!(summary["unfixed"], json!([]));
    assert!(env.json(&["resume"])["about"]["failed"].is_null());
    shows(&env, &["summary"], &["in @2, passed later"]);
    // An older checkpoint does not say what happened after it.
    let older = env.json(&["show", &format!("{RUN}@1")]);
    assert!(older["since"].is_null() && older["unfixed"].is_null(), "{older}");
}

#[test]
fn a_run_that_continues_another_names_its_failures() {
    let env = TestEnvironment::repository();
    a_session_is_killed(&env);
    let mut next = FakeAgent::new(&env, "claude-code");
    begins(&mut next, "s2");
    next.hears("s2", "UserPromptSubmit", json!({ "prompt": "go on" }));
    next.dies();
    let summary = env.json(&["summary", "claude-code-s2"]);
    assert_eq!(names(&summary["unfixed"]), ["cargo test parser"]);
    assert_eq!(summary["failed"], json!([]));
    shows(
        &env,
        &["summary", "claude-code-s2"],
        &["cargo test parser (exit_101), 5s, not seen to pass since"],
    );
    let said = env.json(&["show", "claude-code-s2"])["messages"].as_array().unwrap().len();
    assert_eq!(said, 2, "the messages of both runs");
}

#[test]
fn the_newest_checkpoint_without_a_summary_says_what_its_run_is_about() {
    let env = TestEnvironment::repository();
    env.run(&["run", "--run", "build", "--", "true"]).exits(0);
    env.run(&["start", "--run", "docs", "--title", "Write the docs"]).exits(0);
    env.save(&["--run", "docs"]);
    env.save(&["--run", "docs", "--tag", "a"]);
    let list = env.json(&["list"]);
    let rows: Vec<_> = list["checkpoints"].as_array().unwrap().iter().collect();
    let about = |run: &str| -> Vec<&Value> {
        rows.iter().filter(|row| row["run_id"] == run).map(|row| &row["about"]).collect()
    };
    assert_eq!(about("docs"), [&json!("Write the docs")], "a save without a change is coalesced");
    assert_eq!(about("build"), [&json!("true"), &Value::Null]);
    assert_eq!(env.json(&["status"])["open"][0]["about"], "Write the docs");
    shows(&env, &["list"], &["Write the docs", "child_exit", "session_start"]);
}

/// Runs a command on a terminal of its own, and returns what it prints.
fn on_terminal(env: &TestEnvironment, args: &[&str]) -> String {
    let source = "import pty, sys; pty.spawn(sys.argv[1:])";
    let mut command = env.program("python3");
    command.args(["-c", source, env!("CARGO_BIN_EXE_milepost")]).args(args);
    command.env("COLUMNS", "200").env("NO_COLOR", "1");
    String::from_utf8(command.output().unwrap().stdout).unwrap()
}

#[test]
fn resume_names_the_agents_own_command_and_its_transcript() {
    let env = TestEnvironment::repository();
    env.run(&["init"]).exits(0);
    let transcript = env.write("../s1.jsonl", "{}\n").canonicalize().unwrap();
    let mut agent = FakeAgent::new(&env, "claude-code");
    agent.hears("s1", "SessionStart", json!({ "source": "startup", "transcript_path": transcript }));
    agent.works("s1");
    agent.dies();
    let about = env.json(&["resume"])["about"].clone();
    assert_eq!(about["agent_resume"], "claude --resume s1");
    assert_eq!(about["transcript"], json!(transcript));
    let page = on_terminal(&env, &["resume"]);
    assert!(page.contains("claude --resume s1"), "{page}");
    assert!(page.contains(&*transcript.to_string_lossy()), "{page}");
    std::fs::remove_file(&transcript).unwrap();
    let about = env.json(&["resume"])["about"].clone();
    assert!(about["transcript"].is_null(), "the file is gone: {about}");
}

#[test]
fn only_a_plain_session_of_the_agent_is_resumed_by_its_own_command() {
    let env = TestEnvironment::repository();
    env.run(&["init"]).exits(0);
    let mut agent = FakeAgent::new(&env, "claude-code");
    begins(&mut agent, "x; rm -rf y");
    agent.works("x; rm -rf y");
    agent.dies();
    assert!(env.json(&["resume"])["about"]["agent_resume"].is_null());
    env.save(&["--run", "by-hand", "--summary", "half"]);
    assert!(env.json(&["resume", "by-hand"])["about"]["agent_resume"].is_null());
}

#[test]
fn resume_says_why_a_run_by_hand_or_a_completed_one_is_there() {
    let env = TestEnvironment::new();
    env.save(&["--run", "by-hand", "--summary", "half"]);
    shows(&env, &["resume", "--check", "by-hand"], &["it was saved by hand and not ended"]);
    env.save(&["--run", "break", "--summary", "half", "--status", "paused"]);
    shows(&env, &["resume", "--check", "break"], &["it was paused"]);
    env.save(&["--run", "done", "--summary", "all", "--status", "completed"]);
    let refused = env.run(&["resume", "--check", "done"]).exits(4).stdout;
    assert!(
        refused.contains("there is no unfinished work to continue (resume_missing_checkpoint)"),
        "{refused}"
    );
}
