//! One checkpoint: its facts, tasks, outcomes, brief, state and seal, and the sealed document.

use axum::extract::{Path, State};
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use maud::{Markup, html};
use milepost::internal::engine::source_details;
use milepost::model::{Body, OutcomeResult, PathText, RunId, Workspace};
use milepost::store::{Cursor, HeaderQuery, Row};
use milepost::{Reference, ShownCheckpoint};

use super::layout::{Page, checkpoint_address, project_address, run_address};
use super::parts::{command, exact_time, fact, state};
use super::run::{decisions, tasks};
use super::{PageError, SharedState, build, error_page, open, read, tree};
use crate::markdown;
use crate::projects::Project;
use crate::text::Shown;
use milepost::internal::brief::is_unsafe;
use milepost::internal::humanize::{bytes, count, counted};

/// Maximum number of files and outcomes in a list.
const LISTED: usize = 200;
/// Maximum size of a document that is shown, in bytes.
const MAX_DOCUMENT: usize = 4 << 20;

pub(super) async fn answer(
    state: State<SharedState>,
    Path((key, run, sequence)): Path<(String, String, u64)>,
) -> Response {
    build(state, move |state| {
        let project = open(state, &key)?;
        let run = project.visible_run(&run)?;
        page(&project, &run, sequence)
    })
    .await
}

/// Answers with the document as text. Its secrets are redacted, so it is not always the sealed one byte for byte.
pub(super) async fn answer_document(
    State(state): State<SharedState>,
    Path((key, run, sequence)): Path<(String, String, u64)>,
) -> Response {
    let read = read(state, move |state| {
        let project = open(state, &key)?;
        let run = project.visible_run(&run)?;
        let checkpoint = project.milepost.show(&Reference::Numbered(run, sequence), None)?;
        if checkpoint.bytes().len() > MAX_DOCUMENT {
            let size = bytes(checkpoint.bytes().len() as u64);
            let message =
                format!("The document is too large to show ({size}). `milepost show --json` prints it.");
            return Err(PageError::Invalid(message));
        }
        let text = String::from_utf8_lossy(checkpoint.bytes()).into_owned();
        Ok(escape_json(&project.shown().json(&text)))
    });
    match read.await {
        Ok(text) => ([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], text).into_response(),
        Err(error) => error_page(&error),
    }
}

/// Escapes characters of a JSON document that affect how other text is displayed. Its values stay the same.
fn escape_json(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if is_unsafe(c) && !matches!(c, '\n' | '\r' | '\t') {
            c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| escaped.push_str(&format!("\\u{unit:04x}")));
        } else {
            escaped.push(c);
        }
    }
    escaped
}

fn page(project: &Project, run: &RunId, sequence: u64) -> Result<Page, PageError> {
    let mp = &project.milepost;
    let reference = Reference::Numbered(run.clone(), sequence);
    let checkpoint = mp.show(&reference, None)?;
    let body = checkpoint.body().map_err(|e| PageError::Failed(e.to_string()))?;
    let shown = project.shown();
    let address = checkpoint_address(&project.key, run.as_str(), sequence);
    let content = html! {
        (head(project, &checkpoint, &body))
        (neighbours(project, run, &checkpoint)?)
        @if !body.tasks.is_empty() || !body.criteria.is_empty() {
            section {
                h2 { "Tasks " span.count { (body.tasks.len()) } }
                (tasks(&body.tasks, shown))
                @if !body.criteria.is_empty() {
                    h3 { "Criteria" }
                    ul.tasks { @for criterion in body.criteria.iter().take(LISTED) {
                        li { (state(criterion.status.as_str())) " " bdi { (shown.line(&criterion.subject)) } }
                    } }
                }
            }
        }
        (outcomes(&body, shown))
        @if !body.decisions.is_empty() {
            section {
                h2 { "Decisions " span.count { (body.decisions.len()) } }
                (decisions(&body.decisions, shown))
            }
        }
        @if let Some(workspace) = &body.workspace { (files(workspace, shown)) }
        (brief(project, &reference, &body))
        @if let Some(value) = &body.state { section { h2 { "State" } (tree::render(value.get(), shown)) } }
        @if let Some(value) = &body.metadata { section { h2 { "Metadata" } (tree::render(value.get(), shown)) } }
        @if !body.log.is_empty() {
            section { details {
                summary { h2 { "Log " span.count { (body.log.len()) } } }
                ul.log { @for line in body.log.iter().rev().take(LISTED) {
                    li { (exact_time(line.at)) " " bdi { (shown.line(&line.text)) } }
                } }
            } }
        }
        (document(&checkpoint, &address, shown))
    };
    Ok(Page::new(format!("{run}@{sequence}"), content)
        .below(&project.name, project_address(&project.key))
        .below(run.as_str(), run_address(&project.key, run.as_str()))
        .below(format!("@{sequence}"), address)
        .in_project(project))
}

