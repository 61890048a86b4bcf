//! `step`, `criterion`, `record`, `note`, `decide`, `context`: recorded immediately and included
//! in the next checkpoint.

use serde_json::json;

use crate::TestEnvironment;

#[test]
fn every_step_change_saves_a_checkpoint() {
    let env = TestEnvironment::new();
    let args = ["step", "begin", "parse", "--plan", "plan.md", "--ordinal", "3", "--title", "Parse it"];
    let begun = env.json(&[&args[..], &["--run", "r"]].concat());
    assert_eq!(begun["schema"], "milepost.step/1");
    assert_eq!((&begun["sequence"], &begun["source"]), (&json!(1), &json!("step_boundary")));
    assert_eq!((&begun["step_id"], &begun["step_status"]), (&json!("parse"), &json!("in_progress")));
    for (word, status) in [("done", "done"), ("fail", "failed"), ("skip", "skipped")] {
        env.run(&["step", "begin", word]).exits(0);
        let id = env.run(&["step", word, word]).exits(0).line().to_owned();
        let body = &env.json(&["show", &id])["checkpoint"];
        assert_eq!(body["step_state"]["step_status"], status);
        assert_eq!(body["step_state"]["plan_path"], "plan.md");
        assert_eq!(body["status"], "in_progress");
    }
    assert!(env.run(&["show", "r@1"]).exits(0).stdout.contains("3. parse Parse it (in_progress)"));
    // The step that began first is still in progress.
    env.run(&["step", "done", "parse"]).exits(0);
}

#[test]
fn a_step_that_never_began_cannot_end() {
    let env = TestEnvironment::new();
    assert_eq!(env.run(&["step", "done", "x", "--json"]).exits(10).reason(), "store_missing");
    assert!(!env.project().join(".milepost").exists());
    env.save(&["--run", "r"]);
    for word in ["done", "fail"] {
        let ran = env.run(&["step", word, "x", "--json"]).exits(2);
        assert_eq!(ran.reason(), "checkpoint_schema_invalid");
        assert!(ran.stderr.contains("no step is in progress"), "{ran:#?}");
        assert_eq!(
            env.run(&["step", word, "x", "--run", "new", "--json"]).exits(14).reason(),
            "run_not_found"
        );
    }
    env.run(&["step", "begin", "a"]).exits(0);
    env.run(&["step", "begin", "b"]).exits(0);
    let ran = env.run(&["step", "done", "x"]).exits(2);
    insta::assert_snapshot!(ran.stderr, @r#"
    Error: step "x" has not begun: in progress: a, b (checkpoint_schema_invalid)
    Hint: run `milepost step begin ID` to begin it, or `milepost step skip ID` to skip it
    "#);
    assert_eq!(env.json(&["runs"])["runs"].as_array().unwrap().len(), 1);
    assert_eq!(env.json(&["list"])["checkpoints"].as_array().unwrap().len(), 3);
}

#[test]
fn wrong_values_are_refused_with_the_allowed_ones() {
    let env = TestEnvironment::new();
    let cases: [(&[&str], &str); 9] = [
        (&["step", "banana", "x"], "begin, done, fail, skip"),
        (&["step", "begin", "x", "--ordinal", "-1"], "0 or more"),
        (&["task", "set", "x", "banana"], "pending, in_progress, done"),
        (&["task", "is", "x", "banana"], "pending, in_progress, done"),
        (&["criterion", "set", "x", "done"], "pending, in_progress, completed"),
        (&["context", "set", "--pressure", "huge"], "low, medium, high"),
        (&["context", "set", "--dropped", "-1"], "0 or more"),
        (
            &["record", "--kind", "x", "--name", "n", "--result", "PASS", "--duration-ms", "1"],
            "shell, slash_command, tool_use",
        ),
        (
            &["record", "--kind", "shell", "--name", "n", "--result", "ok", "--duration-ms", "1"],
            "PASS, FAIL, WARN",
        ),
    ];
    for (args, allowed) in cases {
        let ran = env.run(&[args, &["--json"]].concat()).exits(2);
        assert_eq!(ran.reason(), "checkpoint_schema_invalid", "{args:?}");
        assert!(ran.stderr.contains(allowed), "{args:?}: {ran:#?}");
    }
    for args in [&["context", "set"][..], &["record", "--kind", "shell"], &["task", "run", "x"], &["run"]] {
        assert_eq!(env.run(&[args, &["--json"]].concat()).exits(2).reason(), "usage", "{args:?}");
    }
    assert!(!env.project().join(".milepost").exists(), "something was written");
}

#[test]
fn items_are_in_the_run_immediately_and_in_the_next_checkpoint() {
    let env = TestEnvironment::new();
    let r = ["--run", "r"];
    let say = |args: &[&str]| {
        let ran = env.run(&[args, &r].concat()).exits(0);
        assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("", ""), "{args:?}");
    };
    say(&["note", "- a line"]);
    say(&["decide", "SQLite"]);
    say(&["decide", "files", "--supersedes", "SQLite"]);
    say(&["criterion", "set", "c", "pending", "--subject", "it holds"]);
    say(&["criterion", "set", "c", "completed"]);
    say(&["context", "set", "--pressure", "high", "--dropped", "3", "--protect", "a", "--policy", "p"]);
    say(&["context", "set", "--protect", "b"]);
    let outcome =
        ["record", "--kind", "tool_use", "--name", "edit", "--result", "WARN", "--duration-ms", "12"];
    say(&[&outcome[..], &["--summary", "2 hunks", "--reason-code", "fuzz"]].concat());
    let ran = env.run(&["decide", "x", "--supersedes", "nothing", "--run", "r"]).exits(0);
    assert!(ran.stderr.contains("nothing"), "{ran:#?}");
    let run = env.json(&["runs", "r"]);
    assert_eq!(run["runs"][0]["checkpoints"], 0);
    assert_eq!(run["log"][0]["text"], "- a line");
    assert_eq!(run["criteria"], json!([{"id": "c", "status": "completed", "subject": "it holds"}]));
    assert_eq!(run["decisions"][1]["supersedes"], "SQLite");
    assert_eq!(run["outcomes"][0]["name"], "edit");
    let page = env.run(&["runs", "r"]).exits(0).stdout;
    for line in
        ["[x] c it holds", "files (replaces: SQLite)", "WARN tool_use edit (12 ms): 2 hunks", "- a line"]
    {
        assert!(page.contains(line), "{line}: {page}");
    }
    env.save(&["--run", "r"]);
    let body = &env.json(&["show"])["checkpoint"];
    assert_eq!(body["decisions"], run["decisions"]);
    assert_eq!(body["command_outcomes"], run["outcomes"]);
    let digest = json!({"dropped_items": 3, "policy_profile": "p", "protected_artifacts": ["a", "b"], "window_pressure": "high"});
    assert_eq!(body["context_digest"], digest);
    let document = env.json(&["note", "more", "--run", "r"]);
    assert_eq!((&document["schema"], &document["run_id"]), (&json!("milepost.note/1"), &json!("r")));
    assert!(document["snapshot_id"].is_null());
}

