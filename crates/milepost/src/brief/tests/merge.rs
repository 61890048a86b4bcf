//! Merging updates into briefs, section by section.

use super::super::*;
use super::EXAMPLE;

fn merged(previous: &str, update: &str) -> String {
    let result = Brief::parse(previous).merge(&Brief::parse(update));
    let text = result.brief.markdown();
    let again = result.brief.merge(&Brief::parse(update));
    assert_eq!(again.brief.markdown(), text, "merging is idempotent");
    text
}

fn content(text: &str, kind: SectionKind) -> String {
    let brief = Brief::parse(text);
    let found: Vec<_> =
        brief.sections_of_kind(kind).map(|section| brief.content(section).trim().to_owned()).collect();
    found.join("\n")
}

#[test]
fn nothing_new_changes_nothing() {
    assert_eq!(merged(EXAMPLE, EXAMPLE), EXAMPLE);
    assert_eq!(merged(EXAMPLE, ""), EXAMPLE);
    assert_eq!(merged(EXAMPLE, "## Problem\n<!-- nothing -->\n\n### Decisions\n"), EXAMPLE);
    let crlf = EXAMPLE.replace('\n', "\r\n");
    assert_eq!(merged(&crlf, EXAMPLE), crlf);
}

#[test]
fn each_section_in_its_own_way() {
    let update = "---\ncheckpoint: chk-004\ncreated: 2025-12-15T10:00:00Z\n---\n\n## Session Intent\nNow also on phones.\n\n### Decisions\n- Game name: Chromatic Quest\n- Sound: none\n- ~~Persistence: LocalStorage~~ -> Persistence: IndexedDB\n\n### Technical Context\n- HTML5 Canvas API\n- Node: 24\n\n### Play-By-Play\n- Phase 3 -> Added timer -> Complete\n\n### Artifact Trail\n\n| File | Status | Key Change |\n|------|--------|------------|\n| `src/services/gemini.ts` | modified | Timeouts |\n| `src/hooks/useImageGeneration.ts` | deleted | Not needed |\n| `src/timer.ts` | created | Countdown |\n\n### Current State\n- Phases 1-3 complete\n\n### Next Actions\n- Phase 4\n- Blocked: None\n\n## Notes\nkept as they are\n";
    let text = merged(EXAMPLE, update);
    let brief = Brief::parse(text.as_str());
    assert_eq!(brief.check().errors, [], "{text}");
    assert_eq!((brief.id(), brief.value("parent")), (Some("chk-004"), Some("chk-003")));
    assert_eq!(brief.value("anchor"), Some("end-of-phase-2"));
    assert_eq!(content(&text, SectionKind::Problem), content(EXAMPLE, SectionKind::Problem));
    assert_eq!(content(&text, SectionKind::Intent), "Now also on phones.");
    assert_eq!(
        content(&text, SectionKind::Decisions),
        "- Platform: Web (browser)\n- Image generation: Gemini API\n- ~~Persistence: LocalStorage (no backend)~~ → Persistence: IndexedDB\n- Game name: Chromatic Quest\n- Sound: none"
    );
    assert_eq!(
        content(&text, SectionKind::Technical),
        format!("{}\n- Node: 24", content(EXAMPLE, SectionKind::Technical))
    );
    assert!(
        content(&text, SectionKind::PlayByPlay).ends_with("→ Complete\n- Phase 3 -> Added timer -> Complete"),
        "{text}"
    );
    assert_eq!(
        content(&text, SectionKind::Artifacts),
        "| File | Status | Key Change |\n|------|--------|------------|\n| `src/services/imageProcessor.ts` | created | base64 → ImageData → PaintByNumbers pipeline |\n| `src/services/gemini.ts` | created | Timeouts |\n| `src/hooks/useImageGeneration.ts` | deleted | Not needed |\n| `src/timer.ts` | created | Countdown |"
    );
    assert_eq!(content(&text, SectionKind::State), "- Phases 1-3 complete");
    assert_eq!(content(&text, SectionKind::Next), "- Phase 4\n- Blocked: None");
    assert_eq!(content(&text, SectionKind::Rules), content(EXAMPLE, SectionKind::Rules));
    assert!(text.ends_with("## Notes\nkept as they are\n"), "{text}");
}

