//! Rebuild: recreates a damaged run record from the run's checkpoints and events. Title, owner and
//! location, which only the record contains, are lost.

use super::Milepost;
use super::bookkeeping::{enter_past_session, event, update_latest};
use crate::Error;
use crate::model::{EventType, Profile, RunId, RunRecord, Status, WorkingState};
use crate::store::{CheckpointEntry, Commit, WriteDecision};

/// The data of a session-start event that a rebuild needs.
#[derive(serde::Deserialize)]
struct SessionStart {
    profile: Profile,
}

impl Milepost {
    /// Rebuilds a run's record if it is damaged.
    pub(super) fn rebuild_record(&self, run: &RunId) -> Result<(), Error> {
        let record = self.record_from_checkpoints(run)?;
        let rebuilt = event(run, self.now(), EventType::RunRebuilt, None, &serde_json::json!({}));
        self.store.write(run, &mut |view| {
            // Another writer has already rebuilt it.
            if view.record.is_some() {
                return WriteDecision::NoChange;
            }
            let mut commit = Commit::new(record.clone());
            commit.events.push(rebuilt.clone());
            WriteDecision::Commit(Box::new(commit))
        })?;
        Ok(())
    }

    pub(super) fn record_from_checkpoints(&self, run: &RunId) -> Result<RunRecord, Error> {
        let now = self.now();
        // Start with a profile that keeps everything, until an event names the right one, so that nothing
        // is removed by mistake.
        let mut record = RunRecord::new(run.clone(), Profile::Brief, now);
        for entry in self.entries(run) {
            self.add_entry(&mut record, &entry?);
        }
        match self.newest_intact(Some(run), |_| true) {
            Ok(newest) => {
                if let Ok(body) = newest.verified.body() {
                    record.status = body.status;
                    record.working = WorkingState::from(body);
                }
            }
            // No document is readable, so the headers are the only source.
            Err(Error::Damaged(_) | Error::NotFound { .. }) => {}
            Err(e) => return Err(e),
        }
        for event in self.events_of(run)? {
            if event.kind == EventType::CheckpointCompleted
                && let Some(through) = event.snapshot_id.as_ref().and_then(|id| self.sequence_of(id, run))
            {
                record.completed_through = record.completed_through.max(through);
            }
            if event.kind == EventType::SessionStarted
                && let Ok(start) = serde_json::from_str::<SessionStart>(event.data.get())
            {
                record.profile = start.profile;
            }
        }
        Ok(record)
    }

    fn add_entry(&self, record: &mut RunRecord, entry: &CheckpointEntry) {
        let header = &entry.header;
        update_latest(record, header);
        if header.status == Status::Completed {
            record.completed_through = header.sequence;
        }
        record.started_at = record.started_at.min(header.created_at);
        record.updated_at = header.created_at;
        record.heartbeat = Some(header.created_at);
        enter_past_session(record, &header.session_id, header.created_at, header.elapsed_ms);
        if let Some(session) = &mut record.session {
            session.checkpoints += 1;
        }
    }
}
