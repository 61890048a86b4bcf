//! Capture: the git status of repositories with awkward paths, files that were modified and then reverted,
//! and watched folders. A capture must not disturb other git processes.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use milepost::model::PathText;
use serde_json::{Value, json};

use crate::TestEnvironment;

fn write(path: &Path, content: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    #[allow(clippy::disallowed_methods, reason = "a test's own file")]
    std::fs::write(path, content).unwrap();
}

fn commit(env: &TestEnvironment) {
    env.git(&["add", "-A"]);
    env.git(&["-c", "user.name=t", "-c", "user.email=t@t", "commit", "-q", "--allow-empty", "-m", "more"]);
}

/// The captured workspace of the newest checkpoint.
fn workspace(env: &TestEnvironment) -> Value {
    env.json(&["show"])["checkpoint"]["workspace"].clone()
}

/// Decodes a list of paths to their bytes.
fn list(value: &Value) -> BTreeSet<Vec<u8>> {
    let paths: Vec<PathText> = serde_json::from_value(value.clone()).unwrap();
    paths.iter().map(|path| path.to_bytes().unwrap()).collect()
}

fn names(all: &[&[u8]]) -> BTreeSet<Vec<u8>> {
    all.iter().map(|name| name.to_vec()).collect()
}

const NASTY: [&[u8]; 9] = [
    b"with space",
    b"with \"quotes\" and 'more'",
    b"new\nline",
    b"tab\tbed",
    b"a -> b",
    b"\xc3\xbcml\xc3\xa4ut",
    b"not \xff\xfe utf-8",
    b"-dash",
    b"back\\slash",
];

/// User settings that change the output of git.
const CONFIG: &str = "[status]\n showUntrackedFiles = no\n relativePaths = true\n short = true\n branch = true\n \
    renames = false\n[diff]\n renames = false\n ignoreSubmodules = all\n noprefix = true\n[core]\n \
    quotePath = true\n fsmonitor = true\n excludesFile = ~/ignore\n pager = false-pager\n[color]\n ui = always\n \
    status = always\n[column]\n ui = always\n[submodule \"sub\"]\n ignore = all\n[protocol \"file\"]\n allow = always\n\
    [alias]\n status = false\n[user]\n name = t\n email = t@t\n";

