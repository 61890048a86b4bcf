//! The end of a run's log: everything that a save needs if it removes nothing, without replaying the log. So the first
//! save of a process costs the same however long the log is. Takes a run's id, and returns nothing if the end of the
//! log is damaged or does not contain enough. Writes nothing.

use std::io;

use super::cache::{End, LOG_LIMIT, range};
use super::log::{Change, Piece, Read, Totals, pieces};
use super::state::{Live, RunLog};
use super::{FilesStore, read_error};
use crate::fs::bounded;
use crate::model::{Marks, RunId, RunRecord};
use crate::store::{CheckpointEntry, Commit, RunView, Slot, StoreError};

/// Number of bytes at the end of a log that are read.
const WINDOW: u64 = 64 << 10;

/// What an appended line builds on.
#[derive(Debug)]
pub(super) struct Base {
    /// The number of the line.
    pub(super) n: u64,
    /// The change of the line before it.
    pub(super) previous: Option<Change>,
    pub(super) totals: Totals,
    pub(super) end: End,
}

/// The state of a run that the end of its log describes.
#[derive(Debug)]
pub(super) struct Tail {
    pub(super) base: Base,
    pub(super) last_stamp: u64,
    last_sequence: u64,
    record: RunRecord,
    newest: Option<CheckpointEntry>,
}

impl Tail {
    /// The view for a decision, without details.
    pub(super) fn view(&self, stamp: u64) -> RunView {
        RunView {
            record: Some(self.record.clone()),
            slot: Slot::issue(self.last_sequence + 1, stamp),
            count: self.base.totals.checkpoints,
            latest: self.newest.clone(),
            waiting: self.base.totals.items,
            details: None,
        }
    }

    /// Whether a commit can be validated and applied without the rest of the log: it removes nothing, and changes the
    /// marks of no checkpoint but the newest one and its own.
    pub(super) fn is_sufficient_for(&self, commit: &Commit) -> bool {
        let is_known = |sequence: u64| {
            let newest = self.newest.as_ref().map(|entry| entry.header.sequence);
            newest == Some(sequence) || commit.puts.iter().any(|put| put.header().sequence == sequence)
        };
        commit.drops.is_empty()
            && commit.marks.iter().all(|(sequence, _)| is_known(*sequence))
            && (commit.puts.is_empty() || commit.generated_ids)
    }

    /// A log that contains only the newest checkpoint.
    pub(super) fn newest_alone(&self) -> RunLog {
        let mut log = RunLog::default();
        let newest = self.newest.iter().cloned();
        log.entries.extend(newest.map(|entry| (entry.header.sequence, Live { entry, gz: None })));
        log
    }

    /// Reads the last lines. `start` is the offset of `bytes` in the log.
    fn parse(run: &RunId, bytes: &[u8], start: u64) -> Option<Self> {
        // The window may begin within a line.
        let cut = if start == 0 { 0 } else { bytes.iter().position(|b| *b == b'\n')? + 1 };
        let found = pieces(run, &bytes[cut..]);
        let end = End { at: start + (cut + found.end) as u64, open: found.open };
        let mut lines = found.pieces.iter().rev().map_while(|piece| match piece {
            Piece::Good(text) => serde_json::from_slice::<Read<'_>>(text).ok(),
            Piece::Bad => None,
        });
        let last = lines.next()?;
        let totals = last.change.totals?;
        let record = serde_json::from_str(last.record?.get()).ok()?;
        let changes = std::iter::once(last.change.clone()).chain(lines.map(|line| line.change));
        let newest = if totals.checkpoints == 0 { None } else { Some(newest(last.change.n, changes)?) };
        let (last_stamp, last_sequence) = (last.change.stamp, last.change.last);
        let base = Base { n: last.change.n + 1, previous: Some(last.change), totals, end };
        Some(Self { base, last_stamp, last_sequence, record, newest })
    }
}

/// The newest checkpoint of a run, from its last changes, newest first. `None` if they do not contain it.
fn newest(last: u64, changes: impl Iterator<Item = Change>) -> Option<CheckpointEntry> {
    let (mut marks, mut drops) = (Vec::new(), Vec::new());
    for (n, change) in (0..=last).rev().zip(changes) {
        // A missing line may have added or removed checkpoints.
        if change.n != n {
            return None;
        }
        marks.extend(change.marks.into_iter().rev());
        drops.extend(change.drops);
        let Some(header) = change.puts.into_iter().next_back() else { continue };
        if drops.contains(&header.sequence) {
            return None;
        }
        let marks = marks.into_iter().find(|(sequence, _)| *sequence == header.sequence);
        return Some(CheckpointEntry {
            header,
            marks: marks.map_or_else(Marks::default, |(_, marks)| marks),
        });
    }
    None
}

impl FilesStore {
    /// The state at the end of a run's log. `None` if the log must be replayed, or was replayed by this handle already.
    pub(super) fn read_tail(&self, run: &RunId) -> Result<Option<Tail>, StoreError> {
        let is_replayed = self.runs.lock().unwrap_or_else(|e| e.into_inner()).contains_key(run);
        if is_replayed {
            return Ok(None);
        }
        let history = self.history(run);
        let path = history.log();
        history.check_links().map_err(|e| read_error(&path, e))?;
        let mut file = match bounded::open(&path) {
            Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Ok(None);
            }
            file => file.map_err(|e| read_error(&path, e))?,
        };
        let length = file.metadata().map_err(|e| read_error(&path, e))?.len();
        if length > LOG_LIMIT {
            return Ok(None);
        }
        let start = length.saturating_sub(WINDOW);
        let bytes = range(&mut file, start, length).map_err(|e| read_error(&path, e))?;
        Ok(Tail::parse(run, &bytes, start))
    }
}
