//! What goes between a foreign format and the engine: runs and checkpoints as plain data, notes about them, and files.

use std::collections::BTreeSet;
use std::path::PathBuf;

use jiff::Timestamp;
use serde::Serialize;

use super::Format;
use crate::ReasonCode;
use crate::model::{
    Body, Draft, Event, EventType, FromRawJson, Item, JsonPath, LogLine, Marks, Member, Phase, Profile,
    RawJson, RawObject, RunRecord, Status, Task, ValidationError,
};

/// Something that was not read, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SkippedFile {
    /// The file, or a place in it.
    pub path: String,
    /// Why.
    pub reason: String,
    /// The reason code, where the content was refused; absent for what could not be read or does not belong here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason_code: Option<ReasonCode>,
}

/// Something odd that was read all the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ImportNote {
    /// The file, or a place in it.
    pub path: String,
    /// What is odd about it.
    pub message: String,
}

/// What was found at a path.
#[derive(Debug, Default)]
pub(crate) struct ForeignData {
    /// The runs, in the order of their first checkpoint.
    pub runs: Vec<ForeignRun>,
    /// What was not read.
    pub skipped: Vec<SkippedFile>,
    /// What was odd.
    pub warnings: Vec<ImportNote>,
}

impl ForeignData {
    pub(super) fn skip(&mut self, path: impl Into<String>, reason: impl Into<String>) {
        self.skipped.push(SkippedFile { path: path.into(), reason: reason.into(), reason_code: None });
    }

    /// Skips a document whose content is not valid.
    pub(super) fn skip_invalid(
        &mut self,
        path: impl Into<String>,
        code: ReasonCode,
        reason: impl Into<String>,
    ) {
        self.skipped.push(SkippedFile { path: path.into(), reason: reason.into(), reason_code: Some(code) });
    }

    pub(super) fn warn(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.warnings.push(ImportNote { path: path.into(), message: message.into() });
    }

    /// The run of this name, which is begun if it is not there.
    pub(super) fn run_mut(&mut self, format: Format, id: &str) -> &mut ForeignRun {
        let at = match self.runs.iter().position(|run| run.id == id) {
            Some(at) => at,
            None => {
                self.runs.push(ForeignRun::new(format, id));
                self.runs.len() - 1
            }
        };
        &mut self.runs[at]
    }
}

/// One piece of work as another tool kept it.
#[derive(Debug, Clone)]
pub(crate) struct ForeignRun {
    /// Where it comes from.
    pub format: Format,
    /// What it is called there.
    pub id: String,
    /// What it will keep here.
    pub profile: Profile,
    /// What people call it.
    pub title: Option<String>,
    /// The plan it follows.
    pub plan: Option<String>,
    /// When it began.
    pub started_at: Option<Timestamp>,
    /// How it stands; as its newest checkpoint says unless given.
    pub status: Option<Status>,
    /// The run whose newest checkpoint it continues, by its name there.
    pub continues: Option<String>,
    /// The phase it is in, where that is more than its newest checkpoint says.
    pub phase: Option<Phase>,
    /// Its tasks, where they are more than its newest checkpoint says.
    pub tasks: Option<Vec<Task>>,
    /// Lines of its log.
    pub log: Vec<LogLine>,
    /// What has no other home; in the run's record.
    pub kept: RawObject,
    /// What happened.
    pub events: Vec<ForeignEvent>,
    /// Its checkpoints, oldest first.
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
}

/// One checkpoint as another tool kept it.
#[derive(Debug, Clone)]
pub(crate) struct ForeignCheckpoint {
    /// What it is called there.
    pub id: String,
    /// Its file, under the folder that was read.
    pub path: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// Milliseconds since its session began.
    pub elapsed_ms: u64,
    /// Its number there.
    pub number: Option<u64>,
    /// What has a home.
    pub draft: Draft,
    /// What has none; in `metadata.imported`.
    pub kept: RawObject,
    /// Whether it was completed, where the format says so of each.
    pub completed: Option<bool>,
}

/// One event as another tool kept it.
#[derive(Debug, Clone)]
pub(crate) struct ForeignEvent {
    /// When.
    pub at: Timestamp,
    /// What, in the words of this program.
    pub kind: EventType,
    /// About which checkpoint, by its name there.
    pub about: Option<String>,
    /// Its whole text.
    pub data: RawJson,
}

/// A run to be written in another format.
#[derive(Debug)]
pub(crate) struct ExportRun<'a> {
    /// Its record.
    pub record: &'a RunRecord,
    /// Its checkpoints, oldest first.
    pub checkpoints: &'a [ExportCheckpoint],
    /// Its events.
    pub events: &'a [Event],
    /// What waits for its next checkpoint.
    pub items: &'a [Item],
}

/// A checkpoint as the store holds it.
#[derive(Debug)]
pub(crate) struct ExportCheckpoint {
    /// Its body.
    pub body: Body,
    /// Its marks.
    pub marks: Marks,
    /// Whether it is completed.
    pub completed: bool,
    /// The sealed document.
    pub document: Vec<u8>,
}

/// One file of another format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ExportFile {
    /// Where, under the folder that is written.
    pub path: PathBuf,
    /// What it holds.
    pub bytes: Vec<u8>,
}

