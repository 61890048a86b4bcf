//! Phase checkpoints: a folder of JSON files, `seed.json` that points at the current one, and a log of events a day.

use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::folder::{SourceFolder, file_name, subfolder_or_self};
use super::types::{
    ExportCheckpoint, ExportFile, ExportRun, ExportedRun, ForeignCheckpoint, ForeignData, ForeignEvent,
    ImportNote, format_time, import_metadata, note_lost_members, note_lost_run_members, note_lost_source,
    own_metadata, pretty_json, safe_file_name, take_optional, take_required, take_time, text_member,
};
use super::{Format, InteropError, Progress};
use crate::ReasonCode;
use crate::model::{
    Draft, EventType, JsonPath, PAI_PHASES, Phase, RawJson, RawObject, Source, Status, ValidationError,
};
use crate::seal::strict;

const FORMAT: Format = Format::Pai;

/// The folder that everything lies in: that of the checkpoints, or the one around it.
fn project_folder(path: &Path) -> PathBuf {
    let named = path.file_name().is_some_and(|name| name == "checkpoints");
    match path.parent() {
        Some(parent) if named && !parent.as_os_str().is_empty() => parent.to_owned(),
        Some(_) if named => PathBuf::from("."),
        _ => path.to_owned(),
    }
}

/// Whether a file of this name is a checkpoint.
pub(super) fn is_checkpoint(name: &str) -> bool {
    name.starts_with("ckpt-") && name.ends_with(".json")
}

/// Reads checkpoints, the pointer to the current one, and events.
pub(crate) fn read(path: &Path, progress: &mut Progress<'_>) -> Result<ForeignData, InteropError> {
    let root = project_folder(path);
    let mut folder = SourceFolder::open(&root, progress)?;
    let place = subfolder_or_self(&root, "checkpoints");
    for file in folder.files(&place, |name| name.ends_with(".json") && name != "seed.json") {
        let Some((fields, _)) = folder.read_object(&file) else { continue };
        let name = folder.relative_name(&file);
        match parse_checkpoint(fields, &name, &mut folder.data) {
            Ok((session, read)) => folder.data.run_mut(FORMAT, &session).checkpoints.push(read),
            Err(e) => folder.data.skip_invalid(name, ReasonCode::CheckpointSchemaInvalid, e.to_string()),
        }
    }
    for run in &mut folder.data.runs {
        run.checkpoints.sort_by(|a, b| (a.created_at, &a.path).cmp(&(b.created_at, &b.path)));
        let ended = run.checkpoints.last().is_some_and(|last| last.completed == Some(true));
        run.status = ended.then_some(Status::Completed);
    }
    read_seed(&mut folder, &root);
    let write_events = subfolder_or_self(&root, "events");
    for file in folder.files(&write_events, |name| name.starts_with("events-") && name.ends_with(".jsonl")) {
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
                format!("phase \"{name}\" with a number that is not 1 to 7 is kept in metadata.imported"),
            );
            kept.set("phase", RawJson::of(&name)?);
            if let Some(number) = number {
                kept.set("phaseNumber", number);
            }
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
    for (name, raw) in fields.iter() {
        kept.set(name, raw.clone());
    }
    let completed = Some(completed);
    let path = path.to_owned();
    Ok((
        session,
        ForeignCheckpoint { id, path, created_at, elapsed_ms: 0, number: None, draft, kept, completed },
    ))
}

