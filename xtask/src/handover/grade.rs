//! Grades a text. Takes the text that arrived and a story's labels, and returns which facts it contains and
//! which stale facts it presents as current. Pure.

use std::collections::BTreeSet;

use super::story::{Fact, FactClass, StaleFact, Story};

/// What a text says about a story.
pub struct Grade<'a> {
    /// Each fact, and whether the text contains it.
    pub facts: Vec<(&'a Fact, bool)>,
    /// Stale facts that the text presents as current.
    pub stale: Vec<&'a StaleFact>,
}

/// Compares a text with the labels of a story.
pub fn grade<'a>(story: &'a Story, text: &str) -> Grade<'a> {
    let whole = normalize(text);
    let grouped = grouped_paths(text);
    let contains = |fact: &Fact| {
        fact.any.iter().any(|wanted| {
            let wanted = normalize(wanted);
            match fact.class {
                FactClass::File => contains_path(&whole, &wanted) || grouped.contains(&wanted),
                _ => whole.contains(&wanted),
            }
        })
    };
    let current = current_lines(text);
    let is_current = |stale: &&StaleFact| {
        let wanted = normalize(&stale.text);
        current.iter().any(|line| line.contains(&wanted) && !is_marked_as_over(&line.replace(&wanted, " ")))
    };
    Grade {
        facts: story.facts.iter().map(|fact| (fact, contains(fact))).collect(),
        stale: story.stale.iter().filter(is_current).collect(),
    }
}

