//! The shell script example, killed with all of its child processes at twenty different moments, and run in
//! three nights.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::TestEnvironment;

/// More tasks than twenty interrupted attempts can finish, so that every kill finds the script running.
const TASKS: u64 = 60;
const KILLS: u64 = 20;
const RUN: &str = "r";

fn tasks(count: u64) -> BTreeSet<String> {
    (0..count).map(|n| format!("t{n}")).collect()
}

struct Script {
    env: TestEnvironment,
    tasks: BTreeSet<String>,
    log: std::path::PathBuf,
}

impl Script {
    /// Prepares the example with a work script that logs the beginning and end of each task.
    fn new(count: u64) -> Self {
        let env = TestEnvironment::new();
        let log = env.path("log");
        let line = |word: &str| format!("echo \"{word} $1\" >> {}\n", log.display());
        let work = format!("#!/bin/sh\n{}sleep 0.01\n{}", line("begin"), line("end"));
        let path = env.write("work", work);
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(path, mode).unwrap();
        Self { env, tasks: tasks(count), log }
    }

    fn start(&self) -> Child {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let bin = Path::new(env!("CARGO_BIN_EXE_milepost")).parent().unwrap();
        let out = OpenOptions::new().append(true).create(true).open(&self.log).unwrap();
        Command::new(root.join("examples/tasks.sh"))
            .arg(RUN)
            .current_dir(self.env.project())
            .env_clear()
            .env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", bin.display()))
            .env("HOME", self.env.path("home"))
            .env("TASKS", self.tasks.iter().cloned().collect::<Vec<_>>().join(" "))
            .env("WORK", "./work")
            .envs(self.env.store_variables())
            .stdin(std::process::Stdio::null())
            .stdout(out)
            .process_group(0)
            .spawn()
            .unwrap()
    }

    fn lines(&self) -> Vec<String> {
        std::fs::read_to_string(&self.log).unwrap_or_default().lines().map(str::to_owned).collect()
    }

    /// The tasks that began after the first `seen` lines of the log.
    fn begun_since(&self, seen: usize) -> Vec<String> {
        let lines = self.lines();
        lines[seen..].iter().filter_map(|line| line.strip_prefix("begin ").map(str::to_owned)).collect()
    }

    /// The tasks that the store records as done.
    fn acknowledged(&self) -> BTreeSet<String> {
        let ran = self.env.run(&["runs", RUN, "--json"]);
        // The script was killed before it created the run or the store.
        if ran.code == 14 || ran.code == 10 {
            return BTreeSet::new();
        }
        serde_json::from_value(ran.exits(0).json()["completed"].clone()).unwrap()
    }
}

#[test]
fn the_script_survives_twenty_kills() {
    let script = Script::new(TASKS);
    let mut before = BTreeSet::new();
    for life in 0..=KILLS {
        let seen = script.lines().len();
        let mut child = script.start();
        let killed = life < KILLS;
        if killed {
            wait_for_a_moment(&script, seen, life);
            kill_group(&child);
        }
        let status = child.wait().unwrap();
        assert_eq!(status.code(), (!killed).then_some(0), "{status:?} in attempt {life}");
        let lines = script.lines();
        let words =
            |word: &str| -> Vec<&str> { lines[seen..].iter().filter_map(|l| l.strip_prefix(word)).collect() };
        let (begun, told) = (words("begin "), words("done: "));
        for task in &begun {
            assert!(!before.contains(*task), "{task} was acknowledged but ran again: {lines:#?}");
        }
        // Tasks run one at a time, and each begins after the previous one is acknowledged. So at most one
        // task is repeated.
        assert!(begun.len() <= told.len() + 1, "{lines:#?}");
        assert_eq!(begun.iter().collect::<BTreeSet<_>>().len(), begun.len(), "{lines:#?}");
        let now = script.acknowledged();
        assert!(now.is_superset(&before), "{before:?} {now:?}");
        assert!(told.iter().all(|task| now.contains(*task)), "reported but not stored: {told:?} {now:?}");
        before = now;
    }
    assert_eq!(before, script.tasks, "all tasks are done");
    let run = &script.env.json(&["runs", RUN])["runs"][0];
    assert_eq!(run["status"], "completed");
    assert_eq!(script.env.run(&["verify"]).exits(0).stderr, "");
}

#[test]
fn the_script_works_every_night_although_it_is_killed_in_the_second() {
    let script = Script::new(6);
    let all: Vec<String> = script.tasks.iter().cloned().collect();
    for night in 1..=3 {
        let seen = script.lines().len();
        let mut child = script.start();
        if night == 2 {
            let start = Instant::now();
            while script.begun_since(seen).len() < 4 {
                assert!(start.elapsed() < Duration::from_secs(30), "{:#?}", script.lines());
                std::thread::sleep(Duration::from_millis(1));
            }
            kill_group(&child);
            child.wait().unwrap();
            let (first, done) = (script.begun_since(seen), script.acknowledged());
            assert!(done.len() >= 3 && done.iter().all(|task| first.contains(task)), "{done:?} {first:?}");
            assert_eq!(script.env.json(&["runs", RUN])["runs"][0]["status"], "in_progress");
            // The same night: only the tasks that are not done are performed.
            let again = script.lines().len();
            child = script.start();
            assert!(child.wait().unwrap().success());
            let rest: Vec<_> = all.iter().filter(|task| !done.contains(*task)).cloned().collect();
            assert_eq!(script.begun_since(again), rest);
        } else {
            assert!(child.wait().unwrap().success());
            assert_eq!(script.begun_since(seen), all, "night {night}");
        }
        assert_eq!(script.acknowledged(), script.tasks);
        assert_eq!(script.env.json(&["runs", RUN])["runs"][0]["status"], "completed");
    }
    let events = script.env.json(&["events", "--limit", "0"])["events"].clone();
    let rounds = events.as_array().unwrap().iter().filter(|event| event["type"] == "round_started");
    assert_eq!(rounds.count(), 2);
    assert_eq!(script.env.run(&["verify"]).exits(0).stderr, "");
}

/// Kills the script and all of its child processes.
fn kill_group(child: &Child) {
    let group = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process_group(group, Signal::KILL).unwrap();
}

/// Waits for a different moment in each attempt: every fourth time while the script is starting, otherwise
/// after the first new task.
fn wait_for_a_moment(script: &Script, seen: usize, life: u64) {
    if life.is_multiple_of(4) {
        std::thread::sleep(Duration::from_millis(1 + life));
        return;
    }
    let start = Instant::now();
    while script.lines().len() == seen {
        assert!(start.elapsed() < Duration::from_secs(30), "the script makes no progress");
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(Duration::from_millis(2 * life));
}
