//! `search`: finds what runs recorded, with an index that can be missing, damaged or in use by several processes.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use crate::TestEnvironment;

impl TestEnvironment {
    /// The hits of a search, which may be none.
    #[track_caller]
    pub(crate) fn hits(&self, args: &[&str]) -> Vec<Value> {
        let ran = self.run(&[&["search", "--json"], args].concat());
        assert!(ran.code == 0 || ran.code == 4, "{ran:#?}");
        let hits = ran.json()["hits"].as_array().unwrap().clone();
        assert_eq!(ran.code == 4, hits.is_empty(), "{ran:#?}");
        hits
    }

    /// The excerpts of the hits.
    #[track_caller]
    fn found(&self, args: &[&str]) -> Vec<String> {
        self.hits(args).iter().map(|hit| hit["excerpt"].as_str().unwrap().to_owned()).collect()
    }

    fn index(&self) -> PathBuf {
        self.project().join(".git/milepost/milepost.db-search")
    }

    /// A repository with a few runs.
    fn with_runs() -> Self {
        let env = Self::repository();
        let quiet = |args: &[&str]| drop(env.run(args).exits(0));
        env.save(&["--run", "limits", "--no-capture", "rate limits with a token bucket"]);
        quiet(&["decide", "--run", "limits", "Keep the counters in memory, Redis is too slow"]);
        quiet(&["note", "--run", "limits", "登录接口超时，改为异步处理"]);
        let output = "error[E0382]: borrow of moved value: `device_code`";
        let record =
            ["record", "--run", "limits", "--kind", "shell", "--duration-ms", "5", "--result", "FAIL"];
        quiet(&[&record[..], &["--name", "cargo test auth", "--summary", output]].concat());
        env.save(&["--run", "limits", "--no-capture", "limits done"]);
        let brief = env.write("brief.md", "# Brief\n\n## Open\nAsk Dana about the launch\n");
        let input = env.write("input.json", r#"{"files": ["src/http/rate_limit.rs"]}"#);
        let files = [input.to_str().unwrap(), brief.to_str().unwrap()];
        env.save(&["--run", "other", "--no-capture", "--input", files[0], "--brief", files[1]]);
        env
    }
}

#[test]
fn words_phrases_prefixes_and_other_languages() {
    let env = TestEnvironment::with_runs();
    assert_eq!(env.found(&["counter"]), ["Keep the counters in memory, Redis is too slow"]);
    assert_eq!(env.found(&["\"token bucket\""]), ["rate limits with a token bucket"]);
    assert!(env.found(&["\"bucket token\""]).is_empty());
    assert_eq!(env.found(&["mem*"]), ["Keep the counters in memory, Redis is too slow"]);
    assert!(env.found(&["counters -redis"]).is_empty());
    assert_eq!(env.found(&["超时"]), ["登录接口超时，改为异步处理"]);
    assert_eq!(env.found(&["rateLimit.rs"])[0], "src/http/rate_limit.rs");
    assert!(env.found(&["launch"])[0].contains("Ask Dana about the launch"));
    let hit = &env.hits(&["E0382"])[0];
    assert_eq!((&hit["kind"], &hit["origin"]), (&"failure".into(), &"failure".into()));
    let (excerpt, range) = (hit["excerpt"].as_str().unwrap(), &hit["matches"][0]);
    let at = |name: &str| usize::try_from(range[name].as_u64().unwrap()).unwrap();
    assert_eq!(&excerpt[at("start")..at("end")], "E0382");
    assert_eq!(hit["reference"], "limits@2");
    // The command works as it is printed.
    let next = hit["next"].as_str().unwrap().split(' ').skip(1).collect::<Vec<_>>();
    assert!(env.run(&next).exits(0).stdout.contains("limits@2"));
    for args in [&["search", "?!"][..], &["search", "?!", "--all"]] {
        let wordless = env.run(args).exits(2);
        assert!(wordless.stderr.contains("no letter or digit"), "{wordless:?}");
    }
    env.run(&["search", "x", "--kind", "banana"]).exits(2);
    let nothing = env.run(&["search", "zebra"]).exits(4);
    assert!(nothing.stdout.is_empty() && nothing.stderr.contains("Nothing found for zebra"), "{nothing:?}");
    assert!(!nothing.stderr.contains("filters"), "{nothing:?}");
    let filtered = env.run(&["search", "counter", "--kind", "file"]).exits(4);
    assert!(filtered.stderr.contains("leave out filters such as --kind"), "{filtered:?}");
}

#[test]
fn filters() {
    let env = TestEnvironment::with_runs();
    assert_eq!(env.hits(&["limits", "--kind", "decision"]).len(), 0);
    assert_eq!(env.hits(&["redis", "--kind", "decision", "--kind", "failure"]).len(), 1);
    assert_eq!(env.hits(&["limits", "--limit", "1"]).len(), 1);
    assert_eq!(env.hits(&["rate", "--run", "other"]).len(), 1);
    assert_eq!(env.hits(&["redis", "--run", "other"]).len(), 0);
    assert_eq!(env.hits(&["redis", "--since", "1h"]).len(), 1);
    std::thread::sleep(Duration::from_millis(1100));
    assert_eq!(env.hits(&["redis", "--since", "1s"]).len(), 0);
    assert_eq!(env.hits(&["redis", "--agent", "codex"]).len(), 0);
    let shown = env.run_with(&[("COLUMNS", "80")], &["search", "limits"]).exits(0).stdout;
    assert!(shown.lines().all(|line| line.chars().count() <= 80) && !shown.contains('\x1b'), "{shown}");
    let coloured = env.run(&["search", "redis", "--color", "always"]).exits(0).stdout;
    assert!(coloured.contains("\x1b[1m\x1b[33mRedis\x1b[0m"), "{coloured}");
}

#[test]
fn new_and_pending_texts_are_found_at_once() {
    let env = TestEnvironment::repository();
    env.save(&["--run", "a", "--no-capture", "one"]);
    assert!(env.found(&["walrus"]).is_empty());
    env.run(&["decide", "--run", "a", "Use the walrus operator"]).exits(0);
    let hit = &env.hits(&["walrus"])[0];
    assert_eq!((hit["reference"].as_str(), hit["sequence"].as_u64()), (Some("a"), None));
    env.save(&["--run", "a", "--no-capture", "two"]);
    env.save(&["--run", "a", "--no-capture", "three"]);
    let hits = env.hits(&["walrus"]);
    assert_eq!((hits.len(), hits[0]["reference"].as_str()), (1, Some("a@3")), "the newest that contains it");
}

/// An index that is missing or unusable is created again, and everything is found.
#[test]
#[cfg(unix)]
fn a_damaged_index_is_created_again() {
    let env = TestEnvironment::with_runs();
    let index = env.index();
    let expected = env.found(&["limits"]);
    assert!(!expected.is_empty());
    let bytes = std::fs::read(&index).unwrap();
    let elsewhere = env.path("elsewhere");
    let write = |bytes: &[u8]| env.write(".git/milepost/milepost.db-search", bytes);
    let damages: [(&str, &dyn Fn()); 8] = [
        ("missing", &|| std::fs::remove_file(&index).unwrap()),
        ("empty", &|| drop(write(b""))),
        ("garbage", &|| drop(write(&[0x5a; 20_000]))),
        ("truncated", &|| drop(write(&bytes[..bytes.len() / 2]))),
        ("damaged pages", &|| {
            let mut bytes = bytes.clone();
            bytes[4096..].fill(0xee);
            write(&bytes);
        }),
        ("another database", &|| {
            std::fs::copy(env.project().join(".git/milepost/milepost.db"), &index).unwrap();
        }),
        ("symbolic link", &|| {
            std::fs::rename(&index, &elsewhere).unwrap();
            std::os::unix::fs::symlink(&elsewhere, &index).unwrap();
        }),
        ("folder", &|| {
            std::fs::remove_file(&index).unwrap();
            std::fs::create_dir(&index).unwrap();
        }),
    ];
    for (what, damage) in damages {
        damage();
        assert_eq!(env.found(&["limits"]), expected, "{what}");
        assert!(std::fs::symlink_metadata(&index).unwrap().is_file(), "{what}");
        env.run(&["verify"]).exits(0);
    }
    // A folder with content is not removed: the index is kept in memory.
    std::fs::remove_file(&index).unwrap();
    std::fs::create_dir(&index).unwrap();
    env.write(".git/milepost/milepost.db-search/mine", "text");
    assert_eq!(env.found(&["limits"]), expected);
    assert!(index.join("mine").exists());
    env.run(&["doctor"]).exits(0);
}

#[test]
#[cfg(unix)]
fn a_folder_that_cannot_be_written_is_searched() {
    use std::os::unix::fs::PermissionsExt as _;
    if rustix::process::geteuid().is_root() {
        return;
    }
    let env = TestEnvironment::with_runs();
    let folder = env.project().join(".git/milepost");
    let set = |mode| std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(mode)).unwrap();
    set(0o500);
    let found = env.found(&["redis"]);
    set(0o700);
    assert_eq!(found.len(), 1);
    assert!(!env.index().exists());
}

