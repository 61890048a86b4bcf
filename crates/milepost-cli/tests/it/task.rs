//! `task set`, `task is` and `task run`.

use serde_json::json;

use crate::TestEnvironment;

#[test]
fn tasks_keep_their_members_and_save_a_checkpoint_when_they_end() {
    let env = TestEnvironment::new();
    let input = br#"{"tasks":[{"id":"t1","agent":"MARS","n":1.0,"status":"pending"},
        {"id":"t2","status":"ready","subtasks":[{"id":"a","x":9007199254740993,"status":"pending"}]}]}"#;
    env.run_on(input, &["save", "--run", "r", "--input", "-"]).exits(0);
    let set = env.json(&["task", "set", "t1", "in_progress", "--title", "First"]);
    assert_eq!(set["schema"], "milepost.task/1");
    assert!(set["snapshot_id"].is_null(), "the task has not ended");
    assert_eq!(env.run(&["task", "set", "t1", "in_progress"]).exits(0).stdout, "");
    let set = env.json(&["task", "set", "t1", "done"]);
    assert_eq!((&set["sequence"], &set["source"]), (&json!(2), &json!("step_boundary")));
    assert_eq!(
        set["task"],
        json!({"id": "t1", "agent": "MARS", "n": 1.0, "status": "done", "title": "First"})
    );
    let set = env.json(&["task", "set", "t2/a", "failed"]);
    assert_eq!((&set["sequence"], &set["source"]), (&json!(3), &json!("error_boundary")));
    assert!(env.run(&["task", "set", "t3/own", "completed"]).exits(0).line().starts_with("cp_"));
    let run = env.json(&["runs", "r"]);
    assert_eq!(run["completed"], json!(["t1", "t3/own"]));
    assert_eq!(run["failed"], json!(["t2/a"]));
    assert!(env.run(&["show"]).exits(0).stdout.contains("  [!] a (failed)"));
    let text = env.run(&["runs", "r", "--json"]).exits(0).stdout;
    assert!(text.contains(
        r#"{"id":"t2","status":"ready","subtasks":[{"id":"a","x":9007199254740993,"status":"failed"}]}"#
    ));
}

#[test]
fn task_is_replies_with_its_exit_code() {
    let env = TestEnvironment::new();
    assert_eq!(env.run(&["task", "is", "t", "done", "--json"]).exits(10).reason(), "store_missing");
    env.run(&["task", "set", "t", "in_progress", "--run", "r"]).exits(0);
    for (status, code) in [("in_progress", 0), ("done", 4), ("failed", 4)] {
        let ran = env.run(&["task", "is", "t", status]).exits(code);
        assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("", ""));
    }
    env.run(&["task", "is", "unknown", "done"]).exits(4);
    env.run(&["task", "set", "t", "completed"]).exits(0);
    for status in ["done", "completed"] {
        let answer = env.json(&["task", "is", "t", status]);
        assert_eq!((&answer["is"], &answer["task"]["status"]), (&json!(true), &json!("completed")));
    }
    let ran = env.run(&["task", "is", "t", "failed", "--json"]).exits(4);
    assert_eq!(ran.json()["is"], false);
    assert_eq!(
        env.run(&["task", "is", "t", "done", "--run", "other", "--json"]).exits(14).reason(),
        "run_not_found"
    );
    env.save(&["--run", "second"]);
    assert_eq!(env.run(&["task", "is", "t", "done", "--json"]).exits(14).reason(), "run_not_found");
    assert_eq!(env.json(&["runs"])["runs"].as_array().unwrap().len(), 2, "no run is created");
}

#[test]
fn task_run_sets_the_status_from_the_exit_code() {
    let env = TestEnvironment::new();
    let ran = env
        .run(&["task", "run", "good", "--run", "r", "--", "sh", "-c", "echo out; echo $MILEPOST_RUN"])
        .exits(0);
    assert_eq!(ran.stdout, "out\nr\n");
    env.run(&["task", "is", "good", "done"]).exits(0);
    let ran = env.run(&["task", "run", "bad", "--json", "--", "sh", "-c", "exit 9"]).exits(9);
    let line: serde_json::Value = serde_json::from_str(ran.stderr.trim()).unwrap();
    assert_eq!((&line["task"]["status"], &line["exit"]), (&json!("failed"), &json!(9)));
    assert_eq!(
        env.run(&["task", "run", "none", "--json", "--", "no-such-program"]).exits(127).reason(),
        "usage"
    );
    env.run(&["task", "run", "killed", "--", "sh", "-c", "kill -9 $$"]).exits(137);
    let run = env.json(&["runs", "r"]);
    assert_eq!((&run["completed"], &run["failed"]), (&json!(["good"]), &json!(["bad", "none", "killed"])));
    let outcome = &env.json(&["show"])["checkpoint"]["command_outcomes"][0];
    assert_eq!((&outcome["result"], &outcome["reason_code"]), (&json!("FAIL"), &json!("signal_9")));
    // A task whose result cannot be saved is not done, regardless of its exit code.
    let vanish = "rm -rf .milepost && echo file > .milepost";
    let ran = env.run(&["task", "run", "lost", "--json", "--", "sh", "-c", vanish]).exits(125);
    assert!(ran.stderr.contains("could not be saved"), "{ran:#?}");
}
