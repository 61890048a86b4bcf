//! One run: its state, the commands to continue it, its timeline, what is open, and its checkpoints in pages.

use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse as _, Response};
use maud::{Markup, html};
use milepost::internal::engine::AssessedRun;
use milepost::model::{Message, RunId, RunRecord};
use milepost::store::{CheckpointEntry, Cursor, HeaderQuery, Row};
use serde::Deserialize;

use super::layout::{Page, checkpoint_address, project_address, run_address};
use super::parts::{command, exact_time, fact, state, time};
use super::timeline::{self, TimelineView};
use super::{PageError, SharedState, build, fragment, open, read};
use crate::live::Watched;
use crate::projects::Project;
use crate::text::{Shown, encode};
use milepost::internal::humanize::{count, counted};

/// Number of checkpoints on a page.
const PAGE_ROWS: usize = 100;
/// Maximum number of checkpoints whose documents are read before the page is shown.
const MAX_READ_FIRST: u64 = 300;
/// Maximum number of prompts, decisions, tasks and failures in a list.
const LISTED: usize = 50;

#[derive(Debug, Default, Deserialize)]
pub(super) struct RunQuery {
    /// Only checkpoints older than this position, as `SEQUENCE.STAMP`.
    #[serde(default)]
    after: Option<String>,
    /// The start of the timeline, in milliseconds since 1970.
    #[serde(default)]
    from: Option<i64>,
    /// The end of the timeline, in milliseconds since 1970.
    #[serde(default)]
    to: Option<i64>,
    /// The width of the timeline, in pixels.
    #[serde(default)]
    width: Option<u32>,
}

impl RunQuery {
    fn timeline(&self) -> TimelineView {
        TimelineView { from: self.from, to: self.to, width: self.width }
    }

    fn cursor(&self) -> Option<Cursor> {
        let (sequence, stamp) = self.after.as_deref()?.split_once('.')?;
        Some(Cursor { sequence: sequence.parse().ok()?, stamp: stamp.parse().ok()? })
    }
}

pub(super) async fn answer(
    state: State<SharedState>,
    Path((key, run)): Path<(String, String)>,
    Query(query): Query<RunQuery>,
) -> Response {
    build(state, move |state| {
        let project = open(state, &key)?;
        let run = project.visible_run(&run)?;
        page(state, &project, &run, &query)
    })
    .await
}

/// Answers with the timeline alone, for the script.
pub(super) async fn answer_timeline(
    State(state): State<SharedState>,
    Path((key, run)): Path<(String, String)>,
    Query(query): Query<RunQuery>,
) -> Response {
    let read = read(state, move |state| {
        let project = open(state, &key)?;
        let run = project.visible_run(&run)?;
        timeline::render(&state.facts, &project, &run, &query.timeline(), true)
    });
    match read.await {
        Ok(markup) => fragment(markup),
        Err(error) => super::error_page(&error).into_response(),
    }
}