/// Whether any file of the store's folder contains a text.
fn remains(env: &TestEnvironment, needle: &str) -> bool {
    let folder = env.project().join(".git/milepost");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let is_index = |path: &PathBuf| path.to_string_lossy().contains("milepost.db-search");
    files.filter(is_index).any(|file| {
        let bytes = std::fs::read(file).unwrap();
        bytes.windows(needle.len()).any(|window| window == needle.as_bytes())
    })
}

#[test]
fn removed_runs_and_checkpoints_leave_the_index() {
    let env = TestEnvironment::repository();
    env.save(&["--run", "gone", "--no-capture", "the xylophonist plays"]);
    env.save(&["--run", "kept", "--no-capture", "first vuvuzela"]);
    for n in 0..4 {
        env.save(&["--run", "kept", "--no-capture", &format!("later {n}")]);
    }
    assert_eq!((env.hits(&["xylophonist"]).len(), env.hits(&["vuvuzela"]).len()), (1, 1));
    assert!(remains(&env, "xylophonist") && remains(&env, "vuvuzela"));
    env.run(&["delete", "gone", "--yes"]).exits(0);
    assert!(!remains(&env, "xylophonist"));
    assert!(env.hits(&["xylophonist"]).is_empty());
    env.run(&["prune", "--keep-last", "1", "--yes"]);
    let listed = env.json(&["list", "--run", "kept", "--limit", "0"]);
    let oldest = listed["checkpoints"].as_array().unwrap().last().unwrap()["sequence"].as_u64().unwrap();
    if oldest > 1 {
        assert!(!remains(&env, "vuvuzela"));
        assert!(env.hits(&["vuvuzela"]).is_empty());
    }
    // Every hit can be opened.
    for hit in env.hits(&["later"]) {
        env.run(&["show", hit["reference"].as_str().unwrap()]).exits(0);
    }
}

