//! The runs of one project, newest first, in pages.

use axum::extract::{Path, Query, State};
use axum::response::Response;
use maud::{Markup, html};
use milepost::internal::engine::AssessedRun;
use milepost::model::RunRecord;
use serde::Deserialize;

use super::layout::{Page, project_address, run_address};
use super::parts::{fact, state, time};
use super::{PageError, SharedState, build, open};
use crate::live::{Version, Watched};
use crate::projects::Project;
use crate::text::{encode, make_visible};
use milepost::internal::humanize::count;

/// Number of runs on a page.
const PAGE_ROWS: usize = 100;

#[derive(Debug, Deserialize)]
pub(super) struct RunsQuery {
    /// The number of the page, from 0.
    #[serde(default)]
    page: usize,
    /// Only runs in this state.
    #[serde(default)]
    state: Option<String>,
}

pub(super) async fn answer(
    state: State<SharedState>,
    Path(key): Path<String>,
    Query(query): Query<RunsQuery>,
) -> Response {
    build(state, move |state| {
        // Read first, so that a change while the page is built is noticed.
        let version = Watched::Project { project: key.clone() }.version(state)?;
        page(&*open(state, &key)?, &query, version)
    })
    .await
}

fn page(project: &Project, query: &RunsQuery, version: Version) -> Result<Page, PageError> {
    let hides = |run: &AssessedRun| !project.may_show(run.summary.intact());
    let groups = project.milepost.run_groups(None, |_| true)?;
    let mut runs: Vec<_> = [groups.stopped, groups.live, groups.open, groups.ended].concat();
    runs.retain(|run| !hides(run));
    runs.sort_by_key(|run| std::cmp::Reverse(run.summary.intact().map(RunRecord::updated_at)));
    let states: std::collections::BTreeSet<_> = runs.iter().map(|run| run.state_name()).collect();
    if let Some(wanted) = &query.state {
        runs.retain(|run| run.state_name() == wanted);
    }
    let pages = runs.len().div_ceil(PAGE_ROWS).max(1);
    let number = query.page.min(pages - 1);
    let rows: Vec<_> = runs.iter().skip(number * PAGE_ROWS).take(PAGE_ROWS).collect();
    let address = project_address(&project.key);
    let content = html! {
        h1 { bdi { (make_visible(&project.name, |_| false)) } }
        dl.facts {
            (fact("Folder", make_visible(&project.root.to_string_lossy(), |_| false)))
            (fact("Store", make_visible(&project.store, |_| false)))
            (fact("Runs", count(runs.len() as u64)))
        }
        nav.filters aria-label="States" {
            a href=(address) aria-current=[query.state.is_none().then_some("true")] { "All" }
            @for name in states {
                a href=(format!("{address}?state={}", encode(name)))
                    aria-current=[(query.state.as_deref() == Some(name)).then_some("true")] { (name) }
            }
        }
        div #runs data-live-part {
            @if rows.is_empty() { p.empty { "No runs." } } @else { (table(project, &rows)) }
        }
        (pager(&address, query.state.as_deref(), number, pages))
    };
    let page = Page::new(&project.name, content).below(&project.name, address);
    Ok(page.in_project(project).live(format!("view=project&project={}", encode(&project.key)), version))
}

fn table(project: &Project, rows: &[&AssessedRun]) -> Markup {
    let now = project.milepost.now();
    let shown = project.shown();
    html! {
        div.scroll { table.rows {
            thead { tr {
                th scope="col" { "Run" } th scope="col" { "State" } th scope="col" { "About" }
                th scope="col" { "Agent" } th scope="col" { "Branch" }
                th.number scope="col" { "Checkpoints" } th scope="col" { "Written" }
            } }
            tbody {
                @for run in rows {
                    @let why = run.why();
                    @let record = run.summary.intact();
                    @let id = run.summary.run_id().as_str();
                    tr data-row {
                        th scope="row" { a href=(run_address(&project.key, id)) { (id) } }
                        td { (state(run.state_name())) @if !why.is_empty() { " " span.why { (shown.line(&why)) } } }
                        td.about { bdi { (shown.line(&run.about().unwrap_or_default())) } }
                        td { (shown.line(record.and_then(|r| r.agent().as_deref()).unwrap_or_default())) }
                        td { (shown.line(record.and_then(|r| r.branch().as_deref()).unwrap_or_default())) }
                        td.number { (count(run.summary.checkpoints())) }
                        td.when { @if let Some(record) = record { (time(record.updated_at(), now)) } }
                    }
                }
            }
        } }
    }
}

fn pager(address: &str, state: Option<&str>, number: usize, pages: usize) -> Markup {
    let to = |page: usize| match state {
        Some(state) => format!("{address}?state={}&page={page}", encode(state)),
        None => format!("{address}?page={page}"),
    };
    html! {
        @if pages > 1 {
            nav.pager aria-label="Pages" {
                @if number > 0 { a rel="prev" href=(to(number - 1)) { "Newer" } }
                span { "Page " (number + 1) " of " (pages) }
                @if number + 1 < pages { a rel="next" href=(to(number + 1)) { "Older" } }
            }
        }
    }
}
