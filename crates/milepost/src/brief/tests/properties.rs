//! Properties that hold for every text, every pair of briefs and every budget.

use proptest::prelude::*;

use super::super::blocks::normalize_text;
use super::super::tokens::HeuristicTokenizer;
use super::super::*;

/// A unique phrase, which stands for a fact.
fn fact() -> impl Strategy<Value = String> {
    "[a-m]{3,9} [a-m]{3,9} q[0-9]{4}z"
}

/// Lines of content in several notations.
fn lines() -> impl Strategy<Value = String> {
    let line = (fact(), 0..8_u8).prop_map(|(fact, way)| match way {
        0 => format!("- {fact} because of reasons that go on and on\n"),
        1 => format!("* **{fact}**: rationale (rejected: others)\n"),
        2 => format!("- Phase 1 → {fact} → Complete\n"),
        3 => format!("  - {fact}\n    more of it\n"),
        4 => format!("{fact}. Another sentence follows it here. And one more.\n\n"),
        5 => format!("1. {fact} -> {fact}\n\n"),
        6 => format!("```\n## {fact}\n```\n"),
        _ => format!("- {fact}\n"),
    });
    prop::collection::vec(line, 0..7).prop_map(|lines| lines.concat())
}

fn rows() -> impl Strategy<Value = String> {
    let status =
        prop::sample::select(vec!["created", "modified", "deleted", "renamed", "done", "synced", ""]);
    let folder = prop::sample::select(vec!["src/", "src/", "src/io/", "src/deep/er/", "docs/", "s1/", "s2/"]);
    let row =
        (folder, "[a-d]{0,2}", "[a-z]{1,8}", status, fact()).prop_map(|(top, below, name, status, fact)| {
            let slash = if below.is_empty() { "" } else { "/" };
            format!("| `{top}{below}{slash}{name}.rs` | {status} | {fact} |\n")
        });
    prop::collection::vec(row, 0..12).prop_map(|rows| {
        format!("\n| File | Status | Key Change |\n|------|--------|------------|\n{}", rows.concat())
    })
}

/// A brief with some sections in any order, including repeated and unknown ones, possibly with deltas.
fn brief() -> impl Strategy<Value = String> {
    let heading = prop::sample::select(vec![
        "## Problem",
        "## Session Intent",
        "## Essential Information",
        "### Decisions",
        "### Technical Context",
        "### Play-By-Play",
        "### Current State",
        "### Next Actions",
        "## User Rules",
        "## Something Else",
        "### Breadcrumbs",
        "## Delta: 2026-01-01",
        "### What Changed",
        "# Title",
        "### Next Steps",
    ]);
    let section = (heading, lines()).prop_map(|(heading, lines)| format!("{heading}\n{lines}\n"));
    let trail = rows().prop_map(|rows| format!("### Artifact Trail\n{rows}\n"));
    let front = prop::option::of("checkpoint: [a-z]{1,6}\ncreated: 2026-01-01T00:00:00Z\n");
    let all = prop::collection::vec(prop_oneof![4 => section, 1 => trail], 0..14);
    (front, all).prop_map(|(front, all)| {
        let front = front.map_or(String::new(), |front| format!("---\n{front}---\n\n"));
        format!("{front}{}", all.concat())
    })
}

/// Text that resembles a brief.
fn nearly() -> impl Strategy<Value = String> {
    let bit = prop::sample::select(vec![
        "---\n",
        "\u{feff}",
        "```",
        "~~~~\n",
        "## Problem",
        "\r\n",
        "\n",
        " ",
        "|",
        "\\|",
        "`",
        "<!--",
        "-->",
        "- ",
        "1. ",
        "### Decisions\n",
        "=====\n",
        "> ",
        "\t",
        "a: b\n",
        "...\n",
        "→",
        "->",
        "é",
        "中",
        "🎯",
        "~~",
        "**",
        "x",
        "#",
        "    ",
        "## Delta: x\n",
        "| a | b |\n|---|---|\n",
        "\0",
    ]);
    let noise = any::<char>().prop_map(String::from);
    let bits = prop_oneof![9 => bit.prop_map(str::to_owned), 1 => noise];
    prop::collection::vec(bits, 0..60).prop_map(|bits| bits.concat())
}

