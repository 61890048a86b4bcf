//! Timeline: what happened in a run and when: checkpoints, messages, sessions, gaps and failures. Reads headers,
//! marks, messages, events and the record, never documents, so that it is fast for runs with many checkpoints.

mod facts;
mod ordered_times;
mod sessions;

use std::time::Duration;

use derive_getters::Getters;
use jiff::Timestamp;
use serde::Serialize;

pub use facts::{CheckpointFacts, RunFacts};
pub use sessions::{TimelineGap, TimelineSession};

use super::list::is_completed;
use super::lookup::LARGE_PAGE;
use super::since::{PendingCounts, RecentChanges};
use super::summary::FailedOutcome;
use super::{Milepost, RunDetail};
use crate::Error;
use crate::failures::is_failure;
use crate::model::{
    CheckpointId, InterruptionKind, Message, OutcomeResult, Phase, RunId, Source, Status, closed_enum,
};
use crate::redact::without_cut_word;
use crate::resume::RunState;
use crate::seal::Header;
use crate::store::{CheckpointEntry, Damage, HeaderQuery, Row};
use ordered_times::{TimeRange, order};
use sessions::SessionList;

/// Maximum number of characters of a text in a timeline.
const MAX_TEXT: usize = 200;

/// How far the clock of another machine may be ahead of this one. Later times are wrong, and are moved.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(24 * 3600);

closed_enum! {
    /// The kind of a message.
    pub enum MessageKind {
        /// The user's prompt to the agent.
        Prompt = "prompt",
        /// The user's answer to a question of the agent.
        Answer = "answer",
        /// A plan of the agent.
        Plan = "plan",
        /// The agent's last message of a turn.
        Reply = "reply",
    }
}

/// A checkpoint in a timeline.
#[derive(Getters, Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TimelineCheckpoint {
    /// The sequence number.
    pub(crate) sequence: u64,
    /// The checkpoint id; `None` if the checkpoint is damaged.
    pub(crate) snapshot_id: Option<CheckpointId>,
    /// Its time on the timeline: `created_at`, or the time of its neighbour if the clock was wrong.
    #[getter(copy)]
    pub(crate) at: Timestamp,
    /// The recorded time, which can be wrong; `None` if the checkpoint is damaged.
    #[getter(copy)]
    pub(crate) created_at: Option<Timestamp>,
    /// What triggered it.
    #[getter(copy)]
    pub(crate) source: Option<Source>,
    /// The status of the work.
    #[getter(copy)]
    pub(crate) status: Option<Status>,
    /// Whether it is completed.
    pub(crate) completed: bool,
    /// The phase of the work.
    pub(crate) phase: Option<Phase>,
    /// The first line of the summary of the work.
    pub(crate) summary: Option<String>,
    /// Whether it is pinned.
    pub(crate) pinned: bool,
    /// Its tags.
    pub(crate) tags: Vec<String>,
    /// Whether it contains a brief.
    pub(crate) holds_brief: bool,
    /// Whether it contains a state.
    pub(crate) holds_state: bool,
    /// The session id.
    pub(crate) session_id: String,
    /// Whether its header or its marks are damaged.
    pub(crate) damaged: bool,
    /// Milliseconds since its session began.
    #[getter(skip)]
    #[serde(skip)]
    pub(crate) elapsed_ms: u64,
}

/// A message in a timeline.
#[derive(Getters, Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TimelineMessage {
    /// Its time on the timeline.
    #[getter(copy)]
    pub(crate) at: Timestamp,
    /// The kind of message.
    #[getter(copy)]
    pub(crate) kind: MessageKind,
    /// The first line of its text, at most 200 characters.
    pub(crate) text: String,
}

