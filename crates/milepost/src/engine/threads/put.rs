//! Saves a checkpoint of a thread: adds the blobs of its values and the checkpoint in one durable commit.

use std::sync::Arc;

use jiff::{RoundMode, TimestampRound, Unit};
use serde_json::json;

use super::{Threads, context, encoding_error};
use crate::Error;
use crate::engine::bookkeeping::{enter_session, event, is_committed, open_record, record_checkpoint};
use crate::engine::compose::{self, CheckpointContext};
use crate::engine::{Milepost, RunOptions};
use crate::model::{
    BlobId, CheckpointId, ClockReading, Draft, EventType, Profile, RawJson, RunId, RunRecord, Source, Status,
    ThreadPosition, WriteToken,
};
use crate::seal::{self, Unsealed};
use crate::store::{Commit, CommittedWrite, RunView, StoreError, WriteDecision};
use crate::threads::{self, EncodedValues, NewThreadCheckpoint};

/// Number of attempts if a collection removes values that are about to be used.
const TRIES: u32 = 100;
/// With a limit on the number of checkpoints, every so many saves remove the surplus.
const PRUNE_EVERY: u64 = 32;

/// A checkpoint to add.
pub(super) struct PreparedCheckpoint {
    pub(super) position: ThreadPosition,
    /// The table of its values.
    pub(super) values: RawJson,
    /// The blobs that the table refers to.
    pub(super) chunks: Vec<BlobId>,
    pub(super) summary: Option<String>,
}

impl Threads {
    /// Saves a checkpoint. It is durable when this returns. It replaces an earlier one with the same id in the same
    /// namespace, which is no longer listed and is removed by `prune`.
    pub fn put(&self, checkpoint: &NewThreadCheckpoint) -> Result<(), Error> {
        let run = Self::run_of(&checkpoint.thread)?;
        let mut tries = 0;
        let (sequence, encoded) = loop {
            tries += 1;
            let encoded = self.encode(&run, checkpoint)?;
            match self.put_encoded(&run, checkpoint, &encoded) {
                // A collection removed values that were cached.
                Err(Error::Store(StoreError::BlobsMissing(_))) if tries < TRIES => {
                    self.cache().clear();
                    self.newest().clear();
                }
                added => break (added?, encoded),
            }
        };
        let mut cache = self.cache();
        for (id, chunk) in encoded.chunks {
            match chunk {
                Some(chunk) if cache.get(&id).is_none() => cache.put(id, Arc::from(chunk)),
                _ => {}
            }
        }
        drop(cache);
        let mut newest = self.newest();
        for (name, split) in encoded.split {
            newest.put((run.clone(), checkpoint.namespace.clone(), name), split);
        }
        drop(newest);
        if let Some(keep) = self.keep_newest.filter(|_| sequence % PRUNE_EVERY == 0) {
            // The checkpoint is saved. If the surplus cannot be removed now, a later save does it.
            let _ = self.prune(&checkpoint.thread, keep);
        }
        Ok(())
    }

    /// Encodes the values of a checkpoint. Splits only what differs from the newest version of each value.
    fn encode(&self, run: &RunId, checkpoint: &NewThreadCheckpoint) -> Result<EncodedValues, Error> {
        let bound = context(run, &checkpoint.namespace, &checkpoint.id);
        let earlier =
            |name: &str| self.newest().get(&(run.clone(), checkpoint.namespace.clone(), name.to_owned()));
        threads::encode(checkpoint, self.key(), &bound, &earlier).map_err(encoding_error)
    }

    /// Adds a checkpoint and those of its chunks that the store may lack. Returns its sequence number.
    fn put_encoded(
        &self,
        run: &RunId,
        checkpoint: &NewThreadCheckpoint,
        encoded: &EncodedValues,
    ) -> Result<u64, Error> {
        let position = ThreadPosition {
            chunks: encoded.chunks.len() as u64,
            invocation: checkpoint.invocation.clone(),
            parent: checkpoint.parent.clone(),
            ..ThreadPosition::new(&checkpoint.namespace, &checkpoint.id)
        };
        let prepared = PreparedCheckpoint {
            position,
            values: encoded.table.clone(),
            chunks: encoded.chunks.iter().map(|(id, _)| *id).collect(),
            summary: checkpoint.summary.clone(),
        };
        // A chunk in the cache is in the store, unless a collection removed it since.
        let cache = self.cache();
        let unknown = encoded.chunks.iter().filter(|(id, _)| !cache.contains(id));
        let new: Vec<&[u8]> = unknown.filter_map(|(_, chunk)| chunk.as_deref()).collect();
        drop(cache);
        self.add(run, &checkpoint.thread, std::slice::from_ref(&prepared), &new)
    }

