//! Prune: what retention no longer keeps, in all runs or one; runs that ended long ago, where that is asked for;
//! compression; the store's size.
//! A plan is made first and can be had alone. Each run is pruned by writes of its own, a batch at a time, so that saves
//! go on meanwhile; a pin that comes between plan and write is respected. What fails in one run does not stop the others.

mod report;

use std::collections::HashSet;

use jiff::Timestamp;

pub use self::report::{Action, PruneFailure, PruneOptions, PruneReport, PruneStep};
use self::report::{about, coming_back, leaves};
use super::{Milepost, Saved};
use crate::Error;
use crate::model::{
    Event, EventType, KeepCount, MaintenanceState, Profile, RawJson, Retention, RunId, RunRecord,
};
use crate::owner::Liveness;
use crate::retain::{self, Reason, RunCase, RunFacts};
use crate::store::{
    Commit, Maintenance, Receipt, RetentionEntry, RunQuery, RunRow, StoreError, WriteDecision,
};

/// Checkpoints removed by one write, so that savers are not kept waiting.
const BATCH: usize = 1000;
/// How often a plan is made anew where pins and tags keep changing.
const TRIES: u32 = 50;
/// Saves between two looks at all checkpoints of a run, where the policy protects many.
const LOOK_AT_ALL_EVERY: u64 = 32;
/// Ids that the event of a large removal names.
const NAMED: usize = 16;

/// A run and what becomes of it.
struct Case {
    row: RunRow,
    may_go: bool,
    steps: Vec<PruneStep>,
    gone: bool,
}

impl Milepost {
    /// Prunes; `progress` is called with the number of checkpoints looked at so far.
    pub fn prune(&self, request: &PruneOptions, progress: &mut dyn FnMut(u64)) -> Result<PruneReport, Error> {
        let mut rows = self.store.runs(&RunQuery::default())?;
        let last_written = rows.iter().map(last_write).max();
        if let Some(run) = &request.run {
            rows.retain(|row| row.run_id == *run);
            if rows.is_empty() {
                return Err(Error::NoRun(run.to_string()));
            }
        }
        // The oldest go first where the store is too large; nobody else's order matters.
        rows.sort_by_key(last_write);
        let before = self.store.info()?.bytes;
        let pointed = self.pointed_id();
        let mut report = PruneReport { dry_run: request.dry_run, ..PruneReport::default() };
        let mut cases = Vec::new();
        let (mut seen, mut busy) = (0, false);
        for row in rows {
            let is_last = Some(last_write(&row)) == last_written;
            let run_id = row.run_id.clone();
            let failed = match self.prune_run(row, is_last, request.dry_run) {
                Ok((case, failed)) => {
                    seen += case.steps.len() as u64;
                    progress(seen);
                    cases.push(case);
                    failed
                }
                Err(error) => vec![error],
            };
            // Where somebody holds the store, every other run would wait as long.
            busy = failed.iter().any(|e| matches!(e, Error::Store(StoreError::Busy { .. })));
            report
                .failed
                .extend(failed.into_iter().map(|error| PruneFailure { run_id: Some(run_id.clone()), error }));
            if busy {
                break;
            }
        }
        if !request.dry_run && !busy {
            self.compress_old(request.run.as_ref(), &mut report);
            let compacted = self.store.maintain(Maintenance::Compact);
            report.failed.extend(compacted.err().map(|e| PruneFailure { run_id: None, error: e.into() }));
        }
        let planned = |cases: &[Case]| cases.iter().flat_map(|c| &c.steps).map(coming_back).sum::<u64>();
        // A store of many files takes a while to measure.
        if request.run.is_none() && self.settings.store_limits.max_bytes > 0 {
            let mut bytes = if request.dry_run {
                before.saturating_sub(planned(&cases))
            } else {
                self.store.info()?.bytes
            };
            self.shrink(&mut cases, &mut bytes, &mut report)?;
        }
        report.bytes_freed =
            if request.dry_run { planned(&cases) } else { before.saturating_sub(self.store.info()?.bytes) };
        report.runs_removed =
            cases.iter().filter(|case| case.gone).map(|case| case.row.run_id.clone()).collect();
        report.plan = cases.into_iter().flat_map(|case| case.steps).collect();
        let count = |action| report.plan.iter().filter(|step| step.action == action).count() as u64;
        report.removed = count(Action::Remove);
        report.kept = report.plan.len() as u64 - report.removed;
        if request.dry_run {
            report.compressed = count(Action::Compress);
        } else if pointed.is_some_and(|id| {
            report.plan.iter().any(|step| step.action == Action::Remove && step.snapshot_id == id)
        }) {
            self.clear_dangling_pointer();
        }
        Ok(report)
    }

