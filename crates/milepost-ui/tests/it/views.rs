//! What the views contain.

use milepost::model::{Change, RunId};
use milepost::{Milepost, Save, Status};

use crate::client::TestServer;

/// Text that would do something if it became part of a page.
const HOSTILE: &str =
    "</title></style><script>alert(1)</script><img src=x onerror=alert(1)>\u{202e}\u{1b}[31m\" onclick=\"x";

fn run(name: &str) -> RunId {
    name.parse().unwrap()
}

/// Saves a checkpoint with this text in every field that a caller can set.
fn save_text(mp: &Milepost, id: &str, text: &str) {
    let mut save = Save::new().summary(text).state(&serde_json::json!({ text: [text, 1] })).unwrap();
    let output: String = text.chars().take(400).collect();
    let draft = save.draft_mut();
    draft.brief =
        Some(format!("# {text}\n\n- {text}\n\n[x](javascript:alert(1)) ![i](https://example.org/i.png)"));
    draft.session_id = Some("s".to_owned());
    draft.command_outcomes = vec![serde_json::from_value(serde_json::json!({
        "kind": "shell", "name": text, "result": "FAIL", "summary": output, "reason_code": "exit_1", "duration_ms": 5
    }))
    .unwrap()];
    draft.decisions = vec![
        serde_json::from_value(serde_json::json!({ "at": "2026-01-01T00:00:00Z", "text": text })).unwrap(),
    ];
    mp.save(&run(id), save).unwrap();
}

/// Fails if the text became markup.
fn assert_harmless(page: &str, path: &str) {
    let lower = page.to_lowercase();
    for bad in
        ["<script>alert", "<img", "onerror=alert(1)>", "href=\"javascript", "<style", "\u{202e}", "\u{1b}"]
    {
        assert!(!lower.contains(bad), "{path} contains {bad:?}");
    }
    for tag in page.split('<').skip(1).filter_map(|rest| rest.split('>').next()) {
        // What is inside quotation marks is the value of an attribute.
        let names: String = tag.split('"').step_by(2).collect();
        assert!(!names.contains("onclick") && !names.contains("onerror"), "{path}: {tag}");
    }
}

#[test]
fn every_view_shows_what_was_recorded() {
    let server = TestServer::start();
    save_text(&server.mp, "nightly", "Parse the configuration");
    save_text(&server.mp, "nightly", "Write the report");
    for (path, texts) in [
        ("/", &["nightly", "All projects", "milepost resume"][..]),
        ("/p/app", &["nightly", "Write the report"]),
        (
            "/p/app/r/nightly",
            &["Write the report", "Parse the configuration", "@2", "milepost -C /srv/app restore nightly@2"],
        ),
        (
            "/p/app/r/nightly/c/1",
            &["Parse the configuration", "verified", "exit_1", "<h1>Parse the configuration</h1>", "@2 →"],
        ),
        ("/p/app/r/nightly/c/1/document", &["\"task_summary\":\"Parse the configuration\""]),
        (
            "/p/app/diff?a=nightly@1&b=nightly@2",
            &["task_summary", "Parse the configuration", "Write the report"],
        ),
    ] {
        let page = server.get(path);
        assert_eq!(page.status, 200, "{path}: {}", page.body);
        for text in texts {
            assert!(page.body.contains(text), "{path} lacks {text}: {}", page.body);
        }
    }
}

#[test]
fn hostile_text_is_only_text() {
    let server = TestServer::start();
    for _ in 0..2 {
        save_text(&server.mp, "hostile", HOSTILE);
    }
    for path in
        ["/", "/p/app", "/p/app/r/hostile", "/p/app/r/hostile/c/2", "/p/app/diff?a=hostile@1&b=hostile@2"]
    {
        let page = server.get(path);
        assert_eq!(page.status, 200, "{path}: {}", page.body);
        assert_harmless(&page.body, path);
    }
    let document = server.get("/p/app/r/hostile/c/1/document");
    assert!(document.head.contains("content-type: text/plain"), "{}", document.head);
}

#[test]
fn long_text_is_bounded() {
    let server = TestServer::start();
    save_text(&server.mp, "long", &"wide ".repeat(20_000));
    save_text(&server.mp, "long", &"y".repeat(100_000));
    for path in
        ["/p/app", "/p/app/r/long", "/p/app/r/long/c/1", "/p/app/r/long/c/2", "/p/app/diff?a=long@1&b=long@2"]
    {
        let page = server.get(path);
        assert!(page.status == 200 && page.body.len() < 300_000, "{path}: {}", page.body.len());
    }
}

