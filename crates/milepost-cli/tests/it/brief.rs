//! `brief`, `save --brief` and `list --tree`: from a single file without a store to checkpoints with parents.

use std::os::unix::fs::PermissionsExt;

use crate::{TestEnvironment, server};

const EXAMPLE: &str = include_str!("example.md");

#[test]
fn a_brief_file_is_shown_without_a_store() {
    let env = TestEnvironment::new();
    env.write("chk.md", EXAMPLE);
    assert_eq!(env.run(&["brief", "show", "chk.md"]).exits(0).stdout, EXAMPLE, "byte for byte");
    assert_eq!(env.run_on(EXAMPLE.as_bytes(), &["brief", "show", "-"]).exits(0).stdout, EXAMPLE);
    let shown = env.json(&["brief", "show", "chk.md"]);
    assert_eq!((&shown["checkpoint"], &shown["composed"]), (&"chk-003".into(), &false.into()));
    assert_eq!(shown["sections"][0]["heading"], "Problem");
    assert!(shown["tokens"].as_u64().unwrap() > 300 && shown["counter"] == "heuristic-1");
    let entries = std::fs::read_dir(env.project()).unwrap().count();
    assert_eq!(entries, 1, "no store is created");
    // A name that is neither a file nor a checkpoint.
    env.run(&["brief", "show", "none.md"]).exits(2);
    env.run(&["brief", "show", "nothing"]).exits(10);
}

