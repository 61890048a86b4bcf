//! Search in one project or in all, while the user types.

use axum::extract::{Query, State};
use axum::response::{IntoResponse as _, Response};
use jiff::Timestamp;
use maud::{Markup, html};
use milepost::{AllowList, SearchHit, SearchKind, SearchQuery, SearchResults};
use serde::Deserialize;

use super::layout::{Page, checkpoint_address, error_page, project_address, run_address};
use super::overview::folder;
use super::parts::time;
use super::{PageError, SharedState, open, read};
use crate::projects::UnreadableProject;
use crate::text::{Shown, make_visible};
use milepost::internal::humanize::counted;

/// Number of hits on a page.
const MAX_HITS: usize = 50;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct SearchParameters {
    /// What to search for.
    q: String,
    /// The key of the project; empty to search all.
    project: String,
    /// The kind of text; empty for all.
    kind: String,
}

/// A hit and its project.
struct PlacedHit {
    key: String,
    root: String,
    hit: SearchHit,
}

/// What a search found.
#[derive(Default)]
struct Found {
    hits: Vec<PlacedHit>,
    has_more: bool,
    is_incomplete: bool,
    unreadable: Vec<UnreadableProject>,
}

impl Found {
    fn add(&mut self, key: &str, root: &str, results: SearchResults) {
        self.has_more |= results.has_more();
        self.is_incomplete |= results.is_incomplete();
        let hits = results.hits().iter().cloned();
        self.hits.extend(hits.map(|hit| PlacedHit { key: key.to_owned(), root: root.to_owned(), hit }));
    }
}

pub(super) async fn answer(
    State(state): State<SharedState>,
    Query(parameters): Query<SearchParameters>,
) -> Response {
    // The first search of a large store takes a while. Other pages must not wait for it.
    let permit = std::sync::Arc::clone(&state.searches).acquire_owned().await;
    let page = read(state, move |state| {
        let _permit = permit;
        page(state, &parameters)
    });
    match page.await {
        Ok(page) => page.into_response(),
        Err(error) => error_page(&error),
    }
}

fn page(state: &SharedState, parameters: &SearchParameters) -> Result<Page, PageError> {
    let kind = parameters.kind.parse::<SearchKind>().ok();
    let projects = match parameters.project.as_str() {
        "" => None,
        key => Some(open(state, key)?),
    };
    let found = match search(state, parameters, kind)? {
        Some(found) => results(&found),
        None => html! {
            p.empty { "Type what you remember: words of a prompt, a decision, an error, or the name of a file." }
        },
    };
    let content = html! {
        h1 { "Search" }
        form.search-form role="search" action="/search" method="get" {
            label { "Words, \"phrases\", prefix*, -excluded"
                input #query type="search" name="q" value=(make_visible(&parameters.q, |_| false)) maxlength="400"
                    autocomplete="off" spellcheck="false";
            }
            label { "Kind"
                select name="kind" {
                    option value="" { "all" }
                    @for name in SearchKind::NAMES {
                        option value=(name) selected[*name == parameters.kind] { (name) }
                    }
                }
            }
            label { "Where"
                select name="project" {
                    option value="" { "all projects" }
                    @if let Some(project) = &projects { option value=(project.key) selected { (make_visible(&project.name, |_| false)) } }
                }
            }
            button type="submit" { "Search" }
        }
        div #results aria-live="polite" { (found) }
    };
    let page = Page::new("Search", content).without_search_box();
    Ok(match &projects {
        Some(project) => page.below(&project.name, project_address(&project.key)).in_project(project),
        None => page,
    })
}

/// Searches. Returns `None` if the query contains no word.
fn search(
    state: &SharedState,
    parameters: &SearchParameters,
    kind: Option<SearchKind>,
) -> Result<Option<Found>, PageError> {
    let query = SearchQuery::new(&parameters.q).kinds(kind.into_iter().collect::<Vec<_>>()).limit(MAX_HITS);
    let query = query.prefix_last(!parameters.q.ends_with(char::is_whitespace));
    if !query.has_words() {
        return Ok(None);
    }
    let mut found = Found::default();
    if parameters.project.is_empty() {
        let (all, unreadable) = state.projects.search(&query);
        for (project, results) in all {
            found.add(&project.key, &project.root, results);
        }
        found.unreadable = unreadable;
        found.hits.sort_by(|a, b| b.hit.score().total_cmp(&a.hit.score()));
        found.has_more |= found.hits.len() > MAX_HITS;
        found.hits.truncate(MAX_HITS);
        return Ok(Some(found));
    }
    let project = open(state, &parameters.project)?;
    found.add(&project.key, &project.root.to_string_lossy(), project.milepost.search(&query)?);
    Ok(Some(found))
}

fn results(found: &Found) -> Markup {
    let now = milepost::Clock::now(&milepost::internal::clock::SystemClock);
    let allow = AllowList::EMPTY;
    let shown = Shown::new(&allow);
    html! {
        @for one in &found.unreadable {
            p.warning { b { (shown.line(&one.root)) } " was not searched: " (shown.line(&one.message)) }
        }
        @if found.is_incomplete { p.warning { "The index is being built, so some hits may be missing." } }
        @if found.hits.is_empty() { p.empty { "Nothing found." } } @else {
            p.count { (counted(found.hits.len() as u64, "hit")) @if found.has_more { ", and more" } }
            ol.hits { @for hit in &found.hits { (hit_item(hit, shown, now)) } }
        }
    }
}

fn hit_item(PlacedHit { key, root, hit }: &PlacedHit, shown: Shown<'_>, now: Timestamp) -> Markup {
    let run = hit.run_id().as_str();
    let address = match hit.sequence() {
        Some(sequence) => checkpoint_address(key, run, sequence),
        None => run_address(key, run),
    };
    html! {
        li data-row {
            div {
                span.tag { (hit.origin().replace('_', " ")) } " "
                a href=(address) { (hit.reference()) }
                " " a.why href=(project_address(key)) title=(root) { (shown.line(folder(root))) }
                " " (time(hit.at(), now))
            }
            @if let Some(about) = hit.about().as_deref().filter(|about| !hit.excerpt().contains(*about)) { div.why { bdi { (shown.line(about)) } } }
            p.excerpt { (highlighted(hit)) }
        }
    }
}

/// The excerpt with its matching words marked.
fn highlighted(hit: &SearchHit) -> Markup {
    let text = hit.excerpt();
    let visible = |part: Option<&str>| make_visible(part.unwrap_or_default(), |c| c == '\n').into_owned();
    let mut at = 0;
    let mut parts = Vec::new();
    for range in hit.matches() {
        parts.push((visible(text.get(at..range.start)), visible(text.get(range.clone()))));
        at = range.end;
    }
    html! {
        @for (before, word) in &parts { (before) mark { (word) } }
        (visible(text.get(at..)))
    }
}
