//! The shell script example, killed with all of its child processes at twenty different moments.

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

fn tasks() -> BTreeSet<String> {
    (0..TASKS).map(|n| format!("t{n}")).collect()
}

struct Script {
    env: TestEnvironment,
    log: std::path::PathBuf,
}

impl Script {
    /// Prepares the example with a work script that logs the beginning and end of each task.
    fn new() -> Self {
        let env = TestEnvironment::new();
        let log = env.path("log");
        let line = |word: &str| format!("echo \"{word} $1\" >> {}\n", log.display());
        let work = format!("#!/bin/sh\n{}sleep 0.01\n{}", line("begin"), line("end"));
        let path = env.write("work", work);
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(path, mode).unwrap();
        Self { env, log }
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
            .env("TASKS", tasks().into_iter().collect::<Vec<_>>().join(" "))
            .env("WORK", "./work")
            .stdin(std::process::Stdio::null())
            .stdout(out)
            .process_group(0)
            .spawn()
            .unwrap()
    }

    fn lines(&self) -> Vec<String> {
        std::fs::read_to_string(&self.log).unwrap_or_default().lines().map(str::to_owned).collect()
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
    let script = Script::new();
    let mut before = BTreeSet::new();
    for life in 0..=KILLS {
        let seen = script.lines().len();
        let mut child = script.start();
        let killed = life < KILLS;
        if killed {
            wait_for_a_moment(&script, seen, life);
            let group = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
            kill_process_group(group, Signal::KILL).unwrap();
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
    assert_eq!(before, tasks(), "all tasks are done");
    let run = &script.env.json(&["runs", RUN])["runs"][0];
    assert_eq!(run["status"], "completed");
    assert_eq!(script.env.run(&["verify"]).exits(0).stderr, "");
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
