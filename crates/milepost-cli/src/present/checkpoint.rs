//! The result of `show`: one checkpoint with its marks, as JSON or as a page for people.

use std::fmt::Write as _;

use jiff::Timestamp;
use milepost::internal::capture::NO_REPOSITORY;
use milepost::internal::engine::{RecentChanges, source_details};
use milepost::internal::seal::strict;
use milepost::model::{Body, Message, Outcome, PathText, RawJson, RestorePoint, ThreadPosition, Workspace};
use milepost::{Reference, RunDetail, ShownCheckpoint};
use serde::Serialize;

use super::damage::Fallback;
use super::format::{self, bold, clean_lines, dim, path, push_fields, push_section};
use super::table::numbered;
use super::{Document, Output, work_items};
use crate::error::{CommandError, Result};

/// The JSON form of marks.
#[derive(Debug, Serialize)]
struct MarksDocument {
    completed: bool,
    pinned: bool,
    tags: Vec<String>,
    source_details: Vec<String>,
    revision: u64,
    refreshed_at: Option<Timestamp>,
}

impl MarksDocument {
    /// Creates the document for a checkpoint.
    fn of(entry: &milepost::store::CheckpointEntry, completed: bool) -> Self {
        Self {
            completed,
            pinned: entry.marks.pinned,
            tags: entry.marks.tags.clone(),
            source_details: source_details(entry),
            revision: entry.marks.revision,
            refreshed_at: entry.marks.refreshed_at,
        }
    }
}

/// A sealed checkpoint and its marks.
#[derive(Serialize)]
#[serde(tag = "schema", rename = "milepost.show/1")]
pub(crate) struct ShowDocument {
    checkpoint: RawJson,
    marks: MarksDocument,
    #[serde(rename = "fell_back_from", skip_serializing_if = "Fallback::is_empty")]
    fallback: Fallback,
    /// What the user and the agent said up to the checkpoint, in its run and in those that it continues.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    messages: Vec<Message>,
    /// Commands that failed and were not seen to succeed since. Present only for the newest checkpoint.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unfixed: Vec<Outcome>,
    /// What was recorded since the checkpoint. Present only for the newest checkpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<RecentChanges>,
    /// The files before the newest prompts, newest first, up to the checkpoint. For the newest checkpoint, also those
    /// since then.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    restore_points: Vec<RestorePointDocument>,
    #[serde(skip)]
    shown: ShownCheckpoint,
    #[serde(skip)]
    now: Timestamp,
}

/// The place of a checkpoint in a thread.
fn position(position: &ThreadPosition) -> String {
    match position.namespace.as_str() {
        "" => format!("checkpoint {}", position.id),
        namespace => format!("checkpoint {} in {namespace}", position.id),
    }
}

/// The files before a prompt.
#[derive(Debug, Serialize)]
struct RestorePointDocument {
    /// `prompt` or `prompt~N`, which names these files in the run.
    reference: String,
    at: Timestamp,
    /// The first line of the prompt.
    prompt: Option<String>,
}

impl RestorePointDocument {
    fn new((number, point): (u64, RestorePoint)) -> Self {
        Self { reference: Reference::Prompt(number).to_string(), at: point.at, prompt: point.prompt }
    }
}

impl ShowDocument {
    /// Creates the document. `recent` is the run and what was recorded since, for its newest checkpoint.
    pub(crate) fn new(
        shown: ShownCheckpoint,
        messages: Vec<Message>,
        recent: Option<(RunDetail, RecentChanges)>,
        restore_points: Vec<(u64, RestorePoint)>,
        now: Timestamp,
    ) -> Result<Self> {
        let text = strict::utf8(shown.bytes())?;
        let (detail, since) = recent.unzip();
        let record = detail.as_ref().and_then(|detail| detail.summary().intact());
        let damaged = shown.fell_back_from().clone();
        Ok(Self {
            checkpoint: RawJson::parse(text)?,
            marks: MarksDocument::of(shown.entry(), shown.completed()),
            fallback: Fallback::new(damaged, shown.entry().header.snapshot_id()),
            messages,
            unfixed: record.map(|record| record.working().failures().clone()).unwrap_or_default(),
            since: since.filter(|since| !since.is_empty()),
            restore_points: restore_points.into_iter().map(RestorePointDocument::new).collect(),
            shown,
            now,
        })
    }
}

