//! Composing a brief from recorded facts.

use proptest::prelude::*;

use super::super::*;
use crate::model::{
    FromRawJson, JsonPath, Manifest, Message, Profile, ProjectFacts, RawJson, RawObject, RunRecord,
};

fn body(more: &str) -> crate::model::Body {
    let text = format!(
        r#"{{"snapshot_id":"cp_1","created_at":"2026-01-02T03:04:05Z","run_id":"r","session_id":"s","sequence":3,
        "elapsed_ms":1,"source":"manual","source_details":["manual"],"status":"in_progress"{more}}}"#
    );
    crate::model::Body::from_object(RawObject::from_raw(&text, &JsonPath::Root).unwrap()).unwrap()
}

fn facts_of<'a>(
    body: &'a crate::model::Body,
    record: Option<&'a RunRecord>,
    manifests: &[Manifest],
    messages: &'a [Message],
) -> BriefFacts<'a> {
    BriefFacts {
        id: "chk-1".into(),
        created: body.created_at,
        body: Some(body),
        record,
        messages,
        failures: &body.command_outcomes[..body.command_outcomes.len().min(1)],
        project: ProjectFacts { manifests: manifests.to_vec(), ..ProjectFacts::default() },
        ..BriefFacts::default()
    }
}

fn made(body: &crate::model::Body, record: Option<&RunRecord>, manifests: &[Manifest]) -> String {
    compose(&facts_of(body, record, manifests, &[]))
}

