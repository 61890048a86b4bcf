//! The pai format: a folder of phase checkpoints as JSON files, `seed.json` with a pointer to the current
//! one, and one event log per day. Reads a folder into one run per session. Writes a run as files and returns
//! the fields that the format cannot represent.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde_json::json;

use super::folder::{SourceFolder, file_name, subfolder_or_self};
use super::types::{
    ExportCheckpoint, ExportRun, ExportedRun, ForeignCheckpoint, ForeignData, ForeignEvent, format_time,
    parse_object, pretty_json, restore_members, safe_file_name, take_optional, take_required, take_time,
    text_member, unique_name,
};
use super::{ForeignRun, Format, InteropError, Progress};
use crate::model::{
    Draft, EventType, JsonPath, PAI_PHASES, Phase, RawJson, RawObject, Source, Status, ValidationError,
};
use crate::seal::strict;

const FORMAT: Format = Format::Pai;

/// Returns the folder that contains all data: the given folder, or its parent if it is named `checkpoints`.
fn project_folder(path: &Path) -> PathBuf {
    let named = path.file_name().is_some_and(|name| name == "checkpoints");
    match path.parent() {
        Some(parent) if named && !parent.as_os_str().is_empty() => parent.to_owned(),
        Some(_) if named => PathBuf::from("."),
        _ => path.to_owned(),
    }
}

/// Returns true if a file with this name is a checkpoint.
pub(super) fn is_checkpoint(name: &str) -> bool {
    name.starts_with("ckpt-") && name.ends_with(".json")
}

/// Reads the checkpoints, `seed.json` and the event logs.
pub(crate) fn read(path: &Path, progress: &mut Progress<'_>) -> Result<ForeignData, InteropError> {
    let root = project_folder(path);
    let mut folder = SourceFolder::open(&root, progress)?;
    let is_candidate = |name: &str| name.ends_with(".json") && name != "seed.json";
    let files = folder.files(&subfolder_or_self(&root, "checkpoints"), is_candidate);
    folder.read_checkpoints(FORMAT, &files, parse_checkpoint);
    for run in &mut folder.data.runs {
        run.checkpoints.sort_by(|a, b| (a.created_at, &a.path).cmp(&(b.created_at, &b.path)));
        let ended = run.checkpoints.last().is_some_and(|last| last.completed == Some(true));
        run.status = ended.then_some(Status::Completed);
    }
    read_seed(&mut folder, &root);
    let is_log = |name: &str| name.starts_with("events-") && name.ends_with(".jsonl");
    for file in folder.files(&subfolder_or_self(&root, "events"), is_log) {
        read_events(&mut folder, &file);
    }
    Ok(folder.data)
}

fn parse_checkpoint(
    mut fields: RawObject,
    path: &str,
    found: &mut ForeignData,
) -> Result<(String, ForeignCheckpoint), ValidationError> {
    let f = &mut fields;
    let mut kept = RawObject::default();
    let id: String = take_required(f, "id")?;
    let session: String = take_required(f, "sessionId")?;
    let name: String = take_required(f, "phase")?;
    let number = f.get("phaseNumber").cloned();
    let phase = match take_required::<u64>(f, "phaseNumber") {
        Ok(number) if (1..=7).contains(&number) && !name.is_empty() => {
            Some(Phase { name: Some(name), number, ..Phase::default() })
        }
        _ => {
            found.warn(
                path,
                format!("phase \"{name}\" needs a name and a number from 1 to 7: kept in metadata.imported"),
            );
            kept.put("phase", &name);
            number.into_iter().for_each(|number| kept.set("phaseNumber", number));
            None
        }
    };
    let created_at = take_time(f, "createdAt", &mut kept)?;
    let completed: bool = take_required(f, "completed")?;
    let draft = Draft {
        session_id: Some(session.clone()),
        source: Some(Source::Manual),
        status: Some(Status::InProgress),
        phase,
        task_summary: take_optional(f, "taskSummary")?,
        criteria: Some(take_optional(f, "iscCriteria")?),
        metadata: take_optional(f, "metadata")?,
        ..Draft::default()
    };
    kept.set_all(&fields);
    let checkpoint = ForeignCheckpoint::new(id, path, created_at, draft, kept);
    Ok((session, ForeignCheckpoint { completed: Some(completed), ..checkpoint }))
}

