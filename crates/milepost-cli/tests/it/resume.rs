//! `resume`: what it shows, starts, reruns and dismisses.

use serde_json::json;

use crate::TestEnvironment;

/// Creates a run with a phase, a task and a failed command, and kills its owner.
fn stopped(env: &TestEnvironment) {
    let mut owner = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let pid = owner.id().to_string();
    env.run(&["start", "--run", "nightly", "--title", "The nightly build", "--owner-pid", &pid]).exits(0);
    env.run(&["task", "set", "link", "pending", "--title", "Link it", "--run", "nightly"]).exits(0);
    let failed =
        ["record", "--kind", "shell", "--name", "make all", "--result", "FAIL", "--duration-ms", "5"];
    env.run(&[&failed[..], &["--reason-code", "exit_2", "--run", "nightly"]].concat()).exits(0);
    env.save(&["--run", "nightly", "--phase", "BUILD", "--phase-number", "4", "--summary", "compiling"]);
    owner.kill().unwrap();
    owner.wait().unwrap();
}

#[test]
fn resume_reports_a_missing_store_and_an_empty_one() {
    let env = TestEnvironment::new();
    assert_eq!(env.run(&["resume", "--json"]).exits(10).reason(), "store_missing");
    env.run(&["init"]).exits(0);
    let ran = env.run(&["resume"]).exits(4);
    assert!(ran.stderr.contains("nothing to resume"), "{ran:#?}");
    assert_eq!(env.run(&["resume", "--json"]).exits(4).json()["decision"]["eligible"], false);
    env.run(&["resume", "nobody"]).exits(14);
    env.run(&["resume", "../x"]).exits(2);
}

#[test]
fn resume_shows_class_phase_and_next_actions_and_only_reads() {
    let env = TestEnvironment::repository();
    stopped(&env);
    let database = env.project().join(".git/milepost/milepost.db");
    let before = std::fs::read(&database).unwrap();
    let shown = env.json(&["resume"]);
    assert_eq!(shown["decision"]["class"], "process_crash");
    assert_eq!(shown["decision"]["phase"], json!({ "name": "BUILD", "number": 4 }));
    assert_eq!(shown["decision"]["next_actions"], json!(["Link it"]));
    assert!(shown["about"]["failed"].as_str().unwrap().starts_with("make all (exit_2)"));
    let brief = env.run(&["resume"]).exits(0).stdout;
    assert!(
        brief.starts_with("---\n") && brief.contains("The nightly build") && brief.contains("Link it"),
        "{brief}"
    );
    let small = env.json(&["resume", "--budget", "120"]);
    assert!(small["tokens"].as_u64().unwrap() <= 120 && !small["omitted"].as_array().unwrap().is_empty());
    assert!(env.run(&["resume", "--check"]).exits(0).stdout.contains("resume_allowed"));
    assert_eq!(std::fs::read(&database).unwrap(), before);
    assert_eq!(
        env.json(&["events", "--run", "nightly"])["events"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|e| e["type"] == "resumed")
            .count(),
        0
    );
}

#[test]
fn resume_start_continues_a_run_and_a_second_start_is_refused() {
    let env = TestEnvironment::repository();
    stopped(&env);
    let id = env.run(&["resume", "--start"]).exits(0).line().to_owned();
    let run = env.json(&["runs", &id]);
    assert_eq!(run["runs"][0]["title"], "The nightly build");
    assert_eq!(run["tasks"][0]["title"], "Link it");
    assert!(run["runs"][0]["parent"].is_string());
    let refused = env.run(&["resume", "nightly", "--start", "--json"]).exits(1);
    assert_eq!(refused.reason(), "resume_claimed");
    assert!(refused.stderr.contains(&id));
    env.run(&["resume", "nightly", "--check"]).exits(4);
}

#[test]
fn a_dismissed_run_is_no_longer_offered() {
    let env = TestEnvironment::repository();
    stopped(&env);
    env.run(&["resume", "--dismiss"]).exits(0);
    env.run(&["resume"]).exits(4);
    assert_eq!(env.json(&["status"])["stopped"], json!([]));
    assert!(
        env.run(&["resume", "nightly"]).stdout.contains("The nightly build"),
        "it is still shown by name"
    );
}

