//! The public types of a search: what to search for, and what was found.

use std::ops::Range;

use derive_getters::Getters;
use jiff::Timestamp;
use serde::Serialize;

use crate::model::{CheckpointId, RunId, closed_enum};

closed_enum! {
    /// What kind of text a hit is.
    #[cfg_attr(not(feature = "internal"), non_exhaustive)]
    pub enum SearchKind {
        /// The user's prompts, and answers to questions.
        Prompt = "prompt",
        /// Decisions.
        Decision = "decision",
        /// Commands that failed, with their output.
        Failure = "failure",
        /// Paths of files.
        File = "file",
        /// Sections of briefs.
        Brief = "brief",
        /// Summaries, titles, notes, plans, replies, tasks and commands that did not fail.
        Summary = "summary",
    }
}

options! {
    /// What to search for. Words are searched for in any order; documents that contain all of them come first.
    /// `"a phrase"`, `prefix*` and `-excluded` are supported, and any other text is taken literally.
    #[derive(Debug, Clone)]
    pub struct SearchQuery {
        /// The words to search for.
        pub(crate) text: String,
        /// Only hits of these kinds; all kinds if empty.
        pub(crate) kinds: Vec<SearchKind>,
        /// Only texts that were recorded at or after this time.
        pub(crate) since: Option<Timestamp>,
        /// Only runs of this agent.
        pub(crate) agent: Option<String>,
        /// Only this run.
        pub(crate) run: Option<RunId>,
        /// Maximum number of hits (0 = no limit).
        pub(crate) limit: usize [number],
        /// Treats the last word as the start of a word, for a search while the user is typing.
        pub(crate) prefix_last: bool,
    }
}

impl SearchQuery {
    /// Default number of hits.
    pub(crate) const LIMIT: usize = 10;

    /// Searches for a text: at most 10 hits of all kinds.
    pub fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            kinds: Vec::new(),
            since: None,
            agent: None,
            run: None,
            limit: Self::LIMIT,
            prefix_last: false,
        }
    }
}

impl SearchQuery {
    /// Whether the text contains a word to search for. A search without one fails.
    pub fn has_words(&self) -> bool {
        super::is_searchable(self)
    }
}

/// A text that matches a query.
#[derive(Getters, Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct SearchHit {
    /// The run in which it was recorded.
    #[serde(rename = "run")]
    pub(crate) run_id: RunId,
    /// The newest checkpoint that contains it; `None` if it is not part of a checkpoint, or not yet.
    pub(crate) checkpoint: Option<CheckpointId>,
    /// The number of that checkpoint within the run.
    #[getter(copy)]
    pub(crate) sequence: Option<u64>,
    /// The kind of text.
    #[getter(copy)]
    pub(crate) kind: SearchKind,
    /// Where the text was recorded, more precisely than the kind: `prompt`, `answer`, `note`, `reply` and so on.
    #[getter(skip)]
    pub(crate) origin: &'static str,
    /// When it was recorded.
    #[getter(copy)]
    pub(crate) at: Timestamp,
    /// How well it matches. Scores of different queries cannot be compared.
    #[getter(copy)]
    pub(crate) score: f64,
    /// The lines that match best, with a line before and after them. Secrets are replaced.
    pub(crate) excerpt: String,
    /// The byte ranges of the matching words in the excerpt, in order.
    #[serde(skip)]
    pub(crate) matches: Vec<Range<usize>>,
    /// What the run is about.
    pub(crate) about: Option<String>,
    /// The agent that did the work.
    pub(crate) agent: Option<String>,
}

impl SearchHit {
    /// Where the text was recorded, more precisely than the kind: `prompt`, `answer`, `note`, `reply` and so on.
    pub fn origin(&self) -> &str {
        self.origin
    }

    /// The name of the checkpoint as `RUN@N`, or the run if the text is not part of a checkpoint.
    pub fn reference(&self) -> String {
        match self.sequence {
            Some(sequence) => format!("{}@{sequence}", self.run_id),
            None => self.run_id.to_string(),
        }
    }
}

/// The hits of a search, best first.
#[derive(Getters, Debug, Clone, Default)]
#[non_exhaustive]
pub struct SearchResults {
    /// The hits.
    pub(crate) hits: Vec<SearchHit>,
    /// Whether there are more hits than the limit.
    #[getter(copy)]
    pub(crate) has_more: bool,
    /// Whether another process was still building the index, so that hits may be missing.
    #[getter(copy)]
    pub(crate) is_incomplete: bool,
}
