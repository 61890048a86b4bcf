//! How a command finds its run, worktrees that share a store, and a store that survives `git clean`.

use crate::TestEnvironment;

fn runs(env: &TestEnvironment) -> Vec<String> {
    let list = env.json(&["runs"]);
    list["runs"].as_array().unwrap().iter().map(|r| r["run_id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn the_only_open_run_of_a_folder_is_continued() {
    let env = TestEnvironment::new();
    env.save(&["--summary", "a"]);
    env.save(&["--summary", "b"]);
    assert_eq!(runs(&env).len(), 1);
    env.run(&["finish"]).exits(0);
    env.save(&["--summary", "c"]);
    assert_eq!(runs(&env).len(), 2, "an ended run is not continued");
}

#[test]
fn none_of_several_open_runs_is_guessed() {
    let env = TestEnvironment::new();
    env.save(&["--run", "one"]);
    env.save(&["--run", "two"]);
    let ran = env.run(&["finish", "--json"]).exits(14);
    assert_eq!(ran.reason(), "run_not_found");
    assert!(ran.stderr.contains("one") && ran.stderr.contains("two"));
    let ran = env.run(&["save", "--json"]).exits(0);
    assert!(ran.json()["run_id"].as_str().unwrap().starts_with("run_"));
    assert!(ran.stderr.contains("one") && ran.stderr.contains("two"), "{ran:#?}");
    assert_eq!(
        env.run_with(&[("MILEPOST_RUN", "two")], &["finish", "--json"]).exits(0).json()["run_id"],
        "two"
    );
    let both = env.run_with(&[("MILEPOST_RUN", "two")], &["save", "--run", "one", "--json"]).exits(0);
    assert_eq!(both.json()["run_id"], "one", "the flag overrides the environment");
}

#[test]
fn an_agent_session_finds_its_run() {
    let env = TestEnvironment::new();
    env.run_with(&[("CLAUDE_CODE_SESSION_ID", "s1")], &["save", "--run", "one"]).exits(0);
    env.run_with(&[("CLAUDE_CODE_SESSION_ID", "s2")], &["save", "--run", "two"]).exits(0);
    let saved = env.run_with(&[("CLAUDE_CODE_SESSION_ID", "s1")], &["save", "--summary", "x", "--json"]);
    assert_eq!(saved.exits(0).json()["run_id"], "one");
}

#[test]
fn a_run_owned_by_an_ancestor_process_overrides_the_folder() {
    let env = TestEnvironment::new();
    env.save(&["--run", "other"]);
    env.run(&["start", "--run", "mine", "--owner-pid", &std::process::id().to_string()]).exits(0);
    assert_eq!(env.json(&["save"])["run_id"], "mine");
}

#[test]
fn an_unknown_run_is_reported_as_not_found() {
    let env = TestEnvironment::new();
    env.save(&["--run", "known"]);
    for command in ["show", "state", "list", "verify", "events", "finish"] {
        let ran = env.run(&[command, "--run", "unknown", "--json"]).exits(14);
        assert_eq!(ran.reason(), "run_not_found", "{command}");
    }
    assert_eq!(runs(&env), ["known"]);
}

#[test]
fn without_a_run_latest_is_the_newest_checkpoint_of_any_run() {
    let env = TestEnvironment::new();
    let one = env.save(&["--run", "one"]);
    let two = env.save(&["--run", "two"]);
    assert_eq!(env.json(&["show"])["checkpoint"]["snapshot_id"], two.as_str());
    assert_eq!(env.json(&["show", "--run", "one"])["checkpoint"]["snapshot_id"], one.as_str());
    assert_eq!(env.json(&["list"])["checkpoints"].as_array().unwrap().len(), 2);
    assert_eq!(env.json(&["list", "--run", "one"])["checkpoints"].as_array().unwrap().len(), 1);
    assert_eq!(env.json(&["verify"])["checked"], 2);
    assert_eq!(env.json(&["verify", "--run", "two"])["checked"], 1);
}

#[test]
fn worktrees_share_a_store_and_continue_their_own_runs() {
    let env = TestEnvironment::repository();
    for name in ["two", "three"] {
        env.git(&["worktree", "add", "-q", "-b", name, &format!("../{name}")]);
    }
    let places = [env.project(), env.path("two"), env.path("three")];
    let mut ids = Vec::new();
    for place in &places {
        let saved = env.run_in(place, &["save", "--summary", "x", "--json"]).exits(0).json();
        ids.push(saved["run_id"].as_str().unwrap().to_owned());
    }
    ids.dedup();
    assert_eq!(ids.len(), 3, "each worktree has its own run");
    for (place, id) in places.iter().zip(&ids) {
        let again = env.run_in(place, &["save", "--summary", "y", "--json"]).exits(0).json();
        assert_eq!(again["run_id"], id.as_str());
        let shown = env.run_in(place, &["runs"]).exits(0).stdout;
        let starred: Vec<_> = shown.lines().filter(|line| line.trim_start().starts_with('*')).collect();
        assert!(starred.len() == 1 && starred[0].contains(&id[21..]), "{shown}");
    }
    let list = env.json(&["runs"]);
    let branches: Vec<_> =
        list["runs"].as_array().unwrap().iter().map(|r| r["branch"].as_str().unwrap()).collect();
    assert_eq!(branches, ["three", "two", "main"]);

    env.git(&["worktree", "remove", "--force", "../three"]);
    env.write("junk", "x");
    env.git(&["clean", "-fdxq"]);
    assert_eq!(env.json(&["list", "--limit", "0"])["checkpoints"].as_array().unwrap().len(), 6);
    assert_eq!(env.json(&["verify"])["damaged"], serde_json::json!([]));
    assert!(!env.project().join(".milepost").exists(), "the worktree contains no store");
}

#[test]
fn outside_repositories_the_store_is_found_from_subfolders() {
    let env = TestEnvironment::new();
    env.save(&[]);
    let below = env.project().join("a/b");
    std::fs::create_dir_all(&below).unwrap();
    let saved = env.run_in(&below, &["save", "--summary", "below", "--json"]).exits(0).json();
    assert_eq!(saved["sequence"], 2);
}