#[test]
fn a_run_that_is_created_again_is_read_again() {
    let env = TestEnvironment::repository();
    env.save(&["--run", "a", "--no-capture", "alpha"]);
    env.save(&["--run", "a", "--no-capture", "beta"]);
    assert_eq!(env.hits(&["alpha"]).len(), 1);
    // Without the index, deletion cannot remove anything from it.
    let index = env.index();
    let saved = env.path("saved-index");
    std::fs::rename(&index, &saved).unwrap();
    env.run(&["delete", "a", "--yes"]).exits(0);
    std::thread::sleep(Duration::from_millis(5));
    // The new run has more checkpoints than the index knows of the old one.
    for text in ["gamma", "delta", "epsilon"] {
        env.save(&["--run", "a", "--no-capture", text]);
    }
    std::fs::rename(&saved, &index).unwrap();
    assert!(env.hits(&["alpha"]).is_empty());
    for text in ["gamma", "delta", "epsilon"] {
        assert_eq!(env.hits(&[text]).len(), 1, "{text}");
    }
    assert!(!remains(&env, "alpha"));
}

#[test]
fn secrets_do_not_enter_the_index() {
    let env = TestEnvironment::repository();
    let token = format!("ghp_{}", "a1B2c3D4e5F6".repeat(3));
    env.save(&["--run", "a", "--no-capture", "--no-redact", &format!("uses {token} for deploys")]);
    let hits = env.found(&["deploys"]);
    assert!(hits[0].contains("[redacted:") && !hits[0].contains(&token), "{hits:?}");
    assert!(env.hits(&[&token]).is_empty() || !env.found(&[&token])[0].contains(&token));
    assert!(!remains(&env, &token) && !remains(&env, &token.to_lowercase()));
}

#[test]
fn two_processes_update_the_index_at_the_same_time() {
    let env = TestEnvironment::repository();
    for n in 0..30 {
        env.save(&["--run", &format!("run-{}", n % 3), "--no-capture", &format!("common word{n}")]);
    }
    let spawn = |_| {
        let mut command = env.command(&["search", "common", "--limit", "0", "--json"]);
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap()
    };
    let children: Vec<_> = (0..4).map(spawn).collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(matches!(output.status.code(), Some(0 | 4)), "{output:?}");
    }
    assert_eq!(env.hits(&["common", "--limit", "0"]).len(), 30, "nothing is missing or twice");
}

#[test]
fn a_killed_update_is_continued() {
    let env = TestEnvironment::repository();
    for n in 0..40 {
        env.save(&["--run", &format!("run-{n}"), "--no-capture", &format!("common word{n}")]);
    }
    for delay in [0, 2, 5, 10, 15, 20, 30, 45] {
        let mut command = env.command(&["search", "common"]);
        command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
        let mut child = command.spawn().unwrap();
        std::thread::sleep(Duration::from_millis(delay));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(env.hits(&["common", "--limit", "0"]).len(), 40, "killed after {delay} ms");
        std::fs::remove_file(env.index()).unwrap();
    }
}

