//! Simple ways to truncate a text to a token budget, measured with the default token counter of briefs.

use milepost::brief::Brief;
use milepost::internal::brief::SectionKind;
use milepost::internal::brief::TokenCounter;

fn fits(text: &str, budget: u64) -> bool {
    TokenCounter::default().tokens(text) <= budget
}

/// The largest n up to `of` for which `fits` is true. If some n fits, every smaller n must fit too.
fn most(of: usize, fits: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, of);
    while low < high {
        let middle = (low + high).div_ceil(2);
        if fits(middle) { low = middle } else { high = middle - 1 }
    }
    low
}

fn ends(text: &str) -> Vec<usize> {
    text.char_indices().map(|(at, _)| at).chain([text.len()]).collect()
}

/// The start of the text.
pub fn head(text: &str, budget: u64) -> String {
    let ends = ends(text);
    text[..ends[most(ends.len() - 1, |n| fits(&text[..ends[n]], budget))]].to_owned()
}

/// The end of the text.
pub fn tail(text: &str, budget: u64) -> String {
    let ends = ends(text);
    let last = ends.len() - 1;
    text[ends[last - most(last, |n| fits(&text[ends[last - n]..], budget))]..].to_owned()
}

/// The start and the end, each with half of the budget.
pub fn both(text: &str, budget: u64) -> String {
    if fits(text, budget) {
        return text.to_owned();
    }
    format!("{}\n{}", head(text, budget / 2), tail(text, budget / 2))
}

/// Lines at even intervals.
pub fn uniform(text: &str, budget: u64) -> String {
    let lines: Vec<_> = text.split_inclusive('\n').collect();
    let pick = |n: usize| (0..n).map(|i| lines[i * lines.len() / n.max(1)]).collect::<String>();
    pick(most(lines.len(), |n| fits(&pick(n), budget)))
}

/// Drops whole sections, least important first. If the rest is still too long, keeps its start.
pub fn sections(text: &str, budget: u64) -> String {
    if fits(text, budget) {
        return text.to_owned();
    }
    let brief = Brief::parse(text);
    let order: [&[SectionKind]; 6] = [
        &[
            SectionKind::Delta,
            SectionKind::WhatChanged,
            SectionKind::Transitions,
            SectionKind::Other,
            SectionKind::Breadcrumbs,
        ],
        &[SectionKind::PlayByPlay],
        &[SectionKind::Artifacts],
        &[SectionKind::Technical],
        &[SectionKind::Container],
        &[],
    ];
    let mut gone: Vec<SectionKind> = Vec::new();
    let mut left = String::new();
    for kinds in order {
        gone.extend(kinds);
        let first = brief.sections().first().map_or(text.len(), |s| text.find(brief.source(s)).unwrap_or(0));
        left = text[..first].to_owned();
        left.extend(brief.sections().iter().filter(|s| !gone.contains(&s.kind)).map(|s| brief.source(s)));
        if fits(&left, budget) {
            return left;
        }
    }
    head(&left, budget)
}
