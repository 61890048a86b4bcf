//! Commands that set up and maintain a store: `init`, `mark`, `complete`, `delete`, `verify` and `doctor`.
//! Also the outbox and the pointer.

use crate::{TestEnvironment, server};

#[test]
fn init_creates_the_store_and_the_configuration_file_once() {
    let env = TestEnvironment::repository();
    let made = env.json(&["init", "--agents", "none", "--yes"]);
    assert_eq!(made["created"], true);
    let config = std::path::PathBuf::from(made["config"].as_str().unwrap());
    assert_eq!(config, env.project().join("milepost.toml"));
    assert!(env.project().join(".git/milepost/milepost.db").exists());
    let before = std::fs::read_to_string(&config).unwrap();
    let again = env.json(&["init"]);
    assert_eq!((&again["created"], &again["store"]), (&serde_json::json!(false), &made["store"]));
    assert_eq!(std::fs::read_to_string(&config).unwrap(), before);
    let ran = env.run(&["status"]).exits(0);
    assert_eq!(ran.stderr, "", "the commented file is valid");
    assert_eq!(env.run(&["init", "--agents", "claude", "--json"]).exits(2).reason(), "usage");
    let shown = env.plain(&env.run(&["init"]).exits(0).stdout);
    insta::assert_snapshot!(shown, @r#"
    Store sqlite:[ROOT]/project/.git/milepost/milepost.db (already exists)
    Config [ROOT]/project/milepost.toml (already exists)
    Summaries, tasks, state, briefs and changed files with their contents are
    recorded in this store and stay on this machine.
    Next: milepost save "what you are doing"
    "#);
}

#[test]
fn init_writes_every_key_as_a_comment_with_a_valid_value() {
    let mut env = TestEnvironment::new();
    env.trust_project();
    env.json(&["init"]);
    let text = std::fs::read_to_string(env.project().join("milepost.toml")).unwrap();
    let key = |line: &str| {
        line.strip_prefix("# ").is_some_and(|l| l.split_once(" = ").is_some_and(|(k, _)| !k.contains(' ')))
    };
    let live: Vec<_> = text.lines().map(|l| if key(l) { &l[2..] } else { l }).collect();
    env.write("milepost.toml", live.join("\n"));
    let ran = env.run(&["config", "show", "--json"]).exits(0);
    assert_eq!(ran.stderr, "");
    let mut settings = ran.json()["settings"].as_array().unwrap().clone();
    // Only the user's own file may set this key.
    settings.retain(|setting| setting["key"] != "agents.record");
    assert!(
        settings.iter().all(|s| s["origin"].as_str().unwrap().ends_with("milepost.toml")),
        "{settings:#?}"
    );
}

#[test]
fn init_writes_its_flags_to_the_configuration_file() {
    let env = TestEnvironment::new();
    env.json(&["init", "--store", "sqlite:cp.db", "--profile", "pai"]);
    env.save(&[]);
    assert!(env.project().join("cp.db").exists() && !env.project().join(".milepost").exists());
    assert_eq!(env.json(&["runs"])["runs"][0]["profile"], "pai");
}

#[test]
fn mark_changes_only_the_marks() {
    let env = TestEnvironment::new();
    let id = env.save(&[]);
    let before = env.json(&["show"])["checkpoint"].to_string();
    let marked = env.json(&["mark", "latest", "--pin", "--tag", "a", "--tag", "b"]);
    assert_eq!(marked["marks"]["pinned"], true);
    assert_eq!(marked["marks"]["tags"], serde_json::json!(["a", "b"]));
    assert_eq!(env.run(&["mark", "a", "--unpin", "--untag", "a"]).exits(0).line(), id);
    let shown = env.json(&["show", "b"]);
    assert_eq!(shown["marks"]["pinned"], false);
    assert_eq!(shown["marks"]["revision"], 2);
    assert_eq!(shown["checkpoint"].to_string(), before);
    assert_eq!(env.run(&["mark", "b", "--json"]).exits(2).reason(), "usage");
    assert_eq!(
        env.run(&["mark", "b", "--tag", "x y", "--json"]).exits(2).reason(),
        "checkpoint_schema_invalid"
    );
    env.run(&["mark", "zzz", "--pin"]).exits(14);
}

#[test]
fn completing_a_checkpoint_completes_the_earlier_ones() {
    let env = TestEnvironment::new();
    let ids: Vec<_> = (0..3).map(|n| env.save(&["--run", "r", "--summary", &n.to_string()])).collect();
    assert_eq!(env.run(&["complete", "r@2"]).exits(0).stdout, format!("{}\n{}\n", ids[0], ids[1]));
    assert_eq!(env.json(&["complete", "r@1"])["completed"], serde_json::json!([]));
    assert_eq!(env.json(&["runs"])["runs"][0]["status"], "in_progress");
    assert_eq!(env.json(&["complete", "latest"])["completed"], serde_json::json!([ids[2]]));
    assert_eq!(env.json(&["runs"])["runs"][0]["status"], "completed");
    env.save(&["--run", "r", "--summary", "again"]);
    assert_eq!(env.json(&["runs"])["runs"][0]["status"], "in_progress", "saving reopens it");
}

#[test]
fn delete_needs_confirmation_and_removes_the_whole_run() {
    let env = TestEnvironment::new();
    let id = env.save(&["--run", "r"]);
    env.save(&["--run", "other"]);
    let ran = env.run(&["delete", "r", "--json"]).exits(15);
    assert_eq!(ran.reason(), "confirmation_needed");
    let plan = env.json(&["delete", "r", "--dry-run"]);
    assert_eq!((&plan["dry_run"], &plan["removed"]), (&serde_json::json!(true), &serde_json::json!([id])));
    assert_eq!(env.json(&["runs"])["runs"].as_array().unwrap().len(), 2);
    let gone = env.json(&["delete", "r", "--yes"]);
    assert_eq!((&gone["checkpoints"], &gone["run_id"]), (&serde_json::json!(1), &serde_json::json!("r")));
    assert_eq!(env.json(&["runs"])["runs"].as_array().unwrap().len(), 1);
    assert_eq!(env.run(&["delete", "r", "--yes", "--json"]).exits(14).reason(), "run_not_found");
}

#[test]
fn reading_and_closing_commands_create_no_store() {
    let env = TestEnvironment::new();
    for args in [
        &["list"][..],
        &["show"],
        &["state"],
        &["runs"],
        &["verify"],
        &["prune", "--yes"],
        &["diff", "latest"],
        &["doctor"],
        &["events"],
        &["finish"],
        &["complete", "latest"],
        &["mark", "latest", "--pin"],
        &["delete", "r", "--yes"],
    ] {
        let args: Vec<_> = args.iter().copied().chain(["--json"]).collect();
        assert_eq!(env.run(&args).exits(10).reason(), "store_missing", "{args:?}");
    }
    assert!(!env.project().join(".milepost").exists());
}

#[test]
fn an_intact_store_passes_verify_and_doctor() {
    let env = TestEnvironment::new();
    env.save(&["--run", "r"]);
    assert_eq!(env.run(&["verify"]).exits(0).stdout, "1 checkpoint intact\n");
    let verified = env.json(&["verify", "latest"]);
    assert_eq!((&verified["checked"], &verified["damaged"]), (&serde_json::json!(1), &serde_json::json!([])));
    let doctor = env.json(&["doctor"]);
    assert_eq!((&doctor["problems"], &doctor["fixed"]), (&serde_json::json!([]), &serde_json::json!(0)));
}

#[test]
fn damage_is_reported_and_the_newest_intact_checkpoint_is_shown() {
    let env = TestEnvironment::new();
    let good = env.save(&["--run", "r", "--summary", "1"]);
    let bad = env.save(&["--run", "r", "--summary", "2"]);
    let db = rusqlite::Connection::open(env.project().join(".milepost/milepost.db")).unwrap();
    let sql = "UPDATE append_log SET body = zeroblob(length(body)) WHERE sequence = 2";
    assert_eq!(db.execute(sql, []).unwrap(), 1);
    drop(db);
    let ran = env.run(&["show", "--json"]).exits(3);
    assert_eq!(ran.json()["checkpoint"]["snapshot_id"], good.as_str());
    assert_eq!(ran.json()["fell_back_from"], serde_json::json!([bad]));
    assert_eq!(ran.reason(), "checkpoint_integrity_mismatch");
    let ran = env.run(&["show"]).exits(3);
    assert!(ran.stderr.contains(&bad) && ran.stderr.contains("Warning:"), "{ran:#?}");
    assert_eq!(env.run(&["show", &bad, "--json"]).exits(5).reason(), "checkpoint_integrity_mismatch");
    let ran = env.run(&["verify", "--json"]).exits(5);
    assert_eq!(ran.json()["damaged"][0]["snapshot_id"], bad.as_str());
    assert_eq!(ran.reason(), "checkpoint_integrity_mismatch");
    let ran = env.run(&["doctor", "--json"]).exits(5);
    assert!(ran.json()["problems"][0]["message"].as_str().unwrap().contains(&bad));
    env.run(&["list"]).exits(0);
}

#[test]
fn a_file_that_is_not_a_store_is_reported_with_a_fix() {
    let env = TestEnvironment::new();
    env.save(&[]);
    for end in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(env.project().join(format!(".milepost/milepost.db{end}")));
    }
    env.write(".milepost/milepost.db", vec![b'x'; 8192]);
    env.run(&["list"]).exits(5);
    let ran = env.run(&["doctor", "--json"]).exits(5);
    assert!(ran.json()["problems"][0]["fix"].as_str().unwrap().contains("backup"));
}

