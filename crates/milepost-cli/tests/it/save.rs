//! `save`, `start`, `finish`: what they write and print.

use crate::TestEnvironment;

#[test]
fn the_first_save_creates_the_store_and_prints_the_id() {
    let env = TestEnvironment::new();
    let ran = env.run(&["save", "--summary", "hello"]).exits(0);
    assert!(ran.line().starts_with("cp_") && ran.stdout.lines().count() == 1, "{ran:#?}");
    assert_eq!(ran.stderr, "");
    let shown = env.json(&["show", "latest"]);
    assert_eq!(shown["schema"], "milepost.show/1");
    assert_eq!(shown["checkpoint"]["snapshot_id"], ran.line());
    assert_eq!(shown["checkpoint"]["task_summary"], "hello");
    assert_eq!(shown["checkpoint"]["session_id"], "unknown");
}

#[test]
fn dash_c_sets_the_folder_before_or_after_the_command() {
    let env = TestEnvironment::new();
    let project = env.project();
    let dir = project.to_str().unwrap();
    env.run_in(&env.path("home"), &["-C", dir, "save", "--summary", "a"]).exits(0);
    let list = env.run_in(&env.path("home"), &["list", "-C", dir, "--json"]).exits(0).json();
    assert_eq!(list["checkpoints"].as_array().unwrap().len(), 1);
    env.run(&["-C", "nowhere", "save"]).exits(2);
}

#[test]
fn save_prints_a_json_document() {
    let env = TestEnvironment::new();
    let saved = env.json(&["save", "--run", "r", "--source", "error_boundary", "--status", "failed"]);
    assert_eq!(saved["schema"], "milepost.save/1");
    assert_eq!(saved["run_id"], "r");
    assert_eq!(saved["sequence"], 1);
    assert_eq!(saved["coalesced"], false);
    assert_eq!(saved["source"], "error_boundary");
    assert_eq!(saved["status"], "failed");
    assert!(saved["file"].is_null() && saved["snapshot_id"].is_string());
    assert_eq!(saved["pruned"], serde_json::json!([]));
}

#[test]
fn two_quick_saves_coalesce_into_one_checkpoint_with_both_sources() {
    let env = TestEnvironment::new();
    let first =
        env.save(&["--run", "r", "--source", "step_boundary", "--summary", "s", "--reason", "task_done"]);
    let second = env.json(&["save", "--run", "r", "--source", "timer", "--reason", "session_break"]);
    assert_eq!(second["coalesced"], true);
    assert_eq!(second["snapshot_id"], first.as_str());
    let list = env.json(&["list"]);
    assert_eq!(list["checkpoints"].as_array().unwrap().len(), 1);
    let both = serde_json::json!(["step_boundary", "timer", "task_done", "session_break"]);
    assert_eq!(list["checkpoints"][0]["source_details"], both);
    assert_eq!(env.json(&["show"])["marks"]["source_details"], both);
    let other = env.json(&["save", "--run", "r", "--status", "paused"]);
    assert_eq!(other["coalesced"], false, "a status change is not coalesced");
    assert_eq!(other["sequence"], 2);
}

#[test]
fn input_and_flags_are_combined_and_flags_override() {
    let env = TestEnvironment::new();
    let input = br#"{"task_summary":"input","status":"paused","phase":{"name":"A","number":1},
        "tasks":[{"id":"t1","title":"T","status":"done"},{"id":"t2","status":"failed"}],
        "criteria":[{"id":"c","subject":"s","status":"completed"}],
        "log":[{"at":"2026-01-01T00:00:00Z","text":"noted"}],"own":{"z":1,"a":2}}"#;
    let args = ["save", "--run", "r", "--input", "-", "--summary", "- flag", "--phase", "B", "--json"];
    env.run_on(input, &args).exits(0);
    let body = &env.json(&["show"])["checkpoint"];
    assert_eq!(body["task_summary"], "- flag");
    assert_eq!(body["status"], "paused");
    assert_eq!(body["phase"]["name"], "B");
    assert_eq!(body["own"], serde_json::json!({"z": 1, "a": 2}));
    let document = env.json(&["runs", "r"]);
    let run = &document["runs"][0];
    for name in ["tasks", "completed", "failed", "phase", "log"] {
        assert_eq!(run[name], document[name], "{name}");
    }
    assert_eq!(run["completed"], serde_json::json!(["t1"]));
    assert_eq!(run["failed"], serde_json::json!(["t2"]));
    assert_eq!(run["phase"]["name"], "B");
    assert_eq!(run["log"][0]["text"], "noted");
    assert_eq!(run["tasks"].as_array().unwrap().len(), 2);
}

