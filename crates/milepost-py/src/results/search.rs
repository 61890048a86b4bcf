//! Results of a search.

use super::{Time, optional_text, result, text};

result! {
    /// A text that matches a query.
    pub(crate) struct SearchHit shows kind, reference, excerpt {
        run_id: String,
        /// The newest checkpoint that contains it as `RUN@N`, or the run.
        reference: String,
        /// The id of that checkpoint.
        checkpoint: Option<String>,
        /// `prompt`, `decision`, `failure`, `file`, `brief` or `summary`.
        kind: String,
        at: Time,
        score: f64,
        /// The lines that match best.
        excerpt: String,
        /// The matching words in the excerpt: the first character, and the one after the last.
        matches: Vec<(usize, usize)>,
        /// What the run is about.
        about: Option<String>,
        agent: Option<String>,
    }
}

impl From<&milepost::SearchHit> for SearchHit {
    fn from(hit: &milepost::SearchHit) -> Self {
        let excerpt = hit.excerpt();
        let characters = |bytes: usize| excerpt.get(..bytes).map_or(0, |before| before.chars().count());
        Self {
            run_id: text(hit.run_id()),
            reference: hit.reference(),
            checkpoint: optional_text(hit.checkpoint().as_ref()),
            kind: text(hit.kind()),
            at: Time(hit.at()),
            score: hit.score(),
            excerpt: excerpt.clone(),
            matches: hit.matches().iter().map(|m| (characters(m.start), characters(m.end))).collect(),
            about: hit.about().clone(),
            agent: hit.agent().clone(),
        }
    }
}

result! {
    /// The hits of a search, best first.
    pub(crate) struct SearchResults shows hits, has_more {
        hits: Vec<SearchHit>,
        /// There are more hits than the limit.
        has_more: bool,
        /// Another process was still building the index, so hits may be missing.
        is_incomplete: bool,
    }
}

impl From<&milepost::SearchResults> for SearchResults {
    fn from(results: &milepost::SearchResults) -> Self {
        Self {
            hits: results.hits().iter().map(SearchHit::from).collect(),
            has_more: results.has_more(),
            is_incomplete: results.is_incomplete(),
        }
    }
}
