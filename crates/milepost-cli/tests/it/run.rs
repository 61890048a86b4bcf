//! `run`: the command keeps its own streams, signals and exit code, and its checkpoints are saved.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::TestEnvironment;

fn sources(env: &TestEnvironment, run: &str) -> Vec<Vec<String>> {
    let list = env.json(&["list", "--run", run]);
    let details = |c: &Value| serde_json::from_value(c["source_details"].clone()).unwrap();
    list["checkpoints"].as_array().unwrap().iter().rev().map(details).collect()
}

/// Starts a command and waits until it prints `ready`.
pub(crate) fn started(env: &TestEnvironment, args: &[&str]) -> (Child, BufReader<std::process::ChildStdout>) {
    // A separate process group: the kernel ignores stop signals in an orphaned group, and the group of the
    // tests may be orphaned.
    let mut command = env.command(args);
    command.process_group(0).stdout(Stdio::piped()).stderr(Stdio::null()).stdin(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    (child, out)
}

/// Reports whether the tests were started with a signal ignored, as by nohup or as a background job.
pub(crate) fn is_ignored(signal: Signal) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    let mask = u64::from_str_radix(mask.trim(), 16).unwrap();
    mask & (1 << (signal.as_raw() - 1)) != 0
}

pub(crate) fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap(), signal).unwrap();
}

#[test]
fn a_command_gets_a_first_and_a_last_checkpoint() {
    let env = TestEnvironment::new();
    let script = "cat; echo \"$MILEPOST_RUN ${MILEPOST_SESSION%%_*}\"; echo talk >&2";
    let args = ["run", "--run", "r", "--title", "T", "--plan", "p.md", "--", "sh", "-c", script];
    let ran = env.run_on(b"stdin\n", &args).exits(0);
    assert_eq!(ran.stdout, "stdin\nr session\n");
    let said: Vec<_> = ran.stderr.lines().collect();
    assert_eq!(
        (said.len(), said[0], said[2]),
        (3, "talk", "  2 checkpoints in this session: milepost summary r")
    );
    assert!(said[1].starts_with("milepost: exit 0 after 0s"), "{ran:#?}");
    let run = &env.json(&["runs", "r"])["runs"][0];
    assert_eq!((&run["status"], &run["profile"]), (&json!("completed"), &json!("session")));
    assert_eq!((&run["title"], &run["plan"], &run["checkpoints"]), (&json!("T"), &json!("p.md"), &json!(2)));
    assert_eq!(sources(&env, "r"), [["manual", "session_start"], ["manual", "child_exit"]]);
    let outcome = &env.json(&["show", "r@2"])["checkpoint"]["command_outcomes"][0];
    assert_eq!((&outcome["result"], &outcome["summary"]), (&json!("PASS"), &json!("exit 0")));
    env.run(&["run", "--run", "bad", "--", "sh", "-c", "exit 42"]).exits(42);
    assert_eq!(sources(&env, "bad")[1], ["error_boundary", "child_exit"]);
    assert_eq!(env.json(&["runs", "bad"])["runs"][0]["status"], "failed");
}

#[test]
fn json_lines_go_to_stderr_and_the_last_has_a_summary() {
    let env = TestEnvironment::new();
    let ran = env.run(&["run", "--json", "--", "sh", "-c", "echo out; exit 3"]).exits(3);
    assert_eq!(ran.stdout, "out\n");
    let lines: Vec<Value> = ran.stderr.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 2);
    for line in &lines {
        assert_eq!(line["schema"], "milepost.run/1");
    }
    assert_eq!((&lines[0]["sequence"], &lines[1]["sequence"]), (&json!(1), &json!(2)));
    assert_eq!((&lines[1]["status"], &lines[1]["source"]), (&json!("failed"), &json!("error_boundary")));
    let summary = &lines[1]["summary"];
    assert_eq!(
        (&summary["exit"], &summary["result"], &summary["checkpoints"]),
        (&json!(3), &json!("FAIL"), &json!(2))
    );
}

