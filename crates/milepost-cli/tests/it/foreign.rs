//! `import`, `export` and `copy` with the real binary, including odd, hostile and large inputs.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde_json::{Value, json};

use crate::TestEnvironment;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../milepost/tests/fixtures/foreign")
}

fn make(path: &Path, content: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    #[allow(clippy::disallowed_methods, reason = "a test's own file")]
    std::fs::write(path, content).unwrap();
}

fn numbered(number: u64, session: &str) -> String {
    json!({
        "number": number, "timestamp": "2026-11-15T18:13:57.338Z", "duration": number, "sessionId": session,
        "gitStatus": { "branch": "main", "modified": [], "untracked": [], "staged": [] },
        "aiwgState": { "files": [], "sizes": {} }, "filesModified": [], "memory": { "heapUsed": 1, "rss": 2 },
    })
    .to_string()
}

fn reasons(report: &Value) -> String {
    report["skipped"].to_string()
}

#[test]
fn every_format_is_recognised_and_imported_once() {
    for store in ["sqlite:store.db", "files:store"] {
        let mut env = TestEnvironment::new();
        env.set("MILEPOST_STORE", store);
        for (format, count, skipped) in
            [("pai", 4, 0), ("nova26", 5, 0), ("snapshot", 3, 1), ("aiwg", 3, 0), ("markdown", 5, 0)]
        {
            let path = fixtures().join(format);
            let path = path.to_str().unwrap();
            let planned = env.json(&["import", "auto", path, "--dry-run"]);
            let report = env.json(&["import", "auto", path]);
            assert_eq!(
                (&planned["imported"], &planned["dry_run"]),
                (&count.into(), &true.into()),
                "{planned}"
            );
            assert_eq!((&report["imported"], &report["format"]), (&count.into(), &format.into()), "{report}");
            assert_eq!(report["skipped"].as_array().unwrap().len(), skipped, "{report}");
            assert_eq!(report["lost_fields"], json!([]));
            let again = env.json(&["import", format, path]);
            assert_eq!((&again["imported"], &again["unchanged"]), (&0.into(), &count.into()), "{again}");
        }
        assert_eq!(env.json(&["list", "--limit", "0"])["checkpoints"].as_array().unwrap().len(), 20);
        // An original id is a valid reference, and an imported run can be continued.
        assert_eq!(env.json(&["show", "cp3"])["checkpoint"]["phase"]["number"], 3);
        let run = env.json(&["runs", "build-1"]);
        assert_eq!(run["runs"][0]["completed"], json!(["t1"]), "{run}");
        env.save(&["--run", "build-1", "--summary", "goes on here"]);
        env.run(&["verify"]).exits(0);
        let page = env.run(&["import", "snapshot", fixtures().join("snapshot").to_str().unwrap()]).exits(0);
        assert!(page.stderr.contains("cp_torn.json") && page.stderr.contains("too early"), "{}", page.stderr);
    }
}

#[test]
fn without_a_path_import_reads_the_formats_default_folder() {
    let env = TestEnvironment::new();
    let file = env.path("home/.pai/checkpoints/ckpt-2026-11-15T18-13-54Z-plan.json");
    make(
        &file,
        &std::fs::read_to_string(fixtures().join("pai/checkpoints/ckpt-2026-11-15T18-13-54Z-plan.json"))
            .unwrap(),
    );
    assert_eq!(env.json(&["import", "pai"])["imported"], 1);
    let wrong = env.run(&["import", "banana", "--json"]).exits(2);
    assert!(wrong.stderr.contains("pai, nova26, snapshot"), "{}", wrong.stderr);
    env.run(&["import", "auto", "nowhere", "--json"]).exits(2);
    std::fs::create_dir(env.project().join("empty")).unwrap();
    env.run(&["import", "auto", "empty", "--json"]).exits(2);
    env.run(&["import", "aiwg", "empty", "--json"]).exits(4);
}

