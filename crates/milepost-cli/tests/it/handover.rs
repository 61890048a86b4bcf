//! What the next session is told: realistic sessions of several agents that are killed and continued, with the
//! real binary and real git.

use serde_json::{Value, json};

use crate::TestEnvironment;
use crate::hook::{FakeAgent, begins};

fn prompts(agent: &mut FakeAgent, session: &str, text: &str) {
    agent.hears(session, "UserPromptSubmit", json!({ "prompt": text }));
}

fn runs(agent: &mut FakeAgent, session: &str, command: &str, exit: u8) {
    let input = json!({ "command": command });
    match exit {
        0 => agent.hears(
            session,
            "PostToolUse",
            json!({ "tool_name": "Bash", "tool_input": input, "tool_response": { "stdout": "ok", "stderr": "" } }),
        ),
        _ => agent.hears(
            session,
            "PostToolUseFailure",
            json!({ "tool_name": "Bash", "tool_input": input, "error": format!("Exit code {exit}\nit broke") }),
        ),
    };
}

fn writes(env: &TestEnvironment, agent: &mut FakeAgent, session: &str, file: &str) {
    std::fs::create_dir_all(env.project().join(file).parent().unwrap()).unwrap();
    env.write(file, "content\n");
    let input = json!({ "file_path": env.project().join(file), "content": "content\n" });
    agent.hears(
        session,
        "PostToolUse",
        json!({ "tool_name": "Write", "tool_input": input, "tool_response": {} }),
    );
}

/// Creates a project, in which `work` happens in a session `s1` that is then killed. Returns what `s2` is told.
fn after(work: impl FnOnce(&TestEnvironment, &mut FakeAgent)) -> (TestEnvironment, String) {
    let env = TestEnvironment::repository();
    env.run(&["init"]).exits(0);
    let mut first = FakeAgent::new(&env, "claude-code");
    begins(&mut first, "s1");
    work(&env, &mut first);
    first.dies();
    let mut second = FakeAgent::new(&env, "claude-code");
    let told = begins(&mut second, "s2").unwrap();
    second.dies();
    (env, told)
}

fn section<'t>(text: &'t str, name: &str) -> &'t str {
    let rest = text.split(&format!("# {name}\n")).nth(1).unwrap_or_else(|| panic!("{name} in {text}"));
    rest.split("\n#").next().unwrap()
}

#[test]
fn everything_the_user_said_reaches_the_next_session_and_the_one_after() {
    let said = [
        "Write the exporter for invoices.",
        "Never touch the billing folder",
        "Use postgres 16 only",
        "the tests may be slow,\nthat is fine for now",
        "Don't touch the sync client",
        "now the docs",
    ];
    let (env, told) = after(|_, agent| said.iter().for_each(|text| prompts(agent, "s1", text)));
    let mut third = FakeAgent::new(&env, "gemini");
    let later = begins(&mut third, "g1").unwrap();
    for text in [&told, &later] {
        let intent = section(text, "Session Intent");
        let mut at = 0;
        for line in said.iter().flat_map(|text| text.lines()) {
            let found = intent.find(line).unwrap_or_else(|| panic!("{line} in {text}"));
            assert!(found >= at, "in order: {intent}");
            at = found;
        }
        assert!(intent.contains("Later statements override earlier ones"), "{intent}");
    }
}

#[test]
fn the_last_message_plans_and_answers_of_claude_code_arrive() {
    let (_, told) = after(|_, agent| {
        prompts(agent, "s1", "plan the import");
        let plan = json!({ "plan": "# Import\n1. Read with the csv crate" });
        agent.hears(
            "s1",
            "PostToolUse",
            json!({ "tool_name": "ExitPlanMode", "tool_input": plan, "tool_response": plan }),
        );
        let answers = json!({ "answers": { "Which encoding?": "UTF-8 only" } });
        agent.hears(
            "s1",
            "PostToolUse",
            json!({ "tool_name": "AskUserQuestion", "tool_input": answers, "tool_response": answers }),
        );
        agent.hears("s1", "Stop", json!({ "last_assistant_message": "Rows are read.\nDates are next." }));
    });
    let decisions = section(&told, "Decisions");
    assert!(decisions.contains("Plan that the user approved"), "{told}");
    assert!(decisions.contains("> 1. Read with the csv crate"), "{told}");
    assert!(decisions.contains("Which encoding? → UTF-8 only (the user answered"), "{told}");
    let state = section(&told, "Current State");
    assert!(state.contains("The agent's last message"), "{told}");
    assert!(state.contains("> Rows are read.\n  > Dates are next."), "{told}");
}

