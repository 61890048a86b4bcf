//! The snapshot format: `<run>/latest.json` and `<run>/history/<id>.json[.gz]`. Each file has a checksum over
//! its sorted, compact JSON. Reads a folder into runs and writes a run as files. A snapshot whose checksum
//! does not match is skipped.

use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

use super::folder::{SourceFolder, file_name, subfolder_or_self};
use super::python::{NonAscii, canonical};
use super::types::{
    ExportCheckpoint, ExportRun, ExportedRun, ForeignCheckpoint, ForeignData, format_time, pretty_json,
    restore_members, safe_file_name, take_optional, take_required, take_time, text_member,
};
use super::{Format, InteropError, Progress};
use crate::ReasonCode;
use crate::model::{Draft, JsonPath, RawJson, RawObject, Source, Status, ValidationError};

const FORMAT: Format = Format::Snapshot;
const LATEST: &str = "latest.json";
const HISTORY: &str = "history";

/// Returns true if the folder belongs to one run.
pub(super) fn is_run(folder: &Path) -> bool {
    folder.join(LATEST).is_file() || folder.join(HISTORY).is_dir()
}

/// Reads the folder of one run, the folder that contains all runs, or its parent.
pub(crate) fn read(path: &Path, progress: &mut Progress<'_>) -> Result<ForeignData, InteropError> {
    let mut folder = SourceFolder::open(path, progress)?;
    let runs: Vec<PathBuf> = if is_run(path) {
        vec![path.to_owned()]
    } else {
        let tree = subfolder_or_self(path, "checkpoints");
        if is_run(&tree) {
            vec![tree]
        } else {
            folder.folders(&tree).into_iter().filter(|f| is_run(f)).collect()
        }
    };
    for run in runs {
        let history = run.join(HISTORY);
        let mut files = Vec::new();
        if history.is_dir() {
            files = folder.files(&history, |name| name.ends_with(".json") || name.ends_with(".json.gz"));
        }
        let latest = run.join(LATEST);
        if latest.is_file() {
            files.push(latest);
        }
        for file in files {
            read_snapshot(&mut folder, &run, &file);
        }
    }
    for run in &mut folder.data.runs {
        run.checkpoints.sort_by_cached_key(|c| (c.number.unwrap_or_default(), c.created_at, c.id.clone()));
        run.plan = run.checkpoints.iter().rev().find_map(|c| c.draft.step_state.as_ref()?.plan_path.clone());
        run.started_at = run.checkpoints.first().map(|c| c.created_at);
    }
    Ok(folder.data)
}

fn read_snapshot(folder: &mut SourceFolder<'_, '_>, run: &Path, file: &Path) {
    let Some((fields, _)) = folder.read_object(file) else { return };
    let name = folder.relative_name(file);
    let damage = verify_checksum(&fields).err();
    let (run_id, read) = match parse_checkpoint(fields, &name, &file_name(run), &mut folder.data) {
        Ok(read) => read,
        Err(e) => return folder.data.skip_invalid(name, &e),
    };
    if let Some((code, why)) = damage {
        return folder.data.refuse(name, code, format!("{code}: {why}"));
    }
    let run = folder.data.run_mut(FORMAT, &run_id);
    match run.checkpoints.iter().find(|known| known.id == read.id) {
        None => run.checkpoints.push(read),
        // The newest snapshot is also in the history.
        Some(known) if known.draft == read.draft => {}
        Some(known) => {
            let why = format!("it has the same id as {} but different content", known.path);
            folder.data.skip(name, why);
        }
    }
}

