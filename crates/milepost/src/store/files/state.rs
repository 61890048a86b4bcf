//! The state of one run, replayed from its log.
//! Takes the lines of a log, and the files in `history/` if lines are lost. Provides the run's entries,
//! items, messages, attachments, events and record, and the view for a decision. Writes nothing and decides nothing.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::attachments::Attachments;
use super::cache::End;
use super::history::History;
use super::log::{Change, Piece, Read, Totals};
use super::tail::Base;
use super::thread_positions::ThreadPositions;
use crate::model::{CheckpointId, Event, Item, Marks, Message, RunId, RunRecord};
use crate::seal::{Header, verify};
use crate::store::{
    CheckpointEntry, Cursor, Damage, DamageKind, EVENTS_KEPT, OLDEST_SHOWN, Part, Row, RunDetails, RunRow,
    RunView, Slot,
};

/// A checkpoint that intact lines describe.
#[derive(Debug, Clone)]
pub(super) struct Live {
    pub(super) entry: CheckpointEntry,
    /// Checksum of the compressed file; `None` if the document is stored in plain form.
    pub(super) gz: Option<String>,
}

/// A document in `history/` that no intact line describes, so a lost line must have added it.
#[derive(Debug, Clone)]
pub(super) struct Unexplained {
    pub(super) id: CheckpointId,
    /// The header, rebuilt from the document; `None` if the document is damaged too.
    pub(super) header: Option<Header>,
}

impl Unexplained {
    pub(super) fn sequence(&self) -> Option<u64> {
        self.header.as_ref().map(|h| h.sequence)
    }

    fn cursor(&self) -> Cursor {
        let header = self.header.as_ref();
        Cursor { sequence: header.map_or(0, |h| h.sequence), stamp: header.map_or(0, |h| h.stamp) }
    }

    fn row(&self, run: &RunId) -> Row {
        let damage = Damage::integrity(Part::Header, "an intact line in log.jsonl", "a damaged one")
            .at(Some(run), self.sequence())
            .named(Some(self.id.clone()));
        Row::Damaged { damage, cursor: self.cursor() }
    }
}

/// A row by reference, before it is copied for the caller.
#[derive(Debug, Clone, Copy)]
pub(super) enum RowRef<'a> {
    Live(&'a Live),
    Unexplained(&'a Unexplained),
}

impl RowRef<'_> {
    pub(super) fn cursor(&self) -> Cursor {
        match self {
            Self::Live(Live { entry: CheckpointEntry { header, .. }, .. }) => {
                Cursor { sequence: header.sequence, stamp: header.stamp }
            }
            Self::Unexplained(found) => found.cursor(),
        }
    }

    pub(super) fn id(&self) -> &CheckpointId {
        match self {
            Self::Live(live) => &live.entry.header.snapshot_id,
            Self::Unexplained(found) => &found.id,
        }
    }

    pub(super) fn row(&self, run: &RunId) -> Row {
        match self {
            Self::Live(live) => Row::Intact(live.entry.clone()),
            Self::Unexplained(found) => found.row(run),
        }
    }
}

/// A replayed log.
#[derive(Debug, Clone, Default)]
pub(super) struct RunLog {
    /// The number `n` of the last intact line.
    pub(super) n: u64,
    /// The last stamp used.
    pub(super) stamp: u64,
    /// The last sequence number ever used.
    pub(super) last_sequence: u64,
    pub(super) entries: BTreeMap<u64, Live>,
    /// The positions in threads of `entries`.
    pub(super) positions: ThreadPositions,
    pub(super) items: VecDeque<Item>,
    pub(super) messages: Vec<Message>,
    pub(super) attachments: Attachments,
    pub(super) events: VecDeque<(u64, Event)>,
    /// The run's record; `None` if a damaged line may have contained a newer one.
    pub(super) record: Option<RunRecord>,
    /// The last record that was read, which may be outdated.
    pub(super) stale: Option<RunRecord>,
    /// Number of lines, damaged ones included.
    pub(super) lines: u64,
    /// Number of damaged lines.
    pub(super) bad: u64,
    /// Number of damaged lines at the end of the log. No later line repeats their changes.
    pub(super) trailing: u64,
    /// Number of lost lines before the end of the log whose changes no other line repeats.
    pub(super) lost: u64,
    /// Lost lines may have dropped checkpoints up to this sequence number.
    lost_below: u64,
    dropped: BTreeSet<u64>,
    pub(super) unexplained: Vec<Unexplained>,
    /// The change of the last line, which the next line repeats.
    pub(super) previous: Option<Change>,
}

impl RunLog {
    /// The state of a run whose log is missing.
    pub(super) fn without_log() -> Self {
        Self { bad: 1, trailing: 1, ..Self::default() }
    }

    /// Whether the log has any line, intact or damaged.
    pub(super) fn exists(&self) -> bool {
        self.n > 0 || self.bad > 0
    }

