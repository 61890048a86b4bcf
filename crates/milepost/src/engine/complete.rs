//! Complete: marks a checkpoint and the earlier ones of its run as completed. Completing the newest ends
//! the run.

use super::Milepost;
use super::bookkeeping::{event, is_committed};
use super::list::is_completed;
use crate::Error;
use crate::model::{CheckpointId, EventType, Status, WriteToken};
use crate::store::{CheckpointEntry, Commit, CommittedWrite, Row, StoreError, WriteDecision};

impl Milepost {
    /// Completes a checkpoint and the earlier ones of its run. Returns the ids of those that were not
    /// completed before. If several callers complete the same checkpoint at the same time, only one of them
    /// gets the ids.
    pub fn complete(&self, entry: &CheckpointEntry) -> Result<Vec<CheckpointId>, Error> {
        let mut entry = entry.clone();
        loop {
            match self.complete_as_seen(&entry) {
                // The marks changed in the meantime: read them again and retry.
                Err(Error::Store(StoreError::MarksMoved(..))) => {}
                done => return done,
            }
            let now = self.row_at(&entry.header.run_id, entry.header.sequence)?.and_then(Row::intact);
            entry = now.ok_or_else(|| Error::NotFound { reference: entry.header.snapshot_id.to_string() })?;
        }
    }

    fn complete_as_seen(&self, entry: &CheckpointEntry) -> Result<Vec<CheckpointId>, Error> {
        let run = &entry.header.run_id;
        let sequence = entry.header.sequence;
        let seen = self.incomplete_through(entry)?;
        let mut completed = Vec::new();
        let now = self.now();
        let token = WriteToken::generate();
        let mut ended = false;
        let mut gone = false;
        self.write(run, &mut |view| {
            let Some(mut record) = view.record.clone() else {
                gone = true;
                return WriteDecision::NoChange;
            };
            ended = view.latest.as_ref().is_some_and(|latest| latest.header.sequence == sequence);
            // The reply to this call's own commit was lost. `completed` is already set.
            if is_committed(&record, &token) {
                return WriteDecision::NoChange;
            }
            // Other processes may have completed some of them since they were read.
            let open = seen.iter().filter(|e| !is_completed(Some(&record), e));
            completed = open.map(|e| e.header.snapshot_id.clone()).collect();
            if completed.is_empty() && (!ended || record.status == Status::Completed) {
                return WriteDecision::NoChange;
            }
            let data = serde_json::json!({ "completed": completed.len() });
            let event = |kind| event(run, now, kind, Some(&entry.header.snapshot_id), &data);
            let mut events = vec![event(EventType::CheckpointCompleted)];
            record.completed_through = record.completed_through.max(sequence);
            record.updated_at = now;
            if ended && record.status != Status::Completed {
                record.status = Status::Completed;
                record.ended_at = Some(now);
                events.push(event(EventType::RunFinished));
            }
            let mut commit = Commit::new(record);
            commit.set_token(&token, CommittedWrite::new(sequence, false));
            commit.events = events;
            // The flag that an import set on the checkpoint would otherwise override the run's.
            if entry.marks.completed == Some(false) {
                let mut marks = entry.marks.clone();
                marks.completed = Some(true);
                marks.revision = marks.revision.saturating_add(1);
                commit.marks.push((sequence, marks));
            }
            WriteDecision::Commit(Box::new(commit))
        })?;
        if gone {
            return Err(Error::NoRun(run.to_string()));
        }
        if ended {
            self.clear_pointer_to_run(run);
        }
        Ok(completed)
    }

    /// Checkpoints up to and including `entry` that are not completed, oldest first.
    fn incomplete_through(&self, entry: &CheckpointEntry) -> Result<Vec<CheckpointEntry>, Error> {
        let run = &entry.header.run_id;
        let record = self.record_of(run)?;
        let mut found = Vec::new();
        for earlier in self.entries(run) {
            let earlier = earlier?;
            if earlier.header.sequence > entry.header.sequence {
                break;
            }
            if !is_completed(record.as_deref(), &earlier) {
                found.push(earlier);
            }
        }
        Ok(found)
    }
}