#[test]
fn failures_of_run_itself_have_their_own_exit_codes() {
    let env = TestEnvironment::new();
    let ran = env.run(&["run", "--", "no-such-program"]).exits(127);
    assert!(ran.stderr.starts_with("Error: no-such-program was not found: "), "{ran:#?}");
    env.run(&["run", "--", "/etc/passwd"]).exits(126);
    env.run(&["run", "--rejoin", "--run", "typo", "--", "no-such-program"]).exits(127);
    assert_eq!(env.json(&["runs"])["runs"], json!([]), "nothing happened, so there is no run");
    for every in ["0s", "-5m", "soon", "0"] {
        let ran = env.run(&["run", "--every", every, "--json", "--", "touch", "started"]).exits(125);
        assert_eq!(ran.reason(), "usage");
    }
    env.run(&["run", "--rejoin", "--", "touch", "started"]).exits(125);
    env.save(&["--run", "there"]);
    let ran = env.run(&["run", "--run", "there", "--json", "--", "touch", "started"]).exits(125);
    assert!(ran.stderr.contains("--rejoin"), "{ran:#?}");
    assert!(!env.project().join("started").exists());
    // A run that existed before stays, and records what happened.
    env.run(&["run", "--rejoin", "--run", "there", "--", "no-such-program"]).exits(127);
    let there = &env.json(&["runs", "there"])["runs"][0];
    assert_eq!((&there["status"], &there["checkpoints"]), (&json!("failed"), &json!(3)));
    // A long interval is accepted.
    env.run(&["run", "--every", "30d", "--", "true"]).exits(0);
}

#[test]
fn a_run_is_rejoined_only_without_a_live_owner() {
    let env = TestEnvironment::new();
    let (mut child, _out) =
        started(&env, &["run", "--rejoin", "--run", "r", "--", "sh", "-c", "echo ready; exec sleep 5"]);
    let ran = env.run(&["run", "--rejoin", "--run", "r", "--json", "--", "true"]).exits(125);
    assert_eq!(ran.reason(), "resume_run_active");
    assert!(ran.stderr.contains(&child.id().to_string()), "{ran:#?}");
    assert_eq!(env.json(&["runs"])["runs"][0]["owner_alive"], true);
    // A nested `run` ignores MILEPOST_RUN and starts a new run.
    env.run_with(&[("MILEPOST_RUN", "r")], &["run", "--run", "inner", "--", "true"]).exits(0);
    let ran = env.run_with(&[("MILEPOST_RUN", "r")], &["run", "--json", "--", "true"]).exits(0);
    assert!(!ran.stderr.contains("\"run_id\":\"r\""), "{ran:#?}");
    send(&child, Signal::KILL);
    child.wait().unwrap();
    assert_eq!(env.json(&["runs", "r"])["runs"][0]["owner_alive"], false);
    env.run(&["run", "--rejoin", "--run", "r", "--", "true"]).exits(0);
    let reasons: Vec<_> = sources(&env, "r").into_iter().map(|details| details[1].clone()).collect();
    assert_eq!(reasons, ["session_start", "session_start", "child_exit"]);
}

#[test]
fn a_completed_run_starts_a_new_round_unless_once() {
    let env = TestEnvironment::new();
    let milepost = env!("CARGO_BIN_EXE_milepost");
    let script = format!("{milepost} task is t done || {milepost} -q task run t -- echo worked");
    let night = |flags: &[&str]| {
        let args = [&["run", "--rejoin", "--run", "nightly"], flags, &["--", "sh", "-c", &script]].concat();
        env.run(&args).exits(0)
    };
    assert_eq!(night(&["--once"]).stdout, "worked\n");
    let once = night(&["--once"]);
    assert_eq!(
        (once.stdout.as_str(), once.stderr.as_str()),
        ("", "nightly is already completed; the command was not run\n")
    );
    assert_eq!(night(&["--once", "-q"]).stderr, "");
    let line: Value = serde_json::from_str(&night(&["--once", "--json"]).stderr).unwrap();
    assert_eq!((&line["run_id"], &line["status"]), (&json!("nightly"), &json!("completed")));
    assert_eq!((&line["snapshot_id"], &line["summary"]), (&Value::Null, &Value::Null));
    let saves = |env: &TestEnvironment| env.json(&["runs", "nightly"])["runs"][0]["checkpoints"].clone();
    assert_eq!(saves(&env), 3);
    // What was recorded after the end belongs to the first round.
    env.run(&["note", "--run", "nightly", "after the end"]).exits(0);
    assert_eq!(night(&[]).stdout, "worked\n");
    let list = env.json(&["list", "--run", "nightly"])["checkpoints"].clone();
    let statuses: Vec<_> = list.as_array().unwrap().iter().rev().map(|c| c["status"].clone()).collect();
    let (open, done) = (json!("in_progress"), json!("completed"));
    assert_eq!(statuses, [&open, &open, &done, &done, &open, &open, &done].map(Clone::clone));
    assert_eq!(env.json(&["show", "nightly@4"])["checkpoint"]["log"][0]["text"], "after the end");
    assert_eq!(env.json(&["show", "nightly@5"])["checkpoint"]["tasks"], json!([]));
    // A failed round is continued.
    env.run(&["run", "--rejoin", "--run", "nightly", "--", "sh", "-c", &format!("{script}; exit 3")])
        .exits(3);
    assert_eq!(night(&[]).stdout, "");
    env.run(&["run", "--once", "--run", "nightly", "--", "true"]).exits(2);
}