/// What happened in a run, ordered by time.
///
/// Recorded times can be wrong: a clock can jump, and imported data can contain any time. The times of a timeline
/// are nevertheless in order, and between `started_at` and `ended_at`.
#[derive(Getters, Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Timeline {
    /// The run id.
    pub(crate) run_id: RunId,
    /// The title of the run.
    pub(crate) title: Option<String>,
    /// What the run is about: its title, the newest prompt, or the command.
    pub(crate) about: Option<String>,
    /// The status of the run; `None` if its record is damaged.
    #[getter(copy)]
    pub(crate) status: Option<Status>,
    /// Whether the owner is alive and can still add to the timeline.
    pub(crate) is_live: bool,
    /// Why the work stopped before its end; `None` for runs that go on, are open without an owner, or completed.
    #[getter(copy)]
    pub(crate) stopped_by: Option<InterruptionKind>,
    /// The beginning of the timeline.
    #[getter(copy)]
    pub(crate) started_at: Timestamp,
    /// The end of the timeline: the end of the run, its last write, or the current time if the run is live.
    #[getter(copy)]
    pub(crate) ended_at: Timestamp,
    /// The checkpoints, oldest first.
    pub(crate) checkpoints: Vec<TimelineCheckpoint>,
    /// What the user and the agent said, oldest first.
    pub(crate) messages: Vec<TimelineMessage>,
    /// The sessions, oldest first.
    pub(crate) sessions: Vec<TimelineSession>,
    /// Periods without work: between sessions, and long silences.
    pub(crate) gaps: Vec<TimelineGap>,
    /// Failures that the record lists: those not seen to pass since, and those after the newest checkpoint. The
    /// failures in checkpoints are part of their facts: [`Milepost::checkpoint_facts`].
    pub(crate) failures: Vec<FailedOutcome>,
    /// The number of changes since the newest checkpoint.
    #[getter(skip)]
    pub(crate) pending: PendingCounts,
}

impl Milepost {
    /// Reads the timeline of a run. Its cost does not depend on the size of the documents, which are not read.
    pub fn timeline(&self, run: &RunId) -> Result<Timeline, Error> {
        let stored = self.stored_run(run)?;
        let record = stored.row.record.as_ref().ok().filter(|_| stored.row.count > 0);
        let before = record.map(|record| record.working.clone());
        let detail = self.detail_of(stored);
        let query = HeaderQuery::default().run(run).oldest_first(true);
        // Rows are much larger than what is kept of them.
        let rows = self.rows(query, LARGE_PAGE).map(|row| row.map(|row| listed(row, &detail)));
        let mut checkpoints = rows.collect::<Result<Vec<_>, _>>()?;
        let messages = self.messages_of(run)?;
        let events = self.events_of(run)?;
        let record = detail.summary.intact();
        let (mut stopped_by, mut is_live) = (None, false);
        if let Some(record) = record {
            let (decision, _) = self.decide_by_record(&detail.summary, record)?;
            is_live = decision.run_state.is_live();
            stopped_by = (decision.run_state == RunState::Stopped).then_some(decision.class);
        }
        let now = self.now();
        let range = TimeRange::until(now.checked_add(CLOCK_TOLERANCE).unwrap_or(Timestamp::MAX));
        place_checkpoints(&mut checkpoints, &range);
        let messages = listed_messages(&messages, &range);
        let sessions = SessionList::new(&checkpoints, &messages, &detail, &events, &range);
        let mut timeline = Timeline {
            run_id: run.clone(),
            title: record.and_then(|record| record.title.as_deref()).map(first_line),
            about: record.and_then(|record| record.about()).as_deref().map(first_line),
            status: record.map(|record| record.status),
            is_live,
            stopped_by,
            started_at: now,
            ended_at: now,
            failures: known_failures(&detail),
            pending: RecentChanges::of(&detail, before.as_ref()).counts(),
            gaps: Vec::new(),
            sessions: sessions.finish(is_live, stopped_by),
            checkpoints,
            messages,
        };
        timeline.set_range(&detail, &range, now);
        timeline.gaps = sessions::gaps(&timeline);
        Ok(timeline)
    }
}

impl Timeline {
    /// The number of changes since the newest checkpoint.
    #[cfg(feature = "internal")]
    pub fn pending(&self) -> PendingCounts {
        self.pending
    }

    /// Sets the beginning and the end, so that everything else is between them.
    fn set_range(&mut self, detail: &RunDetail, range: &TimeRange, now: Timestamp) {
        let record = detail.summary.intact();
        let mut times: Vec<Timestamp> = Vec::new();
        times.extend(self.checkpoints.first().map(|checkpoint| checkpoint.at));
        times.extend(self.checkpoints.last().map(|checkpoint| checkpoint.at));
        times.extend(self.messages.first().map(|message| message.at));
        times.extend(self.messages.last().map(|message| message.at));
        times.extend(self.sessions.first().map(|session| session.started_at));
        times.extend(self.sessions.iter().filter_map(|session| session.ended_at).max());
        if times.is_empty() {
            times.extend(record.map(|record| range.nearest(record.started_at)));
            times.extend(record.map(|record| range.nearest(record.updated_at)));
        }
        times.extend(self.is_live.then(|| range.nearest(now)));
        self.started_at = times.iter().min().copied().unwrap_or(now);
        self.ended_at = times.iter().max().copied().unwrap_or(now);
    }
}

