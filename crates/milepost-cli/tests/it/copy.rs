//! `copy` through every kind of store: nothing that a run consists of differs afterwards.

use serde_json::{Value, json};

use crate::TestEnvironment;
use crate::files::{AgentAtWork, put};
use crate::server;

/// Fills the repository's SQLite store with everything that commands can record.
fn fill(env: &TestEnvironment) {
    let root = env.project();
    let fixtures =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../milepost/tests/fixtures/foreign");
    for format in ["pai", "nova26", "snapshot", "aiwg", "markdown"] {
        env.run(&["import", format, fixtures.join(format).to_str().unwrap()]).exits(0);
    }
    // An agent's session has messages, files and outcomes of commands.
    let mut agent = AgentAtWork::begin(env, &root, "s1");
    agent.prompt("write it, and never touch main");
    agent.shell("echo one > a; echo two > b");
    agent.turn_ends();
    let large: String = (0..20_000).map(|n| format!("{n}\n")).collect();
    put(&root.join("large.txt"), large.as_bytes());
    env.run_on(b"{\"state\": {\"n\": 1.0}}", &["save", "--run", "job", "--input", "-"]).exits(0);
    env.save(&["--run", "job", "--status", "failed", "with \"quotes\", \u{e4} and a tab\t"]);
    env.run(&["mark", "job@1", "--pin", "--tag", "first", "--tag", "kept"]).exits(0);
    env.run(&["note", "--run", "job", "waits for the next checkpoint"]).exits(0);
    env.run(&["decide", "--run", "job", "use one table"]).exits(0);
    env.run(&["task", "set", "t1", "done", "--run", "job"]).exits(0);
    env.save(&["--run", "empty"]);
}

/// What every kind of store must return for the same runs.
fn shown(env: &TestEnvironment, store: &str) -> Vec<Value> {
    let mut all = vec![env.json(&["--store", store, "list", "--limit", "0"])];
    for run in env.json(&["--store", store, "runs", "--limit", "0"])["runs"].as_array().unwrap() {
        let mut run = env.json(&["--store", store, "runs", run["run_id"].as_str().unwrap()]);
        // A copy adds where the run came from, and a server adds the project and the user.
        for name in ["origin", "project_id", "user"] {
            run["runs"][0].as_object_mut().unwrap().remove(name);
        }
        all.push(run);
    }
    let events = env.json(&["--store", store, "events", "--limit", "0"]);
    let mut events = events["events"].as_array().unwrap().clone();
    // Events of different runs have no common order after a copy.
    events.sort_by_key(|event| event["run_id"].to_string());
    all.push(json!(events));
    all
}

#[test]
fn nothing_differs_after_a_copy_through_every_kind_of_store() {
    let env = TestEnvironment::repository();
    env.run(&["init", "--agents", "none"]).exits(0);
    let first = format!("sqlite:{}", env.project().join(".git/milepost/milepost.db").display());
    fill(&env);
    let files = format!("files:{}", env.path("files").display());
    let last = format!("sqlite:{}", env.path("last.db").display());
    let route = [vec![first.clone()], server::new_store().into_iter().collect(), vec![files, last.clone()]];
    let route = route.concat();
    let before = shown(&env, &first);
    for pair in route.windows(2) {
        let [from, to] = pair else { unreachable!() };
        let report = env.json(&["copy", "--from", from, "--to", to, "--with-secrets", "--verify"]);
        assert_eq!(report["verified"]["differences"], json!([]), "{report}");
        assert!(report["verified"]["checked"].as_u64() > Some(20), "{report}");
        assert!(report["files"].as_u64() > Some(1), "{report}");
        env.run(&["--store", to, "verify"]).exits(0);
        for (before, after) in before.iter().zip(shown(&env, to)) {
            assert_eq!(*before, after, "{from} to {to}");
        }
        let again = env.json(&["copy", "--from", from, "--to", to, "--with-secrets"]);
        assert_eq!(again["copied"], 0, "{again}");
    }
    let report = env.json(&["copy", "--from", &first, "--to", &last, "--with-secrets", "--verify"]);
    assert_eq!((&report["copied"], &report["verified"]["differences"]), (&json!(0), &json!([])), "{report}");
}
