//! Runs the examples as separate programs.

use std::path::PathBuf;
use std::process::{Command, Output};

/// The program of an example, built if needed: `cargo test` builds it, but a narrower `cargo` command may
/// not.
fn example(name: &str) -> Command {
    let own = std::env::current_exe().unwrap();
    let built: PathBuf = own.parent().unwrap().parent().unwrap().join("examples").join(name);
    if !built.exists() {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet", "--package", "milepost", "--example", name]);
        assert!(cargo.status().unwrap().success());
    }
    Command::new(built)
}

fn said(output: &Output) -> Vec<String> {
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

#[test]
fn the_orchestrator_crashes_anywhere_and_goes_on() {
    use std::os::unix::process::ExitStatusExt;
    let plan = ["fetch", "parse", "build", "test", "publish"];
    let dir = tempfile::tempdir().unwrap();
    for (n, task) in plan.iter().enumerate() {
        let output = example("orchestrator").arg(dir.path()).arg(task).output().unwrap();
        assert_eq!(output.status.signal(), Some(6), "{output:?}");
        // Every earlier task was done once, in an earlier process or in this one.
        let before: Vec<_> =
            plan[..n.saturating_sub(1)].iter().map(|t| format!("done before: {t}")).collect();
        let now = n.checked_sub(1).map(|n| format!("done now: {}", plan[n]));
        assert_eq!(said(&output), before.into_iter().chain(now).collect::<Vec<_>>());
    }
    let output = example("orchestrator").arg(dir.path()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(
        said(&output).last().unwrap(),
        "pieces: fetch parse build test publish",
        "the state was restored"
    );
}

#[test]
fn a_provider_that_panics_takes_nothing_down() {
    let dir = tempfile::tempdir().unwrap();
    let output = example("panicking_provider").arg(dir.path()).arg("400").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let counts: serde_json::Value = serde_json::from_str(&said(&output)[0]).unwrap();
    assert!(counts["panicked"].as_u64().unwrap() > 0 && counts["refused"] == 0, "{counts}");
    assert!(counts["given"].as_u64().unwrap() > 0 && counts["given"] == counts["saved"], "{counts}");
    assert!(
        String::from_utf8_lossy(&output.stderr)
            .contains("not saved: the provider panicked: tick 2 is a bad one")
    );
}

#[test]
fn an_async_program_works_on_blocking_threads() {
    let dir = tempfile::tempdir().unwrap();
    for when in ["now", "before"] {
        let output = example("async_worker").arg(dir.path()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let tasks = ["fetch", "parse", "build", "publish"];
        assert_eq!(said(&output), tasks.map(|task| format!("{task}: done {when}")));
    }
}

#[test]
fn a_session_tells_what_it_captured() {
    let dir = tempfile::tempdir().unwrap();
    let made = Command::new("git").args(["init", "-q"]).current_dir(dir.path()).status().unwrap();
    assert!(made.success());
    let output = example("session").arg(dir.path()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let expected = [
        "started, every 10m 0s",
        "checkpoint 1",
        "checkpoint 2",
        "checkpoint 3",
        "stopped after 3 checkpoints",
        "files: made-by-the-session",
        "completed after 0s",
    ];
    assert_eq!(said(&output), expected);
}