/// Reads `seed.json` and stores it with the run that it points to, or with the last run.
fn read_seed(folder: &mut SourceFolder<'_, '_>, root: &Path) {
    let file = root.join("seed.json");
    if !file.exists() {
        return;
    }
    let Some((fields, text)) = folder.read_object(&file) else { return };
    let state = fields.get("state").and_then(parse_object);
    let pointed = state.and_then(|state| text_member(&state, "checkpointRef"));
    let has = |id: &String, run: &ForeignRun| run.checkpoints.iter().any(|c| c.id == *id);
    let at = pointed.as_ref().and_then(|id| folder.data.runs.iter().position(|run| has(id, run)));
    if let (Some(id), None) = (&pointed, at) {
        folder.data.warn(
            "seed.json",
            format!("state.checkpointRef names \"{id}\", which is not among the checkpoints"),
        );
    }
    let last = folder.data.runs.len().checked_sub(1);
    if let (Some(at), Ok(raw)) = (at.or(last), RawJson::parse(text)) {
        folder.data.runs[at].kept.set("seed", raw);
    }
}

fn read_events(folder: &mut SourceFolder<'_, '_>, file: &Path) {
    let Some(text) = folder.read_text(file) else { return };
    let name = folder.relative_name(file);
    for (n, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let location = format!("{name}:{}", n + 1);
        let data = &mut folder.data;
        match strict::check(line.as_bytes()).and_then(|line| parse_event(line, &name)) {
            Ok((session, event)) if data.runs.iter().any(|run| run.id == session) => {
                data.run_mut(FORMAT, &session).events.push(event);
            }
            Ok((session, _)) => {
                data.skip(location, format!("an event of session \"{session}\", which has no checkpoint"));
            }
            Err(e) => data.skip(location, e.to_string()),
        }
    }
}

fn parse_event(line: &str, file: &str) -> Result<(String, ForeignEvent), ValidationError> {
    let mut fields = RawObject::parse(line, &JsonPath::Root)?;
    let at: Timestamp = take_required(&mut fields, "timestamp")?;
    let session: String = take_required(&mut fields, "sessionId")?;
    let data: RawObject = take_optional(&mut fields, "data")?;
    let kind = match text_member(&data, "action").as_deref() {
        Some("checkpoint_created") => EventType::CheckpointCreated,
        Some("checkpoint_completed") => EventType::CheckpointCompleted,
        _ => EventType::Imported,
    };
    let mut whole = RawObject::default();
    whole.set("imported", RawJson::parse(line)?);
    whole.put("file", file);
    let about = text_member(&data, "checkpointId");
    Ok((session, ForeignEvent { at, kind, about, data: RawJson::of(&whole)? }))
}

/// Writes `checkpoints/`, `events/`, and `seed.json` if the run was imported with one.
pub(crate) fn write(run: &ExportRun<'_>) -> ExportedRun {
    let mut out = ExportedRun::default();
    let mut names = HashSet::new();
    for checkpoint in run.checkpoints {
        let (fields, file) = to_foreign(checkpoint, &mut out);
        let name = unique_name(file.strip_suffix(".json").unwrap_or(&file), &mut names);
        out.add_file(format!("checkpoints/{name}.json"), pretty_json(&fields));
        let held =
            ["snapshot_id", "created_at", "session_id", "phase", "task_summary", "criteria", "metadata"];
        out.lose_members_except(checkpoint, &held);
        out.lose_source_unless(checkpoint, &["manual"]);
    }
    out.lose_run_members_except(run, &["events"]);
    write_events(run, &mut out);
    if let Some(seed) = run.import_metadata(FORMAT).get("seed") {
        out.add_file("seed.json", super::python::indented(seed.get()));
    } else if let Some(open) = run.checkpoints.iter().rev().find(|checkpoint| !checkpoint.completed) {
        let id = open.original_id(&open.import_metadata(FORMAT));
        out.warn("seed.json", format!("is not written: set state.checkpointRef to \"{id}\""));
    }
    out
}

