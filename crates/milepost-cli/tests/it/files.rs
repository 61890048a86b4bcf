//! Files: snapshots of a session's files, and their restore byte for byte, with real git and real processes.
//! Nothing that someone else wrote is changed, and nothing is lost.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::TestEnvironment;
use crate::hook::{FakeAgent, begins};

/// Every file of a worktree: the target of a link, or mode and content. Leaves out git's own folder and logs,
/// which these tests ignore.
fn tree(root: &Path) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    fn walk(root: &Path, folder: &Path, found: &mut BTreeMap<PathBuf, (u32, Vec<u8>)>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root).unwrap().to_owned();
            if name.starts_with(".git") && !name.starts_with(".gitignore")
                || name.extension().is_some_and(|e| e == "log")
            {
                continue;
            }
            let about = std::fs::symlink_metadata(&path).unwrap();
            if about.is_dir() {
                walk(root, &path, found);
            } else if about.is_symlink() {
                let target = std::fs::read_link(&path).unwrap();
                found.insert(name, (0, target.into_os_string().into_encoded_bytes()));
            } else {
                let mode = about.permissions().mode() & 0o111;
                found.insert(name, (mode, std::fs::read(&path).unwrap()));
            }
        }
    }
    let mut found = BTreeMap::new();
    walk(root, root, &mut found);
    found
}

/// Everything in the git directory except Milepost's own files.
fn repository(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    fn walk(folder: &Path, found: &mut BTreeMap<PathBuf, Vec<u8>>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.ends_with(".git/milepost") || path.ends_with("milepost/files") {
                continue;
            }
            if path.is_dir() {
                walk(&path, found);
            } else {
                found.insert(path.clone(), std::fs::read(&path).unwrap());
            }
        }
    }
    let mut found = BTreeMap::new();
    walk(&root.join(".git"), &mut found);
    found
}

/// An agent's session in a worktree.
pub(crate) struct AgentAtWork {
    agent: FakeAgent,
    session: &'static str,
    root: PathBuf,
    home: PathBuf,
}

impl AgentAtWork {
    pub(crate) fn begin(env: &TestEnvironment, root: &Path, session: &'static str) -> Self {
        let mut agent = FakeAgent::within(env, "claude-code", root);
        begins(&mut agent, session);
        Self { agent, session, root: root.to_owned(), home: env.path("home") }
    }

    fn run_id(&self) -> String {
        format!("claude-code-{}", self.session)
    }

    pub(crate) fn prompt(&mut self, text: &str) {
        // Others may work between two turns.
        pause();
        self.agent.hears(self.session, "UserPromptSubmit", json!({ "prompt": text }));
        pause();
    }

    /// Edits a file with the agent's own tool.
    pub(crate) fn edit(&mut self, name: &str, content: &[u8]) {
        let path = self.root.join(name);
        put(&path, content);
        let input = json!({ "file_path": path, "old_string": "a", "new_string": "b" });
        let response = json!({ "filePath": path });
        let more =
            json!({ "tool_name": "Edit", "tool_input": input, "tool_response": response, "duration_ms": 3 });
        self.agent.hears(self.session, "PostToolUse", more);
    }

    /// Runs a shell command as the agent's tool does.
    pub(crate) fn shell(&mut self, command: &str) {
        let begun = Instant::now();
        let done = shell(&self.root, &self.home, command);
        assert!(done.status.success(), "{command}: {}", String::from_utf8_lossy(&done.stderr));
        let duration = u64::try_from(begun.elapsed().as_millis()).unwrap() + 1;
        let more = json!({ "tool_name": "Bash", "tool_input": { "command": command },
            "tool_response": { "stdout": "", "stderr": "" }, "duration_ms": duration });
        self.agent.hears(self.session, "PostToolUse", more);
    }

    pub(crate) fn turn_ends(&mut self) {
        self.agent.hears(self.session, "Stop", json!({}));
        pause();
    }
}

pub(crate) fn shell(root: &Path, home: &Path, command: &str) -> std::process::Output {
    let mut bash = Command::new("bash");
    bash.args(["-ec", command]).current_dir(root).env_clear();
    bash.env("PATH", "/usr/local/bin:/usr/bin:/bin").env("HOME", home);
    for (name, value) in [("NAME", "t"), ("EMAIL", "t@t")] {
        bash.env(format!("GIT_AUTHOR_{name}"), value).env(format!("GIT_COMMITTER_{name}"), value);
    }
    bash.output().unwrap()
}