    /// Whether changes are lost that no other line repeats.
    pub(super) fn is_lossy(&self) -> bool {
        self.lost > 0 || self.trailing > 0
    }

    /// The number of the next line. Skips one number per damaged line at the end, to keep the gap visible.
    pub(super) fn next_n(&self) -> u64 {
        self.n + self.trailing + 1
    }

    /// The state after the log was rewritten. `last` is the change of its last line.
    pub(super) fn written_anew(&self, last: Option<Change>) -> Self {
        let n = last.as_ref().map_or(0, |last| last.n);
        let dropped = BTreeSet::new();
        Self { n, lines: n, lost_below: 0, dropped, previous: last, ..self.clone() }
    }

    /// Replays more lines.
    pub(super) fn extend(&mut self, pieces: &[Piece<'_>]) {
        let mut record = None;
        for (index, piece) in pieces.iter().enumerate() {
            self.lines += 1;
            let read = match piece {
                Piece::Good(text) => serde_json::from_slice::<Read<'_>>(text).ok(),
                Piece::Bad => None,
            };
            // A line whose number does not increase does not belong here and counts as damaged.
            let Some(read) = read.filter(|read| read.change.n > self.n) else {
                self.bad += 1;
                self.trailing += 1;
                self.previous = None;
                self.keep_stale(record.take());
                continue;
            };
            let mut gap = read.change.n - self.n - 1;
            if gap > 0 {
                self.keep_stale(record.take());
                let before = self.last_sequence;
                let again = read.again.and_then(|raw| serde_json::from_str::<Change>(raw.get()).ok());
                if let Some(again) = again.filter(|change| change.n + 1 == read.change.n) {
                    self.apply(again);
                    gap -= 1;
                }
                if gap > 0 {
                    self.lost += gap;
                    self.lost_below = before;
                }
            }
            self.trailing = 0;
            // Only the last line is repeated by the next one.
            self.previous = (index + 1 == pieces.len()).then(|| read.change.clone());
            self.apply(read.change);
            record = read.record.or(record);
        }
        if let Some(raw) = record {
            self.record = serde_json::from_str(raw.get()).ok();
            self.stale = self.record.clone().or(self.stale.take());
        }
    }

    /// Marks the current record as stale, because a damaged line may have contained a newer one.
    fn keep_stale(&mut self, record: Option<&serde_json::value::RawValue>) {
        let read = record.and_then(|raw| serde_json::from_str(raw.get()).ok());
        self.stale = read.or(self.record.take()).or(self.stale.take());
        self.record = None;
    }

    /// Adds a checkpoint without marks, or replaces the one with the same sequence number.
    pub(super) fn add(&mut self, header: Header) {
        if let Some(before) = self.entries.get(&header.sequence) {
            self.positions.remove(&before.entry.header);
        }
        self.positions.add(&header);
        let entry = CheckpointEntry { header, marks: Marks::default() };
        self.entries.insert(entry.header.sequence, Live { entry, gz: None });
    }

    fn apply(&mut self, change: Change) {
        self.n = change.n;
        self.stamp = self.stamp.max(change.stamp);
        self.last_sequence = self.last_sequence.max(change.last);
        for header in change.puts {
            self.last_sequence = self.last_sequence.max(header.sequence);
            self.add(header);
        }
        for (sequence, marks) in change.marks {
            if let Some(live) = self.entries.get_mut(&sequence) {
                live.entry.marks = marks;
            }
        }
        for (sequence, check) in change.gz {
            if let Some(live) = self.entries.get_mut(&sequence) {
                live.gz = Some(check);
            }
        }
        for sequence in change.drops {
            if let Some(live) = self.entries.remove(&sequence) {
                self.positions.remove(&live.entry.header);
                self.attachments.drop_checkpoint(live.entry.header.snapshot_id.as_str());
            }
            self.dropped.insert(sequence);
        }
        self.items.drain(..change.consume.min(self.items.len()));
        self.items.extend(change.push);
        self.messages.extend(change.messages);
        change.detach.iter().for_each(|checkpoint| self.attachments.drop_checkpoint(checkpoint));
        change.attachments.into_iter().for_each(|attachment| self.attachments.add(attachment));
        self.events.extend(change.events);
        while self.events.len() as u64 > EVENTS_KEPT {
            self.events.pop_front();
        }
    }

    /// Infers from `history/` what lost lines changed: they added the documents that no other line
    /// describes, and dropped the documents that no longer exist.
    pub(super) fn survey(&mut self, run: &RunId, history: &History) {
        self.unexplained.clear();
        if !self.is_lossy() {
            return;
        }
        let below = if self.trailing > 0 { self.last_sequence } else { self.lost_below };
        self.entries.retain(|sequence, live| {
            let is_there = *sequence > below || history.holds(&live.entry.header.snapshot_id);
            if !is_there {
                self.positions.remove(&live.entry.header);
            }
            is_there
        });
        let known: BTreeSet<_> =
            self.entries.values().map(|live| live.entry.header.snapshot_id.clone()).collect();
        for id in history.ids() {
            if known.contains(&id) {
                continue;
            }
            let verified = history.any_bytes(&id).and_then(|bytes| verify(bytes).ok());
            let header =
                verified.and_then(|v| v.into_sealed(&Slot::issue(1, 0)).ok()).map(|s| s.header().clone());
            let header = header.filter(|h| h.run_id == *run && h.snapshot_id == id);
            if let Some(header) = &header {
                // The sequence number is used or dropped by an intact line, so this document was never
                // acknowledged, or was dropped.
                if self.entries.contains_key(&header.sequence) || self.dropped.contains(&header.sequence) {
                    continue;
                }
            }
            self.unexplained.push(Unexplained { id, header });
        }
        self.unexplained.sort_by_key(|found| found.cursor().sequence);
        // Their stamps are lost. Each gets a stamp after that of the preceding checkpoint.
        let mut last = 0;
        for header in self.unexplained.iter_mut().filter_map(|found| found.header.as_mut()) {
            let before = self.entries.range(..header.sequence).next_back();
            last = before.map_or(0, |(_, live)| live.entry.header.stamp).max(last) + 1;
            header.stamp = last;
        }
    }

    /// Number of checkpoints.
    pub(super) fn count(&self) -> u64 {
        (self.entries.len() + self.unexplained.len()) as u64
    }

    /// All rows, oldest first.
    pub(super) fn rows(&self) -> Vec<RowRef<'_>> {
        let mut rows: Vec<_> = self.entries.values().map(RowRef::Live).collect();
        if !self.unexplained.is_empty() {
            rows.extend(self.unexplained.iter().map(RowRef::Unexplained));
            rows.sort_by_key(|row| row.cursor().sequence);
        }
        rows
    }

