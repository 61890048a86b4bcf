//! Snapshots: `<run>/latest.json` and `<run>/history/<id>.json[.gz]`, each with a checksum over its sorted, compact JSON.

use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

use super::folder::{SourceFolder, file_name, subfolder_or_self};
use super::python::{NonAscii, canonical};
use super::types::{
    ExportCheckpoint, ExportFile, ExportRun, ExportedRun, ForeignCheckpoint, ForeignData, format_time,
    import_metadata, note_lost_members, note_lost_run_members, own_metadata, pretty_json, take_optional,
    take_required, take_time, text_member,
};
use super::{Format, InteropError, Progress};
use crate::ReasonCode;
use crate::model::{Draft, JsonPath, RawJson, RawObject, Source, Status, ValidationError};

const FORMAT: Format = Format::Snapshot;
const LATEST: &str = "latest.json";
const HISTORY: &str = "history";

/// Whether a folder is that of one run.
pub(super) fn is_run(folder: &Path) -> bool {
    folder.join(LATEST).is_file() || folder.join(HISTORY).is_dir()
}

/// Reads one run's folder, the tree of all runs, or the folder around it.
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
        run.checkpoints.sort_by(|a, b| {
            (a.number.unwrap_or_default(), a.created_at, &a.id).cmp(&(
                b.number.unwrap_or_default(),
                b.created_at,
                &b.id,
            ))
        });
        let plan = run.checkpoints.iter().rev().find_map(|c| c.draft.step_state.as_ref()?.plan_path.clone());
        run.plan = plan;
        run.started_at = run.checkpoints.first().map(|c| c.created_at);
    }
    Ok(folder.data)
}

fn read_snapshot(folder: &mut SourceFolder<'_, '_>, run: &Path, file: &Path) {
    let Some((fields, text)) = folder.read_object(file) else { return };
    let name = folder.relative_name(file);
    let damage = verify_checksum(&fields, &text).err();
    let (run_id, read) = match parse_checkpoint(fields, &name, &file_name(run), &mut folder.data) {
        Ok(read) => read,
        Err(e) => return folder.data.skip_invalid(name, ReasonCode::CheckpointSchemaInvalid, e.to_string()),
    };
    if let Some((code, why)) = damage {
        return folder.data.skip_invalid(name, code, format!("{code}: {why}"));
    }
    let run = folder.data.run_mut(FORMAT, &run_id);
    match run.checkpoints.iter().position(|known| known.id == read.id) {
        None => run.checkpoints.push(read),
        // The newest one is in the history as well.
        Some(at) if run.checkpoints[at].draft == read.draft => {}
        Some(at) => {
            let other = run.checkpoints[at].path.clone();
            folder.data.skip(name, format!("it has the id of {other} and another content"));
        }
    }
}

/// Compares the checksum, in both ways in which characters beyond ASCII may have been written.
fn verify_checksum(fields: &RawObject, document: &str) -> Result<(), (ReasonCode, String)> {
    let invalid = |why: String| (ReasonCode::CheckpointSchemaInvalid, why);
    let integrity = fields.get("integrity").ok_or_else(|| invalid("it has no integrity".into()))?;
    let integrity = RawObject::parse(integrity.get(), &JsonPath::Root).map_err(|e| invalid(e.to_string()))?;
    let expected = text_member(&integrity, "checksum_sha256")
        .ok_or_else(|| invalid("it has no integrity.checksum_sha256".into()))?;
    let version: Option<u64> = integrity.get("format_version").and_then(|raw| raw.get().parse().ok());
    if version != Some(1) {
        return Err(invalid("integrity.format_version is not 1".into()));
    }
    let mut bare = RawObject::parse(document, &JsonPath::Root).map_err(|e| invalid(e.to_string()))?;
    bare.take("integrity");
    let bare = serde_json::to_string(&bare).map_err(|e| invalid(e.to_string()))?;
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
    // Written so where nothing is known.
    for name in ["step_state", "context_digest"] {
        if f.get(name).is_some_and(|raw| raw.get() == "{}") {
            f.take(name);
        }
    }
    if run != folder {
        found.warn(path, format!("it names run \"{run}\" and lies in the folder of \"{folder}\""));
    }
    // Words that are not in the closed lists are kept beside the nearest that is.
    for (name, allowed, instead) in [
        ("source", Source::WORDS, Source::Manual.as_str()),
        ("status", Status::WORDS, Status::InProgress.as_str()),
    ] {
        let word = text_member(f, name).unwrap_or_default();
        if allowed.contains(&word.as_str()) {
            continue;
        }
        let nearest = allowed.iter().find(|known| word.starts_with(**known)).copied().unwrap_or(instead);
        found.warn(path, format!("{name} \"{word}\" is none of {}: taken as {nearest}", allowed.join(", ")));
        if let Some(raw) = f.take(name) {
            kept.set(name, raw);
        }
        if name == "source"
            && let Some(raw) = f.take("source_details")
        {
            kept.set("source_details", raw);
        }
        f.set(name, RawJson::of(nearest)?);
    }
    let details: Vec<String> =
        serde_json::from_str(f.get("source_details").map_or("[]", RawJson::get)).unwrap_or_default();
    let sources = details.iter().filter(|word| Source::WORDS.contains(&word.as_str())).count();
    if sources > 1 || details.first().is_some_and(|first| Some(first) != text_member(f, "source").as_ref()) {
        kept.set("source_details", RawJson::of(&details)?);
    }
    let before = fields.clone();
    let draft = lenient_draft(fields, path, &mut kept, found)?;
    // What this program would write with other members empty is kept as it was, so that its checksum stays.
    let after = draft.to_object()?;
    for name in ["step_state", "context_digest", "command_outcomes"] {
        if let (Some(before), Some(after)) = (before.get(name), after.get(name)) {
            let same = |raw: &RawJson| canonical(raw.get(), NonAscii::Plain);
            if same(before) != same(after) {
                kept.set(name, before.clone());
            }
        }
    }
    Ok((
        run,
        ForeignCheckpoint {
            id,
            path: path.to_owned(),
            created_at,
            elapsed_ms,
            number,
            draft,
            kept,
            completed,
        },
    ))
}