#[test]
fn plans_and_answers_of_the_other_agents_arrive() {
    let env = TestEnvironment::repository();
    env.run(&["init"]).exits(0);
    let plan = env.path("home/.gemini/plans/import.md");
    std::fs::create_dir_all(plan.parent().unwrap()).unwrap();
    #[allow(clippy::disallowed_methods, reason = "a test's own file")]
    std::fs::write(&plan, "1. Stream the rows\n").unwrap();
    let mut gemini = FakeAgent::new(&env, "gemini");
    begins(&mut gemini, "g1");
    gemini.hears("g1", "BeforeAgent", json!({ "prompt": "plan it" }));
    let approved = format!("Plan approved: {}", plan.display());
    gemini.hears(
        "g1",
        "AfterTool",
        json!({ "tool_name": "exit_plan_mode", "tool_input": { "plan_filename": "import.md" },
            "tool_response": { "llmContent": "Plan approved.", "returnDisplay": approved } }),
    );
    let questions =
        json!({ "questions": [{ "question": "Which port?", "header": "Port", "type": "choice" }] });
    gemini.hears(
        "g1",
        "AfterTool",
        json!({ "tool_name": "ask_user", "tool_input": questions,
            "tool_response": { "llmContent": "{\"answers\":{\"0\":\"8080\"}}" } }),
    );
    gemini.hears("g1", "AfterAgent", json!({ "prompt": "plan it", "prompt_response": "Planned." }));
    gemini.dies();

    let rollout = env.path("home/rollout.jsonl");
    let message = json!({ "type": "response_item", "payload": { "type": "message", "role": "assistant",
        "content": [{ "type": "output_text", "text": "Here:\n<proposed_plan>\n2. Batch the writes\n</proposed_plan>" }] } });
    #[allow(clippy::disallowed_methods, reason = "a test's own file")]
    std::fs::write(&rollout, format!("{message}\n")).unwrap();
    let mut codex = FakeAgent::new(&env, "codex");
    let told = begins(&mut codex, "c1").unwrap();
    assert!(told.contains("> 1. Stream the rows") || told.contains("1. Stream the rows"), "{told}");
    assert!(told.contains("Which port? → 8080"), "{told}");
    assert!(told.contains("Planned."), "{told}");
    codex.hears("c1", "UserPromptSubmit", json!({ "prompt": "plan the writes" }));
    codex.hears("c1", "Stop", json!({ "last_assistant_message": null, "transcript_path": rollout }));
    codex.hears("c1", "UserPromptSubmit", json!({ "prompt": "Implement the plan." }));
    let input = json!({ "questions": [{ "id": "size", "header": "Size", "question": "Which batch size?" }] });
    codex.hears(
        "c1",
        "PostToolUse",
        json!({ "tool_name": "request_user_input", "tool_input": input,
            "tool_response": "{\"answers\":{\"size\":{\"answers\":[\"500 rows\"]}}}" }),
    );
    codex.dies();
    let mut last = FakeAgent::new(&env, "claude-code");
    let told = begins(&mut last, "s9").unwrap();
    assert!(told.contains("2. Batch the writes"), "{told}");
    assert!(told.contains("Which batch size? → 500 rows"), "{told}");
}

