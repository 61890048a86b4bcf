//! What changed between two checkpoints: as JSON, and in groups for people, long values cut.

use std::fmt::Write as _;

use jiff::Timestamp;
use milepost::Diff;
use milepost::model::{CheckpointId, Outcome, OutcomeResult, PathText, RawJson};
use milepost::store::CheckpointEntry;
use milepost::{FieldChange, FileChanges};
use serde::Serialize;

use super::format::{self, bold, clean, counted, dim, green, red};

/// A diff as programs see it.
#[derive(Debug, Serialize)]
pub(crate) struct Document<'a> {
    schema: &'static str,
    from: &'a CheckpointId,
    to: &'a CheckpointId,
    from_ref: String,
    to_ref: String,
    differs: bool,
    changed: Vec<Changed<'a>>,
    files: &'a FileChanges,
    outcomes: &'a [Outcome],
    outcomes_left_out: u64,
}

#[derive(Debug, Serialize)]
struct Changed<'a> {
    path: &'a str,
    /// `added`, `removed` or `changed`: a value that is null is not one that is absent.
    op: &'static str,
    before: Option<&'a RawJson>,
    after: Option<&'a RawJson>,
}

impl<'a> Document<'a> {
    /// A diff.
    pub(crate) fn of(diff: &'a Diff) -> Self {
        let changed = |change: &'a FieldChange| Changed {
            path: &change.path,
            op: match (&change.before, &change.after) {
                (None, _) => "added",
                (_, None) => "removed",
                _ => "changed",
            },
            before: change.before.as_ref(),
            after: change.after.as_ref(),
        };
        Self {
            schema: "milepost.diff/1",
            from: &diff.from.header.snapshot_id,
            to: &diff.to.header.snapshot_id,
            from_ref: place(&diff.from),
            to_ref: place(&diff.to),
            differs: !diff.is_empty(),
            changed: diff.difference.changed.iter().map(changed).collect(),
            files: &diff.difference.files,
            outcomes: &diff.outcomes,
            outcomes_left_out: diff.outcomes_left_out,
        }
    }
}

fn place(entry: &CheckpointEntry) -> String {
    format!("{}@{}", entry.header.run_id, entry.header.sequence)
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

/// Lines of one group that are shown.
const SHOWN: usize = 20;
/// Characters of a value that are shown.
const WIDE: usize = 60;

/// A page that grows, and remembers whether something was cut.
struct Page {
    text: String,
    whole: bool,
    cut: bool,
}

impl Page {
    fn group(&mut self, name: &str, lines: Vec<String>) {
        if lines.is_empty() {
            return;
        }
        let most = if self.whole { usize::MAX } else { SHOWN };
        let _ = writeln!(self.text, "\n{}", bold(name));
        for line in lines.iter().take(most) {
            let _ = writeln!(self.text, "  {line}");
        }
        if lines.len() > most {
            self.cut = true;
            let _ = writeln!(self.text, "  … and {} more", format::count((lines.len() - most) as u64));
        }
    }

    fn value(&mut self, raw: &RawJson) -> String {
        let text = clean(raw.get());
        if self.whole || text.chars().count() <= WIDE {
            return text;
        }
        self.cut = true;
        let start: String = text.chars().take(WIDE).collect();
        format!("{start}… ({})", format::bytes(raw.get().len() as u64))
    }

    fn change(&mut self, change: &FieldChange) -> String {
        let path = clean(&change.path);
        match (&change.before, &change.after) {
            (None, Some(after)) => format!("{} {path}  {}", green("+"), green(&self.value(after))),
            (Some(before), None) => format!("{} {path}  {}", red("-"), red(&self.value(before))),
            (Some(before), Some(after)) => {
                let (before, after) = (self.value(before), self.value(after));
                if before.len() + after.len() + path.len() <= WIDE {
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
pub(crate) fn page(diff: &Diff, whole: bool, now: Timestamp) -> String {
    let mut page = Page { text: String::new(), whole, cut: false };
    for (name, entry) in [("from", &diff.from), ("to  ", &diff.to)] {
        let header = &entry.header;
        let at = format!("{}  {}", place(entry), format::ago(header.created_at, now));
        let _ = writeln!(page.text, "{name} {}  {}", bold(header.snapshot_id.as_str()), dim(&at));
    }
    if diff.is_empty() {
        page.text.push_str("\nNo differences.\n");
        return page.text;
    }
    let changed = &diff.difference.changed;
    let member = |change: &FieldChange| {
        let rest = change.path.trim_start_matches('/');
        rest[..rest.find(['/', '[']).unwrap_or(rest.len())].to_owned()
    };
    for (name, members) in GROUPS {
        let lines = changed.iter().filter(|c| members.contains(&member(c).as_str()));
        let lines = lines.map(|c| page.change(c));
        let lines = match name {
            "Files" => files(&diff.difference.files).into_iter().chain(lines).collect(),
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
    if page.cut {
        let (a, b) = (&diff.from.header.snapshot_id, &diff.to.header.snapshot_id);
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
        let more: String = clean(&more).chars().take(WIDE).collect();
        format!("{sign} {} {} ({} ms){more}", outcome.kind, clean(&outcome.name), outcome.duration_ms)
    };
    let left_out = (diff.outcomes_left_out > 0)
        .then(|| format!("{} before them", counted(diff.outcomes_left_out, "more outcome")));
    left_out.into_iter().chain(diff.outcomes.iter().map(line)).collect()
}

fn files(files: &FileChanges) -> Vec<String> {
    let name = |path: &PathText| match path {
        PathText::Text(text) => clean(text),
        PathText::Bytes { b64 } => format!("base64:{b64}"),
    };
    let added = files.added.iter().map(|path| format!("{} {}", green("+"), green(&name(path))));
    let removed = files.removed.iter().map(|path| format!("{} {}", red("-"), red(&name(path))));
    added.chain(removed).collect()
}
