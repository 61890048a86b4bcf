//! The first page: the runs of all projects that need attention, and the projects.

use axum::extract::State;
use axum::response::Response;
use jiff::Timestamp;
use maud::{Markup, html};
use milepost::AllowList;

use super::layout::{Page, project_address, run_address};
use super::parts::{state, time};
use super::{PageError, SharedState, build};
use crate::live::Version;
use crate::projects::{Overview, OverviewRun};
use crate::text::Shown;
use milepost::internal::humanize::counted;

/// Maximum number of runs that are shown in a group.
const MAX_RUNS: usize = 50;
/// Maximum number of projects that are shown.
const MAX_PROJECTS: usize = 500;

pub(super) async fn answer(state: State<SharedState>) -> Response {
    build(state, |state| Ok::<_, PageError>(page(&state.projects.overview()))).await
}

fn page(overview: &Overview) -> Page {
    let now = milepost::Clock::now(&milepost::internal::clock::SystemClock);
    // The settings of a project can allow more, but here are many projects.
    let allow = AllowList::EMPTY;
    let shown = Shown::new(&allow);
    let content = html! {
        h1 { "All projects" }
        div #overview data-live-part {
            @if overview.projects.is_empty() {
                p.empty { "No projects yet. " code { "milepost init" } " in a project, or its first save, adds it here." }
            }
            @for one in &overview.unreadable {
                p.warning { b { (shown.line(&one.root)) } " is not shown completely: " (shown.line(&one.message)) }
            }
            @for group in &overview.groups {
                section {
                    h2 { (group.name) " " span.count { (group.runs.len()) } }
                    (runs_table(&group.runs, shown, now))
                    @if group.runs.len() > MAX_RUNS {
                        p.more { "and " (counted((group.runs.len() - MAX_RUNS) as u64, "more run")) }
                    }
                }
            }
            @if overview.groups.is_empty() && !overview.projects.is_empty() {
                p.empty { "Nothing is running or interrupted, and nothing ended today." }
            }
            section {
                h2 { "Projects " span.count { (overview.projects.len()) } }
                (projects_table(overview, shown))
            }
        }
    };
    Page::new("All projects", content).live("view=overview".to_owned(), Version::of(overview))
}

fn runs_table(runs: &[OverviewRun], shown: Shown<'_>, now: Timestamp) -> Markup {
    html! {
        div.scroll { table.rows.attention {
            thead { tr {
                th scope="col" { "Run" } th scope="col" { "State" } th scope="col" { "About" }
                th scope="col" { "Project" } th scope="col" { "When" }
                th scope="col" { span.hidden { "Command" } }
            } }
            tbody {
                @for run in runs.iter().take(MAX_RUNS) {
                    tr data-row {
                        th scope="row" { a href=(run_address(&run.project, &run.run)) { (run.run) } }
                        td { (state(run.state)) @if !run.why.is_empty() { " " span.why { (shown.line(&run.why)) } } }
                        td.about { bdi { (shown.line(&run.about)) } }
                        td { a href=(project_address(&run.project)) title=(shown.line(&run.root)) { (shown.line(folder(&run.root))) } }
                        td.when { @if let Some(at) = run.updated_at { (time(at, now)) } }
                        td { button.copy type="button" data-copy=(run.next) title=(run.next)
                            aria-label=(format!("Copy {}", run.next)) { "Copy" } }
                    }
                }
            }
        } }
    }
}

fn projects_table(overview: &Overview, shown: Shown<'_>) -> Markup {
    html! {
        div.scroll { table.rows {
            thead { tr {
                th scope="col" { "Project" } th scope="col" { "Folder" } th scope="col" { "Store" }
                th.number scope="col" { "Runs" }
            } }
            tbody {
                @for project in overview.projects.iter().take(MAX_PROJECTS) {
                    tr data-row {
                        th scope="row" { a href=(project_address(&project.key)) { (shown.line(folder(&project.root))) } }
                        td.path-text { (shown.line(&project.root)) }
                        td.path-text { (shown.line(&project.store)) }
                        td.number { (project.runs) }
                    }
                }
            }
        } }
        @if overview.projects.len() > MAX_PROJECTS {
            p.more { "and " (counted((overview.projects.len() - MAX_PROJECTS) as u64, "more project")) }
        }
    }
}

/// The name of a folder.
pub(super) fn folder(root: &str) -> &str {
    root.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or(root)
}
