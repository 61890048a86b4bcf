//! Which checkpoints of a run go, and why each one stays or goes.

use std::fmt;

use jiff::Timestamp;

use crate::clock;
use crate::model::{CheckpointId, Keep, Retention};
use crate::store::Entry;

/// Why a checkpoint stays or goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// Stays: nothing was written after it.
    Newest,
    /// Stays: among the newest so many.
    AmongLast(u64),
    /// Stays: every one is kept.
    KeepAll,
    /// Stays: the newest that failed.
    LatestFailed,
    /// Stays: the newest that was completed.
    LatestCompleted,
    /// Stays: the newest that holds a state.
    LatestState,
    /// Stays: the first of its run.
    First,
    /// Stays: pinned.
    Pinned,
    /// Stays: tagged.
    Tagged,
    /// Goes: so many newer ones are kept.
    BeyondLast(u64),
    /// Goes: older than so many seconds.
    OlderThan(u64),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Newest => f.write_str("newest of its run"),
            Self::AmongLast(n) => write!(f, "among the last {n}"),
            Self::KeepAll => f.write_str("all are kept"),
            Self::LatestFailed => f.write_str("latest failed"),
            Self::LatestCompleted => f.write_str("latest completed"),
            Self::LatestState => f.write_str("holds the latest state"),
            Self::First => f.write_str("first of its run"),
            Self::Pinned => f.write_str("pinned"),
            Self::Tagged => f.write_str("tagged"),
            Self::BeyondLast(n) => write!(f, "beyond the last {n}"),
            Self::OlderThan(seconds) if seconds % 86_400 == 0 => {
                write!(f, "older than {} days", seconds / 86_400)
            }
            Self::OlderThan(seconds) => write!(f, "older than {seconds} s"),
        }
    }
}

/// The decision about one checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Planned {
    /// Its number.
    pub sequence: u64,
    /// Its id.
    pub snapshot_id: CheckpointId,
    /// Whether it stays.
    pub keep: bool,
    /// Why; never empty.
    pub reasons: Vec<Reason>,
}

/// What is known of a run as a whole. Sequences are 0 for "none".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunFacts {
    /// How many checkpoints it has.
    pub count: u64,
    /// The newest.
    pub newest: u64,
    /// The newest that failed.
    pub latest_failed: u64,
    /// The newest that was completed.
    pub latest_completed: u64,
    /// The newest that holds a state.
    pub latest_state: u64,
}

/// Decides about the oldest checkpoints of a run: `entries` are its oldest, oldest first and without a gap, as many as
/// the caller likes. Rank is counted by sequence, never by clock.
pub fn plan(run: &RunFacts, entries: &[Entry], policy: &Retention, now: Timestamp) -> Vec<Planned> {
    entries
        .iter()
        .enumerate()
        .map(|(index, entry)| {
            let newer = run.count.saturating_sub(index as u64 + 1);
            let mut keep = preserved(run, index, entry, policy);
            let mut go = Vec::new();
            match policy.keep_last {
                Keep::Last(n) if newer >= n => go.push(Reason::BeyondLast(n)),
                Keep::Last(n) => keep.push(Reason::AmongLast(n)),
                Keep::All => keep.push(Reason::KeepAll),
            }
            if let Some(limit) = policy.max_age
                && clock::age(entry.header.created_at, now).is_some_and(|age| age > limit)
            {
                go.push(Reason::OlderThan(limit.as_secs()));
            }
            let stays =
                go.is_empty() || keep.iter().any(|r| !matches!(r, Reason::AmongLast(_) | Reason::KeepAll));
            Planned {
                sequence: entry.header.sequence,
                snapshot_id: entry.header.snapshot_id.clone(),
                keep: stays,
                reasons: if stays { keep } else { go },
            }
        })
        .collect()
}

/// Reasons that hold whatever the number and the age.
fn preserved(run: &RunFacts, index: usize, entry: &Entry, policy: &Retention) -> Vec<Reason> {
    let sequence = entry.header.sequence;
    [
        (sequence == run.newest, Reason::Newest),
        (sequence == run.latest_failed, Reason::LatestFailed),
        (sequence == run.latest_completed, Reason::LatestCompleted),
        (sequence == run.latest_state, Reason::LatestState),
        (policy.keep_first && index == 0, Reason::First),
        (entry.marks.pinned, Reason::Pinned),
        (!entry.marks.tags.is_empty(), Reason::Tagged),
    ]
    .into_iter()
    .filter_map(|(holds, reason)| holds.then_some(reason))
    .collect()
}
