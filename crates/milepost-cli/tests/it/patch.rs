//! Patches and earlier files: `diff --patch`, `--stat` and `--worktree`, `show REF:PATH`, the pager, and what an
//! agent sees of them.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};
use unicode_width::UnicodeWidthStr as _;

use crate::TestEnvironment;
use crate::terminal::shown_at_width;

fn write(path: &Path, content: impl AsRef<[u8]>) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    #[allow(clippy::disallowed_methods, reason = "a test's own file")]
    std::fs::write(path, content).unwrap();
}

fn commit(env: &TestEnvironment) {
    env.git(&["add", "-A"]);
    env.git(&["-c", "user.name=t", "-c", "user.email=t@t", "commit", "-q", "-m", "more"]);
}

fn numbered(n: usize) -> String {
    (1..=n).map(|n| format!("line {n}\n")).collect()
}

/// A repository with two checkpoints. Files were changed, added and deleted between them.
fn changed_project() -> TestEnvironment {
    let env = TestEnvironment::repository();
    let root = env.project();
    write(&root.join("src/main.rs"), numbered(20));
    write(&root.join("run.sh"), "#!/bin/sh\n");
    write(&root.join("deleted.txt"), "gone soon");
    write(&root.join("unchanged.txt"), "stays\n");
    write(&root.join("logo.png"), b"\0one");
    commit(&env);
    env.save(&["--run", "r", "--summary", "before"]);
    write(&root.join("src/main.rs"), numbered(20).replace("line 9\n", "line nine\nand more\n"));
    write(&root.join("with \"quotes\"\tand ümlauts"), "new");
    std::fs::remove_file(root.join("deleted.txt")).unwrap();
    std::fs::set_permissions(root.join("run.sh"), std::fs::Permissions::from_mode(0o755)).unwrap();
    env.save(&["--run", "r", "--summary", "after"]);
    env
}

/// The bytes that a command writes to stdout.
fn bytes(env: &TestEnvironment, args: &[&str]) -> Vec<u8> {
    let output = env.command(args).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

#[test]
fn git_applies_a_patch_between_checkpoints() {
    let env = changed_project();
    let copy = env.path("copy");
    env.git(&["clone", "-q", ".", copy.to_str().unwrap()]);
    let patch = bytes(&env, &["diff", "r@1", "r@2", "--patch"]);
    let mut git = env.program("git");
    git.args(["apply", "-"]).current_dir(&copy).stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut child = git.spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), &patch).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}\n{}", String::from_utf8_lossy(&patch));
    for name in ["src/main.rs", "run.sh", "with \"quotes\"\tand ümlauts", "unchanged.txt"] {
        assert_eq!(std::fs::read(copy.join(name)).unwrap(), std::fs::read(env.project().join(name)).unwrap());
    }
    assert!(!copy.join("deleted.txt").exists());
    assert_eq!(std::fs::metadata(copy.join("run.sh")).unwrap().permissions().mode() & 0o111, 0o111);
}

