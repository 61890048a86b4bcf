//! Memory and time limits: hooks and commands stay small and fast even with huge input.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::TestEnvironment;
use crate::environment::{Ran, finished};

/// Runs the binary with a limit of `mebibytes` MiB on the memory that it allocates.
fn within(env: &TestEnvironment, mebibytes: u64, stdin: &[u8], args: &[&str]) -> Ran {
    let line = format!("ulimit -d {} && exec \"$0\" \"$@\"", mebibytes << 10);
    let mut command = env.program("bash");
    command.args(["-c", &line, env!("CARGO_BIN_EXE_milepost")]).args(args);
    finished(command.stdin(std::process::Stdio::piped()), Some(stdin))
}

fn sparse(path: &Path, size: u64) {
    std::fs::File::create(path).unwrap().set_len(size).unwrap();
}

#[test]
fn a_hook_uses_little_memory_for_huge_tool_responses() {
    let env = TestEnvironment::repository();
    env.run(&["init", "--agents", "none"]).exits(0);
    let size = 60_000_000;
    let list = |element: &str| format!("[{}]", vec![element; size / (element.len() + 1)].join(","));
    let values = [
        ("numbers", list("0")),
        ("objects", list("{}")),
        ("escapes", format!("\"{}\"", r"\n".repeat(size / 2))),
    ];
    for (name, value) in values {
        let payload = format!(
            r#"{{"tool_response":{value},"hook_event_name":"PostToolUse","tool_name":"Write","session_id":"{name}",
            "tool_input":{{"file_path":"{name}.txt"}}}}"#
        );
        let begun = Instant::now();
        within(&env, 100, payload.as_bytes(), &["hook", "claude-code", "--strict"]).exits(0);
        assert!(begun.elapsed() < Duration::from_secs(15), "{name}: {:?}", begun.elapsed());
        let shown = env.json(&["show", &format!("claude-code-{name}@1")]);
        assert!(shown.to_string().contains(&format!("{name}.txt")), "{shown}");
    }
}

#[test]
fn a_large_file_that_a_tool_writes_is_recorded() {
    let env = TestEnvironment::repository();
    env.run(&["init", "--agents", "none"]).exits(0);
    let payload = json!({
        "hook_event_name": "PostToolUse", "session_id": "s", "tool_name": "Write",
        "tool_input": {"content": "x\n".repeat(10 << 20), "file_path": "large.txt"}, "tool_response": {"type": "create"},
    });
    within(&env, 100, payload.to_string().as_bytes(), &["hook", "claude-code", "--strict"]).exits(0);
    assert!(env.json(&["show", "claude-code-s@1"]).to_string().contains("large.txt"));
}

#[test]
fn a_huge_transcript_is_recorded_without_a_digest() {
    let env = TestEnvironment::repository();
    env.run(&["init", "--agents", "none"]).exits(0);
    let transcript = env.path("transcript.jsonl");
    sparse(&transcript, 4 << 30);
    for event in ["PostToolUse", "SessionEnd"] {
        let payload = json!({
            "hook_event_name": event, "session_id": "s", "tool_name": "Write", "transcript_path": transcript,
            "tool_input": {"file_path": "a.txt"},
        });
        let begun = Instant::now();
        env.run_on(payload.to_string().as_bytes(), &["hook", "claude-code", "--strict"]).exits(0);
        assert!(begun.elapsed() < Duration::from_secs(5), "{event}: {:?}", begun.elapsed());
    }
    let shown = env.json(&["show", "latest", "--run", "claude-code-s"]);
    let files = shown["checkpoint"]["files"].as_array().unwrap();
    let file = files.iter().find(|file| file["path"] == transcript.to_str().unwrap()).unwrap();
    assert_eq!(file["size"], 4_u64 << 30, "{file}");
    assert!(file.get("sha256").is_none_or(|digest| digest.is_null()), "{file}");
    assert!(file["sha256_omitted"].is_string() && file["modified"].is_string(), "{file}");
}

#[test]
fn the_largest_possible_numbers_in_a_record_cause_no_panic() {
    const FORGE: &str = "
import sys, json, hashlib
lines = open('r1.bundle').read().splitlines()
head = json.loads(lines[0])
head['run'].update(earlier_ms=2**64 - 1, sessions=2**64 - 1, attempts=2**64 - 1, marks_changed=2**64 - 1)
head['run']['session']['elapsed_ms'] = 2**64 - 1
lines[0] = json.dumps(head)
end = json.loads(lines[-1])
end['end']['sha256'] = hashlib.sha256(''.join(line + '\\n' for line in lines[:-1]).encode()).hexdigest()
lines[-1] = json.dumps(end)
open('forged.bundle', 'w').write(''.join(line + '\\n' for line in lines))
";
    let env = TestEnvironment::new();
    env.save(&["--run", "r1", "--summary", "one"]);
    env.run(&["export", "bundle", "r1"]).exits(0);
    assert!(env.program("python3").args(["-c", FORGE]).status().unwrap().success());
    let mut env = env;
    let other = env.path("other.db").to_string_lossy().into_owned();
    env.set("MILEPOST_STORE", &other);
    env.run(&["import", "bundle", "forged.bundle"]).exits(0);
    for args in [
        &["runs", "r1"][..],
        &["summary", "--run", "r1"],
        &["resume", "r1"],
        &["status"],
        &["pin", "latest", "--run", "r1"],
        &["save", "--run", "r1", "--session", "next", "--summary", "two"],
        &["runs", "r1", "--json"],
        &["verify"],
    ] {
        let ran = env.run(args);
        assert!(ran.code != 101 && ran.code >= 0 && !ran.stderr.contains("panicked"), "{args:?}: {ran:#?}");
    }
}