/// Lines with every kind of start that affects where headings are.
fn lines_of_all_kinds() -> impl Strategy<Value = String> {
    let indent = prop::sample::select(vec!["", "", "", " ", "  ", "   ", "    ", "\t", "  \t"]);
    let mark = prop::sample::select(vec!["", "", "- ", "* ", "+", "1. ", "12) ", "> ", ">", "-", "1."]);
    let body = prop::sample::select(vec![
        "",
        "x",
        "## Problem",
        "#",
        "#x",
        "####### x",
        "#\u{b}x",
        "## x ##",
        "---",
        "--",
        "-",
        "===",
        "=",
        "= =",
        "***",
        "- - -",
        "___",
        "```",
        "````",
        "``` x`y",
        "~~~",
        "~~~ x",
        "~~~~  ",
        "```\t",
        "<!--",
        "-->",
        "<!-- x -->",
        "<!-->",
        "<div>",
        "</div>",
        "<b>",
        "< 5",
        "<?x",
        "<!X",
        "[a]: b",
        "[a",
        "b]: c",
        "[a\\]: b",
        "[ ] x",
        "[x]",
        "| a | b |",
        "|---|---|",
        "|",
        "--- | ---",
        "\\# x",
        "\u{c}",
        "\0",
        "*x*",
        "`x",
        "é",
        "\u{a0}",
        "1.",
        "1986.",
        "x  ",
        "\"t\"",
        "<pre>",
        "</pre>",
        "<a",
    ]);
    let end = prop_oneof![12 => Just("\n"), 2 => Just("\r\n"), 1 => Just("\r"), 3 => Just("\n\n")];
    let line =
        (indent, mark, body, end).prop_map(|(indent, mark, body, end)| format!("{indent}{mark}{body}{end}"));
    prop::collection::vec(line, 0..12).prop_map(|lines| lines.concat())
}

fn budget() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), Just(1), Just(u64::MAX), 0_u64..80, 60_u64..900]
}

fn fit(text: &str, budget: u64, overflow: Overflow) -> Result<FittedBrief, OverBudget> {
    Brief::parse(text).fit(&FitOptions {
        budget,
        overflow,
        full_command: Some("milepost brief show x".into()),
        ..FitOptions::default()
    })
}

/// The facts that a text contains, and the files that it names.
fn facts(text: &str) -> std::collections::BTreeSet<String> {
    let normal = normalize_text(text);
    let words: Vec<_> = normal.split(' ').collect();
    let mut found: std::collections::BTreeSet<String> = words
        .windows(3)
        .map(|w| (w, w[2].trim_end_matches(|c: char| !c.is_alphanumeric())))
        .filter(|(_, key)| key.len() == 6 && key.starts_with('q') && key.ends_with('z'))
        .map(|(w, key)| format!("{} {} {key}", w[0], w[1]))
        .collect();
    found.extend(paths(text));
    found
}

/// The files that a text names, including those in folder lines.
fn paths(text: &str) -> std::collections::BTreeSet<String> {
    let mut found = std::collections::BTreeSet::new();
    let is_path = |word: &&str| word.starts_with(['s', 'd']) && word.contains('/') && word.ends_with(".rs");
    for line in text.lines() {
        let group = line.strip_prefix("- ").and_then(|line| line.split_once("/: "));
        let (folder, names) =
            group.map_or((String::new(), line), |(folder, names)| (format!("{folder}/"), names));
        let words = names.split(['`', ' ', ':', ',', ';']).filter(|name| name.ends_with(".rs"));
        found.extend(words.map(|name| format!("{folder}{name}")).filter(|path| is_path(&path.as_str())));
    }
    found
}

/// The unfinished files in a brief's trail.
fn active(text: &str) -> std::collections::BTreeSet<String> {
    let finished = ["| deleted |", "| renamed |", "| done |", "| synced |"];
    let lines =
        text.lines().filter(|line| line.starts_with("| `") && !finished.iter().any(|is| line.contains(is)));
    paths(&lines.collect::<Vec<_>>().join("\n"))
}

