//! The result of `summary`: an overview of a run with its checkpoints, memory, sessions, tasks, failures and
//! files.

use std::fmt::Write as _;
use std::time::Duration;

use milepost::format_duration;
use milepost::internal::engine::PendingCounts;
use milepost::model::{Outcome, OutcomeResult};
use milepost::{FailedOutcome, Summary, SummaryLine};
use serde::Serialize;

use super::format::{bold, bytes, clean, count, counted, dim, path, red, short_time, wrap};
use super::table::{Column, Table, cell, status};
use super::{Document, Output, work_items};
use crate::error::Result;

/// Maximum number of checkpoints shown, except with `--verbose`.
const SHOWN: usize = 40;
/// Maximum number of lines in a section, except with `--verbose`.
const FILES: usize = 20;
/// Maximum width of the memory graph.
const SPARKS: usize = 60;

#[derive(Serialize)]
#[serde(tag = "schema", rename = "milepost.summary/1")]
pub(crate) struct SummaryDocument {
    #[serde(flatten)]
    pub(crate) summary: Summary,
}

impl Document for SummaryDocument {
    fn render(&self, output: &Output) -> Result<()> {
        output.write_text(&page(output, &self.summary))
    }
}

fn lasting(ms: u64) -> String {
    format_duration(Duration::from_millis(ms))
}

/// The page of a run. Empty sections are omitted.
fn page(output: &Output, summary: &Summary) -> String {
    let standing = summary.status().map_or("", |status| status.as_str());
    let mut text = format!("{}  {standing}\n", bold(summary.run_id().as_str()));
    let mut facts = vec![
        counted(summary.total(), "checkpoint"),
        format!(
            "{} in {}",
            lasting(summary.total_duration()),
            counted(summary.sessions().len() as u64, "session")
        ),
        format!("{} touched", counted(summary.files_modified().len() as u64, "file")),
    ];
    facts.extend(summary.peak_rss().map(|peak| format!("peak memory {}", bytes(peak))));
    let _ = writeln!(text, "  {}", wrap(&facts.join(", "), 2, output.width()));
    let pending = summary.pending();
    if pending.changes > 0 {
        let n = counted(pending.changes, "change");
        let newest = if summary.total() > 0 { "since the newest checkpoint" } else { "in no checkpoint yet" };
        let line = format!("{n} {newest}{}", kinds(&pending));
        let _ = writeln!(text, "  {}", wrap(&line, 2, output.width()));
    }
    if !summary.damaged().is_empty() {
        let numbers: Vec<_> = summary.damaged().iter().map(u64::to_string).collect();
        let _ =
            writeln!(text, "  {} {}; run `milepost verify` for details", red("damaged:"), numbers.join(", "));
    }
    text.push('\n');
    text.push_str(&checkpoints(output, summary));
    memory(&mut text, summary);
    sessions(&mut text, output, summary);
    let tasks = work_items::tasks(summary.tasks());
    let n = tasks.len();
    section(&mut text, "Tasks", tasks.into_iter(), n, output);
    let failed = failed_lines(summary);
    let n = failed.len();
    section_with_details(&mut text, "Failed", failed.into_iter(), n, output);
    let most = summary.most_touched().iter().filter(|touched| touched.checkpoints() > 1);
    let most: Vec<_> = most
        .map(|touched| format!("{} ({})", path(touched.path()), counted(touched.checkpoints(), "checkpoint")))
        .collect();
    let n = most.len();
    section(&mut text, "Changed in most checkpoints", most.into_iter(), n, output);
    let files = summary.files_modified().iter().map(path);
    section(&mut text, "Files touched", files, summary.files_modified().len(), output);
    text
}

/// The kinds of the changes since the newest checkpoint, in parentheses.
fn kinds(pending: &PendingCounts) -> String {
    let all = [
        (pending.outcomes, "outcome"),
        (pending.files, "file"),
        (pending.tasks, "task"),
        (pending.decisions, "decision"),
        (pending.notes, "note"),
    ];
    let kinds: Vec<_> = all.iter().filter(|(n, _)| *n > 0).map(|(n, kind)| counted(*n, kind)).collect();
    if kinds.is_empty() { String::new() } else { format!(": {}", kinds.join(", ")) }
}

/// One line per failed outcome: unfixed ones of earlier runs first, then those of this run.
fn failed_lines(summary: &Summary) -> Vec<(String, Vec<String>)> {
    let newest = summary.checkpoints().last().map(SummaryLine::number);
    let line = |outcome: &Outcome, place: &str, fixed: Option<bool>| {
        let reason = outcome.reason_code.as_ref().map(|code| format!(" ({code})")).unwrap_or_default();
        let fixed = match fixed {
            Some(true) => ", passed later",
            Some(false) => ", not seen to pass since",
            None => "",
        };
        let took = lasting(outcome.duration_ms);
        format!("{} {}{reason}, {took}{place}{fixed}", OutcomeResult::Fail, outcome.name)
    };
    let is_own = |unfixed: &&Outcome| {
        summary.failed().iter().any(|failure| {
            let own = failure.outcome();
            failure.fixed() == Some(false) && (own.name == unfixed.name && own.folder() == unfixed.folder())
        })
    };
    let earlier = summary.unfixed().iter().filter(|unfixed| !is_own(unfixed));
    let earlier = earlier.map(|outcome| (line(outcome, "", Some(false)), last_output(outcome)));
    let own = |failure: &FailedOutcome| {
        let place = match (failure.number(), newest) {
            (0, Some(newest)) => format!(", after @{newest}"),
            (0, None) => String::new(),
            (number, _) => format!(", in @{number}"),
        };
        (line(failure.outcome(), &place, failure.fixed()), last_output(failure.outcome()))
    };
    earlier.chain(summary.failed().iter().map(own)).collect()
}

