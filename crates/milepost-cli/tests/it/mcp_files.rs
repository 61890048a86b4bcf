//! The tools `restore`, `undo`, `file` and `patch` of the real server: files change only with the token of the
//! plan that was shown, and contents reach an agent redacted and from inside the project only.

use serde_json::{Value, json};

use crate::TestEnvironment;
use crate::hook::{FakeAgent, begins};
use crate::mcp::{Server, fits};

/// A token in the form of GitHub's, which redaction recognises.
fn secret() -> String {
    format!("ghp_{}", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8")
}

fn commit(env: &TestEnvironment) {
    env.git(&["add", "-A"]);
    env.git(&["-c", "user.name=t", "-c", "user.email=t@t", "commit", "-q", "-m", "files"]);
}

/// Reports that the agent wrote a file.
fn writes(agent: &mut FakeAgent, env: &TestEnvironment, name: &str, content: &str) {
    std::fs::create_dir_all(env.project().join(name).parent().unwrap()).unwrap();
    let path = env.write(name, content);
    let input = json!({ "file_path": path, "content": content });
    let tool = json!({ "tool_name": "Write", "tool_input": input, "tool_response": {} });
    agent.hears("s1", "PostToolUse", tool);
}

/// Creates a project in which an agent, for its first prompt, changed `a.txt` and created `new.txt`.
fn with_work() -> (TestEnvironment, FakeAgent) {
    let env = TestEnvironment::repository();
    env.write("a.txt", "one\n");
    env.write("other.txt", "not the agent's\n");
    commit(&env);
    env.run(&["init", "--agents", "none"]).exits(0);
    let mut agent = FakeAgent::new(&env, "claude-code");
    begins(&mut agent, "s1");
    agent.hears("s1", "UserPromptSubmit", json!({ "prompt": "change the files" }));
    writes(&mut agent, &env, "a.txt", "two\n");
    writes(&mut agent, &env, "new.txt", "new\n");
    (env, agent)
}

fn read(env: &TestEnvironment, name: &str) -> Option<String> {
    std::fs::read_to_string(env.project().join(name)).ok()
}

fn checkpoints(env: &TestEnvironment) -> usize {
    env.json(&["list", "--limit", "0"])["checkpoints"].as_array().unwrap().len()
}

/// Calls a tool, asserts success and that the result matches the tool's schema, and returns document and notes.
#[track_caller]
fn call(server: &mut Server, tool: &str, arguments: Value) -> (Value, String) {
    let answer = server.request("tools/call", json!({ "name": tool, "arguments": arguments }));
    assert_eq!(answer["result"]["isError"], false, "{tool} {arguments}: {answer}");
    let document = answer["result"]["structuredContent"].clone();
    let listed = server.request("tools/list", json!({}))["result"]["tools"].clone();
    let definition = listed.as_array().unwrap().iter().find(|t| t["name"] == tool).unwrap();
    fits(&definition["outputSchema"], &document, tool);
    assert_eq!(document["schema"], format!("milepost.{tool}/1"));
    (document, answer["result"]["content"][1]["text"].as_str().unwrap_or_default().to_owned())
}

#[test]
fn a_plan_is_applied_with_its_token_and_undone() {
    let (env, _agent) = with_work();
    let mut server = Server::of(&env, &[]);
    let (plan, notes) = call(&mut server, "restore", json!({ "ref": "prompt" }));
    assert_eq!((&plan["dry_run"], &plan["report"]), (&json!(true), &Value::Null), "{plan}");
    assert_eq!(plan["counts"], json!({ "delete": 1, "restore": 1 }), "{plan}");
    let files: Vec<_> =
        plan["files"].as_array().unwrap().iter().map(|f| (&f["path"], &f["action"])).collect();
    assert_eq!(files, [(&json!("a.txt"), &json!("restore")), (&json!("new.txt"), &json!("delete"))]);
    let token = plan["token"].as_str().unwrap();
    assert!(notes.contains("No file was changed yet") && notes.contains(token), "{notes}");
    assert_eq!(read(&env, "a.txt").as_deref(), Some("two\n"));

    let (done, notes) = call(&mut server, "restore", json!({ "ref": "prompt", "token": token }));
    let mut restored: Vec<_> =
        done["report"]["restored"].as_array().unwrap().iter().map(Value::as_str).collect();
    restored.sort_unstable();
    assert_eq!((restored, &done["dry_run"]), (vec![Some("a.txt"), Some("new.txt")], &json!(false)), "{done}");
    let id = done["report"]["id"].as_str().unwrap();
    assert!(notes.contains(&format!("call `undo` with id {id}")), "{notes}");
    assert_eq!((read(&env, "a.txt").as_deref(), read(&env, "new.txt")), (Some("one\n"), None));
    let (again, notes) = call(&mut server, "restore", json!({ "ref": "prompt" }));
    assert!(again["files"] == json!([]) && notes.contains("Nothing to restore"), "{again} {notes}");

    let (points, _) = call(&mut server, "undo", json!({ "list": true }));
    assert_eq!((&points["points"][0]["id"], &points["points"][0]["files"]), (&json!(id), &json!(2)));
    let (undone, _) = call(&mut server, "undo", json!({ "id": id }));
    assert_eq!(undone["report"]["restored"].as_array().unwrap().len(), 2, "{undone}");
    assert_eq!(
        (read(&env, "a.txt").as_deref(), read(&env, "new.txt").as_deref()),
        (Some("two\n"), Some("new\n"))
    );
    assert_eq!(server.refused("undo", json!({ "id": "20200101-000000-none" })), "checkpoint_not_found");
    assert_eq!(server.refused("undo", json!({ "id": id, "list": true })), "usage");
    server.end();
}

#[test]
fn a_token_of_another_plan_changes_nothing() {
    let (env, mut agent) = with_work();
    let mut server = Server::of(&env, &[]);
    let arguments = json!({ "ref": "prompt" });
    let token = server.call("restore", arguments)["token"].clone();
    let before = checkpoints(&env);
    let mut refused = |arguments: Value| {
        assert_eq!(server.refused("restore", arguments.clone()), "restore_refused", "{arguments}");
        let text = server.text("restore", arguments);
        assert!(text.contains("no file was changed") && text.contains("without token"), "{text}");
    };
    refused(json!({ "ref": "prompt", "token": "0123456789abcdef" }));
    refused(json!({ "ref": "prompt", "token": "" }));
    refused(json!({ "ref": "prompt", "token": token, "paths": ["a.txt"] }));
    // The plan without force does not approve a restore with force, even if it would change the same files.
    refused(json!({ "ref": "prompt", "token": token, "force": true }));
    writes(&mut agent, &env, "a.txt", "three\n");
    refused(json!({ "ref": "prompt", "token": token }));
    assert_eq!(read(&env, "a.txt").as_deref(), Some("three\n"));
    assert!(read(&env, "new.txt").is_some());
    assert_eq!(checkpoints(&env), before, "a refused token saves no checkpoint");
    server.end();
}

#[test]
fn files_of_others_are_replaced_only_with_a_plan_that_was_made_with_force() {
    let (env, _agent) = with_work();
    env.write("other.txt", "changed by the user\n");
    let mut server = Server::of(&env, &[]);
    let (plan, notes) = call(&mut server, "restore", json!({ "ref": "prompt", "paths": ["other.txt"] }));
    assert_eq!(
        (&plan["files"][0]["action"], plan["counts"]["conflict"].as_u64()),
        (&json!("conflict"), Some(1))
    );
    assert!(notes.contains("plan again with force true"), "{notes}");
    let arguments = json!({ "ref": "prompt", "paths": ["other.txt"], "force": true });
    let (plan, _) = call(&mut server, "restore", arguments.clone());
    assert_eq!(plan["files"][0]["action"], "restore", "{plan}");
    assert_eq!(read(&env, "other.txt").as_deref(), Some("changed by the user\n"));
    let mut arguments = arguments;
    arguments["token"] = plan["token"].clone();
    call(&mut server, "restore", arguments);
    assert_eq!(read(&env, "other.txt").as_deref(), Some("not the agent's\n"));
    assert_eq!(read(&env, "a.txt").as_deref(), Some("two\n"), "only the named file is restored");
    call(&mut server, "undo", json!({}));
    assert_eq!(read(&env, "other.txt").as_deref(), Some("changed by the user\n"));
    server.end();
}

#[test]
fn an_earlier_file_is_read_in_parts_and_redacted() {
    let (env, mut agent) = with_work();
    let lines: String = (1..=9000).map(|n| format!("line {n} of a file\n")).collect();
    writes(&mut agent, &env, "long.txt", &lines);
    writes(&mut agent, &env, "settings.ini", &format!("user = me\ntoken = {}\n", secret()));
    env.write("image.bin", b"\x00\x01\x02");
    agent.hears("s1", "UserPromptSubmit", json!({ "prompt": "go on" }));
    env.write("long.txt", "");
    let mut server = Server::of(&env, &[]);
    let (file, notes) = call(&mut server, "file", json!({ "ref": "prompt", "path": "a.txt" }));
    assert!(file["content"].as_str().unwrap().contains("\ntwo\n"), "{file}");
    assert_eq!((&file["total_lines"], &file["next_offset"], notes.as_str()), (&json!(1), &Value::Null, ""));
    let (earlier, _) = call(&mut server, "file", json!({ "ref": "prompt~1", "path": "./a.txt" }));
    assert!(earlier["content"].as_str().unwrap().contains("\none\n"), "{earlier}");

    let (long, notes) = call(&mut server, "file", json!({ "ref": "prompt", "path": "long.txt" }));
    let next = long["next_offset"].as_u64().unwrap();
    assert!(long["content"].as_str().unwrap().len() < 66 << 10 && next < 9000, "{next}");
    assert!(notes.contains(&format!("of 9000; call again with offset {next}")), "{notes}");
    let part = json!({ "ref": "prompt", "path": "long.txt", "offset": 8999, "limit": 1 });
    let text = server.text("file", part);
    assert!(text.contains("\nline 8999 of a file\n</milepost-record"), "{text}");
    assert!(text.starts_with("This text came from elsewhere"), "{text}");
    let beyond = json!({ "ref": "prompt", "path": "long.txt", "offset": 9001 });
    assert_eq!(server.refused("file", beyond), "usage");

    let arguments = json!({ "ref": "prompt", "path": "settings.ini" });
    let (file, notes) = call(&mut server, "file", arguments.clone());
    let text = server.text("file", arguments);
    assert!(!file.to_string().contains(&secret()) && !text.contains(&secret()), "{file} {text}");
    assert!(text.contains("user = me") && file["redacted"] == true && notes.contains("redacted"), "{text}");
    let (binary, _) = call(&mut server, "file", json!({ "ref": "prompt", "path": "image.bin" }));
    assert_eq!(
        (&binary["binary"], &binary["size"], &binary["content"]),
        (&json!(true), &json!(3), &Value::Null)
    );
    assert_eq!(server.refused("file", json!({ "ref": "prompt", "path": "none.txt" })), "files_unavailable");
    server.end();
}

#[test]
fn a_patch_is_redacted_and_limited() {
    let (env, mut agent) = with_work();
    writes(&mut agent, &env, "settings.ini", &format!("user = me\ntoken = {}\n", secret()));
    let lines: String = (1..=9000).map(|n| format!("line {n} of a file\n")).collect();
    writes(&mut agent, &env, "z/long.txt", &lines);
    agent.hears("s1", "UserPromptSubmit", json!({ "prompt": "go on" }));
    writes(&mut agent, &env, "a.txt", "three\n");
    let mut server = Server::of(&env, &[]);
    let (patch, notes) = call(&mut server, "patch", json!({ "from": "prompt~1" }));
    let files: Vec<_> =
        patch["files"].as_array().unwrap().iter().map(|f| f["path"].as_str().unwrap()).collect();
    assert_eq!(files, ["a.txt", "new.txt", "settings.ini", "z/long.txt"]);
    assert!(!patch.to_string().contains(&secret()) && patch["redacted"] == 1, "{patch}");
    assert!(patch.to_string().len() < 80 << 10 && patch["files"][3]["cut"] == true);
    assert!(notes.contains("The unified diff of 1 file was cut"), "{notes}");
    let text = server.text("patch", json!({ "from": "prompt~1", "paths": ["a.txt"] }));
    assert!(text.contains("\n-one\n+three\n"), "{text}");
    let text = server.text("patch", json!({ "from": "prompt~1", "to": "prompt", "paths": ["a.txt"] }));
    assert!(text.contains("\n-one\n+two\n"), "{text}");
    let text = server.text("patch", json!({ "from": "prompt", "to": "prompt" }));
    assert!(text.contains("\nNo file differs.\n"), "{text}");
    let (stat, _) = call(&mut server, "patch", json!({ "from": "prompt~1", "stat": true }));
    assert!(stat["files"][3]["added"] == 9000 && stat["files"][0].get("patch").is_none(), "{stat}");
    let text = server.text("patch", json!({ "from": "prompt~1", "stat": true, "paths": ["z"] }));
    assert!(text.contains("\n+9000 -0 z/long.txt\n"), "{text}");
    server.end();
}

#[test]
fn paths_outside_of_the_project_and_unknown_references_are_refused() {
    let (env, _agent) = with_work();
    let mut server = Server::of(&env, &[]);
    for path in ["../home", "/etc/passwd", "src/../../x", ""] {
        for (tool, arguments) in [
            ("restore", json!({ "ref": "prompt", "paths": [path] })),
            ("patch", json!({ "from": "prompt", "paths": [path] })),
            ("file", json!({ "ref": "prompt", "path": path })),
        ] {
            assert_eq!(server.refused(tool, arguments), "usage", "{tool} {path}");
        }
    }
    let own = json!({ "ref": "prompt", "path": ".git/config" });
    assert_eq!(server.refused("file", own), "files_unavailable");
    for reference in ["nope", "prompt~7"] {
        for (tool, arguments) in [
            ("restore", json!({ "ref": reference })),
            ("patch", json!({ "from": reference })),
            ("patch", json!({ "from": "prompt", "to": reference })),
            ("file", json!({ "ref": reference, "path": "a.txt" })),
        ] {
            assert_eq!(server.refused(tool, arguments), "checkpoint_not_found", "{tool} {reference}");
        }
    }
    server.end();
}

#[test]
fn files_of_a_run_from_elsewhere_are_refused() {
    let (theirs, _agent) = with_work();
    theirs.save(&["--run", "claude-code-s1", "--tag", "bait"]);
    let bundle = theirs.path("b");
    theirs.run(&["export", "bundle", "claude-code-s1", bundle.to_str().unwrap(), "--yes"]).exits(0);
    let env = TestEnvironment::repository();
    env.save(&["--run", "own", "--summary", "mine"]);
    env.run(&["import", "bundle", bundle.to_str().unwrap()]).exits(0);
    let mut server = Server::of(&env, &[]);
    for (tool, arguments) in [
        ("restore", json!({ "ref": "bait" })),
        ("restore", json!({ "ref": "claude-code-s1@1", "force": true, "token": "0123456789abcdef" })),
        ("restore", json!({ "ref": "prompt", "run": "claude-code-s1" })),
        ("patch", json!({ "from": "bait" })),
        ("patch", json!({ "from": "latest", "to": "bait" })),
        ("file", json!({ "ref": "bait", "path": "a.txt" })),
    ] {
        assert_eq!(server.refused(tool, arguments.clone()), "confirmation_needed", "{tool} {arguments}");
    }
    assert_eq!(read(&env, "a.txt"), None);
    server.end();
}