fn head(project: &Project, checkpoint: &ShownCheckpoint, body: &Body) -> Markup {
    let shown = project.shown();
    let entry = checkpoint.entry();
    let reference = format!("{}@{}", body.run_id, body.sequence);
    let git = body.workspace.as_ref().and_then(|workspace| workspace.git.as_ref());
    let memory = body.workspace.as_ref().and_then(|workspace| workspace.memory.as_ref());
    let memory = entry.marks.memory.as_ref().or(memory);
    html! {
        h1 { bdi { (body.task_summary.as_deref().map_or_else(|| reference.clone(), |text| shown.line(text))) } }
        p.lead {
            (state(body.status.as_str())) " saved " (exact_time(body.created_at))
            @if entry.marks.pinned { " " span.tag { "pinned" } }
            @for tag in entry.marks.tags.iter().take(16) { " " span.tag { (shown.line(tag)) } }
        }
        dl.facts {
            (fact("Checkpoint", body.snapshot_id.as_str()))
            (fact("Reference", &reference))
            (fact("Source", source_details(entry).iter().take(8).map(|s| shown.line(s)).collect::<Vec<_>>().join(", ")))
            (fact("Session", shown.line(&body.session_id)))
            (fact("Elapsed", milepost::format_duration(std::time::Duration::from_millis(body.elapsed_ms))))
            @if let Some(phase) = body.phase.as_ref().and_then(|phase| phase.name.as_deref()) {
                (fact("Phase", shown.line(phase)))
            }
            @if let Some(step) = body.step_state.as_ref().and_then(|step| step.step_id.as_deref()) {
                (fact("Step", shown.line(step)))
            }
            @if let Some(branch) = git.and_then(|git| git.branch.as_deref()) { (fact("Branch", shown.line(branch))) }
            @if let Some(commit) = git.and_then(|git| git.head.as_deref()) {
                (fact("Commit", shown.line(commit.get(..12).unwrap_or(commit))))
            }
            @if let Some(rss) = memory.and_then(|memory| memory.rss) { (fact("Memory", bytes(rss))) }
            (fact("Completed", if checkpoint.completed() { "yes" } else { "no" }))
        }
        div.commands {
            (command("resume", &format!("{} resume {}", project.command, body.run_id)))
            (command("restore files", &format!("{} restore {reference}", project.command)))
            (command("show", &format!("{} show {reference}", project.command)))
        }
    }
}

/// Links to the previous and the next checkpoint, and to the comparison with the previous one.
fn neighbours(project: &Project, run: &RunId, checkpoint: &ShownCheckpoint) -> Result<Markup, PageError> {
    let header = &checkpoint.entry().header;
    let cursor = Cursor { sequence: header.sequence(), stamp: header.stamp() };
    let find = |oldest_first| -> Result<Option<u64>, PageError> {
        let query = HeaderQuery::default().run(run).after(cursor).oldest_first(oldest_first).limit(1);
        let row = project.milepost.store().headers(&query)?.into_iter().next();
        Ok(row.as_ref().map(Row::cursor).map(|cursor| cursor.sequence))
    };
    let (previous, next) = (find(false)?, find(true)?);
    let address = |sequence| checkpoint_address(&project.key, run.as_str(), sequence);
    let base = project_address(&project.key);
    Ok(html! {
        nav.pager aria-label="Checkpoints" {
            @if let Some(previous) = previous {
                a rel="prev" data-previous href=(address(previous)) { "← @" (previous) }
                a href=(format!("{base}/diff?a={run}@{previous}&b={run}@{}", header.sequence())) {
                    "Compare with @" (previous)
                }
            }
            @if let Some(next) = next { a rel="next" data-next href=(address(next)) { "@" (next) " →" } }
        }
    })
}