fn page(state: &SharedState, project: &Project, id: &RunId, query: &RunQuery) -> Result<Page, PageError> {
    let mp = &project.milepost;
    // Read first, so that a change while the page is built is noticed.
    let watched = Watched::Run { project: project.key.clone(), run: id.to_string() };
    let version = watched.version(state)?;
    let run = mp.assessed_run(id)?;
    let shown = project.shown();
    let address = run_address(&project.key, id.as_str());
    // The documents of a long run are read afterwards, by a request of the script.
    let reads_all = run.summary.checkpoints() <= MAX_READ_FIRST || state.facts.contains(project, id);
    let timeline = timeline::render(&state.facts, project, id, &query.timeline(), reads_all)?;
    let content = html! {
        div #head data-live-part { (head(project, &run)) }
        section aria-label="Timeline" { div #timeline { (timeline) } }
        div.columns #work data-live-part { (work(project, &run)?) }
        section {
            h2 { "Checkpoints " span.count { (count(run.summary.checkpoints())) } }
            (checkpoints(project, id, query)?)
        }
    };
    let title = run.about().map_or_else(|| id.to_string(), |about| shown.line(&about));
    let page = Page::new(title, content)
        .below(&project.name, project_address(&project.key))
        .below(id.as_str(), address)
        .in_project(project);
    let live = format!("view=run&project={}&run={}", encode(&project.key), encode(id.as_str()));
    // An older page of checkpoints does not change.
    Ok(if query.after.is_none() { page.live(live, version) } else { page })
}

fn head(project: &Project, run: &AssessedRun) -> Markup {
    let shown = project.shown();
    let now = project.milepost.now();
    let id = run.summary.run_id().as_str();
    let record = run.summary.intact();
    let latest = run.summary.latest().as_ref().map(|entry| entry.header.sequence());
    let why = run.why();
    let may_continue = run.decision.is_some_and(|decision| decision.eligible);
    html! {
        h1 { bdi { (run.about().map_or_else(|| id.to_owned(), |about| shown.line(&about))) } }
        p.lead {
            (state(run.state_name()))
            @if !why.is_empty() { " " span.why { (shown.line(&why)) } }
            @if let Some(record) = record { " · written " (time(record.updated_at(), now)) }
            @if let Some(origin) = record.and_then(RunRecord::origin) {
                " · from " (shown.line(&origin.from)) " (" (shown.line(&origin.kind)) ")"
            }
        }
        @if let Err(damage) = run.summary.record() {
            p.warning { "The record of this run is damaged: " (damage) ". " code { "milepost doctor" } " explains." }
        }
        dl.facts {
            (fact("Run", id))
            @if let Some(record) = record {
                (fact("Started", exact_time(record.started_at())))
                @if let Some(ended) = record.ended_at() { (fact("Ended", exact_time(ended))) }
                @for (name, value) in [
                    ("Agent", record.agent().as_deref()),
                    ("Branch", record.branch().as_deref()),
                    ("Folder", record.folder().map(String::as_str)),
                    ("Host", run.summary.host()),
                    ("User", run.summary.user().as_deref()),
                    ("Plan", record.plan().as_deref()),
                ] {
                    @if let Some(value) = value { (fact(name, bdi(&shown.line(value)))) }
                }
                (fact("Sessions", count(record.sessions())))
            }
        }
        div.commands {
            @if may_continue { (command("resume", &format!("{} resume {id}", project.command))) }
            @if let Some(latest) = latest {
                (command("restore files", &format!("{} restore {id}@{latest}", project.command)))
            }
            (command("summarise", &format!("{} summary {id}", project.command)))
        }
    }
}

/// Text that cannot change the direction of the text around it.
fn bdi(text: &str) -> Markup {
    html! { bdi { (text) } }
}

/// What the user said, what is open, and what was decided.
fn work(project: &Project, run: &AssessedRun) -> Result<Markup, PageError> {
    let shown = project.shown();
    let now = project.milepost.now();
    let messages = project.milepost.conversation(run.summary.run_id())?;
    let said: Vec<_> = messages.iter().filter(|message| message.is_from_user()).collect();
    let reply =
        messages.iter().rev().find(|message| matches!(message, Message::Reply { .. } | Message::Plan { .. }));
    let working = run.summary.intact().map(RunRecord::working);
    Ok(html! {
        section {
            h2 { "Prompts " span.count { (count(said.len() as u64)) } }
            @if said.is_empty() { p.empty { "None recorded." } } @else {
                ol.messages reversed {
                    @for message in said.iter().rev().take(LISTED) {
                        li { (time(message.at(), now)) " " bdi { (shown.line(message.text())) } }
                    }
                }
                (rest(said.len()))
            }
            @if let Some(reply) = reply {
                h3 { "Last message of the agent" }
                blockquote.reply tabindex="0" { (crate::markdown::render(&shown.block(reply.text()))) }
            }
        }
        @if let Some(working) = working {
            section {
                @if !working.failures().is_empty() {
                    h2 { "Still failing " span.count { (working.failures().len()) } }
                    ul.failures {
                        @for outcome in working.failures().iter().rev().take(LISTED) { (failure(outcome, shown)) }
                    }
                    (rest(working.failures().len()))
                }
                @if !working.tasks().is_empty() {
                    @let done = working.tasks().iter().filter(|task| task.is_completed()).count();
                    h2 { "Tasks " span.count { (done) " of " (working.tasks().len()) } }
                    (tasks(working.tasks(), shown))
                }
                @if !working.decisions().is_empty() {
                    h2 { "Decisions " span.count { (working.decisions().len()) } }
                    (decisions(working.decisions(), shown))
                }
                @if working.failures().is_empty() && working.tasks().is_empty() && working.decisions().is_empty() {
                    h2 { "Open work" } p.empty { "No tasks, decisions or failures are recorded." }
                }
            }
        }
    })
}

/// How many entries of a list are not shown.
pub(super) fn rest(all: usize) -> Markup {
    html! { @if all > LISTED { p.more { "and " (counted((all - LISTED) as u64, "earlier entry").replace("entrys", "entries")) } } }
}

pub(super) fn failure(outcome: &milepost::model::Outcome, shown: Shown<'_>) -> Markup {
    html! {
        li {
            code { (shown.line(&outcome.name)) }
            @if let Some(reason) = &outcome.reason_code { " " span.why { (shown.line(reason)) } }
            @if let Some(at) = outcome.at() { " " (exact_time(at)) }
            @if !outcome.summary.is_empty() {
                details { summary { "Output" } pre tabindex="0" { (shown.block(&outcome.summary)) } }
            }
        }
    }
}

pub(super) fn tasks(tasks: &[milepost::model::Task], shown: Shown<'_>) -> Markup {
    html! {
        ul.tasks {
            @for task in tasks.iter().take(LISTED * 4) {
                li {
                    (state(&shown.line(task.status()))) " "
                    bdi { (task.title().map_or_else(|| shown.line(task.id()), |title| shown.line(&title))) }
                    @let subtasks = task.subtasks();
                    @if !subtasks.is_empty() {
                        ul { @for subtask in subtasks.iter().take(LISTED) {
                            li { (state(&shown.line(subtask.status()))) " "
                                bdi { (subtask.title().map_or_else(|| shown.line(subtask.id()), |t| shown.line(&t))) } }
                        } }
                    }
                }
            }
        }
        @if tasks.len() > LISTED * 4 { p.more { "and " (counted((tasks.len() - LISTED * 4) as u64, "more task")) } }
    }
}

pub(super) fn decisions(decisions: &[milepost::model::Decision], shown: Shown<'_>) -> Markup {
    html! {
        ul.decisions {
            @for decision in decisions.iter().rev().take(LISTED) {
                li {
                    (exact_time(decision.at)) " " bdi { (shown.line(&decision.text)) }
                    @if let Some(old) = &decision.supersedes { " " span.why { "replaces: " (shown.line(old)) } }
                }
            }
        }
        (rest(decisions.len()))
    }
}

/// The checkpoints of a run, newest first, with a choice of two to compare.
fn checkpoints(project: &Project, run: &RunId, query: &RunQuery) -> Result<Markup, PageError> {
    let mut headers = HeaderQuery::default().run(run).limit(PAGE_ROWS + 1);
    if let Some(cursor) = query.cursor() {
        headers = headers.after(cursor);
    }
    let mut rows = project.milepost.store().headers(&headers)?;
    let more = rows.len() > PAGE_ROWS;
    rows.truncate(PAGE_ROWS);
    let next = rows.last().filter(|_| more).map(Row::cursor);
    let address = run_address(&project.key, run.as_str());
    Ok(html! {
        form action=(format!("{}/diff", project_address(&project.key))) method="get" {
            div.actions { button type="submit" { "Compare A with B" } }
            div.scroll { table.rows #checkpoints data-live-part {
                thead { tr {
                    th scope="col" { "A" } th scope="col" { "B" } th scope="col" { "Checkpoint" } th scope="col" { "Saved" }
                    th scope="col" { "Source" } th scope="col" { "Status" } th scope="col" { "Summary" }
                } }
                tbody {
                    @for (index, row) in rows.iter().enumerate() {
                        @match row {
                            Row::Intact(entry) => (checkpoint_row(project, entry, index)),
                            Row::Damaged { damage, .. } => tr.damaged {
                                td colspan="7" { (state("damaged")) " " (damage) }
                            },
                        }
                    }
                }
            } }
        }
        @if query.after.is_some() || next.is_some() {
            nav.pager aria-label="Pages" {
                @if query.after.is_some() { a href=(address) { "Newest" } }
                @if let Some(next) = next {
                    a rel="next" href=(format!("{address}?after={}.{}#checkpoints", next.sequence, next.stamp)) { "Older" }
                }
            }
        }
    })
}

fn checkpoint_row(project: &Project, entry: &CheckpointEntry, index: usize) -> Markup {
    let (header, shown) = (&entry.header, project.shown());
    let run = header.run_id().as_str();
    let reference = format!("{run}@{}", header.sequence());
    let radio = |name: &str, checked: bool| {
        let label = format!("Compare checkpoint {} as {}", header.sequence(), name.to_uppercase());
        html! { input type="radio" name=(name) value=(reference) checked[checked] aria-label=(label); }
    };
    html! {
        tr data-row {
            td { (radio("a", index == 1)) }
            td { (radio("b", index == 0)) }
            th scope="row" { a href=(checkpoint_address(&project.key, run, header.sequence())) { "@" (header.sequence()) } }
            td.when { (time(header.created_at(), project.milepost.now())) }
            td { (header.source().as_str()) }
            td { (state(header.status().as_str())) }
            td.about {
                bdi { (shown.line(header.summary().as_deref().unwrap_or_default())) }
                @if entry.marks.pinned { " " span.tag { "pinned" } }
                @for tag in entry.marks.tags.iter().take(8) { " " span.tag { (shown.line(tag)) } }
            }
        }
    }
}