fn must(text: &str) -> Vec<String> {
    let brief = Brief::parse(text);
    let kept = brief.sections().iter().filter(|section| section.kind.must_keep());
    kept.map(|section| brief.source(section).trim_end().to_owned()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_read_and_given_back(text in prop_oneof![nearly(), any::<String>(), brief()]) {
        let brief = Brief::parse(text.as_str());
        prop_assert_eq!(brief.markdown(), text.as_str());
        let _ = brief.check();
        let _ = fit(&text, 70, Overflow::Shrink);
        let pieces: String = split_sections(&text).into_iter().map(|(_, piece)| piece).collect();
        prop_assert_eq!(pieces, text.as_str());
    }

    #[test]
    fn lines_that_show_what_they_are_are_read_as_by_a_parser(text in prop_oneof![nearly(), lines_of_all_kinds(), brief()]) {
        prop_assert_eq!(headings::find_headings(&text, 0), headings::parse_headings(&text, 0));
    }

    #[test]
    fn bytes_are_text_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        match (Brief::from_bytes(bytes.clone()), std::str::from_utf8(&bytes)) {
            (Ok(brief), Ok(text)) => prop_assert_eq!(brief.markdown(), text),
            (Err(e), Err(wrong)) => prop_assert_eq!(e.at, wrong.valid_up_to()),
            (one, other) => prop_assert!(false, "{one:?} {other:?}"),
        }
    }

    #[test]
    fn never_over_budget_and_the_same_again(text in prop_oneof![4 => brief(), 1 => nearly()], budget in budget()) {
        for overflow in [Overflow::Error, Overflow::Shrink] {
            let fitted = fit(&text, budget, overflow);
            prop_assert_eq!(&fitted, &fit(&text, budget, overflow));
            match fitted {
                Ok(fitted) => {
                    prop_assert!(fitted.tokens <= budget && TokenCounter::default().tokens(&fitted.markdown) == fitted.tokens);
                    let again = fit(&fitted.markdown, budget, overflow);
                    prop_assert_eq!(again.map(|f| f.markdown), Ok(fitted.markdown.clone()));
                    if !fitted.shrunk {
                        for section in must(&text) {
                            prop_assert!(fitted.markdown.contains(&section), "{section}\n---\n{}", fitted.markdown);
                        }
                    } else if let Ok(bare) = fit(&text, budget, Overflow::Error) {
                        // The sections that must be kept would fit, but not together with the names of files.
                        prop_assert!(!active(&text).is_subset(&paths(&bare.markdown)), "{}", bare.markdown);
                    }
                }
                Err(e) => {
                    prop_assert!(e.needed > budget);
                    prop_assert!(overflow == Overflow::Error || budget < 60, "{}", e.needed);
                    // It fits if the budget is the reported size.
                    let enough = fit(&text, e.needed, overflow);
                    prop_assert!(enough.is_ok(), "{enough:?}");
                }
            }
        }
    }

    #[test]
    fn a_larger_budget_never_loses_a_fact(text in brief(), mut budgets in prop::collection::vec(budget(), 2..6)) {
        budgets.sort_unstable();
        for overflow in [Overflow::Error, Overflow::Shrink] {
            let mut before = std::collections::BTreeSet::new();
            for budget in &budgets {
                let Ok(fitted) = fit(&text, *budget, overflow) else { continue };
                let now = facts(&fitted.markdown);
                prop_assert!(before.is_subset(&now), "{budget}: {:?}", before.difference(&now));
                before = now;
            }
            prop_assert!(before.is_subset(&facts(&text)));
        }
    }

    #[test]
    fn merging_twice_is_merging_once_and_decisions_stay(previous in brief(), update in brief()) {
        let (previous, update) = (Brief::parse(previous), Brief::parse(update));
        let merged = previous.merge(&update);
        let again = merged.brief.merge(&update);
        prop_assert_eq!(again.brief.markdown(), merged.brief.markdown());
        let settled = previous.merge(&previous).brief;
        prop_assert_eq!(settled.merge(&settled).brief.markdown(), settled.markdown());
        let decisions = |brief: &Brief| -> Vec<String> {
            let all: String = brief.sections_of_kind(SectionKind::Decisions).map(|section| brief.content(section)).collect();
            facts(&all).into_iter().collect()
        };
        let kept = decisions(&merged.brief);
        for decision in decisions(&previous).iter().chain(&decisions(&update)) {
            prop_assert!(kept.contains(decision), "{decision} is gone from {}", merged.brief);
        }
    }

    #[test]
    fn any_two_texts_can_be_merged(previous in nearly(), update in nearly()) {
        let (previous, update) = (Brief::parse(previous), Brief::parse(update));
        let _ = previous.merge(&update);
    }

    #[test]
    fn lines_add_up(text in prop_oneof![nearly(), any::<String>()]) {
        let by_line: u64 = text.split_inclusive('\n').map(|line| HeuristicTokenizer.quarters(line)).sum();
        prop_assert_eq!(by_line, HeuristicTokenizer.quarters(&text));
    }
}
