//! What a timeline shows: points and spans in time, each with its kind and a label. Takes a timeline and facts of
//! the library, and the period to show; returns plain values without positions.

use std::collections::HashSet;

use jiff::Timestamp;
use milepost::model::InterruptionKind;
use milepost::{
    CheckpointFacts, FailedOutcome, MessageKind, RunFacts, Source, Status, Timeline, TimelineCheckpoint,
};

use super::TimelineOptions;
use super::text::one_line;

/// Redacts a text, and makes one line of at most this many columns of it.
type TextFilter<'a> = &'a dyn Fn(&str, usize) -> String;

/// The kind of a mark. The order is the order of importance: merged marks look like their most important one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum MarkKind {
    // Checkpoints.
    Timer,
    Boundary,
    Manual,
    Paused,
    Completed,
    Damaged,
    Failed,
    // Messages.
    Reply,
    Plan,
    Answer,
    Prompt,
    // Failures.
    FixedFailure,
    OpenFailure,
}

impl MarkKind {
    /// The class of its elements, and its name in the legend.
    pub(super) fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Timer => ("mp-timer", "timer"),
            Self::Boundary => ("mp-boundary", "step"),
            Self::Manual => ("mp-manual", "manual"),
            Self::Paused => ("mp-paused", "paused"),
            Self::Completed => ("mp-completed", "completed"),
            Self::Damaged => ("mp-damaged", "damaged"),
            Self::Failed => ("mp-failed", "error"),
            Self::Reply => ("mp-reply", "reply"),
            Self::Plan => ("mp-plan", "plan"),
            Self::Answer => ("mp-answer", "answer"),
            Self::Prompt => ("mp-prompt", "prompt"),
            Self::FixedFailure => ("mp-fixed", "passed later"),
            Self::OpenFailure => ("mp-open", "not seen to pass since"),
        }
    }
}

/// A point in time.
#[derive(Debug, Clone)]
pub(super) struct Mark {
    pub(super) at: Timestamp,
    pub(super) kind: MarkKind,
    /// Whether it is pinned or tagged.
    pub(super) flagged: bool,
    /// The checkpoint that it belongs to.
    pub(super) sequence: Option<u64>,
    /// What it is, in a few words.
    pub(super) name: String,
    /// What it says.
    pub(super) detail: String,
}

/// A session.
#[derive(Debug, Clone)]
pub(super) struct Band {
    pub(super) from: Timestamp,
    pub(super) to: Timestamp,
    pub(super) number: usize,
    pub(super) checkpoints: u64,
    pub(super) ended_by: Option<InterruptionKind>,
    pub(super) is_open: bool,
}

/// A period without work.
#[derive(Debug, Clone, Copy)]
pub(super) struct Gap {
    pub(super) from: Timestamp,
    pub(super) to: Timestamp,
    pub(super) between_sessions: bool,
}

/// A value of a plot.
#[derive(Debug, Clone, Copy)]
pub(super) struct Value {
    pub(super) at: Timestamp,
    pub(super) value: u64,
}

/// Everything that a timeline shows. All lists are ordered by time.
#[derive(Debug, Clone, Default)]
pub(super) struct Chart {
    pub(super) title: String,
    pub(super) run: String,
    pub(super) status: Option<&'static str>,
    pub(super) from: Timestamp,
    pub(super) to: Timestamp,
    /// Whether only a part of the run is shown.
    pub(super) is_part: bool,
    pub(super) is_live: bool,
    pub(super) pending: u64,
    pub(super) bands: Vec<Band>,
    pub(super) gaps: Vec<Gap>,
    pub(super) checkpoints: Vec<Mark>,
    pub(super) messages: Vec<Mark>,
    pub(super) failures: Vec<Mark>,
    pub(super) memory: Vec<Value>,
    pub(super) files: Vec<Value>,
}

impl Chart {
    pub(super) fn new(timeline: &Timeline, facts: Option<&RunFacts>, options: &TimelineOptions<'_>) -> Self {
        let text = |recorded: &str, columns| one_line(&options.redacted(recorded), columns);
        let whole = (timeline.started_at(), timeline.ended_at());
        let mut chart = Self {
            title: text(timeline.about().as_deref().unwrap_or_default(), 120),
            run: text(timeline.run_id().as_str(), 120),
            status: timeline.status().map(|status| status.as_str()),
            from: whole.0,
            to: whole.1,
            is_live: timeline.is_live(),
            pending: timeline.pending().changes,
            ..Self::default()
        };
        chart.bands = bands(timeline);
        let gaps = timeline.gaps().iter();
        chart.gaps = gaps
            .map(|gap| Gap { from: gap.from(), to: gap.to(), between_sessions: gap.between_sessions() })
            .collect();
        chart.checkpoints =
            timeline.checkpoints().iter().map(|checkpoint| checkpoint_mark(checkpoint, &text)).collect();
        chart.messages = timeline
            .messages()
            .iter()
            .map(|message| {
                let (kind, name) = message_kind(message.kind());
                let detail = text(message.text(), 160);
                Mark { at: message.at(), kind, flagged: false, sequence: None, name: name.to_owned(), detail }
            })
            .collect();
        chart.add_facts(
            timeline,
            facts.map(|facts| facts.checkpoints().as_slice()).unwrap_or_default(),
            &text,
        );
        if let Some((from, to)) = options.range {
            chart.limit_to(from.min(to), from.max(to));
        }
        chart
    }