fn checkpoints(output: &Output, summary: &Summary) -> String {
    let all = &summary.checkpoints();
    if all.is_empty() {
        return "No checkpoints.\n".to_owned();
    }
    let hidden = if output.is_verbose() { 0 } else { all.len().saturating_sub(SHOWN) };
    let mut shown = Table::new(
        output,
        &[
            Column::new("#").right(),
            Column::new("SAVED (UTC)"),
            Column::new("ELAPSED").right(),
            Column::new("SOURCE").optional(2),
            Column::new("STATUS"),
            Column::new("CHANGED").optional(3),
            Column::new("FILES").right(),
            Column::new("WATCHED").right().optional(1),
            Column::new("MEMORY").right().optional(4),
        ],
    );
    for line in &all[hidden..] {
        shown.add_row([
            cell(line.number().to_string()),
            cell(short_time(line.timestamp())),
            cell(lasting(line.duration())),
            cell(line.source().as_str()),
            status(line.status()),
            cell(changed(line)),
            cell(count(line.files_modified())),
            cell(if line.aiwg_files() == 0 { String::new() } else { count(line.aiwg_files()) }),
            cell(line.rss().map(bytes).unwrap_or_default()),
        ]);
    }
    let mut text = shown.lines();
    if hidden > 0 {
        let _ = writeln!(text, "{}", dim(&format!("  and {} earlier (-v shows all)", count(hidden as u64))));
    }
    text
}

/// The number of modified (M), staged (S) and untracked (?) paths.
fn changed(line: &SummaryLine) -> String {
    let git = line.git_status();
    let kinds = [(git.modified(), "M"), (git.staged(), "S"), (git.untracked(), "?")];
    let counts: Vec<_> =
        kinds.iter().filter(|(n, _)| *n > 0).map(|(n, kind)| format!("{}{kind}", count(*n))).collect();
    counts.join(" ")
}

fn memory(text: &mut String, summary: &Summary) {
    let rss: Vec<u64> = summary.checkpoints().iter().filter_map(|line| line.rss()).collect();
    let Some(most) = rss.iter().max().filter(|_| rss.len() > 1) else { return };
    let least = rss.iter().min().copied().unwrap_or_default();
    let _ = writeln!(text, "\n{}  {} {} to {}", bold("Memory"), sparks(&rss), bytes(least), bytes(*most));
}

/// A one-line graph, scaled from zero to the largest number. If there are too many numbers, each column shows
/// the maximum of its group.
fn sparks(numbers: &[u64]) -> String {
    const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let most = numbers.iter().max().copied().unwrap_or_default().max(1);
    let stretch = numbers.len().div_ceil(SPARKS).max(1);
    let height = |n: u64| LEVELS[usize::try_from(u128::from(n) * 7 / u128::from(most)).unwrap_or(7).min(7)];
    numbers.chunks(stretch).map(|part| height(part.iter().max().copied().unwrap_or_default())).collect()
}

fn sessions(text: &mut String, output: &Output, summary: &Summary) {
    if summary.sessions().len() < 2 {
        return;
    }
    let _ = writeln!(text, "\n{}", bold("Sessions"));
    let mut shown = Table::new(
        output,
        &[
            Column::text("SESSION", 12),
            Column::new("STARTED (UTC)"),
            Column::new("LASTED").right(),
            Column::new("CHECKPOINTS"),
        ],
    );
    for session in summary.sessions() {
        let numbers = format!("{} ({}…{})", session.total(), session.first(), session.last());
        shown.add_row([
            cell(session.session_id()),
            cell(short_time(session.started_at())),
            cell(lasting(session.total_duration())),
            cell(numbers),
        ]);
    }
    text.push_str(&shown.lines());
}

/// The last lines of the output of a failed command, unless the summary only repeats how it ended.
fn last_output(outcome: &Outcome) -> Vec<String> {
    /// Maximum number of lines.
    const LINES: usize = 3;
    let code = outcome.reason_code.as_deref().unwrap_or_default().replace('_', " ");
    if outcome.summary == code || outcome.summary.starts_with("ended by SIG") {
        return Vec::new();
    }
    let lines: Vec<_> = outcome.summary.lines().map(str::to_owned).collect();
    lines[lines.len().saturating_sub(LINES)..].to_vec()
}

fn section(text: &mut String, name: &str, all: impl Iterator<Item = String>, n: usize, output: &Output) {
    section_with_details(text, name, all.map(|line| (line, Vec::new())), n, output);
}

/// A section whose lines have further lines below them.
fn section_with_details(
    text: &mut String,
    name: &str,
    all: impl Iterator<Item = (String, Vec<String>)>,
    n: usize,
    output: &Output,
) {
    if n == 0 {
        return;
    }
    let most = if output.is_verbose() { usize::MAX } else { FILES };
    let _ = writeln!(text, "\n{}", bold(name));
    for (line, details) in all.take(most) {
        let _ = writeln!(text, "  {}", wrap(&clean(&line), 4, output.width()));
        for detail in details {
            let _ = writeln!(text, "    {}", clean(&detail));
        }
    }
    if n > most {
        let _ = writeln!(text, "{}", dim(&format!("  and {} more (-v shows all)", count((n - most) as u64))));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_goes_up_and_down_with_its_numbers() {
        assert_eq!(sparks(&[0, 50, 100]), "▁▄█");
        assert_eq!(sparks(&[0, 0]), "▁▁");
        let many: Vec<u64> = (0..600).collect();
        assert_eq!(sparks(&many).chars().count(), SPARKS);
        assert!(sparks(&[u64::MAX, 1]).starts_with('█'));
    }
}
