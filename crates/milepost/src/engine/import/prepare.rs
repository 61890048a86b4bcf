//! Maps a run of another tool to a run of this store: its id, its record, its composed checkpoints and its
//! events. Pure; writing them is left to the caller.

use std::collections::HashMap;

use serde_json::json;

use super::super::bookkeeping::{NO_SESSION, enter_past_session, event};
use super::super::check_run_name;
use super::super::compose::{self, CheckpointContext};
use super::super::request::redact_in_place;
use crate::Error;
use crate::interop::{ForeignCheckpoint, ForeignRun, safe_file_name};
use crate::model::{
    CheckpointId, Event, EventType, JsonPath, RawJson, RawObject, RunId, RunRecord, WorkingState,
};
use crate::redact::{self, AllowList};
use crate::seal::Unsealed;

/// A composed checkpoint that lacks only its sequence number and stamp.
pub(super) struct Prepared {
    pub(super) unsealed: Unsealed,
    pub(super) number: Option<u64>,
    pub(super) completed: Option<bool>,
}

/// The text with secrets replaced, for comparing names.
pub(super) fn clean(text: &str, allow: &AllowList) -> String {
    allow.redact_text(text).unwrap_or_else(|| text.to_owned())
}

/// The run id to use if it is free: the original id if it is valid and contains no secret, otherwise one
/// derived from it.
pub(super) fn preferred_run_id(run: &ForeignRun, allow: &AllowList) -> RunId {
    let id = run.id.parse::<RunId>().ok().filter(|id| check_run_name(id, allow).is_ok());
    let safe = || format!("{}-{}", safe_file_name(&clean(&run.id, allow)), digest(run, None, 8)).parse().ok();
    let number = || format!("imported-{}", digest(run, None, 12)).parse().ok();
    id.or_else(safe)
        .filter(|id| check_run_name(id, allow).is_ok())
        .or_else(number)
        .unwrap_or_else(|| RunId::generate(Default::default()))
}

/// A hash of the format and the original ids, as text; the same for every import.
pub(super) fn digest(run: &ForeignRun, checkpoint: Option<&ForeignCheckpoint>, length: usize) -> String {
    const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
    let mut hasher = blake3::Hasher::new();
    for part in [run.format.as_str(), &run.id, checkpoint.map_or("", |checkpoint| checkpoint.id.as_str())] {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part.as_bytes());
    }
    hasher.finalize().as_bytes().iter().take(length).map(|b| DIGITS[usize::from(b & 31)] as char).collect()
}

/// The id of an imported checkpoint: the original one if Milepost generated it, otherwise a derived one.
pub(super) fn checkpoint_id(run: &ForeignRun, checkpoint: &ForeignCheckpoint) -> CheckpointId {
    let shape = |id: &CheckpointId| {
        let parts: Vec<_> = id.as_str().split('_').collect();
        matches!(parts.as_slice(), ["cp", time, end] if time.len() == 19 && time.ends_with('Z') && end.len() == 12)
    };
    checkpoint.id.parse().ok().filter(shape).unwrap_or_else(|| derived_id(run, checkpoint))
}

/// An id derived from the original ids; the same for every import.
pub(super) fn derived_id(run: &ForeignRun, checkpoint: &ForeignCheckpoint) -> CheckpointId {
    let time = checkpoint.created_at.strftime("%Y%m%dT%H%M%S%3fZ");
    let id = format!("cp_{time}_{}", digest(run, Some(checkpoint), 12)).parse();
    id.unwrap_or_else(|_| CheckpointId::generate(checkpoint.created_at))
}

/// The record of an imported run, before its checkpoints are added.
pub(super) fn record(
    id: &RunId,
    run: &ForeignRun,
    continues: Option<CheckpointId>,
    now: jiff::Timestamp,
) -> Result<RunRecord, Error> {
    let first = run.checkpoints.iter().map(|one| one.created_at).min();
    let started = run.started_at.or(first).unwrap_or(now);
    let mut record = RunRecord::new(id.clone(), run.profile, started);
    record.parent = continues;
    record.title.clone_from(&run.title);
    record.plan.clone_from(&run.plan);
    record.updated_at = run.checkpoints.iter().map(|one| one.created_at).max().unwrap_or(started);
    let mut kept = run.kept.clone();
    kept.set("format", RawJson::of(run.format.as_str())?);
    kept.set("id", RawJson::of(&run.id)?);
    record.extra.set("imported", RawJson::of(&kept)?);
    Ok(record)
}