    /// Adds plots and failures. Failures in checkpoints come from facts, all others from the record.
    fn add_facts(&mut self, timeline: &Timeline, facts: &[CheckpointFacts], text: TextFilter<'_>) {
        let mut placed = timeline.checkpoints().iter().peekable();
        for facts in facts {
            while placed.next_if(|checkpoint| checkpoint.sequence() < facts.sequence()).is_some() {}
            let Some(at) = placed.peek().filter(|c| c.sequence() == facts.sequence()).map(|c| c.at()) else {
                continue;
            };
            self.memory.extend(facts.rss().map(|value| Value { at, value }));
            self.files.extend(facts.files_changed().map(|value| Value { at, value }));
            let failures: Vec<_> =
                facts.failed().iter().map(|failed| self.failure_mark(failed, at, text)).collect();
            self.failures.extend(failures);
        }
        let identity = |failed: &FailedOutcome| (failed.outcome().name.clone(), failed.outcome().at());
        let known: HashSet<_> = facts.iter().flat_map(CheckpointFacts::failed).map(identity).collect();
        let others = timeline.failures().iter().filter(|failed| !known.contains(&identity(failed)));
        let others: Vec<_> = others.map(|failed| self.failure_mark(failed, self.to, text)).collect();
        self.failures.extend(others);
        self.failures.sort_by_key(|mark| mark.at);
    }

    fn failure_mark(&self, failed: &FailedOutcome, otherwise_at: Timestamp, text: TextFilter<'_>) -> Mark {
        let outcome = failed.outcome();
        let kind = if failed.fixed() == Some(false) { MarkKind::OpenFailure } else { MarkKind::FixedFailure };
        let reason = outcome.reason_code.as_deref().map(|code| format!(" ({code})")).unwrap_or_default();
        Mark {
            // The clock of the record can be wrong; the checkpoint's time is in order.
            at: outcome.at().filter(|at| *at >= self.from && *at <= self.to).unwrap_or(otherwise_at),
            kind,
            flagged: false,
            sequence: Some(failed.number()).filter(|number| *number > 0),
            name: match failed.fixed() {
                Some(true) => "failed, passed later",
                Some(false) => "failed, not seen to pass since",
                None => "failed",
            }
            .to_owned(),
            detail: text(&format!("{}{reason}", outcome.name), 160),
        }
    }

    fn limit_to(&mut self, from: Timestamp, to: Timestamp) {
        self.is_part = from > self.from || to < self.to;
        (self.from, self.to) = (from, to);
        let is_inside = |at: Timestamp| from <= at && at <= to;
        for marks in [&mut self.checkpoints, &mut self.messages, &mut self.failures] {
            marks.retain(|mark| is_inside(mark.at));
        }
        for values in [&mut self.memory, &mut self.files] {
            values.retain(|value| is_inside(value.at));
        }
        self.bands.retain(|band| band.from <= to && band.to >= from);
        self.gaps.retain(|gap| gap.from < to && gap.to > from);
        for band in &mut self.bands {
            band.is_open &= band.to <= to;
            (band.from, band.to) = (band.from.max(from), band.to.min(to));
        }
        for gap in &mut self.gaps {
            (gap.from, gap.to) = (gap.from.max(from), gap.to.min(to));
        }
        self.is_live &= self.bands.iter().any(|band| band.is_open);
    }
}

fn bands(timeline: &Timeline) -> Vec<Band> {
    let sessions = timeline.sessions().iter().zip(1..);
    sessions
        .map(|(session, number)| Band {
            from: session.started_at(),
            to: session.ended_at().unwrap_or(timeline.ended_at()),
            number,
            checkpoints: session.checkpoints(),
            ended_by: session.ended_by(),
            is_open: session.ended_at().is_none(),
        })
        .collect()
}

fn checkpoint_mark(checkpoint: &TimelineCheckpoint, text: TextFilter<'_>) -> Mark {
    let kind = match (checkpoint.status(), checkpoint.source()) {
        _ if checkpoint.damaged() => MarkKind::Damaged,
        (Some(Status::Failed), _) | (_, Some(Source::ErrorBoundary)) => MarkKind::Failed,
        (Some(Status::Completed), _) => MarkKind::Completed,
        (Some(Status::Paused), _) => MarkKind::Paused,
        (_, Some(Source::StepBoundary)) => MarkKind::Boundary,
        (_, Some(Source::Timer)) => MarkKind::Timer,
        _ => MarkKind::Manual,
    };
    let (_, kind_name) = kind.names();
    let tags = checkpoint.tags().iter().take(3).map(|tag| text(tag, 40)).collect::<Vec<_>>().join(", ");
    let phase = checkpoint.phase().as_ref().and_then(|phase| phase.name.as_deref());
    let details = [
        phase.map(|phase| text(phase, 40)),
        checkpoint.summary().as_deref().map(|summary| text(summary, 140)),
        (!tags.is_empty()).then(|| format!("tagged {tags}")),
        checkpoint.pinned().then(|| "pinned".to_owned()),
    ];
    Mark {
        at: checkpoint.at(),
        kind,
        flagged: checkpoint.pinned() || !checkpoint.tags().is_empty(),
        sequence: Some(checkpoint.sequence()),
        name: format!("checkpoint {}, {kind_name}", checkpoint.sequence()),
        detail: details.into_iter().flatten().collect::<Vec<_>>().join(" · "),
    }
}

fn message_kind(kind: MessageKind) -> (MarkKind, &'static str) {
    match kind {
        MessageKind::Prompt => (MarkKind::Prompt, "prompt"),
        MessageKind::Answer => (MarkKind::Answer, "answer"),
        MessageKind::Plan => (MarkKind::Plan, "plan"),
        MessageKind::Reply => (MarkKind::Reply, "reply"),
    }
}