    /// The newest row.
    pub(super) fn newest(&self) -> Option<RowRef<'_>> {
        let live = self.entries.values().next_back().map(RowRef::Live);
        let found = self.unexplained.last().map(RowRef::Unexplained);
        live.into_iter().chain(found).max_by_key(|row| row.cursor().sequence)
    }

    /// What the run contains.
    pub(super) fn totals(&self) -> Totals {
        Totals { checkpoints: self.count(), items: self.items.len() as u64 }
    }

    /// What a commit that is appended at `end` builds on.
    pub(super) fn base(&self, end: End) -> Base {
        Base { n: self.next_n(), previous: self.previous.clone(), totals: self.totals(), end }
    }

    /// The next free sequence number, after all that were used, including those used by lost lines.
    pub(super) fn next_sequence(&self) -> u64 {
        let found = self.unexplained.iter().filter_map(Unexplained::sequence).max().unwrap_or(0);
        let unreadable = self.unexplained.iter().filter(|found| found.header.is_none()).count() as u64;
        self.last_sequence.max(found) + unreadable + 1
    }

    /// An upper bound for the stamps of this run, including those that lost lines may have used.
    pub(super) fn highest_stamp(&self) -> u64 {
        self.stamp + self.trailing + if self.trailing > 0 { self.unexplained.len() as u64 } else { 0 }
    }

    /// The view for a decision.
    pub(super) fn view(&self, stamp: u64) -> RunView {
        let mut oldest = Vec::new();
        let mut unprotected = 0;
        let found: BTreeSet<_> = self.unexplained.iter().map(|found| found.cursor().sequence).collect();
        let first_found = found.first().copied().unwrap_or(u64::MAX);
        for live in self.entries.values().take_while(|live| live.entry.header.sequence < first_found) {
            unprotected += usize::from(!live.entry.marks.protects());
            oldest.push(live.entry.clone());
            if unprotected == OLDEST_SHOWN {
                break;
            }
        }
        RunView {
            record: self.record.clone(),
            slot: Slot::issue(self.next_sequence(), stamp),
            count: self.count(),
            latest: match self.newest() {
                Some(RowRef::Live(live)) => Some(live.entry.clone()),
                _ => None,
            },
            waiting: self.items.len() as u64,
            // The details are in memory already.
            details: Some(RunDetails { oldest, items: self.items.iter().cloned().collect() }),
        }
    }

    /// The run as a row of a list.
    pub(super) fn run_row(&self, run: &RunId) -> RunRow {
        let record = self.record.clone().map(Box::new).ok_or_else(|| {
            let kind = if self.bad > 0 { DamageKind::Integrity } else { DamageKind::Schema };
            let damage =
                Damage::integrity(Part::Run, "a record in log.jsonl", "a damaged line").at(Some(run), None);
            Damage { kind, ..damage }
        });
        let latest = self.newest().map(|row| row.row(run));
        let (stamp, count) = (self.highest_stamp(), self.count());
        RunRow { count, latest, ..RunRow::new(run.clone(), record, stamp) }
    }
}
