//! Files with git's own features: sparse checkouts, filters, line endings and submodules. The bytes of the worktree
//! are what is stored and restored, filters of a repository never run, and what git hides stays untouched.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::environment::{TestEnvironment, finished};
use crate::files::{AgentAtWork, checkpoint, put};
use crate::files_abuse::commit_all;

const RUN: &str = "claude-code-s1";

fn initialize(env: &TestEnvironment) -> PathBuf {
    env.run(&["init", "--agents", "none"]).exits(0);
    std::fs::remove_file(env.project().join("milepost.toml")).unwrap();
    env.project()
}

/// The output of git.
fn git_output(env: &TestEnvironment, args: &[&str]) -> String {
    finished(env.program("git").args(args), None).exits(0).stdout
}

fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The entry of a path in a plan.
fn planned<'a>(plan: &'a Value, path: &str) -> Option<&'a Value> {
    plan["files"].as_array().unwrap().iter().find(|file| file["path"] == path)
}

fn restore(env: &TestEnvironment, number: u64, more: &[&str]) -> Value {
    let reference = format!("{RUN}@{number}");
    let args = [&["restore", &reference, "--yes", "--json"], more].concat();
    let done = env.run(&args);
    assert!([0, 3].contains(&done.code), "{done:#?}");
    done.json()
}

#[test]
fn files_outside_of_a_sparse_checkout_are_neither_deleted_nor_created() {
    let env = TestEnvironment::repository();
    let root = initialize(&env);
    for name in ["in/a", "out/b", "out/c"] {
        put(&root.join(name), format!("{name} committed\n").as_bytes());
    }
    commit_all(&env);
    let mut agent = AgentAtWork::begin(&env, &root, "s1");
    agent.prompt("work");
    // `out/b` is listed in snapshots from here on, `out/c` never.
    agent.shell("echo edited > out/b; git commit -qam edited");
    let everything = checkpoint(&env, RUN, "everything is checked out");
    agent.shell("git sparse-checkout set --cone in");
    assert!(root.join("in/a").exists() && !root.join("out").exists(), "git removed the other folder");
    let sparse = checkpoint(&env, RUN, "sparse");
    agent.shell("echo changed > in/a");
    // A commit from elsewhere changes a file that is not checked out.
    agent.shell(
        "id=$(echo from elsewhere | git hash-object -w --stdin); \
                 git update-index --cacheinfo 100644,$id,out/c; git update-index --skip-worktree out/c; \
                 git commit -qm elsewhere",
    );
    assert!(!root.join("out").exists());
    let later = checkpoint(&env, RUN, "later");
    agent.turn_ends();

    let listed = git_output(&env, &["status", "--porcelain"]);
    assert_eq!(listed, " M in/a\n", "git sees only one change");
    let changes =
        env.run(&["diff", &format!("{RUN}@{everything}"), &format!("{RUN}@{later}"), "--patch"]).exits(0);
    assert!(!changes.stdout.contains("deleted file"), "recorded as deleted:\n{}", changes.stdout);
    for number in [everything, sparse, later] {
        for more in [&["--all"][..], &["--all", "--force"]] {
            let plan = restore(&env, number, more);
            assert!(!root.join("out").exists(), "restore {number} created files: {plan}");
            assert_eq!(planned(&plan, "out/c"), None, "{plan}");
        }
    }
    assert_eq!(read(&root.join("in/a")), b"changed\n");
    restore(&env, sparse, &[]);
    assert_eq!(read(&root.join("in/a")), b"in/a committed\n");

    // Everything is checked out again, so the files exist. An earlier sparse checkpoint does not delete them.
    env.git(&["sparse-checkout", "disable"]);
    for more in [&["--all"][..], &["--all", "--force"]] {
        let plan = restore(&env, sparse, more);
        assert_eq!(read(&root.join("out/b")), b"edited\n", "{plan}");
        assert_eq!(read(&root.join("out/c")), b"from elsewhere\n", "{plan}");
    }
    env.run(&["verify"]).exits(0);
}

