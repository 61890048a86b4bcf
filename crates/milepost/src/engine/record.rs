//! Record: adds items to a run, durably. The items stay pending until the next checkpoint includes them;
//! the number of pending items is limited to `MAX_PENDING`.

use std::borrow::Cow;

use super::bookkeeping::{commit_with_token, enter_session, is_committed, open_record};
use super::compose::OUTCOMES;
use super::request::redact_changes;
use super::snapshot::include_snapshot;
use super::{Due, Milepost, RunOptions, change};
use crate::Error;
use crate::capture::TakenSnapshot;
use crate::clock::elapsed_ms;
use crate::model::{BlobId, Change, Item, RunId, RunRecord, Status, TaskStatus, WriteToken};
use crate::redact::Redaction;
use crate::store::{StoreError, WriteDecision};

/// Maximum number of pending items. Beyond it, all but the newest outcomes are folded into the record, so
/// that the cost of a write does not grow with the number of items.
const MAX_PENDING: u64 = 2 * OUTCOMES as u64;

impl Milepost {
    /// Adds items to a run, and opens the run if it does not exist.
    #[cfg_attr(feature = "internal", visibility::make(pub))]
    pub(crate) fn record(&self, run: &RunId, items: &[Item], run_options: &RunOptions) -> Result<(), Error> {
        let changes: Vec<_> = items.iter().cloned().map(Change::Item).collect();
        self.record_changes(run, &changes, run_options, None).map(|_| ())
    }

    /// Records changes of any kind, with the snapshot of the files taken after them, if there is one. Returns
    /// whether a timer save of the run is due.
    #[cfg_attr(feature = "internal", visibility::make(pub))]
    pub(crate) fn record_changes(
        &self,
        run: &RunId,
        changes: &[Change],
        run_options: &RunOptions,
        snapshot: Option<&TakenSnapshot>,
    ) -> Result<Due, Error> {
        let (changes, run_options) = self.redacted(run, changes, run_options)?;
        match self.record_once(run, &changes, &run_options, snapshot) {
            // A collection removed the contents before the commit. The changes matter more.
            Err(Error::Store(StoreError::BlobsMissing(_))) => {
                snapshot.inspect(|taken| taken.forget());
                let mut changes = changes.into_owned();
                changes.retain(|change| !matches!(change, Change::Item(Item::RestorePoint(_))));
                for change in &mut changes {
                    if let Change::Item(Item::File(file)) = change {
                        file.blob = None;
                    }
                }
                self.record_once(run, &changes, &run_options, None)
            }
            recorded => recorded,
        }
    }

    /// Adds a snapshot of the files to a run. Unlike a recorded change, it is no sign of life of the run.
    #[cfg_attr(feature = "internal", visibility::make(pub))]
    pub(crate) fn keep_snapshot(&self, run: &RunId, taken: &TakenSnapshot) -> Result<(), Error> {
        let token = WriteToken::generate();
        let kept = self.write(run, &mut |view| {
            let record = view.record.as_ref().filter(|record| !is_committed(record, &token));
            let Some(record) = record else { return WriteDecision::NoChange };
            let mut commit = commit_with_token(record.clone(), &token);
            include_snapshot(&mut commit, taken);
            WriteDecision::Commit(Box::new(commit))
        });
        match kept {
            // A collection removed the contents before the commit. The next snapshot stores them again.
            Err(Error::Store(StoreError::BlobsMissing(_))) => taken.forget(),
            kept => drop(kept?),
        }
        Ok(())
    }