#[test]
fn doctor_fix_removes_a_stray_temporary_file() {
    let env = TestEnvironment::new();
    env.save(&[]);
    env.write(".milepost/.milepost-tmp-abc", "x");
    let ran = env.run(&["doctor", "--json"]).exits(5);
    assert_eq!(ran.json()["problems"][0]["fixed"], false);
    let fixed = env.json(&["doctor", "--fix"]);
    assert_eq!(fixed["fixed"], 1);
    assert!(!env.project().join(".milepost/.milepost-tmp-abc").exists());
    env.run(&["doctor"]).exits(0);
}

#[test]
fn the_pointer_is_written_to_the_users_own_file() {
    let mut env = TestEnvironment::new();
    env.trust_project();
    env.write("milepost.toml", "[pointer]\nfile = \"seed.json\"\nkey = \"state.checkpointRef\"\n");
    let seed = env.write("seed.json", "{\"state\": {\"x\": 1.0}}\n");
    let id = env.save(&["--run", "r"]);
    let expected = format!("{{\"state\": {{\"x\": 1.0, \"checkpointRef\": \"{id}\"}}}}\n");
    assert_eq!(std::fs::read_to_string(&seed).unwrap(), expected);
    env.run(&["delete", "r", "--yes"]).exits(0);
    assert!(std::fs::read_to_string(&seed).unwrap().contains("\"checkpointRef\": null"));
}