    /// Adds checkpoints, and blobs that the store does not have, in one commit. Returns the sequence number of the last
    /// checkpoint.
    pub(super) fn add(
        &self,
        run: &RunId,
        thread: &str,
        new: &[PreparedCheckpoint],
        blobs: &[&[u8]],
    ) -> Result<u64, Error> {
        let moment = self.mp.read_clock();
        // Documents store milliseconds, rounded down like those in the id.
        let down = TimestampRound::new().smallest(Unit::Millisecond).mode(RoundMode::Trunc);
        let moment = ClockReading { at: moment.at.round(down).unwrap_or(moment.at), ..moment };
        let ids: Vec<_> = new.iter().map(|_| CheckpointId::generate(moment.at)).collect();
        let request = AddRequest {
            mp: &self.mp,
            run,
            run_options: &self.mp.redact(self.run_options(thread), "run_options")?,
            moment,
            token: WriteToken::generate(),
            new: new.iter().zip(ids).collect(),
        };
        let mut result = Ok(0);
        self.mp.write_with_blobs(run, blobs, &mut |view| match request.plan(view) {
            Ok(Planned::Commit(commit, sequence)) => {
                result = Ok(sequence);
                WriteDecision::Commit(commit)
            }
            Ok(Planned::Done(sequence)) => {
                result = Ok(sequence);
                WriteDecision::NoChange
            }
            Ok(Planned::NeedDetails) => WriteDecision::NeedDetails,
            Err(e) => {
                result = Err(e);
                WriteDecision::NoChange
            }
        })?;
        result
    }
}

/// What a decision needs in addition to the view of the run.
struct AddRequest<'a> {
    mp: &'a Milepost,
    run: &'a RunId,
    run_options: &'a RunOptions,
    moment: ClockReading,
    token: WriteToken,
    new: Vec<(&'a PreparedCheckpoint, CheckpointId)>,
}

/// A decision, with the sequence number of the last checkpoint.
enum Planned {
    Commit(Box<Commit>, u64),
    /// An earlier try was committed.
    Done(u64),
    NeedDetails,
}

impl AddRequest<'_> {
    fn plan(&self, view: &RunView) -> Result<Planned, Error> {
        let now = self.moment.at;
        let mut events = Vec::new();
        if view.record.as_ref().is_some_and(|record| record.profile != Profile::Thread) {
            return Err(Error::NoThread { run: self.run.clone() });
        }
        // Items that someone recorded in the run become part of the checkpoint.
        let items = match &view.details {
            None if view.waiting > 0 => return Ok(Planned::NeedDetails),
            details => details.as_ref().map(|details| &details.items[..]).unwrap_or_default(),
        };
        let mut record = open_record(view, self.run, self.run_options, &self.mp.settings, now, &mut events);
        if is_committed(&record, &self.token) {
            let sequence = record.find_commit(&self.token).map_or(0, |commit| commit.sequence());
            return Ok(Planned::Done(sequence));
        }
        let mut commit = Commit::new(record.clone());
        commit.consume = items.len();
        commit.generated_ids = true;
        let mut slot = view.slot.clone();
        let mut parent = view.latest.as_ref().map(|latest| latest.header.snapshot_id.clone());
        let mut waiting = items;
        for (new, id) in &self.new {
            enter_session(&mut record, new.position.invocation.as_deref(), &self.moment, &mut events);
            let body = self.body(&mut record, waiting, new, id, parent.take())?;
            waiting = &[];
            let sealed = seal::seal(Unsealed::new(body, false)?, &slot)?;
            record_checkpoint(&mut record, sealed.header(), now);
            let data = json!({ "sequence": slot.sequence(), "source": Source::StepBoundary, "status": Status::InProgress });
            events.push(event(self.run, now, EventType::CheckpointCreated, Some(id), &data));
            parent = Some(id.clone());
            commit.puts.push(sealed);
            commit.blobs.extend(&new.chunks);
            slot = slot.next();
        }
        commit.blobs.sort_unstable();
        commit.blobs.dedup();
        record.updated_at = now;
        record.heartbeat = Some(now);
        commit.record = record;
        commit.events = events;
        let sequence = slot.sequence() - 1;
        commit.set_token(&self.token, CommittedWrite::new(sequence, false));
        Ok(Planned::Commit(Box::new(commit), sequence))
    }

    fn body(
        &self,
        record: &mut RunRecord,
        items: &[crate::model::Item],
        new: &PreparedCheckpoint,
        id: &CheckpointId,
        parent: Option<CheckpointId>,
    ) -> Result<crate::model::Body, Error> {
        let session = record.session.as_ref();
        let session_id = session.map_or_else(String::new, |session| session.id.clone());
        let draft = Draft {
            source: Some(Source::StepBoundary),
            task_summary: new.summary.clone(),
            ..Draft::default()
        };
        let context = CheckpointContext {
            id,
            created_at: self.moment.at,
            elapsed_ms: session.map_or(0, |session| session.elapsed_ms),
            status: Status::InProgress,
            session_id: &session_id,
            parent,
        };
        let mut body = compose::compose(record, items, &draft, context)?;
        body.thread = Some(new.position.clone());
        body.values = Some(new.values.clone());
        Ok(body)
    }
}
