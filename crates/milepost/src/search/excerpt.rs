//! Chooses the part of a text to show for a hit: the line with the most matches, with a line before and after
//! it. Takes the original text and the positions of matches, and returns plain text with positions in it. Pure.

use std::ops::Range;

/// Maximum number of characters of the line with the matches.
const LINE: usize = 240;
/// Maximum number of characters of the lines around it.
const CONTEXT_LINE: usize = 120;
/// How many characters are kept before the first match of a long line.
const BEFORE: usize = 60;
const ELLIPSIS: &str = "…";

/// A part of a text, with the positions of matching words in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Excerpt {
    pub(super) text: String,
    pub(super) matches: Vec<Range<usize>>,
}

/// A match in the original text, and how much it contributes.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Match {
    pub(super) range: Range<usize>,
    pub(super) term: usize,
    pub(super) weight: f64,
}

/// The excerpt for these matches, which are in the order of the text.
pub(super) fn excerpt(text: &str, matches: &[Match]) -> Excerpt {
    let lines = lines(text);
    let Some(best) = best_line(&lines, matches) else { return Excerpt::default() };
    let not_empty = |line: &&Range<usize>| !text[(*line).clone()].trim().is_empty();
    let before = lines[..best].iter().rev().take(2).find(not_empty);
    let after = lines[best + 1..].iter().take(2).find(not_empty);
    let mut shown = Excerpt::default();
    if let Some(line) = before {
        shown.add(text, line, CONTEXT_LINE, matches);
    }
    shown.add(text, &lines[best], LINE, matches);
    if let Some(line) = after {
        shown.add(text, line, CONTEXT_LINE, matches);
    }
    shown
}

/// The positions of the lines of a text.
fn lines(text: &str) -> Vec<Range<usize>> {
    let mut start = 0;
    let mut lines = Vec::new();
    for line in text.split_inclusive('\n') {
        let content = line.trim_end();
        lines.push(start..start + content.len());
        start += line.len();
    }
    lines
}

/// The line whose matches have the highest weight, counting each term once; the first such line.
fn best_line(lines: &[Range<usize>], matches: &[Match]) -> Option<usize> {
    let weight = |line: &Range<usize>| {
        let mut seen = Vec::new();
        let inside =
            matches.iter().filter(|found| line.start <= found.range.start && found.range.end <= line.end);
        inside.fold(0.0, |sum, found| {
            if seen.contains(&found.term) {
                return sum;
            }
            seen.push(found.term);
            sum + found.weight
        })
    };
    let mut best = None;
    for (n, line) in lines.iter().enumerate() {
        let weight = weight(line);
        if best.is_none_or(|(_, most)| weight > most) {
            best = Some((n, weight));
        }
    }
    best.map(|(n, _)| n)
}

impl Excerpt {
    /// Adds a line, or the part of it around its first match.
    fn add(&mut self, text: &str, line: &Range<usize>, most: usize, matches: &[Match]) {
        let content = &text[line.clone()];
        let indent = content.len() - content.trim_start().len();
        let start = line.start + indent;
        let first = matches.iter().find(|found| found.range.start >= start && found.range.end <= line.end);
        let chars: Vec<usize> = text[start..line.end].char_indices().map(|(at, _)| start + at).collect();
        let first = first.map_or(0, |found| chars.partition_point(|at| *at < found.range.start));
        let from = if chars.len() <= most { 0 } else { first.saturating_sub(BEFORE).min(chars.len() - most) };
        let end = chars.get(from + most).copied().unwrap_or(line.end);
        let from = chars.get(from).copied().unwrap_or(line.end);
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        if from > start {
            self.text.push_str(ELLIPSIS);
        }
        let offset = self.text.len();
        self.text.push_str(&text[from..end]);
        let inside = matches.iter().filter(|found| from <= found.range.start && found.range.end <= end);
        for found in inside {
            let range = offset + found.range.start - from..offset + found.range.end - from;
            match self.matches.last_mut() {
                // Parts of an identifier, and characters in sequence, are one match.
                Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                _ => self.matches.push(range),
            }
        }
        if end < line.end {
            self.text.push_str(ELLIPSIS);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn found(text: &str, words: &[&str]) -> Vec<Match> {
        let mut all: Vec<Match> = words
            .iter()
            .enumerate()
            .flat_map(|(term, word)| {
                text.match_indices(word).map(move |(at, _)| Match {
                    range: at..at + word.len(),
                    term,
                    weight: 1.0,
                })
            })
            .collect();
        all.sort_by_key(|found| found.range.start);
        all
    }

    #[test]
    fn the_line_with_most_matches_is_shown_with_its_neighbours() {
        let text = "first\nred\n\n  red green\nlast\nmore";
        let shown = excerpt(text, &found(text, &["red", "green"]));
        assert_eq!(shown.text, "red\nred green\nlast");
        let words: Vec<_> = shown.matches.iter().map(|range| &shown.text[range.clone()]).collect();
        assert_eq!(words, ["red", "red", "green"]);
    }

    #[test]
    fn a_long_line_is_cut_around_its_match() {
        let text = format!("{} needle {}", "a".repeat(1000), "b".repeat(1000));
        let shown = excerpt(&text, &found(&text, &["needle"]));
        assert!(shown.text.starts_with('…') && shown.text.ends_with('…'), "{}", shown.text);
        assert_eq!(&shown.text[shown.matches[0].clone()], "needle");
        assert!(shown.text.chars().count() <= LINE + 2);
    }

    proptest! {
        #[test]
        fn matches_are_inside_the_excerpt(text in "(\\PC|\n){0,400}", word in "[a-c]") {
            let shown = excerpt(&text, &found(&text, &[&word]));
            for range in &shown.matches {
                prop_assert!(shown.text.get(range.clone()).is_some_and(|part| part.contains(&word)));
            }
        }
    }
}