impl Document for ShowDocument {
    fn render(&self, output: &Output) -> Result<()> {
        let header = &self.shown.entry().header;
        let body = self.shown.body().map_err(|source| milepost::Error::Newer {
            run: header.run_id().clone(),
            sequence: header.sequence(),
            source,
        })?;
        output.write_text(&self.page(&body, output.width()))
    }

    fn error(&self) -> Option<CommandError> {
        self.fallback.error()
    }
}

impl ShowDocument {
    /// The page of a checkpoint. Empty sections are omitted.
    fn page(&self, body: &Body, width: Option<usize>) -> String {
        let (shown, now) = (&self.shown, self.now);
        let header = &shown.entry().header;
        let id = header.snapshot_id().as_str();
        let room = width.map_or(usize::MAX, |width| width.saturating_sub(id.len() + 2));
        let reference = numbered(header.run_id(), header.sequence()).render(room);
        let mut text = format!("{}  {}\n", bold(id), dim(&reference));
        let elapsed = format::worked(body.elapsed_ms);
        let created = format!("{} ({})", format::time(body.created_at), format::ago(body.created_at, now));
        push_fields(
            &mut text,
            width,
            12,
            |name| format!("  {name:<10}"),
            [
                ("created", Some(created)),
                ("session", Some(format!("{}, {elapsed} in", body.session_id))),
                ("source", Some(source_details(shown.entry()).join(", "))),
                ("status", Some(body.status.to_string())),
                ("phase", body.phase.as_ref().map(super::run::phase)),
                ("summary", body.task_summary.clone()),
                ("thread", body.thread.as_ref().map(position)),
                ("continues", body.parent.as_ref().map(ToString::to_string)),
                ("marks", Some(marks(shown))),
            ],
        );
        let step = body.step_state.as_ref();
        for (heading, lines) in [
            ("Criteria", work_items::criteria(&body.criteria)),
            ("Tasks", work_items::tasks(&body.tasks)),
            ("Step", step.map(work_items::step).unwrap_or_default()),
            ("Outcomes", work_items::outcomes(&body.command_outcomes)),
            ("Decisions", work_items::decisions(&body.decisions)),
            ("Said", work_items::messages(&self.messages)),
            ("Log", work_items::log(&body.log)),
            ("Files", body.files.iter().map(|file| file.path.clone()).collect()),
            ("Workspace", body.workspace.as_ref().map(workspace_lines).unwrap_or_default()),
        ] {
            push_section(&mut text, width, heading, &lines);
        }
        if let Some(brief) = &body.brief {
            let _ = writeln!(text, "\n{}", bold("Brief"));
            for line in clean_lines(brief).lines() {
                let _ = writeln!(text, "{}", format!("  {line}").trim_end());
            }
        }
        let mut more = Vec::new();
        if let Some(state) = &body.state {
            let size = format::bytes(state.get().len() as u64);
            let id = header.snapshot_id();
            let id = id.short().unwrap_or(id.as_str());
            more.push(format!("state     {size}; `milepost state {id}` prints it"));
        }
        if let Some(metadata) = &body.metadata {
            more.push(format!("metadata  {}", metadata.get()));
        }
        more.extend(body.extra.iter().map(|(name, value)| format!("{name:<9} {}", value.get())));
        if let Some(redacted) = &body.redacted {
            let rules: Vec<_> = redacted.counts.iter().map(|(rule, n)| format!("{rule} {n}")).collect();
            more.push(format!("redacted  {}: {}", redacted.pointers.join(", "), rules.join(", ")));
            more.push("          If this is a false positive, add the value to `redact.allow`".to_owned());
        }
        let checksum = shown.checksum();
        more.push(format!("seal      intact (sha256 {}…)", &checksum[..checksum.floor_char_boundary(12)]));
        push_section(&mut text, width, "Content", &more);
        push_section(&mut text, width, "Files before each prompt", &prompt_lines(&self.restore_points));
        let since = self.since.as_ref().map(since_lines).unwrap_or_default();
        push_section(&mut text, width, "Since this checkpoint", &since);
        push_section(
            &mut text,
            width,
            "Failed, not seen to pass since",
            &work_items::outcomes(&self.unfixed),
        );
        text
    }
}

