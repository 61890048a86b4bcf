//! Files that the user passes to a command: regular files and shell pipes are read, up to a size limit.

use std::process::Command;

use crate::TestEnvironment;

const BRIEF: &str = "## Problem\nIt leaks.\n\n### Next Actions\n- Find the leak\n";

#[test]
fn resume_from_refuses_named_pipes_folders_and_devices() {
    let env = TestEnvironment::new();
    assert!(Command::new("mkfifo").arg(env.project().join("pipe.md")).status().unwrap().success());
    std::fs::create_dir(env.project().join("folder.md")).unwrap();
    for (file, why) in [
        ("pipe.md", "it is a pipe, not a regular file"),
        ("folder.md", "it is a directory, not a regular file"),
        ("/dev/zero", "it is not a regular file"),
        ("/dev/null", "it is not a regular file"),
    ] {
        let ran = env.run(&["resume", "--from", file]).exits(2);
        assert!(ran.stderr.contains(why) && ran.stderr.contains(file), "{ran:#?}");
        assert_eq!(env.run(&["resume", "--from", file, "--json"]).exits(2).reason(), "usage");
    }
}

#[test]
fn resume_from_refuses_files_above_the_size_limit() {
    let env = TestEnvironment::new();
    let large = env.write("large.md", BRIEF);
    std::fs::File::options().write(true).open(&large).unwrap().set_len((64 << 20) + 1).unwrap();
    let ran = env.run(&["resume", "--from", "large.md", "--json"]).exits(1);
    assert_eq!(ran.reason(), "checkpoint_schema_invalid");
    assert!(ran.stderr.contains("the limit for one input"), "{}", ran.stderr);
}

#[test]
fn resume_from_reads_files_links_shell_pipes_and_stdin() {
    let env = TestEnvironment::new();
    env.write("b.md", BRIEF);
    std::os::unix::fs::symlink("b.md", env.project().join("link.md")).unwrap();
    for file in ["b.md", "link.md"] {
        assert!(env.run(&["resume", "--from", file]).exits(0).stdout.contains("Find the leak"));
    }
    let stdin = env.run_on(BRIEF.as_bytes(), &["resume", "--from", "-"]).exits(0);
    assert!(stdin.stdout.contains("Find the leak"), "{stdin:#?}");
    for pipe in ["/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"] {
        let piped = env.run_on(BRIEF.as_bytes(), &["resume", "--from", pipe]).exits(0);
        assert!(piped.stdout.contains("Find the leak"), "{pipe}: {piped:#?}");
    }
}