#[test]
fn context_is_known_by_its_keys() {
    let previous = "## Technical Context\n- Node: 22\n- DB: PostgreSQL 16\n- runs in Docker\n";
    let text = merged(previous, "### Technical Context\n- Node: 24\n- runs in Docker\n- Cache: none\n");
    assert_eq!(
        text,
        "## Technical Context\n- Node: 24\n- DB: PostgreSQL 16\n- runs in Docker\n- Cache: none\n"
    );
    let table = "### Technical Context\n| What | Which |\n|---|---|\n| Node | 22 |\n";
    let text =
        merged(table, "### Technical Context\n| What | Which |\n|---|---|\n| Node | 24 |\n| Go | 1.24 |\n");
    assert_eq!(text, "### Technical Context\n| What | Which |\n|---|---|\n| Node | 24 |\n| Go | 1.24 |\n");
}

#[test]
fn decisions_leave_only_by_name() {
    let previous = "### Decisions\n- Use A for storage\n- Use B for transport\n";
    let text = merged(previous, "### Decisions\n- ~~Use A for storage~~ → Use C for storage\n");
    assert_eq!(text, "### Decisions\n- ~~Use A for storage~~ → Use C for storage\n- Use B for transport\n");
    let text =
        merged(&text, "### Decisions\n- ~~Use C for storage~~ → Use D for storage\n- Use A for storage\n");
    assert_eq!(
        text,
        "### Decisions\n- ~~Use A for storage~~ → ~~Use C for storage~~ → Use D for storage\n- Use B for transport\n"
    );
    let result = Brief::parse(previous).merge(&Brief::parse("### Decisions\n- ~~Never said~~ → Use E\n"));
    assert_eq!(result.notes.len(), 1, "{:?}", result.notes);
    assert!(result.brief.text().ends_with("- Use B for transport\n- ~~Never said~~ → Use E\n"));
}

#[test]
fn sections_that_are_new_stand_in_their_order() {
    let text =
        merged("## Problem\nx\n\n## User Rules\n- y\n", "## Session Intent\nz\n\n### Decisions\n- d\n");
    assert_eq!(
        text,
        "## Problem\nx\n\n## Session Intent\nz\n\n## Essential Information\n\n### Decisions\n- d\n\n## User Rules\n- y\n"
    );
    assert_eq!(merged("", "## Problem\nx\n"), "## Problem\nx\n");
    let text = merged("text alone", "---\ncheckpoint: a\n---\n## Problem\nx\n");
    assert_eq!(text, "---\ncheckpoint: a\n---\n\ntext alone\n\n## Problem\nx\n");
}

#[test]
fn deltas_are_folded_in() {
    let previous = format!(
        "{EXAMPLE}\n\n---\n\n## Delta: 2026-01-02T00:00:00Z\n\n### What Changed\nTimer and scoring are done.\n\n### Artifacts\n| File | Action | Description |\n|------|--------|-------------|\n| `src/timer.ts` | created | Countdown |\n| `src/services/gemini.ts` | modified | Timeouts |\n\n### Status Transitions\n| Item | Before | After |\n|------|--------|-------|\n| Phase 3 | pending | done |\n\n### Next Actions\n- Ship it\n\n---\n\n## Delta: 2026-01-03\n\n### What Changed\n<!-- nothing -->\n"
    );
    let text = merged(&previous, "");
    assert!(!text.contains("Delta") && !text.contains("---\n\n##\n"), "{text}");
    assert!(
        content(&text, SectionKind::PlayByPlay)
            .ends_with("- 2026-01-02T00:00:00Z → Timer and scoring are done.\n- Phase 3: pending → done")
    );
    let trail = content(&text, SectionKind::Artifacts);
    assert!(
        trail.ends_with(
            "| `src/timer.ts` | created | Countdown |\n| `src/services/gemini.ts` | created | Timeouts |"
        ),
        "{trail}"
    );
    assert_eq!(content(&text, SectionKind::Next), "- Ship it");
    assert_eq!(content(&text, SectionKind::Rules), content(EXAMPLE, SectionKind::Rules));
    assert_eq!(Brief::parse(text.as_str()).check().errors, []);
}
