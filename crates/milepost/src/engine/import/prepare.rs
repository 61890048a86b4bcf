//! A run of another tool as it will stand here: its name, its record, its checkpoints composed, its events. Pure.

use std::collections::HashMap;

use super::super::check_run_name;
use super::super::compose::{self, CheckpointContext};
use crate::Error;
use crate::interop::{ForeignCheckpoint, ForeignRun, safe_file_name};
use crate::model::{
    CheckpointId, ClockReading, Event, EventType, JsonPath, RawJson, RawObject, RunId, RunRecord, Session,
    WorkingState,
};
use crate::redact::{self, AllowList};
use crate::seal::Unsealed;

/// A checkpoint that only needs its place in the store.
pub(super) struct Ready {
    pub(super) unsealed: Unsealed,
    pub(super) number: Option<u64>,
    pub(super) completed: Option<bool>,
}

/// The text without secrets, for names that are compared.
pub(super) fn clean(text: &str, allow: &AllowList) -> String {
    allow.redact_text(text).unwrap_or_else(|| text.to_owned())
}

/// What a run is called here, if nobody else is: its own name, or one that can be a name.
pub(super) fn plain_name(run: &ForeignRun, allow: &AllowList) -> RunId {
    let own = run.id.parse::<RunId>().ok().filter(|id| check_run_name(id, allow).is_ok());
    let safe = || format!("{}-{}", safe_file_name(&clean(&run.id, allow)), digits(run, None, 8)).parse().ok();
    let number = || format!("imported-{}", digits(run, None, 12)).parse().ok();
    own.or_else(safe)
        .filter(|id| check_run_name(id, allow).is_ok())
        .or_else(number)
        .unwrap_or_else(|| RunId::generate(Default::default()))
}

/// Characters that stand for a run or a checkpoint there, the same every time.
pub(super) fn digits(run: &ForeignRun, one: Option<&ForeignCheckpoint>, length: usize) -> String {
    const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
    let mut hasher = blake3::Hasher::new();
    for part in [run.format.as_str(), &run.id, one.map_or("", |one| one.id.as_str())] {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part.as_bytes());
    }
    hasher.finalize().as_bytes().iter().take(length).map(|b| DIGITS[usize::from(b & 31)] as char).collect()
}

/// The id here: its own if this program gave it, else one made from its names there.
pub(super) fn derived(run: &ForeignRun, one: &ForeignCheckpoint) -> CheckpointId {
    let shape = |id: &CheckpointId| {
        let parts: Vec<_> = id.as_str().split('_').collect();
        matches!(parts.as_slice(), ["cp", time, end] if time.len() == 19 && time.ends_with('Z') && end.len() == 12)
    };
    one.id.parse().ok().filter(shape).unwrap_or_else(|| made(run, one))
}

pub(super) fn made(run: &ForeignRun, one: &ForeignCheckpoint) -> CheckpointId {
    let time = one.created_at.strftime("%Y%m%dT%H%M%S%3fZ");
    let id = format!("cp_{time}_{}", digits(run, Some(one), 12)).parse();
    id.unwrap_or_else(|_| CheckpointId::generate(one.created_at))
}