    /// Prunes one run, or plans to.
    fn prune_run(&self, row: RunRow, is_last: bool, dry_run: bool) -> Result<(Case, Vec<Error>), Error> {
        let now = self.now();
        let record = row.record.as_ref().ok().cloned();
        let mut case = Case { row, may_go: false, steps: Vec::new(), gone: false };
        // Only one that has ended is looked at as a whole.
        if let Some(record) = record.as_deref().filter(|record| !record.is_open()) {
            let entries = self.store.retention_entries(&case.row.run_id, None)?;
            let retention = self.settings.retention(record.profile);
            let whole = RunCase {
                record,
                retention: &retention,
                last_written: is_last,
                owner_alive: self.summarise(case.row.clone()).owner == Some(Liveness::Alive),
                protected: entries.iter().any(|entry| entry.pinned || entry.tagged),
            };
            case.may_go = whole.may_go();
            let limit = self.settings.store_limits.ended_after;
            if let Some(limit) = limit.filter(|limit| whole.has_expired(*limit, now)) {
                let reason = Reason::RunEnded(limit.as_secs());
                if dry_run || self.store.delete_run(&case.row.run_id, Some(case.row.stamp))? {
                    let run_id = case.row.run_id.clone();
                    case.steps = entries.into_iter().map(|entry| leaves(&run_id, entry, reason)).collect();
                    case.gone = true;
                    return Ok((case, Vec::new()));
                }
                // Somebody has written to it meanwhile.
            }
        }
        let (steps, failed) = self.prune_checkpoints(&case.row.run_id, None, dry_run)?;
        case.steps = steps;
        Ok((case, failed))
    }

    /// Removes what a run no longer keeps, or plans to; gives what became of each of its checkpoints, and what failed.
    /// `retention` takes the place of the run's own.
    pub(super) fn prune_checkpoints(
        &self,
        run: &RunId,
        retention: Option<&Retention>,
        dry_run: bool,
    ) -> Result<(Vec<PruneStep>, Vec<Error>), Error> {
        let (mut gone, mut failed) = (Vec::new(), Vec::new());
        for _ in 0..TRIES {
            // The record first: whatever is pinned after it was read shows in it.
            let Some(state) = self.store.run(run)? else { return Ok((gone, failed)) };
            let written = last_write(&state.row);
            let record = match state.row.record {
                Ok(record) => *record,
                Err(_) if dry_run => self.record_from_checkpoints(run)?,
                Err(_) => {
                    self.rebuild_record(run)?;
                    continue;
                }
            };
            let retention = retention.copied().unwrap_or_else(|| self.settings.retention(record.profile));
            let steps = self.planned(&record, &retention, dry_run)?;
            if dry_run {
                return Ok((steps, failed));
            }
            let (going, mut staying): (Vec<_>, Vec<_>) =
                steps.into_iter().partition(|step| step.action == Action::Remove);
            let mut moved = false;
            let stays = |step: PruneStep| PruneStep {
                action: Action::Keep,
                reasons: vec![Reason::NotRemoved],
                ..step
            };
            let mut going = going.into_iter();
            loop {
                let batch: Vec<_> = going.by_ref().take(BATCH).collect();
                if batch.is_empty() {
                    break;
                }
                match self.remove(run, &batch, record.marks_changed, written) {
                    Ok(Some(receipt)) => {
                        gone.extend(batch);
                        failed.extend(receipt.left.into_iter().map(|(path, why)| Error::File {
                            path,
                            what: "removed",
                            source: why.into(),
                        }));
                        continue;
                    }
                    Ok(None) => moved = true,
                    Err(e) => failed.push(e),
                }
                staying.extend(batch.into_iter().map(stays));
                break;
            }
            staying.extend(going.map(stays));
            if !moved {
                gone.append(&mut staying);
                gone.sort_by_key(|step| step.sequence);
                return Ok((gone, failed));
            }
        }
        Err(StoreError::MarksMoved(run.clone(), 0).into())
    }