#[test]
fn every_awkward_path_is_in_the_right_list() {
    let env = TestEnvironment::repository();
    write(&env.path("home/.gitconfig"), CONFIG);
    write(&env.path("home/ignore"), "fresh\n*.tmp\n");
    let root = env.project();
    let at = |name: &[u8]| root.join(OsStr::from_bytes(name));
    for name in NASTY {
        write(&at(name), "one\n");
    }
    for name in ["renamed from", "typed", "gone", "both", "clashing", "quiet", "dropped"] {
        write(&root.join(name), &format!("content of {name}, long enough to be known again\n"));
    }
    // A submodule, and a branch with a merge conflict.
    let other = TestEnvironment::repository();
    env.git(&["submodule", "--quiet", "add", other.project().to_str().unwrap(), "sub"]);
    commit(&env);
    env.git(&["checkout", "-q", "-b", "side"]);
    write(&root.join("clashing"), "theirs\n");
    commit(&env);
    env.git(&["checkout", "-q", "main"]);
    write(&root.join("clashing"), "ours\n");
    commit(&env);
    let clash = Command::new("git")
        .args(["merge", "-q", "side"])
        .current_dir(&root)
        .env("HOME", env.path("home"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert_eq!(clash.code(), Some(1), "the merge has a conflict");
    for name in NASTY {
        write(&at(name), "two\n");
    }
    env.git(&["mv", "renamed from", "renamed to -> here"]);
    std::fs::remove_file(root.join("typed")).unwrap();
    std::os::unix::fs::symlink("quiet", root.join("typed")).unwrap();
    std::fs::remove_file(root.join("gone")).unwrap();
    env.git(&["rm", "-q", "dropped"]);
    write(&root.join("both"), "staged\n");
    env.git(&["add", "both"]);
    write(&root.join("both"), "and changed again\n");
    write(&root.join("intended"), "to be added\n");
    env.git(&["add", "-N", "intended"]);
    env.git(&["-C", "sub", "commit", "-q", "--allow-empty", "-m", "in the submodule"]);
    for n in 1..=5 {
        write(&root.join(format!("fresh/folder/{n} ü")), "new\n");
    }
    env.save(&["--run", "r"]);
    let seen = workspace(&env);
    let git = &seen["git"];
    assert_eq!(
        (&git["error"], &git["branch"], seen["skipped"].as_array().unwrap().len()),
        (&Value::Null, &json!("main"), 0)
    );
    assert_eq!(git["head"].as_str().unwrap().len(), 40);
    let mut modified = names(&NASTY);
    modified.extend(names(&[b"typed", b"gone", b"both", b"clashing", b"intended", b"sub"]));
    assert_eq!(list(&git["modified"]), modified);
    assert_eq!(list(&git["staged"]), names(&[b"both", b"dropped", b"renamed to -> here"]));
    assert_eq!(git["renamed"], json!([{"from": "renamed from", "to": "renamed to -> here"}]));
    let fresh: BTreeSet<_> = (1..=5).map(|n| format!("fresh/folder/{n} ü").into_bytes()).collect();
    assert_eq!(list(&git["untracked"]), fresh);
    let gone = names(&[b"gone", b"dropped", b"renamed from"]);
    let touched = list(&seen["files_modified"]);
    for name in touched.iter().filter(|name| !gone.contains(*name)) {
        assert!(std::fs::symlink_metadata(at(name)).is_ok(), "{}", String::from_utf8_lossy(name));
    }
    let all: BTreeSet<_> =
        modified.into_iter().chain(fresh).chain(gone).chain(names(&[b"renamed to -> here"])).collect();
    assert_eq!(touched, all);
    let sorted: Vec<PathText> = serde_json::from_value(seen["files_modified"].clone()).unwrap();
    assert!(sorted.is_sorted());
    assert!(!root.join(".git/index.lock").exists());
}

#[test]
fn unborn_and_detached_branches_have_names() {
    let env = TestEnvironment::new();
    env.git(&["init", "-q", "-b", "trunk"]);
    write(&env.project().join("a"), "x");
    env.git(&["add", "a"]);
    env.save(&["--run", "r"]);
    let git = &workspace(&env)["git"];
    assert_eq!(
        (&git["branch"], &git["head"], &git["staged"]),
        (&json!("trunk"), &Value::Null, &json!(["a"]))
    );
    // The run began without a commit, so every committed file counts as modified.
    commit(&env);
    env.git(&["checkout", "-q", "--detach"]);
    env.save(&["--run", "r"]);
    let seen = workspace(&env);
    let head = seen["git"]["head"].as_str().unwrap();
    assert_eq!(seen["git"]["branch"], format!("(detached at {})", &head[..12]));
    assert_eq!((&seen["git"]["staged"], &seen["files_modified"]), (&json!([]), &json!(["a"])));
    // A linked worktree is captured in its own folder.
    env.git(&["worktree", "add", "-q", "-b", "other", "../other"]);
    write(&env.path("other/b"), "x");
    env.run_in(&env.path("other"), &["save", "--run", "w"]).exits(0);
    let git = &env.json(&["show", "w@1"])["checkpoint"]["workspace"]["git"];
    assert_eq!((&git["branch"], &git["untracked"]), (&json!("other"), &json!(["b"])));
}

#[test]
fn a_brief_says_which_changes_are_committed_now() {
    let env = TestEnvironment::repository();
    for name in ["committed", "changed", "staged"] {
        write(&env.project().join(name), "one");
    }
    commit(&env);
    // The newest checkpoint is older than the changes.
    env.save(&["--run", "r"]);
    write(&env.project().join("committed"), "two");
    commit(&env);
    for name in ["changed", "staged", "new"] {
        write(&env.project().join(name), "two");
    }
    env.git(&["add", "staged"]);
    let check = || {
        let brief = env.run(&["brief", "show", "latest", "--run", "r"]).exits(0).stdout;
        for row in [
            "| `committed` | modified | committed |",
            "| `changed` | modified | not committed |",
            "| `staged` | modified | not committed |",
            "| `new` | created | not committed |",
        ] {
            assert!(brief.contains(row), "{row} in {brief}");
        }
    };
    check();
    env.save(&["--run", "r", "--no-capture", "--summary", "no git status"]);
    check();
}

#[test]
fn committed_and_reverted_files_stay_in_files_modified() {
    let env = TestEnvironment::repository();
    for name in ["kept", "committed", "reverted"] {
        write(&env.project().join(name), "one");
    }
    commit(&env);
    let save = || {
        env.save(&["--run", "r"]);
        workspace(&env)
    };
    assert_eq!(save()["files_modified"], json!([]));
    write(&env.project().join("committed"), "two");
    commit(&env);
    write(&env.project().join("reverted"), "two");
    write(&env.project().join("came"), "and went");
    assert_eq!(save()["files_modified"], json!(["came", "committed", "reverted"]));
    env.git(&["checkout", "-q", "--", "reverted"]);
    std::fs::remove_file(env.project().join("came")).unwrap();
    let seen = save();
    assert_eq!(seen["git"]["modified"], json!([]));
    assert_eq!(seen["files_modified"], json!(["came", "committed", "reverted"]));
    // They also stay after a hard reset and across saves without a capture.
    env.git(&["reset", "-q", "--hard", "HEAD~1"]);
    for n in 0..60 {
        env.save(&["--run", "r", "--no-capture", "--summary", &n.to_string()]);
    }
    assert_eq!(env.json(&["show"])["checkpoint"]["workspace"], Value::Null);
    assert_eq!(save()["files_modified"], json!(["came", "committed", "reverted"]));
    let list = env.json(&["list", "--run", "r", "--limit", "0"]);
    assert!(
        list["checkpoints"].as_array().unwrap().len() <= 52,
        "old captures are pruned once they are not needed"
    );
}

#[test]
fn captures_never_make_an_agents_commits_fail() {
    let env = TestEnvironment::repository();
    for n in 0..300 {
        write(&env.project().join(format!("f{n}")), "x");
    }
    env.git(&["config", "user.email", "t@t"]);
    env.git(&["config", "user.name", "t"]);
    env.save(&["--run", "r"]);
    // One process runs all of the agent's commands, so that captures happen at any moment.
    let script = "i=0; while [ $i -lt 300 ]; do echo $i >> f$i && git add f$i && git commit -qm $i || exit 1; \
                  i=$((i+1)); done";
    let mut agent = Command::new("sh")
        .args(["-c", script])
        .current_dir(env.project())
        .env("HOME", env.path("home"))
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut captures = 0;
    while agent.try_wait().unwrap().is_none() {
        env.run(&["save", "--run", "r", "--summary", &captures.to_string()]).exits(0);
        captures += 1;
    }
    let ended = agent.wait_with_output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    assert!(captures >= 5, "{captures}");
    env.save(&["--run", "r", "--summary", "last"]);
    assert_eq!(workspace(&env)["files_modified"].as_array().unwrap().len(), 300);
    let list = env.json(&["list", "--run", "r", "--limit", "0"]);
    let errors = list["checkpoints"].as_array().unwrap().iter().filter(|c| {
        let shown = env.json(&["show", c["snapshot_id"].as_str().unwrap()]);
        !shown["checkpoint"]["workspace"]["git"]["error"].is_null()
    });
    assert_eq!(errors.count(), 0);
}

#[test]
fn fifty_thousand_changed_files_are_all_captured() {
    let env = TestEnvironment::repository();
    for n in 0..50_000 {
        let folder = env.project().join(format!("d{}", n % 100));
        if n < 100 {
            std::fs::create_dir(&folder).unwrap();
        }
        std::fs::File::create(folder.join(format!("file-{n}"))).unwrap();
    }
    env.save(&["--run", "r"]);
    let seen = workspace(&env);
    assert_eq!(seen["git"]["untracked"].as_array().unwrap().len(), 50_000);
    assert_eq!(seen["files_modified"].as_array().unwrap().len(), 50_000);
    let left_out = json!(["files: 45000 paths over the limits of 20000 paths, 5000 of them untracked"]);
    assert_eq!((&seen["skipped"], &seen["git"]["error"]), (&left_out, &Value::Null));
    std::fs::remove_dir_all(env.project().join("d7")).unwrap();
    env.save(&["--run", "r"]);
    let seen = workspace(&env);
    assert_eq!(seen["git"]["untracked"].as_array().unwrap().len(), 49_500);
    assert_eq!(seen["files_modified"].as_array().unwrap().len(), 50_000);
}

#[test]
fn a_checkpoint_is_saved_if_git_is_unavailable() {
    let lists = |git: &Value| {
        ["modified", "staged", "untracked", "renamed"].iter().all(|name| git[name] == json!([]))
    };
    let env = TestEnvironment::new();
    let ran = env.run(&["save"]).exits(0);
    assert_eq!(ran.stderr, "");
    let git = workspace(&env)["git"].clone();
    assert!(git["error"] == "not a git repository" && lists(&git), "{git}");
    // Git is not installed.
    let env = TestEnvironment::repository();
    write(&env.project().join("a"), "x");
    let ran = env.run_with(&[("PATH", "/nowhere")], &["save"]).exits(0);
    assert_eq!(ran.stderr, "");
    let git = workspace(&env)["git"].clone();
    assert!(git["error"].as_str().unwrap().contains("not installed") && lists(&git), "{git}");
    // A git that hangs, with a child that keeps its output open.
    let bin = env.path("bin");
    write(&bin.join("git"), "#!/bin/sh\n/bin/sleep 60 &\n/bin/sleep 60\n");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(bin.join("git"), mode).unwrap();
    let start = Instant::now();
    env.run_with(&[("PATH", bin.to_str().unwrap())], &["save", "--summary", "hangs"]).exits(0);
    assert!(start.elapsed() < Duration::from_secs(15), "{:?}", start.elapsed());
    let git = workspace(&env)["git"].clone();
    assert!(git["error"].as_str().unwrap().contains("longer than 5 s") && lists(&git), "{git}");
    // A command under `run` starts without waiting that long for git.
    let mut command = env.command(&["run", "--run", "slow", "--", "sh", "-c", "date +%s%N; exec sleep 6"]);
    let begun = Instant::now();
    let mut child = command
        .env("PATH", format!("{}:/usr/bin:/bin", bin.display()))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.as_mut().unwrap()), &mut line)
        .unwrap();
    assert!(begun.elapsed() < Duration::from_millis(3500), "{:?}", begun.elapsed());
    assert!(child.wait().unwrap().success());
    let first = env.json(&["show", "slow@1"])["checkpoint"].clone();
    assert!(first["workspace"]["skipped"][0].as_str().unwrap().contains("in the background"), "{first}");
    let second = env.json(&["show", "slow@2"])["checkpoint"].clone();
    assert_eq!(second["source_details"], json!(["timer", "late_capture"]));
    assert!(second["workspace"]["git"]["error"].as_str().unwrap().contains("longer than 5 s"));
}

