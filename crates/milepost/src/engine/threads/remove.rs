//! Removes threads and checkpoints of threads, with their writes, and collects the values that are no longer in
//! use. A checkpoint from whose value a kept one is computed stays.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::{Threads, writes_key};
use crate::Error;
use crate::engine::lookup::LARGE_PAGE;
use crate::model::{Profile, RunId, ThreadPosition};
use crate::store::{
    CheckpointEntry, CheckpointFilter, Commit, HeaderQuery, Row, StoreError, ThreadFilter, WriteDecision,
};

/// Number of checkpoints that one commit removes at most.
const BATCH: usize = 500;

/// A checkpoint of a thread that may be removed.
struct Candidate {
    sequence: u64,
    stamp: u64,
    position: ThreadPosition,
    row: Row,
}

impl Threads {
    /// Removes a thread with all its checkpoints and writes. Returns false if it does not exist.
    pub fn delete_thread(&self, thread: &str) -> Result<bool, Error> {
        let run = Self::run_of(thread)?;
        let Some(stored) = self.mp.store.run(&run)? else { return Ok(false) };
        if stored.row.record.as_ref().is_ok_and(|record| record.profile != Profile::Thread) {
            return Err(Error::NoThread { run });
        }
        let was_there = self.mp.store.delete_run(&run, None)?;
        self.removed(&[run])?;
        Ok(was_there)
    }

    /// Removes the checkpoints that these invocations created, in all threads, with their writes. Returns the number
    /// of checkpoints.
    pub fn delete_invocations(&self, invocations: &[&str]) -> Result<u64, Error> {
        let mut of_run: BTreeMap<RunId, Vec<Candidate>> = BTreeMap::new();
        for invocation in invocations {
            let mut after: Option<(String, u64)> = None;
            loop {
                let mut filter = ThreadFilter::default().invocation(*invocation);
                filter.after = after.as_ref().map(|(id, stamp)| (id.as_str(), *stamp));
                let query = HeaderQuery::default().find(CheckpointFilter::Thread(filter)).limit(LARGE_PAGE);
                let rows = self.mp.store.headers(&query)?;
                let is_last = rows.len() < LARGE_PAGE;
                for row in rows {
                    let run = run_of_row(&row)?;
                    let Some(found) = candidate(row)? else { continue };
                    after = Some((found.position.id.clone(), found.stamp));
                    // Another invocation may have replaced it.
                    let versions = self.versions(&run, &found.position)?;
                    if versions.first().is_some_and(|newest| newest.sequence == found.sequence) {
                        of_run.entry(run).or_default().extend(versions);
                    }
                }
                if is_last {
                    break;
                }
            }
        }
        let mut removed = 0;
        let runs: Vec<_> = of_run.keys().cloned().collect();
        for (run, candidates) in of_run {
            removed += self.remove(&run, candidates.iter().collect(), &HashSet::new())?;
            self.remove_if_empty(&run)?;
        }
        self.removed(&runs)?;
        Ok(removed)
    }

    /// A checkpoint and the earlier ones that it replaced, newest first.
    fn versions(&self, run: &RunId, position: &ThreadPosition) -> Result<Vec<Candidate>, Error> {
        let filter = ThreadFilter::default().namespace(position.namespace.as_str()).id(position.id.as_str());
        let query = HeaderQuery::default().run(run).find(CheckpointFilter::Thread(filter));
        let rows = self.mp.store.headers(&query)?;
        rows.into_iter().filter_map(|row| candidate(row).transpose()).collect()
    }

    /// Keeps only this many of the newest checkpoints of each namespace, at least 1, and the ancestors from whose values
    /// theirs are computed. Returns the number of checkpoints that it removed.
    pub fn prune(&self, thread: &str, keep: usize) -> Result<u64, Error> {
        let run = Self::run_of(thread)?;
        let mut all = Vec::new();
        for row in self.mp.rows(HeaderQuery::default().run(&run), LARGE_PAGE) {
            all.extend(candidate(row?)?);
        }
        // Greatest ids first. Of several checkpoints with the same id, the newest one counts.
        all.sort_by(|a, b| (&b.position.id, b.stamp).cmp(&(&a.position.id, a.stamp)));
        let mut by_place: HashMap<(&str, &str), &Candidate> = HashMap::new();
        let mut newest: HashMap<&str, usize> = HashMap::new();
        let mut kept: HashSet<u64> = HashSet::new();
        let mut to_follow = Vec::new();
        for one in &all {
            let place = (one.position.namespace.as_str(), one.position.id.as_str());
            if by_place.contains_key(&place) {
                continue;
            }
            by_place.insert(place, one);
            let count = newest.entry(place.0).or_default();
            if *count < keep.max(1) {
                *count += 1;
                kept.insert(one.sequence);
                to_follow.push(one);
            }
        }
        for one in to_follow {
            self.keep_ancestors(one, &by_place, &mut kept)?;
        }
        let surplus: Vec<_> = all.iter().filter(|one| !kept.contains(&one.sequence)).collect();
        if surplus.is_empty() {
            return Ok(0);
        }
        let kept_places = all.iter().filter(|one| kept.contains(&one.sequence)).map(writes_of).collect();
        let removed = self.remove(&run, surplus, &kept_places)?;
        self.removed(&[run])?;
        Ok(removed)
    }