#[test]
fn hostile_files_are_skipped_with_a_reason() {
    let env = TestEnvironment::new();
    let folder = env.project().join("in/checkpoints");
    make(&folder.join("001-checkpoint.json"), &numbered(1, "good"));
    make(&env.path("outside.json"), &numbered(2, "outside"));
    symlink(env.path("outside.json"), folder.join("002-checkpoint.json")).unwrap();
    symlink("nowhere.json", folder.join("003-checkpoint.json")).unwrap();
    symlink("004-checkpoint.json", folder.join("004-checkpoint.json")).unwrap();
    make(&folder.join("005-checkpoint.json"), "");
    // A sparse file of two gigabytes, which must not be read.
    std::fs::File::options()
        .write(true)
        .open(folder.join("005-checkpoint.json"))
        .unwrap()
        .set_len(2 << 30)
        .unwrap();
    make(&folder.join("006-checkpoint.json"), "{\"number\": 6, \"number\": 7}");
    make(&folder.join("007-checkpoint.json"), "[1]");
    make(&folder.join("008-checkpoint.json"), &numbered(8, "../../../etc/passwd"));
    make(&folder.join("009-checkpoint.json"), &numbered(9, "a/../../b"));
    make(&folder.join("010-checkpoint.json"), &numbered(10, &"x".repeat(300)));
    std::process::Command::new("mkfifo").arg(folder.join("011-checkpoint.json")).status().unwrap();
    let begun = Instant::now();
    let report = env.json(&["import", "aiwg", "in"]);
    assert!(begun.elapsed().as_secs() < 20);
    assert_eq!(report["imported"], 4, "{report}");
    assert_eq!(report["skipped"].as_array().unwrap().len(), 7, "{report}");
    for word in [
        "leads out of the folder",
        "a broken link",
        "larger than 64 MiB",
        "twice",
        "an array",
        "not a regular file",
    ] {
        assert!(reasons(&report).contains(word), "{word}: {report}");
    }
    assert!(report["warnings"].to_string().contains("etc/passwd"), "{report}");
    for run in report["runs"].as_array().unwrap() {
        let id = run.as_str().unwrap();
        assert!(!id.contains('/') && !id.starts_with('.'), "{id}");
    }
    assert_eq!(env.json(&["import", "aiwg", "in"])["unchanged"], 4);
    // An export does not write outside its folder either.
    let odd = report["runs"]
        .as_array()
        .unwrap()
        .iter()
        .find(|run| run.as_str().unwrap().contains("passwd"))
        .unwrap();
    let out = env.json(&["export", "snapshot", odd.as_str().unwrap(), "out"]);
    for file in out["files"].as_array().unwrap() {
        assert!(env.project().join(file.as_str().unwrap()).starts_with(env.project().join("out")), "{out}");
    }
}

#[test]
fn ten_thousand_files_are_imported_in_linear_time() {
    let env = TestEnvironment::new();
    let time = |count: u64, name: &str| {
        for n in 1..=count {
            make(
                &env.project().join(format!("{name}/checkpoints/{n:05}-checkpoint.json")),
                &numbered(n, name),
            );
        }
        let begun = Instant::now();
        let report = env.json(&["import", "aiwg", name, "--store", &format!("sqlite:{name}.db")]);
        assert_eq!(report["imported"], count);
        begun.elapsed().as_secs_f64()
    };
    let few = time(1_000, "few");
    let many = time(10_000, "many");
    // Ten times the files. The factor of 30 tolerates a machine that becomes busy.
    assert!(many < 30.0 * few.max(0.1), "1,000 took {few:.2} s, 10,000 took {many:.2} s");
    assert_eq!(
        env.json(&["list", "--store", "sqlite:many.db", "--limit", "1"])["checkpoints"][0]["sequence"],
        10_000
    );
}