#[test]
fn the_input_names_the_run_and_a_contradicting_flag_is_refused() {
    let env = TestEnvironment::new();
    let input = br#"{"run_id":"from-input"}"#;
    let saved = env.run_on(input, &["save", "--input", "-", "--json"]).exits(0).json();
    assert_eq!(saved["run_id"], "from-input");
    let ran = env.run_on(input, &["save", "--input", "-", "--run", "other", "--json"]).exits(1);
    assert_eq!(ran.reason(), "checkpoint_schema_invalid");
}

#[test]
fn a_brief_is_stored_byte_for_byte() {
    let env = TestEnvironment::new();
    let brief = "# Brief\r\n\n- über\t\u{1F600} \n\n\n";
    env.write("b.md", brief);
    env.save(&["--brief", "b.md"]);
    assert_eq!(env.json(&["show"])["checkpoint"]["brief"], brief);
}

#[test]
fn pai_phase_names_and_numbers_complete_each_other() {
    let env = TestEnvironment::new();
    let phase = || env.json(&["show", "latest", "--run", "p"])["checkpoint"]["phase"].clone();
    env.save(&["--run", "p", "--profile", "pai", "--phase", "build"]);
    assert_eq!(phase(), serde_json::json!({"name": "build", "number": 4}));
    // The run keeps the profile pai.
    env.save(&["--run", "p", "--phase-number", "7"]);
    assert_eq!(phase(), serde_json::json!({"name": "LEARN", "number": 7}));
    env.save(&["--run", "p", "--phase", "Verify"]);
    assert_eq!(phase()["number"], 6);
    let ran = env.run(&["save", "--run", "p", "--phase", "COOK", "--json"]).exits(1);
    assert_eq!(ran.reason(), "checkpoint_schema_invalid");
    env.save(&["--run", "other", "--phase", "COOK"]);
}

#[test]
fn if_due_skips_a_save_that_is_not_due() {
    let env = TestEnvironment::new();
    env.save(&["--run", "r", "--if-due", "--no-capture"]);
    let ran = env.run(&["save", "--run", "r", "--if-due", "--status", "paused"]).exits(0);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("", ""));
    let document = env.json(&["save", "--run", "r", "--if-due"]);
    assert_eq!(document["due"], false);
    assert!(document["snapshot_id"].is_null());
    // A profile without a timer is always due.
    env.save(&["--run", "p", "--profile", "pai"]);
    let document = env.json(&["save", "--run", "p", "--if-due", "--summary", "new"]);
    assert_eq!(document["sequence"], 2);
}

#[test]
fn a_timer_does_not_save_a_paused_or_failed_run() {
    let env = TestEnvironment::new();
    let timer = ["save", "--run", "p", "--source", "timer", "--if-due", "--summary", "new"];
    env.save(&["--run", "p", "--profile", "pai", "--status", "paused"]);
    assert_eq!(env.json(&timer)["due"], false);
    env.save(&["--run", "p", "--status", "failed"]);
    assert_eq!(env.json(&timer)["due"], false);
    assert_eq!(env.json(&["runs", "p"])["runs"][0]["status"], "failed", "a timer does not reopen the run");
    assert_eq!(
        env.json(&[&timer[..], &["--status", "in_progress"]].concat())["due"],
        true,
        "unless it sets a status"
    );
}

#[test]
fn save_sets_pins_and_tags() {
    let env = TestEnvironment::new();
    let id = env.save(&["--pin", "--tag", "one", "--tag", "two"]);
    let row = &env.json(&["list", "--tag", "two"])["checkpoints"][0];
    assert_eq!(row["snapshot_id"], id.as_str());
    assert_eq!(row["pinned"], true);
    assert_eq!(row["tags"], serde_json::json!(["one", "two"]));
    let ran = env.run(&["save", "--tag", "latest", "--json"]).exits(2);
    assert_eq!(ran.reason(), "checkpoint_schema_invalid");
}

#[test]
fn the_session_id_comes_from_the_environment() {
    let env = TestEnvironment::new();
    let session = || env.json(&["show", "latest", "--run", "r"])["checkpoint"]["session_id"].clone();
    env.run_with(&[("MILEPOST_SESSION", "")], &["save", "--run", "r"]).exits(0);
    assert_eq!(session(), "unknown");
    env.run_with(&[("CLAUDE_CODE_SESSION_ID", "agent")], &["save", "--run", "r"]).exits(0);
    assert_eq!(session(), "agent");
    let both = [("CLAUDE_CODE_SESSION_ID", "agent"), ("MILEPOST_SESSION", "own")];
    env.run_with(&both, &["save", "--run", "r"]).exits(0);
    assert_eq!(session(), "own");
}