/// A repository in which `big.dat` has the filter `name`, with a stand-in for its committed version.
fn filtered_project(env: &TestEnvironment, name: &str, scope: &str) -> PathBuf {
    let root = initialize(env);
    let log = env.path("filter.log").display().to_string();
    // As LFS does: the repository contains something else than the worktree, and the filter converts it.
    for (program, letters) in [("clean", "a-z n-za-m"), ("smudge", "n-za-m a-z")] {
        let command = format!("sh -c \"echo {program} >> '{log}'; tr {letters}\"");
        env.git(&["config", scope, &format!("filter.{name}.{program}"), &command]);
    }
    env.git(&["config", scope, &format!("filter.{name}.required"), "true"]);
    put(&root.join(".gitattributes"), format!("*.dat filter={name}\n").as_bytes());
    put(&root.join("big.dat"), b"the data\n");
    put(&root.join("plain.txt"), b"plain\n");
    // Git would compare a file that is as new as the index, and find that it differs without its filter.
    let file = std::fs::File::options().append(true).open(root.join("big.dat")).unwrap();
    let written = file.metadata().unwrap().modified().unwrap();
    file.set_modified(written - std::time::Duration::from_secs(10)).unwrap();
    commit_all(env);
    assert_eq!(
        git_output(env, &["cat-file", "blob", "HEAD:big.dat"]),
        "gur qngn\n",
        "a stand-in is committed"
    );
    std::fs::remove_file(&log).unwrap();
    root
}

/// Changes a filtered file, and goes back to each of its versions.
fn filtered_file_comes_back_from_the_worktree(env: &TestEnvironment, root: &Path, name: &str) {
    let mut agent = AgentAtWork::begin(env, root, "s1");
    agent.prompt("work");
    let start = checkpoint(env, RUN, "clean");
    agent.edit("big.dat", b"first edit\n");
    agent.edit("plain.txt", b"edited\n");
    let first = checkpoint(env, RUN, "first edit");
    agent.edit("big.dat", b"second edit\0\xff\n");
    agent.turn_ends();

    let plan = env.json(&["restore", &format!("{RUN}@{start}"), "--dry-run"]);
    let file = planned(&plan, "big.dat").unwrap_or_else(|| panic!("not listed: {plan}"));
    assert_eq!(file["action"], "unavailable", "{plan}");
    let reason = file["reason"].as_str().unwrap();
    assert!(reason.contains(&format!("filter \"{name}\"")), "{reason}");
    let shown = env.run(&["show", &format!("{RUN}@{start}:big.dat")]);
    assert!(shown.code != 0 && shown.stdout.is_empty(), "{shown:#?}");

    restore(env, first, &[]);
    assert_eq!(read(&root.join("big.dat")), b"first edit\n");
    env.run(&["undo", "--yes"]).exits(0);
    assert_eq!(read(&root.join("big.dat")), b"second edit\0\xff\n");
    for more in [&[][..], &["--force", "--all"]] {
        restore(env, start, more);
        assert_eq!(read(&root.join("big.dat")), b"second edit\0\xff\n", "no stand-in may replace it");
    }
    assert_eq!(read(&root.join("plain.txt")), b"plain\n", "other files come back");
    env.run(&["verify"]).exits(0);
}

#[test]
fn a_filter_of_the_user_leaves_the_content_of_the_worktree() {
    let env = TestEnvironment::repository();
    let root = filtered_project(&env, "lfs", "--global");
    filtered_file_comes_back_from_the_worktree(&env, &root, "lfs");
    let log = std::fs::read_to_string(env.path("filter.log")).unwrap_or_default();
    assert!(!log.contains("smudge"), "committed contents were converted:\n{log}");
}

#[test]
fn a_filter_of_the_repository_never_runs() {
    let env = TestEnvironment::repository();
    let root = filtered_project(&env, "crypt", "--local");
    filtered_file_comes_back_from_the_worktree(&env, &root, "crypt");
    let log = std::fs::read_to_string(env.path("filter.log")).unwrap_or_default();
    assert_eq!(log, "", "a filter of the repository ran");
}

