//! Prune: removes checkpoints that retention no longer keeps, in all runs or in one. Depending on the
//! settings, it also removes runs that ended long ago, compresses old checkpoints, and keeps the store
//! below its size limit. Plans each run, then removes its checkpoints in batches, so that saves can run in
//! between. A pin set after planning is respected, and a failure in one run does not stop the others.

mod oldest;
mod report;

use std::collections::HashSet;

use jiff::Timestamp;

pub(super) use self::oldest::{RunAfterCommit, drop_oldest, may_drop};
pub use self::report::{PruneAction, PruneFailure, PruneOptions, PruneReport, PruneStep};
use self::report::{bytes_freed, step_for};
use super::bookkeeping::event;
use super::start::age_of_work;
use super::{Milepost, Saved};
use crate::Error;
use crate::model::{
    CheckpointId, EventType, KeepCount, MaintenanceState, Profile, Retention, RunId, RunRecord,
};
use crate::owner::Liveness;
use crate::retain::{self, EndedRun, Reason, RunFacts};
use crate::store::{
    Commit, Maintenance, Receipt, RetentionEntry, RunQuery, RunRow, RunView, StoreError, WriteDecision,
};

/// Maximum number of checkpoints removed in one write, so that saves do not wait long.
const BATCH: usize = 1000;
/// Maximum number of plans for one run, if its pins and tags keep changing.
const TRIES: u32 = 50;
/// Number of saves between two prunes of the whole run, if the policy can protect many old checkpoints.
const WHOLE_RUN_EVERY: u64 = 32;
/// Maximum number of ids in a prune event.
const MAX_NAMED_IDS: usize = 16;

/// The plan for a run.
struct RunPlan {
    /// The record, read before the checkpoints: setting a pin later changes its `marks_changed`.
    record: RunRecord,
    /// The stamp of the run's last write.
    stamp: u64,
    /// The stamp of the last write that was not maintenance.
    last_write: u64,
    /// Whether the whole run is removed.
    remove_run: bool,
    /// All checkpoints of the run, if it may be reduced to the minimum that a run keeps.
    reducible: Option<Vec<RetentionEntry>>,
    /// The steps, one per checkpoint.
    steps: Vec<PruneStep>,
}

/// Whether the next operation on the store would probably wait and fail in the same way.
fn is_blocking(e: &Error) -> bool {
    use StoreError::{Busy, Server, Unknown};
    matches!(e, Error::Store(Busy { .. } | Server { .. } | Unknown { .. }))
}

