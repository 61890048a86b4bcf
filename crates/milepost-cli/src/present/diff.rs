//! The result of `diff`: the changes between two checkpoints, as JSON, or in groups with long values
//! truncated.

use std::fmt::Write as _;

use jiff::Timestamp;
use milepost::model::{CheckpointId, Outcome, OutcomeResult, RawJson};
use milepost::store::CheckpointEntry;
use milepost::{Diff, FieldChange, FileChanges};
use serde::Serialize;
use unicode_width::UnicodeWidthStr as _;

use super::format::{self, bold, clean, counted, dim, green, path, red};
use super::table::{numbered, truncate};
use super::{Document, Output};
use crate::error::{CommandError, Result};
use crate::error_advice::Exit;

/// The changes between two checkpoints.
#[derive(Serialize)]
#[serde(tag = "schema", rename = "milepost.diff/1")]
pub(crate) struct DiffDocument {
    from: CheckpointId,
    to: CheckpointId,
    from_ref: String,
    to_ref: String,
    differs: bool,
    #[serde(flatten)]
    diff: Diff,
    #[serde(skip)]
    now: Timestamp,
    /// Whether the exit code reports a difference (`--exit-code`).
    #[serde(skip)]
    exit_code: bool,
}

impl DiffDocument {
    pub(crate) fn new(diff: Diff, now: Timestamp, exit_code: bool) -> Self {
        Self {
            from: diff.from().header.snapshot_id().clone(),
            to: diff.to().header.snapshot_id().clone(),
            from_ref: numbered_reference(diff.from()),
            to_ref: numbered_reference(diff.to()),
            differs: !diff.is_empty(),
            diff,
            now,
            exit_code,
        }
    }
}

impl Document for DiffDocument {
    fn render(&self, output: &Output) -> Result<()> {
        output.write_text(&page(&self.diff, output, self.now))?;
        if self.from == self.to {
            output.message("Both are the same checkpoint; to compare with the previous one, use `latest~1`");
        }
        Ok(())
    }

    fn error(&self) -> Option<CommandError> {
        (self.exit_code && self.differs).then_some(CommandError::ExitOnly(Exit::Nothing))
    }
}

/// The reference `RUN@NUMBER` of a checkpoint.
fn numbered_reference(entry: &CheckpointEntry) -> String {
    format!("{}@{}", entry.header.run_id(), entry.header.sequence())
}

/// The short id of a checkpoint, or its id if it has no short form.
fn short_id(entry: &CheckpointEntry) -> &str {
    let id = entry.header.snapshot_id();
    id.short().unwrap_or(id.as_str())
}

/// The groups in display order, with their top-level fields.
const GROUPS: [(&str, &[&str]); 11] = [
    ("Status", &["status", "phase", "task_summary"]),
    ("Criteria", &["criteria"]),
    ("Tasks", &["tasks"]),
    ("Step", &["step_state"]),
    ("Context", &["context_digest"]),
    ("Decisions", &["decisions"]),
    ("Log", &["log"]),
    ("Files", &["files", "workspace"]),
    ("Brief", &["brief"]),
    ("State", &["state"]),
    ("Metadata", &["metadata"]),
];

/// Maximum number of lines in one group.
const MAX_LINES: usize = 20;
/// Width of a value if the output has no width limit.
const USUAL_WIDTH: usize = 72;
/// Number of columns before a value on its own line.
const INDENT: usize = 8;

/// The text so far, and whether any of it was truncated.
struct Page {
    text: String,
    /// Width of a value. `None` for no limit.
    width: Option<usize>,
    truncated: bool,
}

impl Page {
    fn group(&mut self, name: &str, lines: Vec<String>) {
        if lines.is_empty() {
            return;
        }
        let limit = if self.width.is_none() { usize::MAX } else { MAX_LINES };
        let _ = writeln!(self.text, "\n{}", bold(name));
        for line in lines.iter().take(limit) {
            let _ = writeln!(self.text, "  {line}");
        }
        if lines.len() > limit {
            self.truncated = true;
            let _ = writeln!(self.text, "  … and {} more", format::count((lines.len() - limit) as u64));
        }
    }

    fn value(&mut self, raw: &RawJson) -> String {
        let text = clean(raw.get());
        let Some(width) = self.width.filter(|width| text.width() > *width) else { return text };
        self.truncated = true;
        let size = format!(" ({})", format::bytes(raw.get().len() as u64));
        format!("{}{size}", truncate(&text, width.saturating_sub(size.len())))
    }

