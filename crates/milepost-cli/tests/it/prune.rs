//! `prune` applies retention to a store; `diff` compares two checkpoints.

use serde_json::json;

use crate::{TestEnvironment, server};

fn ids(env: &TestEnvironment, args: &[&str]) -> Vec<String> {
    let args: Vec<_> = ["list", "--limit", "0"].iter().chain(args).copied().collect();
    let list = env.json(&args);
    list["checkpoints"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c["snapshot_id"].as_str().unwrap().into())
        .collect()
}

/// Saves a checkpoint that is dated `hours` hours ago.
fn save_as_of(store: &str, run: &str, hours: i64) {
    use milepost::Clock;
    use milepost::internal::clock::FrozenClock;
    use milepost::internal::clock::SystemClock;
    let url = store.parse().unwrap();
    let options = milepost::store::OpenOptions::new().create(true);
    let then = SystemClock.now() - jiff::SignedDuration::from_hours(hours);
    let mp = milepost::Milepost::at(&url, &options)
        .unwrap()
        .with_clock(std::sync::Arc::new(FrozenClock::at(then)));
    mp.save(&run.parse().unwrap(), milepost::Save::new().summary(format!("{hours} hours ago"))).unwrap();
}

#[test]
fn a_dry_run_shows_the_plan_and_prune_carries_it_out() {
    for store in server::with_server_store(["sqlite:m.db", "files:cp"]) {
        let store = store.as_str();
        let env = TestEnvironment::new();
        let all: Vec<_> = (0..6)
            .map(|n| env.save(&["--store", store, "--run", "r", "--summary", &n.to_string()]))
            .collect();
        env.save(&["--store", store, "--run", "other", "--summary", "x"]);
        let prune = ["prune", "--store", store, "--keep-last", "2"];
        let with =
            |more: &[&'static str]| prune.iter().copied().chain(more.iter().copied()).collect::<Vec<&str>>();
        let plan = env.json(&with(&["--dry-run"]));
        assert_eq!((&plan["removed"], &plan["compressed"], &plan["kept"]), (&json!(4), &json!(0), &json!(3)));
        assert_eq!(plan["dry_run"], true);
        assert!(plan["bytes_freed"].as_u64().unwrap() > 1000);
        let first = &plan["plan"].as_array().unwrap()[0];
        assert_eq!(first["snapshot_id"], all[0].as_str());
        assert_eq!(first["run_id"], "r");
        assert_eq!((&first["action"], &first["reasons"]), (&json!("remove"), &json!(["beyond the last 2"])));
        let shown = env.run(&with(&["--dry-run"])).exits(0);
        assert!(
            shown.stdout.contains(&all[3][23..31]) && shown.stdout.contains("4 checkpoints would be removed"),
            "{shown:#?}"
        );
        assert!(!shown.stdout.contains(&all[4][23..31]), "kept checkpoints are not listed");
        let refused = env.run(&with(&["--json"])).exits(15);
        assert_eq!(refused.reason(), "confirmation_needed");
        assert_eq!(ids(&env, &["--store", store]).len(), 7);
        let done = env.json(&with(&["--yes"]));
        assert_eq!(
            (&done["removed"], &done["kept"], &done["dry_run"]),
            (&json!(4), &json!(3), &json!(false))
        );
        assert_eq!(ids(&env, &["--store", store, "--run", "r"]), [all[5].clone(), all[4].clone()]);
        let again = env.json(&with(&[]));
        assert_eq!((&again["removed"], &again["compressed"]), (&json!(0), &json!(0)), "nothing to confirm");
        env.run(&["verify", "--store", store]).exits(0);
        env.run(&["doctor", "--store", store]).exits(0);
    }
}

#[test]
fn wrong_values_are_refused_with_the_allowed_ones() {
    let env = TestEnvironment::new();
    for n in 0..3 {
        env.save(&["--run", "r", "--summary", &n.to_string()]);
    }
    for (flag, value, allowed) in [
        ("--keep-last", "0", "nor \\\"all\\\""),
        ("--keep-last", "-1", "1 or more"),
        ("--keep-last", "abc", "1 or more"),
        ("--keep-daily", "-1", "0 or more"),
        ("--keep-within", "5", "14d"),
        ("--max-age", "soon", "14d"),
        ("--compress-after", "1.5h", "12h"),
    ] {
        let ran = env.run(&["prune", "--yes", flag, value, "--json"]).exits(2);
        assert_eq!(ran.reason(), "usage");
        assert!(ran.stderr.contains(allowed) && ran.stderr.contains(flag), "{ran:#?}");
    }
    assert_eq!(env.run(&["prune", "--run", "nobody", "--yes", "--json"]).exits(14).reason(), "run_not_found");
    assert_eq!(ids(&env, &[]).len(), 3);
    assert_eq!(
        env.run(&["-C", "..", "prune", "--store", "no.db", "--json"]).exits(10).reason(),
        "store_missing"
    );
}

#[test]
fn compressed_history_stays_readable() {
    let mut env = TestEnvironment::new();
    env.trust_project();
    let folder = format!("files:{}", env.project().join("cp").display());
    for hours in [14 * 24 + 1, 14 * 24 - 1, 48, 24] {
        save_as_of(&folder, "r", hours);
    }
    env.write("milepost.toml", "store = \"files:cp\"\n[retain]\ncompress_after = \"36h\"\n");
    let done = env.json(&["prune", "--yes"]);
    // No save has removed the expired checkpoint, so prune removes it.
    assert_eq!((&done["removed"], &done["compressed"], &done["kept"]), (&json!(1), &json!(2), &json!(3)));
    let again = env.json(&["prune", "--yes"]);
    assert_eq!((&again["removed"], &again["compressed"]), (&json!(0), &json!(0)));
    let id = ids(&env, &[]).pop().unwrap();
    let packed = env.project().join(format!("cp/r/history/{id}.json.gz"));
    assert!(packed.exists() && env.project().join("cp/r/latest.json").exists());
    assert_eq!(env.json(&["show", &id])["checkpoint"]["task_summary"], "335 hours ago");
    assert_eq!(env.json(&["verify"])["checked"], 3);
    let mut bytes = std::fs::read(&packed).unwrap();
    let at = bytes.len() - 9;
    bytes[at] ^= 0x20;
    env.write(&format!("cp/r/history/{id}.json.gz"), bytes);
    let ran = env.run(&["verify", "--json"]).exits(5);
    assert_eq!(ran.reason(), "checkpoint_integrity_mismatch");
    assert_eq!(ran.json()["damaged"][0]["snapshot_id"], id.as_str());
    let sqlite = env.run(&["prune", "--store", "sqlite:m.db", "--compress-after", "1h", "--json"]);
    assert_eq!(sqlite.exits(10).reason(), "store_missing");
    env.save(&["--store", "sqlite:m.db"]);
    let sqlite = env.run(&["prune", "--store", "sqlite:m.db", "--compress-after", "1h", "--json"]).exits(0);
    assert!(sqlite.stderr.contains("has no effect"), "{sqlite:#?}");
}

#[test]
fn a_failed_removal_does_not_stop_pruning() {
    let env = TestEnvironment::new();
    let store = ["--store", "files:cp"];
    let old = env.save(&["--store", "files:cp", "--run", "b", "--summary", "1"]);
    env.save(&["--store", "files:cp", "--run", "b", "--summary", "2"]);
    let path = env.project().join(format!("cp/b/history/{old}.json"));
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir_all(path.join("in the way")).unwrap();
    for n in 0..2 {
        env.save(&["--store", "files:cp", "--run", "c", "--summary", &n.to_string()]);
    }
    let ran = env.run(&["prune", store[0], store[1], "--keep-last", "1", "--yes", "--json"]).exits(3);
    assert_eq!(ran.reason(), "checkpoint_retention_prune_failed");
    assert_eq!(ran.json()["removed"], 2, "the rest is pruned anyway");
    assert_eq!(ran.json()["failed"][0]["run_id"], "b");
    assert!(ran.stderr.contains("2 checkpoints removed and 0 compressed"), "{ran:#?}");
    assert_eq!(ids(&env, &store).len(), 2);
}

#[test]
fn keep_within_keeps_young_checkpoints() {
    let mut env = TestEnvironment::new();
    env.trust_project();
    env.write("milepost.toml", "[retain]\nkeep_last = 1\nkeep_within = \"1h\"\n");
    for n in 0..4 {
        env.save(&["--run", "r", "--summary", &n.to_string()]);
    }
    assert_eq!(ids(&env, &[]).len(), 4, "younger than an hour");
    let plan = env.json(&["prune", "--dry-run", "--keep-within", "none"]);
    assert_eq!(plan["removed"], 3);
    assert_eq!(env.json(&["prune"])["removed"], 0);
}

#[test]
fn diff_lists_what_changed() {
    let env = TestEnvironment::new();
    let input = |name: &str, text: &str| env.write(name, text).to_string_lossy().into_owned();
    let one = input(
        "1.json",
        r#"{"tasks":[{"id":"t1","status":"pending"}],"state":{"n":9007199254740993,"f":1.0},"files":[{"path":"a"}]}"#,
    );
    let two = input(
        "2.json",
        r#"{"tasks":[{"id":"t0","status":"pending"},{"id":"t1","status":"done"}],"state":{"f":1,"n":9007199254740993},
            "files":[{"path":"b"}],"brief":"Now\n## Next\nship\n","command_outcomes":[{"kind":"shell","name":"make","result":"PASS"}]}"#,
    );
    let a = env.save(&["--run", "r", "--input", &one]);
    let b = env.save(&["--run", "r", "--input", &two, "--status", "paused"]);
    let diff = env.json(&["diff", "r@1"]);
    assert_eq!((&diff["from"], &diff["to"]), (&json!(a), &json!(b)));
    let paths: Vec<_> =
        diff["changed"].as_array().unwrap().iter().map(|c| c["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["/status", "/tasks[t1]/status", "/tasks[t0]", "/state/f", "/brief", "/brief/Next"]);
    let state = &diff["changed"][3];
    assert_eq!((state["before"].to_string(), state["after"].to_string()), ("1.0".into(), "1".into()));
    assert_eq!(diff["files"], json!({"added": ["b"], "removed": ["a"]}));
    assert_eq!(diff["outcomes"][0]["name"], "make");
    env.run(&["diff", "r@1", "--exit-code"]).exits(4);
    assert_eq!(env.run(&["diff", "r@1", "--exit-code", "--json"]).exits(4).stderr, "");
    env.run(&["diff", &a, &a, "--exit-code"]).exits(0);
    let shown = env.run(&["diff", "r@1", "r@2"]).exits(0).stdout;
    insta::assert_snapshot!(env.plain(&shown), @r###"
    from ID r@1 AGO
    to ID r@2 AGO

    Status
      ~ /status "in_progress" → "paused"

    Tasks
      ~ /tasks[t1]/status "pending" → "done"
      + /tasks[t0] {"id":"t0","status":"pending"}

    Outcomes since
      PASS shell make (0 ms)

    Files
      + b
      - a

    Brief
      + /brief "Now\n"
      + /brief/Next "## Next\nship\n"

    State
      ~ /state/f 1.0 → 1
    "###);
    assert!(!shown.contains('\x1b'), "no colours without a terminal");
    assert!(env.run(&["diff", "r@1", "--color", "always"]).exits(0).stdout.contains('\x1b'));
    env.run(&["diff", "nope"]).exits(14);
    env.run(&["diff"]).exits(2);
}

#[test]
fn diff_names_a_damaged_checkpoint() {
    let env = TestEnvironment::new();
    env.save(&["--run", "r", "--summary", "1"]);
    let bad = env.save(&["--run", "r", "--summary", "2"]);
    let db = rusqlite::Connection::open(env.project().join(".milepost/milepost.db")).unwrap();
    let sql = "UPDATE append_log SET body = zeroblob(length(body)) WHERE sequence = 2";
    assert_eq!(db.execute(sql, []).unwrap(), 1);
    drop(db);
    let ran = env.run(&["diff", "r@1", "--json"]).exits(5);
    assert_eq!(ran.reason(), "checkpoint_integrity_mismatch");
    assert!(ran.stderr.contains(&bad), "{ran:#?}");
}
