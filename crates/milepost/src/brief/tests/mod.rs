//! Tests of parsing and checking, with the format's own example and with input that was once parsed wrongly.

mod compose;
mod fit;
mod merge;
mod properties;

use super::tokens::HeuristicTokenizer;
use super::*;

/// The example brief of the format.
const EXAMPLE: &str = include_str!("example.md");

/// Texts with their exact number of tokens in a published vocabulary (cl100k_base).
pub(super) const COUNTED: [(&str, u64); 8] = [
    ("The quick brown fox jumps over the lazy dog.\n", 10),
    ("{\"id\": 12345, \"name\": \"x\", \"tags\": [\"a\", \"b\"]}\n", 22),
    ("fn main() { let x: Vec<u8> = Vec::new(); }\n", 17),
    ("a93b4c5f2dcf972f019e670fca048e47\n", 21),
    ("データベースの移行を完了した。\n", 14),
    ("把数据库迁移到新版本，然后运行测试。\n", 15),
    ("Перенести базу данных на новую версию.\n", 14),
    ("🎯🚀✅\n", 9),
];

fn errors(text: &str) -> Vec<String> {
    let check = Brief::parse(text).check();
    let one = |e: &super::check::Finding| {
        format!("{}{}", e.section.as_ref().map_or(String::new(), |s| format!("{s}: ")), e.message)
    };
    check.errors.iter().map(one).collect()
}

/// The example without one section.
fn without(kind: SectionKind) -> String {
    let brief = Brief::parse(EXAMPLE);
    let section = brief.sections_of_kind(kind).next().unwrap();
    EXAMPLE.replacen(brief.source(section), "", 1)
}

#[test]
fn the_example_is_whole() {
    let brief = Brief::parse(EXAMPLE);
    assert_eq!(brief.markdown(), EXAMPLE);
    assert_eq!(brief.check(), CheckReport::default());
    assert_eq!((brief.id(), brief.value("anchor")), (Some("chk-003"), Some("end-of-phase-2")));
    let kinds: Vec<_> = brief.sections().iter().map(|s| s.kind).collect();
    let expected: Vec<_> =
        SECTION_ORDER.into_iter().filter(|kind| *kind != SectionKind::Breadcrumbs).collect();
    assert_eq!(kinds, expected);
    assert_eq!(
        brief.content(brief.sections_of_kind(SectionKind::Next).next().unwrap()).trim(),
        "- Phase 3: Implement game mechanics (timer, scoring, combos)\n- Blocked: None"
    );
}

#[test]
fn each_required_section_is_missed_by_its_name() {
    for kind in REQUIRED_SECTIONS {
        let text = without(kind);
        assert_ne!(text, EXAMPLE);
        assert_eq!(errors(&text), [format!("{kind}: is missing")]);
        // An empty section, or one with only a comment or a table header, is reported too.
        let brief = Brief::parse(EXAMPLE);
        let content = brief.content(brief.sections_of_kind(kind).next().unwrap());
        for instead in ["\n", "<!-- 1-2 sentences. -->\n\n", "| File | Status |\n|---|---|\n\n"] {
            assert_eq!(errors(&EXAMPLE.replacen(content, instead, 1)), [format!("{kind}: is empty")]);
        }
    }
    assert_eq!(errors(&without(SectionKind::Rules)), [""; 0], "rules are optional");
}

#[test]
fn required_fields_are_missed_by_their_names() {
    let gone = |line: &str| EXAMPLE.replacen(line, "", 1);
    assert_eq!(errors(&gone("checkpoint: chk-003\n")), ["checkpoint: is missing from the front matter"]);
    assert_eq!(
        errors(&gone("created: 2025-12-14T15:30:00Z\n")),
        ["created: is missing from the front matter"]
    );
    assert_eq!(errors(&gone("anchor: end-of-phase-2\n")), [""; 0]);
    let body = EXAMPLE.split_once("---\n\n").unwrap().1;
    assert_eq!(errors(body), ["the front matter is missing: `checkpoint` and `created` are required"]);
    assert_eq!(errors(&EXAMPLE.replace("chk-003", "../x")).len(), 1);
    let created = |text: &str| Brief::parse(EXAMPLE.replace("2025-12-14T15:30:00Z", text)).check();
    for (text, error, warning) in [
        ("2025-12-14T15:30:00+02:00", false, false),
        ("2025-12-14T15:30:00.123Z", false, false),
        ("2025-12-14", false, true),
        ("2025-12-14T15:30:00", false, true),
        ("2025-12-14 15:30", false, true),
        ("yesterday", true, false),
        ("2025-13-14", true, false),
        ("14.12.2025", true, false),
    ] {
        let check = created(text);
        assert_eq!(
            (!check.errors.is_empty(), !check.warnings.is_empty()),
            (error, warning),
            "{text}: {check:?}"
        );
    }
}

