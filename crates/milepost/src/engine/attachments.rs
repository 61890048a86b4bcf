//! Copies the attachments of a run, and the blobs that contain their values, to another store. Takes what was
//! read from a store or a bundle. Attachments that the other store already has are not written again.

use std::collections::HashSet;

use super::Milepost;
use crate::Error;
use crate::model::{Attachment, BlobId, RunId};
use crate::store::attachment::batches;
use crate::store::{Commit, StoreError, WriteDecision};

impl Milepost {
    /// The readable attachments of a run, sorted.
    pub(super) fn attachments_of(&self, run: &RunId) -> Result<Vec<Attachment>, Error> {
        Ok(self.store.attachments(run, None)?.into_iter().filter_map(Result::ok).collect())
    }

    /// The contents of the blobs that these attachments refer to. Skips blobs whose content is missing or
    /// damaged.
    pub(super) fn attached_blobs(&self, attachments: &[Attachment]) -> Result<Vec<Vec<u8>>, Error> {
        let ids: HashSet<_> = attachments.iter().filter_map(Attachment::blob).collect();
        let read = ids.into_iter().filter_map(|id| self.blob_if_readable(id).transpose());
        Ok(read.collect::<Result<_, _>>()?)
    }

    fn blob_if_readable(&self, id: &BlobId) -> Result<Option<Vec<u8>>, StoreError> {
        match self.store.blob(id) {
            Ok(content) => Ok(Some(content)),
            Err(StoreError::NoBlob(_) | StoreError::Damaged(_)) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Copies the attachments of a run to another store, with their blobs. The run must exist there. Returns the
    /// number of attachments whose blob cannot be read.
    pub(super) fn copy_attachments_to(&self, to: &Milepost, run: &RunId) -> Result<u64, Error> {
        let attachments = self.attachments_of(run)?;
        let wanted: Vec<BlobId> = attachments.iter().filter_map(|one| one.blob().copied()).collect();
        if !wanted.is_empty() {
            // One at a time, because blobs can be large.
            for id in to.store.missing_blobs(&wanted)? {
                if let Some(content) = self.blob_if_readable(&id)? {
                    to.store.put_blobs(&[&content])?;
                }
            }
        }
        to.add_attachments(run, attachments)
    }

    /// Adds the attachments that the run in this store does not have yet. The run must exist. Returns the number
    /// of attachments that were skipped because this store does not have their blob.
    pub(super) fn add_attachments(&self, run: &RunId, attachments: Vec<Attachment>) -> Result<u64, Error> {
        let known = self.attachments_of(run)?;
        let mut new = attachments;
        new.retain(|attachment| !known.contains(attachment));
        let wanted: Vec<BlobId> = new.iter().filter_map(|one| one.blob().copied()).collect();
        let mut skipped = 0;
        if !wanted.is_empty() {
            let missing: HashSet<_> = self.store.missing_blobs(&wanted)?.into_iter().collect();
            let before = new.len();
            new.retain(|one| one.blob().is_none_or(|id| !missing.contains(id)));
            skipped = (before - new.len()) as u64;
        }
        for batch in batches(&new) {
            self.write(run, &mut |view| {
                let Some(record) = &view.record else { return WriteDecision::NoChange };
                let mut commit = Commit::new(record.clone());
                commit.attachments = batch.to_vec();
                commit.blobs = batch.iter().filter_map(|one| one.blob().copied()).collect();
                WriteDecision::Commit(Box::new(commit))
            })?;
        }
        Ok(skipped)
    }
}