#[test]
fn a_round_waits_until_the_previous_command_has_ended() {
    let env = TestEnvironment::new();
    let milepost = env!("CARGO_BIN_EXE_milepost");
    let script = format!("{milepost} -q finish >&2; echo ready; exec sleep 600");
    let (mut child, _out) = started(&env, &["run", "--rejoin", "--run", "r", "--", "sh", "-c", &script]);
    assert_eq!(env.json(&["runs", "r"])["runs"][0]["status"], "completed");
    let ran = env.run(&["run", "--rejoin", "--run", "r", "--json", "--", "true"]).exits(125);
    assert_eq!(ran.reason(), "resume_run_active");
    send(&child, Signal::TERM);
    child.wait().unwrap();
    env.run(&["run", "--rejoin", "--run", "r", "--", "true"]).exits(0);
}

#[test]
fn signals_reach_the_command_and_a_last_checkpoint_is_saved() {
    for (signal, name, code) in [
        (Signal::TERM, "TERM", 143),
        (Signal::INT, "INT", 130),
        (Signal::HUP, "HUP", 129),
        (Signal::QUIT, "QUIT", 131),
    ] {
        if is_ignored(signal) {
            continue;
        }
        let env = TestEnvironment::new();
        let (mut child, _out) =
            started(&env, &["run", "--run", "r", "--", "sh", "-c", "echo ready; exec sleep 600"]);
        send(&child, signal);
        let status = child.wait().unwrap();
        assert_eq!(status.code(), Some(code), "{name}: {status:?}");
        let body = &env.json(&["show"])["checkpoint"];
        assert_eq!(
            (&body["status"], &body["source"]),
            (&json!("in_progress"), &json!("error_boundary")),
            "{name}: the run stays open and can be resumed"
        );
        let outcome = &body["command_outcomes"][0];
        assert_eq!(outcome["summary"], format!("ended by SIG{name}"));
        assert_eq!(outcome["reason_code"], format!("signal_{}", code - 128));
        let run = &env.json(&["runs", "r"])["runs"][0];
        assert_eq!((&run["status"], &run["owner_alive"]), (&json!("in_progress"), &json!(false)));
    }
    // A command that handles the signal decides its own exit code.
    let env = TestEnvironment::new();
    let script = "trap 'echo caught; exit 5' TERM; echo ready; while :; do sleep 0.05; done";
    let (mut child, mut out) = started(&env, &["run", "--run", "r", "--", "sh", "-c", script]);
    send(&child, Signal::TERM);
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    assert_eq!((line.as_str(), child.wait().unwrap().code()), ("caught\n", Some(5)));
}

