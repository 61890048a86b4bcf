//! Read-only access to a store for callers of the library.
//! Callers cannot write through it, so every document passes redaction before it is stored.

use super::{
    BlobEntry, CommittedWrite, Damage, EventPage, EventQuery, HeaderQuery, Row, RunQuery, RunRow, Store,
    StoreError, StoreInfo, StoredRun,
};
use crate::model::{Attachment, BlobId, Message, RunId, WriteToken};

/// Reads a store. Each method does the same as the method of [`Store`] with that name.
#[derive(Clone, Copy)]
pub struct StoreReader<'a>(pub(crate) &'a dyn Store);

impl StoreReader<'_> {
    /// Reads one run.
    pub fn run(&self, run: &RunId) -> Result<Option<StoredRun>, StoreError> {
        self.0.run(run)
    }

    /// Lists runs, newest write first.
    pub fn runs(&self, query: &RunQuery<'_>) -> Result<Vec<RunRow>, StoreError> {
        self.0.runs(query)
    }

    /// Looks up the commit with this token.
    pub fn find_commit(&self, run: &RunId, token: &WriteToken) -> Result<Option<CommittedWrite>, StoreError> {
        self.0.find_commit(run, token)
    }

    /// Lists headers with their marks.
    pub fn headers(&self, query: &HeaderQuery<'_>) -> Result<Vec<Row>, StoreError> {
        self.0.headers(query)
    }

    /// Reads one sealed document without verifying its seal.
    pub fn body(&self, run: &RunId, sequence: u64) -> Result<Vec<u8>, StoreError> {
        self.0.body(run, sequence)
    }

    /// Lists events.
    pub fn events(&self, query: &EventQuery<'_>) -> Result<EventPage, StoreError> {
        self.0.events(query)
    }

    /// Lists the messages of a run, oldest first.
    pub fn messages(&self, run: &RunId) -> Result<Vec<Result<Message, Damage>>, StoreError> {
        self.0.messages(run)
    }

    /// The blobs among `ids` whose content the store does not have.
    pub fn missing_blobs(&self, ids: &[BlobId]) -> Result<Vec<BlobId>, StoreError> {
        self.0.missing_blobs(ids)
    }

    /// Reads the content of a blob and verifies it against the id.
    pub fn blob(&self, id: &BlobId) -> Result<Vec<u8>, StoreError> {
        self.0.blob(id)
    }

    /// Lists blobs in the order of their ids.
    pub fn blobs(&self, after: Option<&BlobId>, limit: usize) -> Result<Vec<BlobEntry>, StoreError> {
        self.0.blobs(after, limit)
    }

    /// Number of bytes that the store uses for the contents of all blobs.
    pub fn blob_bytes(&self) -> Result<u64, StoreError> {
        self.0.blob_bytes()
    }

    /// Lists the named roots, sorted by name.
    pub fn blob_roots(&self) -> Result<Vec<(String, BlobId)>, StoreError> {
        self.0.blob_roots()
    }

    /// Lists the attachments of one checkpoint, or of all checkpoints of a run.
    pub fn attachments(
        &self,
        run: &RunId,
        checkpoint: Option<&str>,
    ) -> Result<Vec<Result<Attachment, Damage>>, StoreError> {
        self.0.attachments(run, checkpoint)
    }

    /// The user as which the store is used, as its server authenticated it.
    pub fn current_user(&self) -> Result<Option<String>, StoreError> {
        self.0.current_user()
    }

    /// Returns the store's address, size and warning.
    pub fn info(&self) -> Result<StoreInfo, StoreError> {
        self.0.info()
    }

    /// Like `info`, and with everything that a store's server says about itself, which takes longer.
    pub fn detailed_info(&self) -> Result<StoreInfo, StoreError> {
        self.0.detailed_info()
    }
}
