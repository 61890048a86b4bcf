//! Fitting briefs into token budgets.

use super::super::*;
use super::{EXAMPLE, fit};

#[test]
fn what_fits_stays_as_it_is() {
    let all = fit(EXAMPLE, 100_000, Overflow::Error).unwrap();
    assert_eq!((all.markdown.as_str(), all.omitted.len()), (EXAMPLE, 0));
    let tight = fit(EXAMPLE, all.tokens, Overflow::Error).unwrap();
    assert_eq!(tight.markdown, EXAMPLE);
    let less = fit(EXAMPLE, all.tokens - 1, Overflow::Error).unwrap();
    assert!(less.markdown != EXAMPLE && less.tokens < all.tokens);
    assert!(less.markdown.contains("base64 → ImageData → PaintByNumbers pipeline"), "{}", less.markdown);
}

#[test]
fn files_of_a_folder_share_its_name_and_say_what_became_of_them() {
    let steps: String = (0..30).map(|n| format!("- Step {n} → did something → it went well\n")).collect();
    let text = format!(
        "## Problem\nx\n\n### Play-By-Play\n{steps}\n### Artifact Trail\n\n| File | Status | Key Change |\n|---|---|---|\n\
         | `src/a.rs` | modified | parses |\n| `src/b.rs` | deleted | now in a.rs |\n| `src/c.rs` | moved | |\n\
         | `src/d.rs` | created | |\n"
    );
    let nearly = TokenCounter::default().tokens(&text) * 3 / 4;
    let fitted = fit(&text, nearly, Overflow::Error).unwrap().markdown;
    let line = "- src/: b.rs: deleted: now in a.rs; c.rs: moved; a.rs: parses; d.rs\n";
    assert!(fitted.contains(line), "{fitted}");
    let fitted = fit(&text, 60, Overflow::Error).unwrap().markdown;
    assert!(fitted.contains("- src/: b.rs, c.rs, a.rs: parses; d.rs\n"), "{fitted}");
}

#[test]
fn what_does_not_fit_is_named() {
    let least = fit(EXAMPLE, 1, Overflow::Error).unwrap_err();
    assert_eq!((least.budget, least.shrunk), (1, false));
    let names: Vec<_> = least.sections.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(
        names,
        [
            "Problem",
            "Session Intent",
            "Decisions",
            "Current State",
            "Next Actions",
            "User Rules",
            "everything else"
        ]
    );
    let tight = fit(EXAMPLE, least.needed, Overflow::Error).unwrap();
    assert!(tight.tokens <= least.needed);
    let brief = Brief::parse(EXAMPLE);
    for section in brief.sections().iter().filter(|section| section.kind.must_keep()) {
        assert!(tight.markdown.contains(brief.source(section).trim_end()), "{}", tight.markdown);
    }
    assert!(tight.markdown.contains("milepost brief show chk.md"), "{}", tight.markdown);
    assert!(!tight.omitted.is_empty());
    let exceeding = fit(EXAMPLE, 1, Overflow::Exceed).unwrap();
    assert!(
        exceeding.exceeds && exceeding.tokens > 1 && exceeding.markdown.contains("Wait for user approval")
    );
    for budget in [60, 80, 120, 160] {
        let shrunk = fit(EXAMPLE, budget, Overflow::Shrink).unwrap();
        assert!(shrunk.shrunk && shrunk.tokens <= budget, "{budget}: {}", shrunk.markdown);
        assert!(shrunk.markdown.contains("Shrunk, "), "{}", shrunk.markdown);
    }
    assert!(fit(EXAMPLE, 0, Overflow::Shrink).unwrap_err().shrunk);
    assert_eq!(fit("", 0, Overflow::Error).unwrap().markdown, "");
}