#[test]
fn stop_and_continue_signals_also_reach_the_command() {
    let env = TestEnvironment::new();
    let (mut child, mut out) =
        started(&env, &["run", "--run", "r", "--", "sh", "-c", "echo ready; echo $$; exec sleep 1"]);
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    let state = |pid: &str| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit(')').next().and_then(|rest| rest.trim_start().chars().next()).unwrap_or('-')
    };
    let both = |wanted: char| {
        let start = Instant::now();
        while state(line.trim()) != wanted || state(&child.id().to_string()) != wanted {
            assert!(
                start.elapsed() < Duration::from_secs(10),
                "{wanted}: {} {}",
                state(line.trim()),
                state(&child.id().to_string())
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    send(&child, Signal::TSTP);
    both('T');
    send(&child, Signal::CONT);
    both('S');
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn an_ignored_hangup_signal_stays_ignored() {
    let env = TestEnvironment::new();
    let milepost = env!("CARGO_BIN_EXE_milepost");
    let script = format!("trap '' HUP; exec {milepost} run --run r -- sh -c 'echo ready; exec sleep 0.3'");
    let mut child = std::process::Command::new("sh")
        .args(["-c", &script])
        .current_dir(env.project())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    send(&child, Signal::HUP);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn the_timer_saves_while_the_command_runs() {
    let env = TestEnvironment::new();
    let milepost = env!("CARGO_BIN_EXE_milepost");
    let script = format!(
        "until {milepost} show r@1 --json | grep -q '\"timer\"'; do sleep 0.05; done; {milepost} note changed; \
         until {milepost} show r@2 --json >/dev/null 2>&1; do sleep 0.05; done"
    );
    env.run(&["run", "--run", "r", "--every", "1s", "--", "sh", "-c", &script]).exits(0);
    // The first tick finds no change within three seconds and is folded into the first checkpoint. The
    // second tick saves a checkpoint. On a slow machine, a third tick is folded into the second.
    let mut all = sources(&env, "r");
    all[1].dedup();
    assert_eq!(all, [&["manual", "timer", "session_start"][..], &["timer"], &["manual", "child_exit"]]);
}

#[test]
fn a_status_set_by_the_command_is_kept_unless_the_command_fails() {
    let env = TestEnvironment::new();
    let milepost = env!("CARGO_BIN_EXE_milepost");
    let inside = |words: &str, code: u8| format!("{milepost} {words}; sleep 1.2; exit {code}");
    for (run, words, code, status) in [
        ("paused", "save --status paused", 0, "paused"),
        ("failed", "finish --status failed", 0, "failed"),
        ("worse", "finish --status completed", 3, "failed"),
    ] {
        let script = inside(words, code);
        env.run(&["run", "--run", run, "--every", "1s", "--", "sh", "-c", &script]).exits(i32::from(code));
        assert_eq!(env.json(&["runs", run])["runs"][0]["status"], status, "{run}");
        let ticks = sources(&env, run).concat().into_iter().filter(|word| word == "timer").count();
        assert_eq!(ticks, usize::from(run == "paused"), "a tick does not change an ended run: {run}");
    }
}

#[test]
fn a_command_runs_without_a_usable_store_unless_strict() {
    let env = TestEnvironment::new();
    env.write(".milepost", "in the way");
    let ran = env.run(&["run", "--", "sh", "-c", "echo worked; exit 6"]).exits(6);
    assert_eq!(ran.stdout, "worked\n");
    let warnings =
        ran.stderr.lines().filter(|line| line.starts_with("Warning: milepost cannot save")).count();
    assert_eq!((warnings, ran.stderr.lines().count()), (2, 5), "and the summary: {ran:#?}");
    assert_eq!(env.run(&["run", "-q", "--", "true"]).exits(0).stderr, "");
    let ran = env.run(&["run", "--strict", "--json", "--", "touch", "started"]).exits(125);
    assert!(!env.project().join("started").exists(), "{ran:#?}");
    // The store disappears while the command runs: exit code 125 with --strict, otherwise the command's own.
    std::fs::remove_file(env.project().join(".milepost")).unwrap();
    let vanish = "rm -rf .milepost && echo file > .milepost";
    env.run(&["run", "--strict", "--", "sh", "-c", vanish]).exits(125);
    std::fs::remove_file(env.project().join(".milepost")).unwrap();
    env.run(&["run", "--", "sh", "-c", vanish]).exits(0);
    std::fs::remove_file(env.project().join(".milepost")).unwrap();
    // A store that becomes usable while the command runs is used.
    env.write(".milepost", "in the way");
    env.run(&["run", "--run", "late", "--", "sh", "-c", "rm .milepost"]).exits(0);
    assert_eq!(env.json(&["runs", "late"])["runs"][0]["status"], "completed");
}

#[test]
fn the_store_flag_also_applies_inside_the_command() {
    let env = TestEnvironment::new();
    let milepost = env!("CARGO_BIN_EXE_milepost");
    let script = format!("cd / && {milepost} task set t done");
    env.run(&["run", "--store", "files:kept", "--run", "r", "--", "sh", "-c", &script]).exits(0);
    let run = env.json(&["runs", "r", "--store", "files:kept"]);
    assert_eq!(run["completed"], json!(["t"]));
    assert!(!env.project().join(".milepost").exists());
}

#[test]
fn the_summary_shows_what_a_command_did() {
    let env = TestEnvironment::repository();
    // After each file, the script waits until a tick has captured it.
    let script = format!(
        "for i in 1 2 3; do echo $i > f$i; \
         until {} show r@$((i + 1)) --json >/dev/null 2>&1; do sleep 0.05; done; done; exit 7",
        env!("CARGO_BIN_EXE_milepost")
    );
    let ran = env.run(&["run", "--every", "1s", "--run", "r", "--", "sh", "-c", &script]).exits(7);
    assert!(ran.stderr.contains("exit 7 after ") && ran.stderr.contains("3 files touched"), "{ran:#?}");
    let summary = env.json(&["summary"]);
    assert_eq!((&summary["run_id"], &summary["status"]), (&json!("r"), &json!("failed")));
    let total = summary["total"].as_u64().unwrap();
    let lines = summary["checkpoints"].as_array().unwrap();
    assert!(
        total >= 4 && lines.iter().map(|line| line["number"].as_u64().unwrap()).eq(1..=total),
        "{summary}"
    );
    assert_eq!(summary["files_modified"], json!(["f1", "f2", "f3"]));
    let failed = &summary["failed"][0];
    assert_eq!((&failed["result"], &failed["reason_code"]), (&json!("FAIL"), &json!("exit_7")));
    assert!(failed["peak_rss"].as_u64().unwrap() > 100_000 && summary["peak_rss"] == failed["peak_rss"]);
    assert!(lines[1]["rss"].as_u64().unwrap() > 100_000, "{summary}");
    let last = &lines[lines.len() - 1];
    assert_eq!((&last["files_modified"], &last["git_status"]["untracked"]), (&json!(3), &json!(3)));
    assert_eq!(env.json(&["runs", "r"])["runs"][0]["status"], "failed");
    let page = env.run(&["summary", "r"]).exits(0).stdout;
    for part in ["FAIL sh -c", "(exit_7)", "f1", "Memory", "error_boundary", "1 session"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    // Another session of the same run is listed separately, and the totals add up.
    env.run(&["run", "--rejoin", "--run", "r", "--", "true"]).exits(0);
    let summary = env.json(&["summary", "r"]);
    let sessions = summary["sessions"].as_array().unwrap();
    let sum: u64 = sessions.iter().map(|session| session["total_duration"].as_u64().unwrap()).sum();
    assert_eq!((sessions.len(), summary["total_duration"].as_u64().unwrap()), (2, sum));
    assert!(sum >= 3000 && sessions[1]["total_duration"].as_u64().unwrap() < 3000, "{summary}");
    assert!(env.run(&["summary", "r"]).exits(0).stdout.contains("Sessions"));
    assert_eq!(env.run(&["summary", "nobody", "--json"]).exits(14).reason(), "run_not_found");
}

#[test]
fn a_run_killed_with_its_command_has_a_dead_owner_immediately() {
    let env = TestEnvironment::repository();
    let script = "echo ready; echo x > f; exec sleep 600";
    let (mut child, _out) = started(&env, &["run", "--every", "1s", "--run", "r", "--", "sh", "-c", script]);
    let start = Instant::now();
    while env.json(&["runs", "r"])["runs"][0]["checkpoints"] != 2 {
        assert!(start.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(50));
    }
    // Kill the whole process group, so that neither milepost nor the command can clean up.
    rustix::process::kill_process_group(
        Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap(),
        Signal::KILL,
    )
    .unwrap();
    child.wait().unwrap();
    let run = env.json(&["runs", "r"])["runs"][0].clone();
    assert_eq!((&run["owner_alive"], &run["status"]), (&json!(false), &json!("in_progress")));
    env.run(&["verify"]).exits(0);
    let seen = env.json(&["show", "r@2"])["checkpoint"]["workspace"]["files_modified"].clone();
    assert_eq!(seen, json!(["f"]), "nothing acknowledged is lost");
    assert_eq!(env.json(&["summary", "r"])["status"], "in_progress");
}

#[test]
fn the_events_flag_writes_json_lines_to_a_file() {
    let env = TestEnvironment::new();
    let ran = env.run(&["run", "--events", "e.jsonl", "--json", "--run", "r", "--", "echo", "out"]).exits(0);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("out\n", ""));
    let ran = env.run(&["run", "--events", "e.jsonl", "--run", "s", "--", "true"]).exits(0);
    assert!(ran.stderr.contains("milepost summary s"), "the text is still printed: {ran:#?}");
    let text = std::fs::read_to_string(env.project().join("e.jsonl")).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let runs: Vec<_> = lines.iter().map(|line| line["run_id"].as_str().unwrap()).collect();
    assert_eq!(runs, ["r", "r", "s", "s"]);
    let summary = &lines[1]["summary"];
    assert_eq!(
        (&summary["exit"], &summary["files_modified"]),
        (&json!(0), &Value::Null),
        "unknown outside git"
    );
    let ran = env.run(&["run", "--events", "no/such/folder", "--json", "--", "touch", "started"]).exits(125);
    assert_eq!(ran.reason(), "checkpoint_atomic_write_failed");
    assert!(!env.project().join("started").exists());
}

#[test]
fn a_failed_checkpoint_during_the_command_matters_only_with_strict() {
    let env = TestEnvironment::new();
    // The store is missing during one tick and exists again at the end.
    let away = "mv .milepost away; echo file > .milepost; sleep 1.5; rm .milepost; mv away .milepost; exit 3";
    let ran = env.run(&["run", "--every", "1s", "--run", "r", "--", "sh", "-c", away]).exits(3);
    assert!(ran.stderr.contains("it will try again"), "{ran:#?}");
    assert_eq!(env.json(&["runs", "r"])["runs"][0]["status"], "failed");
    let ran = env.run(&["run", "--strict", "--every", "1s", "--json", "--", "sh", "-c", away]).exits(125);
    assert_eq!(ran.reason(), "checkpoint_atomic_write_failed");
}

#[test]
fn settings_control_the_interval_and_whether_the_timer_runs() {
    let mut env = TestEnvironment::repository();
    env.trust_project();
    let ticks = |run: &str| {
        env.run(&["run", "--run", run, "--", "sh", "-c", "echo x >> f; sleep 1.5"]).exits(0);
        sources(&env, run).concat().iter().filter(|word| *word == "timer").count()
    };
    env.write("milepost.toml", "[session]\ninterval = \"1s\"\n");
    assert_eq!(ticks("often"), 1);
    env.write("milepost.toml", "[session]\ninterval = \"1s\"\nenabled = false\n");
    assert_eq!(ticks("never"), 0);
    assert_eq!(env.json(&["runs", "never"])["runs"][0]["checkpoints"], 2, "the first and last are saved");
    env.write("milepost.toml", "[session]\ninterval = \"0s\"\n");
    env.run(&["run", "--", "true"]).exits(2);
    env.write("milepost.toml", "");
    env.run(&["run", "--no-capture", "--run", "blind", "--", "true"]).exits(0);
    assert_eq!(env.json(&["show", "blind@2"])["checkpoint"]["workspace"], Value::Null);
}

#[test]
fn a_nested_command_joins_the_run_from_any_folder() {
    let env = TestEnvironment::repository();
    let milepost = env!("CARGO_BIN_EXE_milepost");
    let script = format!("cd / && {milepost} save --summary inside && echo $MILEPOST_STORE");
    let ran = env.run(&["run", "--run", "r", "--", "sh", "-c", &script]).exits(0);
    let store = format!("sqlite:{}", env.project().join(".git/milepost/milepost.db").display());
    assert_eq!(ran.stdout.lines().last().unwrap(), store);
    assert!(ran.stderr.contains("  3 checkpoints in this session: "), "as in the summary: {ran:#?}");
    assert_eq!(env.json(&["summary", "r"])["sessions"][0]["total"], 3);
    let body = &env.json(&["show", "r@2"])["checkpoint"];
    assert_eq!(body["task_summary"], "inside");
    assert_eq!(body["session_id"], env.json(&["show", "r@1"])["checkpoint"]["session_id"]);
}