#[test]
fn a_database_that_is_being_written_is_read_consistently() {
    for mode in ["WAL", "DELETE"] {
        let env = TestEnvironment::new();
        let path = env.project().join("db/builds.db");
        std::fs::create_dir(env.project().join("db")).unwrap();
        let db = rusqlite::Connection::open(&path).unwrap();
        db.pragma_update(None, "journal_mode", mode).unwrap();
        db.busy_timeout(std::time::Duration::from_secs(20)).unwrap();
        db.execute_batch(
            "CREATE TABLE checkpoints (id TEXT PRIMARY KEY, build_id TEXT NOT NULL, timestamp TEXT NOT NULL, tasks TEXT \
             NOT NULL, current_phase INTEGER NOT NULL, metadata TEXT, created_at DATETIME DEFAULT CURRENT_TIMESTAMP);",
        )
        .unwrap();
        // Each transaction adds two rows, so an odd count means an inconsistent read.
        let add = move |n: u64| {
            let rows = format!(
                "BEGIN IMMEDIATE; INSERT INTO checkpoints (id, build_id, timestamp, tasks, current_phase) VALUES \
                 ('a{n}', 'b', '2026-11-15 18:13:54', '[]', 1); INSERT INTO checkpoints (id, build_id, timestamp, tasks, \
                 current_phase) VALUES ('b{n}', 'b', '2026-11-15 18:13:54', '[]', 2); COMMIT;"
            );
            db.execute_batch(&rows).unwrap();
        };
        add(0);
        let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let (ready, going) = std::sync::mpsc::channel();
        let stopped = stop.clone();
        let writer = std::thread::spawn(move || {
            let mut n = 1;
            while !stopped.load(std::sync::atomic::Ordering::Relaxed) {
                add(n);
                n += 1;
                let _ = ready.send(());
                std::thread::yield_now();
            }
        });
        going.recv().unwrap();
        let names = || {
            let mut names: Vec<_> = std::fs::read_dir(env.project().join("db"))
                .unwrap()
                .map(|entry| entry.unwrap().file_name())
                .filter(|name| !name.to_string_lossy().ends_with("-journal"))
                .collect();
            names.sort();
            names
        };
        let before = names();
        for _ in 0..3 {
            let report = env.json(&["import", "nova26", "db", "--dry-run"]);
            let count = report["imported"].as_u64().unwrap();
            assert!(count >= 2 && count.is_multiple_of(2), "{mode}: {count} rows");
        }
        assert_eq!(names(), before, "{mode}: no new files remain");
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        writer.join().unwrap();
        let count = env.json(&["import", "nova26", "db/builds.db"])["imported"].as_u64().unwrap();
        assert!(count >= 4 && count.is_multiple_of(2), "{mode}: {count} rows");
    }
}

#[test]
fn an_orphaned_wal_is_read_from_a_copy() {
    let env = TestEnvironment::new();
    let path = env.project().join("live.db");
    let db = rusqlite::Connection::open(&path).unwrap();
    db.pragma_update(None, "journal_mode", "WAL").unwrap();
    db.execute_batch(
        "CREATE TABLE checkpoints (id TEXT PRIMARY KEY, build_id TEXT NOT NULL, timestamp TEXT NOT NULL, tasks TEXT NOT \
         NULL, current_phase INTEGER NOT NULL, metadata TEXT, created_at DATETIME DEFAULT CURRENT_TIMESTAMP);
         INSERT INTO checkpoints (id, build_id, timestamp, tasks, current_phase) VALUES ('x', 'b', '2026-11-15 18:13:54', '[]', 1);",
    )
    .unwrap();
    // As after a crash: a database and its WAL that no process has open.
    for end in ["", "-wal"] {
        std::fs::copy(
            env.project().join(format!("live.db{end}")),
            env.project().join(format!("left.db{end}")),
        )
        .unwrap();
    }
    assert_eq!(env.json(&["import", "nova26", "left.db"])["imported"], 1);
    assert!(!env.project().join("left.db-shm").exists());
}

#[test]
fn secrets_are_redacted_on_import_unless_disabled() {
    let env = TestEnvironment::new();
    let token = format!("gh{}{}", "p_", "q7Zk2Xw9Lm4Rt8Vb1Nc6Yd3Hf5Gj0PsAeUiO");
    let text =
        std::fs::read_to_string(fixtures().join("pai/checkpoints/ckpt-2026-11-15T18-13-54Z-plan.json"))
            .unwrap();
    let text = text
        .replace("task plan", &format!("use {token}"))
        .replace("\"i\": 2", &format!("\"i\": \"{token}\""));
    make(&env.project().join("in/ckpt-1.json"), &text);
    let report = env.json(&["import", "pai", "in"]);
    assert_eq!((&report["imported"], &report["replaced"]), (&1.into(), &2.into()), "{report}");
    let shown = env.run(&["show", "latest", "--json"]).exits(0).stdout;
    assert!(!shown.contains(&token[4..]) && shown.contains("[redacted:github_token]"), "{shown}");
    let other = env.json(&["import", "pai", "in", "--no-redact", "--store", "sqlite:other.db"]);
    assert_eq!(other["replaced"], 0);
    assert!(
        env.run(&["show", "latest", "--json", "--store", "sqlite:other.db"]).exits(0).stdout.contains(&token)
    );
    // A bundle is searched for secrets again before it is written.
    let run = ["export", "bundle", "sess-1", "out.bundle", "--store", "sqlite:other.db", "--json"];
    assert_eq!(env.run(&run).exits(15).reason(), "confirmation_needed");
    assert!(!env.project().join("out.bundle").exists());
    let yes: Vec<_> = run.into_iter().chain(["--yes"]).collect();
    assert_eq!(env.run(&yes).exits(0).json()["secrets"].as_array().unwrap().len(), 2);
}

