//! Plans which checkpoints of a run are removed. Takes facts about the run, its oldest checkpoints and a
//! policy; returns a decision with its reasons for each checkpoint. Must not remove anything.

use std::collections::HashSet;

use jiff::Timestamp;

use super::Reason;
use crate::clock;
use crate::model::{KeepCount, Retention, RunRecord};
use crate::store::RetentionEntry;

/// The decision about one checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RetentionDecision {
    /// The number of the checkpoint.
    pub sequence: u64,
    /// Whether it is kept.
    pub keep: bool,
    /// The reasons; never empty.
    pub reasons: Vec<Reason>,
}

/// Facts about a run as a whole. A sequence number of 0 means "none".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RunFacts {
    /// The number of checkpoints.
    pub count: u64,
    /// The newest checkpoint.
    pub newest: u64,
    /// The time of the newest checkpoint, if it is not among the entries.
    pub newest_at: Option<Timestamp>,
    /// The newest checkpoint with the status failed.
    pub latest_failed: u64,
    /// The newest checkpoint with the status completed.
    pub latest_completed: u64,
    /// The newest checkpoint with a state.
    pub latest_state: u64,
    /// The newest checkpoint with a workspace; the next capture extends its list of touched files.
    pub latest_capture: u64,
}

impl RunFacts {
    /// The facts from the run's record, for unverified headers. `entries` is the whole run.
    pub(crate) fn from_record(record: &RunRecord, entries: &[RetentionEntry]) -> Self {
        Self {
            count: entries.len() as u64,
            newest: entries.last().map_or(0, |entry| entry.sequence),
            newest_at: None,
            latest_failed: record.latest_failed,
            latest_completed: record.latest_completed,
            latest_state: record.latest_state,
            latest_capture: record.captures.latest,
        }
    }

    /// The facts from verified headers. `entries` is the whole run, oldest first.
    pub(crate) fn from_entries(entries: &[RetentionEntry]) -> Self {
        use crate::model::Status::{Completed, Failed};
        let latest = |wanted: &dyn Fn(&RetentionEntry) -> bool| {
            entries.iter().rfind(|entry| wanted(entry)).map_or(0, |entry| entry.sequence)
        };
        Self {
            count: entries.len() as u64,
            newest: latest(&|_| true),
            newest_at: None,
            latest_failed: latest(&|entry| entry.status == Some(Failed)),
            latest_completed: latest(&|entry| entry.status == Some(Completed)),
            latest_state: latest(&|entry| entry.holds_state),
            latest_capture: latest(&|entry| entry.holds_workspace),
        }
    }
}

/// Decides which checkpoints of a run are kept. `entries` is any number of its oldest checkpoints, oldest
/// first and without gaps. Checkpoints are ranked by sequence number, never by the clock.
///
/// The newest checkpoint of an hour, day or week is certain only if all checkpoints are passed. Otherwise,
/// every checkpoint that could be the newest is kept. A partial plan therefore never removes a checkpoint
/// that a plan of the whole run would keep, but it may keep more.
pub(crate) fn plan(
    run: &RunFacts,
    entries: &[RetentionEntry],
    policy: &Retention,
    now: Timestamp,
) -> Vec<RetentionDecision> {
    let chosen = newest_of_periods(run, entries, policy);
    entries
        .iter()
        .zip(chosen)
        .enumerate()
        .map(|(index, (entry, chosen))| {
            let newer = run.count.saturating_sub(index as u64 + 1);
            let age = clock::age(entry.created_at, now);
            let mut keep = protection_reasons(run, index, entry, policy);
            // A checkpoint with a time in the future counts as recent.
            if let Some(within) = policy.keep_within.filter(|within| age.is_none_or(|age| age <= *within)) {
                keep.push(Reason::Within(within.as_secs()));
            }
            keep.extend(chosen);
            let protected = !keep.is_empty();
            let mut remove = Vec::new();
            match policy.keep_last {
                KeepCount::Last(n) if newer >= n => remove.push(Reason::BeyondLast(n)),
                KeepCount::Last(n) => keep.push(Reason::AmongLast(n)),
                KeepCount::All => keep.push(Reason::KeepAll),
            }
            if let Some(limit) = policy.max_age.filter(|limit| age.is_some_and(|age| age > *limit)) {
                remove.push(Reason::OlderThan(limit.as_secs()));
            }
            let stays = protected || remove.is_empty();
            RetentionDecision {
                sequence: entry.sequence,
                keep: stays,
                reasons: if stays { keep } else { remove },
            }
        })
        .collect()
}

/// The reasons to keep a checkpoint regardless of its rank and age.
fn protection_reasons(
    run: &RunFacts,
    index: usize,
    entry: &RetentionEntry,
    policy: &Retention,
) -> Vec<Reason> {
    let sequence = entry.sequence;
    [
        (sequence == run.newest, Reason::Newest),
        (sequence == run.latest_failed, Reason::LatestFailed),
        (sequence == run.latest_completed, Reason::LatestCompleted),
        (sequence == run.latest_state, Reason::LatestState),
        (sequence == run.latest_capture, Reason::LatestCapture),
        (policy.keep_first && index == 0, Reason::First),
        (entry.pinned, Reason::Pinned),
        (entry.tagged, Reason::Tagged),
    ]
    .into_iter()
    .filter_map(|(holds, reason)| holds.then_some(reason))
    .collect()
}

const HOUR: i64 = 3600;
const DAY: i64 = 24 * HOUR;
const WEEK: i64 = 7 * DAY;
/// The epoch began on a Thursday; weeks begin on Mondays.
const MONDAY_OFFSET: i64 = 3 * DAY;

/// The periods of one length, filled from the newest checkpoint backwards.
struct Buckets {
    keep: u64,
    length: i64,
    offset: i64,
    reason: Reason,
    filled: HashSet<i64>,
}

impl Buckets {
    /// Whether a checkpoint from `at` is the newest of its period. If all checkpoints are known, the period
    /// must also be one of the `keep` newest.
    fn choose(&mut self, at: Timestamp, all_known: bool) -> bool {
        let bucket = (at.as_second() + self.offset).div_euclid(self.length);
        let full = all_known && self.filled.len() as u64 >= self.keep;
        self.keep > 0 && !full && self.filled.insert(bucket)
    }
}

/// For each entry, the periods in which it is the newest checkpoint.
fn newest_of_periods(run: &RunFacts, entries: &[RetentionEntry], policy: &Retention) -> Vec<Vec<Reason>> {
    let mut reasons = vec![Vec::new(); entries.len()];
    if !policy.has_buckets() {
        return reasons;
    }
    let known = entries.len() as u64 + u64::from(run.newest_at.is_some());
    let all_known = known >= run.count;
    let kinds = [
        (policy.keep_hourly, HOUR, 0, Reason::Hourly),
        (policy.keep_daily, DAY, 0, Reason::Daily),
        (policy.keep_weekly, WEEK, MONDAY_OFFSET, Reason::Weekly),
    ];
    for (keep, length, offset, reason) in kinds {
        let mut buckets = Buckets { keep, length, offset, reason, filled: HashSet::new() };
        if let Some(at) = run.newest_at {
            buckets.choose(at, all_known);
        }
        for (entry, reasons) in entries.iter().zip(&mut reasons).rev() {
            if buckets.choose(entry.created_at, all_known) {
                reasons.push(buckets.reason);
            }
        }
    }
    reasons
}
