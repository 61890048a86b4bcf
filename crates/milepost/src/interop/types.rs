//! The types between a foreign format and the engine: runs and checkpoints as plain data, notes about them, and files;
//! and the conversions that the formats have in common. No I/O.

use std::collections::{BTreeSet, HashSet};
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

    /// Skips a document whose content was refused.
    pub(super) fn refuse(&mut self, path: impl Into<String>, code: ReasonCode, reason: impl Into<String>) {
        self.skipped.push(SkippedFile { path: path.into(), reason: reason.into(), reason_code: Some(code) });
    }

    /// Skips a document whose content is not valid.
    pub(super) fn skip_invalid(&mut self, path: impl Into<String>, error: &ValidationError) {
        self.refuse(path, ReasonCode::CheckpointSchemaInvalid, error.to_string());
    }

    pub(super) fn warn(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.warnings.push(ImportNote { path: path.into(), message: message.into() });
    }

    /// The run of this name, which is begun if it is not there.
    pub(super) fn run_mut(&mut self, format: Format, id: &str) -> &mut ForeignRun {
        let known = self.runs.iter().position(|run| run.id == id);
        let at = known.unwrap_or(self.runs.len());
        if known.is_none() {
            self.runs.push(ForeignRun::new(format, id));
        }
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

    /// Whether it has nothing to keep.
    pub(crate) fn is_empty(&self) -> bool {
        self.checkpoints.is_empty() && self.kept.is_empty()
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

impl ForeignCheckpoint {
    /// A checkpoint of which the format says no more than this.
    pub(super) fn new(id: String, path: &str, created_at: Timestamp, draft: Draft, kept: RawObject) -> Self {
        let path = path.to_owned();
        Self { id, path, created_at, elapsed_ms: 0, number: None, draft, kept, completed: None }
    }
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

impl ExportRun<'_> {
    /// What an import left in the run's record; empty unless it came from this format.
    pub(super) fn import_metadata(&self, format: Format) -> RawObject {
        imported_from(format, self.record.extra.get("imported"))
    }
}

impl ExportCheckpoint {
    /// What an import left in `metadata.imported`; empty unless it came from this format.
    pub(super) fn import_metadata(&self, format: Format) -> RawObject {
        let metadata = self.body.metadata.as_ref().and_then(parse_object).unwrap_or_default();
        imported_from(format, metadata.get("imported"))
    }

    /// The metadata without what an import left there; `None` where nothing else is in it.
    pub(super) fn callers_metadata(&self) -> Option<RawObject> {
        let mut fields = self.body.metadata.as_ref().and_then(parse_object)?;
        let was_imported = fields.take("imported").is_some();
        // An object that was empty before the import is empty after it.
        (!fields.is_empty() || !was_imported).then_some(fields)
    }

    /// The id it had where it was imported from, or else the one it has here.
    pub(super) fn original_id(&self, imported: &RawObject) -> String {
        text_member(imported, "id").unwrap_or_else(|| self.body.snapshot_id.to_string())
    }
}

fn imported_from(format: Format, imported: Option<&RawJson>) -> RawObject {
    let found = imported.and_then(parse_object);
    let of_format = |found: &RawObject| text_member(found, "format").as_deref() == Some(format.as_str());
    found.filter(of_format).unwrap_or_default()
}

/// Sets the members that an import kept because they have no place in a checkpoint.
pub(super) fn restore_members(imported: &RawObject, into: &mut RawObject) {
    for (name, value) in imported.iter().filter(|(name, _)| !["format", "id", "path", "run"].contains(name)) {
        into.set(name, value.clone());
    }
}

/// The members of an object; `None` for any other value.
pub(super) fn parse_object(raw: &RawJson) -> Option<RawObject> {
    RawObject::parse(raw.get(), &JsonPath::Root).ok()
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

impl ExportedRun {
    pub(super) fn add_file(&mut self, path: impl Into<PathBuf>, bytes: impl Into<Vec<u8>>) {
        self.files.push(ExportFile { path: path.into(), bytes: bytes.into() });
    }

    pub(super) fn warn(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.warnings.push(ImportNote { path: path.into(), message: message.into() });
    }

    /// Notes a field that the format cannot hold, if it is lost.
    pub(super) fn lose_if(&mut self, is_lost: bool, field: &str) {
        if is_lost {
            self.lost.insert(field.to_owned());
        }
    }

    /// Notes the members of a body that hold something and are not among those that the format holds.
    pub(super) fn lose_members_except(&mut self, checkpoint: &ExportCheckpoint, held: &[&str]) {
        const NEVER_LOST: [&str; 3] = ["sequence", "run_id", "parent"];
        for Member { name, value, .. } in checkpoint.body.members().unwrap_or_default() {
            let name = name.as_ref();
            let empty = matches!(value.get(), "null" | "[]" | "{}" | "0" | "\"\"" | "\"unknown\"");
            // `lose_source_unless` compares the source.
            let usual = ["source", "source_details"].contains(&name)
                || name == "status" && value.get() == "\"in_progress\"";
            self.lose_if(!empty && !usual && !NEVER_LOST.contains(&name) && !held.contains(&name), name);
        }
        self.lose_if(!checkpoint.marks.tags.is_empty(), "marks.tags");
        self.lose_if(checkpoint.marks.pinned, "marks.pinned");
    }

    /// Notes the source unless an import of the file would make the same.
    pub(super) fn lose_source_unless(&mut self, checkpoint: &ExportCheckpoint, made: &[&str]) {
        let is_lost = checkpoint.body.source_details != made;
        self.lose_if(is_lost, "source");
        self.lose_if(is_lost, "source_details");
    }

    /// Notes what the files of checkpoints do not say about their run, except for what the format holds.
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

/// The first of `name`, `name-2`, `name-3` and so on that is not taken yet.
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

/// JSON with two blanks of indentation, members in the order given.
pub(super) fn pretty_json(fields: &RawObject) -> String {
    super::python::indented(&serde_json::to_string(fields).unwrap_or_default())
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