/// Converts to lower case and single spaces, without quotes and Markdown markers.
pub fn normalize(text: &str) -> String {
    let is_marker = |c: &char| "*_>|~`\"'“”„‘’«»".contains(*c);
    let bare: String = text.to_lowercase().chars().filter(|c| !is_marker(c)).collect();
    bare.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Whether a normalized text contains a path, and not only a longer path that ends or begins like it.
fn contains_path(text: &str, path: &str) -> bool {
    let is_name = |c: char| c.is_alphanumeric() || c == '-';
    text.match_indices(path).any(|(at, _)| {
        let before = text[..at].strip_suffix("./").unwrap_or(&text[..at]);
        let continues = before.ends_with(|c| is_name(c) || "./".contains(c));
        !continues && !text[at + path.len()..].starts_with(is_name)
    })
}

/// The paths in lines that list a folder and the names of its files, such as `- src/: a.rs, b.rs`.
fn grouped_paths(text: &str) -> BTreeSet<String> {
    let mut paths = BTreeSet::new();
    for line in text.lines() {
        if let Some((folder, names)) = line.strip_prefix("- ").and_then(|rest| rest.split_once("/: ")) {
            let names = names.split("; ").flat_map(|some| some.split(", "));
            let bare = names.map(|name| name.split_once(": ").map_or(name, |(name, _)| name));
            paths.extend(bare.map(|name| normalize(&format!("{folder}/{name}"))));
        }
    }
    paths
}

/// Sections that quote the user or the agent's last message. Quotes are dated and may mention what no longer
/// holds.
const QUOTING_SECTIONS: [&str; 4] = ["problem", "session intent", "what the user said", "last message"];
/// The start of a line that quotes the user or the agent, after list and quote markers.
const QUOTING_LINES: [&str; 4] = ["user:", "assistant:", "prompt:", "last message:"];

/// The lines of a text that can present something as current, normalized. Leaves out front matter, sections
/// and lines that quote the user or the agent's last message, and struck-through text.
fn current_lines(text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let (mut in_front_matter, mut in_quotes) = (false, false);
    let mut following = text.lines().skip(1);
    for line in text.lines() {
        let (line, next) = (line.trim(), following.next().unwrap_or_default());
        if line == "---" {
            // A `---` that is not followed by a field only separates sections.
            in_front_matter = !in_front_matter && next.contains(": ") && !next.starts_with(['-', '#']);
            continue;
        }
        if let Some(heading) = line.strip_prefix('#') {
            let heading = normalize(heading);
            in_quotes = QUOTING_SECTIONS.iter().any(|name| heading.contains(name));
        }
        let bare = line.trim_start_matches(['-', '>', '*', ' ']).to_lowercase();
        let is_quote =
            in_quotes || line.starts_with('>') || QUOTING_LINES.iter().any(|start| bare.starts_with(start));
        if !in_front_matter && !is_quote {
            lines.push(normalize(&without_struck_through(line)));
        }
    }
    lines
}

fn without_struck_through(line: &str) -> String {
    line.split("~~").step_by(2).collect::<Vec<_>>().join(" ")
}

/// Whether the rest of a normalized line says that what it names is finished, was fixed or no longer holds.
/// A line about a failure may also quote how many tests passed, so it needs clearer words.
fn is_marked_as_over(rest: &str) -> bool {
    const OVER: [&str; 5] = ["[x]", "replaced", "rejected", "superseded", "cancelled"];
    const FIXED: [&str; 4] = ["passed later", "later passed", "passed since", "since passed"];
    const FINISHED: [&str; 5] = [" done", "completed", "passed", "→ pass", "exit 0"];
    let says = |words: &[&str]| words.iter().any(|word| rest.contains(word));
    says(&OVER) || says(&FIXED) || says(&FINISHED) && !rest.contains("fail")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn story() -> Story {
        let events = r#"[{"prompt": "Never touch the billing folder"}, {"edit": "src/a.rs"}]"#;
        let text = format!(
            r#"{{"about": "a", "language": "en", "sessions": [{{"events": {events}, "end": "kill"}}],
                "facts": [
                    {{"class": "constraint", "any": ["do not", "never touch the billing folder"]}},
                    {{"class": "file", "any": ["src/a.rs"]}}
                ],
                "stale": [{{"class": "failure", "text": "cargo test parser"}}]}}"#
        );
        Story::parse("story", &text).unwrap()
    }

    #[test]
    fn facts_are_found_despite_case_line_breaks_and_markers() {
        let story = story();
        let found =
            |text: &str| grade(&story, text).facts.iter().map(|(_, is_there)| *is_there).collect::<Vec<_>>();
        assert_eq!(found("> \"NEVER touch\n> the **billing** folder\" in `src/a.rs`"), [true, true]);
        assert_eq!(found("- src/: b.rs, a.rs: new; c.rs"), [false, true]);
        assert_eq!(found("never touch the folder; ./src/a.rs."), [false, true]);
        assert_eq!(found("src/a.rsx, mysrc/a.rs, docs/src/a.rs"), [false, false]);
    }

    #[test]
    fn a_stale_fact_counts_only_where_it_is_presented_as_current() {
        let story = story();
        let is_stale = |text: &str| !grade(&story, text).stale.is_empty();
        for current in [
            "- `cargo test parser` failed",
            "## What the user said\n> x\n\n## Failures\n- cargo test parser",
            "- cargo test parser failed: 3 passed, 1 failed",
            "- [ ] make cargo test parser pass",
            "- tool: cargo test parser → exit 101",
        ] {
            assert!(is_stale(current), "{current}");
        }
        for exempt in [
            "## What the user said\n- run cargo test parser",
            "## The agent's last message\n\ncargo test parser fails",
            "> cargo test parser",
            "- user: run cargo test parser",
            "- ~~cargo test parser~~",
            "- [x] make cargo test parser pass",
            "- cargo test parser: passed",
            "- Command → shell `cargo test parser` → PASS in 32 ms",
            "- cargo test parser failed at 10:20, passed later",
            "- cargo test parser (superseded)",
            "tool: cargo test parser → exit 0",
            "---\nnext: cargo test parser\n---\n",
            "cargo test",
        ] {
            assert!(!is_stale(exempt), "{exempt}");
        }
    }
}
