//! What changed between two checkpoints: as JSON, and in groups for people, long values truncated.

use std::fmt::Write as _;

use jiff::Timestamp;
use milepost::model::{CheckpointId, Outcome, OutcomeResult, RawJson};
use milepost::store::CheckpointEntry;
use milepost::{Diff, FieldChange, FileChanges};
use serde::Serialize;

use super::format::{self, bold, clean, counted, dim, green, path, red};
use super::{Document, Output};
use crate::error::{CommandError, Result};
use crate::error_advice::Exit;

/// A diff.
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
    /// Whether a difference is reported by the exit code.
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
        output.write_text(&page(&self.diff, output.is_verbose(), self.now))?;
        if self.from == self.to {
            output.message(
                "both are the same checkpoint; `milepost diff latest~1` compares with the one before",
            );
        }
        Ok(())
    }

    fn error(&self) -> Option<CommandError> {
        (self.exit_code && self.differs).then_some(CommandError::ExitOnly(Exit::Nothing))
    }
}

/// The checkpoint as `RUN@NUMBER`.
fn numbered_reference(entry: &CheckpointEntry) -> String {
    format!("{}@{}", entry.header.run_id(), entry.header.sequence())
}

/// Groups in the order people read them, and the members that belong to each.
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
/// Maximum length of a value in characters.
const MAX_WIDTH: usize = 60;

/// The text so far, and whether something in it was truncated.
struct Page {
    text: String,
    full: bool,
    truncated: bool,
}

impl Page {
    fn group(&mut self, name: &str, lines: Vec<String>) {
        if lines.is_empty() {
            return;
        }
        let limit = if self.full { usize::MAX } else { MAX_LINES };
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
        if self.full || text.chars().count() <= MAX_WIDTH {
            return text;
        }
        self.truncated = true;
        let start: String = text.chars().take(MAX_WIDTH).collect();
        format!("{start}… ({})", format::bytes(raw.get().len() as u64))
    }

    fn change(&mut self, change: &FieldChange) -> String {
        let path = clean(change.path());
        match (&change.before(), &change.after()) {
            (None, Some(after)) => format!("{} {path}  {}", green("+"), green(&self.value(after))),
            (Some(before), None) => format!("{} {path}  {}", red("-"), red(&self.value(before))),
            (Some(before), Some(after)) => {
                let (before, after) = (self.value(before), self.value(after));
                if before.len() + after.len() + path.len() <= MAX_WIDTH {
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

/// What changed, in groups.
fn page(diff: &Diff, full: bool, now: Timestamp) -> String {
    let mut page = Page { text: String::new(), full, truncated: false };
    for (name, entry) in [("from", &diff.from()), ("to  ", &diff.to())] {
        let header = &entry.header;
        let at = format!("{}  {}", numbered_reference(entry), format::ago(header.created_at(), now));
        let _ = writeln!(page.text, "{name} {}  {}", bold(header.snapshot_id().as_str()), dim(&at));
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
            page.group("Outcomes since", outcomes(diff));
        }
    }
    let known = |name: &str| GROUPS.iter().any(|(_, members)| members.contains(&name));
    let others = changed.iter().filter(|c| !known(&member(c)));
    let others = others.map(|c| page.change(c)).collect();
    page.group("Other", others);
    if page.truncated {
        let (a, b) = (&diff.from().header.snapshot_id(), &diff.to().header.snapshot_id());
        let _ = writeln!(page.text, "\n{}", dim(&format!("In full: milepost diff -v {a} {b}")));
    }
    page.text
}

fn outcomes(diff: &Diff) -> Vec<String> {
    let line = |outcome: &Outcome| {
        let sign = match outcome.result {
            OutcomeResult::Pass => green("PASS"),
            OutcomeResult::Fail => red("FAIL"),
            OutcomeResult::Warn => format::yellow("WARN"),
        };
        let more = if outcome.summary.is_empty() { String::new() } else { format!(": {}", outcome.summary) };
        let more: String = clean(&more).chars().take(MAX_WIDTH).collect();
        format!("{sign} {} {} ({} ms){more}", outcome.kind, clean(&outcome.name), outcome.duration_ms)
    };
    let left_out = (diff.outcomes_left_out() > 0)
        .then(|| format!("{} before them", counted(diff.outcomes_left_out(), "more outcome")));
    left_out.into_iter().chain(diff.outcomes().iter().map(line)).collect()
}

fn files(files: &FileChanges) -> Vec<String> {
    let added = files.added().iter().map(|file| format!("{} {}", green("+"), green(&path(file))));
    let removed = files.removed().iter().map(|file| format!("{} {}", red("-"), red(&path(file))));
    added.chain(removed).collect()
}
