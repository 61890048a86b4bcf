//! Two checkpoints compared: what was recorded, and the files side by side.

use axum::extract::{Path, Query, State};
use axum::response::Response;
use maud::{Markup, html};
use milepost::model::{PathText, RawJson};
use milepost::store::CheckpointEntry;
use milepost::{Diff, FieldChange, FilePatches, Reference};
use serde::Deserialize;

use super::layout::{Page, checkpoint_address, project_address};
use super::parts::{command, exact_time, state};
use super::run::failure;
use super::{PageError, SharedState, build, open, patch};
use crate::projects::Project;
use crate::text::{LINE, Shown, encode};
use milepost::internal::humanize::counted;

/// Maximum number of changed values on a page.
const MAX_CHANGES: usize = 300;
/// Maximum number of files whose lines are compared.
const MAX_FILES: usize = 100;

#[derive(Debug, Deserialize)]
pub(super) struct DiffQuery {
    /// The earlier checkpoint, as `RUN@SEQUENCE`.
    #[serde(default)]
    a: String,
    /// The later checkpoint.
    #[serde(default)]
    b: String,
}

pub(super) async fn answer(
    state: State<SharedState>,
    Path(key): Path<String>,
    Query(query): Query<DiffQuery>,
) -> Response {
    build(state, move |state| page(&*open(state, &key)?, &query)).await
}

/// A reference to a checkpoint of a run that may be shown.
fn reference(project: &Project, text: &str) -> Result<Reference, PageError> {
    let numbered = text.parse().ok().filter(|reference| matches!(reference, Reference::Numbered(..)));
    let Some(reference @ Reference::Numbered(run, _)) = &numbered else {
        return Err(PageError::Invalid("Choose two checkpoints to compare, A and B.".to_owned()));
    };
    project.visible_run(run.as_str())?;
    Ok(reference.clone())
}

fn page(project: &Project, query: &DiffQuery) -> Result<Page, PageError> {
    let (a, b) = (reference(project, &query.a)?, reference(project, &query.b)?);
    let diff = project.milepost.diff(&a, Some(&b), None)?;
    let shown = project.shown();
    let patches = compare_files(project, &a, &b);
    let base = project_address(&project.key);
    let content = html! {
        h1 { "Comparison" }
        div.columns.compare {
            (side(project, "A", diff.from()))
            (side(project, "B", diff.to()))
        }
        form.search-form action=(format!("{base}/diff")) method="get" {
            label { "A, as RUN@NUMBER" input name="a" value=(query.a) required; }
            label { "B" input name="b" value=(query.b) required; }
            button type="submit" { "Compare" }
            a href=(format!("{base}/diff?a={}&b={}", encode(&query.b), encode(&query.a))) { "Swap A and B" }
        }
        div.commands { (command("compare", &format!("{} diff {} {}", project.command, query.a, query.b))) }
        @if diff.is_empty() { p.empty { "What was recorded does not differ." } } @else { (recorded(&diff, shown)) }
        section {
            h2 { "Files" }
            @match patches {
                Ok(patches) => (files(&patches)),
                Err(error) => p.empty { (shown.line(&error_text(&error))) },
            }
        }
    };
    let address = format!("{base}/diff?a={}&b={}", encode(&query.a), encode(&query.b));
    Ok(Page::new("Comparison", content)
        .below(&project.name, base)
        .below(format!("{} … {}", query.a, query.b), address)
        .in_project(project))
}

fn error_text(error: &PageError) -> String {
    match error {
        PageError::NotFound(text) | PageError::Invalid(text) | PageError::Failed(text) => text.clone(),
    }
}

/// The differences between the files at both checkpoints, with secrets redacted.
fn compare_files(project: &Project, a: &Reference, b: &Reference) -> Result<FilePatches, PageError> {
    let worktree = project.milepost.worktree(&project.root)?;
    let (from, to) = (worktree.files(a, None)?, worktree.files(b, None)?);
    Ok(worktree.redacted_patches(&from, &to, &[], MAX_FILES, &project.allow)?)
}

fn side(project: &Project, name: &str, entry: &CheckpointEntry) -> Markup {
    let header = &entry.header;
    let address = checkpoint_address(&project.key, header.run_id().as_str(), header.sequence());
    html! {
        section {
            h2 { (name) ": " a href=(address) { (header.run_id()) "@" (header.sequence()) } }
            p { (exact_time(header.created_at())) " · " (header.source().as_str()) " " (state(header.status().as_str())) }
            @if let Some(summary) = header.summary() { p { bdi { (project.shown().line(summary)) } } }
        }
    }
}

fn recorded(diff: &Diff, shown: Shown<'_>) -> Markup {
    let difference = diff.difference();
    let changed = &difference.changed;
    let paths = |paths: &[PathText], sign: &'static str, class: &'static str| {
        html! {
            @for path in paths.iter().take(MAX_CHANGES) {
                li.(class) { span.sign { (sign) } bdi { (shown.line(&path.key())) } }
            }
            @if paths.len() > MAX_CHANGES { li { "and " (counted((paths.len() - MAX_CHANGES) as u64, "more file")) } }
        }
    };
    html! {
        section {
            h2 { "Recorded " span.count { (changed.len()) } }
            @if !changed.is_empty() {
                div.scroll { table.rows.changes {
                    thead { tr { th scope="col" { "Field" } th scope="col" { "A" } th scope="col" { "B" } } }
                    tbody { @for change in changed.iter().take(MAX_CHANGES) { (change_row(change, shown)) } }
                } }
                @if changed.len() > MAX_CHANGES {
                    p.more { "and " (counted((changed.len() - MAX_CHANGES) as u64, "more change")) }
                }
            }
            @let files = &difference.files;
            @if !files.added().is_empty() || !files.removed().is_empty() {
                h3 { "Files that only one of them mentions" }
                ul.paths { (paths(files.added(), "+", "added")) (paths(files.removed(), "−", "removed")) }
            }
            @if !diff.outcomes().is_empty() {
                h3 { "Commands in between " span.count { (diff.outcomes().len()) } }
                ul.failures { @for outcome in diff.outcomes() { (failure(outcome, shown)) } }
            }
        }
    }
}

fn change_row(change: &FieldChange, shown: Shown<'_>) -> Markup {
    let value = |value: &Option<RawJson>, class: &str| match value {
        Some(value) => {
            let text = shown.json(value.get());
            html! { td.(class) {
                @if text.chars().count() > LINE { details { summary { (shown.line(&text)) } pre tabindex="0" { (shown.block(&text)) } } }
                @else { code { (shown.line(&text)) } }
            } }
        }
        None => html! { td.absent { "–" } },
    };
    html! {
        tr {
            th scope="row" { bdi.path-text { (shown.line(change.path())) } }
            (value(change.before(), "removed"))
            (value(change.after(), "added"))
        }
    }
}

fn files(patches: &FilePatches) -> Markup {
    let mut left = patch::MAX_LINES;
    html! {
        @if patches.is_empty() { p.empty { "The contents of the files do not differ." } }
        @for one in patches.patches() { (patch::render(one, &mut left)) }
        @if patches.left_out() > 0 { p.more { "and " (counted(patches.left_out(), "more file")) } }
        @if patches.redacted() > 0 { p.more { "Secrets were redacted in " (counted(patches.redacted(), "line")) } }
    }
}
