//! `status`, `list`, `runs`, `show`, `events`: output for users and for programs.

use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

use crate::TestEnvironment;

#[test]
fn status_without_a_store_suggests_init() {
    let env = TestEnvironment::new();
    let ran = env.run(&[]).exits(10);
    assert_eq!(ran.stderr, "");
    insta::assert_snapshot!(env.plain(&ran.stdout), @"
    No store here yet. The first save creates
      sqlite:[ROOT]/project/.milepost/milepost.db

    Next: milepost init
    ");
    let ran = env.run(&["status", "--json"]).exits(10);
    assert_eq!(ran.reason(), "store_missing");
    assert!(ran.json()["store"].is_null());
    env.run(&["init"]).exits(0);
    let ran = env.run(&["status"]).exits(0);
    assert!(ran.stdout.contains("No runs yet.") && ran.stdout.contains("Next: milepost save"), "{ran:#?}");
}

#[test]
fn status_shows_open_runs() {
    let env = TestEnvironment::new();
    env.save(&["--run", "r", "--summary", "at work"]);
    env.save(&["--run", "over", "--status", "completed"]);
    let shown = env.plain(&env.run(&[]).exits(0).stdout);
    let (first, rest) = shown.split_once('\n').unwrap();
    assert!(first.starts_with("Store sqlite:[ROOT]/project/.milepost/milepost.db ("), "{first}");
    insta::assert_snapshot!(rest, @"

    RUN STATE SAVED ABOUT
    r open AGO at work
    1 run ended, most recently over (completed)

    Next: milepost resume
    ");
    let document = env.json(&["status"]);
    assert_eq!(document["open"][0]["run_id"], "r");
    assert_eq!(document["ended"], 1);
}

#[test]
fn list_and_runs_print_tables() {
    let env = TestEnvironment::new();
    env.save(&[
        "--run",
        "r",
        "--phase",
        "BUILD",
        "--phase-number",
        "4",
        "--summary",
        "a\x1b[31mb",
        "--tag",
        "t",
    ]);
    env.save(&["--run", "r", "--status", "failed"]);
    let shown = env.plain(&env.run(&["list"]).exits(0).stdout);
    insta::assert_snapshot!(shown, @"
    ID RUN SAVED STATUS PHASE SOURCE MARKS SUMMARY
    ID r@2 AGO failed 4 BUILD manual a·[31mb
    ID r@1 AGO in_progress 4 BUILD manual #t a·[31mb
    ");
    let shown = env.plain(&env.run(&["runs"]).exits(0).stdout);
    insta::assert_snapshot!(shown, @"
       RUN STATUS WRITTEN SAVES WHERE
    * r failed AGO 2 here
    ");
}

#[test]
fn show_prints_a_page() {
    let env = TestEnvironment::new();
    let input = br##"{"criteria":[{"id":"c1","subject":"it builds","status":"completed"}],"state":[1],
        "tasks":[{"id":"t1","title":"parse","status":"failed"}],"brief":"# Brief\n\n- next: print\n"}"##;
    env.run_on(input, &["save", "--run", "r", "--input", "-", "--summary", "s", "--reason", "task_done"])
        .exits(0);
    let shown = env.plain(&env.run(&["show"]).exits(0).stdout);
    let stable: Vec<_> = shown.lines().filter(|l| !l.contains("created") && !l.contains("sha256")).collect();
    insta::assert_snapshot!(stable.join("\n"), @"
    CP r@1
      session unknown, 0 s in
      source manual, task_done
      status in_progress
      summary s
      marks not completed

    Criteria
      [x] c1 it builds

    Tasks
      [!] t1 parse (failed)

    Brief
      # Brief

      - next: print

    Content
      state 3 B; `milepost state ID` prints it
    ");
    let shown = env.run(&["runs", "r"]).exits(0).stdout;
    assert!(shown.contains("[!] t1 parse (failed)"), "{shown}");
}

#[test]
fn the_name_of_a_run_takes_precedence_over_the_start_of_an_id() {
    let env = TestEnvironment::new();
    let one = env.save(&["--run", "other", "--summary", "1"]);
    let name = &one[23..24];
    let two = env.save(&["--run", name, "--summary", "2"]);
    assert_eq!(env.json(&["show", name])["checkpoint"]["snapshot_id"], two.as_str());
    assert_eq!(env.json(&["show", &one[23..27]])["checkpoint"]["snapshot_id"], one.as_str());
}

#[test]
fn checkpoint_references_are_resolved() {
    let env = TestEnvironment::new();
    let one = env.save(&["--run", "r", "--summary", "1", "--tag", "first"]);
    let two = env.save(&["--run", "r", "--summary", "2"]);
    for (reference, id) in
        [("latest", &two), ("latest~1", &one), ("r@1", &one), ("first", &one), (two.as_str(), &two)]
    {
        assert_eq!(env.json(&["show", reference])["checkpoint"]["snapshot_id"], id.as_str(), "{reference}");
    }
    // The random part of an id, the start of that part, and the name of a run, which refers to the run's
    // latest checkpoint.
    for (reference, id) in [(&one[23..], &one), (&one[23..31], &one), (&two[23..33], &two), ("r", &two)] {
        assert_eq!(env.json(&["show", reference])["checkpoint"]["snapshot_id"], id.as_str(), "{reference}");
    }
    let ambiguous = env.run(&["show", "cp_", "--json"]).exits(14);
    assert_eq!(ambiguous.reason(), "checkpoint_ref_ambiguous");
    assert!(ambiguous.stderr.contains("matches 2 checkpoints"), "{ambiguous:#?}");
    assert_eq!(env.run(&["show", "latest~2", "--json"]).exits(14).reason(), "checkpoint_not_found");
    assert_eq!(env.run(&["show", "r@9", "--json"]).exits(14).reason(), "checkpoint_not_found");
    assert_eq!(env.run(&["show", "x@1", "--json"]).exits(14).reason(), "run_not_found");
}

#[test]
fn lists_are_filtered_and_limited() {
    let env = TestEnvironment::new();
    for n in 0..25 {
        env.save(&[
            "--run",
            "r",
            "--summary",
            &n.to_string(),
            "--source",
            if n % 5 == 0 { "timer" } else { "manual" },
        ]);
    }
    let count = |args: &[&str]| {
        let args: Vec<_> = std::iter::once("list").chain(args.iter().copied()).collect();
        env.json(&args)["checkpoints"].as_array().unwrap().len()
    };
    assert_eq!(count(&[]), 20);
    assert_eq!(count(&["--limit", "0"]), 25);
    assert_eq!(count(&["--limit", "3"]), 3);
    assert_eq!(count(&["--source", "timer"]), 5);
    assert_eq!(count(&["--status", "failed"]), 0);
    env.run(&["complete", "r@10"]).exits(0);
    assert_eq!(count(&["--completed", "--limit", "0"]), 10);
    assert_eq!(count(&["--incomplete", "--limit", "0"]), 15);
    assert_eq!(env.run(&["list", "--source", "x", "--json"]).exits(2).reason(), "checkpoint_schema_invalid");
    let sequences: Vec<_> = env.json(&["list"])["checkpoints"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c["sequence"].as_u64().unwrap())
        .collect();
    assert!(sequences.is_sorted_by(|a, b| a > b), "newest first");
}

#[test]
fn runs_are_filtered_by_age_and_status() {
    let env = TestEnvironment::new();
    env.save(&["--run", "a"]);
    env.save(&["--run", "b", "--status", "failed"]);
    let count = |args: &[&str]| {
        let args: Vec<_> = std::iter::once("runs").chain(args.iter().copied()).collect();
        env.json(&args)["runs"].as_array().unwrap().len()
    };
    assert_eq!((count(&[]), count(&["--since", "1h"]), count(&["--since", "0s"])), (2, 2, 0));
    assert_eq!((count(&["--status", "failed"]), count(&["--limit", "1"])), (1, 1));
    env.run(&["runs", "--since", "yesterday"]).exits(2);
    env.run(&["runs", "nope"]).exits(14);
    assert_eq!(env.run(&["runs", "--status", "x", "--json"]).exits(2).reason(), "checkpoint_schema_invalid");
}

#[test]
fn events_are_listed_in_order() {
    let env = TestEnvironment::new();
    env.save(&["--run", "r", "--summary", "1"]);
    let first = env.json(&["events"]);
    let kinds: Vec<_> =
        first["events"].as_array().unwrap().iter().map(|e| e["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["run_started", "session_started", "checkpoint_created"]);
    // A number or a string, depending on the kind of store.
    let position = first["position"].to_string().replace('"', "");
    env.save(&["--run", "r", "--status", "completed"]);
    let after = env.json(&["events", "--after", &position]);
    assert_eq!(after["events"].as_array().unwrap().len(), 2, "{after}");
    assert_eq!(env.json(&["events", "--limit", "1"])["events"][0]["type"], "run_finished");
    assert_eq!(env.run(&["events"]).exits(0).stdout.lines().count(), 5);
}

#[test]
fn a_checkpoint_event_includes_its_phase() {
    let env = TestEnvironment::new();
    env.save(&["--run", "p", "--profile", "pai", "--phase-number", "4"]);
    let event = env.json(&["events", "--limit", "1"])["events"][0].clone();
    assert_eq!(
        (&event["data"]["phase"], &event["data"]["phase_number"]),
        (&"BUILD".into(), &4.into()),
        "{event}"
    );
    // An export to pai writes the name and number to its events as well.
    env.run(&["export", "pai", "p", "out"]).exits(0);
    let files = std::fs::read_dir(env.project().join("out/events")).unwrap();
    let text: String = files.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap()).collect();
    let line: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert_eq!(
        (&line["data"]["phase"], &line["data"]["phaseNumber"]),
        (&"BUILD".into(), &4.into()),
        "{line}"
    );
}

#[test]
fn following_events_ends_when_its_reader_exits() {
    let env = TestEnvironment::new();
    env.save(&["--run", "r"]);
    let mut child = env
        .command(&["events", "--follow", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    for _ in 0..3 {
        lines.next().unwrap().unwrap();
    }
    env.save(&["--run", "r", "--summary", "new"]);
    let line: serde_json::Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!(line["type"], "checkpoint_created");
    drop(lines);
    env.save(&["--run", "r", "--summary", "newer"]);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(said, "");
}

#[test]
fn a_closed_pipe_is_not_an_error() {
    let env = TestEnvironment::new();
    let state = format!("{{\"state\":\"{}\"}}", "x".repeat(200_000));
    env.run_on(state.as_bytes(), &["save", "--input", "-"]).exits(0);
    for args in [&["show", "--json"][..], &["state"], &["schema"], &["man"], &["completions", "bash"]] {
        let mut child = env.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{args:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{args:?}");
    }
}

#[test]
fn colours_follow_the_flag_and_the_environment() {
    let env = TestEnvironment::new();
    env.save(&["--status", "failed"]);
    assert!(!env.run(&["list"]).stdout.contains('\x1b'));
    assert!(env.run(&["list", "--color", "always"]).stdout.contains('\x1b'));
    assert!(env.run(&["show", "--color=always"]).stdout.contains('\x1b'));
    assert!(!env.run_with(&[("CLICOLOR_FORCE", "1")], &["show", "--color", "never"]).stdout.contains('\x1b'));
    assert!(env.run_with(&[("CLICOLOR_FORCE", "1")], &["show"]).stdout.contains('\x1b'));
    assert!(!env.run_with(&[("NO_COLOR", "1")], &["show"]).stdout.contains('\x1b'));
}

#[test]
fn nobody_is_told_to_save_for_an_agent_at_work_or_to_set_up_one_that_is_not_here() {
    let mut env = TestEnvironment::new();
    let mut worker = env.program("sleep").arg("60").spawn().unwrap();
    env.run(&["start", "--run", "work", "--owner-pid", &worker.id().to_string()]).exits(0);
    let status = env.json(&["status"]);
    assert_eq!(
        (&status["live"][0]["run_id"], &status["next"]),
        (&"work".into(), &"milepost runs work".into())
    );
    worker.kill().unwrap();
    worker.wait().unwrap();
    env.set("PATH", "/usr/bin:/bin");
    let page = env.run(&["agents", "status"]).exits(0).stdout;
    assert!(page.ends_with("Next: milepost status\n"), "{page}");
}