#[test]
fn a_repository_in_the_home_folder_is_not_captured_by_default() {
    let mut env = TestEnvironment::repository();
    env.set("HOME", env.project().to_str().unwrap());
    env.set("XDG_STATE_HOME", env.path("home").to_str().unwrap());
    write(&env.project().join("work/a"), "x");
    env.run_in(&env.project().join("work"), &["save"]).exits(0);
    let git = workspace(&env)["git"].clone();
    assert!(git["error"].as_str().unwrap().contains("allow_home"), "{git}");
    write(&env.project().join("milepost.toml"), "[capture]\nallow_home = true\n");
    env.save(&[]);
    assert!(workspace(&env)["git"]["error"].is_string(), "not until it is trusted");
    env.trust_project();
    env.save(&["--summary", "trusted"]);
    assert_eq!(workspace(&env)["git"]["untracked"], json!(["milepost.toml", "work/a"]));
}

#[test]
fn git_variables_of_a_git_hook_are_ignored() {
    let env = TestEnvironment::repository();
    let other = TestEnvironment::repository();
    write(&env.project().join("here"), "x");
    write(&other.project().join("there"), "x");
    let dir = other.project().join(".git");
    let variables = [("GIT_DIR", dir.to_str().unwrap()), ("GIT_INDEX_FILE", "/nowhere"), ("GIT_TRACE", "2")];
    let ran = env.run_with(&variables, &["save"]).exits(0);
    assert_eq!(ran.stderr, "");
    assert_eq!(workspace(&env)["git"]["untracked"], json!(["here"]));
}