#[test]
fn secrets_are_redacted_even_if_they_were_stored() {
    let server = TestServer::start();
    let token = format!("ghp_{}", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8");
    let unsafe_handle = server.mp.clone().with_settings(milepost::Settings::default());
    save_text(&unsafe_handle, "secret", &format!("token {token}"));
    assert!(
        unsafe_handle
            .show(&"secret@1".parse().unwrap(), None)
            .unwrap()
            .body()
            .unwrap()
            .task_summary
            .unwrap()
            .contains(&token)
    );
    save_text(&unsafe_handle, "secret", &format!("second {token}"));
    for path in [
        "/p/app",
        "/p/app/r/secret",
        "/p/app/r/secret/c/1",
        "/p/app/r/secret/c/1/document",
        "/p/app/diff?a=secret@1&b=secret@2",
    ] {
        let page = server.get(path);
        assert!(page.status == 200 && !page.body.contains(&token), "{path}: {} {}", page.status, page.body);
    }
}

#[test]
fn lists_come_in_pages() {
    let server = TestServer::start();
    let many = run("many");
    for n in 0..250 {
        server.mp.save(&many, Save::new().summary(format!("number {n}"))).unwrap();
    }
    let first = server.get("/p/app/r/many").body;
    assert!(first.contains("@250</a>") && first.contains("@151</a>") && !first.contains("@150</a>"));
    let next = first
        .split("href=\"")
        .filter_map(|rest| rest.split('"').next())
        .find(|link| link.contains("after="))
        .unwrap();
    let second = server.get(next.split('#').next().unwrap()).body;
    assert!(second.contains("@150</a>") && second.contains("@51</a>") && !second.contains("@250</a>"));
}

#[test]
fn what_does_not_exist_is_not_found() {
    let server = TestServer::start();
    save_text(&server.mp, "nightly", "x");
    for path in [
        "/p/app/r/none",
        "/p/app/r/nightly/c/7",
        "/p/app/r/nightly/c/7/document",
        "/p/none/diff?a=a@1&b=b@1",
        "/p/app/diff?a=nightly@1&b=nightly@9",
        "/p/app/diff?a=none@1&b=nightly@1",
    ] {
        assert_eq!(server.get(path).status, 404, "{path}");
    }
    for path in ["/p/app/diff", "/p/app/diff?a=latest&b=latest", "/p/app/r/nightly?from=x"] {
        assert_eq!(server.get(path).status, 400, "{path}");
    }
    assert!(server.get("/p/gone").body.contains("the store cannot be read"));
}

#[test]
fn a_finished_run_and_its_messages_are_shown() {
    let server = TestServer::start();
    save_text(&server.mp, "done", "Ship it");
    let said = Change::Prompt(format!("Never touch billing {HOSTILE}"));
    server.mp.save(&run("done"), Save::new().change(said).status(Status::Completed)).unwrap();
    let page = server.get("/p/app/r/done").body;
    assert!(page.contains("completed") && page.contains("Never touch billing"), "{page}");
    assert_harmless(&page, "done");
}

#[test]
fn a_search_marks_words_and_links_to_checkpoints() {
    let server = TestServer::start();
    save_text(&server.mp, "nightly", "Choose the connection pool");
    for path in [
        "/search?q=connection",
        "/search?q=connec&project=app",
        "/search?q=%22connection+pool%22&kind=summary",
    ] {
        let page = server.get(path);
        assert!(
            page.body.contains("<mark>connection") && page.body.contains("/p/app/r/nightly/c/1"),
            "{path}: {}",
            page.body
        );
    }
    assert!(server.get("/search?q=zebra&project=app").body.contains("Nothing found"));
    for path in
        ["/search", "/search?q=", "/search?q=%22%22&project=app", "/search?q=*&project=app", "/search?q=%00"]
    {
        let page = server.get(path);
        assert_eq!(page.status, 200, "{path}: {}", page.body);
    }
    assert_eq!(server.get("/search?q=x&project=none").status, 404);
    save_text(&server.mp, "hostile", &format!("{HOSTILE} needle"));
    let page = server.get("/search?q=needle&project=app").body;
    assert!(page.contains("<mark>needle</mark>"), "{page}");
    assert_harmless(&page, "search");
}

#[test]
fn every_page_of_an_untrusted_project_carries_a_warning() {
    let paths = [
        "/p/app",
        "/p/app/r/nightly",
        "/p/app/r/nightly/c/1",
        "/p/app/diff?a=nightly@1&b=nightly@2",
        "/search?project=app",
        "/search?q=report&project=app",
    ];
    let untrusted = TestServer::start_with(|app| app.untrusted = Some(format!("it is a copy {HOSTILE}")));
    let trusted = TestServer::start();
    for server in [&untrusted, &trusted] {
        save_text(&server.mp, "nightly", "Parse the configuration");
        save_text(&server.mp, "nightly", "Write the report");
    }
    let warning = "This store is not trusted: it is a copy";
    for path in paths {
        let page = untrusted.get(path);
        assert_eq!((page.status, page.body.matches(warning).count()), (200, 1), "{path}: {}", page.body);
        assert!(page.body.contains("<code>milepost trust</code>"), "{path}: {}", page.body);
        assert_harmless(&page.body, path);
        let page = trusted.get(path);
        assert!(page.status == 200 && !page.body.contains("not trusted"), "{path}: {}", page.body);
    }
    // Pages that belong to no project do not repeat the warning.
    for path in ["/", "/search?q=report"] {
        let page = untrusted.get(path);
        assert!(page.status == 200 && !page.body.contains("not trusted"), "{path}: {}", page.body);
    }
}

#[test]
fn the_timeline_can_be_zoomed() {
    let server = TestServer::start();
    for n in 0..5 {
        save_text(&server.mp, "nightly", &format!("{HOSTILE} {n}"));
    }
    let page = server.get("/p/app/r/nightly/timeline?width=400").body;
    assert!(
        page.contains("<svg") && page.contains("data-zoom-in") && !page.contains("data-zoom-out"),
        "{page}"
    );
    assert_harmless(&page, "timeline");
    let zoomed = page
        .split("href=\"")
        .filter_map(|rest| rest.split('"').next())
        .find(|link| link.contains("from="))
        .unwrap();
    let query = zoomed.replace("&amp;", "&");
    let part = server.get(&format!("/p/app/r/nightly/timeline?{}", query.split_once('?').unwrap().1)).body;
    assert!(part.contains("data-zoom-all"), "{part}");
    for query in [
        "from=0&to=0",
        "from=-9223372036854775808&to=9223372036854775807",
        "from=5&to=1",
        "width=0",
        "width=4294967295",
    ] {
        let response = server.get(&format!("/p/app/r/nightly/timeline?{query}"));
        assert!(response.status == 200 && response.body.len() < 150_000, "{query}: {}", response.status);
    }
}
