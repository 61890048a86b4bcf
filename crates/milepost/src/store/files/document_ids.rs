//! The ids of all documents in the store, so that an import does not look for each of its ids in the folders of all
//! runs. Kept for the lifetime of the store handle, and read again after another process has written.
//! Finds the folders that contain an id; whether it is a checkpoint of that run is for the caller to check.

use std::collections::HashMap;
use std::sync::{MutexGuard, PoisonError};

use super::FilesStore;
use crate::model::{CheckpointId, RunId};
use crate::seal::Header;
use crate::store::StoreError;

/// The ids of all documents, with the runs in whose folders they are.
#[derive(Debug, Default)]
pub(super) struct DocumentIds {
    /// The last stamp of the store when this was complete; `None` if it was not read yet.
    stamp: Option<u64>,
    runs: HashMap<CheckpointId, Vec<RunId>>,
}

impl DocumentIds {
    /// Adds the documents of a commit. If others were written since this was complete, forgets all ids.
    pub(super) fn note(&mut self, first_stamp: u64, last_stamp: u64, puts: &[Header]) {
        if self.stamp.is_none_or(|stamp| stamp + 1 != first_stamp) {
            *self = Self::default();
            return;
        }
        self.stamp = Some(last_stamp);
        for header in puts {
            self.add(&header.snapshot_id, &header.run_id);
        }
    }

    fn add(&mut self, id: &CheckpointId, run: &RunId) {
        self.runs.entry(id.clone()).or_default().push(run.clone());
    }
}

impl FilesStore {
    pub(super) fn ids_of_documents(&self) -> MutexGuard<'_, DocumentIds> {
        self.documents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The runs in whose folders a document with this id is or was. `last_stamp` is the last stamp of the store. The
    /// caller must hold the lock.
    pub(super) fn runs_with_document(
        &self,
        id: &CheckpointId,
        last_stamp: u64,
    ) -> Result<Vec<RunId>, StoreError> {
        let mut documents = self.ids_of_documents();
        if documents.stamp != Some(last_stamp) {
            *documents = DocumentIds { stamp: Some(last_stamp), ..DocumentIds::default() };
            for run in self.run_ids()? {
                for id in self.history(&run).ids() {
                    documents.add(&id, &run);
                }
            }
        }
        Ok(documents.runs.get(id).cloned().unwrap_or_default())
    }
}