#[test]
fn a_database_is_exported_without_a_temporary_folder() {
    let env = TestEnvironment::new();
    env.save(&["--run", "r", "--summary", "one", "--phase", "BUILD", "--phase-number", "4"]);
    let missing = env.path("missing").to_string_lossy().into_owned();
    env.run_with(&[("TMPDIR", &missing)], &["export", "nova26", "r", "out/n.db"]).exits(0);
    let files = std::fs::read_dir(env.project().join("out")).unwrap();
    assert_eq!(files.count(), 1, "no temporary files remain");
}

#[test]
fn nothing_is_overwritten_without_force() {
    let env = TestEnvironment::new();
    env.save(&["--run", "r", "--summary", "one", "--phase", "BUILD", "--phase-number", "4"]);
    for (format, path) in
        [("pai", "p"), ("nova26", "n.db"), ("snapshot", "s"), ("aiwg", "a"), ("jsonl", "j"), ("bundle", "b")]
    {
        let planned = env.json(&["export", format, "r", path, "--dry-run"]);
        assert!(!env.project().join(path).exists(), "{planned}");
        let done = env.json(&["export", format, "r", path]);
        assert_eq!((&done["exported"], &done["files"]), (&1.into(), &planned["files"]), "{done}");
        assert_eq!(env.run(&["export", format, "r", path, "--json"]).exits(15).reason(), "restore_refused");
        env.json(&["export", format, "latest", path, "--force"]);
    }
    env.write("brief.md", "## Problem\nNone.\n");
    env.save(&["--run", "r", "--brief", "brief.md"]);
    let done = env.json(&["export", "markdown", "latest", "out.md"]);
    assert_eq!(done["exported"], 1);
    assert!(std::fs::read_to_string(env.project().join("out.md")).unwrap().ends_with("## Problem\nNone.\n"));
    env.run(&["export", "pai", "nope", "--json"]).exits(14);
    env.run(&["export", "banana", "r", "--json"]).exits(2);
}