#[test]
fn headings_are_those_of_the_document() {
    let body = |inside: &str| format!("---\ncheckpoint: a\ncreated: 2026-01-01T00:00:00Z\n---\n{inside}");
    let kinds = |text: &str| {
        let brief = Brief::parse(text);
        assert_eq!(brief.markdown(), text, "byte for byte");
        let own = brief.sections().iter().map(|s| (s.kind, s.heading.clone()));
        own.collect::<Vec<_>>()
    };
    for hidden in [
        "```\n## Problem\n```\n",
        "~~~md\n## Problem\n~~~\n",
        "`````\n```\n## Problem\n```\n`````\n",
        "```\n## Problem\nnever closed\n",
        "> ## Problem\n",
        "- x\n\n  ## Problem\n",
        "1. x\n   ## Problem\n",
        "<!--\n## Problem\n-->\n",
        "    ## Problem\n",
        "## Problem Solving\n",
        "##Problem\n",
        "####### Problem\n",
        "\\## Problem\n",
    ] {
        let found = kinds(&body(hidden));
        assert!(!found.iter().any(|(kind, _)| *kind == SectionKind::Problem), "{hidden}: {found:?}");
    }
    for seen in [
        "## Problem\nx\n",
        "## Problem ##\nx\n",
        "   ##   Problem   ##  \nx\n",
        "Problem\n-------\nx\n",
        "Problem\n=======\nx\n",
        "Problem\n---\nx\n",
        "## PROBLEM\nx",
        "## **Problem**\r\nx\r\n",
        "### Problem\nx\n",
        "# 1. Problem:\nx\n",
    ] {
        let found = kinds(&body(seen));
        assert_eq!(found.first().map(|(kind, _)| *kind), Some(SectionKind::Problem), "{seen}: {found:?}");
        assert_eq!(Brief::parse(body(seen)).content(&Brief::parse(body(seen)).sections()[0]).trim(), "x");
    }
    // CommonMark reads text above dashes as a heading; people intend a thematic break.
    let found = kinds(&body("## User Rules\nDo not commit\n---\n\n## Delta: 2026\n### What Changed\nx\n"));
    assert_eq!(
        found.iter().map(|(k, _)| *k).collect::<Vec<_>>(),
        [SectionKind::Rules, SectionKind::Delta, SectionKind::WhatChanged]
    );
}

#[test]
fn sections_that_stand_only_in_a_fence_are_not_there() {
    let (front, body) = EXAMPLE.split_once("---\n\n").unwrap();
    assert_eq!(errors(&format!("{front}---\n\n```markdown\n{body}```\n")).len(), REQUIRED_SECTIONS.len());
    // A document that is completely inside a fence is parsed as if the fence were absent.
    for text in [
        format!("```markdown\n{EXAMPLE}```\n"),
        format!("\n~~~~\n{EXAMPLE}~~~~"),
        format!(
            "```md\n{}\n```\n",
            EXAMPLE.replace("- Platform: Web", "- Platform:\n\n```js\n## no\n```\n\nWeb")
        ),
        format!("```\n{EXAMPLE}"),
    ] {
        let brief = Brief::parse(text.as_str());
        assert_eq!(brief.markdown(), text);
        assert_eq!(brief.check().errors, [], "{text}");
        assert_eq!(brief.check().warnings.len(), 1, "{:?}", brief.check());
        assert_eq!(brief.id(), Some("chk-003"));
    }
}