#[test]
fn line_endings_come_back_as_they_were_in_the_worktree() {
    let env = TestEnvironment::repository();
    let root = initialize(&env);
    env.git(&["config", "core.autocrlf", "true"]);
    env.git(&["config", "core.safecrlf", "false"]);
    put(&root.join(".gitattributes"), b"*.bat text eol=crlf\n*.sh text eol=lf\n*.bin -text\n");
    let committed: [(&str, &[u8]); 4] = [
        ("a.txt", b"one\r\ntwo\r\n"),
        ("run.bat", b"echo 1\r\necho 2\r\n"),
        ("run.sh", b"echo 1\necho 2\n"),
        ("data.bin", b"1\r\n2\n"),
    ];
    for (name, content) in committed {
        put(&root.join(name), content);
    }
    commit_all(&env);
    for (name, stored) in [("a.txt", "one\ntwo\n"), ("run.bat", "echo 1\necho 2\n"), ("data.bin", "1\r\n2\n")]
    {
        let object = format!("HEAD:{name}");
        assert_eq!(git_output(&env, &["cat-file", "blob", &object]), stored, "what git stores of {name}");
    }
    let mut agent = AgentAtWork::begin(&env, &root, "s1");
    agent.prompt("work");
    let start = checkpoint(&env, RUN, "clean");
    let edited: [(&str, &[u8]); 4] = [
        ("a.txt", b"mixed\nline\r\nendings\r"),
        ("run.bat", b"only\nline feeds\n"),
        ("run.sh", b"carriage\r\nreturns\r\n"),
        ("data.bin", b"\r\n\n\r"),
    ];
    for (name, content) in edited {
        agent.edit(name, content);
    }
    let first = checkpoint(&env, RUN, "edited");
    agent.shell("rm a.txt run.bat run.sh data.bin");
    agent.turn_ends();

    restore(&env, first, &[]);
    for (name, content) in edited {
        assert_eq!(read(&root.join(name)), content, "{name} as it was edited");
    }
    // Git converted these when it wrote them, and does so again.
    restore(&env, start, &[]);
    for (name, content) in committed {
        assert_eq!(read(&root.join(name)), content, "{name} as it was committed");
    }
    assert_eq!(git_output(&env, &["status", "--porcelain"]), "", "git sees no change");
    env.run(&["verify"]).exits(0);
}

#[test]
fn submodules_are_recorded_by_commit_and_not_entered() {
    let env = TestEnvironment::repository();
    let root = initialize(&env);
    let library = env.path("library");
    put(&library.join("lib.c"), b"version 1\n");
    let commit = "-c user.name=t -c user.email=t@t commit -qm";
    let at = |folder: &Path, script: &str| {
        let mut sh = env.program("sh");
        finished(sh.args(["-ec", script]).current_dir(folder), None).exits(0).stdout.trim().to_owned()
    };
    at(&library, &format!("git init -qb main && git add -A && git {commit} one"));
    put(&root.join("main.c"), b"original\n");
    env.git(&[
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "add",
        "-q",
        &library.display().to_string(),
        "sub",
    ]);
    commit_all(&env);
    let module = root.join("sub");
    let first_commit = at(&module, "git rev-parse HEAD");

    let mut agent = AgentAtWork::begin(&env, &root, "s1");
    agent.prompt("work");
    let start = checkpoint(&env, RUN, "start");
    agent.shell(&format!(
        "echo edited > main.c; cd sub; echo version 2 > lib.c; git {commit} two lib.c; echo new > new.c"
    ));
    let second_commit = at(&module, "git rev-parse HEAD");
    assert_ne!(first_commit, second_commit);
    let later = checkpoint(&env, RUN, "later");
    agent.shell("cd sub; echo uncommitted > lib.c; rm new.c; echo other > other.c");
    agent.turn_ends();

    // The commit is recorded, but none of the files.
    for (number, commit) in [(start, &first_commit), (later, &second_commit)] {
        let shown = env.run(&["show", &format!("{RUN}@{number}:sub"), "--json"]);
        assert!(
            shown.code != 0 && shown.stderr.contains(&format!("it is a submodule at {commit}")),
            "{shown:#?}"
        );
        env.run(&["show", &format!("{RUN}@{number}:sub/lib.c")]).exits(14);
    }
    let before = at(&module, "git rev-parse HEAD; git status --porcelain; cat lib.c other.c");
    for more in [&["--all"][..], &["--all", "--force"], &["sub", "main.c", "--force"]] {
        let plan = restore(&env, start, more);
        let file = planned(&plan, "sub").unwrap_or_else(|| panic!("the submodule is not mentioned: {plan}"));
        assert_eq!(
            (file["action"].as_str(), file["reason"].as_str()),
            (Some("keep"), Some("it is a submodule"))
        );
        assert_eq!(read(&root.join("main.c")), b"original\n");
        let now = at(&module, "git rev-parse HEAD; git status --porcelain; cat lib.c other.c");
        assert_eq!(now, before, "the submodule changed");
    }
    env.run(&["undo", "--yes"]);
    assert_eq!(at(&module, "git rev-parse HEAD; git status --porcelain; cat lib.c other.c"), before);
    env.run(&["verify"]).exits(0);
}