/// A row of the list, before its time is checked.
fn listed(row: Row, detail: &RunDetail) -> TimelineCheckpoint {
    match row {
        Row::Intact(entry) => {
            let completed = is_completed(detail.summary.intact(), &entry);
            let CheckpointEntry { header, marks } = entry;
            TimelineCheckpoint {
                sequence: header.sequence,
                snapshot_id: Some(header.snapshot_id),
                at: header.created_at,
                created_at: Some(header.created_at),
                source: Some(header.source),
                status: Some(header.status),
                completed,
                phase: header.phase,
                summary: header.summary.as_deref().map(header_summary),
                pinned: marks.pinned,
                tags: marks.tags,
                holds_brief: header.holds_brief,
                holds_state: header.holds_state,
                session_id: header.session_id,
                damaged: false,
                elapsed_ms: header.elapsed_ms,
            }
        }
        Row::Damaged { damage, cursor } => damaged(&damage, cursor.sequence),
    }
}

/// A checkpoint of which only the number is known.
fn damaged(damage: &Damage, sequence: u64) -> TimelineCheckpoint {
    TimelineCheckpoint {
        sequence: damage.sequence().unwrap_or(sequence),
        snapshot_id: damage.snapshot_id().clone(),
        at: Timestamp::UNIX_EPOCH,
        created_at: None,
        source: None,
        status: None,
        completed: false,
        phase: None,
        summary: None,
        pinned: false,
        tags: Vec::new(),
        holds_brief: false,
        holds_state: false,
        session_id: String::new(),
        damaged: true,
        elapsed_ms: 0,
    }
}

/// Puts the times of checkpoints in the order of their sequence numbers.
fn place_checkpoints(checkpoints: &mut [TimelineCheckpoint], range: &TimeRange) {
    let recorded: Vec<_> = checkpoints.iter().map(|checkpoint| checkpoint.created_at).collect();
    for (checkpoint, at) in checkpoints.iter_mut().zip(order(&recorded, range)) {
        checkpoint.at = at;
    }
}

fn listed_messages(messages: &[Message], range: &TimeRange) -> Vec<TimelineMessage> {
    let recorded: Vec<_> = messages.iter().map(|message| Some(message.at())).collect();
    let listed = messages.iter().zip(order(&recorded, range)).map(|(message, at)| TimelineMessage {
        at,
        kind: match message {
            Message::Prompt { .. } => MessageKind::Prompt,
            Message::Answer { .. } => MessageKind::Answer,
            Message::Plan { .. } => MessageKind::Plan,
            Message::Reply { .. } => MessageKind::Reply,
        },
        text: first_line(message.text()),
    });
    listed.collect()
}

/// The failures that are known without reading documents: unfixed ones, and pending ones that were fixed since.
fn known_failures(detail: &RunDetail) -> Vec<FailedOutcome> {
    let unfixed =
        detail.summary.intact().map(|record| record.working.failures.as_slice()).unwrap_or_default();
    let entry =
        |outcome: &crate::model::Outcome, fixed| FailedOutcome { number: 0, fixed, outcome: outcome.clone() };
    let pending = detail.pending_outcomes.iter().filter(|outcome| {
        outcome.result == OutcomeResult::Fail
            && !unfixed.iter().any(|open| open.name == outcome.name && open.at() == outcome.at())
    });
    let pending = pending.map(|outcome| entry(outcome, is_failure(outcome).then_some(true)));
    unfixed.iter().map(|outcome| entry(outcome, Some(false))).chain(pending).collect()
}

/// The first line of a text that has more than white space in it, within the maximum length. Words are not cut:
/// redaction would not recognise the beginning of a secret.
fn first_line(text: &str) -> String {
    // A text can be a megabyte of empty lines.
    let line = text.trim_start().lines().next().unwrap_or_default().trim_end();
    match line.char_indices().nth(MAX_TEXT) {
        None => line.to_owned(),
        Some((end, _)) => {
            format!("{}…", without_cut_word(&line[..end]).trim_end())
        }
    }
}

/// The summary of a header. If the header cut it off, its last word is left out for the same reason.
fn header_summary(summary: &str) -> String {
    let is_cut = summary.chars().count() >= Header::SUMMARY;
    let whole = if is_cut { without_cut_word(summary) } else { summary };
    let line = first_line(whole);
    if whole.len() < summary.len() && !line.ends_with('…') { format!("{line}…") } else { line }
}
