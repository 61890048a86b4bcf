//! The types that the formats exchange with the engine: runs and checkpoints as plain data, notes about them,
//! and files. Also contains conversions that several formats share. Does no I/O.

use std::collections::{BTreeSet, HashSet};
use std::path::PathBuf;

use jiff::Timestamp;
use serde::Serialize;

use super::Format;
use crate::ReasonCode;
use crate::model::{
    Attachment, Body, Draft, Event, EventType, FromRawJson, Item, JsonPath, LogLine, Marks, Member, Message,
    Phase, Profile, RawJson, RawObject, RunRecord, Status, Task, ValidationError,
};

/// A file or document that was skipped, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SkippedFile {
    /// The file, or a location in it.
    pub path: String,
    /// Why it was skipped.
    pub reason: String,
    /// The reason code if the content was invalid; `None` if the file could not be read or is unrelated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason_code: Option<ReasonCode>,
}

/// A note about something unusual in a file. The file was imported or exported anyway.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ImportNote {
    /// The file, or a location in it.
    pub path: String,
    /// What is unusual.
    pub message: String,
}

/// The data found at a path.
#[derive(Debug, Default)]
pub(crate) struct ForeignData {
    /// The runs, in the order of their first checkpoint.
    pub runs: Vec<ForeignRun>,
    /// Files and documents that were skipped.
    pub skipped: Vec<SkippedFile>,
    /// Notes about unusual content.
    pub warnings: Vec<ImportNote>,
}

impl ForeignData {
    pub(super) fn skip(&mut self, path: impl Into<String>, reason: impl Into<String>) {
        self.skipped.push(SkippedFile { path: path.into(), reason: reason.into(), reason_code: None });
    }

    /// Records a skipped document with a reason code.
    pub(super) fn refuse(&mut self, path: impl Into<String>, code: ReasonCode, reason: impl Into<String>) {
        self.skipped.push(SkippedFile { path: path.into(), reason: reason.into(), reason_code: Some(code) });
    }

    /// Records a skipped document whose content is invalid.
    pub(super) fn skip_invalid(&mut self, path: impl Into<String>, error: &ValidationError) {
        self.refuse(path, ReasonCode::CheckpointSchemaInvalid, error.to_string());
    }

    pub(super) fn warn(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.warnings.push(ImportNote { path: path.into(), message: message.into() });
    }

    /// Returns the run with this id, and creates it if it does not exist.
    pub(super) fn run_mut(&mut self, format: Format, id: &str) -> &mut ForeignRun {
        let known = self.runs.iter().position(|run| run.id == id);
        let at = known.unwrap_or(self.runs.len());
        if known.is_none() {
            self.runs.push(ForeignRun::new(format, id));
        }
        &mut self.runs[at]
    }
}

/// A run as another tool stored it.
#[derive(Debug, Clone)]
pub(crate) struct ForeignRun {
    /// The format it comes from.
    pub format: Format,
    /// Its id in that tool.
    pub id: String,
    /// The profile for the imported run.
    pub profile: Profile,
    /// The title, for display.
    pub title: Option<String>,
    /// The plan that the run follows.
    pub plan: Option<String>,
    /// When the run began.
    pub started_at: Option<Timestamp>,
    /// The status; `None` uses the status of the newest checkpoint.
    pub status: Option<Status>,
    /// The run whose newest checkpoint this run continues, by its id in that tool.
    pub continues: Option<String>,
    /// The current phase, if it is newer than that of the newest checkpoint.
    pub phase: Option<Phase>,
    /// The current tasks, if they are newer than those of the newest checkpoint.
    pub tasks: Option<Vec<Task>>,
    /// The log lines of the run.
    pub log: Vec<LogLine>,
    /// Data without a matching field. It is stored in the run's record.
    pub kept: RawObject,
    /// The events of the run.
    pub events: Vec<ForeignEvent>,
    /// The checkpoints, oldest first.
    pub checkpoints: Vec<ForeignCheckpoint>,
}

impl ForeignRun {
    pub(super) fn new(format: Format, id: &str) -> Self {
        let profile = match format {
            Format::Pai => Profile::Pai,
            Format::Nova26 => Profile::Build,
            Format::Aiwg => Profile::Session,
            Format::Markdown => Profile::Brief,
            Format::Snapshot | Format::Jsonl | Format::Bundle => Profile::Run,
        };
        Self {
            format,
            id: id.to_owned(),
            profile,
            title: None,
            plan: None,
            started_at: None,
            status: None,
            continues: None,
            phase: None,
            tasks: None,
            log: Vec::new(),
            kept: RawObject::default(),
            events: Vec::new(),
            checkpoints: Vec::new(),
        }
    }

    /// Returns true if the run has nothing to import.
    pub(crate) fn is_empty(&self) -> bool {
        self.checkpoints.is_empty() && self.kept.is_empty()
    }
}

