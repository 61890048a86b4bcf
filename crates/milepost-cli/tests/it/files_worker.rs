//! The process that finishes overdue snapshots in the background: one per worktree, it may be killed at any time,
//! and what it does changes nothing but the files of the run. A slow `git` makes snapshots overdue.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Child;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::environment::TestEnvironment;
use crate::files::put;
use crate::files_abuse::{command_ended, commit_all, file_of_latest, hook};

const RUN: &str = "claude-code-s1";

/// A session in a repository whose `git` can be slowed down for hooks, and held for workers.
struct SlowGit {
    env: TestEnvironment,
}

impl SlowGit {
    /// Begins a session. Its first snapshot contains the committed file `a.txt`.
    fn begin_session() -> Self {
        let mut env = TestEnvironment::repository();
        env.write("a.txt", "committed\n");
        commit_all(&env);
        env.run(&["init", "--agents", "none"]).exits(0);
        let path = |name: &str| env.path(name).display().to_string();
        let script = format!(
            "#!/bin/sh\nPATH=/usr/local/bin:/usr/bin:/bin; export PATH\n\
             if grep -qa finish-snapshot /proc/$PPID/cmdline; then\n\
             echo $PPID >> '{}'; while [ -e '{}' ]; do sleep 0.02; done\n\
             elif [ -e '{}' ]; then sleep 30; fi\n\
             exec git \"$@\"\n",
            path("workers"),
            path("hold"),
            path("slow"),
        );
        let program = env.path("bin/git");
        put(&program, script.as_bytes());
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        env.set("PATH", &format!("{}:/usr/local/bin:/usr/bin:/bin", path("bin")));
        hook(&env, "SessionStart", json!({ "source": "startup" }));
        hook(&env, "UserPromptSubmit", json!({ "prompt": "go on" }));
        Self { env }
    }

    /// Creates or removes a file that the slow `git` looks for.
    fn switch(&self, name: &str, on: bool) {
        match on {
            true => put(&self.env.path(name), b""),
            false => std::fs::remove_file(self.env.path(name)).unwrap(),
        }
    }

    /// The ids of all workers that have run `git`.
    fn workers(&self) -> BTreeSet<i32> {
        let text = std::fs::read_to_string(self.env.path("workers")).unwrap_or_default();
        text.lines().map(|line| line.parse().unwrap()).collect()
    }

    /// The ids of the workers of this worktree that are running.
    fn running(&self) -> BTreeSet<i32> {
        let root = self.env.project().display().to_string();
        let is_worker = |pid: &i32| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).into_owned();
            line.contains("finish-snapshot") && line.contains(&root)
        };
        let names = std::fs::read_dir("/proc")
            .unwrap()
            .filter_map(|entry| entry.unwrap().file_name().into_string().ok());
        names.filter_map(|name| name.parse().ok()).filter(is_worker).collect()
    }

    fn folder(&self) -> PathBuf {
        self.env.project().join(".git/milepost")
    }

    /// Whether the newest snapshot contains every file.
    fn is_finished(&self) -> bool {
        let files = std::fs::read_dir(self.folder().join("files")).unwrap();
        let mut caches = files.map(|file| file.unwrap().path());
        let cache = caches.find(|path| path.extension().is_some_and(|e| e == "cache")).unwrap();
        String::from_utf8_lossy(&std::fs::read(cache).unwrap()).contains("\"overdue\":0")
    }

    /// Starts a worker, as a hook does.
    fn start_worker(&self) -> Child {
        let store = format!("sqlite:{}", self.folder().join("milepost.db").display());
        let args = ["--store", &store, "--run", RUN, "hook", "claude-code", "--finish-snapshot"];
        self.env.command(&args).spawn().unwrap()
    }

    #[track_caller]
    fn is_intact(&self) {
        self.env.run(&["verify"]).exits(0);
        let left =
            std::process::Command::new("find").arg(self.folder()).args(["-name", "*milepost-tmp*"]).output();
        assert_eq!(String::from_utf8(left.unwrap().stdout).unwrap(), "", "temporary files are left");
    }
}

#[track_caller]
fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(20), "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn is_running(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

#[test]
fn one_worker_finishes_a_snapshot_that_is_overdue_twice() {
    let session = SlowGit::begin_session();
    let env = &session.env;
    assert!(session.is_finished(), "the first snapshot is complete");
    env.write("a.txt", "changed by a command\n");
    env.write("new.txt", "created by a command\n");
    session.switch("slow", true);
    session.switch("hold", true);
    command_ended(env);
    assert!(!session.is_finished(), "git was too slow");
    std::thread::sleep(Duration::from_millis(200));
    assert!(session.running().is_empty() && session.workers().is_empty(), "it is overdue only once");
    command_ended(env);
    wait_until("a worker starts", || session.workers().len() == 1);
    let worker = *session.workers().first().unwrap();
    assert!(is_running(worker), "the worker outlives its hook");
    let group = rustix::process::getpgid(rustix::process::Pid::from_raw(worker)).unwrap();
    assert_eq!(group.as_raw_nonzero().get(), worker, "the worker is in a process group of its own");

    // Each later hook starts another one, which exits at once.
    command_ended(env);
    hook(env, "Stop", json!({}));
    wait_until("the other workers exit", || session.running() == BTreeSet::from([worker]));
    assert_eq!(session.workers(), BTreeSet::from([worker]), "only one of them reads the worktree");
    let class = || env.json(&["status"])["live"][0]["class"].clone();
    assert_eq!(class(), "waiting_for_user", "{}", env.json(&["status"]));

    session.switch("hold", false);
    wait_until("the worker exits", || !is_running(worker));
    assert!(session.is_finished(), "the worker finished the snapshot");
    assert!(session.running().is_empty());
    assert_eq!(class(), "waiting_for_user", "a worker is not a sign of life of the agent");

    // The changes are attributed to the command that made them.
    session.switch("slow", false);
    env.run(&["restore", "prompt", "--run", RUN, "--yes"]).exits(0);
    assert_eq!(std::fs::read(env.project().join("a.txt")).unwrap(), b"committed\n");
    assert!(!env.project().join("new.txt").exists());
    env.run(&["undo", "--yes"]).exits(0);
    assert_eq!(std::fs::read(env.project().join("new.txt")).unwrap(), b"created by a command\n");
    session.is_intact();
}