fn to_foreign(checkpoint: &ExportCheckpoint, out: &mut ExportedRun) -> (RawObject, String) {
    let body = &checkpoint.body;
    let imported = checkpoint.import_metadata(FORMAT);
    let number = body.phase.as_ref().map(|phase| phase.number);
    let known_number = number.filter(|n| (1..=7).contains(n));
    let phase_name = body.phase.as_ref().and_then(|phase| phase.name.clone()).unwrap_or_else(|| {
        let at = number.and_then(|n| usize::try_from(n).ok()).and_then(|n| n.checked_sub(1));
        at.and_then(|at| PAI_PHASES.get(at)).unwrap_or(&"OBSERVE").to_string()
    });
    if known_number.is_none() && imported.get("phase").is_none() {
        out.warn(body.snapshot_id.to_string(), "has no phase from 1 to 7: written as 1");
    }
    let file = text_member(&imported, "path").map(|path| file_name(Path::new(&path))).unwrap_or_else(|| {
        let at = body.created_at.strftime("%Y-%m-%dT%H-%M-%SZ");
        format!("ckpt-{at}-{}.json", safe_file_name(&phase_name.to_lowercase()))
    });
    let session = if body.session_id.is_empty() { "unknown" } else { &body.session_id };
    let mut fields = RawObject::default();
    fields.put("id", &checkpoint.original_id(&imported));
    fields.put("sessionId", session);
    fields.put("phase", &phase_name);
    fields.put("phaseNumber", &known_number.unwrap_or(1));
    fields.put("createdAt", &format_time(body.created_at));
    fields.put("completed", &checkpoint.completed);
    fields.put("taskSummary", body.task_summary.as_deref().unwrap_or_default());
    fields.put("iscCriteria", &body.criteria);
    fields.put("metadata", &checkpoint.callers_metadata().unwrap_or_default());
    // Restores an invalid phase, the original text of the time and the unknown members.
    restore_members(&imported, &mut fields);
    (fields, file)
}

/// Writes imported events unchanged, and events recorded since then in the same form.
fn write_events(run: &ExportRun<'_>, out: &mut ExportedRun) {
    let mut days: BTreeMap<String, String> = BTreeMap::new();
    let checkpoints: HashMap<_, _> =
        run.checkpoints.iter().map(|checkpoint| (&checkpoint.body.snapshot_id, checkpoint)).collect();
    let session = run.record.session.as_ref().map_or("unknown", |session| &session.id);
    for event in run.events {
        let data = parse_object(&event.data).unwrap_or_default();
        let checkpoint = event.snapshot_id.as_ref().and_then(|id| checkpoints.get(id));
        let action = match event.kind {
            EventType::CheckpointCreated => Some("checkpoint_created"),
            EventType::CheckpointCompleted => Some("checkpoint_completed"),
            _ => None,
        };
        let mut file = format!("events-{}.jsonl", event.at.strftime("%Y-%m-%d"));
        let line = if let (Some(line), Some(_)) = (data.get("imported"), data.get("file")) {
            file = text_member(&data, "file").map_or(file, |file| file_name(Path::new(&file)));
            line.get().to_owned()
        } else if let (Some(checkpoint), Some(action)) = (checkpoint, action) {
            let id = checkpoint.original_id(&checkpoint.import_metadata(FORMAT));
            let mut data = json!({ "action": action, "checkpointId": id });
            if let (EventType::CheckpointCreated, Some(phase)) = (event.kind, &checkpoint.body.phase) {
                data["phase"] = phase.name.clone().into();
                data["phaseNumber"] = phase.number.into();
            }
            let event = json!({
                "id": format!("{id}-{action}"),
                "timestamp": format_time(event.at),
                "sessionId": session,
                "type": "custom",
                "data": data,
            });
            event.to_string()
        } else {
            let every_run_has = matches!(event.kind, EventType::RunStarted | EventType::SessionStarted);
            out.lose_if(checkpoint.is_some() || !every_run_has, "run.events");
            continue;
        };
        let lines = days.entry(file).or_default();
        lines.push_str(&line);
        lines.push('\n');
    }
    for (file, lines) in days {
        out.add_file(Path::new("events").join(file), lines);
    }
}