impl Milepost {
    /// Prunes runs. `progress` is called with the number of checkpoints examined so far.
    pub fn prune(&self, request: &PruneOptions, progress: &mut dyn FnMut(u64)) -> Result<PruneReport, Error> {
        let mut rows = self.store.runs(&RunQuery::default())?;
        let newest_write = rows.iter().map(last_write).max();
        let continued = self.continued_runs(&rows)?;
        if let Some(run) = &request.run {
            rows.retain(|row| row.run_id == *run);
            if rows.is_empty() {
                return Err(Error::NoRun(run.to_string()));
            }
        }
        // If the store is too large, the least recently written runs are reduced first. Nothing else
        // depends on the order.
        rows.sort_by_key(last_write);
        let before = self.store.info()?.bytes;
        let pointed = self.pointed_id();
        let mut report = PruneReport { dry_run: request.dry_run, ..PruneReport::default() };
        let mut plans = Vec::new();
        let (mut examined, mut is_blocked) = (0, false);
        for row in rows {
            // An open run needs what was said in the runs that it continues.
            let is_needed = Some(last_write(&row)) == newest_write || continued.contains(&row.run_id);
            let run_id = row.run_id.clone();
            let failed = match self.prune_run(row, is_needed, request.dry_run) {
                Ok(Some((plan, failed))) => {
                    examined += plan.steps.len() as u64;
                    progress(examined);
                    plans.push(plan);
                    failed
                }
                Ok(None) => Vec::new(),
                Err(error) => vec![error],
            };
            // If another process holds the store's lock, or the server does not answer, pruning each remaining run
            // would wait as long again.
            is_blocked = failed.iter().any(is_blocking);
            report.add_failures(&run_id, failed);
            if is_blocked {
                break;
            }
        }
        if !request.dry_run && !is_blocked {
            let collected = self.collect_files_within_limit();
            report.failed.extend(collected.err().map(|error| PruneFailure { run_id: None, error }));
            self.compress_old(request.run.as_ref(), &mut report);
            let compacted = self.store.maintain(Maintenance::Compact);
            report.failed.extend(compacted.err().map(|e| PruneFailure { run_id: None, error: e.into() }));
        }
        let planned = |plans: &[RunPlan]| plans.iter().flat_map(|plan| &plan.steps).map(bytes_freed).sum();
        // Measure the store again only if its size is limited: with many files, this takes a while.
        if request.run.is_none() && self.settings.store_limits.max_bytes > 0 {
            let bytes = if request.dry_run {
                before.saturating_sub(planned(&plans))
            } else {
                self.store.info()?.bytes
            };
            // Files have a limit of their own.
            let mut bytes = bytes.saturating_sub(self.store.blob_bytes()?);
            self.reduce_ended_runs(&mut plans, &mut bytes, &mut report)?;
        }
        report.bytes_freed =
            if request.dry_run { planned(&plans) } else { before.saturating_sub(self.store.info()?.bytes) };
        let removed = plans.iter().filter(|plan| plan.remove_run);
        report.runs_removed = removed.map(|plan| plan.record.run_id.clone()).collect();
        report.plan = plans.into_iter().flat_map(|plan| plan.steps).collect();
        let count = |action| report.plan.iter().filter(|step| step.action == action).count() as u64;
        report.removed = count(PruneAction::Remove);
        report.kept = report.plan.len() as u64 - report.removed;
        #[cfg(feature = "search")]
        if !request.dry_run {
            self.forget_pruned(&report);
        }
        if request.dry_run {
            report.compressed = count(PruneAction::Compress);
        } else if pointed.is_some_and(|id| {
            report.plan.iter().any(|step| step.action == PruneAction::Remove && step.snapshot_id == id)
        }) {
            self.clear_dangling_pointer();
        }
        Ok(report)
    }

    /// Prunes one run, or only plans to. Returns the plan and the errors, or `None` if the run is gone.
    fn prune_run(
        &self,
        mut row: RunRow,
        is_needed: bool,
        dry_run: bool,
    ) -> Result<Option<(RunPlan, Vec<Error>)>, Error> {
        if row.record.is_err() && !dry_run {
            self.rebuild_record(&row.run_id)?;
            let Some(stored) = self.store.run(&row.run_id)? else { return Ok(None) };
            row = stored.row;
        }
        let plan = self.plan_run(row, is_needed, dry_run)?;
        if dry_run { Ok(Some((plan, Vec::new()))) } else { self.execute(plan) }
    }

    /// The runs that open runs continue.
    fn continued_runs(&self, rows: &[RunRow]) -> Result<HashSet<RunId>, Error> {
        let mut continued = HashSet::new();
        // Only runs as a whole are protected, and most stores keep them all.
        let limits = &self.settings.store_limits;
        if limits.ended_after.is_none() && limits.max_bytes == 0 {
            return Ok(continued);
        }
        let is_open = |row: &&RunRow| {
            row.record.as_ref().is_ok_and(|record| record.is_open() && record.parent.is_some())
        };
        for row in rows.iter().filter(is_open) {
            continued.extend(self.chain(&row.run_id)?.into_iter().skip(1));
        }
        Ok(continued)
    }

