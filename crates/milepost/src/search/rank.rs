//! Ranks the documents that the index found. Takes the terms of a query with their rarity, and the text of a
//! document; returns a score and the positions of the matches. Documents with all terms come first, then those in
//! which the terms are rarer, closer together and in order. Pure.

use super::SearchKind;
use super::document::Origin;
use super::excerpt::Match;
use super::query::{ParsedQuery, Term};
use super::tokens::{Token, TokenKind, tokenize};

/// How well a form of a word matches.
const EXACT: f64 = 1.0;
const SAME_STEM: f64 = 0.9;
const PREFIX: f64 = 0.9;
const SIMILAR: f64 = 0.45;
/// The usual number of words of a document, for the effect of its length.
const USUAL_LENGTH: f64 = 40.0;
/// How much a document of today gains over an old one.
const RECENCY: f64 = 0.08;
/// The age in days at which most of that is gone.
const RECENT_DAYS: f64 = 21.0;

/// The terms of a query, each with its weight: the rarer, the higher.
pub(super) struct Ranking<'q> {
    query: &'q ParsedQuery,
    weights: Vec<f64>,
}

/// How well a document matches.
#[derive(Debug, Clone, Default)]
pub(super) struct Ranked {
    pub(super) score: f64,
    pub(super) matches: Vec<Match>,
}

impl<'q> Ranking<'q> {
    /// Weighs each term by the number of documents that contain it, out of `total`.
    pub(super) fn new(query: &'q ParsedQuery, counts: &[u64], total: u64) -> Self {
        let weight = |count: &u64| (1.0 + (total as f64 + 1.0) / (*count as f64 + 1.0)).ln();
        Self { query, weights: counts.iter().map(weight).collect() }
    }

    /// Scores a document. `age_days` is its age.
    pub(super) fn rank(&self, text: &str, kind: SearchKind, origin: Origin, age_days: f64) -> Ranked {
        let tokens = tokenize(text);
        let basic: Vec<&Token> = tokens.iter().filter(|token| token.kind != TokenKind::Identifier).collect();
        let whole: Vec<&Token> = tokens.iter().filter(|token| token.kind == TokenKind::Identifier).collect();
        let length = basic.len().max(1) as f64;
        let sum: f64 = self.weights.iter().sum();
        let (mut coverage, mut frequency) = (0.0, 0.0);
        let mut places: Vec<(usize, usize)> = Vec::new();
        let mut matches = Vec::new();
        for (n, (term, weight)) in self.query.terms.iter().zip(&self.weights).enumerate() {
            let mut found = occurrences(term, &basic);
            if found.is_empty() {
                let quality = |token: &&&Token| form_quality(term, &token.text, None) > 0.0;
                found.extend(whole.iter().filter(quality).map(|token| Occurrence {
                    at: basic.partition_point(|word| word.range.end <= token.range.start),
                    range: token.range.clone(),
                    quality: SAME_STEM,
                }));
            }
            let Some(best) = found.iter().map(|one| one.quality).reduce(f64::max) else { continue };
            coverage += weight * best;
            let count = found.iter().map(|one| one.quality).sum::<f64>();
            frequency +=
                weight * count * 2.2 / (count + 1.2 * (0.5 + 0.5 * (length / USUAL_LENGTH).min(8.0)));
            places.extend(found.iter().take(64).map(|one| (one.at, n)));
            matches.extend(found.into_iter().map(|one| Match { range: one.range, term: n, weight: *weight }));
        }
        matches.sort_by_key(|found| (found.range.start, found.range.end));
        places.sort_unstable();
        let coverage = if sum > 0.0 { coverage / sum } else { 0.0 };
        let frequency = if sum > 0.0 { frequency / sum } else { 0.0 };
        let (closeness, order) = proximity(&places);
        let relevance = 10.0 * coverage * coverage + 2.0 * frequency + coverage * (1.5 * closeness + order);
        let recency = 1.0 + RECENCY * (-age_days.max(0.0) / RECENT_DAYS).exp();
        Ranked { score: relevance * self.kind_weight(kind, origin) * recency, matches }
    }

    /// What was said and decided counts more than what merely mentions a word.
    fn kind_weight(&self, kind: SearchKind, origin: Origin) -> f64 {
        let usual = match (kind, origin) {
            (SearchKind::Decision, _) => 1.1,
            (SearchKind::Prompt, _) | (SearchKind::Failure, _) => 1.05,
            (_, Origin::Outcome) => 0.8,
            (_, Origin::Task | Origin::Criterion) => 0.9,
            (SearchKind::Brief, _) => 0.93,
            (SearchKind::File, _) if self.query.is_path => 1.2,
            (SearchKind::File, _) => 0.85,
            (SearchKind::Summary, _) => 1.0,
        };
        if self.query.kinds.contains(&kind) { usual * 1.12 } else { usual }
    }
}

