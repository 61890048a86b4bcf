//! `state`: prints the saved bytes exactly, and writes them to a file only under certain conditions.

use crate::{TestEnvironment, server};

const STATE: &str = r#"{"z":9007199254740993,"a":1.0,"m":-0.0,"e":"\u00e9\/é","n":[1e2,1E+2, 123456789012345678901],"":null}"#;

fn with_state(state: &str) -> TestEnvironment {
    let env = TestEnvironment::new();
    env.run_on(format!("{{\"state\": {state} }}").as_bytes(), &["save", "--run", "r", "--input", "-"])
        .exits(0);
    env
}

#[test]
fn a_state_is_returned_byte_for_byte() {
    let env = with_state(STATE);
    assert_eq!(env.run(&["state"]).exits(0).stdout, STATE);
    assert_eq!(env.run(&["state", "r@1", "--to", "out.json"]).exits(0).stdout, "");
    assert_eq!(std::fs::read_to_string(env.project().join("out.json")).unwrap(), STATE);
    for command in ["state", "show"] {
        let ran = env.run(&[command, "--json"]).exits(0);
        assert!(ran.stdout.contains(STATE), "{ran:#?}");
    }
}

#[test]
fn a_checkpoint_without_a_state_returns_the_previous_one() {
    let env = with_state("[1]");
    env.save(&["--run", "r", "--summary", "later"]);
    assert_eq!(env.run(&["state"]).exits(0).stdout, "[1]");
    let found = env.json(&["state", "r@2"]);
    assert_eq!(found["sequence"], 1);
    assert_eq!(found["run_id"], "r");
    env.save(&["--run", "empty"]);
    env.run(&["state", "--run", "empty"]).exits(4);
    env.run(&["state", "--run", "nope"]).exits(14);
}

#[test]
fn overwriting_a_file_needs_force_and_keeps_a_backup() {
    let env = with_state("[1]");
    let file = env.write("out.json", "precious");
    let ran = env.run(&["state", "--to", "out.json", "--json"]).exits(15);
    assert_eq!(ran.reason(), "restore_refused");
    assert!(ran.stderr.contains("--force"));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "precious");
    let done = env.json(&["state", "--to", "out.json", "--force"]);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "[1]");
    assert_eq!(std::fs::read_to_string(done["kept"].as_str().unwrap()).unwrap(), "precious");
    env.run(&["state", "--to", "out.json"]).exits(0);
}

#[test]
fn writing_another_runs_state_needs_a_flag() {
    let env = with_state("[1]");
    let args = ["state", "r@1", "--to", "out.json", "--run", "other", "--json"];
    env.run(&args).exits(14);
    env.save(&["--run", "other"]);
    assert_eq!(env.run(&args).exits(15).reason(), "restore_refused");
    assert!(!env.project().join("out.json").exists());
    let allowed: Vec<_> = args.into_iter().chain(["--allow-run-mismatch"]).collect();
    env.run(&allowed).exits(0);
}

#[test]
fn a_redacted_state_lists_the_redacted_members() {
    let env = TestEnvironment::new();
    let input = br#"{"state":{"key":"[redacted]"},"redacted":{"counts":{"token":1},"pointers":["/state/key","/brief"]}}"#;
    env.run_on(input, &["save", "--input", "-"]).exits(0);
    let ran = env.run(&["state", "--json"]).exits(3);
    assert_eq!(ran.reason(), "state_redacted");
    assert_eq!(ran.json()["redacted"], serde_json::json!(["/state/key"]));
    let ran = env.run(&["state"]).exits(3);
    assert_eq!(ran.stdout, r#"{"key":"[redacted]"}"#);
    assert!(ran.stderr.contains("/state/key"));
}

#[test]
fn json_with_line_breaks_is_preserved_in_every_store() {
    for store in server::with_server_store(["files:store", "sqlite:store.db"]) {
        let store = store.as_str();
        let env = TestEnvironment::new();
        let input =
            b"{\"tasks\": [{\n \"id\": \"t1\",\r\n \"status\": \"done\",\n \"x\": {\n\"a\": 1}}],\n\"state\": [\n1]}";
        env.run_on(input, &["--store", store, "save", "--run", "r", "--input", "-"]).exits(0);
        env.run(&["--store", store, "verify"]).exits(0);
        // One document that keeps the line breaks of the input.
        let run = env.run(&["--store", store, "runs", "r", "--json"]).exits(0).stdout;
        let run: serde_json::Value = serde_json::from_str(&run).unwrap();
        assert_eq!(run["runs"][0]["tasks"][0]["x"]["a"], 1, "{run}");
        assert_eq!(env.run(&["--store", store, "state"]).exits(0).stdout, "[\n1]");
    }
}
