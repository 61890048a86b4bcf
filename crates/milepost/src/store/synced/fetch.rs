//! Copies a run from the server to the store on this machine, so that it can be written there: its record, its
//! pending items, its messages and its newest checkpoints. A run that waits to be sent is not replaced.

use super::{SyncedStore, is_waiting, record_digest};
use crate::model::{Marks, RunId, SyncState};
use crate::seal;
use crate::store::{Commit, HeaderQuery, MESSAGES_PER_COMMIT, Row, StoreError, WriteDecision};

/// Number of checkpoints that are copied. The newest is enough to continue the run.
const NEWEST: usize = 2;

impl SyncedStore {
    /// Copies a run from the server, if it exists there and has changed since it was last copied or sent.
    pub(crate) fn fetch(&self, run: &RunId) -> Result<(), StoreError> {
        let Some(there) = self.try_server(|server| server.run(run))?.flatten() else { return Ok(()) };
        let Ok(record) = &there.row.record else { return Ok(()) };
        let Some(local) = self.local_or_new()? else { return Ok(()) };
        let mut here = local.run(run)?;
        if let Some(found) = &here {
            let known = found.row.record.as_ref().ok().and_then(|record| record.sync.as_ref());
            let is_current = known.is_some_and(|known| known.digest == record_digest(record));
            if is_waiting(&found.row) || is_current {
                return Ok(());
            }
            // What is here was sent as another run, so the two have no checkpoints in common.
            if known.is_some_and(|known| known.run.is_some()) {
                if !local.delete_run(run, Some(found.row.stamp))? {
                    return Ok(());
                }
                here = None;
            }
        }
        let newest_here = here.and_then(|here| here.row.latest).map_or(0, |row| row.cursor().sequence);
        let mut documents = Vec::new();
        let query = HeaderQuery::default().run(run).limit(NEWEST);
        for row in self.server().headers(&query)?.into_iter().rev() {
            let Row::Intact(entry) = row else { continue };
            if entry.header.sequence > newest_here {
                let bytes = self.server().body(run, entry.header.sequence)?;
                documents.extend(seal::verify(bytes).ok().map(|document| (entry, document)));
            }
        }
        let last = there.row.latest.as_ref().map_or(0, |row| row.cursor().sequence);
        let messages: Vec<_> = self.server().messages(run)?.into_iter().filter_map(Result::ok).collect();
        let known = local.messages(run)?.len();
        let new_messages = messages.get(known..).unwrap_or_default();
        for batch in new_messages.chunks(MESSAGES_PER_COMMIT) {
            local.write(run, &mut |view| {
                let mut commit = Commit::new(view.record.clone().unwrap_or_else(|| (**record).clone()));
                commit.messages = batch.to_vec();
                WriteDecision::Commit(Box::new(commit))
            })?;
        }
        local.write(run, &mut |view| {
            let Some(details) = &view.details else { return WriteDecision::NeedDetails };
            let mut commit = Commit::new((**record).clone());
            commit.consume = details.items.len();
            commit.push.clone_from(&there.items);
            let mut slot = view.slot.clone();
            for (entry, document) in &documents {
                let Some(at) = slot.at_sequence(entry.header.sequence) else { continue };
                let Ok(sealed) = document.clone().into_sealed(&at) else { continue };
                commit.puts.push(sealed);
                if entry.marks != Marks::default() {
                    commit.marks.push((entry.header.sequence, entry.marks.clone()));
                }
                slot = at.next();
            }
            commit.record.sync = Some(SyncState {
                stamp: commit.puts.last().map_or(view.slot.stamp(), |put| put.header().stamp()),
                sequence: last,
                digest: record_digest(record),
                messages: messages.len() as u64,
                ..SyncState::default()
            });
            WriteDecision::Commit(Box::new(commit))
        })?;
        Ok(())
    }
}