#[test]
fn resume_rerun_runs_the_recorded_command_again() {
    let env = TestEnvironment::repository();
    // The command fails until the file `mended` exists.
    let ran = env.run(&["run", "--run", "job", "--", "sh", "-c", "echo tried >> tries; test -e mended"]);
    assert_eq!(ran.code, 1);
    env.write("mended", "");
    let ran = env.run(&["resume", "job", "--rerun", "--json"]).exits(15);
    assert_eq!(ran.reason(), "confirmation_needed", "the command is shown, without a prompt");
    assert!(ran.stderr.contains("sh -c 'echo tried >> tries; test -e mended'"), "{ran:#?}");
    env.run(&["resume", "job", "--rerun", "--yes"]).exits(0);
    assert_eq!(std::fs::read_to_string(env.project().join("tries")).unwrap(), "tried\ntried\n");
    assert_eq!(env.json(&["runs", "job"])["runs"][0]["status"], "completed");
    assert_eq!(
        env.run(&["resume", "job", "--rerun", "--json"]).exits(1).reason(),
        "resume_missing_checkpoint"
    );
    env.save(&["--run", "hand"]);
    env.run(&["resume", "hand", "--rerun"]).exits(2);
}

#[test]
fn a_redacted_command_is_not_rerun() {
    let env = TestEnvironment::repository();
    let secret = ["ghp", "_0123456789abcdefghijABCDEFGHIJ012345"].concat();
    env.run(&["run", "--run", "job", "--", "sh", "-c", &format!("exit 3 # {secret}")]).exits(3);
    let refused = env.run(&["resume", "job", "--rerun", "--json"]).exits(1);
    assert_eq!(refused.reason(), "state_redacted");
    assert!(!refused.stderr.contains(&secret));
}

#[test]
fn resume_falls_back_to_the_newest_intact_checkpoint() {
    let env = TestEnvironment::repository();
    env.save(&["--run", "r", "--summary", "good"]);
    env.save(&["--run", "r", "--summary", "bad", "--status", "paused"]);
    let db = rusqlite::Connection::open(env.project().join(".git/milepost/milepost.db")).unwrap();
    let hurt = db.execute("UPDATE append_log SET body = zeroblob(10) WHERE sequence = 2", []).unwrap()
        + db.execute("UPDATE whole SET data = zeroblob(10) WHERE stamp IN (SELECT stamp FROM checkpoint WHERE sequence = 2)", []).unwrap();
    assert!(hurt > 0);
    drop(db);
    let shown = env.run(&["resume", "--json"]).exits(3);
    let document: serde_json::Value = serde_json::from_str(shown.stdout.trim()).unwrap();
    assert_eq!(document["decision"]["fell_back_from"].as_array().unwrap().len(), 1);
}

#[test]
fn an_agent_is_started_in_the_worktree_with_the_brief() {
    let mut env = TestEnvironment::repository();
    stopped(&env);
    let bin = env.path("bin");
    std::fs::create_dir(&bin).unwrap();
    let agent = bin.join("claude");
    #[allow(clippy::disallowed_methods, reason = "a test's own file")]
    std::fs::write(&agent, "#!/bin/sh\npwd > \"$HOME/started\"\necho \"$MILEPOST_RESUME\" >> \"$HOME/started\"\nprintf '%s' \"$1\" >> \"$HOME/started\"\n").unwrap();
    std::process::Command::new("chmod").arg("+x").arg(&agent).status().unwrap();
    env.set("PATH", &format!("{}:/usr/bin:/bin", bin.display()));
    env.run(&["resume", "--with", "claude-code"]).exits(0);
    let started = std::fs::read_to_string(env.path("home/started")).unwrap();
    let mut lines = started.lines();
    assert_eq!(lines.next().unwrap(), env.project().to_string_lossy());
    assert_eq!(lines.next().unwrap(), "nightly");
    assert!(started.contains("make all") && started.contains("Link it"));
    env.run(&["resume", "--with", "codex"]).exits(127);
    env.run(&["resume", "--with", "nobody"]).exits(2);
}

#[test]
fn resume_from_a_brief_file_needs_no_store() {
    let env = TestEnvironment::new();
    let brief = "---\ncheckpoint: chk-1\ncreated: 2026-01-01T00:00:00Z\nanchor: main\n---\n\n## Problem\nIt leaks.\n\n### Next Actions\n- Find the leak\n";
    env.write("b.md", brief);
    let shown = env.run(&["resume", "--from", "b.md"]).exits(0);
    assert!(shown.stdout.contains("Find the leak") && shown.stderr.contains("brief check"), "{shown:#?}");
    assert_eq!(env.json(&["resume", "--from", "b.md"])["decision"]["eligible"], true);
    env.write("bytes.md", [0xff, 0xfe, 0x00]);
    env.run(&["resume", "--from", "bytes.md"]).exits(1);
    env.run(&["resume", "--from", "missing.md"]).exits(2);
    assert!(!env.project().join(".milepost").exists());
}
