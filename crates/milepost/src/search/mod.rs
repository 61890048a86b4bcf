//! Full-text search over what runs recorded: queries, documents, ranking and excerpts, which are pure, and the index,
//! a SQLite file that is derived from a store. Takes documents and queries, returns hits. Does not read stores:
//! `engine::search` does.

pub(crate) mod document;
mod excerpt;
pub(crate) mod index;
mod query;
mod rank;
mod stem;
mod stop_words;
mod tokens;
mod types;

pub use types::{SearchHit, SearchKind, SearchQuery, SearchResults};

/// Whether a query contains anything to search for.
pub(crate) fn is_searchable(query: &SearchQuery) -> bool {
    !query::ParsedQuery::parse(&query.text, query.prefix_last).is_empty()
}
