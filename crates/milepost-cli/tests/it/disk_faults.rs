//! Disks that fail to write or that lose data. A save is never acknowledged without a successful sync, and
//! the next save first writes and syncs the unsynced data again. A damaged WAL is reported until
//! `doctor --fix` has recovered what it can. strace injects the failures into the real binary.

use std::process::Command;

use crate::environment::{Ran, TestEnvironment};

/// Reports whether strace works on this machine.
fn can_trace() -> bool {
    let traced = Command::new("strace").args(["-qq", "-e", "trace=none", "true"]).status();
    traced.is_ok_and(|status| status.success())
}

/// Runs the binary under strace, which gets the arguments in `strace`.
fn traced(env: &TestEnvironment, strace: &[&str], args: &[&str]) -> Ran {
    let mut command = env.program("strace");
    command.args(["-f", "-qq"]).args(strace).arg(env!("CARGO_BIN_EXE_milepost")).args(args);
    crate::environment::finished(&mut command, None)
}

/// Runs the binary while every sync from number `first` on fails.
fn failing(env: &TestEnvironment, first: u32, args: &[&str]) -> Ran {
    let inject = format!("inject=fsync,fdatasync:error=EIO:when={first}+");
    traced(env, &["-e", "trace=fsync,fdatasync", "-o", "/dev/null", "-e", &inject], args)
}

fn summaries(env: &TestEnvironment) -> Vec<String> {
    let rows = env.json(&["list", "--run", "r"])["checkpoints"].clone();
    let summary = |row: &serde_json::Value| row["task_summary"].as_str().unwrap_or_default().to_owned();
    rows.as_array().unwrap().iter().rev().map(summary).collect()
}

fn save(summary: &str) -> Vec<&str> {
    vec!["save", "--run", "r", "--no-capture", "--summary", summary]
}

#[test]
fn a_save_that_cannot_be_synced_is_not_acknowledged() {
    if !can_trace() {
        return;
    }
    for store in ["sqlite:st.db", "files:st"] {
        let mut env = TestEnvironment::new();
        env.set("MILEPOST_STORE", store);
        env.save(&save("one")[1..]);
        for first in 1..=4 {
            let ran = failing(&env, first, &save(&format!("failed {first}")));
            if ran.code == 0 {
                // The save needed fewer than `first` syncs, but it needs at least one.
                assert!(first > 1, "{store}: a save was acknowledged without a sync");
                break;
            }
            let ran = ran.exits(1);
            let told_apart = ran.stderr.contains("checkpoint_not_acknowledged")
                && ran.stderr.contains("may appear as cp_")
                || ran.stderr.contains("checkpoint_atomic_write_failed");
            assert!(told_apart, "{store}, from sync {first} on: {}", ran.stderr);
            if store.starts_with("sqlite") && first == 1 {
                assert!(ran.stderr.contains("checkpoint_not_acknowledged"), "{}", ran.stderr);
            }
        }
        env.save(&save("after")[1..]);
        // A save that was reported as failed may appear, in its order. An acknowledged save must appear.
        let found = summaries(&env);
        assert_eq!((&*found[0], &**found.last().unwrap()), ("one", "after"), "{store}: {found:?}");
        env.run(&["verify"]).exits(0);
    }
}

#[test]
fn a_save_recovers_from_one_failed_sync_by_writing_everything_again() {
    if !can_trace() {
        return;
    }
    let mut env = TestEnvironment::new();
    env.set("MILEPOST_STORE", "sqlite:st.db");
    env.save(&save("one")[1..]);
    let inject = ["-e", "trace=fdatasync", "-o", "/dev/null", "-e", "inject=fdatasync:error=EIO:when=1"];
    traced(&env, &inject, &save("two")).exits(0);
    assert_eq!(summaries(&env), ["one", "two"]);
    env.run(&["verify"]).exits(0);
}

#[test]
fn after_a_failed_sync_the_next_save_first_writes_and_syncs_the_wal_again() {
    if !can_trace() {
        return;
    }
    let mut env = TestEnvironment::new();
    env.set("MILEPOST_STORE", "sqlite:st.db");
    env.save(&save("one")[1..]);
    failing(&env, 1, &save("failed")).exits(1);
    let rewrites = |env: &TestEnvironment| {
        let log = env.path("trace");
        let out = log.to_string_lossy().into_owned();
        let calls = "trace=write,pwrite64,fdatasync";
        traced(env, &["-y", "-e", calls, "-o", &out], &save("next")).exits(0);
        let trace = std::fs::read_to_string(log).unwrap();
        let of_wal = trace.lines().filter(|line| line.contains("st.db-wal>"));
        // SQLite itself writes with pwrite64.
        let before_sync = of_wal.take_while(|line| !line.contains("fdatasync"));
        before_sync.filter(|line| line.contains(" write(") || line.starts_with("write(")).count()
    };
    assert!(rewrites(&env) >= 2, "the header and the frames are written again before the first sync");
    assert_eq!(rewrites(&env), 0, "the WAL is rewritten only once");
}

#[test]
fn a_damaged_wal_is_reported_until_the_doctor_has_recovered_what_it_can() {
    let env = TestEnvironment::repository();
    env.run(&["init", "--agents", "none"]).exits(0);
    for n in ["one", "two", "three"] {
        env.save(&save(n)[1..]);
    }
    let wal = env.project().join(".git/milepost/milepost.db-wal");
    let mut bytes = std::fs::read(&wal).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    #[allow(clippy::disallowed_methods, reason = "the test damages the file")]
    std::fs::write(&wal, bytes).unwrap();
    for read in [&["list"][..], &["status"], &["runs"]] {
        let ran = env.run(read).exits(3);
        assert!(ran.stderr.contains("missing from the store"), "{ran:#?}");
    }
    assert_eq!(env.run(&["verify", "--json"]).exits(5).reason(), "checkpoint_integrity_mismatch");
    env.run(&["doctor"]).exits(5);
    // A save still works, with a warning and an unused sequence number.
    let saved = env.run(&["save", "--run", "r", "--no-capture", "--summary", "four", "--json"]).exits(0);
    assert_eq!(saved.json()["sequence"], 4);
    assert!(saved.stderr.contains("missing from the store"), "{saved:#?}");
    // The hook warns the user when a session begins, and still does its work.
    let payload = serde_json::json!({ "session_id": "s1", "cwd": env.project(), "hook_event_name": "SessionStart",
        "source": "startup" });
    let told = env.run_on(payload.to_string().as_bytes(), &["hook", "claude-code"]).exits(0).json();
    assert!(told["systemMessage"].as_str().unwrap().contains("missing from the store"), "{told}");
    let fixed = env.run(&["doctor", "--fix"]).exits(0);
    assert!(
        fixed.stdout.contains("checkpoints recovered: ") && fixed.stdout.contains("milepost.db.damaged-1"),
        "{fixed:#?}"
    );
    assert_eq!(summaries(&env), ["one", "two", "three", "four"]);
    env.run(&["verify"]).exits(0);
}
