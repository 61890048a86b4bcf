//! Changed or invalid checkpoint documents: in a store, in a JSON Lines file and in a bundle.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;

use crate::TestEnvironment;

/// Adds a valid seal to a body.
fn sealed(env: &TestEnvironment, body: &str) -> String {
    let mut hash = env.program("sha256sum").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    write!(hash.stdin.take().unwrap(), "milepost checkpoint format 1\n{body}").unwrap();
    let sum = String::from_utf8(hash.wait_with_output().unwrap().stdout).unwrap();
    let body = body.strip_suffix('}').unwrap();
    format!(
        "{body},\"integrity\":{{\"algorithm\":\"sha256\",\"checksum\":\"{}\",\"format_version\":1}}}}",
        &sum[..64]
    )
}

/// Saves three checkpoints of a run and returns their lines in an export.
fn lines(env: &TestEnvironment) -> Vec<String> {
    for n in 1..=3 {
        env.save(&["--run", "r", "--summary", &format!("part {n}")]);
    }
    env.run(&["export", "jsonl", "r", "r.jsonl"]).exits(0);
    let text = std::fs::read_to_string(env.project().join("r.jsonl")).unwrap();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn invalid_lines_are_reported_and_the_others_are_imported() {
    let env = TestEnvironment::new();
    let good = lines(&env);
    let unsealed = "{}".to_owned();
    // The seal is valid, but the content is not a checkpoint.
    let other = sealed(&env, "{\"run_id\":\"r\",\"sequence\":7}");
    let changed = good[1].replacen("part 2", "part 9", 1);
    let all = [good[0].clone(), unsealed, other, changed, "no JSON".into(), good[2].clone()].join("\n");
    env.write("mixed.jsonl", all);
    for dry in [true, false] {
        let mut args = vec!["--store", "fresh.db", "import", "jsonl", "mixed.jsonl", "--json"];
        args.extend(dry.then_some("--dry-run"));
        let ran = env.run(&args).exits(3);
        let report = ran.json();
        assert_eq!(report["imported"], 2, "{report}");
        let skipped: Vec<_> = report["skipped"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| (one["path"].as_str().unwrap(), one["reason_code"].as_str().unwrap()))
            .collect();
        let invalid = "checkpoint_schema_invalid";
        let expected = [
            ("line 2", invalid),
            ("line 3", invalid),
            ("line 4", "checkpoint_integrity_mismatch"),
            ("line 5", invalid),
        ];
        assert_eq!(skipped, expected, "{report}");
        assert_eq!(ran.reason(), invalid);
    }
    let listed = env.json(&["--store", "fresh.db", "list"]);
    assert_eq!(listed["checkpoints"].as_array().unwrap().len(), 2);
    let ran = env.run(&["--store", "fresh.db", "import", "jsonl", "mixed.jsonl"]).exits(3);
    assert!(ran.stderr.contains("Skipped line 2: ") && ran.stderr.contains("4 lines skipped"), "{ran:#?}");
    // Importing nothing at all is a failure.
    env.write("bad.jsonl", "{}\n");
    env.run(&["--store", "fresh.db", "import", "jsonl", "bad.jsonl"]).exits(1);
}

#[test]
fn a_line_that_conflicts_with_the_store_does_not_stop_the_others() {
    let env = TestEnvironment::new();
    let good = lines(&env);
    let body: Value = serde_json::from_str(&good[1]).unwrap();
    let mut body = body.as_object().unwrap().clone();
    body.remove("integrity");
    body.insert("task_summary".into(), "another content".into());
    let other = sealed(&env, &Value::Object(body).to_string());
    env.write("twice.jsonl", [&good[0], &good[1], &other, &good[2], &good[2]].map(String::as_str).join("\n"));
    let ran = env.run(&["--store", "fresh.db", "import", "jsonl", "twice.jsonl", "--json"]).exits(3);
    let report = ran.json();
    assert_eq!((&report["imported"], &report["unchanged"]), (&3.into(), &1.into()), "{report}");
    assert_eq!(report["skipped"][0]["path"], "line 3");
    assert_eq!(report["skipped"][0]["reason_code"], "checkpoint_id_invalid");
}

#[test]
fn a_bundle_with_an_invalid_document_is_refused() {
    let env = TestEnvironment::new();
    lines(&env);
    env.run(&["export", "bundle", "r", "r.bundle"]).exits(0);
    let text = std::fs::read_to_string(env.project().join("r.bundle")).unwrap();
    for (document, reason) in [
        ("{}", "checkpoint_schema_invalid"),
        ("", "checkpoint_schema_invalid"),
        (&sealed(&env, "{\"a\":1}"), "checkpoint_schema_invalid"),
        (&lines_of(&text)[1].replacen("part 1", "part 8", 1), "checkpoint_integrity_mismatch"),
    ] {
        let mut changed: Vec<String> = text.lines().map(str::to_owned).collect();
        let mut line: Value = serde_json::from_str(&changed[1]).unwrap();
        line["checkpoint"]["document"] = document.into();
        changed[1] = line.to_string();
        env.write("bad.bundle", changed.join("\n"));
        let ran = env.run(&["--store", "fresh.db", "import", "bundle", "bad.bundle", "--json"]).exits(1);
        assert_eq!(ran.reason(), reason, "{document}");
    }
}

/// The document on each line of a bundle, or an empty string.
fn lines_of(bundle: &str) -> Vec<String> {
    let document = |line| -> Option<String> {
        let line: Value = serde_json::from_str(line).ok()?;
        Some(line["checkpoint"]["document"].as_str()?.to_owned())
    };
    bundle.lines().map(|line| document(line).unwrap_or_default()).collect()
}

/// The path of a checkpoint's document in a file store.
fn file_of(env: &TestEnvironment, id: &str) -> PathBuf {
    env.project().join("f/r/history").join(format!("{id}.json"))
}

fn put(path: &Path, bytes: &[u8]) {
    #[allow(clippy::disallowed_methods, reason = "a test's own file")]
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn a_stored_file_that_is_not_a_document_is_a_schema_error() {
    let mut env = TestEnvironment::new();
    env.set("MILEPOST_STORE", "files:f");
    env.save(&["--run", "r", "--summary", "one"]);
    let id = env.save(&["--run", "r", "--summary", "two"]);
    env.save(&["--run", "r", "--summary", "three"]);
    let file = file_of(&env, &id);
    let good = std::fs::read(&file).unwrap();
    let text = String::from_utf8(good.clone()).unwrap();
    let unsealed = text.split(",\"integrity\"").next().unwrap().to_owned() + "}";
    let invalid: [&[u8]; 6] =
        [b"{}", b"", &good[..good.len() / 2], b"\xff\xfe\xff", unsealed.as_bytes(), &good[..good.len() - 1]];
    for bytes in invalid {
        put(&file, bytes);
        let ran = env.run(&["show", &id, "--json"]).exits(5);
        assert_eq!(ran.reason(), "checkpoint_schema_invalid", "{}", String::from_utf8_lossy(bytes));
        let verified = env.run(&["verify", "--json"]).exits(5);
        assert_eq!(verified.reason(), "checkpoint_schema_invalid");
        assert_eq!(verified.json()["damaged"][0]["reason_code"], "checkpoint_schema_invalid");
    }
    // A changed byte anywhere, including the seal, is an integrity error.
    for at in [1, good.len() / 2, good.len() - 20, good.len() - 1] {
        let mut bytes = good.clone();
        bytes[at] ^= 0x80;
        put(&file, &bytes);
        assert_eq!(
            env.run(&["show", &id, "--json"]).exits(5).reason(),
            "checkpoint_integrity_mismatch",
            "{at}"
        );
    }
    put(&file, &good);
    env.run(&["verify"]).exits(0);
}

#[test]
fn a_changed_sqlite_row_fails_its_checksum_first() {
    let env = TestEnvironment::new();
    env.save(&["--run", "r", "--summary", "one"]);
    let id = env.save(&["--run", "r", "--summary", "two"]);
    let db = rusqlite::Connection::open(env.project().join(".milepost/milepost.db")).unwrap();
    assert_eq!(
        db.execute("UPDATE append_log SET body = x'0002000000000000007b7d' WHERE sequence = 2", []).unwrap(),
        1
    );
    drop(db);
    assert_eq!(env.run(&["show", &id, "--json"]).exits(5).reason(), "checkpoint_integrity_mismatch");
}