#[test]
fn files_are_grouped_by_their_folders() {
    let rows: String = (0..40)
        .map(|n| format!("| `src/deep/part{n}.rs` | deleted | gone in round {n} of the cleaning |\n"))
        .collect();
    let text = EXAMPLE.replace("| `src/services/gemini.ts`", &format!("{rows}| `src/services/gemini.ts`"));
    let fitted = fit(&text, 700, Overflow::Error).unwrap();
    assert!(fitted.markdown.contains("- src/deep/: part0.rs, part1.rs"), "{}", fitted.markdown);
    assert!(fitted.tokens <= 700);
}

#[test]
fn folders_with_few_files_share_a_line() {
    let files = [
        "src/engine/store/one.rs",
        "src/engine/store/two.rs",
        "src/engine/store/three.rs",
        "src/cli/main.rs",
        "src/lib.rs",
        "docs/guide.md",
        "Cargo.toml",
        "odd/a, b.rs",
        "odd/c.rs",
        "odd/d.rs",
    ];
    let rows: String =
        files.iter().map(|path| format!("| `{path}` | modified | rather long, and not needed |\n")).collect();
    let text = format!(
        "## Problem\nx\n\n### Artifact Trail\n\n| File | Status | Key Change |\n|---|---|---|\n{rows}"
    );
    let fitted = fit(&text, 90, Overflow::Error).unwrap().markdown;
    let lines = "# Files\n- src/engine/store/: one.rs, two.rs, three.rs\n- src/: cli/main.rs, lib.rs\n\
                 - docs/guide.md, Cargo.toml, `odd/a, b.rs`\n- odd/: c.rs, d.rs\n";
    assert!(fitted.contains(lines), "{fitted}");
}

/// The reasons of decisions are removed before the decisions and before the names of active files.
#[test]
fn what_must_be_kept_shrinks_beside_the_names_of_files() {
    let decisions: String = ["one", "two", "three", "four", "five"]
        .map(|n| {
            format!("- Number {n} is stored as it came, because nobody knows who else reads it by now\n")
        })
        .concat();
    let text = format!(
        "## Problem\nThe numbers are wrong.\n\n### Decisions\n{decisions}\n### Artifact Trail\n- `src/a.rs` - modified - x\n\
         - `src/b.rs` - deleted - y\n- `src/c.rs` - created - z\n\n### Next Actions\n- Find the first wrong one\n"
    );
    let least = fit(&text, 1, Overflow::Error).unwrap_err().needed;
    let bare = fit(&text, least, Overflow::Error).unwrap();
    assert!(
        !bare.shrunk && bare.markdown.contains(&decisions) && !bare.markdown.contains("a.rs"),
        "{}",
        bare.markdown
    );
    let beside = fit(&text, least, Overflow::Shrink).unwrap();
    assert!(beside.shrunk && beside.markdown.contains("- src/: a.rs, c.rs\n"), "{}", beside.markdown);
    assert!(beside.markdown.contains("Number five is stored as it came"), "{}", beside.markdown);
    let half = fit(&text, least * 3 / 4, Overflow::Shrink).unwrap().markdown;
    assert!(half.contains("Number one is stored as it came… Number two is stored as it came…"), "{half}");
    assert!(
        half.contains("- src/: a.rs, c.rs\n") && half.contains("# Next\nFind the first wrong one"),
        "{half}"
    );
    let enough = fit(&text, least + 20, Overflow::Shrink).unwrap();
    assert!(!enough.shrunk && enough.markdown.contains(&decisions), "{}", enough.markdown);
}

/// A fenced log is removed line by line, oldest first, and its lines never become headings.
#[test]
fn code_goes_line_by_line() {
    let log: String = (0..40).map(|n| format!("## {n} the pump stopped at once\n")).collect();
    let text = format!(
        "## Problem\nPumps stop.\n\n### Play-By-Play\n- Looked at the log → strange\n\n```text\n{log}```\n- Asked\n"
    );
    let fitted = fit(&text, 200, Overflow::Error).unwrap().markdown;
    assert!(fitted.contains("    ## 39 the pump") && !fitted.contains("## 3 the pump"), "{fitted}");
    assert!(fitted.contains("Looked at the log → strange") && fitted.contains("Asked"), "{fitted}");
    let brief = Brief::parse(fitted.as_str());
    let headings: Vec<_> = brief.sections().iter().map(|section| section.heading.as_str()).collect();
    assert_eq!(headings, ["Problem", "History", "Left Out"]);
}