#[test]
fn a_patch_names_every_changed_file() {
    let env = changed_project();
    insta::assert_snapshot!(env.run(&["diff", "r@1", "--patch"]).exits(0).stdout, @r#"
    diff --git a/deleted.txt b/deleted.txt
    deleted file mode 100644
    --- a/deleted.txt
    +++ /dev/null
    @@ -1 +0,0 @@
    -gone soon
    \ No newline at end of file
    diff --git a/run.sh b/run.sh
    old mode 100644
    new mode 100755
    diff --git a/src/main.rs b/src/main.rs
    --- a/src/main.rs
    +++ b/src/main.rs
    @@ -6,7 +6,8 @@
     line 6
     line 7
     line 8
    -line 9
    +line nine
    +and more
     line 10
     line 11
     line 12
    diff --git "a/with \"quotes\"\tand ümlauts" "b/with \"quotes\"\tand ümlauts"
    new file mode 100644
    --- /dev/null
    +++ "b/with \"quotes\"\tand ümlauts"
    @@ -0,0 +1 @@
    +new
    \ No newline at end of file
    "#);
    assert_eq!(
        env.run(&["diff", "r@1", "r@2", "-p", "src"]).stdout,
        env.run(&["diff", "r@1", "-p", "--", "src"]).stdout
    );
    let src =
        env.run_in(&env.project().join("src"), &["diff", "r@1", "r@2", "-p", "main.rs"]).exits(0).stdout;
    assert!(src.starts_with("diff --git a/src/main.rs b/src/main.rs\n"), "{src}");
    // Output shows paths relative to the root, so these are accepted in every folder.
    assert_eq!(
        env.run_in(&env.project().join("src"), &["diff", "r@1", "r@2", "-p", "src/main.rs"]).stdout,
        src
    );
    let same = env.run(&["diff", "r@2", "r@2", "--patch", "--exit-code"]).exits(0);
    assert_eq!((same.stdout.as_str(), same.stderr.as_str()), ("", "No file differs\n"));
    env.run(&["diff", "r@1", "r@2", "--patch", "--exit-code"]).exits(4);
}

#[test]
fn counts_per_file_fit_the_terminal() {
    let env = changed_project();
    write(&env.project().join("a".repeat(60)).join("b".repeat(60)), numbered(2000));
    env.save(&["--run", "r"]);
    for columns in [80, 120] {
        let output =
            env.command(&["diff", "r@1", "--stat"]).env("COLUMNS", columns.to_string()).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.lines().all(|line| line.width() <= columns), "{text}");
    }
    insta::assert_snapshot!(env.run(&["diff", "r@1", "r@2", "--stat"]).exits(0).stdout, @r#"
    deleted.txt               | 1 -
    run.sh                    | mode 100644 → 100755
    src/main.rs               | 3 ++-
    with "quotes"·and ümlauts | 1 +
    4 files changed, 3 insertions(+), 2 deletions(-)
    "#);
}

#[test]
fn a_patch_as_json() {
    let env = changed_project();
    write(&env.project().join("logo.png"), b"\0two");
    let document = env.json(&["diff", "r@2", "--worktree"]);
    assert_eq!(document["schema"], "milepost.patch/1");
    assert_eq!((&document["from"], &document["to"]), (&json!("r@2"), &json!("worktree")));
    let expected = json!([{
        "path": "logo.png", "status": "modified", "old_mode": "100644", "new_mode": "100644", "added": 0,
        "removed": 0, "binary": true, "reason": "it is a binary file",
        "patch": "diff --git a/logo.png b/logo.png\nindex 0000000..0000000\n\
                  Binary files a/logo.png and b/logo.png differ\n",
    }]);
    assert_eq!(document["files"], expected);
    let document = env.json(&["diff", "r@1", "r@2", "--stat"]);
    let files = document["files"].as_array().unwrap();
    let shown: Vec<_> =
        files.iter().map(|file| (file["path"].as_str().unwrap(), file["status"].as_str().unwrap())).collect();
    assert_eq!(
        shown,
        [
            ("deleted.txt", "deleted"),
            ("run.sh", "mode_changed"),
            ("src/main.rs", "modified"),
            ("with \"quotes\"\tand ümlauts", "added")
        ]
    );
    assert!(files.iter().all(|file| file.get("patch").is_none()), "{document}");
    assert_eq!(
        (&document["added"], &document["removed"], &document["differs"]),
        (&json!(3), &json!(2), &json!(true))
    );
}

#[test]
fn the_current_files_are_compared_without_storing_them() {
    let env = changed_project();
    write(&env.project().join("src/main.rs"), numbered(20));
    write(&env.project().join("later.txt"), "new\n");
    let text = env.run(&["diff", "r@2", "--worktree"]).exits(0).stdout;
    assert!(
        text.contains("+++ b/later.txt\n@@ -0,0 +1 @@\n+new\n") && text.contains("-line nine\n"),
        "{text}"
    );
    let text = env.run(&["diff", "r@2", "--worktree", "later.txt"]).exits(0).stdout;
    assert!(!text.contains("main.rs") && text.contains("later.txt"), "{text}");
    let stat = env.run(&["diff", "r@2", "--worktree", "--stat", "--exit-code"]).exits(4).stdout;
    assert!(stat.ends_with(" 2 files changed, 2 insertions(+), 2 deletions(-)\n"), "{stat}");
    assert_eq!(env.json(&["list"])["checkpoints"].as_array().unwrap().len(), 2);
}

#[test]
fn wrong_arguments_of_a_patch_are_explained() {
    let env = changed_project();
    let message = |args: &[&str], code| env.run(args).exits(code).stderr;
    let text = message(&["diff", "r@1", "r@2", "src"], 2);
    assert!(text.contains("needs --patch, --stat or --worktree"), "{text}");
    message(&["diff", "r@1", "--patch", "--stat"], 2);
    let text = message(&["diff", "r@1", "--patch", "--", "../.."], 2);
    assert!(text.contains("is outside of"), "{text}");
    let none = TestEnvironment::new();
    none.write("milepost.toml", "[capture]\nfiles = false\n");
    none.save(&["--run", "r"]);
    let text = none.run(&["diff", "r@1", "--patch"]).exits(14).stderr;
    assert!(text.contains("has no snapshot of the files"), "{text}");
}

#[test]
fn a_file_is_shown_as_it_was() {
    let env = changed_project();
    assert_eq!(bytes(&env, &["show", "r@1:src/main.rs"]), numbered(20).as_bytes());
    assert_eq!(bytes(&env, &["show", "r@1:deleted.txt"]), b"gone soon");
    assert_eq!(bytes(&env, &["show", "r@2:logo.png"]), b"\0one");
    assert_eq!(bytes(&env, &["show", "r@2:unchanged.txt"]), b"stays\n");
    assert_eq!(env.run_in(&env.project().join("src"), &["show", "r@1:main.rs"]).stdout, numbered(20));
    let document = env.json(&["show", "r@2:run.sh"]);
    let expected = json!({
        "schema": "milepost.file/1", "path": "run.sh", "reference": "r@2", "size": 10, "executable": true,
        "symlink": false, "redacted": false, "encoding": "utf-8", "content": "#!/bin/sh\n",
    });
    assert_eq!(document, expected);
    let document = env.json(&["show", "r@2:logo.png"]);
    assert_eq!((&document["encoding"], &document["content"]), (&json!("utf-8"), &json!("\0one")));
    let message = |reference: &str, code| env.run(&["show", reference]).exits(code).stderr;
    assert!(message("r@2:deleted.txt", 14).contains("deleted.txt is not available at r@2: it did not exist"));
    assert!(message("r@2:../../etc/passwd", 14).contains("it is outside of the worktree"));
    assert!(message("r@2:", 2).contains("names no file after the colon"));
    assert!(message("prompt", 2).contains("names the files before a prompt"));
    write(&env.project().join(".env"), "SECRET=1\n");
    env.save(&["--run", "r"]);
    let text = message("r@3:.env", 14);
    assert!(text.contains("its name suggests that it contains secrets"), "{text}");
    let page = env.run(&["show", "r@3"]).exits(0).stdout;
    assert!(page.contains("snapshot: 5 files, 1 without content"), "{page}");
}

#[test]
fn a_tag_cannot_contain_a_colon() {
    let env = changed_project();
    let refused = env.run(&["mark", "r@1", "--tag", "a:b"]).exits(2).stderr;
    assert!(refused.contains("contains a colon"), "{refused}");
}

/// Sends a prompt of an agent's session to its hook.
fn prompt(env: &TestEnvironment, text: &str) {
    let event = "UserPromptSubmit";
    let payload =
        json!({ "session_id": "s1", "cwd": env.project(), "hook_event_name": event, "prompt": text });
    env.run_on(payload.to_string().as_bytes(), &["hook", "claude-code"]).exits(0);
}

#[test]
fn the_files_before_a_prompt_have_a_name() {
    let env = TestEnvironment::repository();
    env.run(&["init", "-q"]).exits(0);
    write(&env.project().join("notes.md"), "one\n");
    prompt(&env, "write the second line\nand no more");
    write(&env.project().join("notes.md"), "one\ntwo\n");
    prompt(&env, "write the third line");
    write(&env.project().join("notes.md"), "one\ntwo\nthree\n");
    let runs = env.json(&["runs"]);
    let run = runs["runs"][0]["run_id"].as_str().unwrap();
    env.save(&["--run", run, "--summary", "done"]);
    assert_eq!(env.run(&["show", "prompt:notes.md", "--run", run]).exits(0).stdout, "one\ntwo\n");
    assert_eq!(env.run(&["show", "prompt~1:notes.md"]).exits(0).stdout, "one\n");
    let text = env.run(&["diff", "prompt~1", "prompt", "--patch"]).exits(0).stdout;
    assert!(text.ends_with(" one\n+two\n"), "{text}");
    let text = env.run(&["diff", "prompt", "--patch"]).exits(0).stdout;
    assert!(text.ends_with(" two\n+three\n"), "{text}");
    let page = env.run(&["show", run]).exits(0).stdout;
    assert!(
        page.contains("Files before each prompt\n  prompt    2") && page.contains("write the second line\n"),
        "{page}"
    );
    let points = env.json(&["show", run])["restore_points"].clone();
    let named: Vec<_> =
        points.as_array().unwrap().iter().map(|point| (&point["reference"], &point["prompt"])).collect();
    let expected = [("prompt", "write the third line"), ("prompt~1", "write the second line")];
    assert_eq!(
        named,
        expected
            .map(|(reference, prompt)| (json!(reference), json!(prompt)))
            .iter()
            .map(|(a, b)| (a, b))
            .collect::<Vec<(&Value, &Value)>>()
    );
}

#[test]
fn an_agent_gets_redacted_files() {
    let env = changed_project();
    let token = format!("ghp_{}", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8");
    write(&env.project().join("notes.txt"), format!("a\ntoken = {token}\nb\n"));
    env.save(&["--run", "r"]);
    let exact = env.run(&["show", "r@3:notes.txt"]).exits(0).stdout;
    assert!(exact.contains(&token));
    assert!(env.run(&["diff", "r@2", "r@3", "--patch"]).stdout.contains(&token));
    let agent = [("CLAUDECODE", "1")];
    for args in [
        &["show", "r@3:notes.txt"][..],
        &["show", "r@3:notes.txt", "--json"],
        &["diff", "r@2", "r@3", "--patch"],
        &["diff", "r@2", "r@3", "--patch", "--json"],
        &["diff", "r@2", "--worktree"],
    ] {
        let ran = env.run_with(&agent, args).exits(0);
        assert!(!ran.stdout.contains(&token) && ran.stdout.contains("[redacted:"), "{args:?}: {ran:?}");
        assert!(ran.stderr.contains("redacted because an agent runs this command"), "{args:?}: {ran:?}");
    }
    let refused = env.run_with(&agent, &["show", "r@2:logo.png"]).exits(15);
    assert!(refused.stderr.contains("binary file is not shown to agents"), "{refused:?}");
}

#[test]
fn a_hostile_file_is_escaped_on_a_terminal_and_exact_elsewhere() {
    let env = changed_project();
    let hostile = "tab\there\u{1b}]0;pwned\u{7}\u{202e}\n";
    let name = OsStr::from_bytes(b"name \x1b[2J");
    write(&env.project().join(name), hostile);
    env.save(&["--run", "r"]);
    assert!(env.run(&["diff", "r@2", "r@3", "-p"]).exits(0).stdout.contains(hostile));
    for args in [
        "diff r@2 r@3 -p",
        "diff r@2 r@3 --stat",
        "show \"r@3:$(printf 'name \\033[2J')\"",
        "show r@2:logo.png",
    ] {
        let Some(shown) = shown_at_width(&env, 80, args) else { return };
        assert!(!shown.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{args}: {shown:?}");
        if args.contains("logo") {
            assert_eq!(shown, "binary file, 4 B; redirect the output to save it\n");
        }
        if args.contains("-p") {
            assert!(shown.contains("+tab\there·]0;pwned··\n"), "{shown:?}");
        }
    }
}

#[test]
fn long_output_on_a_terminal_goes_through_the_pager() {
    let mut env = changed_project();
    write(&env.project().join("long.txt"), numbered(100));
    write(&env.project().join("short.txt"), numbered(3));
    env.save(&["--run", "r"]);
    env.set("PAGER", "false");
    env.set("MILEPOST_PAGER", "sed -e s/^/paged:/");
    let Some(shown) = shown_at_width(&env, 80, "show r@3:long.txt") else { return };
    assert!(shown.starts_with("paged:line 1\n") && shown.ends_with("paged:line 100\n"), "{shown}");
    let shown = |args: &str| shown_at_width(&env, 80, args).unwrap();
    assert!(shown("diff r@2 r@3 -p").starts_with("paged:diff --git a/long.txt"));
    for args in [
        "show r@3:short.txt",
        "show r@3:long.txt --no-pager",
        "--no-pager diff r@2 r@3 -p",
        "show r@3:long.txt | cat",
    ] {
        assert!(!shown(args).contains("paged:"), "{args}");
    }
    for (pager, first) in [
        ("cat", "line 1\n"),
        ("", "line 1\n"),
        ("no-such-pager -x", "line 1\n"),
        ("no-such-pager | cat", ""),
        ("'no-such-pager'", ""),
        ("head -n 1", "line 1\n"),
        ("tr a-z A-Z | cat", "LINE 1\n"),
    ] {
        env.set("MILEPOST_PAGER", pager);
        let shown = shown_at_width(&env, 80, "show r@3:long.txt").unwrap();
        assert!(shown.starts_with(first), "{pager}: {shown}");
        let is_whole = shown.to_lowercase().contains("line 100\n");
        assert_eq!(
            is_whole,
            !pager.starts_with("head") && pager != "no-such-pager | cat",
            "{pager}: {shown}"
        );
    }
}
