//! `run`: the end of the command's output is kept if it goes to a file, and the command keeps its streams.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};

use crate::TestEnvironment;

/// Runs a shell script under `run`, with its output in files or nowhere.
fn run(
    env: &TestEnvironment,
    flags: &[&str],
    script: &str,
    stdout: Option<File>,
    stderr: Option<File>,
) -> i32 {
    let args = [&["run", "--run", "r"], flags, &["--", "sh", "-c", script]].concat();
    let stream = |file: Option<File>| file.map_or_else(Stdio::null, Stdio::from);
    let mut command = env.command(&args);
    command.stdin(Stdio::null()).stdout(stream(stdout)).stderr(stream(stderr));
    command.status().unwrap().code().unwrap()
}

fn create(env: &TestEnvironment, name: &str) -> File {
    File::create(env.path(name)).unwrap()
}

fn append(env: &TestEnvironment, name: &str) -> File {
    OpenOptions::new().append(true).create(true).open(env.path(name)).unwrap()
}

/// The outcome in the newest checkpoint.
fn outcome(env: &TestEnvironment) -> Value {
    env.json(&["show", "latest", "--run", "r"])["checkpoint"]["command_outcomes"][0].clone()
}

#[test]
fn the_last_lines_of_a_redirected_stream_are_kept_and_shown() {
    let env = TestEnvironment::new();
    let script = "echo starting; echo 'oops: no disk' >&2; exit 7";
    assert_eq!(run(&env, &[], script, None, Some(create(&env, "err"))), 7);
    let kept = outcome(&env);
    assert_eq!((&kept["summary"], &kept["reason_code"]), (&json!("oops: no disk"), &json!("exit_7")));
    let shown = env.run(&["show", "latest", "--run", "r"]).exits(0).stdout;
    let summary = env.run(&["summary", "r"]).exits(0).stdout;
    assert!(shown.contains(": oops: no disk"), "{shown}");
    assert!(summary.contains("(exit_7)") && summary.contains("    oops: no disk"), "{summary}");
    let resume = env.json(&["resume", "r"]);
    assert!(resume["about"]["failed"].as_str().unwrap().ends_with("output: \"oops: no disk\""), "{resume}");
    assert!(resume["brief"].as_str().unwrap().contains("oops: no disk"), "{resume}");
    let said = std::fs::read_to_string(env.path("err")).unwrap();
    assert!(said.contains("milepost: exit 7 after") && !said.contains("--log"), "{said}");
}

#[test]
fn streams_are_kept_once_and_only_what_is_new() {
    let env = TestEnvironment::new();
    let script = "echo one; echo two >&2; echo three";
    let both = append(&env, "both");
    std::io::Write::write_all(&mut &both, b"from earlier\n").unwrap();
    assert_eq!(run(&env, &[], script, Some(both.try_clone().unwrap()), Some(both)), 0);
    assert_eq!(outcome(&env)["summary"], "one\ntwo\nthree");
    // Two streams that were opened separately are still one file.
    assert_eq!(run(&env, &["--rejoin"], script, Some(append(&env, "both")), Some(append(&env, "both"))), 0);
    assert_eq!(outcome(&env)["summary"], "one\ntwo\nthree");
    let (out, err) = (create(&env, "out"), create(&env, "err"));
    assert_eq!(run(&env, &["--rejoin"], script, Some(out), Some(err)), 0);
    assert_eq!(outcome(&env)["summary"], "one\nthree\ntwo", "stderr is last");
    // A lot of output, with a secret in a line that is kept.
    let token = format!("ghp_{}", "a1B2".repeat(9));
    let script = format!("seq 100000; echo {token}; printf 'b\\377d\\n'");
    assert_eq!(run(&env, &["--rejoin"], &script, Some(create(&env, "out")), None), 0);
    let summary = outcome(&env)["summary"].as_str().unwrap().to_owned();
    assert!(summary.len() <= 2048 && summary.len() > 1000, "{summary}");
    assert!(summary.ends_with("\nb\u{fffd}d") && !summary.contains(&token), "{summary}");
    let numbers: Vec<u32> = summary.lines().filter_map(|line| line.parse().ok()).collect();
    assert!(numbers.windows(2).all(|pair| pair[1] == pair[0] + 1) && numbers.ends_with(&[100_000]));
    // Lines that milepost itself writes are not output of the command.
    assert_eq!(run(&env, &["--rejoin", "--json"], "echo x >&2; exit 3", None, Some(create(&env, "err"))), 3);
    assert_eq!(outcome(&env)["summary"], "x");
}