    /// Keeps the ancestors of a checkpoint back to those that contain the values that it does not contain itself.
    fn keep_ancestors(
        &self,
        one: &Candidate,
        by_place: &HashMap<(&str, &str), &Candidate>,
        kept: &mut HashSet<u64>,
    ) -> Result<(), Error> {
        let Some(entry) = self.entry(one.row.clone())? else { return Ok(()) };
        let derived = entry.reader.derived().iter();
        let mut wanted: HashSet<String> =
            derived.filter(|name| !entry.reader.has_value(name)).cloned().collect();
        let mut parent = one.position.parent.as_deref();
        let mut visited = HashSet::new();
        while let Some(id) = parent.filter(|id| !wanted.is_empty() && visited.insert(*id)) {
            let Some(ancestor) = by_place.get(&(one.position.namespace.as_str(), id)) else { break };
            kept.insert(ancestor.sequence);
            let Some(entry) = self.entry(ancestor.row.clone())? else { break };
            wanted.retain(|name| !entry.reader.has_value(name));
            parent = ancestor.position.parent.as_deref();
        }
        Ok(())
    }

    /// Removes checkpoints of a run with their writes, except for writes in `kept`. Returns the number of checkpoints.
    fn remove(&self, run: &RunId, candidates: Vec<&Candidate>, kept: &HashSet<String>) -> Result<u64, Error> {
        for batch in candidates.chunks(BATCH) {
            let drops: Vec<u64> = batch.iter().map(|one| one.sequence).collect();
            let detach: Vec<String> =
                batch.iter().map(|one| writes_of(one)).filter(|key| !kept.contains(key)).collect();
            self.mp.write(run, &mut |view| {
                let Some(record) = &view.record else { return WriteDecision::NoChange };
                let mut commit = Commit::new(record.clone());
                commit.drops.clone_from(&drops);
                commit.detach.clone_from(&detach);
                WriteDecision::Commit(Box::new(commit))
            })?;
        }
        Ok(candidates.len() as u64)
    }

    /// Removes the run of a thread that has no checkpoint any more.
    fn remove_if_empty(&self, run: &RunId) -> Result<(), Error> {
        if let Some(stored) = self.mp.store.run(run)?.filter(|stored| stored.row.count == 0) {
            self.mp.store.delete_run(run, Some(stored.row.stamp))?;
        }
        Ok(())
    }

    /// Removes what is derived from removed checkpoints.
    fn removed(&self, runs: &[RunId]) -> Result<(), Error> {
        #[cfg(feature = "search")]
        self.mp.forget_removed(runs);
        #[cfg(not(feature = "search"))]
        let _ = runs;
        self.collect_later()
    }
}

fn run_of_row(row: &Row) -> Result<RunId, Error> {
    match row {
        Row::Intact(CheckpointEntry { header, .. }) => Ok(header.run_id.clone()),
        Row::Damaged { damage, .. } => Err(StoreError::from(damage.clone()).into()),
    }
}

/// The key of a checkpoint's writes.
fn writes_of(one: &Candidate) -> String {
    writes_key(&one.position.namespace, &one.position.id)
}

/// The checkpoint of a row; `None` if the program that keeps the thread did not save it. Fails for a damaged row: what it
/// refers to is not known.
fn candidate(row: Row) -> Result<Option<Candidate>, Error> {
    let header = match &row {
        Row::Intact(CheckpointEntry { header, .. }) => header,
        Row::Damaged { damage, .. } => return Err(StoreError::from(damage.clone()).into()),
    };
    let Some(position) = header.thread.clone() else { return Ok(None) };
    Ok(Some(Candidate { sequence: header.sequence, stamp: header.stamp, position, row }))
}
