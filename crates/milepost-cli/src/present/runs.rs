//! The result of `runs`: a list of runs, or one run in full.

use std::fmt::Write as _;

use jiff::Timestamp;
use milepost::model::{Message, RunRecord};
use milepost::{RunDetail, RunSummary};
use serde::Serialize;

use super::format::{ago, bold, clean, counted, push_fields, push_section, time, worked};
use super::run::{RunDocument, RunParts, owner, phase};
use super::table::{Cell, Column, Table, cell, run, state, status};
use super::{Document, Output, work_items};
use crate::error::Result;

#[derive(Serialize)]
#[serde(tag = "schema", rename = "milepost.runs/1")]
pub(crate) struct RunsDocument {
    runs: Vec<RunDocument>,
    /// The parts of the run, if only one was requested.
    #[serde(flatten)]
    parts: Option<RunParts>,
    #[serde(skip)]
    detail: Option<RunDetail>,
    /// The folder of this worktree.
    #[serde(skip)]
    worktree: String,
    #[serde(skip)]
    now: Timestamp,
}

impl RunsDocument {
    /// Creates a list of runs.
    pub(crate) fn list(runs: Vec<RunSummary>, worktree: String, now: Timestamp) -> Self {
        let runs = runs.into_iter().map(|summary| RunDocument { summary, parts: None }).collect();
        Self { runs, parts: None, detail: None, worktree, now }
    }

    /// Creates the page of one run.
    pub(crate) fn one(detail: RunDetail, messages: Vec<Message>, worktree: String, now: Timestamp) -> Self {
        let parts = Some(RunParts::of(&detail, messages));
        let runs = vec![RunDocument { summary: detail.summary().clone(), parts: parts.clone() }];
        Self { runs, parts, detail: Some(detail), worktree, now }
    }
}

impl Document for RunsDocument {
    fn render(&self, output: &Output) -> Result<()> {
        if let Some(detail) = &self.detail {
            let messages = self.parts.as_ref().map(RunParts::messages).unwrap_or_default();
            return output.write_text(&page(detail, messages, output.width(), self.now));
        }
        if self.runs.is_empty() {
            output.message("No runs.");
            return Ok(());
        }
        let mut rows = Table::new(
            output,
            &[
                Column::new("").optional(9),
                Column::text("RUN", 12),
                Column::text("TITLE", 16).optional(8),
                Column::new("STATUS"),
                Column::new("WRITTEN"),
                Column::new("SAVES").right(),
                Column::new("OWNER").optional(2),
                Column::text("WHERE", 10).optional(1),
            ],
        );
        for run in &self.runs {
            rows.add_row(row(&run.summary, &self.worktree, self.now));
        }
        output.write_text(&rows.lines())
    }
}

fn row(summary: &RunSummary, worktree: &str, now: Timestamp) -> Vec<Cell> {
    let record = match &summary.record() {
        Ok(record) => record,
        Err(damage) => {
            return vec![cell(""), run(summary.run_id()), cell(damage.to_string()), state("damaged")];
        }
    };
    let text = |value: &Option<String>| cell(value.as_deref().unwrap_or_default());
    vec![
        cell(if is_here(record, worktree) { "*" } else { "" }),
        run(summary.run_id()),
        text(record.title()),
        status(record.status()),
        cell(ago(record.updated_at(), now)),
        cell(summary.checkpoints().to_string()),
        cell(summary.owner().map(|_| owner(summary)).unwrap_or_default()),
        cell(match summary.host() {
            Some(host) if !is_here(record, worktree) => elsewhere(summary, record, host),
            _ => location(record, worktree),
        }),
    ]
}

/// The origin of a foreign run, or the branch of a run and its folder if that is not this worktree.
fn location(record: &RunRecord, worktree: &str) -> String {
    let folder = record.folder().map_or("", String::as_str);
    if let Some(origin) = record.origin() {
        return format!("{} {}", origin.kind, origin.from);
    }
    match (&record.branch(), is_here(record, worktree)) {
        (Some(branch), true) => branch.clone(),
        (Some(branch), false) => format!("{branch} in {folder}"),
        (None, true) => "here".to_owned(),
        (None, false) => folder.to_owned(),
    }
}

/// The branch of a run of a store on a server, and who works on it where.
fn elsewhere(summary: &RunSummary, record: &RunRecord, host: &str) -> String {
    let who = summary.user().as_deref().map_or_else(|| host.to_owned(), |user| format!("{user}@{host}"));
    match record.branch() {
        Some(branch) => format!("{branch} on {who}"),
        None => who,
    }
}

fn is_here(record: &RunRecord, worktree: &str) -> bool {
    record.folder().is_some_and(|folder| folder == worktree)
}

/// The page of one run.
fn page(detail: &RunDetail, messages: &[Message], width: Option<usize>, now: Timestamp) -> String {
    let summary = &detail.summary();
    let mut text = format!("{}\n", bold(summary.run_id().as_str()));
    let record = match &summary.record() {
        Ok(record) => record,
        Err(damage) => {
            let _ = writeln!(text, "  {}", clean(&damage.to_string()));
            return text;
        }
    };
    let working = record.working();
    let at = |then| Some(format!("{} ({})", time(then), ago(then, now)));
    let worked = format!("{} in {}", worked(record.total_ms()), counted(record.sessions(), "session"));
    push_fields(
        &mut text,
        width,
        15,
        |name| format!("  {name:<13}"),
        [
            ("title", record.title().clone()),
            ("plan", record.plan().clone()),
            ("status", Some(record.status().to_string())),
            ("profile", Some(record.profile().to_string())),
            ("started", at(record.started_at())),
            ("last write", at(record.updated_at())),
            ("worked", Some(worked)),
            ("checkpoints", Some(summary.checkpoints().to_string())),
            ("latest", summary.latest().as_ref().map(|entry| entry.header.snapshot_id().to_string())),
            ("owner", Some(owner(summary))),
            ("branch", record.branch().clone()),
            ("worktree", record.worktree().clone()),
            ("project", record.project().clone()),
            ("project id", record.project_id().clone()),
            ("user", summary.user().clone()),
            ("host", summary.host().map(str::to_owned)),
            ("phase", working.phase().as_ref().map(phase)),
            ("summary", working.task_summary().clone()),
        ],
    );
    for (heading, lines) in [
        ("Criteria", work_items::criteria(working.criteria())),
        ("Tasks", work_items::tasks(working.tasks())),
        ("Step", working.step_state().as_ref().map(work_items::step).unwrap_or_default()),
        ("Failed, not seen to pass since", work_items::outcomes(working.failures())),
        ("Outcomes since the newest checkpoint", work_items::outcomes(detail.pending_outcomes())),
        ("Decisions", work_items::decisions(working.decisions())),
        ("Said", work_items::messages(messages)),
        ("Files written", work_items::files(working.files())),
        ("Log", work_items::log(working.log())),
    ] {
        push_section(&mut text, width, heading, &lines);
    }
    text
}