#[test]
fn a_huge_text_is_bounded() {
    let env = TestEnvironment::repository();
    let brief = format!("# Brief\n{}\nneedle at the end\n", "a pasted line of a long log\n".repeat(6_000));
    let brief = env.write("brief.md", brief);
    env.save(&["--run", "a", "--no-capture", "--brief", brief.to_str().unwrap()]);
    let found = env.found(&["pasted log"]);
    assert!(!found.is_empty() && found.iter().all(|text| text.len() < 2_000));
    assert!(env.hits(&["needle"]).is_empty(), "only the first 64 KiB are searched");
}

#[test]
fn all_projects_are_searched_together() {
    let env = TestEnvironment::new();
    for (project, text) in [("api", "the walrus parser"), ("my web", "a walrus on a page")] {
        let root = env.path("home").join(project);
        assert!(env.program("git").args(["init", "-q"]).arg(&root).status().unwrap().success());
        env.run_in(&root, &["save", "--run", "r", "--no-capture", text]).exits(0);
    }
    let found = env.json(&["search", "walrus parser", "--all"]);
    let projects: Vec<_> =
        found["hits"].as_array().unwrap().iter().map(|hit| hit["project"].as_str().unwrap()).collect();
    assert!(projects[0].ends_with("/api") && projects[1].ends_with("/my web"), "{found}");
    let next = found["hits"][0]["next"].as_str().unwrap();
    assert!(next.starts_with("milepost -C ") && next.ends_with(" show r@1"), "{next}");
    let quoted = found["hits"][1]["next"].as_str().unwrap();
    assert_eq!(quoted, format!("milepost -C '{}' show r@1", projects[1]));
    // A project that cannot be read is named, and the others are searched.
    let store = env.path("home").join("my web/.git/milepost/milepost.db");
    #[allow(clippy::disallowed_methods, reason = "a test's own file")]
    std::fs::write(&store, [0x5a; 20_000]).unwrap();
    let partly = env.run(&["search", "walrus", "--all"]).exits(3);
    assert!(partly.stdout.contains("the walrus parser") && partly.stderr.contains("web"), "{partly:?}");
}

/// A store that the user does not trust is searched, but nothing is written into its folder.
#[test]
#[cfg(unix)]
fn a_foreign_store_is_not_written() {
    let mut env = TestEnvironment::with_runs();
    let names = |env: &TestEnvironment| {
        let folder = std::fs::read_dir(env.project().join(".git/milepost")).unwrap();
        let mut names: Vec<_> = folder.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    std::fs::create_dir(env.path("stranger")).unwrap();
    env.set("HOME", env.path("stranger").to_str().unwrap());
    let before = names(&env);
    let ran = env.run(&["search", "redis"]).exits(0);
    assert!(ran.stdout.contains("Redis") && ran.stderr.contains("is not trusted"), "{ran:?}");
    assert_eq!(names(&env), before);
}

#[test]
fn the_file_layout_has_an_index_too() {
    let mut env = TestEnvironment::repository();
    let store = format!("files:{}", env.path("store").display());
    env.set("MILEPOST_STORE", &store);
    env.save(&["--run", "a", "--no-capture", "the walrus parser"]);
    assert_eq!(env.found(&["walrus"]), ["the walrus parser"]);
    assert!(env.path("store/.store/search").exists());
    env.run(&["verify"]).exits(0);
    env.run(&["doctor"]).exits(0);
    let copy = format!("files:{}", env.path("copy").display());
    env.run(&["copy", "--from", &store, "--to", &copy]).exits(0);
    assert!(!env.path("copy/.store/search").exists());
}

/// Runs from elsewhere are shown to people, not to agents.
#[test]
fn an_agent_does_not_find_runs_from_elsewhere() {
    let env = TestEnvironment::repository();
    env.save(&["--run", "own", "--no-capture", "an ordinary walrus"]);
    env.save(&["--run", "stranger", "--no-capture", "a foreign walrus"]);
    let file = env.path("run.jsonl");
    let file = file.to_str().unwrap();
    env.run(&["export", "jsonl", "stranger", file]).exits(0);
    env.run(&["delete", "stranger", "--yes"]).exits(0);
    env.run(&["import", "jsonl", file]).exits(0);
    assert_eq!(env.hits(&["walrus"]).len(), 2);
    let found = env.run_with(&[("CLAUDECODE", "1")], &["search", "walrus", "--json"]).exits(0);
    assert!(found.stdout.contains("ordinary") && !found.stdout.contains("foreign"), "{found:?}");
}