#[test]
fn files_as_they_come() {
    for text in [
        format!("\u{feff}{EXAMPLE}"),
        EXAMPLE.replace('\n', "\r\n"),
        format!("\u{feff}{}", EXAMPLE.replace('\n', "\r\n")),
        EXAMPLE.trim_end().to_owned(),
        EXAMPLE.replace('→', "->"),
        EXAMPLE.replace("anchor: end-of-phase-2", "anchor: a---b"),
        EXAMPLE.replace(
            "anchor: end-of-phase-2",
            "anchor: feat: x\nmood: \"fine: really\"\nlist:\n  - one\n  - two",
        ),
        EXAMPLE.replace("| `src/services/gemini.ts`", r"| `src/a\|b.ts`"),
        format!("{EXAMPLE}\n## Problem\nagain\n"),
        format!("{EXAMPLE}\n## Something Else\nkept\n"),
    ] {
        let brief = Brief::parse(text.as_str());
        assert_eq!(brief.markdown(), text);
        assert_eq!(brief.check().errors, [], "{text}");
        assert_eq!(brief.sections_of_kind(SectionKind::Artifacts).count(), 1);
    }
    let twice = Brief::parse(format!("{EXAMPLE}\n## Problem\nagain\n"));
    assert!(twice.check().warnings.iter().any(|w| w.message == "appears 2 times"));
    let quoted = Brief::parse(EXAMPLE.replace("end-of-phase-2", "feat: x"));
    assert_eq!(quoted.value("anchor"), Some("feat: x"));
    assert_eq!(quoted.check().warnings.len(), 1);
    assert_eq!(Brief::from_bytes(b"## Problem\n\xff".to_vec()), Err(InvalidUtf8 { at: 11 }));
}

#[test]
fn templates_are_not_briefs() {
    let text = "---\ncheckpoint: chk-auth\ncreated: 2026-11-15T18:13:57Z\nstatus: active\n---\n\n## Problem\n<!-- 1-2 sentences. -->\n\n## Essential Information\n\n### Artifact Trail\n<!-- Files touched. -->\n| File | Status | Key Change |\n|------|--------|------------|\n";
    let found = errors(text);
    assert!(found.contains(&"Problem: is empty".to_owned()), "{found:?}");
    assert!(found.contains(&"Artifact Trail: is empty".to_owned()), "{found:?}");
    assert_eq!(found.len(), REQUIRED_SECTIONS.len());
    let other = errors(&EXAMPLE.replace("### Decisions", "### Entscheidungen"));
    assert_eq!(other, ["Decisions: is missing; rename \"Entscheidungen\" if it is this section"]);
}

#[test]
fn a_name_without_reading_all_of_it() {
    assert_eq!(crate::front_matter::brief_id(EXAMPLE).as_deref(), Some("chk-003"));
    assert_eq!(crate::front_matter::brief_id(&format!("\u{feff}{EXAMPLE}")).as_deref(), Some("chk-003"));
    assert_eq!(crate::front_matter::brief_id("# Brief\n\n- next: print\n"), None);
}

fn fit(text: &str, budget: u64, overflow: Overflow) -> Result<FittedBrief, OverBudget> {
    let whole = Some("milepost brief show chk.md".to_owned());
    Brief::parse(text).fit(&FitOptions { budget, overflow, full_command: whole, ..FitOptions::default() })
}

#[test]
fn a_counter_of_ones_own_and_a_factor() {
    struct Letters;
    impl Tokenizer for Letters {
        fn name(&self) -> &str {
            "letters"
        }
        fn quarters(&self, text: &str) -> u64 {
            QUARTERS_PER_TOKEN * text.len() as u64
        }
    }
    let counter = TokenCounter::new(&Letters);
    let how = FitOptions { budget: 900, overflow: Overflow::Shrink, counter, ..FitOptions::default() };
    let fitted = Brief::parse(EXAMPLE).fit(&how).unwrap();
    assert!(fitted.markdown.len() <= 900 && fitted.tokens == fitted.markdown.len() as u64);
    assert_eq!(fitted.counter, "letters");
    let half = FitOptions { counter: counter.scaled(0.5).unwrap(), ..how };
    let more = Brief::parse(EXAMPLE).fit(&half).unwrap();
    assert!(more.markdown.len() > fitted.markdown.len() && more.markdown.len() <= 1800);
    assert_eq!(more.counter, "letters x0.5");
    for wrong in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e9] {
        assert!(counter.scaled(wrong).is_none());
    }
}

#[test]
fn the_counter_adds_up_line_by_line_and_errs_on_the_safe_side() {
    let counter = HeuristicTokenizer;
    let by_line: u64 = EXAMPLE.split_inclusive('\n').map(|line| counter.quarters(line)).sum();
    assert_eq!(by_line, counter.quarters(EXAMPLE));
    for (text, exact) in COUNTED {
        let counted = TokenCounter::default().tokens(text);
        assert!(counted >= exact, "{text} {counted} {exact}");
        assert!(counted <= 2 * exact + 4, "{text} {counted} {exact}");
    }
}
