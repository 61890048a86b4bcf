//! Updates of a run record that every kind of write shares: opening a run, sessions, checkpoints, recent commits. Pure.

use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::{RunOptions, Settings};
use crate::model::{
    CheckpointId, ClockReading, Event, EventType, Profile, RawJson, RecentCommit, RunId, RunRecord, Session,
    Status, WriteToken,
};
use crate::seal::Header;
use crate::store::RunView;

/// How many commits a run remembers for writers whose reply was lost.
const RECENT: usize = 8;
/// The session of callers that name none.
pub(super) const NO_SESSION: &str = "unknown";

/// An event of a run, about a checkpoint or the run itself.
pub(super) fn event(
    run: &RunId,
    at: Timestamp,
    kind: EventType,
    about: Option<&CheckpointId>,
    data: &serde_json::Value,
) -> Event {
    // A value can always be written as JSON.
    let data = RawJson::of(data).unwrap_or_default();
    Event { at, kind, run_id: run.clone(), snapshot_id: about.cloned(), data }
}

/// The record to go on with: the run's own, or a new one.
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
           command from run_options.command];
    // Where a run works is said once, by its first writer, or by the next one after a rebuilt record.
    let location = &run_options.location;
    macro_rules! set_first {
        ($($name:ident),*) => { $( if record.$name.is_none() { record.$name.clone_from(&location.$name); } )* };
    }
    set_first![project, worktree, branch, user];
    record
}

/// Enters the session that the caller is in; says whether its first checkpoint is still to come.
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

/// Begins a session; the one before it is summed up.
pub(super) fn begin_session(
    record: &mut RunRecord,
    id: &str,
    moment: &ClockReading,
    events: &mut Vec<Event>,
) {
    next_session(record, id, moment.clone());
    // The profile is said here as well, for a record that has to be rebuilt.
    let data = json!({ "session_id": id, "profile": record.profile });
    events.push(event(&record.run_id, moment.at, EventType::SessionStarted, None, &data));
}

fn next_session(record: &mut RunRecord, id: &str, started: ClockReading) {
    record.earlier_ms = record.total_ms();
    record.sessions = record.sessions.saturating_add(1);
    record.session = Some(Session { id: id.to_owned(), started, elapsed_ms: 0, checkpoints: 0 });
}

/// Enters the session of a checkpoint that was saved earlier or elsewhere; its start follows from the elapsed time.
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

/// Notes a checkpoint as the latest failed, completed, state-holding or workspace-holding one of its run.
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

/// Whether a commit is among those that a run remembers: then its reply was lost.
pub(super) fn is_committed(record: &RunRecord, token: &WriteToken) -> bool {
    record.recent.iter().any(|recent| recent.token == *token)
}

/// Adds a commit to those that a run remembers.
pub(super) fn remember_commit(record: &mut RunRecord, token: &WriteToken, sequence: u64, coalesced: bool) {
    record.recent.push(RecentCommit { token: token.clone(), sequence, coalesced });
    let surplus = record.recent.len().saturating_sub(RECENT);
    record.recent.drain(..surplus);
}