    /// Plans the pruning of a run. A needed run is neither removed nor reduced: no other run in the store was
    /// written later, or an open run continues it.
    fn plan_run(&self, row: RunRow, is_needed: bool, dry_run: bool) -> Result<RunPlan, Error> {
        let (stamp, last_write, age) = (row.stamp, last_write(&row), age_of_work(&row));
        let record = match row.record {
            Ok(record) => *record,
            Err(_) => self.record_from_checkpoints(&row.run_id)?,
        };
        let retention = self.settings.retention(record.profile);
        let mut plan =
            RunPlan { record, stamp, last_write, remove_run: false, reducible: None, steps: Vec::new() };
        let record = &plan.record;
        // Only an ended run may be removed or reduced, and that decision needs all its checkpoints.
        let ended = !record.is_open() && !is_needed;
        let entries = self.entries_to_plan(&record.run_id, &retention, dry_run || ended)?;
        if ended {
            let candidate = EndedRun {
                record,
                retention: &retention,
                last_written: is_needed,
                owner_alive: self.liveness(record, age) == Some(Liveness::Alive),
                protected: entries.iter().any(|entry| entry.pinned || entry.tagged),
            };
            let limit = self.settings.store_limits.ended_after;
            if let Some(limit) = limit.filter(|limit| candidate.has_expired(*limit, self.now())) {
                let reasons = || vec![Reason::RunEnded(limit.as_secs())];
                let removal =
                    |entry| PruneStep { reasons: reasons(), ..step_for(record, entry, PruneAction::Remove) };
                plan.steps = entries.iter().map(removal).collect();
                plan.remove_run = true;
                return Ok(plan);
            }
            let reducible = candidate.is_removable();
            plan.steps = self.plan_checkpoints(record, &entries, &retention);
            plan.reducible = reducible.then_some(entries);
            return Ok(plan);
        }
        plan.steps = self.plan_checkpoints(record, &entries, &retention);
        Ok(plan)
    }

    /// The checkpoints of a run that its plan needs. If retention keeps the last N, older checkpoints are
    /// removed by their sequence number alone, unless the record or a mark protects them. Then only the
    /// newest N have to be verified.
    fn entries_to_plan(
        &self,
        run: &RunId,
        retention: &Retention,
        all: bool,
    ) -> Result<Vec<RetentionEntry>, Error> {
        let newest = match retention.keep_last {
            KeepCount::Last(n) if !all && !retention.protects_many() => Some(n),
            _ => None,
        };
        let entries = self.store.retention_entries(run, newest)?;
        // If some of the newest are damaged, the last N cannot be determined from sequence numbers.
        let too_few = |n: u64| count_verified(&entries) < n.min(entries.len() as u64);
        if newest.is_some_and(too_few) {
            return Ok(self.store.retention_entries(run, None)?);
        }
        Ok(entries)
    }

    /// Plans what happens to each checkpoint of a run.
    fn plan_checkpoints(
        &self,
        record: &RunRecord,
        entries: &[RetentionEntry],
        retention: &Retention,
    ) -> Vec<PruneStep> {
        let verified = count_verified(entries) == entries.len() as u64;
        let facts =
            if verified { RunFacts::from_entries(entries) } else { RunFacts::from_record(record, entries) };
        let plan = retain::plan(&facts, entries, retention, self.now());
        let old = self.compress_before();
        let step = |(entry, decision): (&RetentionEntry, retain::RetentionDecision)| {
            let newest = decision.sequence == facts.newest;
            let old = old.filter(|(before, _)| !newest && entry.created_at < *before && !entry.packed);
            let (action, reasons) = match (decision.keep, old) {
                (false, _) => (PruneAction::Remove, decision.reasons),
                (true, Some((_, seconds))) => (PruneAction::Compress, vec![Reason::Compressed(seconds)]),
                (true, None) => (PruneAction::Keep, decision.reasons),
            };
            PruneStep { reasons, ..step_for(record, entry, action) }
        };
        entries.iter().zip(plan).map(step).collect()
    }

    /// Executes a plan, and plans again if pins or tags have changed since. Returns the executed plan and
    /// the errors.
    fn execute(&self, mut plan: RunPlan) -> Result<Option<(RunPlan, Vec<Error>)>, Error> {
        let run = plan.record.run_id.clone();
        if plan.remove_run {
            if self.store.delete_run(&run, Some(plan.stamp))? {
                return Ok(Some((plan, Vec::new())));
            }
            // Another process has written to the run in the meantime.
            let Some(stored) = self.store.run(&run)? else { return Ok(None) };
            plan = self.plan_run(stored.row, true, false)?;
        }
        let (mut removed, mut failed) = (Vec::new(), Vec::new());
        for _ in 0..TRIES {
            let steps = std::mem::take(&mut plan.steps);
            let unchanged = |record: &RunRecord| record.marks_changed == plan.record.marks_changed;
            let (done, staying) = self.remove_planned(steps, plan.last_write, unchanged, &mut failed);
            removed.extend(done);
            if let Some(staying) = staying {
                removed.extend(staying);
                removed.sort_by_key(|step| step.sequence);
                plan.steps = removed;
                return Ok(Some((plan, failed)));
            }
            let Some(stored) = self.store.run(&run)? else {
                plan.steps = removed;
                return Ok(Some((plan, failed)));
            };
            plan = self.plan_run(stored.row, true, false)?;
        }
        Err(StoreError::MarksMoved(run, 0).into())
    }