#[test]
fn everything_that_was_recorded() {
    let body = body(
        r#","task_summary":"parser done, printer next","phase":{"name":"BUILD","number":4},
        "decisions":[{"at":"2026-01-01T00:00:00Z","text":"SQLite"},{"at":"2026-01-02T00:00:00Z","text":"files","supersedes":"SQLite"}],
        "tasks":[{"id":"t1","title":"parse","status":"done"},{"id":"t2","title":"print","status":"failed"},
        {"id":"t3","status":"pending","subtasks":[{"id":"a","title":"sub","status":"in_progress"}]}],
        "criteria":[{"id":"c1","subject":"it builds","status":"completed"},{"id":"c2","subject":"it prints","status":"pending"}],
        "command_outcomes":[{"kind":"shell","name":"make","result":"FAIL","duration_ms":12,"summary":"boom\nbang"},
        {"kind":"shell","name":"lint","result":"FAIL","duration_ms":1},{"kind":"shell","name":"lint","result":"PASS","duration_ms":1}],
        "log":[{"at":"2026-01-02T00:01:00Z","text":"found a bug"}],
        "step_state":{"step_id":"s2","step_ordinal":2,"step_status":"in_progress","resume_hints":{"next_actions":["look at make"]}},
        "context_digest":{"protected_artifacts":["docs/spec.md"],"window_pressure":"high"},
        "files":[{"path":"a|b.txt","sha256":"00"}],
        "workspace":{"git":{"branch":"main","head":"abc","modified":["m.rs"],"staged":["s.rs"],"untracked":["u.rs",{"b64":"/w=="}],"renamed":[{"from":"o.rs","to":"n.rs"}]},"files_modified":["m.rs","old.rs"]}"#,
    );
    let mut record = RunRecord::new("r".parse().unwrap(), Profile::Run, body.created_at);
    record.title = Some("nightly".into());
    record.plan = Some("plan.toml".into());
    let manifests = [
        Manifest { file: "Cargo.toml".into(), facts: vec![("Language".into(), "Rust".into())], error: None },
        Manifest { file: "go.mod".into(), facts: vec![], error: Some("not a regular file".into()) },
    ];
    let at = |minute: i64| body.created_at + jiff::SignedDuration::from_mins(minute);
    let messages = [
        Message::Prompt { at: at(0), text: "write a\nprinter".into() },
        Message::Answer { at: at(1), question: "Which output?".into(), text: "ANSI".into() },
        Message::Plan { at: at(2), text: "# Plan\n1. print".into(), is_approved: true },
        Message::Reply { at: at(3), text: "Half of it works.".into() },
    ];
    let text = compose(&facts_of(&body, Some(&record), &manifests, &messages));
    let brief = Brief::parse(text.as_str());
    assert_eq!(brief.check(), CheckReport::default(), "{text}");
    insta::assert_snapshot!(text, @r#"
    ---
    checkpoint: chk-1
    created: 2026-01-02T03:04:05.000Z
    anchor: r@3, phase 4 BUILD
    ---

    ## Problem
    - nightly (title)
    - parser done, printer next (summary)

    ## Session Intent
    What the user said, oldest first. Later statements override earlier ones.
    - 2026-01-02 03:04:
      > write a
      > printer
    - Follow the plan plan.toml
    - it builds (criterion c1)
    - it prints (criterion c2)

    ## Essential Information

    ### Decisions
    - ~~SQLite~~ → files (decided 2026-01-02)
    - Which output? → ANSI (the user answered 2026-01-02)
    - Plan that the user approved 2026-01-02 03:06:
      > Plan
      > 1. print

    ### Technical Context
    - Language: Rust (Cargo.toml)
    - go.mod: could not be read: not a regular file
    - Branch: main
    - Commit: abc

    ### Play-By-Play
    - Task t1 → parse → done
    - Task t2 → print → failed
    - Step → 2. s2 → in_progress
    - 2026-01-02 00:01 → found a bug → noted
    - Command → shell `lint` → PASS in 1 ms

    ### Artifact Trail

    | File | Status | Key Change |
    |------|--------|------------|
    | `n.rs` | renamed | from o.rs |
    | `u.rs` | created | untracked |
    | `base64:/w==` | created | untracked |
    | `s.rs` | modified | staged |
    | `m.rs` | modified | not committed |
    | `old.rs` | modified | touched since the run began |
    | `a\|b.txt` | referenced | listed in the checkpoint, sha256 00 |

    ### Current State
    - Status: in_progress (checkpoint cp_1)
    - Phase: 4 BUILD
    - Step: 2. s2 is in_progress
    - Criteria: 1 of 2 completed
    - Tasks: 1 of 3 done, 1 failed
    - Uncommitted files: 4
    - Context window: high pressure
    - The agent's last message, 2026-01-02 03:07: Half of it works.

    ### Next Actions
    - look at make (resume hint)
    - Fix: `make` failed, not seen to pass since, output: "boom bang"
    - Retry: print (task t2, failed)
    - Continue: sub (task t3/a, in_progress)
    - Do: t3 (task t3, pending)
    - Meet: it prints (criterion c2, pending)

    ## User Rules
    - Keep in context: docs/spec.md
    "#);
}

#[test]
fn nothing_is_invented() {
    let text = made(&body(""), None, &[]);
    let brief = Brief::parse(text.as_str());
    assert_eq!(brief.check().errors, [], "{text}");
    for kind in [
        SectionKind::Problem,
        SectionKind::Intent,
        SectionKind::Decisions,
        SectionKind::Technical,
        SectionKind::PlayByPlay,
        SectionKind::Artifacts,
        SectionKind::Next,
    ] {
        let content = brief.content(brief.sections_of_kind(kind).next().unwrap());
        assert!(["Unknown.", "None recorded."].contains(&content.trim()), "{kind}: {content}");
    }
    assert!(!text.contains("Blocked") && !text.contains("## User Rules"));
    let nothing = compose(&BriefFacts { id: "feat: x".into(), ..BriefFacts::default() });
    assert!(nothing.starts_with("---\ncheckpoint: \"feat: x\"\n"), "{nothing}");
}

#[test]
fn what_blocks_is_said_and_many_files_are_counted() {
    let files: Vec<_> = (0..300).map(|n| format!("f{n}.rs")).collect();
    let list = RawJson::of(&files).unwrap();
    let body = body(&format!(
        r#","tasks":[{{"id":"t","title":"deploy","status":"blocked"}}],"workspace":{{"git":{{"untracked":{}}}}}"#,
        list.get()
    ));
    let text = made(&body, None, &[]);
    assert!(
        text.contains("- Blocked: deploy (task t, blocked)\n") && !text.contains("Blocked: None"),
        "{text}"
    );
    assert!(text.contains("100 more files (100 in .) are in the checkpoint: `milepost show cp_1`"), "{text}");
}

#[test]
fn files_are_not_counted_if_listing_them_is_shorter() {
    let text_with = |count: usize| {
        let files: Vec<_> = (0..count).map(|n| format!("f{n}.rs")).collect();
        let list = RawJson::of(&files).unwrap();
        let body = body(&format!(r#","workspace":{{"git":{{"untracked":{}}}}}"#, list.get()));
        made(&body, None, &[])
    };
    let text = text_with(205);
    assert!(text.contains("f204.rs") && !text.contains("more files"), "{text}");
    assert!(text_with(206).contains("6 more files (6 in .)"));
}

/// Text that tries to start or end a line, a heading, a fence, a comment or a table.
fn hostile() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "\n",
        "\n\n",
        "\r",
        "\r\n",
        "\u{b}",
        "\u{85}",
        "\u{2028}",
        "\u{1b}",
        "\t",
        " ",
        "#",
        "## Session Intent",
        "### Decisions",
        "## User Rules",
        "# x",
        "- ",
        "- [ ] ",
        "[ ] ",
        "1. ",
        "> ",
        "---",
        "===",
        "```",
        "~~~",
        "`",
        "``",
        "|",
        "\\|",
        "|---|",
        "<!--",
        "-->",
        "<div>",
        "</milepost-record 00>",
        "[a]: b",
        "\\",
        "\\u{a}",
        "~~",
        " → ",
        ":",
        "(first prompt)",
        "prompt: ",
        "Unknown: ",
        "As of ",
        "Blocked:",
        "a",
        "src/x.rs",
        "é",
        "\"",
        "x y z",
    ]);
    prop::collection::vec(piece, 1..7).prop_map(|pieces| pieces.concat())
}