    /// A value that exists on only one side, on the same line as its path if it fits.
    fn one_sided(&mut self, style: fn(&str) -> String, sign: &str, path: &str, raw: &RawJson) -> String {
        let value = self.value(raw);
        match self.width.is_none_or(|width| path.width() + value.width() + 2 <= width) {
            true => format!("{} {path}  {}", style(sign), style(&value)),
            false => format!("{} {path}\n        {}", style(sign), style(&value)),
        }
    }

    fn change(&mut self, change: &FieldChange) -> String {
        let path = clean(change.path());
        match (&change.before(), &change.after()) {
            (None, Some(after)) => self.one_sided(green, "+", &path, after),
            (Some(before), None) => self.one_sided(red, "-", &path, before),
            (Some(before), Some(after)) => {
                let (before, after) = (self.value(before), self.value(after));
                let on_one_line = before.width() + after.width() + path.width();
                if self.width.is_none_or(|width| on_one_line + 2 <= width) {
                    format!("~ {path}  {} → {}", red(&before), green(&after))
                } else {
                    format!(
                        "~ {path}\n      {} {}\n      {} {}",
                        red("-"),
                        red(&before),
                        green("+"),
                        green(&after)
                    )
                }
            }
            (None, None) => path,
        }
    }
}

/// The page with the changes in groups.
fn page(diff: &Diff, output: &Output, now: Timestamp) -> String {
    let width = output.width().map_or(USUAL_WIDTH, |width| width.saturating_sub(INDENT));
    let width = (!output.is_verbose()).then_some(width);
    let mut page = Page { text: String::new(), width, truncated: false };
    for (name, entry) in [("from", &diff.from()), ("to  ", &diff.to())] {
        let header = &entry.header;
        let age = format::ago(header.created_at(), now);
        let id = short_id(entry);
        let room = output.width().map_or(usize::MAX, |all| all.saturating_sub(id.len() + age.width() + 9));
        let at = numbered(header.run_id(), header.sequence()).render(room);
        let _ = writeln!(page.text, "{name} {}  {}", bold(id), dim(&format!("{at}  {age}")));
    }
    if diff.is_empty() {
        page.text.push_str("\nNo differences.\n");
        return page.text;
    }
    let changed = &diff.difference().changed;
    let member = |change: &FieldChange| {
        let rest = change.path().trim_start_matches('/');
        rest[..rest.find(['/', '[']).unwrap_or(rest.len())].to_owned()
    };
    for (name, members) in GROUPS {
        let lines = changed.iter().filter(|c| members.contains(&member(c).as_str()));
        let lines = lines.map(|c| page.change(c));
        let lines = match name {
            "Files" => files(&diff.difference().files).into_iter().chain(lines).collect(),
            _ => lines.collect(),
        };
        page.group(name, lines);
        if name == "Step" {
            let outcomes = outcomes(diff, page.width);
            page.group("Outcomes since", outcomes);
        }
    }
    let known = |name: &str| GROUPS.iter().any(|(_, members)| members.contains(&name));
    let others = changed.iter().filter(|c| !known(&member(c)));
    let others = others.map(|c| page.change(c)).collect();
    page.group("Other", others);
    if page.truncated {
        let (a, b) = (short_id(diff.from()), short_id(diff.to()));
        let _ = writeln!(page.text, "\n{}", dim(&format!("In full: milepost diff -v {a} {b}")));
    }
    page.text
}

fn outcomes(diff: &Diff, width: Option<usize>) -> Vec<String> {
    let line = |outcome: &Outcome| {
        let sign = match outcome.result {
            OutcomeResult::Pass => green("PASS"),
            OutcomeResult::Fail => red("FAIL"),
            OutcomeResult::Warn => format::yellow("WARN"),
        };
        let more = if outcome.summary.is_empty() { String::new() } else { format!(": {}", outcome.summary) };
        let line = format!("{} {} ({} ms){more}", outcome.kind, outcome.name, outcome.duration_ms);
        format!("{sign} {}", truncate(&clean(&line), width.unwrap_or(usize::MAX)))
    };
    let left_out = (diff.outcomes_left_out() > 0)
        .then(|| format!("{} not shown", counted(diff.outcomes_left_out(), "earlier outcome")));
    left_out.into_iter().chain(diff.outcomes().iter().map(line)).collect()
}

fn files(files: &FileChanges) -> Vec<String> {
    let added = files.added().iter().map(|file| format!("{} {}", green("+"), green(&path(file))));
    let removed = files.removed().iter().map(|file| format!("{} {}", red("-"), red(&path(file))));
    added.chain(removed).collect()
}