/// Notes without sections keep their first lines, which state the topic, and their last lines.
#[test]
fn the_first_and_the_last_of_what_has_no_sections() {
    let middle: String = (0..60).map(|n| format!("Then in week {n} it was tried again. ")).collect();
    let text =
        format!("The kiln overheats. It has to be safe.\n\n{middle}\n\nKiln 2 runs now. Next is kiln 3.\n");
    let fitted = fit(&text, 150, Overflow::Error).unwrap().markdown;
    for kept in ["The kiln overheats.", "It has to be safe.", "Kiln 2 runs now.", "Next is kiln 3."] {
        assert!(fitted.contains(kept), "{fitted}");
    }
    assert!(!fitted.contains("week 30 "), "{fitted}");
}

/// If the trail lists a file twice, the newest entry is used.
#[test]
fn the_newest_entry_tells_of_a_file() {
    let others: String = (0..20).map(|n| format!("| `src/f{n}.rs` | modified | x |\n")).collect();
    let text = format!(
        "## Problem\nx\n\n### Artifact Trail\n\n| File | Status | Key Change |\n|---|---|---|\n| `src/back.rs` | deleted | old |\n\
         {others}| `src/back.rs` | created | anew |\n"
    );
    for overflow in [Overflow::Error, Overflow::Shrink] {
        let fitted = fit(&text, 70, overflow).unwrap().markdown;
        assert!(fitted.contains("f19.rs, back.rs"), "{fitted}");
    }
}

/// Joining and splitting lines does not change how they are parsed.
#[test]
fn lines_that_are_joined_stay_what_they_are() {
    let filler = "word ".repeat(60);
    let first =
        ["- # of workers: 8", "#### Backend", "<details>", "- ~~~\n  code\n  ~~~", "- docker build -t app ."];
    for first in first {
        let text = format!(
            "## Problem\nMove it.\n\n### Technical Context\n{first}\n- Node 24\n\n## Notes\n- {filler}\n\n### Next Actions\n\
             - Fix it\n\n## User Rules\n- Never push"
        );
        let fitted = fit(&text, 70, Overflow::Error).unwrap().markdown;
        let brief = Brief::parse(fitted.as_str());
        let kinds: Vec<_> = brief.sections().iter().map(|section| section.kind).collect();
        let wanted = [
            SectionKind::Problem,
            SectionKind::Technical,
            SectionKind::Next,
            SectionKind::Rules,
            SectionKind::LeftOut,
        ];
        assert_eq!(kinds, wanted, "{fitted}");
        assert!(fitted.contains("Node 24") && fitted.contains("- Never push\n## Left Out\n"), "{fitted}");
        assert!(!first.contains("docker") || fitted.contains("-t app .; Node"), "{fitted}");
    }
}

/// A code line that looks like a fence counts as a line, and a shrunk page always has a notice.
#[test]
fn nothing_goes_unsaid() {
    let text = format!(
        "## Problem\nx\n\n### Play-By-Play\n```text\nalpha\n~~~ beta\ngamma\n```\n- {}\n",
        "word ".repeat(40)
    );
    let fitted = fit(&text, 30, Overflow::Error).unwrap();
    assert_eq!(fitted.omitted.iter().map(|o| (o.entries, o.left_out)).collect::<Vec<_>>(), [(4, 4)]);
    let rules = format!("## User Rules\n{}", "- Ask before you push\n\n".repeat(20));
    let shrunk = fit(&rules, TokenCounter::default().tokens(&rules) - 2, Overflow::Shrink).unwrap();
    assert!(shrunk.shrunk && shrunk.markdown.contains("# Left Out\nShrunk"), "{}", shrunk.markdown);
}