#[test]
fn a_killed_worker_does_not_stop_later_snapshots() {
    let session = SlowGit::begin_session();
    let env = &session.env;
    env.write("a.txt", "changed by a command\n");
    session.switch("slow", true);
    session.switch("hold", true);
    command_ended(env);
    command_ended(env);
    wait_until("a worker starts", || session.workers().len() == 1);
    let worker = *session.workers().first().unwrap();
    let pid = rustix::process::Pid::from_raw(worker).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    wait_until("the worker dies", || !is_running(worker));
    session.switch("hold", false);
    assert!(!session.is_finished());
    // The next hook starts another one.
    command_ended(env);
    wait_until("another worker finishes the snapshot", || session.is_finished());
    assert_eq!(session.workers().len(), 2);
    wait_until("it exits", || session.running().is_empty());
    session.switch("slow", false);

    // Workers that are killed at any other moment.
    let files: Vec<_> = (0..300).map(|n| format!("file-{n}.txt")).collect();
    for (round, delay) in [0, 15, 30, 45, 60, 80, 110, 150].into_iter().enumerate() {
        for name in &files {
            env.write(name, format!("{name} in round {round}\n"));
        }
        let mut worker = session.start_worker();
        std::thread::sleep(Duration::from_millis(delay));
        worker.kill().unwrap();
        worker.wait().unwrap();
        env.save(&["--run", RUN, "--summary", "after a kill"]);
        for name in [&files[0], &files[299]] {
            assert_eq!(file_of_latest(env, name), Some(format!("{name} in round {round}\n")));
        }
    }
    session.is_intact();
}

#[test]
fn several_workers_at_once_do_no_harm() {
    let session = SlowGit::begin_session();
    let env = &session.env;
    for n in 0..200 {
        env.write(&format!("file-{n}.txt"), format!("content {n}\n"));
    }
    let workers: Vec<_> = (0..6).map(|_| session.start_worker()).collect();
    for mut worker in workers {
        assert!(worker.wait().unwrap().success());
    }
    assert!(session.is_finished());
    env.save(&["--run", RUN, "--summary", "after the workers"]);
    for n in 0..200 {
        assert_eq!(file_of_latest(env, &format!("file-{n}.txt")), Some(format!("content {n}\n")));
    }
    session.is_intact();
}

/// Reports the end of a shell command that ran this long.
fn command_ended_after(env: &TestEnvironment, duration: Duration) {
    let duration = u64::try_from(duration.as_millis()).unwrap();
    let tool = json!({ "tool_name": "Bash", "tool_input": { "command": "make" },
        "tool_response": { "stdout": "" }, "duration_ms": duration });
    hook(env, "PostToolUse", tool);
}

#[test]
fn a_command_that_ends_during_another_snapshot_keeps_its_changes() {
    let session = SlowGit::begin_session();
    let env = &session.env;
    let lock =
        std::fs::File::options().write(true).open(session.folder().join("files/snapshot.lock")).unwrap();
    lock.lock().unwrap();
    env.write("a.txt", "changed by a command\n");
    command_ended(env);
    drop(lock);
    std::thread::sleep(Duration::from_millis(50));
    hook(env, "Stop", json!({}));
    let noted = std::fs::read_dir(session.folder().join("files"))
        .unwrap()
        .filter(|file| file.as_ref().unwrap().file_name().to_string_lossy().contains("window"));
    assert_eq!(noted.count(), 0, "the next snapshot uses and removes the note");
    env.run(&["restore", "prompt", "--run", RUN, "--yes"]).exits(0);
    assert_eq!(std::fs::read(env.project().join("a.txt")).unwrap(), b"committed\n");
}

#[test]
fn commands_that_run_at_the_same_time_keep_their_changes() {
    let session = SlowGit::begin_session();
    let env = &session.env;
    std::thread::sleep(Duration::from_millis(100));
    let begun = Instant::now();
    env.write("a.txt", "changed by a long command\n");
    // Another command begins later and ends earlier. Its snapshot sees the change of the first one.
    std::thread::sleep(Duration::from_millis(1500));
    command_ended_after(env, Duration::from_millis(1));
    std::thread::sleep(Duration::from_millis(50));
    command_ended_after(env, begun.elapsed());
    hook(env, "Stop", json!({}));
    env.run(&["restore", "prompt", "--run", RUN, "--yes"]).exits(0);
    assert_eq!(std::fs::read(env.project().join("a.txt")).unwrap(), b"committed\n");
}
