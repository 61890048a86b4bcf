//! Eviction: when the contents of files reach `retain.max_files`, the oldest snapshots lose theirs first. Restore
//! points before prompts that no checkpoint contains yet are younger than all checkpoints, and the newest snapshot
//! of a worktree keeps its contents.

use std::path::Path;

use serde_json::json;

use crate::environment::TestEnvironment;
use crate::files::put;
use crate::files_abuse::{command_ended, hook};

const SIZE: usize = 100_000;

/// Bytes that cannot be compressed, different for each number.
fn noise(number: u64) -> Vec<u8> {
    let mut state = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    std::iter::repeat_with(next).flatten().take(SIZE).collect()
}

/// Sets the limit for all contents, to this number of noise files and some room for manifests.
fn set_limit(env: &TestEnvironment, files: usize) {
    let text = format!("[retain]\nmax_files = {}\n", files * SIZE + SIZE / 2);
    put(&env.path("home/.config/milepost/config.toml"), text.as_bytes());
}

fn project() -> TestEnvironment {
    let env = TestEnvironment::repository();
    env.run(&["init", "--agents", "none"]).exits(0);
    env
}

/// Whether `data` can be read as it was, with this content.
fn has(env: &TestEnvironment, reference: &str, number: u64) -> bool {
    let store = milepost::store::StoreUrl::sqlite(env.project().join(".git/milepost/milepost.db"));
    let options = milepost::store::OpenOptions::new().user_state(Some(env.state()));
    let mp = milepost::Milepost::at(&store, &options).unwrap();
    let worktree = mp.worktree(env.project()).unwrap();
    let run = "claude-code-s1".parse().unwrap();
    let run = reference.starts_with("prompt").then_some(&run);
    let files = worktree.files(&reference.parse().unwrap(), run).unwrap();
    match files.read_path(Path::new("data")) {
        Ok(bytes) => {
            assert!(bytes == noise(number), "{reference} has another content");
            true
        }
        Err(_) => false,
    }
}

/// What a restore of a checkpoint says about `data`.
fn planned(env: &TestEnvironment, reference: &str) -> serde_json::Value {
    let plan = env.json(&["restore", reference, "data", "--dry-run"]);
    plan["files"].as_array().unwrap().iter().find(|file| file["path"] == "data").cloned().unwrap_or_default()
}

#[test]
fn the_oldest_checkpoints_lose_their_contents_before_restore_points_do() {
    let env = project();
    for number in 1..=5 {
        env.write("data", noise(number));
        env.save(&["--run", "old", "--summary", "work"]);
    }
    // The first prompt makes a checkpoint. The next ones leave restore points that wait for the next checkpoint.
    hook(&env, "SessionStart", json!({ "source": "startup" }));
    for number in 6..=8 {
        env.write("data", noise(number));
        hook(&env, "UserPromptSubmit", json!({ "prompt": format!("prompt {number}") }));
    }
    env.write("data", noise(9));
    command_ended(&env);
    let points = [("prompt~2", 6), ("prompt~1", 7), ("prompt", 8)];
    let checkpoints = [("old@1", 1), ("old@2", 2), ("old@3", 3), ("old@4", 4), ("old@5", 5)];
    for (reference, number) in points.into_iter().chain(checkpoints) {
        assert!(has(&env, reference, number), "{reference} before the eviction");
    }

    // Room for the present content, three prompts and two checkpoints.
    set_limit(&env, 6);
    env.run(&["prune", "--yes"]).exits(0);
    for (reference, number) in points {
        assert!(has(&env, reference, number), "{reference} after the eviction");
    }
    let kept: Vec<bool> =
        checkpoints.iter().map(|(reference, number)| has(&env, reference, *number)).collect();
    assert_eq!(kept, [false, false, false, true, true], "the oldest go first");
    let file = planned(&env, "old@1");
    assert_eq!(file["action"], "unavailable", "{file}");
    assert!(file["reason"].as_str().unwrap().contains("the store does not have its content"), "{file}");
    assert!(planned(&env, "old@5")["action"] != "unavailable");
    env.run(&["restore", "old@1", "data", "--force", "--yes"]);
    assert!(std::fs::read(env.project().join("data")).unwrap() == noise(9), "the file stays as it is");
    env.run(&["verify"]).exits(0);

    // With less room, the oldest restore point is next. The newest snapshot keeps its contents without any.
    set_limit(&env, 2);
    env.run(&["prune", "--yes"]).exits(0);
    let kept = points.map(|(reference, number)| has(&env, reference, number));
    assert_eq!(kept, [false, false, true]);
    set_limit(&env, 0);
    env.run(&["prune", "--yes"]).exits(0);
    assert!(!has(&env, "prompt", 8));
    put(&env.path("home/.config/milepost/config.toml"), b"");
    let last = env.save(&["--run", "new", "--summary", "the newest content was not stored again"]);
    assert!(has(&env, &last, 9));
    env.run(&["verify"]).exits(0);
}

#[test]
fn a_full_store_makes_room_for_the_next_checkpoint() {
    let env = project();
    set_limit(&env, 4);
    let mut saved = Vec::new();
    for number in 1..=9 {
        env.write("data", noise(number));
        saved.push((env.save(&["--run", "r", "--summary", "work"]), number));
        let (newest, number) = saved.last().unwrap();
        assert!(has(&env, newest, *number), "checkpoint {number} has its file");
    }
    let kept: Vec<bool> = saved.iter().map(|(id, number)| has(&env, id, *number)).collect();
    let first = kept.iter().position(|is_kept| *is_kept).unwrap();
    assert!(first > 3 && kept[first..].iter().all(|is_kept| *is_kept), "{kept:?}");
    env.run(&["verify"]).exits(0);
}

#[test]
fn restore_points_alone_do_not_fill_the_store() {
    let env = project();
    set_limit(&env, 4);
    hook(&env, "SessionStart", json!({ "source": "startup" }));
    for number in 1..=4 {
        env.write("data", noise(number));
        hook(&env, "UserPromptSubmit", json!({ "prompt": format!("prompt {number}") }));
    }
    // A hook has no time to make room. The next checkpoint has.
    env.write("data", noise(5));
    let saved = env.save(&["--run", "other", "--summary", "work"]);
    assert!(has(&env, &saved, 5), "{}", env.json(&["show", &saved]));
    assert!(!has(&env, "prompt~3", 1), "the oldest restore point made room");
    assert!(has(&env, "prompt", 4));
    env.run(&["verify"]).exits(0);
}
