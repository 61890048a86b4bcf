//! The `Store` trait for storing checkpoints, and its two embedded implementations.
//! A write takes a pure decision about one run and applies it in one transaction. It is durable on return.
//! A store receives headers and sealed bytes. It never re-serialises a body and contains no policy.

pub(crate) mod attachment;
mod blob;
pub(crate) mod blob_codec;
mod blob_folder;
pub(crate) mod check;
mod commit;
mod commit_token;
mod error;
mod event_cursor;
pub(crate) mod files;
#[cfg(feature = "sqlite")]
pub(crate) mod frame;
pub(crate) mod identity;
mod lock;
mod maintenance;
mod opener;
mod options;
pub(crate) mod project_id;
pub(crate) mod project_paths;
pub(crate) mod query;
mod reader;
mod repository;
mod server_info;
#[cfg(feature = "sqlite")]
pub(crate) mod sqlite;
pub(crate) mod synced;
mod url;

use std::time::Duration;

pub use crate::seal::{Header, SealError, Sealed};
pub use crate::trust::UserState;
pub use attachment::{ATTACHED_PER_COMMIT, MAX_ATTACHED_VALUE};
pub use blob::{BlobEntry, CollectReport, FindLiveBlobs, LiveBlobs};
pub(crate) use check::DamageKind;
pub use check::{Damage, Part};
pub use commit::{
    Commit, CommitLookup, Decide, MESSAGES_PER_COMMIT, Receipt, RunDetails, RunView, Slot, WriteDecision,
};
pub use commit_token::CommittedWrite;
pub use error::{ServerProblem, StoreError};
pub use event_cursor::EventCursor;
pub use identity::{ForeignReason, StoreTrust, check_trust};
pub use maintenance::{Maintenance, MaintenanceReport, Problem, ProblemKind, StoreInfo};
pub use opener::{LocalLayout, StoreOpener, register};
pub use options::OpenOptions;
use query::arrange;
pub use query::{
    CheckpointEntry, CheckpointFilter, Cursor, EventPage, EventQuery, HeaderQuery, RetentionEntry, Row,
    RunQuery, RunRow, StoredRun, ThreadFilter,
};
pub use reader::StoreReader;
pub(crate) use repository::Repository;
pub use server_info::{ServerInfo, TableInfo};
pub use synced::{SyncOptions, SyncedStore};
pub use url::StoreUrl;

use crate::model::{Attachment, BlobId, Message, RunId, WriteToken};

/// Default time that a writer waits for the lock.
pub const DEFAULT_WAIT: Duration = Duration::from_secs(10);

/// Number of unprotected headers in `RunDetails::oldest`. Retention can keep up to five of them (the first,
/// and the latest failed, completed, with a state and with a workspace), so the sixth can always make room
/// for a new checkpoint.
pub const OLDEST_SHOWN: usize = 6;

/// The rule that a decision breaks if it returns `NeedDetails` although the view has the details.
#[cfg_attr(feature = "internal", visibility::make(pub))]
const DETAILS_WERE_SHOWN: &str = "the decision requested details that it already has";

/// Why acknowledged writes can be missing, for messages.
pub(crate) const LOSS_CAUSES: &str =
    "the write-ahead log was damaged, or the database was replaced by an older copy";

/// Maximum number of events that a run keeps.
pub const EVENTS_KEPT: u64 = 1000;

/// Maximum size of a blob in bytes.
pub const BLOB_LIMIT: u64 = 64 << 20;