    /// Removes the planned checkpoints in batches. Returns the removed steps and the kept ones. The kept
    /// ones are `None` if the record is no longer `unchanged` and a new plan is needed.
    fn remove_planned(
        &self,
        steps: Vec<PruneStep>,
        last_write: u64,
        unchanged: impl Fn(&RunRecord) -> bool,
        failed: &mut Vec<Error>,
    ) -> (Vec<PruneStep>, Option<Vec<PruneStep>>) {
        let (going, mut staying): (Vec<_>, Vec<_>) =
            steps.into_iter().partition(|step| step.action == PruneAction::Remove);
        let stays = |step: PruneStep| PruneStep {
            action: PruneAction::Keep,
            reasons: vec![Reason::NotRemoved],
            ..step
        };
        let mut removed = Vec::new();
        let mut going = going.into_iter();
        loop {
            let batch: Vec<_> = going.by_ref().take(BATCH).collect();
            let Some(first) = batch.first() else { return (removed, Some(staying)) };
            match self.remove_batch(&first.run_id, &batch, last_write, &unchanged) {
                Ok(Some(receipt)) => {
                    removed.extend(batch);
                    let left = receipt.left.into_iter();
                    failed.extend(left.map(|(path, why)| Error::file(&path, "removed")(why.into())));
                }
                Ok(None) => return (removed, None),
                Err(e) => {
                    failed.push(e);
                    staying.extend(batch.into_iter().chain(going).map(stays));
                    return (removed, Some(staying));
                }
            }
        }
    }

    /// Removes checkpoints in one write; returns `None` if the record is no longer `unchanged`.
    fn remove_batch(
        &self,
        run: &RunId,
        batch: &[PruneStep],
        last_write: u64,
        unchanged: impl Fn(&RunRecord) -> bool,
    ) -> Result<Option<Receipt>, Error> {
        let named: Vec<_> = batch.iter().take(MAX_NAMED_IDS).map(|step| &step.snapshot_id).collect();
        let data = serde_json::json!({ "removed": named, "count": batch.len() });
        let pruned = event(run, self.now(), EventType::Pruned, None, &data);
        let mut moved = false;
        let receipt = self.write(run, &mut |view| {
            moved = !view.record.as_ref().is_some_and(&unchanged);
            let Some(mut record) = view.record.clone().filter(|_| !moved) else {
                return WriteDecision::NoChange;
            };
            let protected = protected_now(view, &record);
            let latest = view.latest.as_ref().map(|latest| latest.header.stamp);
            record.maintenance = Some(MaintenanceState {
                stamp: view.slot.stamp(),
                written: latest.map_or(last_write, |latest| last_write.max(latest)),
            });
            let mut commit = Commit::new(record);
            let drops = batch.iter().map(|step| step.sequence);
            commit.drops = drops.filter(|sequence| !protected.contains(sequence)).collect();
            commit.events.push(pruned.clone());
            WriteDecision::Commit(Box::new(commit))
        })?;
        Ok((!moved).then_some(receipt))
    }

    /// The time before which checkpoints are compressed, and the corresponding age in seconds; `None` if
    /// compression is off.
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