#[test]
fn checkpoints_in_the_outbox_are_imported() {
    use milepost::Save;
    use milepost::model::{StepChange, StepStatus};
    let env = TestEnvironment::repository();
    env.run(&["save", "--run", "first"]).exits(0);
    let outbox = env.outbox();
    let post_save = |save: Save| {
        let settings = Default::default();
        outbox.enqueue(&"r".parse().unwrap(), save, &settings, &milepost::internal::clock::SystemClock)
    };
    let post = |summary: &str| post_save(Save::new().summary(summary)).unwrap().snapshot_id;
    let waiting = post("waited");
    let ran = env.run(&["list", "--json"]).exits(0);
    assert_eq!(ran.json()["checkpoints"][0]["snapshot_id"], waiting.as_str(), "readers import it too");
    assert!(ran.stderr.contains("imported from the outbox"));
    post("again");
    let ran = env.run(&["doctor", "--json"]).exits(5);
    assert!(ran.json()["problems"][0]["message"].as_str().unwrap().contains("outbox"));
    env.run(&["doctor", "--fix"]).exits(0);
    assert_eq!(env.json(&["list"])["checkpoints"].as_array().unwrap().len(), 3);
    // A change that is always invalid is not queued. One that this run cannot accept is reported.
    let done = |id: &str| Save::new().change(StepChange::new(id, StepStatus::Done));
    assert!(matches!(post_save(done("")), Err(milepost::Error::Schema(_))));
    let file = post_save(done("never")).unwrap().file;
    let problems = env.run(&["doctor", "--fix", "--json"]).exits(5).json()["problems"].clone();
    assert!(problems[0]["message"].as_str().unwrap().contains(file.to_str().unwrap()), "{problems}");
    assert!(problems[0]["fix"].as_str().unwrap().contains("remove"), "{problems}");
    assert_eq!(problems.as_array().unwrap().len(), 1);
}