#[test]
fn a_check_names_missing_sections_and_fields() {
    let env = TestEnvironment::new();
    env.write("good.md", EXAMPLE);
    let document = env.json(&["brief", "check", "good.md"]);
    assert_eq!((&document["valid"], document["errors"].as_array().unwrap().len()), (&true.into(), 0));
    env.write(
        "bad.md",
        EXAMPLE.replace("### Decisions", "### Thoughts").replace("checkpoint: chk-003\n", ""),
    );
    let ran = env.run(&["brief", "check", "bad.md", "--json"]).exits(1);
    let document = ran.json();
    assert_eq!(document["valid"], false);
    let errors: Vec<_> = document["errors"].as_array().unwrap().iter().collect();
    assert!(errors.iter().any(|e| e["section"] == "Decisions" && e["message"] == "is missing"), "{document}");
    assert!(
        errors.iter().any(|e| e["message"] == "checkpoint: is missing from the front matter"),
        "{document}"
    );
    let shown = env.run(&["brief", "check", "bad.md"]).exits(1).stdout;
    insta::assert_snapshot!(shown, @r"
    bad.md  not valid
      error checkpoint: is missing from the front matter
      error Decisions is missing
    ");
}

#[test]
fn one_bad_file_among_ten_does_not_hide_the_others() {
    let env = TestEnvironment::new();
    std::fs::create_dir(env.project().join("briefs")).unwrap();
    for n in 0..9 {
        env.write(&format!("briefs/chk-{n}.md"), EXAMPLE);
    }
    type Make<'a> = &'a dyn Fn(&std::path::Path);
    let bad: [(&str, Make<'_>); 4] = [
        ("not UTF-8", &|path| {
            #[allow(clippy::disallowed_methods, reason = "a test's own file")]
            std::fs::write(path, b"---\n\xff\xfe").unwrap();
        }),
        ("a folder", &|path| std::fs::create_dir(path).unwrap()),
        ("a pipe without a writer", &|path| {
            let made = std::process::Command::new("mkfifo").arg(path).status().unwrap();
            assert!(made.success());
        }),
        ("a broken link", &|path| std::os::unix::fs::symlink("nowhere", path).unwrap()),
    ];
    for (what, make) in bad {
        let path = env.project().join("briefs/chk-9.md");
        make(&path);
        let ran = env.run(&["brief", "check", "briefs", "--json"]).exits(1);
        let files = ran.json()["files"].as_array().unwrap().clone();
        assert_eq!(files.len(), 10, "{what}: {ran:#?}");
        let wrong: Vec<_> = files.iter().filter(|file| file["valid"] == false).collect();
        assert_eq!(wrong.len(), 1, "{what}");
        assert_eq!(wrong[0]["path"], "briefs/chk-9.md");
        assert_eq!(wrong[0]["errors"].as_array().unwrap().len(), 1, "{what}: {}", wrong[0]);
        if path.is_dir() { std::fs::remove_dir(&path).unwrap() } else { std::fs::remove_file(&path).unwrap() }
    }
    // One of two manifest files cannot be read.
    env.write("Makefile", "test:\n");
    std::fs::create_dir(env.project().join("Cargo.toml")).unwrap();
    let made = env.run(&["brief", "new"]).exits(0).stdout;
    assert!(made.contains("- Test command: make test (Makefile)"), "{made}");
    assert!(made.contains("- Cargo.toml: could not be read: not a regular file"), "{made}");
    let locked = env.write("locked.md", EXAMPLE);
    std::fs::set_permissions(&locked, std::fs::Permissions::from_mode(0o000)).unwrap();
    env.run(&["brief", "check", "briefs/chk-1.md", "locked.md", "missing.md"]).exits(1);
}

#[test]
fn a_budget_is_met_or_refused_with_token_counts() {
    let env = TestEnvironment::new();
    env.write("chk.md", EXAMPLE);
    let fit = |args: &[&str]| {
        let args: Vec<_> = ["brief", "fit", "chk.md", "--json"].iter().chain(args).copied().collect();
        env.run(&args)
    };
    let document = fit(&["--budget", "300"]).exits(0).json();
    assert!(document["tokens"].as_u64().unwrap() <= 300);
    assert_eq!((&document["budget"], &document["counter"]), (&300.into(), &"heuristic-1".into()));
    assert!(
        document["omitted"].as_array().unwrap().iter().any(|o| o["section"] == "Artifact Trail"),
        "{document}"
    );
    let markdown = document["markdown"].as_str().unwrap();
    assert!(
        markdown.contains("`milepost brief show chk.md`") && markdown.contains("- Blocked: None"),
        "{markdown}"
    );
    let refused = fit(&["--budget", "100"]).exits(1);
    assert_eq!(refused.reason(), "brief_over_budget");
    assert!(refused.stderr.contains("Decisions ") && refused.stderr.contains("is 100"), "{refused:#?}");
    let shrunk = fit(&["--budget", "100", "--overflow", "shrink"]).exits(0);
    assert!(
        shrunk.json()["tokens"].as_u64().unwrap() <= 100 && shrunk.json()["shrunk"] == true,
        "{shrunk:#?}"
    );
    let exceeding = fit(&["--budget", "100", "--overflow", "exceed"]).exits(0);
    assert!(
        exceeding.json()["tokens"].as_u64().unwrap() > 100 && exceeding.stderr.contains("Warning"),
        "{exceeding:#?}"
    );
    for (budget, exit) in
        [("0", 1), ("1", 1), ("18446744073709551615", 0), ("-1", 2), ("many", 2), ("99999999999999999999", 2)]
    {
        assert_eq!(fit(&["--budget", budget, "--overflow", "shrink"]).code, exit, "{budget}");
    }
    let scaled = fit(&["--budget", "300", "--overflow", "shrink", "--token-scale", "2"]).exits(0).json();
    assert_eq!(scaled["counter"], "heuristic-1 x2");
    assert!(scaled["markdown"].as_str().unwrap().len() < markdown.len());
    for wrong in [
        &["--token-scale", "0"][..],
        &["--token-scale", "x"],
        &["--overflow", "never"],
        &["--counter", "none"],
    ] {
        let args: Vec<_> = ["--budget", "300"].iter().chain(wrong).copied().collect();
        fit(&args).exits(2);
    }
    assert_eq!(env.run(&["brief", "fit", "chk.md", "--budget", "9999"]).exits(0).stdout, EXAMPLE);
}

#[test]
fn only_one_of_many_concurrent_saves_of_a_brief_succeeds() {
    for store in server::with_server_store(["sqlite:store.db", "files:store"]) {
        let mut env = TestEnvironment::new();
        env.set("MILEPOST_STORE", &store);
        env.write("chk.md", EXAMPLE);
        env.save(&["--run", "first"]);
        let env = &env;
        let codes: Vec<_> = std::thread::scope(|scope| {
            let save = |n: usize| {
                let run = format!("r{n}");
                move || env.run(&["save", "--no-capture", "--run", &run, "--brief", "chk.md"]).code
            };
            let all: Vec<_> = (0..8).map(|n| scope.spawn(save(n))).collect();
            all.into_iter().map(|one| one.join().unwrap()).collect()
        });
        assert_eq!(codes.iter().filter(|code| **code == 0).count(), 1, "{store:?}: {codes:?}");
        assert!(codes.iter().all(|code| [0, 1].contains(code)), "{store:?}: {codes:?}");
        assert_eq!(env.json(&["runs"])["runs"].as_array().unwrap().len(), 2, "{store:?}");
    }
}

#[test]
fn a_new_brief_carries_the_saved_one_forward() {
    let env = TestEnvironment::new();
    env.write("chk.md", EXAMPLE);
    env.save(&["--run", "r", "--brief", "chk.md"]);
    assert_eq!(env.run(&["brief", "show", "latest"]).exits(0).stdout, EXAMPLE);
    assert_eq!(env.run(&["brief", "show", "chk-003"]).exits(0).stdout, EXAMPLE, "the brief's id is a name");
    assert_eq!(env.json(&["list"])["checkpoints"][0]["name"], "chk-003");
    let listed = env.run(&["list"]).exits(0).stdout;
    assert!(listed.contains("NAME") && listed.contains("chk-003"), "{listed}");
    let again = env.run(&["save", "--run", "other", "--brief", "chk.md", "--json"]).exits(1);
    assert_eq!(again.reason(), "checkpoint_id_invalid");
    assert!(again.stderr.contains("chk-003"), "{again:#?}");
    env.run(&["decide", "--run", "r", "Sound: none"]).exits(0);
    env.run(&["task", "--run", "r", "set", "t1", "failed", "--title", "timer"]).exits(0);
    let shown = env.json(&["brief", "show", "latest", "--run", "r"]);
    assert_eq!(shown["composed"], true);
    let made = env.run(&["brief", "new", "--run", "r"]).exits(0).stdout;
    for line in [
        "parent: chk-003",
        "- Game name: Chromatic Quest",
        "- Sound: none (decided ",
        "- Retry: timer (task t1, failed)",
        "- As of chk-003: Phases 1-2 complete and working",
        "- Do not commit without explicit request",
    ] {
        assert!(made.contains(line), "{line}: {made}");
    }
    env.write("next.md", &made);
    env.run(&["brief", "check", "next.md"]).exits(0);
    env.save(&["--run", "r", "--brief", "next.md"]);
    let from = env.json(&["brief", "new", "--from", "chk-003"]);
    assert!(from["markdown"].as_str().unwrap().contains("parent: chk-003"), "{from}");
    // An incomplete brief is saved with a warning.
    env.write("thin.md", "---\ncheckpoint: thin\ncreated: 2026-01-01\n---\n## Problem\nx\n");
    let ran = env.run(&["save", "--run", "r", "--brief", "thin.md"]).exits(0);
    assert!(ran.stderr.contains("is incomplete: Session Intent is missing"), "{ran:#?}");
}

#[test]
fn two_brief_files_are_merged() {
    let env = TestEnvironment::new();
    env.write("a.md", EXAMPLE);
    env.write("b.md", "---\ncheckpoint: chk-004\ncreated: 2025-12-15T00:00:00Z\n---\n### Decisions\n- ~~Game name: Chromatic Quest~~ → Game name: Hue\n\n### Current State\n- Renamed\n");
    let ran = env.run(&["brief", "merge", "a.md", "b.md"]).exits(0);
    assert!(ran.stdout.contains("- ~~Game name: Chromatic Quest~~ → Game name: Hue\n"), "{ran:#?}");
    assert!(
        ran.stdout.contains("parent: chk-003\n") && ran.stderr.contains("Next Actions is not in the update"),
        "{ran:#?}"
    );
    env.write("c.md", &ran.stdout);
    assert_eq!(
        env.run(&["brief", "merge", "c.md", "b.md"]).exits(0).stdout,
        ran.stdout,
        "merging the same update again changes nothing"
    );
    env.run(&["brief", "merge", "-", "-"]).exits(2);
    assert!(env.json(&["brief", "merge", "a.md", "b.md"])["markdown"].as_str().unwrap().contains("Hue"));
}

#[test]
fn list_tree_shows_checkpoints_below_their_parents() {
    let env = TestEnvironment::new();
    let one = env.save(&["--run", "a", "--summary", "1"]);
    let two = env.save(&["--run", "a", "--summary", "2"]);
    let input = |parent: &str| format!("{{\"parent\":\"{parent}\"}}");
    env.run_on(input(&one).as_bytes(), &["save", "--run", "b", "--summary", "branch", "--input", "-"])
        .exits(0);
    env.run_on(input("cp_gone").as_bytes(), &["save", "--run", "c", "--summary", "lost", "--input", "-"])
        .exits(0);
    let document = env.json(&["list", "--tree"]);
    let rows = document["checkpoints"].as_array().unwrap();
    assert_eq!(rows.len(), 4, "every checkpoint is listed");
    let places: Vec<_> = rows
        .iter()
        .map(|row| {
            (
                row["task_summary"].as_str().unwrap(),
                row["depth"].as_u64().unwrap(),
                row["lineage"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        places,
        [("1", 0, "root"), ("2", 1, "parent"), ("branch", 0, "parent"), ("lost", 0, "missing")],
        "{two}"
    );
    let shown = env.run(&["list", "--tree"]).exits(0).stdout;
    assert!(shown.contains(&format!("└ {}", &two[23..31])) && shown.contains("\n… "), "{shown}");
    // A parent beyond the limit does not hide its children either.
    assert_eq!(env.json(&["list", "--tree", "--limit", "2"])["checkpoints"].as_array().unwrap().len(), 2);
}

#[test]
fn a_scaffold_is_valid_and_warns_about_unknown_sections() {
    let env = TestEnvironment::new();
    let scaffold = env.run(&["brief", "new"]).exits(0).stdout;
    env.write("new.md", scaffold);
    let document = env.json(&["brief", "check", "new.md"]);
    assert_eq!(document["valid"], true);
    let unknown: Vec<_> = document["warnings"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|w| w["message"].as_str().unwrap().contains("unknown"))
        .map(|w| w["section"].as_str().unwrap())
        .collect();
    for section in ["Problem", "Session Intent", "Decisions", "Next Actions"] {
        assert!(unknown.contains(&section), "{section}: {document}");
    }
    let shown = env.run(&["brief", "check", "new.md"]).exits(0).stdout;
    assert!(shown.contains("Problem only says that it is unknown"), "{shown}");
    env.write("good.md", EXAMPLE);
    let warnings = env.json(&["brief", "check", "good.md"])["warnings"].to_string();
    assert!(!warnings.contains("unknown"), "{warnings}");
}

#[test]
fn names_with_backticks_survive_composing_and_merging() {
    let env = TestEnvironment::new();
    let input = r#"{"files": ["a`b.rs", "`c`.rs"]}"#;
    env.run_on(input.as_bytes(), &["save", "--input", "-", "--run", "r"]).exits(0);
    let composed = env.run(&["brief", "show", "latest"]).exits(0).stdout;
    for row in ["| ``a`b.rs`` | ", "| `` `c`.rs `` | "] {
        assert!(composed.contains(row), "{composed}");
    }
    env.write(
        "one.md",
        EXAMPLE.replace(
            "| `src/services/gemini",
            "| ``a`b.rs`` | created | the parser |\n| `src/services/gemini",
        ),
    );
    let update = "## Essential Information\n\n### Artifact Trail\n\n| File | Status | Key Change |\n|---|---|---|\n\
                  | ``a`b.rs`` | modified | |\n| `` `d.rs `` | created | new |\n";
    env.write("two.md", update);
    let merged = env.run(&["brief", "merge", "one.md", "two.md"]).exits(0).stdout;
    let rows: Vec<_> = merged.lines().filter(|line| line.contains("b.rs") || line.contains("d.rs")).collect();
    assert_eq!(
        rows,
        ["| ``a`b.rs`` | created | the parser |", "| `` `d.rs `` | created | new |"],
        "{merged}"
    );
}

#[test]
fn a_time_without_an_offset_is_utc_everywhere() {
    let env = TestEnvironment::new();
    for (name, created, at) in [
        ("local", "2026-03-01T12:00:00", "2026-03-01T12:00:00"),
        ("day", "2026-03-01", "2026-03-01T00:00:00"),
        ("blank", "2026-03-01 12:00", "2026-03-01T12:00:00"),
        ("offset", "2026-03-01T12:00:00+02:00", "2026-03-01T10:00:00"),
    ] {
        let text = EXAMPLE.replace("chk-003", name);
        let old = text.lines().find(|line| line.starts_with("created:")).unwrap();
        let text = text.replace(old, &format!("created: {created}"));
        env.write(&format!("{name}.md"), text);
        let checked = env.json(&["brief", "check", &format!("{name}.md")])["warnings"].to_string();
        let ran = env.run(&["import", "markdown", &format!("{name}.md"), "--json"]).exits(0);
        let warned = ran.json()["warnings"].to_string();
        let stored = env.json(&["show", name])["checkpoint"]["created_at"].as_str().unwrap().to_owned();
        assert!(stored.starts_with(at), "{created}: {stored}");
        for said in [&checked, &warned] {
            assert_eq!(said.contains(": assuming "), name != "offset", "{created}: {said}");
        }
    }
}
