//! What is sent of a run, and the commits that write it to the server. Takes what was read from the local store.
//! Documents stay unchanged, except in a run that is separated from the server's: there they are sealed again.

use super::super::transfer::validation_error;
use crate::Error;
use crate::model::{BlobId, Event, Item, Marks, Message, RunRecord, SyncState};
use crate::seal::{self, Sealed, Unsealed, Verified};
use crate::store::{CheckpointEntry, Commit, Slot};

/// A run as it is sent.
pub(super) struct Outgoing {
    pub(super) record: RunRecord,
    /// The stamp of the last write that is sent.
    pub(super) stamp: u64,
    pub(super) items: Vec<Item>,
    pub(super) checkpoints: Vec<(CheckpointEntry, Verified)>,
    pub(super) messages: Vec<Message>,
    pub(super) events: Vec<Event>,
    /// The cursor of the last event.
    pub(super) last_event: Option<String>,
}

impl Outgoing {
    /// Whether nothing happened in the run since it was last sent.
    pub(super) fn is_empty(&self) -> bool {
        self.checkpoints.is_empty() && self.messages.is_empty() && self.items.is_empty()
    }
}

/// One commit of a transfer.
pub(super) struct BatchCommit<'a> {
    pub(super) outgoing: &'a Outgoing,
    pub(super) record: &'a RunRecord,
    pub(super) batch: &'a [(CheckpointEntry, Verified)],
    pub(super) messages: &'a [Message],
    pub(super) is_last: bool,
    pub(super) blobs: &'a [BlobId],
}

impl BatchCommit<'_> {
    pub(super) fn build(
        &self,
        before: Option<&RunRecord>,
        slot: &Slot,
        items_there: usize,
        next: &SyncState,
    ) -> Result<Commit, Error> {
        let mut record = self.record.clone();
        record.sync = Some(next.clone());
        if let Some(before) = before {
            record.updated_at = record.updated_at.max(before.updated_at);
            record.marks_changed = record.marks_changed.max(before.marks_changed);
            record.completed_through = record.completed_through.max(before.completed_through);
            record.maintenance = before.maintenance;
        }
        let mut commit = Commit::new(record);
        let mut slot = slot.clone();
        for (entry, document) in self.batch {
            let sequence = entry.header.sequence;
            let conflict = || Error::Conflict { reference: format!("{}@{sequence}", self.record.run_id) };
            let at = slot.at_sequence(sequence).ok_or_else(conflict)?;
            commit.puts.push(self.sealed(document, &at)?);
            if entry.marks != Marks::default() {
                commit.marks.push((sequence, entry.marks.clone()));
            }
            slot = at.next();
        }
        commit.messages = self.messages.to_vec();
        commit.blobs = self.blobs.to_vec();
        if self.is_last {
            commit.consume = items_there;
            commit.push.clone_from(&self.outgoing.items);
            let run_id = &self.record.run_id;
            let events = self.outgoing.events.iter().cloned();
            commit.events = events.map(|event| Event { run_id: run_id.clone(), ..event }).collect();
        }
        Ok(commit)
    }

    /// The document unchanged, or sealed again if it moves to another run. Its id stays.
    fn sealed(&self, document: &Verified, slot: &Slot) -> Result<Sealed, Error> {
        if self.outgoing.record.run_id == self.record.run_id {
            return document.clone().into_sealed(slot).map_err(|e| validation_error(&e).into());
        }
        let mut body = document.body().map_err(|e| validation_error(&e))?;
        body.run_id.clone_from(&self.record.run_id);
        let has_state = body.state.is_some();
        Ok(seal::seal(Unsealed::new(body, has_state)?, slot)?)
    }
}
