//! `runs`: what there is, newest write first, and one run in full.

use std::fmt::Write as _;

use comfy_table::Cell;
use jiff::Timestamp;
use milepost::model::{RunId, RunRecord};
use milepost::{RunDetail, RunSummary, RunsQuery};
use serde::Serialize;

use crate::config::{duration, word};
use crate::context::Context;
use crate::error::CommandError;
use crate::present::format::{ago, bold, clean, counted, lasting, time};
use crate::present::run::{RunDocument, RunParts, owner, phase};
use crate::present::table::{cell, lines, status, table};
use crate::present::work_items;

/// List runs, or show one in full
///
/// Runs of this worktree are marked with `*`.
#[derive(Debug, Default, clap::Args)]
#[command(after_help = "Examples:\n  milepost runs\n  milepost runs nightly\n  \
                        milepost runs --since 2d --status failed --json")]
pub(crate) struct RunsArgs {
    /// The run to show in full
    #[arg(value_name = "RUN")]
    pub(super) run: Option<String>,
    /// Only written within this time: 30s, 5m, 12h, 14d, 2w
    #[arg(long, value_name = "D")]
    pub(super) since: Option<String>,
    /// Only of this status: in_progress, failed, completed or paused
    #[arg(long, value_name = "S")]
    pub(super) status: Option<String>,
    /// At most so many; 0 is all
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(super) limit: usize,
}

#[derive(Serialize)]
struct Document {
    schema: &'static str,
    runs: Vec<RunDocument>,
    /// Of the one run that was asked for.
    #[serde(flatten)]
    parts: Option<RunParts>,
}

pub(crate) fn run(args: &RunsArgs, context: &Context<'_>) -> Result<(), CommandError> {
    let wanted = args.status.as_deref().map(|s| word(s, "--status", "/status")).transpose()?;
    let since = args.since.as_deref().map(duration).transpose();
    let since = since.map_err(|why| CommandError::usage(format!("--since: {why}")))?;
    let named = args.run.as_deref().map(str::parse::<RunId>).transpose()?;
    let mp = context.open_existing()?;
    let now = mp.now();
    if let Some(run) = named {
        context.ensure_visible(&mp, &run)?;
        let detail = mp.run_detail(&run)?;
        if context.output.json {
            let runs = vec![RunDocument::error_chain(&detail)];
            let parts = Some(RunParts::of(&detail));
            return context.output.document(&Document { schema: "milepost.runs/1", runs, parts });
        }
        return context.output.text(&page(&detail, now));
    }
    let since = since.map(|age| now.checked_sub(age).unwrap_or(Timestamp::MIN));
    let hidden = context.hidden_runs(&mp)?;
    // Runs that are left out take no place of others.
    let limit = if hidden.is_empty() { args.limit } else { 0 };
    let mut runs = mp.runs(&RunsQuery { status: wanted, since, limit })?;
    runs.retain(|run| !hidden.contains(&run.run_id));
    if args.limit > 0 {
        runs.truncate(args.limit);
    }
    if context.output.json {
        let runs = runs.iter().map(RunDocument::of).collect();
        return context.output.document(&Document { schema: "milepost.runs/1", runs, parts: None });
    }
    if runs.is_empty() {
        context.output.message("no runs");
        return Ok(());
    }
    let here = context.here();
    let mut shown =
        table(context.output, &["", "RUN", "TITLE", "STATUS", "LAST WRITE", "CHECKPOINTS", "WHERE", "OWNER"]);
    for summary in &runs {
        shown.add_row(row(summary, &here, now));
    }
    context.output.text(&lines(&shown))
}

fn row(summary: &RunSummary, here: &str, now: Timestamp) -> Vec<Cell> {
    let record = match &summary.record {
        Ok(record) => record,
        Err(damage) => {
            return vec![cell(""), cell(summary.run_id.as_str()), cell(damage.to_string()), cell("damaged")];
        }
    };
    let text = |value: &Option<String>| cell(value.as_deref().unwrap_or_default());
    vec![
        cell(if is_here(record, here) { "*" } else { "" }),
        cell(summary.run_id.as_str()),
        text(&record.title),
        status(record.status),
        cell(ago(record.updated_at, now)),
        cell(summary.checkpoints.to_string()),
        cell(place(record, here)),
        cell(owner(summary)),
    ]
}

/// Where a run works: its branch, and its folder unless that is this one.
fn place(record: &RunRecord, here: &str) -> String {
    let folder = record.place().map_or("", String::as_str);
    if let Some(origin) = &record.origin {
        return format!("{} {}", origin.kind, origin.from);
    }
    match (&record.branch, is_here(record, here)) {
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
    let summary = &detail.summary;
    let mut text = format!("{}\n", bold(summary.run_id.as_str()));
    let record = match &summary.record {
        Ok(record) => record,
        Err(damage) => {
            let _ = writeln!(text, "  {}", clean(&damage.to_string()));
            return text;
        }
    };
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(text, "  {name:<12} {}", clean(value));
    };
    let optional = [("title", &record.title), ("plan", &record.plan)];
    for (name, value) in optional {
        if let Some(value) = value {
            line(name, value);
        }
    }
    line("status", record.status.as_str());
    line("profile", record.profile.as_str());
    line("started", &format!("{} ({})", time(record.started_at), ago(record.started_at, now)));
    line("last write", &format!("{} ({})", time(record.updated_at), ago(record.updated_at, now)));
    line(
        "worked",
        &format!("{} in {}", lasting(record.total_ms() / 1000), counted(record.sessions, "session")),
    );
    line("checkpoints", &summary.checkpoints.to_string());
    if let Some(latest) = &summary.latest {
        line("latest", latest.header.snapshot_id.as_str());
    }
    line("owner", &owner(summary));
    for (name, value) in
        [("branch", &record.branch), ("worktree", &record.worktree), ("project", &record.project)]
    {
        if let Some(value) = value {
            line(name, value);
        }
    }
    let working = &record.working;
    if let Some(at) = &working.phase {
        line("phase", &phase(at));
    }
    if let Some(summary) = &working.task_summary {
        line("summary", summary);
    }
    let sections = [
        ("Criteria", work_items::criteria(&working.criteria)),
        ("Tasks", work_items::tasks(&working.tasks)),
        ("Step", working.step_state.as_ref().map(work_items::step).unwrap_or_default()),
        ("Outcomes since the newest checkpoint", work_items::outcomes(&detail.pending_outcomes)),
        ("Decisions", work_items::decisions(&working.decisions)),
        ("Log", work_items::log(&working.log)),
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