/// A checkpoint as another tool stored it.
#[derive(Debug, Clone)]
pub(crate) struct ForeignCheckpoint {
    /// Its id in that tool.
    pub id: String,
    /// Its file, relative to the folder that was read.
    pub path: String,
    /// When the checkpoint was created.
    pub created_at: Timestamp,
    /// Milliseconds since its session began.
    pub elapsed_ms: u64,
    /// Its number in that tool.
    pub number: Option<u64>,
    /// The data that has matching fields.
    pub draft: Draft,
    /// The data without matching fields. It is stored in `metadata.imported`.
    pub kept: RawObject,
    /// Whether the checkpoint is completed, if the format records that per checkpoint.
    pub completed: Option<bool>,
}

impl ForeignCheckpoint {
    /// Creates a checkpoint without a number, an elapsed time or a completion mark.
    pub(super) fn new(id: String, path: &str, created_at: Timestamp, draft: Draft, kept: RawObject) -> Self {
        let path = path.to_owned();
        Self { id, path, created_at, elapsed_ms: 0, number: None, draft, kept, completed: None }
    }
}

/// An event as another tool stored it.
#[derive(Debug, Clone)]
pub(crate) struct ForeignEvent {
    /// When the event happened.
    pub at: Timestamp,
    /// The corresponding event type.
    pub kind: EventType,
    /// The checkpoint that the event concerns, by its id in that tool.
    pub about: Option<String>,
    /// The complete original event and the name of its file, as JSON.
    pub data: RawJson,
}

/// A run to be exported.
#[derive(Debug)]
pub(crate) struct ExportRun<'a> {
    pub record: &'a RunRecord,
    /// The checkpoints, oldest first.
    pub checkpoints: &'a [ExportCheckpoint],
    pub events: &'a [Event],
    pub messages: &'a [Message],
    pub attachments: &'a [Attachment],
    /// The contents of the blobs that the attachments refer to.
    pub blobs: &'a [Vec<u8>],
    /// The pending items.
    pub items: &'a [Item],
}

/// A stored checkpoint to be exported.
#[derive(Debug)]
pub(crate) struct ExportCheckpoint {
    pub body: Body,
    pub marks: Marks,
    /// Whether the checkpoint is completed.
    pub completed: bool,
    /// The sealed document.
    pub document: Vec<u8>,
}

/// One file of an export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ExportFile {
    /// The path, relative to the export folder.
    pub path: PathBuf,
    pub bytes: Vec<u8>,
}

/// The result of an export.
#[derive(Debug, Default)]
pub(crate) struct ExportedRun {
    pub files: Vec<ExportFile>,
    /// Fields that the format cannot represent.
    pub lost: BTreeSet<String>,
    /// Notes for the user.
    pub warnings: Vec<ImportNote>,
}

impl ExportRun<'_> {
    /// Returns the data that an import from `format` stored in the run's record; empty if there is none.
    pub(super) fn import_metadata(&self, format: Format) -> RawObject {
        imported_from(format, self.record.extra.get("imported"))
    }
}

impl ExportCheckpoint {
    /// Returns the data that an import from `format` stored in `metadata.imported`; empty if there is none.
    pub(super) fn import_metadata(&self, format: Format) -> RawObject {
        let metadata = self.body.metadata.as_ref().and_then(parse_object).unwrap_or_default();
        imported_from(format, metadata.get("imported"))
    }

    /// Returns the metadata without `imported`, or `None` if an import added all of it.
    pub(super) fn callers_metadata(&self) -> Option<RawObject> {
        let mut fields = self.body.metadata.as_ref().and_then(parse_object)?;
        let was_imported = fields.take("imported").is_some();
        // Without an import, an empty object is the caller's own and is kept.
        (!fields.is_empty() || !was_imported).then_some(fields)
    }

    /// Returns the id that the checkpoint had in the original tool, otherwise its id in this store.
    pub(super) fn original_id(&self, imported: &RawObject) -> String {
        text_member(imported, "id").unwrap_or_else(|| self.body.snapshot_id.to_string())
    }
}

fn imported_from(format: Format, imported: Option<&RawJson>) -> RawObject {
    let found = imported.and_then(parse_object);
    let of_format = |found: &RawObject| text_member(found, "format").as_deref() == Some(format.as_str());
    found.filter(of_format).unwrap_or_default()
}

/// Copies the members that an import stored because a checkpoint has no matching field.
pub(super) fn restore_members(imported: &RawObject, into: &mut RawObject) {
    for (name, value) in imported.iter().filter(|(name, _)| !["format", "id", "path", "run"].contains(name)) {
        into.set(name, value.clone());
    }
}

/// Parses an object; returns `None` for any other value.
pub(super) fn parse_object(raw: &RawJson) -> Option<RawObject> {
    RawObject::parse(raw.get(), &JsonPath::Root).ok()
}

pub(super) fn text_member(fields: &RawObject, name: &str) -> Option<String> {
    fields.get(name).and_then(|raw| serde_json::from_str(raw.get()).ok())
}

/// Removes and parses a member that must be present.
pub(super) fn take_required<T: FromRawJson>(
    fields: &mut RawObject,
    name: &str,
) -> Result<T, ValidationError> {
    crate::model::json::required(fields, name, &JsonPath::Root)
}