#[test]
fn a_program_called_git_in_the_project_is_not_run() {
    use std::os::unix::fs::PermissionsExt as _;
    let mut env = TestEnvironment::repository();
    let (project, trace) = (env.project(), env.path("executed"));
    let deep = project.join("sub/deep");
    std::fs::create_dir_all(&deep).unwrap();
    for folder in ["", "node_modules/.bin", "sub/deep", "sub/deep/node_modules/.bin"] {
        std::fs::create_dir_all(project.join(folder)).unwrap();
        let file = env.write(
            format!("{folder}/git").trim_start_matches('/'),
            format!("#!/bin/sh\necho >> {}\n", trace.display()),
        );
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let usual = "/usr/local/bin:/usr/bin:/bin";
    let inside = project.join("node_modules/.bin").display().to_string();
    for first in ["./node_modules/.bin", ".", "", "node_modules/.bin", &inside] {
        env.set("PATH", &format!("{first}:{usual}"));
        for folder in [&project, &deep] {
            env.run_in(folder, &["save", "--run", "r", "--summary", first]).exits(0);
        }
        assert!(!trace.exists(), "the project's program ran with PATH={first}:…");
    }
    let shown = env.json(&["show", "latest", "--run", "r"]);
    assert!(shown.to_string().contains("\"branch\":\"main\""), "the real git was run: {shown}");
}

#[test]
fn a_linked_lock_file_is_named_as_the_reason() {
    let env = TestEnvironment::new();
    env.save(&["--run", "r"]);
    let lock = std::fs::read_dir(env.project().join(".milepost")).unwrap().flatten();
    let lock = lock.map(|entry| entry.path()).find(|path| path.to_string_lossy().ends_with("lock"));
    let Some(lock) = lock else { panic!("{:?}", env.run(&["status"])) };
    std::fs::remove_file(&lock).unwrap();
    std::os::unix::fs::symlink("/dev/null", &lock).unwrap();
    let ran = env.run(&["save", "--run", "r", "--summary", "two"]).exits(1);
    assert!(ran.stderr.contains("a symbolic link"), "{ran:#?}");
    assert!(ran.stderr.contains("regular file") && !ran.stderr.contains("free some space"), "{ran:#?}");
}

/// These settings could refuse saves, keep less or stop runs from being resumed, so they need trust.
#[test]
fn an_untrusted_project_cannot_tighten_limits_or_keep_less() {
    let env = TestEnvironment::new();
    env.write(
        "milepost.toml",
        "wait = 0\n[limits]\nfield = 1\ncheckpoint = 1\n[resume]\nattempts = 0\ncooldown = \"90d\"\n\
         [hooks]\nprompts = \"none\"\n",
    );
    let ran = env.run(&["save", "--run", "r", "--summary", "longer than one byte"]).exits(0);
    for key in
        ["wait", "limits.field", "limits.checkpoint", "resume.attempts", "resume.cooldown", "hooks.prompts"]
    {
        assert!(ran.stderr.contains(key), "{key}: {ran:#?}");
    }
}

#[test]
fn an_invalid_setting_is_reported_when_a_session_begins() {
    let env = TestEnvironment::new();
    env.run(&["init", "--agents", "none"]).exits(0);
    env.write("milepost.toml", "[hooks]\nprompts = \"loud\"\n");
    let hook = |event: &str| {
        let payload =
            json!({"hook_event_name": event, "session_id": "s", "source": "startup", "prompt": "p"});
        env.run_on(payload.to_string().as_bytes(), &["hook", "claude-code"]).exits(0)
    };
    let told = hook("SessionStart").json();
    let message = told["systemMessage"].as_str().unwrap();
    assert!(message.contains("configuration") && message.contains("nothing is recorded"), "{told}");
    assert!(!message.contains("loud") && told.get("hookSpecificOutput").is_none(), "{told}");
    assert_eq!(hook("UserPromptSubmit").stdout, "");
}

#[test]
fn a_large_configuration_file_is_refused() {
    let env = TestEnvironment::new();
    env.write("milepost.toml", (0..7000).map(|n| format!("[t{n}.a]\n")).collect::<String>());
    let ran = env.run(&["save", "--json"]).exits(12);
    assert!(ran.stderr.contains("larger than 64 KiB"), "{ran:#?}");
}

/// The store is in a submodule and is trusted until the submodule's git tracks it.
#[test]
fn a_store_that_a_submodule_tracks_is_foreign() {
    let env = TestEnvironment::repository();
    let origin = env.path("origin");
    let commit = ["-c", "user.name=t", "-c", "user.email=t@t", "commit", "-q", "--allow-empty", "-m", "one"];
    env.git(&["init", "-q", origin.to_str().unwrap()]);
    env.git(&[&["-C", origin.to_str().unwrap()][..], &commit].concat());
    let add =
        ["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", origin.to_str().unwrap(), "sub"];
    env.git(&add);
    env.run(&["init", "--agents", "none", "--store", "files:sub/st"]).exits(0);
    env.save(&["--run", "r"]);
    assert_eq!(env.run(&["list"]).exits(0).stderr, "");
    env.git(&["-C", "sub", "add", "-f", "st/r"]);
    let ran = env.run(&["save", "--run", "r", "--json"]).exits(12);
    assert!(ran.stderr.contains("git tracks it"), "{ran:#?}");
}

#[test]
fn a_database_with_any_tracked_file_is_refused() {
    let env = TestEnvironment::repository();
    env.run(&["init", "--agents", "none", "--store", "sqlite:st/x.db"]).exits(0);
    env.run(&["run", "--run", "r", "--", "true"]).exits(0);
    let mut files: Vec<_> = std::fs::read_dir(env.project().join("st")).unwrap().flatten().collect();
    files.retain(|entry| entry.file_type().unwrap().is_file() && entry.file_name() != ".gitignore");
    assert!(files.len() >= 4, "{files:?}");
    for file in files {
        let name = format!("st/{}", file.file_name().to_string_lossy());
        env.git(&["add", "-f", &name]);
        let ran = env.run(&["save", "--run", "r", "--json"]);
        assert!(ran.code == 12 && ran.stderr.contains("git tracks it"), "{name}: {ran:#?}");
        env.git(&["rm", "-q", "--cached", &name]);
    }
}

#[test]
fn watched_folders_are_limited_in_depth_and_number() {
    let env = TestEnvironment::new();
    let mut deep = env.project().join(".aiwg");
    for _ in 0..80 {
        deep.push("d");
    }
    std::fs::create_dir_all(&deep).unwrap();
    std::fs::File::create(deep.join("hidden")).unwrap();
    for n in 0..21_000 {
        std::fs::File::create(env.project().join(format!(".aiwg/{n}"))).unwrap();
    }
    env.save(&["--run", "r"]);
    let workspace = env.json(&["show"])["checkpoint"]["workspace"].clone();
    assert_eq!(workspace["watched"]["files"].as_array().unwrap().len(), 20_000);
    let skipped = workspace["skipped"].to_string();
    assert!(skipped.contains("1000 more files") && skipped.contains("is nested too deeply"), "{skipped}");
    for n in 0..30_000 {
        std::fs::File::create(env.project().join(format!(".aiwg/more-{n}"))).unwrap();
    }
    env.save(&["--run", "r", "--summary", "two"]);
    let error = env.json(&["show"])["checkpoint"]["workspace"]["watched"]["error"].clone();
    assert!(error.as_str().unwrap().contains("more than 50000 entries"), "{error}");
}

#[test]
fn a_pipe_in_the_git_directory_does_not_block_a_save() {
    let env = TestEnvironment::repository();
    let pipe = env.project().join(".git/packed-refs");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0)
        .unwrap();
    let begun = Instant::now();
    env.save(&["--run", "r"]);
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    let git = env.json(&["show"])["checkpoint"]["workspace"]["git"].clone();
    assert!(git["error"].as_str().unwrap().contains("is not a regular file"), "{git}");
}

#[test]
fn imports_of_huge_files_use_little_memory() {
    let env = TestEnvironment::new();
    env.write("nested.md", format!("---\ncheckpoint: a\n---\n{}", "[".repeat(5 << 20)));
    let ran = within(&env, 100, b"", &["import", "markdown", "nested.md"]);
    assert!(ran.code > 0 && ran.code != 101, "{ran:#?}");
    assert!(ran.stderr.contains("larger than 1 MiB") || ran.stdout.contains("larger than 1 MiB"), "{ran:#?}");
    let mut line = b"{\"brief\":\"".to_vec();
    line.resize(400_000_000, b'x');
    env.write("long.jsonl", line);
    let ran = within(&env, 150, b"", &["import", "jsonl", "long.jsonl"]);
    assert!(ran.code > 0 && ran.code != 101, "{ran:#?}");
    assert!(format!("{}{}", ran.stdout, ran.stderr).contains("longer than 80 MiB"), "{ran:#?}");
}
