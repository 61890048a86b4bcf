//! What a handle knows about the runs that it wrote last, so that a process that saves often reads only the stamp of
//! a run before each save. An entry is used only if the run's row is still the one that this handle wrote: every
//! commit to a run changes the stamp and the number of commits in that row. Runs no statements.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard};

use milepost::internal::store::OLDEST_SHOWN;
use milepost::model::{Marks, RunId};
use milepost::store::{CheckpointEntry, Commit, RunDetails};

use crate::decode::RunTableRow;
use crate::frames::ChainEnd;
use crate::view::Seen;

/// Maximum number of runs in the cache.
const CACHED_RUNS: usize = 8;

/// A run after a commit of this handle.
pub(crate) struct CachedRun {
    pub(crate) seen: Seen,
    /// The newest document, which the next one can be a delta against.
    pub(crate) end: Option<ChainEnd>,
}

/// The runs that a handle wrote last.
#[derive(Default)]
pub(crate) struct RunCache(Mutex<Vec<(RunId, CachedRun)>>);

impl RunCache {
    fn lock(&self) -> MutexGuard<'_, Vec<(RunId, CachedRun)>> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Removes and returns the entry of a run. A write adds it again if it succeeds.
    pub(crate) fn take(&self, run: &RunId) -> Option<CachedRun> {
        let mut runs = self.lock();
        let at = runs.iter().position(|(cached, _)| cached == run)?;
        Some(runs.remove(at).1)
    }

    pub(crate) fn insert(&self, run: &RunId, cached: CachedRun) {
        let mut runs = self.lock();
        runs.retain(|(other, _)| other != run);
        runs.push((run.clone(), cached));
        if runs.len() > CACHED_RUNS {
            runs.remove(0);
        }
    }
}

/// The run as the next write will see it, after a commit that was decided on `seen`. `row` is the run's new row.
/// `None` if the commit changed something that only a read can tell.
pub(crate) fn after_commit(seen: Seen, commit: &Commit, mut row: RunTableRow) -> Option<Seen> {
    let drops: BTreeSet<u64> = commit.drops.iter().copied().collect();
    let marks: BTreeMap<u64, &Marks> =
        commit.marks.iter().map(|(sequence, marks)| (*sequence, marks)).collect();
    let Seen { mut view, mut shown_items, mut next_item, .. } = seen;
    let remark = |mut entry: CheckpointEntry| {
        if let Some(marks) = marks.get(&entry.header.sequence()) {
            entry.marks = (*marks).clone();
        }
        entry
    };
    let puts: Vec<CheckpointEntry> = commit
        .puts
        .iter()
        .map(|put| remark(CheckpointEntry::new(put.header().clone(), Marks::default())))
        .collect();
    let latest = puts.last().cloned().or_else(|| view.latest.take().map(remark));
    if latest.as_ref().is_some_and(|latest| drops.contains(&latest.header.sequence())) {
        return None;
    }
    // A damaged newest checkpoint is not in the view.
    if latest.is_none() && row.count > 0 {
        return None;
    }
    let count_before = view.count;
    let details = view.details.take().map(|details| {
        let is_complete = details.oldest.len() as u64 == count_before;
        let stay = details.oldest.into_iter().map(remark);
        let added = puts.into_iter().filter(|_| is_complete);
        let mut oldest: Vec<_> =
            stay.chain(added).filter(|entry| !drops.contains(&entry.header.sequence())).collect();
        let is_complete = oldest.len() as u64 == row.count;
        let has_enough = limit_oldest(&mut oldest);
        let mut items = details.items;
        let is_whole = items.len() as u64 == view.waiting;
        items.drain(..commit.consume);
        items.extend(commit.push.iter().cloned());
        let mut shown = RunDetails::default();
        (shown.oldest, shown.items) = (oldest, items);
        (shown, (is_complete || has_enough) && is_whole)
    });
    shown_items.drain(..commit.consume);
    view.waiting = (view.waiting + commit.push.len() as u64).saturating_sub(commit.consume as u64);
    let after_pushed = next_item.saturating_add(commit.push.len() as i64);
    if details.is_some() {
        shown_items.extend(next_item..after_pushed);
    }
    next_item = if view.waiting == 0 { 1 } else { after_pushed };
    view.details = match details {
        Some((details, true)) => Some(details),
        Some((_, false)) => return None,
        None => None,
    };
    row.stored = (row.stamp, row.commits);
    row.record = Ok(Box::new(commit.record.clone()));
    view.record = Some(commit.record.clone());
    view.count = row.count;
    view.latest = latest;
    Some(Seen { row: Some(row), view, shown_items, next_item })
}

/// Shortens a list of the oldest checkpoints to what a view shows. Returns whether it was long enough.
fn limit_oldest(oldest: &mut Vec<CheckpointEntry>) -> bool {
    let mut free = 0;
    let end = oldest.iter().position(|entry| {
        free += usize::from(!entry.marks.protects());
        free == OLDEST_SHOWN
    });
    if let Some(end) = end {
        oldest.truncate(end + 1);
    }
    end.is_some()
}