#[test]
fn start_creates_a_run_without_checkpoints_and_finish_saves_the_last_one() {
    let env = TestEnvironment::new();
    let run = env.run(&["start", "--title", "Night", "--plan", "plan.toml"]).exits(0).line().to_owned();
    assert!(run.starts_with("run_"));
    let shown = &env.json(&["runs"])["runs"][0];
    assert_eq!(shown["title"], "Night");
    assert_eq!(shown["plan"], "plan.toml");
    assert_eq!(shown["checkpoints"], 0);
    assert!(shown["latest"].is_null() && shown["owner_alive"].is_null());
    let again = env.json(&["start", "--run", &run]);
    assert_eq!(again["rejoined"], true);
    assert_eq!(again["status"], "in_progress");
    let done = env.json(&["finish", "--summary", "all done"]);
    assert_eq!(done["schema"], "milepost.finish/1");
    assert_eq!(done["status"], "completed");
    assert_eq!(done["run_id"], run.as_str());
    assert_eq!(env.json(&["runs"])["runs"][0]["status"], "completed");
    let ran = env.run(&["finish", "--json"]).exits(14);
    assert_eq!(ran.reason(), "run_not_found");
}

#[test]
fn a_failed_finish_is_an_error_boundary_and_a_wrong_status_is_refused() {
    let env = TestEnvironment::new();
    env.run(&["start", "--run", "r"]).exits(0);
    assert_eq!(
        env.run(&["finish", "--status", "in_progress", "--json"]).exits(2).reason(),
        "checkpoint_schema_invalid"
    );
    assert_eq!(
        env.run(&["finish", "--status", "x", "--json"]).exits(2).reason(),
        "checkpoint_schema_invalid"
    );
    let done = env.json(&["finish", "--status", "failed"]);
    assert_eq!(done["source"], "error_boundary");
}

#[test]
fn owner_alive_follows_the_owners_process() {
    let env = TestEnvironment::new();
    let mut owner = std::process::Command::new("sleep").arg("600").spawn().unwrap();
    let pid = owner.id().to_string();
    env.run(&["start", "--run", "r", "--owner-pid", &pid]).exits(0);
    assert_eq!(env.json(&["runs"])["runs"][0]["owner_alive"], true);
    let ran = env.run(&["start", "--run", "r", "--json"]).exits(1);
    assert_eq!(ran.reason(), "resume_run_active");
    owner.kill().unwrap();
    owner.wait().unwrap();
    assert_eq!(env.json(&["runs"])["runs"][0]["owner_alive"], false);
    assert_eq!(env.json(&["status"])["stopped"][0]["run_id"], "r");
    let ran = env.run(&["start", "--owner-pid", &pid, "--json"]).exits(2);
    assert_eq!(ran.reason(), "checkpoint_schema_invalid");
}

#[test]
fn files_can_be_listed_by_path_alone() {
    let env = TestEnvironment::new();
    let input = r#"{"files": ["a.txt", {"path": "b.txt", "size": 3}]}"#;
    env.run_on(input.as_bytes(), &["save", "--input", "-", "--run", "r"]).exits(0);
    let files = env.json(&["show"])["checkpoint"]["files"].clone();
    let expected = serde_json::json!([
        { "blob": null, "path": "a.txt", "sha256": null, "size": null },
        { "blob": null, "path": "b.txt", "sha256": null, "size": 3 },
    ]);
    assert_eq!(files, expected);
    let wrong = env.run_on(br#"{"files": ["a.txt", 7]}"#, &["save", "--input", "-", "--json"]).exits(1);
    assert!(wrong.stderr.contains("/files/1"), "{wrong:#?}");
}

#[test]
fn a_message_is_the_summary() {
    let env = TestEnvironment::new();
    for args in [
        &["parser done"][..],
        &["-m", "parser done"],
        &["--message", "parser done"],
        &["--summary=parser done"],
    ] {
        env.save(args);
        assert_eq!(env.json(&["show"])["checkpoint"]["task_summary"], "parser done", "{args:?}");
    }
    let ran = env.run(&["save", "one", "-m", "two"]).exits(2);
    insta::assert_snapshot!(ran.stderr, @"
    Error: `[MESSAGE]` cannot be used together with `--message <MESSAGE>` (usage)
    Hint: use one of them; `milepost help save` explains them
    ");
    assert_eq!(env.run(&["save", "-m", "one", "--summary", "two", "--json"]).exits(2).reason(), "usage");
    env.run(&["finish", "-m", "all done"]).exits(0);
    assert_eq!(env.json(&["show"])["checkpoint"]["task_summary"], "all done");
}