/// A record of a run that was made elsewhere.
pub(super) fn base(
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

/// Composes a checkpoint exactly as it was there: nothing is carried over from the one before.
pub(super) fn prepared(
    record: &mut RunRecord,
    run: &ForeignRun,
    one: &ForeignCheckpoint,
    name: &CheckpointId,
    parent: Option<CheckpointId>,
    redaction: Option<&AllowList>,
) -> Result<(Ready, u64), Error> {
    let mut draft = one.draft.clone();
    draft.run_id = None;
    let mut metadata = match &draft.metadata {
        Some(raw) => RawObject::parse(raw.get(), &JsonPath::Root.key("metadata"))?,
        None => RawObject::default(),
    };
    let mut imported = RawObject::default();
    imported.set("format", RawJson::of(run.format.as_str())?);
    imported.set("id", RawJson::of(&one.id)?);
    imported.set("run", RawJson::of(&run.id)?);
    imported.set("path", RawJson::of(&one.path)?);
    one.kept.iter().for_each(|(name, raw)| imported.set(name, raw.clone()));
    metadata.set("imported", RawJson::of(&imported)?);
    draft.metadata = Some(RawJson::of(&metadata)?);
    let mut replaced = 0;
    if let Some(allow) = redaction {
        (draft, replaced) = allow.redact_draft(draft)?;
    }
    let session =
        draft.session_id.clone().filter(|id| !id.is_empty()).unwrap_or_else(|| "unknown".to_owned());
    note_session(record, &session, one);
    record.working = WorkingState::default();
    let status = draft.status.unwrap_or(crate::model::Status::InProgress);
    let frame = CheckpointContext {
        id: name,
        created_at: one.created_at,
        elapsed_ms: one.elapsed_ms,
        status,
        session_id: &session,
        parent,
    };
    let state_given = draft.state.is_some();
    let mut body = compose::compose(record, &[], &draft, frame)?;
    // Sources that it stands for, as they were.
    body.source_details.dedup();
    let mut unsealed = Unsealed::new(body, state_given)?;
    if redaction.is_some()
        && let Some(places) = redact::summarize_redactions(unsealed.members())
    {
        let mut body = unsealed.into_body();
        body.redacted = Some(places.merge(body.redacted.take()));
        unsealed = Unsealed::new(body, state_given)?;
    }
    Ok((Ready { unsealed, number: one.number, completed: one.completed }, replaced))
}

fn note_session(record: &mut RunRecord, id: &str, one: &ForeignCheckpoint) {
    let same = record.session.as_ref().is_some_and(|session| session.id == id);
    if !same {
        record.earlier_ms = record.total_ms();
        record.sessions = record.sessions.saturating_add(1);
        let ago = jiff::SignedDuration::from_millis(i64::try_from(one.elapsed_ms).unwrap_or_default());
        let at = one.created_at.checked_sub(ago).unwrap_or(one.created_at);
        let started = ClockReading { at, boot_id: None, uptime_ms: None };
        record.session = Some(Session { id: id.to_owned(), started, elapsed_ms: 0, checkpoints: 0 });
    }
    if let Some(session) = &mut record.session {
        session.elapsed_ms = session.elapsed_ms.max(one.elapsed_ms);
    }
}

/// How the run stands after its newest checkpoint, where the format says more about it.
pub(super) fn finish(
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
        record.title = allow.redact_value(record.title.take(), "title")?.0;
        record.plan = allow.redact_value(record.plan.take(), "plan")?.0;
        record.working = allow.redact_value(std::mem::take(&mut record.working), "working")?.0;
        record.extra = allow.redact_value(std::mem::take(&mut record.extra), "extra")?.0;
    }
    Ok(())
}

/// The run's beginning, and what the other tool had written down.
pub(super) fn happened(
    id: &RunId,
    run: &ForeignRun,
    record: &RunRecord,
    names: &HashMap<String, CheckpointId>,
    redaction: Option<&AllowList>,
) -> Result<Vec<Event>, Error> {
    let event = |at, kind, snapshot_id, data| Event { at, kind, run_id: id.clone(), snapshot_id, data };
    let begun = serde_json::json!({ "imported": run.format.as_str(), "id": run.id });
    let session = record.session.as_ref().map_or("unknown", |session| session.id.as_str());
    let entered = serde_json::json!({ "session_id": session, "profile": record.profile });
    let mut events = vec![
        event(record.started_at, EventType::RunStarted, None, RawJson::of(&begun)?),
        event(record.started_at, EventType::SessionStarted, None, RawJson::of(&entered)?),
    ];
    for one in &run.events {
        let about = one.about.as_ref().and_then(|name| names.get(name)).cloned();
        events.push(event(one.at, one.kind, about, one.data.clone()));
    }
    if let Some(allow) = redaction {
        for event in &mut events {
            event.data = allow.redact_value(event.data.clone(), "data")?.0;
        }
    }
    Ok(events)
}