/// The newest restore points, one line each.
fn prompt_lines(points: &[RestorePointDocument]) -> Vec<String> {
    let line = |point: &RestorePointDocument| {
        let prompt = point.prompt.as_deref().unwrap_or_default();
        format!("{:<9} {}  {prompt}", point.reference, format::time(point.at)).trim_end().to_owned()
    };
    let mut lines: Vec<_> = points.iter().take(NAMED).map(line).collect();
    let more = points.len().saturating_sub(NAMED) as u64;
    lines.extend((more > 0).then(|| format!("and {} more", format::count(more))));
    lines
}

/// What was recorded since the checkpoint, by kind.
fn since_lines(since: &RecentChanges) -> Vec<String> {
    let mut lines = Vec::new();
    for (kind, recorded) in [
        ("phase", since.phase.iter().map(super::run::phase).collect()),
        ("step", since.step_state.as_ref().map(work_items::step).unwrap_or_default()),
        ("tasks", work_items::tasks(&since.tasks)),
        ("criteria", work_items::criteria(&since.criteria)),
        ("outcomes", work_items::outcomes(&since.outcomes)),
        ("files written", work_items::files(&since.files)),
        ("decisions", work_items::decisions(&since.decisions)),
        ("log", work_items::log(&since.log)),
        ("said", work_items::messages(&since.messages)),
    ] {
        if !recorded.is_empty() {
            lines.push(kind.to_owned());
            lines.extend(recorded.into_iter().map(|line| format!("  {line}")));
        }
    }
    lines
}

fn marks(shown: &ShownCheckpoint) -> String {
    let marks = &shown.entry().marks;
    let mut marked = vec![if shown.completed() { "completed" } else { "not completed" }.to_owned()];
    if marks.pinned {
        marked.push("pinned".to_owned());
    }
    marked.extend(marks.tags.iter().map(|tag| format!("tag {tag}")));
    if let Some(at) = marks.refreshed_at {
        marked.push(format!("confirmed {}", format::time(at)));
    }
    marked.join(", ")
}

/// Maximum number of paths shown per list.
const NAMED: usize = 10;

fn workspace_lines(workspace: &Workspace) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(git) = &workspace.git {
        let head = git.head.as_deref().map_or("no commit", |head| &head[..head.floor_char_boundary(12)]);
        lines.extend(git.branch.as_ref().map(|branch| format!("branch {branch}, {head}")));
        // A missing repository is not an error.
        let error = git.error.as_ref().filter(|error| *error != NO_REPOSITORY);
        lines.extend(error.map(|e| format!("git: {e}")));
        let lists = [("modified", &git.modified), ("staged", &git.staged), ("untracked", &git.untracked)];
        lines.extend(lists.into_iter().filter_map(|(name, paths)| listed(name, paths)));
        let renamed =
            git.renamed.iter().map(|one| format!("renamed: {} → {}", path(&one.from), path(&one.to)));
        lines.extend(renamed.take(NAMED));
    }
    if let Some(watched) = &workspace.watched {
        let size = format::bytes(watched.sizes.values().fold(0, |sum, size| sum.saturating_add(*size)));
        let n = watched.files.len();
        lines.extend((n > 0).then(|| format!("watched: {}, {size}", format::counted(n as u64, "file"))));
        lines.extend(watched.error.iter().map(|e| format!("watched: {e}")));
    }
    lines.extend(workspace.snapshot.as_ref().map(|snapshot| {
        let listed = format::counted(snapshot.paths, "file");
        match snapshot.omitted {
            0 => format!("snapshot: {listed}"),
            n => format!("snapshot: {listed}, {} without content", format::count(n)),
        }
    }));
    lines.extend(listed("touched since the run began", &workspace.files_modified));
    if let Some(memory) = &workspace.memory {
        let usage = [("now", memory.rss), ("heap", memory.heap_used), ("peak", memory.peak_rss)];
        let usage: Vec<_> =
            usage.iter().filter_map(|(name, n)| Some(format!("{name} {}", format::bytes((*n)?)))).collect();
        lines.push(format!("memory: {}", usage.join(", ")));
    }
    lines.extend(workspace.skipped.iter().map(|what| format!("not captured: {what}")));
    lines
}

fn listed(name: &str, paths: &[PathText]) -> Option<String> {
    let shown: Vec<_> = paths.iter().take(NAMED).map(path).collect();
    let more = paths.len().saturating_sub(NAMED) as u64;
    let more = if more > 0 { format!(" and {} more", format::count(more)) } else { String::new() };
    (!shown.is_empty()).then(|| format!("{name}: {}{more}", shown.join(", ")))
}