/// A run in another format.
#[derive(Debug, Default)]
pub(crate) struct ExportedRun {
    /// Its files.
    pub files: Vec<ExportFile>,
    /// Fields that the format cannot hold.
    pub lost: BTreeSet<String>,
    /// What to know about it.
    pub warnings: Vec<ImportNote>,
}

/// What an import left in `metadata.imported`, if it came from this format.
pub(super) fn import_metadata(metadata: Option<&RawJson>, format: Format) -> RawObject {
    let fields = |raw: &RawJson| RawObject::from_raw(raw.get(), &JsonPath::Root).ok();
    let found = metadata.and_then(fields).and_then(|mut metadata| metadata.take("imported"));
    let found = found.as_ref().and_then(fields).unwrap_or_default();
    if text_member(&found, "format").as_deref() == Some(format.as_str()) {
        found
    } else {
        RawObject::default()
    }
}

/// The metadata without what an import left there; `None` where nothing else is in it.
pub(super) fn own_metadata(metadata: Option<&RawJson>) -> Option<RawObject> {
    let mut fields = metadata.and_then(|raw| RawObject::from_raw(raw.get(), &JsonPath::Root).ok())?;
    let was_imported = fields.take("imported").is_some();
    // An object that was empty before the import is empty after it.
    (!fields.is_empty() || !was_imported).then_some(fields)
}

pub(super) fn text_member(fields: &RawObject, name: &str) -> Option<String> {
    fields.get(name).and_then(|raw| serde_json::from_str(raw.get()).ok())
}

/// Takes a member that has to be there and be of a type.
pub(super) fn take_required<T: FromRawJson>(
    fields: &mut RawObject,
    name: &str,
) -> Result<T, ValidationError> {
    crate::model::json::required(fields, name, &JsonPath::Root)
}

/// Takes a member that may be missing.
pub(super) fn take_optional<T: FromRawJson + Default>(
    fields: &mut RawObject,
    name: &str,
) -> Result<T, ValidationError> {
    crate::model::json::optional(fields, name, &JsonPath::Root)
}

/// Takes a time; its exact text is kept where this program would write another.
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

/// A time as it is written everywhere: with milliseconds.
pub(super) fn format_time(at: Timestamp) -> String {
    format!("{at:.3}")
}

/// Names of members of a body that hold something and are not among these.
pub(super) fn note_lost_members(held: &ExportCheckpoint, has_a_home: &[&str], into: &mut BTreeSet<String>) {
    const NEVER: [&str; 3] = ["sequence", "run_id", "parent"];
    for Member { name, value, .. } in held.body.members().unwrap_or_default() {
        let empty = matches!(value.get(), "null" | "[]" | "{}" | "0" | "\"\"" | "\"unknown\"");
        // Whether the source comes back is asked for by itself.
        let usual = ["source", "source_details"].contains(&name.as_ref())
            || name == "status" && value.get() == "\"in_progress\"";
        if !empty && !usual && !NEVER.contains(&name.as_ref()) && !has_a_home.contains(&name.as_ref()) {
            into.insert(name.into_owned());
        }
    }
    if !held.marks.tags.is_empty() {
        into.insert("marks.tags".into());
    }
    if held.marks.pinned {
        into.insert("marks.pinned".into());
    }
}

/// The source, where an import would make another of the file.
pub(super) fn note_lost_source(held: &ExportCheckpoint, made: &[&str], into: &mut BTreeSet<String>) {
    if held.body.source_details != made {
        into.extend(["source", "source_details"].map(ToOwned::to_owned));
    }
}

/// What every run begins with.
fn is_start_event(kind: EventType) -> bool {
    matches!(kind, EventType::RunStarted | EventType::SessionStarted)
}

/// What no file of a checkpoint says about its run.
pub(super) fn note_lost_run_members(run: &ExportRun<'_>, has_a_home: &[&str], into: &mut BTreeSet<String>) {
    let record = run.record;
    let facts = [
        ("title", record.title.is_some()),
        ("plan", record.plan.is_some()),
        ("command", record.command.is_some()),
        ("owner", record.owner.is_some()),
        ("log", !record.working.log.is_empty()),
        ("items", !run.items.is_empty()),
        ("events", run.events.iter().any(|event| !is_start_event(event.kind))),
    ];
    for (name, there) in facts {
        if there && !has_a_home.contains(&name) {
            into.insert(format!("run.{name}"));
        }
    }
    let contiguous = run.checkpoints.iter().zip(1..).all(|(held, n)| held.body.sequence == n);
    if !contiguous && !has_a_home.contains(&"sequence") {
        into.insert("sequence".into());
    }
    let mut before = None;
    for held in run.checkpoints {
        if held.body.parent.as_ref() != before && !has_a_home.contains(&"parent") {
            into.insert("parent".into());
        }
        before = Some(&held.body.snapshot_id);
    }
}

/// JSON with two blanks of indentation, members in the order given.
pub(super) fn pretty_json(fields: &RawObject) -> Vec<u8> {
    let compact = serde_json::to_string(fields).unwrap_or_default();
    super::python::indented(&compact).into_bytes()
}

/// A name that cannot lead out of its folder.
pub(crate) fn safe_file_name(name: &str) -> String {
    let clean: String = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' })
        .take(100)
        .collect();
    let clean = clean.trim_start_matches(|c: char| !c.is_ascii_alphanumeric()).trim_end_matches('.');
    if clean.is_empty() { "unnamed".to_owned() } else { clean.to_owned() }
}