/// Waits until the clock of the file system has moved on, and longer than the tolerance of tool windows.
fn pause() {
    std::thread::sleep(Duration::from_millis(60));
}

#[allow(clippy::disallowed_methods, reason = "a test's own file")]
pub(crate) fn put(path: &Path, content: &[u8]) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, content).unwrap();
}

fn project(env: &TestEnvironment) -> PathBuf {
    let root = env.project();
    for name in ["a", "b", "c", "d", "e"] {
        put(&root.join("src").join(name), format!("original {name}\nline two\n").as_bytes());
    }
    put(&root.join("data.bin"), &(0..=255u8).cycle().take(5000).collect::<Vec<_>>());
    put(&root.join(".gitignore"), b"*.log\n");
    env.git(&["add", "-A"]);
    env.git(&["-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "start"]);
    env.run(&["init"]).exits(0);
    // The configuration file is not part of these tests.
    put(&root.join(".git/info/exclude"), b"milepost.toml\n");
    std::fs::rename(root.join("milepost.toml"), env.path("milepost.toml")).unwrap();
    root
}

/// Saves a checkpoint of a run and returns its number.
pub(crate) fn checkpoint(env: &TestEnvironment, run: &str, text: &str) -> u64 {
    env.json(&["save", text, "--run", run])["sequence"].as_u64().unwrap()
}

#[test]
fn every_checkpoint_of_a_session_comes_back_byte_for_byte() {
    let env = TestEnvironment::repository();
    let root = project(&env);
    let mut agent = AgentAtWork::begin(&env, &root, "s1");
    let run = agent.run_id();
    let mut states = Vec::new();
    let mut keep = |agent: &AgentAtWork, text: &str| {
        let number = checkpoint(&env, &run, text);
        states.push((text.to_owned(), number, tree(&agent.root)));
    };
    agent.prompt("do a lot");
    keep(&agent, "start");
    agent.edit("src/a", b"edited by the tool\n");
    keep(&agent, "edit tool");
    agent.shell("sed -i s/original/changed/ src/b && printf '\\x00\\x01\\xff' >> data.bin");
    keep(&agent, "sed and a binary file");
    agent.shell(
        "rm src/c && mkdir -p new/deep && echo text > new/deep/file && touch empty && ln -s src/a link",
    );
    keep(&agent, "deleted, untracked, empty and linked files");
    agent.shell("echo 'echo hi' > run.sh && chmod +x run.sh && chmod +x src/d && echo x > $'odd \\n\\t\"name' && echo y > $'\\xff\\xfe'");
    keep(&agent, "modes and odd names");
    agent.shell("python3 -c \"open('src/e','a').write('from a script\\\\n')\"; git add src/a src/b && git commit -qm some");
    keep(&agent, "a script, and a commit of some files");
    agent.shell("git mv src/a src/renamed && echo more >> src/renamed");
    keep(&agent, "a rename");
    agent.shell("echo ignored > build.log; git add -A && git commit -q --amend -m amended && echo z > src/z");
    keep(&agent, "an amended commit");
    agent.shell("git reset -q --hard HEAD~1 && git clean -qfdx");
    keep(&agent, "reset and cleaned");
    agent.shell("git reflog expire --expire=now --all && git gc -q --prune=now && echo last > last");
    keep(&agent, "objects are gone");
    agent.turn_ends();

    let last = tree(&root);
    put(&root.join("kept.log"), b"ignored");
    let git_before = repository(&root);
    let order = [8, 3, 0, 5, 1, 7, 2, 6, 4, 9];
    for at in order {
        let (text, number, expected) = &states[at];
        let before = tree(&root);
        let reference = format!("{run}@{number}");
        let done = env.run(&["restore", &reference, "--yes", "--json"]);
        assert!([0, 3].contains(&done.code), "{text}: {}{}", done.stdout, done.stderr);
        assert_eq!(tree(&root), *expected, "{text} ({reference}): {}", done.stdout);
        assert_eq!(std::fs::read(root.join("kept.log")).unwrap(), b"ignored");
        if before != *expected {
            env.run(&["undo", "--yes"]).exits(0);
            assert_eq!(tree(&root), before, "undo of {text}");
            env.run(&["undo", "--yes"]).exits(0);
            assert_eq!(tree(&root), *expected, "undo of the undo of {text}");
        }
    }
    assert!(repository(&root) == git_before, "git's index, refs, stash or objects changed");
    assert_eq!(tree(&root), last, "the last one was restored last");
}

#[test]
fn a_prompt_is_undone_with_its_own_name() {
    let env = TestEnvironment::repository();
    let root = project(&env);
    let mut agent = AgentAtWork::begin(&env, &root, "s1");
    agent.prompt("first");
    agent.edit("src/a", b"one\n");
    agent.turn_ends();
    let after_first = tree(&root);
    agent.prompt("second");
    agent.shell("rm src/b; echo two > src/a; echo new > created");
    agent.turn_ends();
    let plan = env.json(&["restore", "prompt", "--dry-run", "--run", "claude-code-s1"]);
    let actions: Vec<(&str, &str)> = plan["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| (file["path"].as_str().unwrap(), file["action"].as_str().unwrap()))
        .collect();
    assert_eq!(actions, [("created", "delete"), ("src/a", "restore"), ("src/b", "recreate")]);
    env.run(&["restore", "prompt", "--yes", "--run", "claude-code-s1"]).exits(0);
    assert_eq!(tree(&root), after_first);
    env.run(&["restore", "prompt~1", "--yes", "--run", "claude-code-s1"]).exits(0);
    assert_eq!(std::fs::read(root.join("src/a")).unwrap(), b"original a\nline two\n");
    let missing = env.run(&["restore", "prompt~7", "--yes", "--json", "--run", "claude-code-s1"]).exits(14);
    assert_eq!(missing.reason(), "checkpoint_not_found");
}

#[test]
fn what_others_wrote_is_a_conflict_and_stays() {
    let env = TestEnvironment::repository();
    let root = project(&env);
    let other_root = env.path("other");
    env.git(&["worktree", "add", "-q", other_root.to_str().unwrap(), "-b", "other"]);
    let mut first = AgentAtWork::begin(&env, &root, "s1");
    let mut second = AgentAtWork::begin(&env, &other_root, "s2");
    first.prompt("work");
    second.prompt("work elsewhere");
    let start = checkpoint(&env, "claude-code-s1", "start");
    first.shell("echo agent > src/a; echo agent > src/b; echo agent > mine");
    second.shell("echo second > src/a; echo second > theirs");
    first.turn_ends();
    second.turn_ends();
    // A person edits a file of the agent, one of their own, and one that nobody touched.
    pause();
    put(&root.join("src/b"), b"a person's version\n");
    put(&root.join("src/d"), b"a person's change\n");
    put(&root.join("note"), b"a person's file\n");
    let elsewhere = tree(&other_root);

    let reference = format!("claude-code-s1@{start}");
    let done = env.run(&["restore", &reference, "--yes", "--json"]).exits(3);
    let plan: Value = done.json();
    assert_eq!(plan["left_alone"], 2, "{plan}");
    assert_eq!(std::fs::read(root.join("src/a")).unwrap(), b"original a\nline two\n");
    assert!(!root.join("mine").exists());
    assert_eq!(std::fs::read(root.join("src/b")).unwrap(), b"a person's version\n", "{plan}");
    assert_eq!(std::fs::read(root.join("src/d")).unwrap(), b"a person's change\n");
    assert_eq!(std::fs::read(root.join("note")).unwrap(), b"a person's file\n");
    assert_eq!(tree(&other_root), elsewhere, "another worktree changed");

    // `--all` names them as conflicts, and `--force` replaces them in a way that can be undone.
    let before = tree(&root);
    let plan = env.json(&["restore", &reference, "--all", "--dry-run"]);
    let conflicts =
        plan["files"].as_array().unwrap().iter().filter(|file| file["action"] == "conflict").count();
    assert_eq!(conflicts, 3, "{plan}");
    env.run(&["restore", &reference, "--all", "--force", "--yes"]).exits(0);
    assert_eq!(std::fs::read(root.join("src/d")).unwrap(), b"original d\nline two\n");
    assert!(!root.join("note").exists());
    env.run(&["undo", "--yes"]).exits(0);
    assert_eq!(tree(&root), before);
}

#[test]
fn contents_that_no_checkpoint_has_are_moved_aside_and_come_back() {
    let env = TestEnvironment::repository();
    let root = project(&env);
    let mut agent = AgentAtWork::begin(&env, &root, "s1");
    put(&root.join("grows"), b"small\n");
    agent.prompt("work");
    let start = checkpoint(&env, "claude-code-s1", "start");
    let big = vec![b'x'; 11 << 20];
    agent.shell("head -c 11534336 /dev/zero | tr '\\0' x > grows; echo SECRET=1 > .env; echo k > server.pem");
    agent.turn_ends();
    assert_eq!(std::fs::read(root.join("grows")).unwrap(), big);
    let before = tree(&root);
    let done = env.run(&["restore", &format!("claude-code-s1@{start}"), "--yes", "--json"]).exits(0);
    assert_eq!(std::fs::read(root.join("grows")).unwrap(), b"small\n", "{}", done.stdout);
    assert!(!root.join(".env").exists() && !root.join("server.pem").exists(), "{}", done.stdout);
    let aside = done.json()["report"]["moved_aside"].as_array().unwrap().len();
    assert_eq!(aside, 3, "{}", done.stdout);
    let text = env.run(&["undo", "--yes"]).exits(0);
    assert_eq!(tree(&root), before, "{}", text.stdout);
    // What was recorded about them has no content.
    let skipped = env.json(&["show", "latest"])["checkpoint"]["workspace"]["skipped"].to_string();
    assert!(skipped.contains(".env: its name suggests that it contains secrets"), "{skipped}");
    assert!(skipped.contains("grows: it is larger than 10 MiB"), "{skipped}");
}

#[test]
fn another_live_run_in_the_worktree_stops_a_restore() {
    let env = TestEnvironment::repository();
    let root = project(&env);
    let mut first = AgentAtWork::begin(&env, &root, "s1");
    first.prompt("work");
    first.edit("src/a", b"one\n");
    first.turn_ends();
    let mut second = AgentAtWork::begin(&env, &root, "s2");
    second.prompt("work too");
    second.edit("src/b", b"two\n");
    let refused = env.run(&["restore", "prompt", "--run", "claude-code-s1", "--yes", "--json"]).exits(1);
    assert_eq!(refused.reason(), "resume_run_active");
    assert_eq!(std::fs::read(root.join("src/a")).unwrap(), b"one\n");
    second.agent.dies();
    env.run(&["restore", "prompt", "--run", "claude-code-s1", "--yes"]).exits(0);
    assert_eq!(std::fs::read(root.join("src/b")).unwrap(), b"two\n", "the other run's file stays");
}

#[test]
fn space_comes_back_and_damage_is_named() {
    let mut env = TestEnvironment::repository();
    let root = project(&env);
    let store = format!("files:{}", env.path("store").display());
    env.set("MILEPOST_STORE", &store);
    let noise: Vec<u8> = (0u32..300_000).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    put(&root.join("noise"), &noise);
    env.run(&["save", "one", "--run", "first"]).exits(0);
    env.run(&["save", "two", "--run", "second"]).exits(0);
    let blobs = env.path("store/.store/blobs");
    let size = |folder: &Path| -> u64 {
        let files = Command::new("du").args(["-sb"]).arg(folder).output().unwrap();
        String::from_utf8(files.stdout).unwrap().split('\t').next().unwrap().parse().unwrap()
    };
    let full = size(&blobs);
    assert!(full < 2 * noise.len() as u64, "stored once for both runs: {full}");
    env.run(&["verify"]).exits(0);

    // A flipped byte in any content is named, with the files that it affects.
    let largest = Command::new("find").arg(&blobs).args(["-type", "f", "-size", "+100k"]).output().unwrap();
    let file = PathBuf::from(String::from_utf8(largest.stdout).unwrap().lines().next().unwrap());
    let mut bytes = std::fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    put(&file, &bytes);
    let found = env.run(&["verify"]).exits(5);
    assert!(
        found.stdout.contains("noise in first@1") && found.stdout.contains("noise in second@1"),
        "{}",
        found.stdout
    );
    bytes[middle] ^= 1;
    put(&file, &bytes);
    env.run(&["verify"]).exits(0);

    std::fs::remove_file(root.join("noise")).unwrap();
    env.run(&["save", "three", "--run", "second"]).exits(0);
    env.run(&["delete", "first", "--yes"]).exits(0);
    assert!(size(&blobs) >= noise.len() as u64, "the second run still refers to it");
    env.run(&["delete", "second", "--yes"]).exits(0);
    env.run(&["save", "four", "--run", "third"]).exits(0);
    env.run(&["prune", "--yes"]).exits(0);
    assert!(size(&blobs) < 200_000, "{} bytes are left", size(&blobs));
}

#[test]
fn bundles_and_copies_carry_files_but_no_secrets() {
    let env = TestEnvironment::repository();
    let root = project(&env);
    put(&root.join("plain"), b"plain text\n");
    put(
        &root.join("leak"),
        b"key = AKIAIOSFODNN7EXAMPLQ\naws_secret_access_key=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\n",
    );
    env.run(&["save", "work", "--run", "r"]).exits(0);
    let bundle = env.path("r.bundle");
    let bundle = bundle.to_str().unwrap();
    let said = env.run(&["export", "bundle", "r", bundle, "--with-files"]).exits(0);
    assert!(said.stderr.contains("1 file content with secrets left out"), "{}{}", said.stdout, said.stderr);
    let copy = format!("sqlite:{}", env.path("copy.db").display());
    env.run(&["--store", &copy, "import", "bundle", bundle]).exits(0);
    env.run(&["--store", &copy, "verify"]).exits(0);
    let plan = env.json(&["--store", &copy, "restore", "r@1", "plain", "leak", "--dry-run"]);
    assert_eq!(plan["files"].as_array().map(Vec::len), Some(0), "nothing differs: {plan}");
    std::fs::remove_file(root.join("plain")).unwrap();
    std::fs::remove_file(root.join("leak")).unwrap();
    let done = env.run(&["--store", &copy, "restore", "r@1", "plain", "--all", "--force", "--yes", "--json"]);
    assert_eq!(std::fs::read(root.join("plain")).unwrap(), b"plain text\n", "{}{}", done.stdout, done.stderr);
    // Without --with-files a bundle has none.
    let without = env.path("without.bundle");
    env.run(&["export", "bundle", "r", without.to_str().unwrap()]).exits(0);
    let bare = format!("sqlite:{}", env.path("bare.db").display());
    env.run(&["--store", &bare, "import", "bundle", without.to_str().unwrap()]).exits(0);
    env.run(&["--store", &bare, "verify"]).exits(0);
    let none = env.run(&["--store", &bare, "restore", "r@1", "--dry-run", "--json"]).exits(14);
    assert_eq!(none.reason(), "files_unavailable");
    // A copy has everything but what contains secrets.
    let from = format!("sqlite:{}", root.join(".git/milepost/milepost.db").display());
    let to = format!("files:{}", env.path("copied").display());
    let copied = env.json(&["copy", "--from", &from, "--to", &to, "--verify"]);
    assert_eq!(copied["files_with_secrets"], 1, "{copied}");
    let copied = env.json(&["copy", "--from", &from, "--to", &to, "--with-secrets"]);
    assert_eq!(copied["files"], 1, "{copied}");
    env.run(&["--store", &to, "verify"]).exits(0);
}

#[test]
fn files_of_the_first_commit_come_back() {
    let env = TestEnvironment::new();
    let root = env.project();
    env.git(&["init", "-q", "-b", "main"]);
    env.run(&["init"]).exits(0);
    let mut agent = AgentAtWork::begin(&env, &root, "s1");
    agent.prompt("write it");
    agent.shell("echo one > a; echo one > b");
    agent.shell("git add a b && git commit -qm first");
    let committed = checkpoint(&env, "claude-code-s1", "committed");
    agent.shell("echo two > a; git rm -q --cached b; echo two > b");
    agent.turn_ends();
    env.run(&["restore", &format!("claude-code-s1@{committed}"), "--yes"]).exits(0);
    let text = |name: &str| std::fs::read_to_string(root.join(name)).unwrap();
    assert_eq!((text("a").as_str(), text("b").as_str()), ("one\n", "one\n"));
}

#[test]
fn a_switch_between_very_different_branches_mixes_no_versions() {
    let env = TestEnvironment::repository();
    let root = project(&env);
    let mut agent = AgentAtWork::begin(&env, &root, "s1");
    let home = env.path("home");
    let script = "git checkout -qb other; mkdir many; for n in $(seq 2100); do echo $n > many/$n; done; \
                  echo other > src/a; git add -A; git commit -qm other; git checkout -q main";
    assert!(shell(&root, &home, script).status.success());
    agent.prompt("work");
    let start = checkpoint(&env, "claude-code-s1", "start");
    agent.shell("git checkout -q other");
    agent.edit("src/a", b"edited on the other branch\n");
    agent.turn_ends();
    let reference = format!("claude-code-s1@{start}");
    let shown = env.run(&["show", &format!("{reference}:src/a")]).exits(0);
    assert_eq!(shown.stdout, "original a\nline two\n");
    env.run(&["restore", &reference, "src/a", "--force", "--yes"]).exits(0);
    assert_eq!(std::fs::read_to_string(root.join("src/a")).unwrap(), "original a\nline two\n");
}