    /// Reduces ended runs to the minimum that every run keeps, one by one, until the store is within its size
    /// limit. A dry run only plans this.
    fn reduce_ended_runs(
        &self,
        plans: &mut [RunPlan],
        bytes: &mut u64,
        report: &mut PruneReport,
    ) -> Result<(), Error> {
        let max_bytes = self.settings.store_limits.max_bytes;
        for plan in plans {
            let Some(entries) = plan.reducible.take() else { continue };
            if *bytes <= max_bytes {
                return Ok(());
            }
            let gone: HashSet<u64> = removed_sequences(&plan.steps).collect();
            let left: Vec<_> = entries.into_iter().filter(|entry| !gone.contains(&entry.sequence)).collect();
            let steps = self.plan_checkpoints(&plan.record, &left, &Retention::LEAST);
            let removed: HashSet<u64> = if report.dry_run {
                removed_sequences(&steps).collect()
            } else {
                // A run that was written to in the meantime may be open again.
                let (marks_changed, updated_at) = (plan.record.marks_changed, plan.record.updated_at);
                let unchanged = |record: &RunRecord| {
                    !record.is_open()
                        && record.marks_changed == marks_changed
                        && record.updated_at == updated_at
                };
                let mut failed = Vec::new();
                let (done, _) = self.remove_planned(steps, plan.last_write, unchanged, &mut failed);
                report.add_failures(&plan.record.run_id, failed);
                removed_sequences(&done).collect()
            };
            let mut freed = 0;
            for step in plan.steps.iter_mut().filter(|step| removed.contains(&step.sequence)) {
                freed += step.bytes;
                step.action = PruneAction::Remove;
                step.reasons = vec![Reason::StoreFull(max_bytes)];
            }
            if report.dry_run {
                *bytes = bytes.saturating_sub(freed);
            } else if freed > 0 {
                self.store.maintain(Maintenance::Compact)?;
                *bytes = self.store.info()?.bytes;
            }
        }
        report.too_large = (*bytes > max_bytes).then_some(*bytes);
        Ok(())
    }

    /// Prunes the whole run every `WHOLE_RUN_EVERY` checkpoints, if the policy can protect many old ones. A
    /// save examines only a few of the oldest, and all of those may be protected.
    pub(super) fn prune_whole_run_sometimes(&self, saved: &mut Saved) {
        if !saved.coalesced {
            let removed = self.prune_whole_run_after(&saved.run_id, saved.sequence - 1, saved.sequence);
            saved.pruned.extend(removed);
        }
    }

    /// The same for a run whose newest checkpoint was number `before` and is now number `newest`. Returns the ids of
    /// the checkpoints that were removed.
    pub(super) fn prune_whole_run_after(&self, run: &RunId, before: u64, newest: u64) -> Vec<CheckpointId> {
        let protects_many = self.settings.retention(Profile::Run).protects_many();
        if !protects_many || before / WHOLE_RUN_EVERY == newest / WHOLE_RUN_EVERY {
            return Vec::new();
        }
        // The checkpoint is already saved, so errors are ignored. The next round tries again.
        let Ok(Some(stored)) = self.store.run(run) else { return Vec::new() };
        let Ok(Some((plan, _))) = self.prune_run(stored.row, true, false) else { return Vec::new() };
        let removed = plan.steps.into_iter().filter(|step| step.action == PruneAction::Remove);
        removed.map(|step| step.snapshot_id).collect()
    }
}

/// Number of entries whose header was verified against its checksum.
fn count_verified(entries: &[RetentionEntry]) -> u64 {
    entries.iter().filter(|entry| entry.status.is_some()).count() as u64
}

fn removed_sequences(steps: &[PruneStep]) -> impl Iterator<Item = u64> {
    steps.iter().filter(|step| step.action == PruneAction::Remove).map(|step| step.sequence)
}

/// Checkpoints that are kept even if an outdated plan removes them: the newest, and the latest of each
/// protected kind.
fn protected_now(view: &RunView, record: &RunRecord) -> [u64; 5] {
    [
        view.latest.as_ref().map_or(0, |latest| latest.header.sequence),
        record.latest_failed,
        record.latest_completed,
        record.latest_state,
        record.captures.latest,
    ]
}

/// The stamp of the run's last write that was not maintenance.
pub(super) fn last_write(row: &RunRow) -> u64 {
    let maintenance = row.record.as_ref().ok().and_then(|record| record.maintenance);
    maintenance
        .filter(|maintenance| maintenance.stamp == row.stamp)
        .map_or(row.stamp, |maintenance| maintenance.written)
}
