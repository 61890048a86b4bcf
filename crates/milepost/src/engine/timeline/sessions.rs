//! The sessions of a timeline, and the periods without work. Takes checkpoints whose times are in order, messages,
//! the record and events; returns sessions with the reason why each ended, and gaps. Pure.

use std::time::Duration;

use derive_getters::Getters;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::super::RunDetail;
use super::super::bookkeeping::started_at;
use super::ordered_times::TimeRange;
use super::{Timeline, TimelineCheckpoint, TimelineMessage};
use crate::model::{Event, EventType, InterruptionKind, Status};

/// How long nothing may happen within a session before it counts as a gap.
const SILENCE: Duration = Duration::from_secs(30 * 60);
/// Shorter periods between two sessions are not gaps.
const SHORT_BREAK: Duration = Duration::from_secs(60);

/// A session of a run, in a timeline.
#[derive(Getters, Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TimelineSession {
    /// The session id.
    pub(crate) session_id: String,
    /// When it began.
    #[getter(copy)]
    pub(crate) started_at: Timestamp,
    /// When it ended, as far as that is known; `None` while it goes on.
    #[getter(copy)]
    pub(crate) ended_at: Option<Timestamp>,
    /// Why it ended, if that is known.
    #[getter(copy)]
    pub(crate) ended_by: Option<InterruptionKind>,
    /// Number of its checkpoints that still exist.
    pub(crate) checkpoints: u64,
    /// Sequence number of its first checkpoint that still exists; 0 if there is none.
    pub(crate) first: u64,
    /// Sequence number of its newest checkpoint; 0 if there is none.
    pub(crate) last: u64,
}

/// A period without work.
#[derive(Getters, Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct TimelineGap {
    /// The last activity before it.
    #[getter(copy)]
    pub(crate) from: Timestamp,
    /// The first activity after it.
    #[getter(copy)]
    pub(crate) to: Timestamp,
    /// Whether no session was open; otherwise, a session was silent.
    pub(crate) between_sessions: bool,
}

/// The members of an event's data that are used here.
#[derive(Default, Deserialize)]
#[serde(default)]
struct EventData {
    session_id: Option<String>,
    class: Option<String>,
}

/// Collects sessions, oldest first.
pub(super) struct SessionList(Vec<TimelineSession>);

impl SessionList {
    pub(super) fn new(
        checkpoints: &[TimelineCheckpoint],
        messages: &[TimelineMessage],
        detail: &RunDetail,
        events: &[Event],
        range: &TimeRange,
    ) -> Self {
        let mut list = Self(Vec::new());
        let began = detail.summary.intact().map(|record| range.nearest(record.started_at));
        let mut elapsed_ms = 0;
        for checkpoint in checkpoints.iter().filter(|checkpoint| !checkpoint.damaged) {
            list.add_checkpoint(checkpoint, &mut elapsed_ms, began);
        }
        let record_session = detail.summary.intact().and_then(|record| record.session.as_ref());
        let unnamed = record_session.map(|session| (session.id.clone(), session.started.at));
        let started = events.iter().filter(|event| event.kind == EventType::SessionStarted);
        let started = started.filter_map(|event| Some((data(event).session_id?, event.at)));
        for (id, at) in started.chain(unnamed) {
            list.add_without_checkpoints(id, range.nearest(at));
        }
        list.0.sort_by_key(|session| session.started_at);
        for message in messages {
            list.extend_to(message.at, |_| ());
        }
        for event in events {
            list.add_event(event, range.nearest(event.at));
        }
        if let Some(record) = detail.summary.intact() {
            let ends =
                [record.ended_at, record.heartbeat, record.interruption.as_ref().map(|noted| noted.at)];
            for end in ends.into_iter().flatten() {
                list.extend_to(range.nearest(end), |_| ());
            }
            if record.status == Status::Completed
                && let Some(last) = list.0.last_mut()
            {
                last.ended_by = Some(InterruptionKind::CleanStop);
            }
        }
        list
    }

    /// Sets the end of the newest session: none if the run is live, otherwise why the run stopped.
    pub(super) fn finish(
        mut self,
        is_live: bool,
        stopped_by: Option<InterruptionKind>,
    ) -> Vec<TimelineSession> {
        if let Some(last) = self.0.last_mut() {
            if is_live {
                (last.ended_at, last.ended_by) = (None, None);
            } else if stopped_by.is_some() {
                last.ended_by = stopped_by;
            }
        }
        self.0
    }