    /// Removes checkpoints in one write; `None` where pins or tags have changed since the plan.
    fn remove(
        &self,
        run: &RunId,
        batch: &[PruneStep],
        marks_changed: u64,
        written: u64,
    ) -> Result<Option<Receipt>, Error> {
        let named: Vec<_> = batch.iter().take(NAMED).map(|step| &step.snapshot_id).collect();
        let data = RawJson::of(&serde_json::json!({ "removed": named, "count": batch.len() }))?;
        let event =
            Event { at: self.now(), kind: EventType::Pruned, run_id: run.clone(), snapshot_id: None, data };
        let mut moved = false;
        let receipt = self.write(run, &mut |view| {
            moved = view.record.as_ref().is_none_or(|record| record.marks_changed != marks_changed);
            let Some(mut record) = view.record.clone().filter(|_| !moved) else {
                return WriteDecision::NoChange;
            };
            let latest = view.latest.as_ref().map(|latest| &latest.header);
            // What is newest now is so whatever the plan knew.
            let drops = batch.iter().map(|step| step.sequence);
            let drops = drops.filter(|sequence| latest.is_none_or(|latest| *sequence < latest.sequence));
            record.maintenance = Some(MaintenanceState {
                stamp: view.slot.stamp(),
                written: latest.map_or(written, |latest| written.max(latest.stamp)),
            });
            let mut commit = Commit::new(record);
            commit.drops = drops.collect();
            commit.events.push(event.clone());
            WriteDecision::Commit(Box::new(commit))
        })?;
        Ok((!moved).then_some(receipt))
    }

    /// What becomes of each checkpoint of a run.
    fn planned(
        &self,
        record: &RunRecord,
        retention: &Retention,
        dry_run: bool,
    ) -> Result<Vec<PruneStep>, Error> {
        // Whatever lies before the last so many goes by its number alone, unless the record or a mark protects it.
        let by_number = match retention.keep_last {
            KeepCount::Last(n) if !dry_run && !retention.protects_many() => Some(n),
            _ => None,
        };
        let mut entries = self.store.retention_entries(&record.run_id, by_number)?;
        let proven =
            |entries: &[RetentionEntry]| entries.iter().filter(|entry| entry.status.is_some()).count() as u64;
        if by_number.is_some_and(|n| proven(&entries) < n.min(entries.len() as u64)) {
            entries = self.store.retention_entries(&record.run_id, None)?;
        }
        let all_proven = proven(&entries) == entries.len() as u64;
        let facts =
            if all_proven { RunFacts::of_all(&entries) } else { RunFacts::of_record(record, &entries) };
        let plan = retain::plan(&facts, &entries, retention, self.now());
        let old = self.compress_before();
        let step = |(entry, planned): (RetentionEntry, retain::Planned)| {
            let newest = planned.sequence == facts.newest;
            let old = old.filter(|(before, _)| !newest && entry.created_at < *before && !entry.packed);
            let (action, reasons) = match (planned.keep, old) {
                (false, _) => (Action::Remove, planned.reasons),
                (true, Some((_, seconds))) => (Action::Compress, vec![Reason::Compressed(seconds)]),
                (true, None) => (Action::Keep, planned.reasons),
            };
            PruneStep { action, reasons, ..about(&record.run_id, entry) }
        };
        Ok(entries.into_iter().zip(plan).map(step).collect())
    }

