//! Complete: a checkpoint and the earlier ones of its run are done; completing the newest ends the run.

use super::Milepost;
use super::bookkeeping::remember_commit;
use super::list::is_completed;
use crate::Error;
use crate::model::{CheckpointId, Event, EventType, RawJson, Status, WriteToken};
use crate::store::{
    CheckpointEntry, CheckpointFilter, Commit, Cursor, HeaderQuery, Row, StoreError, WriteDecision,
};

impl Milepost {
    /// Completes a checkpoint and the earlier ones of its run, and gives the ids of those that were not yet. Of several
    /// who complete it at the same time, one is given the ids; for the others there is nothing left.
    pub fn complete(&self, entry: &CheckpointEntry) -> Result<Vec<CheckpointId>, Error> {
        let run = &entry.header.run_id;
        let query = HeaderQuery::default().run(run).find(CheckpointFilter::Sequence(entry.header.sequence));
        let mut entry = entry.clone();
        loop {
            match self.complete_as_seen(&entry) {
                // Somebody changed its marks meanwhile: what is there now decides.
                Err(Error::Store(StoreError::MarksMoved(..))) => {}
                done => return done,
            }
            let now = self.store.headers(&query)?.into_iter().find_map(Row::intact);
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
            // A commit of this call whose reply was lost: what it completed is known.
            if record.recent.iter().any(|r| r.token == token) {
                return WriteDecision::NoChange;
            }
            // Others may have completed some of them since they were looked at.
            let open = seen.iter().filter(|e| !is_completed(Some(&record), e));
            completed = open.map(|e| e.header.snapshot_id.clone()).collect();
            if completed.is_empty() && (!ended || record.status == Status::Completed) {
                return WriteDecision::NoChange;
            }
            let event = |kind| Event {
                at: now,
                kind,
                run_id: run.clone(),
                snapshot_id: Some(entry.header.snapshot_id.clone()),
                data: RawJson::of(&serde_json::json!({ "completed": completed.len() })).unwrap_or_default(),
            };
            let mut events = vec![event(EventType::CheckpointCompleted)];
            record.completed_through = record.completed_through.max(sequence);
            record.updated_at = now;
            if ended && record.status != Status::Completed {
                record.status = Status::Completed;
                record.ended_at = Some(now);
                events.push(event(EventType::RunFinished));
            }
            remember_commit(&mut record, &token, sequence, false);
            let mut commit = Commit::new(record);
            commit.events = events;
            // An import's own flag would otherwise outvote the run's.
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
        const PAGE: usize = 512;
        let run = &entry.header.run_id;
        let record = self.store.run(run)?.and_then(|state| state.row.record.ok());
        let mut found = Vec::new();
        let mut after = Some(Cursor { sequence: entry.header.sequence.saturating_add(1), stamp: u64::MAX });
        loop {
            let query = HeaderQuery::default().run(run).after(after).limit(PAGE);
            let rows = self.store.headers(&query)?;
            let last_page = rows.len() < PAGE;
            after = rows.last().map(Row::cursor);
            let good = rows.into_iter().filter_map(Row::intact);
            found.extend(good.filter(|e| !is_completed(record.as_deref(), e)));
            if last_page {
                found.reverse();
                return Ok(found);
            }
        }
    }
}