/// Removes and parses a member that can be missing or null.
pub(super) fn take_optional<T: FromRawJson + Default>(
    fields: &mut RawObject,
    name: &str,
) -> Result<T, ValidationError> {
    crate::model::json::optional(fields, name, &JsonPath::Root)
}

/// Removes and parses a time. If this program would format the time differently, the original text goes into
/// `kept`.
pub(super) fn take_time(
    fields: &mut RawObject,
    name: &str,
    kept: &mut RawObject,
) -> Result<Timestamp, ValidationError> {
    let raw = fields.get(name).cloned();
    let at: Timestamp = take_required(fields, name)?;
    if let Some(raw) = raw.filter(|raw| raw.get().trim_matches('"') != format_time(at)) {
        kept.set(name, raw);
    }
    Ok(at)
}

/// Formats a time in RFC 3339 with milliseconds.
pub(super) fn format_time(at: Timestamp) -> String {
    format!("{at:.3}")
}

impl ExportedRun {
    pub(super) fn add_file(&mut self, path: impl Into<PathBuf>, bytes: impl Into<Vec<u8>>) {
        self.files.push(ExportFile { path: path.into(), bytes: bytes.into() });
    }

    pub(super) fn warn(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.warnings.push(ImportNote { path: path.into(), message: message.into() });
    }

    /// Records a field as lost if `is_lost` is true.
    pub(super) fn lose_if(&mut self, is_lost: bool, field: &str) {
        if is_lost {
            self.lost.insert(field.to_owned());
        }
    }

    /// Records as lost all non-empty members of a body, except those in `held`, which the format can
    /// represent.
    pub(super) fn lose_members_except(&mut self, checkpoint: &ExportCheckpoint, held: &[&str]) {
        const NEVER_LOST: [&str; 3] = ["sequence", "run_id", "parent"];
        for Member { name, value, .. } in checkpoint.body.members().unwrap_or_default() {
            let name = name.as_ref();
            let empty = matches!(value.get(), "null" | "[]" | "{}" | "0" | "\"\"" | "\"unknown\"");
            // `lose_source_unless` handles the source.
            let usual = ["source", "source_details"].contains(&name)
                || name == "status" && value.get() == "\"in_progress\"";
            self.lose_if(!empty && !usual && !NEVER_LOST.contains(&name) && !held.contains(&name), name);
        }
        self.lose_if(!checkpoint.marks.tags.is_empty(), "marks.tags");
        self.lose_if(checkpoint.marks.pinned, "marks.pinned");
    }

    /// Records the source as lost unless an import of the file would recreate it; `made` is what the import
    /// creates.
    pub(super) fn lose_source_unless(&mut self, checkpoint: &ExportCheckpoint, made: &[&str]) {
        let is_lost = checkpoint.body.source_details != made;
        self.lose_if(is_lost, "source");
        self.lose_if(is_lost, "source_details");
    }

    /// Records a run's data outside its checkpoints as lost, except the members in `held`, which the format
    /// can represent.
    pub(super) fn lose_run_members_except(&mut self, run: &ExportRun<'_>, held: &[&str]) {
        let record = run.record;
        let every_run_has = |kind| matches!(kind, EventType::RunStarted | EventType::SessionStarted);
        let contiguous = run.checkpoints.iter().zip(1..).all(|(one, n)| one.body.sequence == n);
        let parents = run.checkpoints.iter().map(|one| one.body.parent.as_ref());
        let previous = run.checkpoints.iter().map(|one| Some(&one.body.snapshot_id));
        let in_a_row = parents.eq([None].into_iter().chain(previous).take(run.checkpoints.len()));
        for (name, is_given) in [
            ("run.title", record.title.is_some()),
            ("run.plan", record.plan.is_some()),
            ("run.command", record.command.is_some()),
            ("run.owner", record.owner.is_some()),
            ("run.log", !record.working.log.is_empty()),
            ("run.items", !run.items.is_empty()),
            ("run.events", !run.events.iter().all(|event| every_run_has(event.kind))),
            ("sequence", !contiguous),
            ("parent", !in_a_row),
        ] {
            self.lose_if(is_given && !held.contains(&name.trim_start_matches("run.")), name);
        }
    }
}

/// Returns the first of `name`, `name-2`, `name-3` and so on that is not in `taken`, and adds it.
pub(super) fn unique_name(name: &str, taken: &mut HashSet<String>) -> String {
    let mut unique = name.to_owned();
    for n in 2.. {
        if taken.insert(unique.clone()) {
            break;
        }
        unique = format!("{name}-{n}");
    }
    unique
}

/// Formats an object as JSON with an indentation of two spaces. The order of the members does not change.
pub(super) fn pretty_json(fields: &RawObject) -> String {
    super::python::indented(&serde_json::to_string(fields).unwrap_or_default())
}

/// Converts a name into a file name that cannot refer to another folder.
pub(crate) fn safe_file_name(name: &str) -> String {
    let clean: String = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' })
        .take(100)
        .collect();
    let clean = clean.trim_start_matches(|c: char| !c.is_ascii_alphanumeric()).trim_end_matches('.');
    if clean.is_empty() { "unnamed".to_owned() } else { clean.to_owned() }
}