    /// The time before which checkpoints are compressed, and the age in seconds, where that is wanted.
    fn compress_before(&self) -> Option<(Timestamp, u64)> {
        let age = self.settings.store_limits.compress_after?;
        Some((self.now().checked_sub(age).unwrap_or(Timestamp::MIN), age.as_secs()))
    }

    fn compress_old(&self, run: Option<&RunId>, report: &mut PruneReport) {
        let Some((before, _)) = self.compress_before() else { return };
        match self.store.maintain(Maintenance::Compress { run, before }) {
            Ok(done) => report.compressed = done.done,
            Err(e) => report.failed.push(PruneFailure { run_id: run.cloned(), error: e.into() }),
        }
    }

    /// Reduces the oldest ended runs to the least that a run keeps, or plans to, until the store is as small as it has to
    /// be.
    fn shrink(&self, cases: &mut [Case], bytes: &mut u64, report: &mut PruneReport) -> Result<(), Error> {
        let most = self.settings.store_limits.max_bytes;
        for case in cases.iter_mut().filter(|case| case.may_go && !case.gone) {
            if *bytes <= most {
                return Ok(());
            }
            let run = &case.row.run_id;
            // One that was written to meanwhile may be open again.
            let now = self.store.run(run)?;
            if now.is_none_or(|now| last_write(&now.row) != last_write(&case.row)) {
                continue;
            }
            let steps = match self.prune_checkpoints(run, Some(&Retention::LEAST), report.dry_run) {
                Ok((steps, failed)) => {
                    let failed =
                        failed.into_iter().map(|error| PruneFailure { run_id: Some(run.clone()), error });
                    report.failed.extend(failed);
                    steps
                }
                Err(error) => {
                    report.failed.push(PruneFailure { run_id: Some(run.clone()), error });
                    continue;
                }
            };
            let goes: HashSet<u64> =
                steps.iter().filter(|step| step.action == Action::Remove).map(|step| step.sequence).collect();
            let mut freed = 0;
            let kept = case.steps.iter_mut().filter(|step| step.action != Action::Remove);
            for step in kept.filter(|step| goes.contains(&step.sequence)) {
                freed += step.bytes;
                step.action = Action::Remove;
                step.reasons = vec![Reason::StoreFull(most)];
            }
            if report.dry_run {
                *bytes = bytes.saturating_sub(freed);
            } else if freed > 0 {
                self.store.maintain(Maintenance::Compact)?;
                *bytes = self.store.info()?.bytes;
            }
        }
        report.too_large = (*bytes > most).then_some(*bytes);
        Ok(())
    }

    /// Where many of the oldest may be protected, a save that looks at a few of them can find none to remove. So every
    /// now and then all are looked at: never more than the policy keeps, and what was saved since.
    pub(super) fn prune_all_of_it(&self, saved: &mut Saved) {
        let protects_many = self.settings.retention(Profile::Run).protects_many();
        if !protects_many || saved.coalesced || !saved.sequence.is_multiple_of(LOOK_AT_ALL_EVERY) {
            return;
        }
        // The checkpoint is saved, whatever comes of this; the next round tries again.
        if let Ok((steps, _)) = self.prune_checkpoints(&saved.run_id, None, false) {
            let gone = steps.into_iter().filter(|step| step.action == Action::Remove);
            saved.pruned.extend(gone.map(|step| step.snapshot_id));
        }
    }
}

/// The stamp of the last write that was part of the work.
pub(super) fn last_write(row: &RunRow) -> u64 {
    let maintenance = row.record.as_ref().ok().and_then(|record| record.maintenance);
    maintenance
        .filter(|maintenance| maintenance.stamp == row.stamp)
        .map_or(row.stamp, |maintenance| maintenance.written)
}
