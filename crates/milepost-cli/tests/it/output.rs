//! Commands whose stdout cannot be written: a completed change stays, and stderr reports it.

use std::fs::File;
use std::process::Stdio;

use crate::TestEnvironment;

/// Runs a command whose stdout is a full disk, and returns its exit code and stderr.
fn on_full_disk(env: &TestEnvironment, args: &[&str]) -> (i32, String) {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let child = env.command(args).stdout(full).stderr(Stdio::piped()).spawn().unwrap();
    let done = child.wait_with_output().unwrap();
    (done.status.code().unwrap(), String::from_utf8(done.stderr).unwrap())
}

#[test]
fn a_save_reports_that_it_saved_when_stdout_fails() {
    let env = TestEnvironment::new();
    for json in [false, true] {
        let summary = format!("json {json}");
        let mut args = vec!["save", "--run", "r", "--summary", &summary];
        args.extend(json.then_some("--json"));
        let (code, said) = on_full_disk(&env, &args);
        let saved = env.json(&["list", "--limit", "1"])["checkpoints"][0].clone();
        assert_eq!(saved["task_summary"], summary.as_str());
        let id = saved["snapshot_id"].as_str().unwrap();
        assert_eq!(code, 3, "{said}");
        assert!(
            said.contains(&format!("checkpoint {id} was saved, but the output could not be written")),
            "{said}"
        );
        assert!(said.contains("output_failed") && !said.contains("atomic_write"), "{said}");
    }
}

#[test]
fn every_command_reports_its_change_when_stdout_fails() {
    let env = TestEnvironment::new();
    env.save(&["--run", "r", "--summary", "one", "--status", "completed"]);
    env.save(&["--run", "gone", "--summary", "one"]);
    env.run(&["export", "jsonl", "r", "r.jsonl"]).exits(0);
    for (args, done) in [
        (&["init"][..], "is ready"),
        (&["start", "--run", "s"], "run s was started"),
        (&["step", "begin", "a", "--run", "s"], "was saved"),
        (&["task", "set", "t", "done", "--run", "s"], "was saved"),
        (&["note", "n", "--run", "s", "--json"], "the change to run s was recorded"),
        (&["criterion", "set", "c", "pending", "--run", "s", "--json"], "was recorded"),
        (&["decide", "d", "--run", "s", "--json"], "was recorded"),
        (&["context", "set", "--pressure", "low", "--run", "s", "--json"], "was recorded"),
        (&["finish", "--run", "s"], "was saved"),
        (&["mark", "latest", "--pin", "--run", "r"], "the marks of"),
        (&["complete", "latest", "--run", "gone"], "is completed"),
        (&["delete", "gone", "--yes"], "run gone was deleted"),
        (&["prune", "--yes"], "the store was pruned"),
        (&["doctor", "--fix"], "fixed"),
        (&["import", "jsonl", "r.jsonl", "--store", "other.db"], "1 checkpoint imported"),
        (&["export", "bundle", "r", "r.bundle"], "1 checkpoint exported"),
        (&["copy", "--from", "other.db", "--to", "files:f"], "1 checkpoint copied"),
        (&["agents", "install", "gemini", "--project"], "files were changed"),
    ] {
        let (code, said) = on_full_disk(&env, args);
        assert_eq!(code, 3, "{args:?}: {said}");
        assert!(
            said.contains(done) && said.contains("but the output could not be written"),
            "{args:?}: {said}"
        );
    }
    assert_eq!(env.run(&["runs", "gone"]).code, 14);
    // Commands that only read have no change to report.
    for args in [&["list"][..], &["show"], &["status"], &["prune", "--dry-run"], &["verify"]] {
        let (code, said) = on_full_disk(&env, args);
        assert!(code == 1 && !said.contains("but the output could not be written"), "{args:?}: {said}");
    }
}