#[test]
fn values_that_no_run_accepts_are_usage_errors() {
    let mut env = TestEnvironment::new();
    env.save(&["--run", "r"]);
    let (long, huge) = ("i".repeat(257), "x".repeat(300_000 / 4));
    let cases: [&[&str]; 6] = [
        &["note", " "],
        &["decide", ""],
        &["task", "set", "", "done"],
        &["task", "set", &long, "done"],
        &["criterion", "set", "", "pending"],
        &["step", "begin", ""],
    ];
    for args in cases {
        let ran = env.run(&[args, &["--json"]].concat()).exits(2);
        assert_eq!(ran.reason(), "checkpoint_schema_invalid", "{args:?}");
        assert!(!ran.stderr.contains("[limits]"), "no setting allows it: {ran:#?}");
    }
    env.trust_project();
    env.write("milepost.toml", "[limits]\nfield = \"1KiB\"\n");
    let ran = env.run(&["note", &huge]).exits(2);
    assert!(ran.stderr.contains("[limits]"), "a setting allows it: {ran:#?}");
    let ran = env.run(&["record", "--json"]).exits(2);
    assert!(ran.stderr.contains("--duration-ms"), "the missing flag is named: {ran:#?}");
    assert_eq!(env.json(&["runs", "r"])["runs"][0]["checkpoints"], 1);
}

#[test]
fn criterion_set_returns_the_whole_criterion() {
    let env = TestEnvironment::new();
    env.json(&["criterion", "set", "c", "pending", "--subject", "all pass", "--run", "r"]);
    let answer = env.json(&["criterion", "set", "c", "completed"]);
    assert_eq!(answer["criterion"], json!({ "id": "c", "status": "completed", "subject": "all pass" }));
}

#[test]
fn a_summary_that_is_too_long_is_refused_and_does_not_stop_a_save() {
    let env = TestEnvironment::new();
    env.save(&["--run", "r"]);
    let long = "x".repeat(2049);
    let args = [
        "record",
        "--kind",
        "shell",
        "--name",
        "n",
        "--result",
        "PASS",
        "--duration-ms",
        "1",
        "--summary",
        &long,
    ];
    let refused = env.run(&[&args[..], &["--json"]].concat()).exits(2);
    assert_eq!(refused.reason(), "checkpoint_schema_invalid");
    assert!(!refused.stderr.contains("[limits]"), "no setting raises this limit: {refused:#?}");
    assert_eq!(env.json(&["save", "--summary", "goes on"])["sequence"], 2);
}

#[test]
fn record_runs_a_command_and_keeps_the_end_of_its_output() {
    let env = TestEnvironment::new();
    let script = "i=0; while [ $i -lt 5000 ]; do echo \"line $i\"; i=$((i+1)); done; echo bad >&2; exit 3";
    let ran = env.run(&["record", "--run", "r", "--", "sh", "-c", script]).exits(3);
    assert_eq!(ran.stdout.lines().count(), 5000, "all output is passed on");
    assert_eq!(ran.stderr, "bad\n");
    let outcome = &env.json(&["runs", "r"])["outcomes"][0];
    assert_eq!(
        (&outcome["result"], &outcome["kind"], &outcome["reason_code"]),
        (&json!("FAIL"), &json!("shell"), &json!("exit_3"))
    );
    let summary = outcome["summary"].as_str().unwrap();
    assert!(
        summary.contains("line 4999") && summary.len() <= 1000 && summary.lines().count() <= 10,
        "{summary}"
    );
    assert!(outcome["duration_ms"].is_u64());
    let ran = env.run(&["record", "--run", "r", "--name", "quiet", "--json", "--", "true"]).exits(0);
    assert_eq!(ran.stdout, "", "stdout belongs to the command");
    let line: serde_json::Value = serde_json::from_str(ran.stderr.trim()).unwrap();
    assert_eq!((&line["outcome"]["result"], &line["outcome"]["name"]), (&json!("PASS"), &json!("quiet")));
    env.run(&["record", "--", "no-such-program"]).exits(127);
    env.run(&["record", "--", "/etc/passwd"]).exits(126);
    // A background process of the command is not waited for.
    let start = std::time::Instant::now();
    env.command(&["record", "--run", "r", "--", "sh", "-c", "sleep 20 & echo started"])
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .status()
        .unwrap();
    assert!(start.elapsed().as_secs() < 15);
}