#[test]
fn watched_folders_are_listed_and_unreadable_entries_are_reported() {
    let env = TestEnvironment::new();
    let root = env.project();
    write(&root.join(".aiwg/requirements/UC-001.md"), "0123456789");
    write(&root.join("docs/deep/er/a.md"), "abc");
    write(&root.join("docs/.git/config"), "no");
    std::os::unix::fs::symlink("nowhere", root.join("docs/dangling")).unwrap();
    std::os::unix::fs::symlink("..", root.join("docs/deep/loop")).unwrap();
    std::os::unix::fs::symlink("deep/er/a.md", root.join("docs/link.md")).unwrap();
    write(&root.join(OsStr::from_bytes(b"docs/\xff")), "12");
    write(&root.join("milepost.toml"), "[capture]\nwatch = [\"docs\", \"missing\", \".\"]\n");
    env.save(&["--run", "r"]);
    let seen = workspace(&env);
    let watched = &seen["watched"];
    let sizes = &watched["sizes"];
    assert_eq!(
        (&sizes[".aiwg/requirements/UC-001.md"], &sizes["docs/deep/er/a.md"]),
        (&json!(10), &json!(3))
    );
    assert_eq!((&sizes["docs/link.md"], &sizes["b64:ZG9jcy//"]), (&json!(3), &json!(2)));
    let files = list(&watched["files"]);
    let mut expected = names(&[
        b".aiwg/requirements/UC-001.md",
        b"docs/deep/er/a.md",
        b"docs/link.md",
        b"docs/\xff",
        b"milepost.toml",
    ]);
    assert_eq!(files, expected, "the store is excluded");
    assert!(watched["error"].as_str().unwrap().contains("missing"), "{watched}");
    let skipped = seen["skipped"].to_string();
    assert!(skipped.contains("docs/dangling") && skipped.contains("docs/deep/loop"), "{skipped}");
    // `--watch` is relative to the current folder and applies to every command of the run.
    std::fs::remove_file(root.join("milepost.toml")).unwrap();
    let milepost = env!("CARGO_BIN_EXE_milepost");
    let inside = format!("{milepost} save --summary inside");
    env.run_in(&root.join("docs"), &["run", "--run", "w", "--watch", "deep/er", "--", "sh", "-c", &inside])
        .exits(0);
    // Outside git, the folder of the store is the project root.
    for n in 1..=3 {
        let seen = env.json(&["show", &format!("w@{n}")])["checkpoint"]["workspace"]["watched"].clone();
        expected = names(&[b".aiwg/requirements/UC-001.md", b"docs/deep/er/a.md"]);
        assert_eq!(list(&seen["files"]), expected, "{n}");
    }
}

