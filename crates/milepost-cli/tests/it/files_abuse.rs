//! Worktrees that are hard to take a snapshot of: huge files, very many files, pipes, sockets, links that lead
//! outside, files that change all the time, a full disk. The checkpoint is always saved, names what it omitted,
//! and hooks keep their time limits.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::environment::{TestEnvironment, finished};

/// How long a hook may take on a busy machine, beyond its own time limit.
const OVERHEAD: Duration = Duration::from_secs(4);

/// Everything that the newest checkpoint says it omitted, as one text.
fn skipped(env: &TestEnvironment) -> String {
    env.json(&["show", "latest"])["checkpoint"]["workspace"]["skipped"].to_string()
}

/// A file of the newest checkpoint; `None` if the checkpoint does not have its content.
pub(crate) fn file_of_latest(env: &TestEnvironment, path: &str) -> Option<String> {
    let store = milepost::store::StoreUrl::sqlite(env.project().join(".git/milepost/milepost.db"));
    let options = milepost::store::OpenOptions::new().user_state(Some(env.state()));
    let mp = milepost::Milepost::at(&store, &options).unwrap();
    let worktree = mp.worktree(env.project()).unwrap();
    let files = worktree.files(&"latest".parse().unwrap(), None).unwrap();
    files.read_path(path).ok().map(|bytes| String::from_utf8(bytes).unwrap())
}

pub(crate) fn commit_all(env: &TestEnvironment) {
    env.git(&["add", "-A"]);
    env.git(&["-c", "user.name=t", "-c", "user.email=t@t", "commit", "-q", "-m", "all"]);
}

/// Reports an event of Claude Code, and returns how long the hook took.
pub(crate) fn hook(env: &TestEnvironment, event: &str, more: Value) -> Duration {
    let mut payload = json!({ "session_id": "s1", "cwd": env.project(), "hook_event_name": event });
    payload.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let start = Instant::now();
    env.run_on(payload.to_string().as_bytes(), &["hook", "claude-code", "--strict"]).exits(0);
    start.elapsed()
}

/// Reports the end of a shell command.
pub(crate) fn command_ended(env: &TestEnvironment) -> Duration {
    let tool = json!({ "tool_name": "Bash", "tool_input": { "command": "make" }, "tool_response": { "stdout": "" } });
    hook(env, "PostToolUse", tool)
}

fn make_pipe(path: &Path) {
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
}

#[test]
fn special_and_huge_files_are_named_and_not_read() {
    let env = TestEnvironment::repository();
    for name in ["pipe", "socket", "ordinary.txt"] {
        env.write(name, "committed");
    }
    commit_all(&env);
    for name in ["pipe", "socket"] {
        std::fs::remove_file(env.project().join(name)).unwrap();
    }
    make_pipe(&env.project().join("pipe"));
    make_pipe(&env.project().join("new-pipe"));
    let _listener = UnixListener::bind(env.project().join("socket")).unwrap();
    File::create(env.project().join("huge.bin")).unwrap().set_len(5 << 30).unwrap();
    env.write("ordinary.txt", "changed");
    let start = Instant::now();
    env.save(&["--run", "r", "--summary", "one"]);
    assert!(start.elapsed() < Duration::from_secs(8), "{:?}", start.elapsed());
    let skipped = skipped(&env);
    for expected in [
        "huge.bin: it is larger than 10 MiB",
        "pipe: it is not a regular file",
        "socket: it is not a regular file",
    ] {
        assert!(skipped.contains(expected), "{expected}: {skipped}");
    }
    assert_eq!(file_of_latest(&env, "ordinary.txt").as_deref(), Some("changed"));
    // A restore leaves them where they are, or keeps them for `undo`.
    env.write("ordinary.txt", "changed again");
    env.run(&["restore", "latest", "--yes"]).exits(0);
    assert_eq!(std::fs::read(env.project().join("ordinary.txt")).unwrap(), b"changed");
    assert_eq!(std::fs::metadata(env.project().join("huge.bin")).unwrap().len(), 5 << 30);
    assert!(env.project().join("pipe").exists() && env.project().join("socket").exists());
}

#[test]
fn a_folder_that_became_a_link_does_not_lead_outside() {
    let env = TestEnvironment::repository();
    std::fs::create_dir(env.project().join("folder")).unwrap();
    env.write("folder/file.txt", "committed");
    commit_all(&env);
    env.save(&["--run", "r", "--summary", "one"]);
    let outside = env.path("outside");
    std::fs::create_dir(&outside).unwrap();
    #[allow(clippy::disallowed_methods, reason = "a test's own file")]
    std::fs::write(outside.join("file.txt"), "not part of the project").unwrap();
    std::fs::remove_dir_all(env.project().join("folder")).unwrap();
    symlink(&outside, env.project().join("folder")).unwrap();
    env.save(&["--run", "r", "--summary", "two"]);
    let stored = file_of_latest(&env, "folder/file.txt");
    assert_ne!(stored.as_deref(), Some("not part of the project"));
    env.run(&["restore", "latest~1", "--all", "--yes"]);
    assert_eq!(std::fs::read(outside.join("file.txt")).unwrap(), b"not part of the project");
}