fn outcomes(body: &Body, shown: Shown<'_>) -> Markup {
    let all = &body.command_outcomes;
    html! {
        @if !all.is_empty() {
            section {
                h2 { "Commands " span.count { (all.len()) } }
                ul.outcomes {
                    @for outcome in all.iter().take(LISTED) {
                        @let result = match outcome.result { OutcomeResult::Fail => "fail", _ => outcome.result.as_str() };
                        li {
                            (state(&result.to_lowercase())) " " code { (shown.line(&outcome.name)) }
                            @if let Some(reason) = &outcome.reason_code { " " span.why { (shown.line(reason)) } }
                            @if outcome.duration_ms > 0 {
                                " " span.why { (milepost::format_duration(std::time::Duration::from_millis(outcome.duration_ms))) }
                            }
                            @if !outcome.summary.is_empty() {
                                details { summary { "Output" } pre tabindex="0" { (shown.block(&outcome.summary)) } }
                            }
                        }
                    }
                }
                @if body.outcomes_dropped > 0 { p.more { (counted(body.outcomes_dropped, "older outcome")) " not kept" } }
            }
        }
    }
}

/// The files that git listed, and those that the run has touched.
fn files(workspace: &Workspace, shown: Shown<'_>) -> Markup {
    let path = |path: &PathText| shown.line(&path.key());
    let git = workspace.git.as_ref();
    let lists: [(&str, &[PathText]); 4] = [
        ("modified", git.map_or(&[], |git| &git.modified)),
        ("staged", git.map_or(&[], |git| &git.staged)),
        ("untracked", git.map_or(&[], |git| &git.untracked)),
        ("touched", &workspace.files_modified),
    ];
    html! {
        section {
            h2 { "Files " span.count { (count(workspace.files_modified.len() as u64)) } }
            @if let Some(error) = git.and_then(|git| git.error.as_deref()) { p.empty { (shown.line(error)) } }
            @for (name, paths) in lists.into_iter().filter(|(_, paths)| !paths.is_empty()) {
                details open[paths.len() <= 12] {
                    summary { (name) " " span.count { (count(paths.len() as u64)) } }
                    ul.paths { @for one in paths.iter().take(LISTED) { li { bdi { (path(one)) } } } }
                    @if paths.len() > LISTED { p.more { "and " (counted((paths.len() - LISTED) as u64, "more file")) } }
                }
            }
            @if !workspace.skipped.is_empty() {
                p.more { "Skipped: " (shown.line(&workspace.skipped.join("; "))) }
            }
        }
    }
}

/// The brief that was saved, or the one that a new session would get.
fn brief(project: &Project, reference: &Reference, body: &Body) -> Markup {
    let shown = project.shown();
    let composed = match &body.brief {
        Some(brief) => Ok((brief.clone(), false)),
        None => project.milepost.brief(reference, None, None).map(|brief| (brief.markdown, brief.composed)),
    };
    html! {
        section {
            h2 { "Brief" @if matches!(composed, Ok((_, true))) { " " span.tag { "composed" } } }
            @match composed {
                Ok((markdown, _)) => article.brief tabindex="0" aria-label="Brief" {
                    (markdown::render(without_front_matter(&shown.block(&markdown))))
                },
                Err(error) => p.empty { "There is no brief: " (error) },
            }
        }
    }
}

/// A brief without its front matter, which is for programs.
fn without_front_matter(text: &str) -> &str {
    let body = text.strip_prefix("---\n").and_then(|rest| rest.split_once("\n---\n")).map(|(_, body)| body);
    body.unwrap_or(text)
}

/// The seal, and the sealed document.
fn document(checkpoint: &ShownCheckpoint, address: &str, shown: Shown<'_>) -> Markup {
    let text = String::from_utf8_lossy(checkpoint.bytes());
    html! {
        section {
            h2 { "Document" }
            dl.facts {
                (fact("Seal", html! { span.state.done { "verified" } " " code.checksum { (checkpoint.checksum()) } }))
                (fact("Size", bytes(checkpoint.bytes().len() as u64)))
                (fact("Format", checkpoint.entry().header.format_version()))
            }
            details { summary { "As a tree" } (tree::render(&text, shown)) }
            p { a href=(format!("{address}/document")) { "The whole document as text" } }
        }
    }
}