/// Verifies the checksum. Non-ASCII characters may have been written as escapes or as they are, so both forms
/// are accepted.
fn verify_checksum(fields: &RawObject) -> Result<(), (ReasonCode, String)> {
    let invalid = |why: &dyn ToString| (ReasonCode::CheckpointSchemaInvalid, why.to_string());
    let integrity = fields.get("integrity").ok_or_else(|| invalid(&"it has no `integrity` member"))?;
    let integrity = RawObject::parse(integrity.get(), &JsonPath::Root).map_err(|e| invalid(&e))?;
    let expected = text_member(&integrity, "checksum_sha256")
        .ok_or_else(|| invalid(&"it has no integrity.checksum_sha256"))?;
    if integrity.get("format_version").is_none_or(|raw| raw.get() != "1") {
        return Err(invalid(&"integrity.format_version is not 1"));
    }
    let mut bare = fields.clone();
    bare.take("integrity");
    let bare = serde_json::to_string(&bare).map_err(|e| invalid(&e))?;
    let fits = |letters| checksum(&canonical(&bare, letters)) == expected;
    if fits(NonAscii::Escaped) || fits(NonAscii::Plain) {
        return Ok(());
    }
    let found = checksum(&canonical(&bare, NonAscii::Escaped));
    Err((ReasonCode::CheckpointIntegrityMismatch, format!("expected {expected}, found {found}")))
}

fn checksum(text: &str) -> String {
    HEXLOWER.encode(&Sha256::digest(text.as_bytes()))
}

fn parse_checkpoint(
    mut fields: RawObject,
    path: &str,
    folder: &str,
    found: &mut ForeignData,
) -> Result<(String, ForeignCheckpoint), ValidationError> {
    let f = &mut fields;
    let mut kept = RawObject::default();
    f.take("integrity");
    let id: String = take_required(f, "snapshot_id")?;
    let run: String = take_required(f, "run_id")?;
    let created_at = take_time(f, "created_at", &mut kept)?;
    let number: Option<u64> = take_optional(f, "sequence")?;
    let elapsed_ms: u64 = take_optional(f, "elapsed_ms")?;
    let completed: Option<bool> = take_optional(f, "completed")?;
    f.take("parent");
    // The format writes an empty object for a missing value.
    for name in ["step_state", "context_digest"] {
        if f.get(name).is_some_and(|raw| raw.get() == "{}") {
            f.take(name);
        }
    }
    if run != folder {
        found.warn(path, format!("it names run \"{run}\" but is in the folder of \"{folder}\""));
    }
    // A source or status that Milepost does not have is replaced by the nearest one and stored in `kept`.
    for (name, allowed, instead) in [
        ("source", Source::NAMES, Source::Manual.as_str()),
        ("status", Status::NAMES, Status::InProgress.as_str()),
    ] {
        let text = text_member(f, name).unwrap_or_default();
        if allowed.contains(&text.as_str()) {
            continue;
        }
        let nearest = allowed.iter().find(|known| text.starts_with(**known)).copied().unwrap_or(instead);
        found.warn(path, format!("{name} \"{text}\" is not one of {}: using {nearest}", allowed.join(", ")));
        let replaced: &[&str] = if name == "source" { &["source", "source_details"] } else { &["status"] };
        for name in replaced {
            f.take(name).into_iter().for_each(|raw| kept.set(name, raw));
        }
        f.put(name, nearest);
    }
    let details: Vec<String> =
        serde_json::from_str(f.get("source_details").map_or("[]", RawJson::get)).unwrap_or_default();
    let sources = details.iter().filter(|text| Source::NAMES.contains(&text.as_str())).count();
    if sources > 1 || details.first().is_some_and(|first| Some(first) != text_member(f, "source").as_ref()) {
        kept.put("source_details", &details);
    }
    let before = fields.clone();
    let draft = lenient_draft(fields, path, &mut kept, found)?;
    // This program would write these members in another form, for example with additional empty members. The
    // original is kept, so that an export has the same checksum.
    let after = draft.to_object()?;
    for name in ["step_state", "context_digest", "command_outcomes"] {
        if let (Some(before), Some(after)) = (before.get(name), after.get(name)) {
            let same = |raw: &RawJson| canonical(raw.get(), NonAscii::Plain);
            if same(before) != same(after) {
                kept.set(name, before.clone());
            }
        }
    }
    let checkpoint = ForeignCheckpoint::new(id, path, created_at, draft, kept);
    Ok((run, ForeignCheckpoint { elapsed_ms, number, completed, ..checkpoint }))
}