/// Composes a checkpoint from the imported one alone. Nothing is carried over from the previous checkpoint.
pub(super) fn checkpoint(
    record: &mut RunRecord,
    run: &ForeignRun,
    checkpoint: &ForeignCheckpoint,
    id: &CheckpointId,
    parent: Option<CheckpointId>,
    redaction: Option<&AllowList>,
) -> Result<(Prepared, u64), Error> {
    let mut draft = checkpoint.draft.clone();
    draft.run_id = None;
    let mut metadata = match &draft.metadata {
        Some(raw) => RawObject::parse(raw.get(), &JsonPath::Root.key("metadata"))?,
        None => RawObject::default(),
    };
    let mut imported = RawObject::default();
    imported.set("format", RawJson::of(run.format.as_str())?);
    imported.set("id", RawJson::of(&checkpoint.id)?);
    imported.set("run", RawJson::of(&run.id)?);
    imported.set("path", RawJson::of(&checkpoint.path)?);
    checkpoint.kept.iter().for_each(|(name, raw)| imported.set(name, raw.clone()));
    metadata.set("imported", RawJson::of(&imported)?);
    draft.metadata = Some(RawJson::of(&metadata)?);
    let mut replaced = 0;
    if let Some(allow) = redaction {
        (draft, replaced) = allow.redact_draft(draft)?;
    }
    let session =
        draft.session_id.clone().filter(|id| !id.is_empty()).unwrap_or_else(|| NO_SESSION.to_owned());
    enter_past_session(record, &session, checkpoint.created_at, checkpoint.elapsed_ms);
    record.working = WorkingState::default();
    let status = draft.status.unwrap_or(crate::model::Status::InProgress);
    let context = CheckpointContext {
        id,
        created_at: checkpoint.created_at,
        elapsed_ms: checkpoint.elapsed_ms,
        status,
        session_id: &session,
        parent,
    };
    let state_given = draft.state.is_some();
    let mut body = compose::compose(record, &[], &draft, context)?;
    // The imported reasons may repeat the source.
    body.source_details.dedup();
    let mut unsealed = Unsealed::new(body, state_given)?;
    if redaction.is_some()
        && let Some(redactions) = redact::summarize_redactions(unsealed.members())
    {
        let mut body = unsealed.into_body();
        body.redacted = Some(redactions.merge(body.redacted.take()));
        unsealed = Unsealed::new(body, state_given)?;
    }
    Ok((Prepared { unsealed, number: checkpoint.number, completed: checkpoint.completed }, replaced))
}

/// Adds the run's data outside its checkpoints, and redacts the record.
pub(super) fn complete_record(
    record: &mut RunRecord,
    run: &ForeignRun,
    redaction: Option<&AllowList>,
) -> Result<(), Error> {
    if let Some(tasks) = &run.tasks {
        record.working.tasks.clone_from(tasks);
    }
    if run.phase.is_some() {
        record.working.phase.clone_from(&run.phase);
    }
    record.working.log.extend(run.log.iter().cloned());
    if let Some(allow) = redaction {
        redact_in_place(&mut record.title, "title", allow)?;
        redact_in_place(&mut record.plan, "plan", allow)?;
        redact_in_place(&mut record.working, "working", allow)?;
        redact_in_place(&mut record.extra, "extra", allow)?;
    }
    Ok(())
}

/// The events of an imported run: its start, and those that the other tool recorded.
pub(super) fn events(
    id: &RunId,
    run: &ForeignRun,
    record: &RunRecord,
    ids: &HashMap<String, CheckpointId>,
    redaction: Option<&AllowList>,
) -> Result<Vec<Event>, Error> {
    let begun = json!({ "imported": run.format.as_str(), "id": run.id });
    let session = record.session.as_ref().map_or(NO_SESSION, |session| session.id.as_str());
    let entered = json!({ "session_id": session, "profile": record.profile });
    let mut events = vec![
        event(id, record.started_at, EventType::RunStarted, None, &begun),
        event(id, record.started_at, EventType::SessionStarted, None, &entered),
    ];
    for foreign in &run.events {
        let snapshot_id = foreign.about.as_ref().and_then(|name| ids.get(name)).cloned();
        let (at, kind, data) = (foreign.at, foreign.kind, foreign.data.clone());
        events.push(Event { at, kind, run_id: id.clone(), snapshot_id, data });
    }
    if let Some(allow) = redaction {
        for event in &mut events {
            redact_in_place(&mut event.data, "data", allow)?;
        }
    }
    Ok(events)
}
