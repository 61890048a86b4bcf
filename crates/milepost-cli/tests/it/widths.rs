//! The output of every listing command fits 80, 120 and 200 columns with long names, CJK text and emoji.

use unicode_width::UnicodeWidthStr as _;

use crate::TestEnvironment;

const LONG_RUN: &str = "nightly-integration-build-for-the-payments-service";
const LONG_SUMMARY: &str =
    "Compile all services, run the integration suite against postgres 16 and publish the coverage report";
const CJK: &str = "検索インデックスを再構築して、テストを実行する。失敗したら夜間ビルドを止める";
const EMOJI: &str =
    "🚀 release train: bump versions, tag, publish, announce 🎉 and clean up the branches 👩\u{200d}💻";

/// A project with runs as people have them.
fn populated() -> TestEnvironment {
    let env = TestEnvironment::new();
    let marks = ["--phase", "BUILD", "--phase-number", "4", "--tag", "before-refactoring", "--pin"];
    env.save(&[&["--run", LONG_RUN, "--summary", LONG_SUMMARY][..], &marks].concat());
    env.save(&["--run", LONG_RUN, "--summary", CJK]);
    env.save(&["--run", LONG_RUN, "--summary", EMOJI]);
    env.save(&["--run", "yakan", "--summary", CJK, "--source", "error_boundary", "--status", "failed"]);
    env.save(&["--run", "release", "--summary", EMOJI]);
    env.save(&["--summary", "a run without a name"]);
    env
}