/// A place where a term occurs.
struct Occurrence {
    /// The number of the word.
    at: usize,
    range: std::ops::Range<usize>,
    quality: f64,
}

/// The places in which a term occurs.
fn occurrences(term: &Term, tokens: &[&Token]) -> Vec<Occurrence> {
    let length = term.words.len();
    let mut found = Vec::new();
    if let [_] = term.words.as_slice() {
        for (at, token) in tokens.iter().enumerate() {
            let quality = form_quality(term, &token.text, token.stem.as_deref());
            if quality > 0.0 {
                found.push(Occurrence { at, range: token.range.clone(), quality });
            }
        }
        return found;
    }
    for (at, window) in tokens.windows(length).enumerate() {
        let last = length - 1;
        let is_match = |(n, (word, token)): (usize, (&String, &&Token))| {
            token.text == *word || (n == last && term.is_prefix && token.text.starts_with(word.as_str()))
        };
        if term.words.iter().zip(window).enumerate().all(is_match) {
            let range = window[0].range.start..window[last].range.end;
            found.push(Occurrence { at, range, quality: EXACT });
        }
    }
    found
}

/// How well a word of a document matches a term of one word.
fn form_quality(term: &Term, word: &str, stem: Option<&str>) -> f64 {
    let wanted = &term.words[0];
    let wanted_stem = term.stem.as_deref().unwrap_or(wanted);
    if word == wanted {
        EXACT
    } else if stem.unwrap_or(word) == wanted_stem {
        SAME_STEM
    } else if term.is_prefix && word.starts_with(wanted.as_str()) {
        PREFIX
    } else if term.similar.as_deref().is_some_and(|start| word.starts_with(start)) {
        SIMILAR
    } else {
        0.0
    }
}

/// How close together the terms are, and which share of neighbouring terms are next to each other in order. Both are
/// between 0 and 1. `places` has the number of the word and of the term.
fn proximity(places: &[(usize, usize)]) -> (f64, f64) {
    let mut terms: Vec<usize> = places.iter().map(|(_, term)| *term).collect();
    terms.sort_unstable();
    terms.dedup();
    if terms.len() < 2 {
        return (0.0, 0.0);
    }
    // The shortest stretch of words that contains every term.
    let mut counts = vec![0usize; terms.last().map_or(0, |last| last + 1)];
    let (mut inside, mut from, mut shortest) = (0, 0, usize::MAX);
    for (to, (end, term)) in places.iter().enumerate() {
        counts[*term] += 1;
        inside += usize::from(counts[*term] == 1);
        while inside == terms.len() {
            shortest = shortest.min(end - places[from].0 + 1);
            counts[places[from].1] -= 1;
            inside -= usize::from(counts[places[from].1] == 0);
            from += 1;
        }
        debug_assert!(from <= to + 1);
    }
    let closeness = terms.len() as f64 / shortest.max(terms.len()) as f64;
    let is_next = |pair: &&[usize]| {
        places.iter().any(|(at, term)| {
            *term == pair[0]
                && places.iter().any(|(next, other)| *other == pair[1] && *next > *at && next - at <= 2)
        })
    };
    let in_order = terms.windows(2).filter(is_next).count();
    (closeness, in_order as f64 / (terms.len() - 1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn score(query: &str, text: &str) -> f64 {
        let query = ParsedQuery::parse(query, false);
        let counts = vec![10; query.terms.len()];
        Ranking::new(&query, &counts, 1000).rank(text, SearchKind::Summary, Origin::Summary, 100.0).score
    }

    fn assert_order(query: &str, texts: &[&str]) {
        let scores: Vec<f64> = texts.iter().map(|text| score(query, text)).collect();
        assert!(scores.is_sorted_by(|a, b| a > b), "{query}: {scores:?}");
    }

    #[test]
    fn more_terms_and_closer_terms_rank_higher() {
        assert_order("token bucket", &["the token bucket", "a bucket for each token", "a token", "nothing"]);
        assert_order("migrations", &["migrations", "the migration", "migratory"]);
        assert_order("登录超时", &["登录超时", "登录", "超人"]);
    }

    #[test]
    fn matches_are_in_the_original_text() {
        let query = ParsedQuery::parse("parseConfig größe", false);
        let ranking = Ranking::new(&query, &[1, 1, 1], 10);
        let text = "die GRÖSSE von parse_config()";
        let ranked = ranking.rank(text, SearchKind::Summary, Origin::Note, 0.0);
        let words: Vec<_> = ranked.matches.iter().map(|found| &text[found.range.clone()]).collect();
        assert_eq!(words, ["GRÖSSE", "parse", "config"]);
    }
}