/// A draft of what fits; members that do not fit are kept as they are.
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

/// Writes `<run>/history/<id>.json` for each checkpoint, and `<run>/latest.json`.
pub(crate) fn write(run: &ExportRun<'_>) -> Result<ExportedRun, InteropError> {
    let mut out = ExportedRun::default();
    let unfit = |e: ValidationError| InteropError::Unfit { format: FORMAT, why: e.to_string() };
    let folder = PathBuf::from(run.record.run_id.as_str());
    for held in run.checkpoints {
        let (name, bytes) = to_foreign(held).map_err(unfit)?;
        out.files.push(ExportFile {
            path: folder.join(HISTORY).join(format!("{name}.json")),
            bytes: bytes.clone(),
        });
        if std::ptr::eq(held, run.checkpoints.last().unwrap_or(held)) {
            out.files.push(ExportFile { path: folder.join(LATEST), bytes });
        }
        let all = held.body.members().map_err(unfit)?;
        note_lost_members(
            held,
            &all.iter().map(|member| member.name.as_ref()).collect::<Vec<_>>(),
            &mut out.lost,
        );
    }
    note_lost_run_members(run, &["sequence", "plan", "log"], &mut out.lost);
    Ok(out)
}

fn to_foreign(held: &ExportCheckpoint) -> Result<(String, Vec<u8>), ValidationError> {
    /// In the order in which the contract names them.
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
    let body = &held.body;
    let mut kept = import_metadata(body.metadata.as_ref(), FORMAT);
    let came = !kept.is_empty();
    let id = text_member(&kept, "id").unwrap_or_else(|| body.snapshot_id.to_string());
    let mut fields = RawObject::default();
    for member in body.members()? {
        fields.set(&member.name, member.value);
    }
    fields.set("snapshot_id", RawJson::of(&id)?);
    fields.set(
        "created_at",
        kept.take("created_at").map_or_else(|| RawJson::of(&format_time(body.created_at)), Ok)?,
    );
    fields.set("run_id", RawJson::of(&text_member(&kept, "run").unwrap_or_else(|| body.run_id.to_string()))?);
    match own_metadata(body.metadata.as_ref()) {
        Some(metadata) => fields.set("metadata", RawJson::of(&metadata)?),
        None => drop(fields.take("metadata")),
    }
    if came {
        for name in ["sequence", "elapsed_ms", "parent"] {
            fields.take(name);
        }
    } else if held.completed {
        fields.set("completed", RawJson::of(&true)?);
    }
    if body.session_id == "unknown" {
        fields.take("session_id");
    }
    for (name, value) in kept.iter().filter(|(name, _)| !["format", "id", "path", "run"].contains(name)) {
        fields.set(name, value.clone());
    }
    let mut ordered = RawObject::default();
    for name in FIRST {
        let raw = fields.take(name).unwrap_or_default();
        // What the contract has as an object is one, also where nothing is known.
        let raw = if raw.is_null() && ["step_state", "context_digest"].contains(&name) {
            RawJson::parse("{}")?
        } else {
            raw
        };
        ordered.set(name, raw);
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
    integrity.set("format_version", RawJson::of(&1)?);
    integrity.set("checksum_sha256", RawJson::of(&checksum(&canonical(&bare, NonAscii::Escaped)))?);
    ordered.set("integrity", RawJson::of(&integrity)?);
    let mut bytes = pretty_json(&ordered);
    bytes.push(b'\n');
    Ok((super::safe_file_name(&id), bytes))
}