#[test]
fn a_file_that_changes_all_the_time_does_not_stop_a_snapshot() {
    let env = TestEnvironment::repository();
    env.write("calm.txt", "calm");
    let log = env.write("busy.log", "start\n");
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut log = File::options().append(true).open(&log).unwrap();
            // Stays below the size limit for a file.
            for _ in 0..150_000 {
                log.write_all(b"another line of a log that never ends\n").unwrap();
                if is_done.load(Ordering::Relaxed) {
                    return;
                }
            }
        });
        for n in 0..5 {
            env.save(&["--run", "r", "--summary", &n.to_string()]);
            let is_named = skipped(&env).contains("busy.log: it changed while it was read");
            let stored = file_of_latest(&env, "busy.log");
            assert!(is_named || stored.is_some_and(|text| text.starts_with("start\n")), "{}", skipped(&env));
            assert_eq!(file_of_latest(&env, "calm.txt").as_deref(), Some("calm"));
        }
        is_done.store(true, Ordering::Relaxed);
    });
    env.run(&["verify"]).exits(0);
}

#[test]
fn very_many_files_are_finished_in_the_background() {
    const FILES: usize = 20_500;
    let env = TestEnvironment::repository();
    env.run(&["init", "--agents", "none"]).exits(0);
    hook(&env, "SessionStart", json!({ "source": "startup" }));
    for folder in 0..50 {
        std::fs::create_dir_all(env.project().join(format!("many/{folder}"))).unwrap();
    }
    for n in 0..FILES {
        env.write(&format!("many/{}/{n}.txt", n % 50), format!("file {n}"));
    }
    let took = hook(&env, "UserPromptSubmit", json!({ "prompt": "go on" }));
    assert!(took < Duration::from_secs(2) + OVERHEAD, "{took:?} at a prompt");
    for _ in 0..3 {
        let took = command_ended(&env);
        assert!(took < Duration::from_millis(200) + OVERHEAD, "{took:?} after a tool");
    }
    // The cache of the newest snapshot says whether all files were read.
    let is_finished = || {
        let files = std::fs::read_dir(env.project().join(".git/milepost/files")).unwrap();
        let mut caches = files
            .map(|file| file.unwrap().path())
            .filter(|path| path.extension().is_some_and(|e| e == "cache"));
        caches.any(|path| {
            String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).contains("\"overdue\":0")
        })
    };
    let start = Instant::now();
    while !is_finished() {
        assert!(start.elapsed() < Duration::from_secs(60), "the snapshot was not finished in the background");
        // The agent goes on. A snapshot that is overdue twice in a row is finished in the background.
        command_ended(&env);
        std::thread::sleep(Duration::from_millis(500));
    }
    hook(&env, "Stop", json!({}));
    let skipped = skipped(&env);
    assert!(skipped.contains("paths over the limits of 20000 paths"), "{skipped}");
}

/// Needs a small separate file system, which only root can mount.
#[test]
fn a_checkpoint_is_saved_although_its_files_do_not_fit_on_the_disk() {
    let env = TestEnvironment::new();
    // The filler is written only after checking that the folder is on the small file system.
    let script = format!(
        "mount -t tmpfs -o size=8m none '{1}' && cd '{1}' && [ \"$(stat -f -c %T .)\" = tmpfs ] || exit 99; \
         git init -q -b main . && '{0}' save one --run r > /dev/null || exit 99; \
         head -c 3000000 /dev/urandom > large.bin; echo small > small.txt; \
         free=$(stat -f -c '%a' .); dd if=/dev/zero of=.git/filler bs=4k count=$((free - 256)) 2> /dev/null; \
         '{0}' save two --run r > /dev/null || exit 98; '{0}' verify > /dev/null || exit 97; \
         find .git -name '*milepost-tmp*' | grep -q . && exit 96; '{0}' show latest --json",
        env!("CARGO_BIN_EXE_milepost"),
        env.project().display()
    );
    let mut command = env.program("unshare");
    command.args(["-rm", "sh", "-c", &script]).current_dir("/");
    let ran = finished(&mut command, None);
    if ran.code == 99 || ran.code == 1 && ran.stderr.contains("unshare") {
        println!("skipped: cannot mount a separate file system here");
        return;
    }
    let shown = ran.exits(0).json();
    let skipped = shown["checkpoint"]["workspace"]["skipped"].to_string();
    assert!(skipped.contains("large.bin"), "{skipped}");
}