#[test]
fn failures_of_all_sessions_stay_until_they_are_fixed() {
    let (env, told) = after(|_, agent| {
        prompts(agent, "s1", "make the tests pass");
        runs(agent, "s1", "pytest test_3", 1);
        runs(agent, "s1", "pytest test_1", 1);
        runs(agent, "s1", "grep -r nothing src", 1);
        runs(agent, "s1", "cd . && pytest test_1 2>&1 | tail", 0);
    });
    let next = section(&told, "Next Actions");
    assert!(
        next.contains("`pytest test_3` failed 20") && next.contains("(exit_1), not seen to pass since"),
        "{told}"
    );
    assert!(next.contains("output: \"Exit code 1 it broke\""), "{told}");
    assert!(!next.contains("test_1") && !next.contains("grep"), "{told}");
    assert!(!told.contains("FAIL"), "{told}");
    let mut third = FakeAgent::new(&env, "claude-code");
    begins(&mut third, "s3");
    prompts(&mut third, "s3", "go on");
    runs(&mut third, "s3", "npm run lint", 2);
    third.dies();
    let mut fourth = FakeAgent::new(&env, "claude-code");
    let told = begins(&mut fourth, "s4").unwrap();
    let next = section(&told, "Next Actions").to_owned();
    assert!(next.contains("pytest test_3") && next.contains("npm run lint"), "{told}");
    runs(&mut fourth, "s4", "pytest", 0);
    runs(&mut fourth, "s4", "npm run lint", 0);
    fourth.dies();
    let mut fifth = FakeAgent::new(&env, "claude-code");
    let told = begins(&mut fifth, "s5").unwrap();
    assert!(!told.contains("not seen to pass"), "{told}");
}

#[test]
fn a_crashed_job_is_offered_before_a_note() {
    let env = TestEnvironment::repository();
    env.run(&["init"]).exits(0);
    let mut agent = FakeAgent::new(&env, "claude-code");
    begins(&mut agent, "job");
    prompts(&mut agent, "job", "do the job");
    agent.dies();
    env.save(&["--run", "note", "--summary", "remember the milk"]);
    let offered = env.json(&["resume"])["decision"]["run_id"].clone();
    let offered = if offered.is_null() { env.json(&["resume"])["about"]["run_id"].clone() } else { offered };
    assert_eq!(offered, "claude-code-job");
    let status = env.json(&["status"]);
    assert_eq!(status["stopped"][0]["run_id"], "claude-code-job");
    assert_eq!(status["next"], "milepost resume");
}

#[test]
fn a_branch_that_the_session_created_is_its_own() {
    let (_, told) = after(|env, agent| {
        prompts(agent, "s1", "use a branch of your own");
        env.git(&["checkout", "-q", "-b", "fix/parser"]);
        runs(agent, "s1", "git checkout -b fix/parser", 0);
    });
    assert!(told.contains("use a branch of your own"), "the brief, not a pointer: {told}");
}

#[test]
fn commits_renames_and_deletions_arrive_after_several_handovers() {
    let (env, _) = after(|env, agent| {
        prompts(agent, "s1", "clean up");
        for file in ["src/keep.rs", "src/old.rs", "src/gone.rs"] {
            writes(env, agent, "s1", file);
        }
        for (key, value) in [("user.name", "t"), ("user.email", "t@t")] {
            env.git(&["config", key, value]);
        }
        env.git(&["add", "."]);
        env.git(&["commit", "-q", "-m", "Add three files"]);
        runs(agent, "s1", "git commit -m 'Add three files'", 0);
        env.git(&["mv", "src/old.rs", "src/new.rs"]);
        env.git(&["rm", "-q", "src/gone.rs"]);
        env.git(&["commit", "-q", "-m", "Rename and delete"]);
        runs(agent, "s1", "git commit -m 'Rename and delete'", 0);
    });
    let mut third = FakeAgent::new(&env, "claude-code");
    begins(&mut third, "s3");
    prompts(&mut third, "s3", "go on");
    third.dies();
    let mut fourth = FakeAgent::new(&env, "claude-code");
    let told = begins(&mut fourth, "s4").unwrap();
    assert!(told.contains("Add three files") && told.contains("Rename and delete"), "{told}");
    for expected in ["| `src/keep.rs` | created |", "| `src/new.rs` |", "| `src/old.rs` | deleted |"] {
        assert!(told.contains(expected), "{expected} in {told}");
    }
    assert!(told.contains("| `src/gone.rs` | deleted |"), "{told}");
}