/// The pointer goes with the run that it points into.
fn read_seed(folder: &mut SourceFolder<'_, '_>, root: &Path) {
    let file = root.join("seed.json");
    if !file.exists() {
        return;
    }
    let Some((fields, text)) = folder.read_object(&file) else { return };
    let state = fields.get("state").and_then(|raw| RawObject::parse(raw.get(), &JsonPath::Root).ok());
    let pointed: Option<String> = state.and_then(|state| super::types::text_member(&state, "checkpointRef"));
    let has = |id: &String, run: &super::ForeignRun| run.checkpoints.iter().any(|c| c.id == *id);
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
        let place = format!("{name}:{}", n + 1);
        let read = strict::check(line.as_bytes()).and_then(|line| parse_event(line, &name));
        match read {
            Ok((session, event)) => {
                let found = &mut folder.data;
                if found.runs.iter().any(|run| run.id == session) {
                    found.run_mut(FORMAT, &session).events.push(event);
                } else {
                    found.skip(place, format!("an event of session \"{session}\", which has no checkpoint"));
                }
            }
            Err(e) => folder.data.skip(place, e.to_string()),
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
    whole.set("file", RawJson::of(file)?);
    let about = text_member(&data, "checkpointId");
    Ok((session, ForeignEvent { at, kind, about, data: RawJson::of(&whole)? }))
}

/// Writes `checkpoints/`, `events/`, and `seed.json` where the run came with one.
pub(crate) fn write(run: &ExportRun<'_>) -> Result<ExportedRun, InteropError> {
    let mut out = ExportedRun::default();
    let mut names = std::collections::HashSet::new();
    for held in run.checkpoints {
        let (fields, file) = to_foreign(held, &mut out);
        let mut name = file.clone();
        for n in 2.. {
            if names.insert(name.clone()) {
                break;
            }
            name = format!("{}-{n}.json", file.trim_end_matches(".json"));
        }
        out.files.push(ExportFile { path: Path::new("checkpoints").join(name), bytes: pretty_json(&fields) });
        let home =
            ["snapshot_id", "created_at", "session_id", "phase", "task_summary", "criteria", "metadata"];
        note_lost_members(held, &home, &mut out.lost);
        note_lost_source(held, &["manual"], &mut out.lost);
    }
    note_lost_run_members(run, &["events"], &mut out.lost);
    logs(run, &mut out);
    let kept = run_import_metadata(run);
    match kept.get("seed") {
        Some(seed) => {
            let bytes = super::python::indented(seed.get()).into_bytes();
            out.files.push(ExportFile { path: "seed.json".into(), bytes });
        }
        None => {
            if let Some(open) = run.checkpoints.iter().rev().find(|held| !held.completed) {
                let message = format!(
                    "is not written: set state.checkpointRef to \"{}\"",
                    original_id(import_metadata_of(open), open)
                );
                out.warnings.push(ImportNote { path: "seed.json".into(), message });
            }
        }
    }
    Ok(out)
}

fn import_metadata_of(held: &ExportCheckpoint) -> RawObject {
    import_metadata(held.body.metadata.as_ref(), FORMAT)
}

fn original_id(kept: RawObject, held: &ExportCheckpoint) -> String {
    text_member(&kept, "id").unwrap_or_else(|| held.body.snapshot_id.to_string())
}

/// What the import left in the run's record.
fn run_import_metadata(run: &ExportRun<'_>) -> RawObject {
    let raw = run.record.extra.get("imported");
    let fields = raw.and_then(|raw| RawObject::parse(raw.get(), &JsonPath::Root).ok()).unwrap_or_default();
    if text_member(&fields, "format").as_deref() == Some(FORMAT.as_str()) {
        fields
    } else {
        RawObject::default()
    }
}

fn to_foreign(held: &ExportCheckpoint, out: &mut ExportedRun) -> (RawObject, String) {
    let body = &held.body;
    let mut kept = import_metadata_of(held);
    let raw = |value: &dyn erased::Json| value.raw();
    let mut fields = RawObject::default();
    let name = body.phase.as_ref().and_then(|phase| phase.name.clone());
    let number = body.phase.as_ref().map(|phase| phase.number);
    let fits = number.is_some_and(|n| (1..=7).contains(&n));
    let word = name.unwrap_or_else(|| {
        let at = number.and_then(|n| usize::try_from(n).ok()).and_then(|n| n.checked_sub(1));
        at.and_then(|at| PAI_PHASES.get(at)).unwrap_or(&"OBSERVE").to_string()
    });
    let place = body.snapshot_id.to_string();
    let (phase, number) = match (kept.take("phase"), kept.take("phaseNumber")) {
        (Some(phase), number) => (phase, number.unwrap_or_else(|| raw(&1_u64))),
        (None, _) => {
            if !fits {
                let message = "has no phase from 1 to 7: written as 1".to_owned();
                out.warnings.push(ImportNote { path: place, message });
            }
            (raw(&word), raw(&number.filter(|_| fits).unwrap_or(1)))
        }
    };
    let file = text_member(&kept, "path").map(|path| file_name(Path::new(&path))).unwrap_or_else(|| {
        let at = body.created_at.strftime("%Y-%m-%dT%H-%M-%SZ");
        format!("ckpt-{at}-{}.json", safe_file_name(&word.to_lowercase()))
    });
    let session = if body.session_id.is_empty() { "unknown" } else { &body.session_id };
    fields.set("id", raw(&original_id(kept.clone(), held)));
    fields.set("sessionId", raw(&session.to_owned()));
    fields.set("phase", phase);
    fields.set("phaseNumber", number);
    fields.set("createdAt", kept.take("createdAt").unwrap_or_else(|| raw(&format_time(body.created_at))));
    fields.set("completed", raw(&held.completed));
    fields.set("taskSummary", raw(&body.task_summary.clone().unwrap_or_default()));
    fields.set("iscCriteria", RawJson::of(&body.criteria).unwrap_or_default());
    let metadata = own_metadata(body.metadata.as_ref()).unwrap_or_default();
    fields.set("metadata", RawJson::of(&metadata).unwrap_or_default());
    for (name, value) in kept.iter().filter(|(name, _)| !["format", "id", "path", "run"].contains(name)) {
        fields.set(name, value.clone());
    }
    (fields, file)
}

/// Small values as JSON.
mod erased {
    use crate::model::RawJson;

    pub(super) trait Json {
        fn raw(&self) -> RawJson;
    }

    impl<T: serde::Serialize> Json for T {
        fn raw(&self) -> RawJson {
            RawJson::of(self).unwrap_or_default()
        }
    }
}

/// Events that came with the run as they were, and those of its own in the same form.
fn logs(run: &ExportRun<'_>, out: &mut ExportedRun) {
    let mut days: std::collections::BTreeMap<String, String> = Default::default();
    let ids: std::collections::HashMap<_, _> = run
        .checkpoints
        .iter()
        .map(|held| (&held.body.snapshot_id, original_id(import_metadata_of(held), held)))
        .collect();
    let phases: std::collections::HashMap<_, _> =
        run.checkpoints.iter().map(|held| (&held.body.snapshot_id, held.body.phase.as_ref())).collect();
    let mut other = false;
    for event in run.events {
        let data = RawObject::parse(event.data.get(), &JsonPath::Root).unwrap_or_default();
        let mut day = format!("events-{}.jsonl", event.at.strftime("%Y-%m-%d"));
        let line = match (data.get("imported"), &event.snapshot_id) {
            (Some(line), _) if data.get("file").is_some() => {
                day = text_member(&data, "file").map_or(day, |file| file_name(Path::new(&file)));
                line.get().to_owned()
            }
            (_, Some(id)) if ids.contains_key(id) => {
                let action = match event.kind {
                    EventType::CheckpointCreated => "checkpoint_created",
                    EventType::CheckpointCompleted => "checkpoint_completed",
                    _ => {
                        other = true;
                        continue;
                    }
                };
                let session = run.record.session.as_ref().map_or("unknown", |session| &session.id);
                let mut data = serde_json::json!({ "action": action, "checkpointId": ids[id] });
                if let (EventType::CheckpointCreated, Some(phase)) = (event.kind, phases[id]) {
                    data["phase"] = phase.name.clone().into();
                    data["phaseNumber"] = phase.number.into();
                }
                let event = serde_json::json!({
                    "id": format!("{}-{action}", ids[id]),
                    "timestamp": format_time(event.at),
                    "sessionId": session,
                    "type": "custom",
                    "data": data,
                });
                event.to_string()
            }
            _ => {
                other |= !matches!(event.kind, EventType::RunStarted | EventType::SessionStarted);
                continue;
            }
        };
        let day = days.entry(day).or_default();
        day.push_str(&line);
        day.push('\n');
    }
    if other {
        out.lost.insert("run.events".into());
    }
    out.files.extend(
        days.into_iter().map(|(name, lines)| ExportFile {
            path: Path::new("events").join(name),
            bytes: lines.into_bytes(),
        }),
    );
}