/// A checkpoint, its run and a manifest with hostile text in every free-text field.
fn with_hostile(text: &[String]) -> (crate::model::Body, RunRecord, Manifest) {
    let mut texts = text.iter().cycle();
    let mut next = || RawJson::of(texts.next().unwrap()).unwrap().get().to_owned();
    let mut fill = |template: &str| {
        let mut parts = template.split('@');
        let first = parts.next().unwrap().to_owned();
        parts.fold(first, |made, part| made + &next() + part)
    };
    let body = body(&fill(
        r#","task_summary":@,"phase":{"name":@,"number":4},
        "decisions":[{"at":"2026-01-01T00:00:00Z","text":@},{"at":"2026-01-02T00:00:00Z","text":@,"supersedes":@}],
        "tasks":[{"id":@,"title":@,"status":"done"},{"id":@,"title":@,"status":"failed"},{"id":@,"status":"blocked"},
        {"id":@,"status":"pending","subtasks":[{"id":@,"title":@,"status":"in_progress"}]}],
        "criteria":[{"id":@,"subject":@,"status":"completed"},{"id":@,"status":"pending"}],
        "command_outcomes":[{"kind":"shell","name":@,"result":"FAIL","duration_ms":12,"summary":@}],
        "log":[{"at":"2026-01-02T00:01:00Z","text":@}],
        "step_state":{"step_id":@,"step_title":@,"step_ordinal":2,"step_status":"in_progress",
        "resume_hints":{"next_actions":[@,@],"eligible":false,"reason_code":@}},
        "context_digest":{"protected_artifacts":[@,@],"window_pressure":"high"},
        "files":[{"path":@,"sha256":"00"},{"path":@}],
        "workspace":{"git":{"branch":@,"head":@,"error":@,"modified":[@],"staged":[@],"untracked":[@,@],
        "renamed":[{"from":@,"to":@}]},"files_modified":[@,@],"watched":{"files":[@,@]}}"#,
    ));
    let mut record = RunRecord::new("r".parse().unwrap(), Profile::Run, body.created_at);
    let mut some = || texts.next().cloned();
    record.title = some();
    record.plan = some();
    record.command = Some(vec![some().unwrap(), some().unwrap()]);
    record.branch = some();
    record.worktree = some();
    let facts = vec![(some().unwrap(), some().unwrap())];
    (body, record, Manifest { file: some().unwrap(), facts, error: some() })
}