/// A read-only bind mount is the only way to make a folder read-only even for root. The test is skipped if
/// mounting is not allowed.
#[cfg(target_os = "linux")]
#[test]
fn a_save_is_queued_if_the_store_is_read_only() {
    let env = TestEnvironment::repository();
    let first = env.save(&["--run", "r", "--summary", "one"]);
    let within = |args: &str| {
        let script = format!(
            "mount --bind .git .git && mount -o remount,bind,ro .git || exit 99; '{}' {args}",
            env!("CARGO_BIN_EXE_milepost")
        );
        let mut command = std::process::Command::new("unshare");
        command.args(["-rm", "sh", "-c", &script]).current_dir(env.project());
        command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("HOME", env.path("home"));
        let output = command.output();
        output.ok().filter(|o| !matches!(o.status.code(), Some(99 | 1) if o.stdout.is_empty()))
    };
    let Some(output) = within("save --summary two --json") else { return };
    let saved: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(saved["queued"], true);
    assert!(saved["sequence"].is_null() && std::path::Path::new(saved["file"].as_str().unwrap()).exists());
    assert_eq!(saved["run_id"], "r", "the run is found by reading");
    let shown = within("status --json").unwrap();
    let status: serde_json::Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!(status["waiting"], 1);
    let shown: serde_json::Value = serde_json::from_slice(&within("show --json").unwrap().stdout).unwrap();
    assert_eq!(shown["checkpoint"]["snapshot_id"], first.as_str(), "reading works");
    let list = env.json(&["list"]);
    assert_eq!(list["checkpoints"][0]["snapshot_id"], saved["snapshot_id"]);
    assert_eq!(list["checkpoints"][0]["sequence"], 2);
    assert_eq!(env.json(&["status"])["waiting"], 0);
    // Other changes are queued as well and imported in order, including the checkpoints of a command.
    let commands = ["step begin s", "note noted", "task run t -- true", "step done s", "step done never"];
    for (n, args) in commands.into_iter().enumerate() {
        let output = within(&format!("{args} --json")).unwrap();
        assert_eq!(output.status.code(), Some(0), "{args}: {output:?}");
        assert_eq!(
            env.project().join(".milepost/outbox").read_dir().unwrap().count(),
            n + 1 + usize::from(n >= 2)
        );
    }
    assert_eq!(within("run --run sandboxed -- true").unwrap().status.code(), Some(0));
    let run = env.json(&["runs", "r"]);
    assert_eq!((&run["completed"], &run["log"][0]["text"]), (&serde_json::json!(["t"]), &"noted".into()));
    assert_eq!(
        (&run["step_state"]["step_id"], &run["step_state"]["step_status"]),
        (&"s".into(), &"done".into())
    );
    assert_eq!(env.json(&["runs", "sandboxed"])["runs"][0]["status"], "completed");
    // The change that the run cannot accept stays in the outbox and is reported.
    assert_eq!(env.json(&["status"])["waiting"], 1);
    assert!(env.run(&["status"]).exits(0).stderr.contains("\"never\" has not begun"));
}

#[test]
fn only_one_of_four_concurrent_completions_takes_effect() {
    let mut env = TestEnvironment::new();
    for store in server::with_server_store(["sqlite:c.db", "files:c"]) {
        env.set("MILEPOST_STORE", &store);
        for round in 0..5 {
            env.save(&["--run", "r", "--summary", &format!("{round}")]);
            let all: Vec<_> = (0..4)
                .map(|_| {
                    let mut command = env.command(&["complete", "latest", "--json"]);
                    command.stdout(std::process::Stdio::piped()).spawn().unwrap()
                })
                .collect();
            let answers: Vec<serde_json::Value> = all
                .into_iter()
                .map(|child| {
                    let done = child.wait_with_output().unwrap();
                    assert_eq!(done.status.code(), Some(0));
                    serde_json::from_slice(&done.stdout).unwrap()
                })
                .collect();
            let did = answers.iter().filter(|a| a["completed"].as_array().unwrap().len() == 1).count();
            let had = answers.iter().filter(|a| a["already_completed"] == true).count();
            assert_eq!((did, had), (1, 3), "{store}: {answers:?}");
        }
        let again = env.run(&["complete", "latest"]).exits(0);
        assert!(again.stdout.is_empty() && again.stderr.contains("was already completed"), "{again:#?}");
        let events = env.json(&["events", "--limit", "0"]);
        let kinds = events["events"].as_array().unwrap().iter();
        assert_eq!(kinds.filter(|event| event["type"] == "checkpoint_completed").count(), 5, "{store}");
    }
}

#[test]
fn doctor_reports_checkpoints_dated_in_the_future() {
    let env = TestEnvironment::new();
    std::fs::create_dir(env.project().join("old")).unwrap();
    for (name, when) in [("near", "now"), ("far", "40 days")] {
        let time = env.program("date").args(["-u", "+%Y-%m-%dT%H:%M:%S.000Z", "-d", when]).output();
        let time = String::from_utf8(time.unwrap().stdout).unwrap();
        let checkpoint = serde_json::json!({
            "id": name, "sessionId": "s", "phase": "build", "phaseNumber": 4, "createdAt": time.trim(),
            "completed": false, "taskSummary": name, "iscCriteria": [], "metadata": {},
        });
        env.write(&format!("old/ckpt-{name}-build.json"), checkpoint.to_string());
    }
    env.run(&["import", "pai", "old"]).exits(0);
    let found = env.json(&["doctor"]);
    assert_eq!(found["problems"], serde_json::json!([]), "{found}");
    let far = env.json(&["show", "far"])["checkpoint"]["snapshot_id"].clone();
    let future = found["future"].as_array().unwrap();
    assert!(future.len() == 1 && future[0]["snapshot_id"] == far && future[0]["run_id"] == "s", "{found}");
    let message = found["warnings"][0]["message"].as_str().unwrap();
    assert!(message.contains("in the future") && message.contains(far.as_str().unwrap()), "{message}");
    let shown = env.run(&["doctor"]).exits(0).stdout;
    assert!(shown.contains("1 checkpoint is dated more than a day in the future: cp_"), "{shown}");
}