/// Stores checkpoints. Blocking and object-safe; every method is either durable or read-only.
///
/// Every implementation must follow these rules, which the conformance suite checks:
/// - `write` passes the decision a consistent view and applies the result in one transaction.
/// - Sequences increase within a run and stamps within the store, even if the clock goes backwards.
/// - Damage to one row is reported for that row; all other rows stay usable.
pub trait Store: Send + Sync {
    /// Calls `decide` with a view of one run and applies the result. Creates the run if it does not exist.
    /// If `decide` returns `NeedDetails`, it is called again with the details, in the same transaction.
    /// Requesting details that the view already has fails with `StoreError::Rules`.
    fn write(&self, run: &RunId, decide: &mut Decide<'_>) -> Result<Receipt, StoreError>;

    /// Like `write`, but first stores blobs that the commit refers to. A store may do both in one transaction.
    fn write_with_blobs(
        &self,
        run: &RunId,
        contents: &[&[u8]],
        decide: &mut Decide<'_>,
    ) -> Result<Receipt, StoreError> {
        if !contents.is_empty() {
            self.put_blobs(contents)?;
        }
        self.write(run, decide)
    }

    /// Looks up the commit with this token, to find out whether a commit was applied whose reply was lost.
    /// Returns `None` if it was not applied. A commit is found at least as long as the run's record lists it
    /// among the recent ones; a store may keep tokens for longer. Only commits of this run are found.
    fn find_commit(&self, run: &RunId, token: &WriteToken) -> Result<Option<CommittedWrite>, StoreError> {
        let record = self.run(run)?.and_then(|stored| stored.row.record.ok());
        Ok(record.and_then(|record| record.find_commit(token)))
    }

    /// Reads one run.
    fn run(&self, run: &RunId) -> Result<Option<StoredRun>, StoreError>;

    /// Lists runs, newest write first. `RunRow::age` is the time since that write by the store's clock, if the
    /// store has one.
    fn runs(&self, query: &RunQuery<'_>) -> Result<Vec<RunRow>, StoreError>;

    /// Lists headers with their marks, without bodies.
    fn headers(&self, query: &HeaderQuery<'_>) -> Result<Vec<Row>, StoreError>;

    /// Reads one sealed document. The caller verifies the seal.
    fn body(&self, run: &RunId, sequence: u64) -> Result<Vec<u8>, StoreError>;

    /// Lists events, each with its cursor. The order of cursors is known to the store only. A cursor whose event
    /// was removed still works, and so does the cursor of a run that was deleted since.
    fn events(&self, query: &EventQuery<'_>) -> Result<EventPage, StoreError>;

    /// Lists the messages of a run, oldest first. A damaged message is reported in its place. Returns an empty
    /// list for a run that does not exist.
    fn messages(&self, run: &RunId) -> Result<Vec<Result<Message, Damage>>, StoreError>;

    /// Lists the attachments of one checkpoint, or of all checkpoints of a run if `checkpoint` is missing. They
    /// are sorted by checkpoint, task path, task id and index. A damaged attachment is reported, after all intact
    /// ones; if its key is damaged, only the list of the whole run reports it. Returns an empty list for a run
    /// that does not exist.
    ///
    /// Attachments are removed with their run, by the commit that drops the checkpoint with their id, and by one that
    /// names their checkpoint in `Commit::detach`. A commit removes attachments before it adds others.
    fn attachments(
        &self,
        run: &RunId,
        checkpoint: Option<&str>,
    ) -> Result<Vec<Result<Attachment, Damage>>, StoreError>;

    /// Lists the fields that retention needs, for all intact checkpoints of a run, oldest first. With
    /// `newest`, only that many of the newest headers have to be verified: retention does not depend on what
    /// older ones contain.
    fn retention_entries(&self, run: &RunId, newest: Option<u64>) -> Result<Vec<RetentionEntry>, StoreError>;

    /// Stores blobs. Skips those that already exist, and duplicates. A blob whose content was evicted is stored
    /// again. A blob is durable once a commit that refers to it is acknowledged. A content larger than
    /// `BLOB_LIMIT` fails with `StoreError::Rules`, and nothing is stored.
    fn put_blobs(&self, contents: &[&[u8]]) -> Result<(), StoreError>;

    /// The blobs among `ids` whose content the store does not have, because it was never stored, was removed
    /// or was evicted. Does not read contents.
    fn missing_blobs(&self, ids: &[BlobId]) -> Result<Vec<BlobId>, StoreError>;

    /// Reads the content of a blob and verifies it against the id. Fails with `StoreError::NoBlob` if the store
    /// does not have the content, and with `StoreError::Damaged` if it does not match the id.
    fn blob(&self, id: &BlobId) -> Result<Vec<u8>, StoreError>;

    /// Reads the contents of several blobs, in the order of `ids`, as `blob` does.
    fn blob_contents(&self, ids: &[BlobId]) -> Result<Vec<Vec<u8>>, StoreError> {
        ids.iter().map(|id| self.blob(id)).collect()
    }

    /// Lists blobs in the order of their ids, those after `after` only; a limit of 0 means no limit. Includes
    /// blobs whose content was evicted.
    fn blobs(&self, after: Option<&BlobId>, limit: usize) -> Result<Vec<BlobEntry>, StoreError>;

    /// Number of bytes that the store uses for the contents of all blobs: the sum over `blobs`. Does not read
    /// the contents.
    fn blob_bytes(&self) -> Result<u64, StoreError>;

    /// Lists the named roots, sorted by name. A blob that a root names is in use, even if no checkpoint refers
    /// to it. A damaged root is an error, because the collector would otherwise remove its blob.
    fn blob_roots(&self) -> Result<Vec<(String, BlobId)>, StoreError>;

    /// Removes the contents of all blobs that `find_live` does not keep. Decides and removes under the
    /// writers' lock, so that it never removes a blob of a commit that succeeds. A commit that refers to a
    /// removed blob is refused; its writer stores the blob again and retries. If `find_live` fails, nothing is
    /// removed.
    fn collect_blobs(&self, find_live: &mut FindLiveBlobs<'_>) -> Result<CollectReport, StoreError>;

    /// Removes a run and everything in it, or nothing. Returns false if the run does not exist, or if
    /// `only_at` is not the stamp of its last write.
    fn delete_run(&self, run: &RunId, only_at: Option<u64>) -> Result<bool, StoreError>;

    /// Runs a maintenance operation.
    fn maintain(&self, what: Maintenance<'_>) -> Result<MaintenanceReport, StoreError>;

    /// Number of acknowledged writes that are missing and that `Maintenance::Repair` has not handled yet.
    /// Always 0 for stores that cannot detect them.
    fn lost_writes(&self) -> Result<u64, StoreError> {
        Ok(0)
    }

    /// The user as which this store is used, as its server authenticated it. `None` if the store has no server.
    fn current_user(&self) -> Result<Option<String>, StoreError> {
        Ok(None)
    }

    /// Returns the store's address, size and warning.
    fn info(&self) -> Result<StoreInfo, StoreError>;

    /// Like `info`, and with everything that a store's server says about itself, which takes longer.
    fn detailed_info(&self) -> Result<StoreInfo, StoreError> {
        self.info()
    }
}