#[test]
fn a_brief_has_no_filler() {
    let env = TestEnvironment::new();
    env.run(&["init"]).exits(0);
    let mut agent = FakeAgent::new(&env, "claude-code");
    begins(&mut agent, "s1");
    prompts(&mut agent, "s1", "first line\n  - a list\n  - of things");
    agent.hears("s1", "PreCompact", json!({ "trigger": "manual" }));
    agent.dies();
    env.run_on(b"{\"step\": 3}", &["save", "--run", "claude-code-s1", "--state", "-"]);
    let mut second = FakeAgent::new(&env, "claude-code");
    let told = begins(&mut second, "s2").unwrap();
    for filler in
        ["not a git repository", "Uncommitted files: 0", "Unknown:", "Blocked: None", "milepost.toml"]
    {
        assert!(!told.contains(filler), "{filler} in {told}");
    }
    assert!(told.contains("> first line\n  >   - a list\n  >   - of things"), "{told}");
    assert_eq!(told.matches("- a list").count(), 1, "{told}");
    for name in
        ["Problem", "Session Intent", "Decisions", "Technical Context", "Play-By-Play", "Artifact Trail"]
    {
        section(&told, name);
    }
}

#[test]
fn resume_with_an_agent_gives_the_same_text_as_its_hook() {
    let env = TestEnvironment::repository();
    env.run(&["init"]).exits(0);
    let mut first = FakeAgent::new(&env, "claude-code");
    begins(&mut first, "s1");
    prompts(&mut first, "s1", "Never touch the billing folder");
    runs(&mut first, "s1", "make check", 2);
    first.dies();
    let bin = env.path("bin");
    std::fs::create_dir_all(&bin).unwrap();
    let program = bin.join("claude");
    #[allow(clippy::disallowed_methods, reason = "a test's own file")]
    std::fs::write(&program, "#!/bin/sh\nprintf '%s' \"$1\"\n").unwrap();
    let mut mode = std::fs::metadata(&program).unwrap().permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut mode, 0o755);
    std::fs::set_permissions(&program, mode).unwrap();
    let path = format!("{}:/usr/bin:/bin", bin.display());
    let started = env.run_with(&[("PATH", &path)], &["resume", "--with", "claude-code"]).exits(0).stdout;
    let mut second = FakeAgent::new(&env, "claude-code");
    let told = begins(&mut second, "s2").unwrap();
    // Markers are random, and the times in the first line depend on the moment.
    let plain = |text: &str| -> Vec<String> {
        let lines = text.lines().skip(1).filter(|line| !line.contains("milepost-record"));
        lines.map(str::to_owned).collect()
    };
    assert_eq!(plain(&started), plain(&told));
    assert!(started.contains("This is a record of earlier work"), "{started}");
}

#[test]
fn a_session_that_ended_with_everything_done_is_not_offered() {
    let env = TestEnvironment::repository();
    env.run(&["init"]).exits(0);
    let status = |env: &TestEnvironment, name: &str| -> Value {
        env.json(&["runs", name])["runs"][0]["status"].clone()
    };
    let mut agent = FakeAgent::new(&env, "claude-code");
    for (session, reply, expected) in [
        ("done", "All tests pass.", "completed"),
        ("asks", "Shall I also update the docs?", "paused"),
        ("left", "The parser works. Remaining: error messages.", "paused"),
    ] {
        agent.hears(session, "SessionStart", json!({ "source": "startup" }));
        prompts(&mut agent, session, "do it");
        agent.hears(session, "Stop", json!({ "last_assistant_message": reply }));
        agent.hears(session, "SessionEnd", json!({ "reason": "prompt_input_exit" }));
        assert_eq!(status(&env, &format!("claude-code-{session}")), expected, "{reply}");
    }
}
