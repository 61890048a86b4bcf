//! Updates to run records that all kinds of writes share: opening a run, sessions, checkpoints, recent
//! commits. Takes records, headers and times; changes only the record and the list of events. Pure.

use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::{RunOptions, Settings};
use crate::model::{
    CheckpointId, ClockReading, Event, EventType, Profile, RawJson, RunId, RunRecord, Session, Status,
    WriteToken,
};
use crate::seal::Header;
use crate::store::{Commit, CommittedWrite, RunView};

/// The session id of callers that do not name a session.
pub(super) const NO_SESSION: &str = "unknown";

/// Creates an event about a checkpoint, or about the run itself.
pub(super) fn event(
    run: &RunId,
    at: Timestamp,
    kind: EventType,
    about: Option<&CheckpointId>,
    data: &serde_json::Value,
) -> Event {
    // Serialising a JSON value does not fail.
    let data = RawJson::of(data).unwrap_or_default();
    Event { at, kind, run_id: run.clone(), snapshot_id: about.cloned(), data }
}

/// Returns the run's record, or a new one, with the run options applied.
pub(super) fn open_record(
    view: &RunView,
    run: &RunId,
    run_options: &RunOptions,
    settings: &Settings,
    now: Timestamp,
    events: &mut Vec<Event>,
) -> RunRecord {
    let profile = run_options.profile.or(settings.profile);
    let mut record = match &view.record {
        Some(record) => record.clone(),
        None => {
            let mut record = RunRecord::new(run.clone(), profile.unwrap_or(Profile::Run), now);
            events.push(event(run, now, EventType::RunStarted, None, &json!({})));
            record.parent.clone_from(&run_options.parent);
            record
        }
    };
    if let Some(profile) = run_options.profile {
        record.profile = profile;
    }
    macro_rules! set_given {
        ($($name:ident from $source:expr),*) => { $( if $source.is_some() { record.$name.clone_from(&$source); } )* };
    }
    set_given![title from run_options.title, plan from run_options.plan, owner from run_options.owner, agent from run_options.agent,
           transcript from run_options.transcript, command from run_options.command];
    // The first writer sets the location, or the next writer after the record was rebuilt.
    let location = &run_options.location;
    macro_rules! set_first {
        ($($name:ident),*) => { $( if record.$name.is_none() { record.$name.clone_from(&location.$name); } )* };
    }
    set_first![project, project_id, worktree, branch, user];
    set_given![host from location.host];
    if view.record.is_none() {
        record.captures.base.clone_from(&location.head);
    }
    record
}

/// Enters the caller's session. Returns whether the session has no checkpoint yet.
pub(super) fn enter_session(
    record: &mut RunRecord,
    session: Option<&str>,
    moment: &ClockReading,
    events: &mut Vec<Event>,
) -> bool {
    let same = record.session.as_ref().is_some_and(|s| session.is_none_or(|id| id == s.id));
    if !same {
        begin_session(record, session.unwrap_or(NO_SESSION), moment, events);
    }
    record.session.as_ref().is_some_and(|s| s.checkpoints == 0)
}

/// Begins a session, and adds the duration of the previous one to the run's total.
pub(super) fn begin_session(
    record: &mut RunRecord,
    id: &str,
    moment: &ClockReading,
    events: &mut Vec<Event>,
) {
    next_session(record, id, moment.clone());
    // The event also contains the profile, which is needed to rebuild a damaged record.
    let data = json!({ "session_id": id, "profile": record.profile });
    events.push(event(&record.run_id, moment.at, EventType::SessionStarted, None, &data));
}

fn next_session(record: &mut RunRecord, id: &str, started: ClockReading) {
    record.earlier_ms = record.total_ms();
    record.sessions = record.sessions.saturating_add(1);
    record.session = Some(Session { id: id.to_owned(), started, elapsed_ms: 0, checkpoints: 0 });
}

/// Enters the session of a checkpoint that was saved earlier or elsewhere. The session's start is computed
/// from its elapsed time.
pub(super) fn enter_past_session(record: &mut RunRecord, id: &str, created_at: Timestamp, elapsed_ms: u64) {
    if record.session.as_ref().is_none_or(|session| session.id != id) {
        let at = started_at(created_at, elapsed_ms);
        next_session(record, id, ClockReading { at, boot_id: None, uptime_ms: None });
    }
    if let Some(session) = &mut record.session {
        session.elapsed_ms = session.elapsed_ms.max(elapsed_ms);
    }
}

/// The start of a session that had lasted `elapsed_ms` at `time`.
pub(super) fn started_at(time: Timestamp, elapsed_ms: u64) -> Timestamp {
    let elapsed = SignedDuration::from_millis(i64::try_from(elapsed_ms).unwrap_or(0));
    time.checked_sub(elapsed).unwrap_or(time)
}

/// Records a checkpoint as the run's latest one that failed, completed, has a state or has a workspace.
pub(super) fn update_latest(record: &mut RunRecord, header: &Header) {
    let sequence = header.sequence;
    match header.status {
        Status::Failed => record.latest_failed = sequence,
        Status::Completed => record.latest_completed = sequence,
        Status::InProgress | Status::Paused => {}
    }
    if header.holds_state {
        record.latest_state = sequence;
    }
    if header.holds_workspace() {
        record.captures.latest = sequence;
    }
    if header.restore_points > 0 {
        record.captures.restore_points = sequence;
    }
}

/// Updates a run record for a new checkpoint.
pub(super) fn record_checkpoint(record: &mut RunRecord, header: &Header, now: Timestamp) {
    let (sequence, status) = (header.sequence, header.status);
    update_latest(record, header);
    record.status = status;
    record.ended_at = status.is_terminal().then_some(now);
    if status == Status::Completed {
        record.completed_through = sequence;
    }
    if let Some(session) = &mut record.session {
        session.checkpoints = session.checkpoints.saturating_add(1);
    }
}

/// Whether the write with this token is among the run's recent commits. If so, the caller is retrying a write
/// that was committed but whose reply was lost.
pub(super) fn is_committed(record: &RunRecord, token: &WriteToken) -> bool {
    record.find_commit(token).is_some()
}

/// Creates a commit with a token that puts no checkpoint.
pub(super) fn commit_with_token(record: RunRecord, token: &WriteToken) -> Commit {
    let mut commit = Commit::new(record);
    commit.set_token(token, CommittedWrite::new(0, false));
    commit
}