#[test]
fn a_store_inside_the_worktree_is_not_captured() {
    let env = TestEnvironment::repository();
    write(&env.project().join("work"), "x");
    for store in ["sqlite:here.db", "files:kept", "sqlite:sub/x.db"] {
        std::fs::create_dir_all(env.project().join("sub")).unwrap();
        for _ in 0..2 {
            env.run(&["save", "--store", store, "--run", "r"]).exits(0);
        }
        let seen = env.json(&["show", "--store", store])["checkpoint"]["workspace"].clone();
        assert!(list(&seen["git"]["untracked"]).contains(&b"work"[..]), "{store}");
        let own = list(&seen["files_modified"])
            .into_iter()
            .filter(|name| name.starts_with(&store.as_bytes()[store.find(':').unwrap() + 1..]));
        assert_eq!(own.count(), 0, "{store}: {seen}");
    }
}

#[test]
fn profiles_decide_when_to_capture() {
    let env = TestEnvironment::repository();
    let looks = |profile: &str, args: &[&str]| {
        let run = format!("r-{profile}-{}", args.join(""));
        let mut all = vec!["--run", &run, "--profile", profile];
        all.extend(args);
        env.save(&all);
        !workspace(&env).is_null()
    };
    for (profile, boundary, timer) in [
        ("run", true, true),
        ("build", true, false),
        ("session", true, true),
        ("pai", false, false),
        ("brief", false, false),
    ] {
        assert_eq!(looks(profile, &[]), boundary, "{profile}");
        assert_eq!(looks(profile, &["--source", "timer"]), timer, "{profile}");
        assert!(!looks(profile, &["--no-capture"]));
    }
    // In the `run` profile, a timer soon after a capture does not capture again. Its save is compared
    // without the workspace.
    env.save(&["--run", "soon"]);
    let id = env.json(&["show"])["checkpoint"]["snapshot_id"].clone();
    let again = env.json(&["save", "--run", "soon", "--source", "timer"]);
    assert_eq!((&again["coalesced"], &again["snapshot_id"]), (&json!(true), &id));
    env.run(&["step", "begin", "s", "--run", "soon"]).exits(0);
    assert!(!workspace(&env).is_null());
    env.write("milepost.toml", "[capture]\nenabled = false\n");
    env.run(&["step", "done", "s", "--run", "soon"]).exits(0);
    assert!(workspace(&env).is_null());
}

#[test]
fn a_workspace_from_the_caller_replaces_the_capture() {
    let env = TestEnvironment::repository();
    write(&env.project().join("a"), "x");
    let input = br#"{"workspace":{"files_modified":["of the caller"],"git":{"branch":"b"}}}"#;
    env.run_on(input, &["save", "--run", "r", "--input", "-"]).exits(0);
    let seen = workspace(&env);
    assert_eq!((&seen["files_modified"], &seen["git"]["branch"]), (&json!(["of the caller"]), &json!("b")));
    env.save(&["--run", "r"]);
    assert_eq!(workspace(&env)["files_modified"], json!(["a", "of the caller"]));
}