#[test]
fn a_log_file_receives_the_output_and_is_no_change_of_the_work() {
    let env = TestEnvironment::repository();
    let script = "echo one; echo two >&2; touch f; exit 7";
    let ran = env.run(&["run", "--run", "r", "--log", "build.log", "--", "sh", "-c", script]).exits(7);
    assert_eq!(ran.stdout, "");
    assert!(ran.stderr.contains(", output in build.log\n") && !ran.stderr.contains("--log"), "{ran:#?}");
    let log = env.project().join("build.log");
    assert_eq!(std::fs::read_to_string(&log).unwrap(), "one\ntwo\n");
    assert_eq!(std::fs::metadata(&log).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(outcome(&env)["summary"], "one\ntwo");
    let workspace = &env.json(&["show", "latest", "--run", "r"])["checkpoint"]["workspace"];
    assert_eq!(workspace["files_modified"], json!(["f"]));
    assert_eq!(workspace["git"]["untracked"], json!(["f"]));
    // The log is appended to, and only the new part is kept.
    env.run(&["run", "--rejoin", "--run", "r", "--log", "build.log", "--", "echo", "three"]).exits(0);
    assert_eq!(std::fs::read_to_string(&log).unwrap(), "one\ntwo\nthree\n");
    assert_eq!(outcome(&env)["summary"], "three");
}

#[test]
fn only_a_regular_file_is_a_log() {
    let env = TestEnvironment::new();
    let pipe = env.project().join("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0)
        .unwrap();
    let elsewhere = env.path("elsewhere");
    std::os::unix::fs::symlink(&elsewhere, env.project().join("link")).unwrap();
    for log in ["pipe", "link", ".", "no/such/folder"] {
        env.run(&["run", "--log", log, "--", "touch", "started"]).exits(125);
    }
    assert!(!env.project().join("started").exists() && !elsewhere.exists());
    assert_eq!(env.run(&["runs", "--json"]).code, 10, "nothing was saved");
}

#[test]
fn nothing_is_kept_of_a_pipe_and_a_failure_says_how_to() {
    let env = TestEnvironment::new();
    let hint = "To keep the end of its output, add --log FILE, or redirect it to a file";
    let ran = env.run(&["run", "--run", "r", "--", "sh", "-c", "echo oops >&2; exit 7"]).exits(7);
    assert_eq!(ran.stderr.lines().last().unwrap().trim(), hint);
    assert_eq!(outcome(&env)["summary"], "exit 7");
    let ran = env.run(&["run", "--rejoin", "--run", "r", "--", "true"]).exits(0);
    assert!(!ran.stderr.contains(hint), "{ran:#?}");
}

#[test]
fn a_running_command_has_its_output_in_periodic_checkpoints() {
    let env = TestEnvironment::new();
    let args = [
        "run",
        "--run",
        "r",
        "--every",
        "1s",
        "--log",
        "log",
        "--",
        "sh",
        "-c",
        "echo working; exec sleep 600",
    ];
    let mut child = env.command(&args).stderr(Stdio::null()).process_group(0).spawn().unwrap();
    let start = Instant::now();
    while env.run(&["show", "r@2"]).code != 0 {
        assert!(start.elapsed() < Duration::from_secs(30));
        std::thread::sleep(Duration::from_millis(50));
    }
    // Kill milepost and the command, so that there is no last checkpoint.
    let group = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process_group(group, Signal::KILL).unwrap();
    child.wait().unwrap();
    let kept = env.json(&["show", "r@2"])["checkpoint"]["command_outcomes"][0].clone();
    assert_eq!((&kept["summary"], &kept["result"]), (&json!("working"), &json!("WARN")));
    assert_eq!(kept["reason_code"], "running");
    let resume = env.json(&["resume", "r"]);
    assert_eq!(resume["about"]["failed"], Value::Null);
    assert!(resume["brief"].as_str().unwrap().contains("output: \"working\""), "{resume}");
}
