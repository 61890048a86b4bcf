//! `purge`: contents of files disappear from every checkpoint and from the files of the store.
#![allow(clippy::disallowed_methods, reason = "the tests write files of the worktree as other programs do")]

use std::path::Path;

use crate::TestEnvironment;

/// A content that does not get smaller, so that its bytes would be found in the store.
fn secret(n: u8) -> Vec<u8> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64 ^ u64::from(n);
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    std::iter::repeat_with(next).take(400).flatten().collect()
}

/// Whether a file below the folder contains these bytes.
fn contains(folder: &Path, bytes: &[u8]) -> bool {
    std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).any(|path| {
        if path.is_dir() {
            return contains(&path, bytes);
        }
        std::fs::read(&path).unwrap().windows(bytes.len()).any(|window| window == bytes)
    })
}

fn every_version_is_erased(store: &str) {
    let mut env = TestEnvironment::repository();
    let root = env.project();
    let folder = env.path("store");
    std::fs::create_dir_all(&folder).unwrap();
    env.set("MILEPOST_STORE", &format!("{store}{}", folder.join("s").display()));
    let write = |path: &str, bytes: &[u8]| {
        std::fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
        std::fs::write(root.join(path), bytes).unwrap();
    };
    write("conf/prod.yml", &secret(1));
    write("other.txt", &secret(2));
    env.run(&["save", "one", "--run", "r"]).exits(0);
    write("conf/prod.yml", &secret(3));
    write("copy.yml", &secret(1));
    env.run(&["save", "two", "--run", "r"]).exits(0);
    let piece = |n: u8| secret(n)[1000..1040].to_vec();
    assert!([1, 2, 3].iter().all(|n| contains(&folder, &piece(*n))), "the test must find what is stored");

    // Nothing is removed without a confirmation.
    let plan = env.json(&["purge", "conf/prod.yml", "--dry-run"]);
    assert_eq!((plan["contents"].as_u64(), plan["dry_run"].as_bool()), (Some(2), Some(true)));
    assert_eq!(plan["paths"], serde_json::json!(["conf/prod.yml"]));
    assert_eq!(plan["shared_with"], serde_json::json!(["copy.yml"]));
    env.run(&["purge", "conf/prod.yml"]).exits(15);
    assert!(contains(&folder, &piece(1)) && contains(&folder, &piece(3)));

    let done = env.run(&["purge", "conf", "--yes"]).exits(0);
    assert!(done.stdout.contains("2 stored contents"), "{}", done.stdout);
    assert!(!contains(&folder, &piece(1)) && !contains(&folder, &piece(3)), "bytes are left in the store");
    // Everything else is still there, and the worktree is not touched.
    assert_eq!(std::fs::read(root.join("conf/prod.yml")).unwrap(), secret(3));
    env.run(&["verify"]).exits(0);
    assert_eq!(
        env.program(env!("CARGO_BIN_EXE_milepost")).args(["show", "r@1:other.txt"]).output().unwrap().stdout,
        secret(2)
    );
    let gone = env.run(&["show", "r@1:conf/prod.yml"]).exits(14);
    assert!(gone.stderr.contains("removed from the store"), "{}", gone.stderr);
    let nothing = env.run(&["purge", "conf", "--yes"]).exits(0);
    assert!(nothing.stdout.contains("no content of these files"), "{}", nothing.stdout);
    // A restore says that the file is not available, and a later save works.
    env.run(&["restore", "r@1", "--all", "--dry-run"]).exits(0);
    env.run(&["save", "three", "--run", "r"]).exits(0);
    env.run(&["purge", "../elsewhere", "--yes"]).exits(14);
    assert!(env.json(&["purge", ".", "--dry-run"])["contents"].as_u64() > Some(0));
}

#[test]
fn every_version_is_erased_from_sqlite() {
    every_version_is_erased("sqlite:");
}

#[test]
fn every_version_is_erased_from_the_file_layout() {
    every_version_is_erased("files:");
}

#[test]
fn files_that_a_restore_moved_aside_are_removed() {
    let env = TestEnvironment::repository();
    let root = env.project();
    std::fs::write(root.join("a.txt"), "tracked").unwrap();
    env.git(&["add", "-A"]);
    env.git(&["-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "start"]);
    env.run(&["save", "one", "--run", "r"]).exits(0);
    // No checkpoint has the content of a file that looks like a secret.
    std::fs::write(root.join("id_rsa"), secret(4)).unwrap();
    env.run(&["save", "two", "--run", "r"]).exits(0);
    env.run(&["restore", "r@1", "--all", "--force", "--yes"]).exits(0);
    let piece = secret(4)[1000..1040].to_vec();
    assert!(!root.join("id_rsa").exists() && contains(&root.join(".git/milepost"), &piece));
    let done = env.json(&["purge", "id_rsa", "--yes"]);
    assert_eq!(done["moved_aside"], 1);
    assert!(!contains(&root.join(".git/milepost"), &piece));
    // The undo brings back the rest.
    env.run(&["undo", "--yes"]);
    assert!(!root.join("id_rsa").exists());
}
