//! `run`: a command that the user interrupts has neither crashed nor failed.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::Stdio;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::TestEnvironment;
use crate::run::{is_ignored, send, started};

const WAIT: &str = "echo ready; exec sleep 600";

/// The only stopped run, as `status` reports it.
fn stopped(env: &TestEnvironment) -> Value {
    let status = env.json(&["status"]);
    assert_eq!(status["stopped"].as_array().map(Vec::len), Some(1), "{status}");
    status["stopped"][0].clone()
}

#[test]
fn ctrl_c_on_a_terminal_is_an_interruption_by_the_user() {
    if is_ignored(Signal::INT) {
        return;
    }
    let env = TestEnvironment::new();
    let milepost = env!("CARGO_BIN_EXE_milepost");
    let line = format!("exec {milepost} run --run r -- sh -c '{WAIT}'");
    let mut terminal = env.program("script");
    terminal.args(["-qec", &line, "/dev/null"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut terminal = terminal.spawn().unwrap();
    let mut keyboard = terminal.stdin.take().unwrap();
    let mut screen = BufReader::new(terminal.stdout.take().unwrap());
    let mut line = String::new();
    while line.trim_end() != "ready" {
        line.clear();
        assert!(screen.read_line(&mut line).unwrap() > 0, "the command did not start");
    }
    keyboard.write_all(b"\x03").unwrap();
    let mut rest = String::new();
    screen.read_to_string(&mut rest).unwrap();
    assert_eq!(terminal.wait().unwrap().code(), Some(130), "{rest}");
    assert!(rest.contains("interrupted after ") && !rest.contains("--log"), "{rest}");
    let run = stopped(&env);
    assert_eq!((&run["class"], &run["status"]), (&json!("interrupted"), &json!("in_progress")));
    let resume = env.json(&["resume", "r"]);
    assert_eq!(resume["about"]["failed"], Value::Null);
    assert!(!resume["brief"].as_str().unwrap().contains("Fix the failure"), "{resume}");
    let check = env.run(&["resume", "r", "--check"]).exits(0).stdout;
    assert_eq!(check, "r can be continued: you interrupted it (resume_allowed)\n");
    // The run continues, and the reason is cleared.
    env.run(&["run", "--rejoin", "--run", "r", "--", "true"]).exits(0);
    assert_eq!(env.json(&["status"])["stopped"], json!([]));
}

#[test]
fn the_reason_depends_on_the_signal() {
    for (signal, class, why) in [
        (Signal::INT, "interrupted", "you interrupted it"),
        (Signal::TERM, "process_crash", "the process was stopped by a signal"),
        (Signal::HUP, "process_crash", "the process was stopped by a signal"),
    ] {
        if is_ignored(signal) {
            continue;
        }
        let env = TestEnvironment::new();
        let (mut child, _out) = started(&env, &["run", "--run", "r", "--", "sh", "-c", WAIT]);
        send(&child, signal);
        child.wait().unwrap();
        assert_eq!(stopped(&env)["class"], class);
        let check = env.run(&["resume", "r", "--check"]).exits(0).stdout;
        assert!(check.contains(why), "{check}");
    }
}

#[test]
fn a_command_that_handles_the_interruption_is_judged_by_its_exit_code() {
    if is_ignored(Signal::INT) {
        return;
    }
    for (code, status) in [(130, "in_progress"), (3, "in_progress"), (0, "completed")] {
        let env = TestEnvironment::new();
        let script = format!("trap 'exit {code}' INT; echo ready; while :; do sleep 0.05; done");
        let (mut child, _out) = started(&env, &["run", "--run", "r", "--", "sh", "-c", &script]);
        send(&child, Signal::INT);
        assert_eq!(child.wait().unwrap().code(), Some(code));
        assert_eq!(env.json(&["runs", "r"])["runs"][0]["status"], status);
        if code != 0 {
            assert_eq!(stopped(&env)["class"], "interrupted");
        }
    }
}