/// Runs a command with this number of columns, and checks that no line is wider.
fn fitted(env: &TestEnvironment, columns: usize, args: &[&str]) -> String {
    let output = env.command(args).env("COLUMNS", columns.to_string()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    for line in text.lines() {
        assert!(line.width() <= columns, "{args:?} at {columns}: {} wide: {line}", line.width());
    }
    env.plain(&text)
}

#[test]
fn every_listing_fits_the_terminal() {
    let env = populated();
    for columns in [80, 120, 200] {
        for args in [
            &[][..],
            &["list"],
            &["list", "--tree"],
            &["runs"],
            &["runs", LONG_RUN],
            &["show", LONG_RUN],
            &["diff", "nightly@1", "yakan@1"],
            &["prune", "--dry-run", "--keep-last", "1"],
            &["prune", "--dry-run", "--keep-last", "1", "-v"],
            &["summary", LONG_RUN],
            &["agents", "status"],
            &["events"],
        ] {
            let text = fitted(&env, columns, args);
            assert!(!text.is_empty(), "{args:?} printed nothing");
        }
    }
}

#[test]
fn one_line_per_entry_at_80_columns() {
    let env = populated();
    insta::assert_snapshot!(fitted(&env, 80, &["list"]), @"
    ID RUN SAVED STATUS MARKS SUMMARY
    ID ID@1 AGO in_progress a run without a name
    ID release@1 AGO in_progress 🚀 release train: bu…
    ID yakan@1 AGO failed 検索インデックスを再…
    ID nightly-i…@3 AGO in_progress 🚀 release train: bu…
    ID nightly-i…@2 AGO in_progress 検索インデックスを再…
    ID nightly-i…@1 AGO in_progress pinned #b… Compile all services…
    ");
    insta::assert_snapshot!(fitted(&env, 80, &["runs"]), @"
       RUN STATUS WRITTEN SAVES WHERE
    * ID in_progress AGO 1 here
    * release in_progress AGO 1 here
    * yakan failed AGO 1 here
    * nightly-integration-build-for-the-payme… in_progress AGO 3 here
    ");
    let status = fitted(&env, 80, &[]);
    insta::assert_snapshot!(status.split_once('\n').unwrap().1, @"

    RUN STATE WHY SAVED ABOUT
    yakan failed tool_failure AGO 検索インデックスを再構築…
    ID open AGO a run without a name
    release open AGO 🚀 release train: bump ve…
    nightly-integration… open AGO 🚀 release train: bump ve…

    Next: milepost resume
    ");
    insta::assert_snapshot!(fitted(&env, 80, &["prune", "--dry-run", "--keep-last", "1"]), @"
    ID RUN SAVED SIZE ACTION WHY
    ID nightly-integration-b…@2 AGO 1.8 KiB remove beyond the last 1

    1 checkpoint would be removed, 5 kept. About 1.8 KiB would be freed.
    ");
    insta::assert_snapshot!(fitted(&env, 80, &["diff", "nightly@1", "yakan@1"]), @r#"
    from ID nightly-integration-build-for-the-payments-servi…@1 AGO
    to ID yakan@1 AGO

    Status
      ~ /status "in_progress" → "failed"
      - /phase/name "BUILD"
      - /phase/number 4
      ~ /task_summary
          - "Compile all services, run the integration suite against postgr… (101 B)
          + "検索インデックスを再構築して、テストを実行する。失敗したら夜間… (116 B)

    In full: milepost diff -v ID ID
    "#);
}

/// A repository with a run that failed, whose texts are long.
fn failed_run() -> TestEnvironment {
    let env = TestEnvironment::repository();
    env.run(&["start", "--run", LONG_RUN, "--title", EMOJI]).exits(0);
    for (id, status, title) in
        [("t1", "in_progress", CJK), ("t2", "pending", EMOJI), ("t3", "pending", LONG_SUMMARY)]
    {
        env.run(&["task", "set", id, status, "--title", title, "--run", LONG_RUN]).exits(0);
    }
    let command = "cargo test --workspace --all-features --test integration -- --include-ignored";
    let output =
        "test payments::refunds::a_refund_of_a_refund_is_refused_and_the_customer_is_told ... FAILED";
    let failed = ["--kind", "shell", "--name", command, "--result", "FAIL", "--duration-ms", "5200"];
    let why = ["--reason-code", "exit_101", "--summary", output, "--run", LONG_RUN];
    env.run(&[&["record"][..], &failed, &why].concat()).exits(0);
    env.save(&["--run", LONG_RUN, "--status", "failed", "--summary", LONG_SUMMARY]);
    // An agent that could continue the run.
    std::fs::create_dir(env.path("home/bin")).unwrap();
    let agent = env.write("../home/bin/claude", "");
    std::fs::set_permissions(&agent, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    env
}

/// The page that `resume` shows above the brief on a terminal of this width. Checks that no line is wider.
fn resume_page(env: &TestEnvironment, columns: usize) -> Option<String> {
    let shown = crate::terminal::shown_at_width(env, columns, &format!("resume {LONG_RUN}"))?;
    let (page, _brief) = shown.split_once("\n---\n").unwrap_or_else(|| panic!("{shown}"));
    for line in page.lines() {
        assert!(line.width() <= columns, "{columns} columns: {} wide: {line}", line.width());
    }
    let page = env.plain(page);
    let is_stable = |line: &&str| !line.starts_with("Ran for");
    Some(page.lines().filter(is_stable).collect::<Vec<_>>().join("\n"))
}

#[test]
fn the_page_of_resume_fits_the_terminal() {
    let env = failed_run();
    let Some(narrow) = resume_page(&env, 80) else { return };
    insta::assert_snapshot!(narrow, @r#"
    🚀 release train: bump versions, tag, publish, announce 🎉 and clean up the
    branches 👩‍💻
    can be resumed

    Run nightly-integration-build-for-the-payments-service
    Doing 検索インデックスを再構築して、テストを実行する。失敗したら夜間ビルド
                を止める
    Stopped AGO: a command failed and stopped it
    Folder [ROOT]/project
    Uncommitted nothing
    Branch main, unchanged
    Failed last cargo test --workspace --all-features --test integration --
                --include-ignored (exit_101), output: "test
                payments::refunds::a_refund_of_a_refund_is_refused_and_the_customer_
                is_told ... FAILED"
    Next 1. 検索インデックスを再構築して、テストを実行する。失敗したら夜間ビ
                   ルドを止める
                2. 🚀 release train: bump versions, tag, publish, announce 🎉 and
                   clean up the branches 👩‍💻
                3. Compile all services, run the integration suite against postgres
                   16 and publish the coverage report

    milepost resume nightly-integration-build-for-the-payments-service \
        --with claude-code
      start an agent with this brief
    milepost resume nightly-integration-build-for-the-payments-service --dismiss
      stop offering this run
    "#);
    insta::assert_snapshot!(resume_page(&env, 120).unwrap(), @r#"
    🚀 release train: bump versions, tag, publish, announce 🎉 and clean up the branches 👩‍💻 can be resumed

    Run nightly-integration-build-for-the-payments-service
    Doing 検索インデックスを再構築して、テストを実行する。失敗したら夜間ビルドを止める
    Stopped AGO: a command failed and stopped it
    Folder [ROOT]/project
    Uncommitted nothing
    Branch main, unchanged
    Failed last cargo test --workspace --all-features --test integration -- --include-ignored (exit_101), output: "test
                payments::refunds::a_refund_of_a_refund_is_refused_and_the_customer_is_told ... FAILED"
    Next 1. 検索インデックスを再構築して、テストを実行する。失敗したら夜間ビルドを止める
                2. 🚀 release train: bump versions, tag, publish, announce 🎉 and clean up the branches 👩‍💻
                3. Compile all services, run the integration suite against postgres 16 and publish the coverage report

    milepost resume nightly-integration-build-for-the-payments-service --with claude-code start an agent with this brief
    milepost resume nightly-integration-build-for-the-payments-service --dismiss stop offering this run
    "#);
    insta::assert_snapshot!(resume_page(&env, 200).unwrap(), @r#"
    🚀 release train: bump versions, tag, publish, announce 🎉 and clean up the branches 👩‍💻 can be resumed

    Run nightly-integration-build-for-the-payments-service
    Doing 検索インデックスを再構築して、テストを実行する。失敗したら夜間ビルドを止める
    Stopped AGO: a command failed and stopped it
    Folder [ROOT]/project
    Uncommitted nothing
    Branch main, unchanged
    Failed last cargo test --workspace --all-features --test integration -- --include-ignored (exit_101), output: "test payments::refunds::a_refund_of_a_refund_is_refused_and_the_customer_is_told ...
                FAILED"
    Next 1. 検索インデックスを再構築して、テストを実行する。失敗したら夜間ビルドを止める
                2. 🚀 release train: bump versions, tag, publish, announce 🎉 and clean up the branches 👩‍💻
                3. Compile all services, run the integration suite against postgres 16 and publish the coverage report

    milepost resume nightly-integration-build-for-the-payments-service --with claude-code start an agent with this brief
    milepost resume nightly-integration-build-for-the-payments-service --dismiss stop offering this run
    "#);
    // The commands are shown on one line each, or broken where a shell continues the line.
    for columns in 60..80 {
        resume_page(&env, columns);
    }
}

#[test]
fn wide_terminals_show_more() {
    let env = populated();
    let wide = fitted(&env, 200, &["list"]);
    assert!(
        wide.contains("SOURCE") && wide.contains("MARKS") && wide.contains("#before-refactoring"),
        "{wide}"
    );
    let narrow = fitted(&env, 80, &["list"]);
    assert!(!narrow.contains("SOURCE") && narrow.contains('…'), "{narrow}");
    // A pipe is not truncated.
    let piped = env.run(&["list"]).exits(0).stdout;
    assert!(piped.contains(LONG_SUMMARY) && piped.contains(LONG_RUN), "{piped}");
}

#[test]
fn a_list_says_when_it_stops_at_its_limit() {
    let env = TestEnvironment::new();
    for n in 0..3 {
        env.save(&["--run", "r", "--summary", &n.to_string()]);
    }
    let all = env.run(&["list", "--limit", "3"]).exits(0);
    assert_eq!(all.stderr, "");
    let some = env.run(&["list", "--limit", "2"]).exits(0);
    assert!(some.stderr.contains("--limit 0"), "{some:#?}");
    assert_eq!(env.json(&["list", "--limit", "2"])["more"], true);
    assert_eq!(env.json(&["list"])["more"], false);
}

#[test]
fn runs_are_named_by_the_start_of_their_id() {
    let env = populated();
    assert_eq!(env.json(&["runs", "nightly"])["runs"][0]["run_id"], LONG_RUN);
    let unnamed = env.json(&["list", "--limit", "1"])["checkpoints"][0]["run_id"].clone();
    let short = &unnamed.as_str().unwrap()[21..];
    assert_eq!(env.json(&["summary", short])["run_id"], unnamed);
    // A save joins the run whose short id it is given; any other unknown name opens a run.
    let joined = env.run(&["save", "--run", short, "--summary", "x", "--json"]).exits(0).json();
    assert_eq!(joined["run_id"], unnamed);
    let started = env.run(&["start", "--run", short, "--json"]).exits(0).json();
    assert_eq!(started["run_id"], unnamed);
    env.run(&["run", "--rejoin", "--run", short, "--", "true"]).exits(0);
    assert_eq!(
        env.json(&["runs"])["runs"].as_array().unwrap().len(),
        4,
        "no run has the short id as its name"
    );
    // With the start of a run's name, `export` exports the whole run, and `state` writes the run's state.
    let exported = env.json(&["export", "bundle", "nightly-int", "--dry-run", "--yes"]);
    assert_eq!((&exported["run_id"], &exported["exported"]), (&LONG_RUN.into(), &3.into()));
    env.run_on(b"{\"state\": 1}", &["save", "--run", LONG_RUN, "--input", "-"]).exits(0);
    env.run(&["state", "--run", "nightly-int", "--to", "state.json"]).exits(0);
    let opened = env.run(&["save", "--run", "nightly", "--summary", "x", "--json"]).exits(0).json();
    assert_eq!(opened["run_id"], "nightly");
    let ambiguous = env.run(&["runs", "ni", "--json"]).exits(14);
    assert_eq!(ambiguous.reason(), "checkpoint_ref_ambiguous");
    assert!(ambiguous.stderr.contains("matches 2 runs: "), "{ambiguous:#?}");
}
