//! The shell script example, killed with all it started at twenty different moments.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::TestEnvironment;

/// More than twenty lives can get done, so that every kill finds the script alive.
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
    /// The example, with work that says in the log when it begins and ends.
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

    /// Tasks that the store holds as done.
    fn acknowledged(&self) -> BTreeSet<String> {
        let ran = self.env.run(&["runs", RUN, "--json"]);
        // Killed before the run was there, or before the store was.
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
        assert_eq!(status.code(), (!killed).then_some(0), "{status:?} in life {life}");
        let lines = script.lines();
        let words =
            |word: &str| -> Vec<&str> { lines[seen..].iter().filter_map(|l| l.strip_prefix(word)).collect() };
        let (begun, told) = (words("begin "), words("done: "));
        for task in &begun {
            assert!(!before.contains(*task), "{task} was acknowledged and is done again: {lines:#?}");
        }
        // One at a time, and none begins before the one before it is acknowledged: at most one is done once more.
        assert!(begun.len() <= told.len() + 1, "{lines:#?}");
        assert_eq!(begun.iter().collect::<BTreeSet<_>>().len(), begun.len(), "{lines:#?}");
        let now = script.acknowledged();
        assert!(now.is_superset(&before), "{before:?} {now:?}");
        assert!(told.iter().all(|task| now.contains(*task)), "told and not there: {told:?} {now:?}");
        before = now;
    }
    assert_eq!(before, tasks(), "all tasks are done");
    let run = &script.env.json(&["runs", RUN])["runs"][0];
    assert_eq!(run["status"], "completed");
    assert_eq!(script.env.run(&["verify"]).exits(0).stderr, "");
}

/// Never the same moment twice: every fourth while the script starts, the others from the first new task on.
fn wait_for_a_moment(script: &Script, seen: usize, life: u64) {
    if life.is_multiple_of(4) {
        std::thread::sleep(Duration::from_millis(1 + life));
        return;
    }
    let start = Instant::now();
    while script.lines().len() == seen {
        assert!(start.elapsed() < Duration::from_secs(30), "nothing happens");
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(Duration::from_millis(2 * life));
}