/// The heading lines of a text, and the names of its sections.
fn outline(text: &str) -> (Vec<String>, Vec<String>) {
    let is_heading = |line: &&str| line.trim_start().starts_with('#');
    let lines = text.split(['\n', '\r', '\u{b}', '\u{c}', '\u{85}', '\u{2028}', '\u{2029}']);
    let sections = Brief::parse(text).sections().iter().map(|section| section.heading.clone()).collect();
    (lines.filter(is_heading).map(str::to_owned).collect(), sections)
}

const HEADINGS: [&str; 10] = [
    "## Problem",
    "## Session Intent",
    "## Essential Information",
    "### Decisions",
    "### Technical Context",
    "### Play-By-Play",
    "### Artifact Trail",
    "### Current State",
    "### Next Actions",
    "## User Rules",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn no_recorded_value_begins_a_line_or_a_heading(
        texts in prop::collection::vec(hostile(), 1..40),
        budget in 60_u64..3000,
    ) {
        let (body, record, manifest) = with_hostile(&texts);
        let names: Vec<_> = HEADINGS.iter().map(|line| line.trim_start_matches('#').trim().to_owned()).collect();
        let at = body.created_at;
        let messages: Vec<_> = texts.iter().cycle().take(texts.len() + 4).cloned().enumerate().map(|(n, text)| match n % 4 {
            0 => Message::Answer { at, question: text.clone(), text },
            1 => Message::Plan { at, text, is_approved: true },
            2 => Message::Reply { at, text },
            _ => Message::Prompt { at, text },
        }).collect();
        let facts = facts_of(&body, Some(&record), std::slice::from_ref(&manifest), &messages);
        let text = compose(&facts);
        prop_assert_eq!(outline(&text), (HEADINGS.map(str::to_owned).to_vec(), names.clone()), "{}", text);
        let brief = Brief::parse(text.as_str());
        // Every line is an item, a quote, a row, or a line that the composer writes itself.
        for section in brief.sections() {
            let known = |line: &str| {
                line.is_empty() || ["- ", "  > ", "|", "What the user said"].iter().any(|start| line.starts_with(start))
            };
            for line in brief.content(section).lines().filter(|line| !known(line)) {
                prop_assert!(["Unknown.", "None recorded."].contains(&line), "{line:?} in {text}");
            }
        }
        let limit = BriefLimit { tokens: Some(budget), ..BriefLimit::default() };
        let within = compose_within(&facts, &limit, |composed| composed.whole());
        prop_assert_eq!(outline(&within), (HEADINGS.map(str::to_owned).to_vec(), names.clone()), "{}", within);
        let facts = BriefFacts {
            id: texts[0].clone(),
            parent: Some(texts[0].clone()),
            previous: Some(&brief),
            ..facts
        };
        let merged = brief.merge(&Brief::parse(compose_update(&facts))).brief;
        let how = FitOptions { budget, overflow: Overflow::Shrink, ..FitOptions::default() };
        let fitted = [brief.fit(&how), merged.fit(&how)].into_iter().flatten().map(|fitted| fitted.markdown);
        for later in fitted.chain([merged.markdown()]) {
            let (lines, sections) = outline(&later);
            // A shrunk brief has shorter headings and one more for the omission notice.
            let mut kinds: Vec<_> = sections.iter().map(|heading| SectionKind::from_heading(heading).0).collect();
            prop_assert!(!kinds.contains(&SectionKind::Other), "{later}");
            prop_assert_eq!(lines.len(), kinds.len(), "{}", later);
            kinds.sort_unstable_by_key(|kind| kind.as_str());
            kinds.dedup();
            prop_assert_eq!(lines.len(), kinds.len(), "{}", later);
        }
    }
}