    /// A new session begins when the id changes or the elapsed time starts over.
    fn add_checkpoint(
        &mut self,
        checkpoint: &TimelineCheckpoint,
        elapsed_ms: &mut u64,
        run_began: Option<Timestamp>,
    ) {
        let goes_on = *elapsed_ms <= checkpoint.elapsed_ms
            && self.0.last().is_some_and(|session| session.session_id == checkpoint.session_id);
        *elapsed_ms = checkpoint.elapsed_ms;
        if !goes_on {
            let earliest = self.0.last().and_then(|session| session.ended_at).or(run_began);
            let began = started_at(checkpoint.at, checkpoint.elapsed_ms);
            self.0.push(TimelineSession {
                session_id: checkpoint.session_id.clone(),
                started_at: began.max(earliest.unwrap_or(began)).clamp(Timestamp::UNIX_EPOCH, checkpoint.at),
                ended_at: None,
                ended_by: None,
                checkpoints: 0,
                first: checkpoint.sequence,
                last: checkpoint.sequence,
            });
        }
        if let Some(session) = self.0.last_mut() {
            session.ended_at = Some(checkpoint.at);
            session.checkpoints += 1;
            session.last = checkpoint.sequence;
        }
    }

    fn add_without_checkpoints(&mut self, session_id: String, at: Timestamp) {
        if self.0.iter().all(|known| known.session_id != session_id) {
            self.0.push(TimelineSession {
                session_id,
                started_at: at,
                ended_at: Some(at),
                ended_by: None,
                checkpoints: 0,
                first: 0,
                last: 0,
            });
        }
    }

    /// Extends the session that was open at this time. A session does not extend beyond the start of the next one.
    fn extend_to(&mut self, at: Timestamp, change: impl FnOnce(&mut TimelineSession)) {
        let after = self.0.partition_point(|session| session.started_at <= at);
        if let Some(session) = after.checked_sub(1).and_then(|index| self.0.get_mut(index))
            && session.ended_at.is_none_or(|end| end <= at)
        {
            session.ended_at = Some(at);
            change(session);
        }
    }

    /// Work that goes on after an interruption clears it.
    fn add_event(&mut self, event: &Event, at: Timestamp) {
        match event.kind {
            EventType::Interrupted => {
                let kind = data(event).class.and_then(|class| class.parse().ok());
                self.extend_to(at, |session| session.ended_by = kind.or(session.ended_by));
            }
            EventType::SessionStopped => {
                self.extend_to(at, |session| session.ended_by = Some(InterruptionKind::CleanStop));
            }
            EventType::CheckpointCreated => self.extend_to(at, |session| session.ended_by = None),
            _ => {}
        }
    }
}

fn data(event: &Event) -> EventData {
    serde_json::from_str(event.data.get()).unwrap_or_default()
}

/// Periods without work, oldest first.
pub(super) fn gaps(timeline: &Timeline) -> Vec<TimelineGap> {
    let end = timeline.ended_at;
    let mut times: Vec<Timestamp> = vec![timeline.started_at, end];
    times.extend(timeline.checkpoints.iter().map(|checkpoint| checkpoint.at));
    times.extend(timeline.messages.iter().map(|message| message.at));
    for session in &timeline.sessions {
        times.extend([session.started_at, session.ended_at.unwrap_or(end)]);
    }
    times.sort_unstable();
    times.dedup();
    let mut sessions = timeline.sessions.iter().peekable();
    let mut covered_until = timeline.started_at;
    let mut gaps = Vec::new();
    for pair in times.windows(2) {
        let &[from, to] = pair else { continue };
        while let Some(session) = sessions.next_if(|session| session.started_at <= from) {
            covered_until = covered_until.max(session.ended_at.unwrap_or(end));
        }
        let between_sessions = covered_until < to;
        let shortest = if between_sessions { SHORT_BREAK } else { SILENCE };
        if crate::clock::age(from, to).is_some_and(|length| length >= shortest) {
            gaps.push(TimelineGap { from, to, between_sessions });
        }
    }
    gaps
}