#[test]
fn a_bundle_is_imported_and_continued_in_another_clone() {
    let env = TestEnvironment::repository();
    let commit = |text: &str| {
        env.write("file.txt", text);
        env.git(&["add", "file.txt"]);
        env.git(&["-c", "user.name=t", "-c", "user.email=t@t", "commit", "-q", "-m", text]);
    };
    commit("two");
    env.git(&["clone", "-q", ".", "../clone"]);
    commit("three");
    commit("four");
    env.write("file.txt", "not committed\n");
    env.save(&["--run", "nightly", "--summary", "half way", "--tag", "kept"]);
    env.run(&["note", "waits", "--run", "nightly"]).exits(0);
    let ran = env.run(&["export", "bundle", "nightly", "../n.bundle", "--with-patch"]).exits(0);
    assert!(
        ran.stderr.contains("The bundle contains 1 checkpoint") && ran.stderr.contains("uncommitted"),
        "{}",
        ran.stderr
    );
    let clone = env.path("clone");
    let ran = env.run_in(&clone, &["import", "auto", "../n.bundle", "--patch", "n.patch", "--json"]).exits(0);
    let report = ran.json();
    assert_eq!(report["imported"], 1, "{report}");
    assert_eq!(report["distance"], "commit missing", "{report}");
    assert!(std::fs::read_to_string(clone.join("n.patch")).unwrap().contains("+not committed"));
    let shown = env.run_in(&clone, &["show", "kept", "--json"]).exits(0).json();
    assert_eq!(shown["checkpoint"]["task_summary"], "half way");
    assert_eq!(
        env.run_in(&clone, &["runs", "nightly", "--json"]).exits(0).json()["runs"][0]["log"][0]["text"],
        "waits"
    );
    std::process::Command::new("git").args(["fetch", "-q"]).current_dir(&clone).status().unwrap();
    let again = env.run_in(&clone, &["import", "bundle", "../n.bundle", "--json"]).exits(0).json();
    assert_eq!((&again["imported"], &again["distance"]), (&0.into(), &"2 behind".into()), "{again}");
    // The run can be resumed there, and its commit is compared with the clone's.
    let resumed = env.run_in(&clone, &["resume", "nightly", "--json"]).exits(0).json();
    assert_eq!(resumed["decision"]["reason_code"], "resume_allowed", "{resumed}");
    assert_eq!(
        (&resumed["distance"], &resumed["about"]["worktree"]),
        (&"2 behind".into(), &clone.to_str().into())
    );
    let said = env.run_in(&clone, &["resume"]).exits(0);
    assert!(said.stderr.contains("2 behind") && said.stdout.contains("half way"), "{said:?}");
    // The run continues in the clone.
    assert_eq!(env.run_in(&clone, &["save", "--run", "nightly", "--json"]).exits(0).json()["sequence"], 2);
    // A truncated bundle is refused.
    let bytes = std::fs::read(env.path("n.bundle")).unwrap();
    make(&env.path("torn.bundle"), std::str::from_utf8(&bytes[..bytes.len() - 40]).unwrap());
    env.run_in(&clone, &["import", "bundle", "../torn.bundle", "--json"]).exits(2);
}

#[test]
fn copies_between_stores_have_no_differences() {
    let env = TestEnvironment::new();
    for format in ["pai", "nova26", "snapshot", "aiwg", "markdown"] {
        env.json(&["import", format, fixtures().join(format).to_str().unwrap(), "--store", "sqlite:a.db"]);
    }
    for (from, to) in [("sqlite:a.db", "files:b"), ("files:b", "sqlite:c.db"), ("sqlite:a.db", "sqlite:c.db")]
    {
        let report = env.json(&["copy", "--from", from, "--to", to, "--verify"]);
        assert_eq!(report["verified"], json!({ "checked": 20, "differences": [] }), "{report}");
    }
    let again = env.json(&["copy", "--from", "sqlite:a.db", "--to", "files:b"]);
    assert_eq!((&again["copied"], &again["unchanged"]), (&0.into(), &20.into()));
    env.run(&[
        "save",
        "--run",
        "sess-1",
        "--store",
        "sqlite:c.db",
        "--phase",
        "LEARN",
        "--phase-number",
        "7",
    ])
    .exits(0);
    let ran =
        env.run(&["copy", "--from", "sqlite:a.db", "--to", "sqlite:c.db", "--verify", "--json"]).exits(5);
    assert_eq!(ran.reason(), "checkpoint_integrity_mismatch");
    env.run(&["copy", "--from", "sqlite:none.db", "--to", "sqlite:c.db", "--json"]).exits(10);
    env.run(&["copy", "--from", "files:b", "--to", "files:b", "--json"]).exits(2);
    let page = env.run(&["copy", "--from", "files:b", "--to", "sqlite:d.db", "--verify"]).exits(0);
    assert!(
        page.stdout.contains("20 checkpoints copied") && page.stdout.contains("no differences"),
        "{}",
        page.stdout
    );
}

#[test]
fn a_run_without_a_brief_is_exported_with_a_composed_one() {
    let env = TestEnvironment::repository();
    env.save(&["--run", "r", "--summary", "half"]);
    let id = env.save(&["--run", "r", "--summary", "more"]);
    let done = env.json(&["export", "markdown", "r", "out"]);
    assert_eq!(done["files"].as_array().unwrap().len(), 1, "{done}");
    assert!(done["lost_fields"].to_string().contains("checkpoints without a brief"), "{done}");
    let file = env.project().join("out/active").join(format!("{id}.md"));
    assert!(std::fs::read_to_string(&file).unwrap().contains("more"));
    env.run(&["brief", "check", &file.to_string_lossy()]).exits(0);
}
