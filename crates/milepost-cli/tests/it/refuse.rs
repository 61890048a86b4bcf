//! Invalid ids, values and inputs are refused, and nothing is written.

use crate::TestEnvironment;

/// Asserts that no store was created.
fn untouched(env: &TestEnvironment) {
    assert!(!env.project().join(".milepost").exists(), "something was written");
}

#[test]
fn ids_that_could_escape_their_folder_are_refused() {
    let env = TestEnvironment::new();
    let long = "a".repeat(300);
    for id in ["../../x", "/etc/x", "a/b", "..", "", "a\nb", &long, "trailing."] {
        for command in ["save", "start", "finish", "list", "verify"] {
            let ran = env.run(&[command, "--json", &format!("--run={id}")]).exits(2);
            assert_eq!(ran.reason(), "checkpoint_id_invalid", "{command} {id:?}");
            assert_eq!(ran.stdout, "");
        }
    }
    untouched(&env);
    env.save(&[]);
    for id in ["../../x", "/etc/x", "a/b", "..", "", "a\nb", &long, "trailing."] {
        for command in ["show", "state", "complete", "delete", "runs"] {
            let ran = env.run(&[command, "--json", "--yes", id]).exits(2);
            assert_eq!(ran.reason(), "checkpoint_id_invalid", "{command} {id:?}");
        }
    }
}

#[test]
fn an_empty_variable_counts_as_unset_and_an_empty_flag_is_refused() {
    let env = TestEnvironment::new();
    env.run_with(&[("MILEPOST_RUN", ""), ("MILEPOST_STORE", "")], &["save"]).exits(0);
    assert_eq!(env.run(&["save", "--run", "", "--json"]).exits(2).reason(), "checkpoint_id_invalid");
}

#[test]
fn wrong_flag_values_are_refused_with_the_allowed_ones() {
    let env = TestEnvironment::new();
    for (args, place, word) in [
        (vec!["--source", "banana"], "/source", "step_boundary"),
        (vec!["--status", "banana"], "/status", "in_progress"),
        (vec!["--profile", "banana"], "/profile", "pai"),
        (vec!["--phase-number", "-3"], "/phase/number", "0 or more"),
        (vec!["--phase-number", "1.5"], "/phase/number", "0 or more"),
        (vec!["--profile", "pai", "--phase-number", "8"], "/phase/number", "OBSERVE"),
    ] {
        let args: Vec<_> = ["save", "--json"].into_iter().chain(args).collect();
        let ran = env.run(&args);
        assert_eq!(ran.reason(), "checkpoint_schema_invalid", "{args:?}");
        assert!(ran.code == 1 || ran.code == 2);
        assert!(ran.stderr.contains(place) && ran.stderr.contains(word), "{ran:#?}");
    }
    untouched(&env);
}

#[test]
fn inputs_that_are_not_checkpoints_are_refused() {
    let env = TestEnvironment::new();
    let deep = format!("{{\"state\":{}{}}}", "[".repeat(10_000), "]".repeat(10_000));
    let large = format!("{{\"state\":\"{}\"}}", "x".repeat(50_000_000));
    let endless = vec![b' '; (64 << 20) + 10];
    let cases: [(&[u8], &str); 14] = [
        (b"{\"state\": NaN}", "/state"),
        (b"{\"state\": 1e999}", "/state"),
        (deep.as_bytes(), "100"),
        (large.as_bytes(), "/state"),
        (&endless, "67108864"),
        (b"{\"state\":{\"a\":1,\"a\":2}}", "/state/a"),
        (b"{\"task_summary\":\"\xff\"}", "UTF-8"),
        (b"no json at all", "not JSON"),
        (b"", "ends too early"),
        (b"[1]", "expected an object"),
        (b"{\"sequence\":7}", "/sequence"),
        (b"{\"snapshot_id\":\"mine\"}", "/snapshot_id"),
        (b"{\"phase\":{\"number\":-1}}", "/phase/number"),
        (
            b"{\"command_outcomes\":[{\"kind\":\"shell\",\"name\":\"a\",\"result\":\"x\"}]}",
            "/command_outcomes/0/result",
        ),
    ];
    for (input, place) in cases {
        let ran = env.run_on(input, &["save", "--input", "-", "--json"]).exits(1);
        assert_eq!(ran.reason(), "checkpoint_schema_invalid", "{place}");
        assert!(ran.stderr.contains(place), "{place}: {ran:#?}");
    }
    untouched(&env);
}

#[test]
fn missing_files_and_files_that_are_not_text_are_refused() {
    let env = TestEnvironment::new();
    env.run(&["save", "--input", "nowhere.json"]).exits(2);
    env.write("b.md", b"\xff");
    let ran = env.run(&["save", "--brief", "b.md", "--json"]).exits(1);
    assert_eq!(ran.reason(), "checkpoint_schema_invalid");
    untouched(&env);
}

#[test]
fn unknown_arguments_are_refused() {
    let env = TestEnvironment::new();
    let ran = env.run(&["--json", "frobnicate"]).exits(2);
    assert_eq!(ran.reason(), "usage");
    assert_eq!(env.run(&["save", "--bogus", "--json"]).exits(2).reason(), "usage");
    assert_eq!(env.run(&["list", "--limit", "many", "--json"]).exits(2).reason(), "usage");
    assert_eq!(env.run(&["save", "--store", "gopher://x", "--json"]).exits(2).reason(), "usage");
    assert_eq!(env.run(&["save", "--wait", "-1", "--json"]).exits(2).reason(), "usage");
    assert!(env.run(&["frobnicate"]).exits(2).stderr.contains("frobnicate"));
    untouched(&env);
}

#[cfg(unix)]
#[test]
fn arguments_that_are_not_utf_8_are_refused() {
    use std::os::unix::ffi::OsStrExt;
    let env = TestEnvironment::new();
    let output =
        env.command(&["save", "--summary"]).arg(std::ffi::OsStr::from_bytes(b"a\xff")).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("UTF-8"));
    let mut command = env.command(&["save"]);
    let output = command.env("MILEPOST_RUN", std::ffi::OsStr::from_bytes(b"a\xff")).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("MILEPOST_RUN"));
    untouched(&env);
}

#[test]
fn error_messages_state_the_problem_the_cause_and_a_hint() {
    let env = TestEnvironment::new();
    let ran = env.run(&["save", "--source", "banana"]).exits(2);
    insta::assert_snapshot!(ran.stderr, @r#"
    Error: --source is not valid (checkpoint_schema_invalid)
    Caused by: /source: "banana" is not one of step_boundary, error_boundary, timer, manual
    Hint: `milepost help COMMAND` lists what each argument accepts
    "#);
    let ran = env.run(&["list"]).exits(10);
    insta::assert_snapshot!(env.plain(&ran.stderr), @"
    Error: no store at [ROOT]/project/.milepost/milepost.db (store_missing)
    Hint: run `milepost init` to create one; the first `milepost save` also creates it
    ");
}