    fn record_once(
        &self,
        run: &RunId,
        changes: &[Change],
        run_options: &RunOptions,
        snapshot: Option<&TakenSnapshot>,
    ) -> Result<Due, Error> {
        let moment = self.read_clock();
        let token = WriteToken::generate();
        let mut refused = None;
        let mut due = Due::First;
        self.write(run, &mut |view| {
            refused = None;
            let mut events = Vec::new();
            let mut record = open_record(view, run, run_options, &self.settings, moment.at, &mut events);
            if view.count > 0 {
                due = Due::of(view.latest.as_ref(), record.profile, moment.at);
            }
            if is_committed(&record, &token) {
                return WriteDecision::NoChange;
            }
            let full = view.waiting + changes.len() as u64 > MAX_PENDING;
            let needs_items = full || changes.iter().any(change::needs_pending_items);
            if needs_items && view.details.is_none() {
                return WriteDecision::NeedDetails;
            }
            let mut items = view.details.as_ref().map(|details| details.items.clone()).unwrap_or_default();
            let known = items.len();
            let limits = &self.settings.limits;
            let messages = match change::resolve(changes, &record, &mut items, moment.at, limits) {
                Ok(messages) => messages,
                Err(e) => {
                    refused = Some(e);
                    return WriteDecision::NoChange;
                }
            };
            enter_session(&mut record, None, &moment, &mut events);
            if let Some(session) = &mut record.session {
                session.elapsed_ms = elapsed_ms(&session.started, &moment).max(session.elapsed_ms);
            }
            record.updated_at = moment.at;
            record.heartbeat = Some(moment.at);
            record.interruption = None;
            record.working.note_messages(&messages);
            // A branch that an agent creates or switches to is the run's own.
            if run_options.agent.is_some() && run_options.location.branch.is_some() {
                record.branch.clone_from(&run_options.location.branch);
            }
            if record.status == Status::Completed && changes.iter().any(begins_task) {
                record.reopen();
            }
            let (consume, push) = if full {
                (known, fold_into_record(&mut record, items))
            } else {
                (0, items.split_off(known))
            };
            let mut commit = commit_with_token(record, &token);
            commit.consume = consume;
            commit.blobs = changes.iter().filter_map(written_blob).collect();
            if let Some(taken) = snapshot {
                include_snapshot(&mut commit, taken);
            }
            commit.push = push;
            commit.messages = messages;
            commit.events = events;
            WriteDecision::Commit(Box::new(commit))
        })?;
        refused.map_or(Ok(due), Err)
    }
}

impl Milepost {
    /// The changes and the run options, redacted if the settings enable redaction.
    fn redacted<'a>(
        &self,
        run: &RunId,
        changes: &'a [Change],
        run_options: &'a RunOptions,
    ) -> Result<(Cow<'a, [Change]>, Cow<'a, RunOptions>), Error> {
        if self.settings.redaction == Redaction::Off {
            return Ok((Cow::Borrowed(changes), Cow::Borrowed(run_options)));
        }
        let allow = &self.settings.redaction_allow;
        super::check_run_name(run, allow)?;
        let mut changes = changes.to_vec();
        redact_changes(&mut changes, allow)?;
        let (run_options, _) = allow.redact_value(run_options.clone(), "run_options")?;
        Ok((Cow::Owned(changes), Cow::Owned(run_options)))
    }
}

/// The stored content of a file that a tool wrote.
fn written_blob(change: &Change) -> Option<BlobId> {
    match change {
        Change::Item(Item::File(file)) => file.blob,
        _ => None,
    }
}

/// Whether a change begins a task. The work of a run is then no longer completed.
fn begins_task(change: &Change) -> bool {
    matches!(change, Change::Task(task) if task.status == TaskStatus::InProgress)
}

/// Folds items into the record. Returns the newest outcomes, which a record cannot contain.
fn fold_into_record(record: &mut RunRecord, items: Vec<Item>) -> Vec<Item> {
    let mut outcomes = Vec::new();
    for item in items {
        record.working.apply(item, &mut outcomes);
    }
    let surplus = outcomes.len().saturating_sub(OUTCOMES);
    record.working.outcomes_dropped += surplus as u64;
    outcomes.drain(..surplus);
    outcomes.into_iter().map(Item::Outcome).collect()
}
