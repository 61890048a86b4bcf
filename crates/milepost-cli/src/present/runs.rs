//! Runs for `runs`: a list, or one run in full.

use std::fmt::Write as _;

use comfy_table::Cell;
use jiff::Timestamp;
use milepost::model::RunRecord;
use milepost::{RunDetail, RunSummary};
use serde::Serialize;

use super::format::{ago, bold, clean, counted, lasting, time};
use super::run::{RunDocument, RunParts, owner, phase};
use super::table::{cell, lines, status, table};
use super::{Document, Output, work_items};
use crate::error::CommandError;

#[derive(Serialize)]
pub(crate) struct RunsDocument {
    schema: &'static str,
    runs: Vec<RunDocument>,
    /// Of the one run that was asked for.
    #[serde(flatten)]
    parts: Option<RunParts>,
    #[serde(skip)]
    view: View,
    #[serde(skip)]
    now: Timestamp,
}

/// What the text is made of.
enum View {
    List { runs: Vec<RunSummary>, here: String },
    One(Box<RunDetail>),
}

impl RunsDocument {
    /// Runs; `here` is the folder of this worktree.
    pub(crate) fn list(runs: Vec<RunSummary>, here: String, now: Timestamp) -> Self {
        let documents = runs.iter().map(RunDocument::of).collect();
        let view = View::List { runs, here };
        Self { schema: "milepost.runs/1", runs: documents, parts: None, view, now }
    }

    /// One run in full.
    pub(crate) fn one(detail: RunDetail, now: Timestamp) -> Self {
        Self {
            schema: "milepost.runs/1",
            runs: vec![RunDocument::detailed(&detail)],
            parts: Some(RunParts::of(&detail)),
            view: View::One(Box::new(detail)),
            now,
        }
    }
}

impl Document for RunsDocument {
    fn render(&self, output: &Output) -> Result<(), CommandError> {
        let (runs, here) = match &self.view {
            View::One(detail) => return output.write_text(&page(detail, self.now)),
            View::List { runs, here } => (runs, here),
        };
        if runs.is_empty() {
            output.message("no runs");
            return Ok(());
        }
        let headings = ["", "RUN", "TITLE", "STATUS", "LAST WRITE", "CHECKPOINTS", "WHERE", "OWNER"];
        let mut rows = table(output, &headings);
        for summary in runs {
            rows.add_row(row(summary, here, self.now));
        }
        output.write_text(&lines(&rows))
    }
}

fn row(summary: &RunSummary, here: &str, now: Timestamp) -> Vec<Cell> {
    let record = match &summary.record() {
        Ok(record) => record,
        Err(damage) => {
            return vec![
                cell(""),
                cell(summary.run_id().as_str()),
                cell(damage.to_string()),
                cell("damaged"),
            ];
        }
    };
    let text = |value: &Option<String>| cell(value.as_deref().unwrap_or_default());
    vec![
        cell(if is_here(record, here) { "*" } else { "" }),
        cell(summary.run_id().as_str()),
        text(record.title()),
        status(record.status()),
        cell(ago(record.updated_at(), now)),
        cell(summary.checkpoints().to_string()),
        cell(location(record, here)),
        cell(owner(summary)),
    ]
}

/// Where a run works: its branch, and its folder unless that is this one.
fn location(record: &RunRecord, here: &str) -> String {
    let folder = record.place().map_or("", String::as_str);
    if let Some(origin) = &record.origin() {
        return format!("{} {}", origin.kind, origin.from);
    }
    match (&record.branch(), is_here(record, here)) {
        (Some(branch), true) => branch.clone(),
        (Some(branch), false) => format!("{branch} in {folder}"),
        (None, true) => "here".to_owned(),
        (None, false) => folder.to_owned(),
    }
}

fn is_here(record: &RunRecord, here: &str) -> bool {
    record.place().is_some_and(|place| place == here)
}

/// One run on a page.
fn page(detail: &RunDetail, now: Timestamp) -> String {
    let summary = &detail.summary();
    let mut text = format!("{}\n", bold(summary.run_id().as_str()));
    let record = match &summary.record() {
        Ok(record) => record,
        Err(damage) => {
            let _ = writeln!(text, "  {}", clean(&damage.to_string()));
            return text;
        }
    };
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(text, "  {name:<12} {}", clean(value));
    };
    let optional = [("title", &record.title()), ("plan", &record.plan())];
    for (name, value) in optional {
        if let Some(value) = value {
            line(name, value);
        }
    }
    line("status", record.status().as_str());
    line("profile", record.profile().as_str());
    line("started", &format!("{} ({})", time(record.started_at()), ago(record.started_at(), now)));
    line("last write", &format!("{} ({})", time(record.updated_at()), ago(record.updated_at(), now)));
    line(
        "worked",
        &format!("{} in {}", lasting(record.total_ms() / 1000), counted(record.sessions(), "session")),
    );
    line("checkpoints", &summary.checkpoints().to_string());
    if let Some(latest) = &summary.latest() {
        line("latest", latest.header.snapshot_id().as_str());
    }
    line("owner", &owner(summary));
    for (name, value) in
        [("branch", &record.branch()), ("worktree", &record.worktree()), ("project", &record.project())]
    {
        if let Some(value) = value {
            line(name, value);
        }
    }
    let working = &record.working();
    if let Some(at) = &working.phase() {
        line("phase", &phase(at));
    }
    if let Some(summary) = &working.task_summary() {
        line("summary", summary);
    }
    let sections = [
        ("Criteria", work_items::criteria(working.criteria())),
        ("Tasks", work_items::tasks(working.tasks())),
        ("Step", working.step_state().as_ref().map(work_items::step).unwrap_or_default()),
        ("Outcomes since the newest checkpoint", work_items::outcomes(detail.pending_outcomes())),
        ("Decisions", work_items::decisions(working.decisions())),
        ("Log", work_items::log(working.log())),
    ];
    for (name, lines) in sections {
        if !lines.is_empty() {
            let _ = writeln!(text, "\n{}", bold(name));
            for line in lines {
                let _ = writeln!(text, "  {}", clean(&line));
            }
        }
    }
    text
}
