//! `summary --svg` and `summary --html`: valid and bounded files, hostile text, secrets, and files that must not be
//! replaced.

use std::process::Command;

use serde_json::json;

use crate::TestEnvironment;

/// Text that tries to leave the place where it is shown.
const HOSTILE: &str =
    "</svg><script>alert(1)</script>]]>\"'><img src=x onerror=alert(1)>&lt;\u{202e}\u{1b}[2J\u{ffff}";

fn read(env: &TestEnvironment, name: &str) -> String {
    std::fs::read_to_string(env.project().join(name)).unwrap()
}

/// Parses a file as XML with a strict parser.
fn check_xml(env: &TestEnvironment, name: &str) {
    let parse = "import sys, xml.etree.ElementTree as t; t.parse(sys.argv[1])";
    let parsed = Command::new("python3").args(["-c", parse]).arg(env.project().join(name)).output().unwrap();
    assert!(parsed.status.success(), "{}", String::from_utf8_lossy(&parsed.stderr));
}

#[test]
fn a_run_becomes_a_file() {
    let env = TestEnvironment::new();
    env.run(&["save", "--run", "r", "--no-capture", "lexer done"]).exits(0);
    env.run(&["decide", "--run", "r", "Keep the old format"]).exits(0);
    let written = env.json(&["summary", "r", "--svg", "t.svg"]);
    assert_eq!((&written["schema"], &written["format"]), (&json!("milepost.summary_file/1"), &json!("svg")));
    assert_eq!((&written["path"], &written["redacted"]), (&json!("t.svg"), &json!(0)));
    let svg = read(&env, "t.svg");
    assert_eq!(written["bytes"], json!(svg.len()));
    assert!(svg.starts_with("<svg ") && svg.contains("checkpoint 1, manual: lexer done"), "{svg}");
    check_xml(&env, "t.svg");
    let wrote = env.run(&["summary", "r", "--html", "t.html"]).exits(0);
    assert!(wrote.stderr.contains("Wrote the report of r to t.html"), "{}", wrote.stderr);
    let html = read(&env, "t.html");
    for expected in [
        "<!DOCTYPE html>",
        "Content-Security-Policy",
        "Keep the old format",
        "lexer done",
        "class=\"mp-timeline\"",
    ] {
        assert!(html.contains(expected), "{expected}");
    }
    for forbidden in ["<script", "http://", "https://", "style=\"", " src="] {
        assert!(!html.replace("http://www.w3.org/2000/svg", "").contains(forbidden), "{forbidden}");
    }
    let printed = env.run(&["summary", "r", "--svg", "-"]).exits(0).stdout;
    assert_eq!(printed, svg, "the same input gives the same bytes");
    env.run(&["summary", "r", "--svg", "a", "--html", "b"]).exits(2);
    env.run(&["summary", "missing", "--svg", "a.svg"]).exits(14);
}

#[test]
fn a_run_without_checkpoints_becomes_a_file() {
    let env = TestEnvironment::new();
    env.run(&["start", "--run", "r"]).exits(0);
    env.run(&["summary", "r", "--svg", "t.svg"]).exits(0);
    env.run(&["summary", "r", "--html", "t.html"]).exits(0);
    check_xml(&env, "t.svg");
}

#[test]
fn hostile_text_stays_text() {
    let env = TestEnvironment::new();
    let hostile = HOSTILE.replace('\u{ffff}', "");
    let long = "x".repeat(200_000);
    let document = json!({
        "session_id": "a<b>&\"",
        "task_summary": hostile,
        "phase": { "name": hostile },
        "tasks": [{ "id": hostile, "status": hostile, "title": format!("{hostile}{long}") }],
        "command_outcomes": [
            { "kind": "shell", "name": format!("{hostile}{}", "y".repeat(1000)), "result": "FAIL", "reason_code": hostile },
        ],
        "workspace": { "files_modified": [HOSTILE, { "b64": hostile }] },
    });
    env.run_on(document.to_string().as_bytes(), &["save", "--run", "r", "--input", "-", "--tag", "<i>"])
        .exits(0);
    env.run(&["decide", "--run", "r", &hostile]).exits(0);
    for format in ["--svg", "--html"] {
        env.run(&["summary", "r", format, "t.xml"]).exits(0);
        let text = read(&env, "t.xml");
        for forbidden in ["<script", "<img", "<i>", "\u{202e}", "\u{1b}", "\u{ffff}", "]]>"] {
            assert!(!text.contains(forbidden), "{format} {forbidden:?}");
        }
        assert!(text.contains("&lt;script&gt;"), "{format}: it is visible");
        assert_eq!(text.matches("</svg>").count(), 1, "{format}");
        assert!(text.len() < 200_000, "{format}: {}", text.len());
        if format == "--svg" {
            check_xml(&env, "t.xml");
        }
    }
}

#[test]
fn secrets_are_replaced_even_if_redaction_is_off() {
    let env = TestEnvironment::new();
    env.write("milepost.toml", "[redaction]\nenabled = false\n");
    let secret = "ghp_16C7e42F292c6912E7710c838347Ae178B4a";
    env.run_with(
        &[("MILEPOST_REDACT", "off")],
        &["save", "--run", "r", "--no-redact", "--no-capture", &format!("push with {secret}")],
    )
    .exits(0);
    env.run(&["decide", "--run", "r", "--no-redact", &format!("use {secret}")]);
    for format in ["--svg", "--html"] {
        let written = env.json(&["summary", "r", format, "t"]);
        assert!(!read(&env, "t").contains(secret), "{format}");
        assert!(written["redacted"].as_u64().unwrap() > 0, "{format}: {written}");
    }
    let wrote = env.run(&["summary", "r", "--svg", "t"]).exits(0);
    assert!(wrote.stderr.contains("that looked like a secret"), "{}", wrote.stderr);
}

#[test]
fn other_files_are_not_replaced() {
    let env = TestEnvironment::new();
    env.run(&["save", "--run", "r", "--no-capture", "x"]).exits(0);
    env.write("notes.txt", "mine");
    let refused = env.run(&["summary", "r", "--html", "notes.txt"]).exits(15);
    assert!(
        refused.stderr.contains("already exists") && refused.stderr.contains("--yes"),
        "{}",
        refused.stderr
    );
    assert_eq!(read(&env, "notes.txt"), "mine");
    env.run(&["summary", "r", "--html", "notes.txt", "--yes"]).exits(0);
    env.run(&["summary", "r", "--svg", "notes.txt"]).exits(0);
    assert!(read(&env, "notes.txt").starts_with("<svg "), "its own files are replaced");
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("notes.txt", env.project().join("link.svg")).unwrap();
        let refused = env.run(&["summary", "r", "--svg", "link.svg"]).exits(2);
        assert!(refused.stderr.contains("symbolic link"), "{}", refused.stderr);
    }
}