/// Builds a draft from the valid members. Invalid members are moved unchanged into `kept`.
fn lenient_draft(
    mut fields: RawObject,
    path: &str,
    kept: &mut RawObject,
    found: &mut ForeignData,
) -> Result<Draft, ValidationError> {
    loop {
        let error = match Draft::from_object(fields.clone()) {
            Ok(draft) => return Ok(draft),
            Err(error) => error,
        };
        let name = error.path.split('/').nth(1).unwrap_or_default().to_owned();
        let Some(raw) = fields.take(&name) else { return Err(error) };
        found.warn(path, format!("{error}: kept in metadata.imported"));
        kept.set(&name, raw);
    }
}

/// Writes `<run>/history/<id>.json` for each checkpoint, and the newest one again as `<run>/latest.json`.
pub(crate) fn write(run: &ExportRun<'_>) -> Result<ExportedRun, InteropError> {
    let mut out = ExportedRun::default();
    let folder = PathBuf::from(run.record.run_id.as_str());
    for (n, checkpoint) in run.checkpoints.iter().enumerate() {
        let (name, text) =
            to_foreign(checkpoint).map_err(|e| InteropError::Unfit { format: FORMAT, why: e.to_string() })?;
        out.add_file(folder.join(HISTORY).join(format!("{name}.json")), text.clone());
        if n + 1 == run.checkpoints.len() {
            out.add_file(folder.join(LATEST), text);
        }
        // The file contains every member of the body, so only marks are lost.
        out.lose_if(!checkpoint.marks.tags.is_empty(), "marks.tags");
        out.lose_if(checkpoint.marks.pinned, "marks.pinned");
    }
    out.lose_run_members_except(run, &["sequence", "plan", "log"]);
    Ok(out)
}

fn to_foreign(checkpoint: &ExportCheckpoint) -> Result<(String, String), ValidationError> {
    /// The members that the format requires, in the order it defines.
    const FIRST: [&str; 9] = [
        "snapshot_id",
        "created_at",
        "run_id",
        "source",
        "source_details",
        "status",
        "step_state",
        "context_digest",
        "command_outcomes",
    ];
    let body = &checkpoint.body;
    let imported = checkpoint.import_metadata(FORMAT);
    let id = checkpoint.original_id(&imported);
    let mut fields = RawObject::default();
    for member in body.members()? {
        fields.set(&member.name, member.value);
    }
    fields.put("snapshot_id", &id);
    fields.put("created_at", &format_time(body.created_at));
    fields.put("run_id", &text_member(&imported, "run").unwrap_or_else(|| body.run_id.to_string()));
    match checkpoint.callers_metadata() {
        Some(metadata) => fields.put("metadata", &metadata),
        None => drop(fields.take("metadata")),
    }
    if !imported.is_empty() {
        for name in ["sequence", "elapsed_ms", "parent"] {
            fields.take(name);
        }
    } else if checkpoint.completed {
        fields.put("completed", &true);
    }
    if body.session_id == "unknown" {
        fields.take("session_id");
    }
    restore_members(&imported, &mut fields);
    let mut ordered = RawObject::default();
    for name in FIRST {
        let raw = fields.take(name).unwrap_or_default();
        // The format requires these members to be objects, even if empty.
        let is_object = ["step_state", "context_digest"].contains(&name);
        ordered.set(name, if raw.is_null() && is_object { RawJson::parse("{}")? } else { raw });
    }
    for (name, raw) in fields.iter() {
        let empty =
            matches!(raw.get(), "null" | "[]" | "{}") || name == "outcomes_dropped" && raw.get() == "0";
        if !empty {
            ordered.set(name, raw.clone());
        }
    }
    let bare = serde_json::to_string(&ordered).unwrap_or_default();
    let mut integrity = RawObject::default();
    integrity.put("format_version", &1);
    integrity.put("checksum_sha256", &checksum(&canonical(&bare, NonAscii::Escaped)));
    ordered.put("integrity", &integrity);
    Ok((safe_file_name(&id), pretty_json(&ordered) + "\n"))
}
