//! One write to a run: the view passed to a decision, the commit it returns, and the rules for commits.
//! `Commit::validate` is the only place that checks these rules. Every store calls it before it writes.
//! Nothing here touches a file.

use std::collections::{BTreeSet, HashSet};
use std::path::PathBuf;

use derive_getters::Getters;

use super::{CheckpointEntry, StoreError};
use crate::model::{
    Attachment, BlobId, CheckpointId, Event, Item, Marks, Message, NAMESPACE_LIMIT, RunId, RunRecord,
    THREAD_ID_LIMIT, WriteToken,
};
use crate::seal::Sealed;

/// Maximum number of messages that one commit may add. Longer lists are copied in several commits.
pub const MESSAGES_PER_COMMIT: usize = 200;

/// The position of a new checkpoint: its sequence number in the run and its stamp in the store. Issued by
/// stores.
#[derive(Getters, Debug, Clone, PartialEq, Eq)]
pub struct Slot {
    /// The checkpoint's sequence number within its run.
    sequence: u64,
    /// The checkpoint's position among all writes of the store.
    stamp: u64,
}

impl Slot {
    /// Issues a slot. For implementers of `Store`, inside a write.
    pub fn issue(sequence: u64, stamp: u64) -> Self {
        Self { sequence, stamp }
    }

    /// The slot after this one, for a decision that adds several checkpoints.
    #[must_use]
    pub fn next(&self) -> Self {
        Self { sequence: self.sequence + 1, stamp: self.stamp + 1 }
    }

    /// This slot with a later sequence number, for copies and imports; `None` if that number is lower
    /// than this slot's.
    #[must_use]
    pub fn at_sequence(&self, sequence: u64) -> Option<Self> {
        (sequence >= self.sequence).then_some(Self { sequence, stamp: self.stamp })
    }
}

/// The input of a decision about a run. The same view always leads to the same decision: a decision reads no
/// clock and touches no file.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RunView {
    /// The run's record; `None` for a new run, or if the record is damaged.
    pub record: Option<RunRecord>,
    /// The slot for the next checkpoint.
    pub slot: Slot,
    /// Number of checkpoints.
    pub count: u64,
    /// The newest checkpoint; also `None` if its row is damaged.
    pub latest: Option<CheckpointEntry>,
    /// Upper bound for the number of pending items, unreadable ones included.
    pub waiting: u64,
    /// Details that cost more to read. If `None`, `WriteDecision::NeedDetails` requests them.
    pub details: Option<RunDetails>,
}

impl RunView {
    /// The view of a run that does not exist yet. Its details are present and empty.
    pub fn of_new_run(slot: Slot) -> Self {
        let details = Some(RunDetails::default());
        Self { record: None, slot, count: 0, latest: None, waiting: 0, details }
    }
}

/// The part of a view that a decision can request.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct RunDetails {
    /// The oldest checkpoints, oldest first and without gaps, up to and including the `OLDEST_SHOWN`-th
    /// that no mark protects. The list ends before the first damaged row.
    pub oldest: Vec<CheckpointEntry>,
    /// The pending items, oldest first.
    pub items: Vec<Item>,
}

/// The changes that a store makes to a run in one transaction.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Commit {
    /// Checkpoints to add, in increasing slots from `RunView::slot` on.
    pub puts: Vec<Sealed>,
    /// Whether all their ids were generated for this commit, so that no other checkpoint can have one of them. A store
    /// need not look for such an id.
    pub(crate) generated_ids: bool,
    /// Marks to set, by sequence number, including those of checkpoints in `puts`. Marks whose revision is
    /// not above the stored one are refused with `StoreError::MarksMoved`, so that concurrent writers cannot
    /// overwrite each other's marks.
    pub marks: Vec<(u64, Marks)>,
    /// Sequences of checkpoints to remove.
    pub drops: Vec<u64>,
    /// The run's new record.
    pub record: RunRecord,
    /// Pending items to add.
    pub push: Vec<Item>,
    /// Number of items to remove from the front of `RunDetails::items`.
    pub consume: usize,
    /// Messages to add to the run's list. At most `MESSAGES_PER_COMMIT`.
    pub messages: Vec<Message>,
    /// Attachments to add, in order, after `drops` are applied. At most `ATTACHED_PER_COMMIT` bytes.
    pub attachments: Vec<Attachment>,
    /// Removes all attachments of the checkpoints with these names, before `attachments` are added.
    pub detach: Vec<String>,
    /// Events to add.
    pub events: Vec<Event>,
    /// Blobs that the commit refers to. If the store does not have one of them, the commit is refused with
    /// `StoreError::BlobsMissing`.
    pub blobs: Vec<BlobId>,
    /// Named roots to set. A root keeps its blob from being collected. If the store does not have the blob,
    /// the commit is refused with `StoreError::BlobsMissing`.
    pub roots: Vec<(String, BlobId)>,
    /// Names that must not exist in the store yet as an id, a tag or an imported id. If one does, the
    /// commit is refused with `StoreError::Named`.
    pub new_names: Vec<String>,
    /// The token by which the commit can be looked up. Set by `Commit::set_token`.
    pub(super) token: Option<WriteToken>,
}

/// The queries that `Commit::validate` needs, inside the transaction that writes the commit.
pub trait CommitLookup {
    /// The revision of a checkpoint's stored marks; `None` if it has none.
    fn marks_revision(&self, sequence: u64) -> Result<Option<u64>, StoreError>;

    /// The first of these ids that a checkpoint of any run already has.
    fn find_taken_id(&self, ids: &[&CheckpointId]) -> Result<Option<CheckpointId>, StoreError>;

    /// Whether a checkpoint of any run has this name as its id, a tag or an imported id.
    fn is_name_taken(&self, name: &str) -> Result<bool, StoreError>;

    /// The blobs among `ids` whose content the store does not have.
    fn find_missing_blobs(&self, ids: &[BlobId]) -> Result<Vec<BlobId>, StoreError>;
}

impl Commit {
    /// A commit that only replaces the record.
    pub fn new(record: RunRecord) -> Self {
        Self {
            puts: Vec::new(),
            marks: Vec::new(),
            drops: Vec::new(),
            record,
            push: Vec::new(),
            consume: 0,
            messages: Vec::new(),
            attachments: Vec::new(),
            detach: Vec::new(),
            events: Vec::new(),
            blobs: Vec::new(),
            roots: Vec::new(),
            new_names: Vec::new(),
            generated_ids: false,
            token: None,
        }
    }

    /// Checks all rules for a commit to `run` that is based on `view`. A store calls it before it writes.
    pub fn validate(&self, run: &RunId, view: &RunView, stored: &dyn CommitLookup) -> Result<(), StoreError> {
        if self.record.run_id != *run {
            return Err(StoreError::Rules("the record belongs to another run"));
        }
        self.validate_slots(run, view)?;
        if self.consume > view.details.as_ref().map_or(0, |details| details.items.len()) {
            return Err(StoreError::Rules("the commit consumes more items than exist"));
        }
        if self.messages.len() > MESSAGES_PER_COMMIT {
            return Err(StoreError::Rules("the commit adds too many messages at once"));
        }
        self.validate_attachments()?;
        self.validate_threads()?;
        for (sequence, marks) in &self.marks {
            if stored.marks_revision(*sequence)?.is_some_and(|revision| marks.revision <= revision) {
                return Err(StoreError::MarksMoved(run.clone(), *sequence));
            }
        }
        let ids: Vec<_> = self.puts.iter().map(|put| &put.header().snapshot_id).collect();
        if ids.iter().collect::<HashSet<_>>().len() < ids.len() {
            return Err(StoreError::Rules("the commit contains the same checkpoint twice"));
        }
        if !ids.is_empty()
            && let Some(id) = stored.find_taken_id(&ids)?
        {
            return Err(StoreError::Exists(id));
        }
        for name in &self.new_names {
            if stored.is_name_taken(name)? {
                return Err(StoreError::Named(name.clone()));
            }
        }
        self.validate_blobs(stored)
    }

    /// Checks that the store has the content of all blobs that the commit refers to.
    fn validate_blobs(&self, stored: &dyn CommitLookup) -> Result<(), StoreError> {
        let of_roots = self.roots.iter().map(|(_, blob)| blob);
        let blobs: BTreeSet<BlobId> = self.blobs.iter().chain(of_roots).copied().collect();
        if blobs.is_empty() {
            return Ok(());
        }
        let missing = stored.find_missing_blobs(&Vec::from_iter(blobs))?;
        if missing.is_empty() { Ok(()) } else { Err(StoreError::BlobsMissing(missing)) }
    }

    /// Checks that stores can use all positions in threads as keys. PostgreSQL stores no text with a zero byte.
    fn validate_threads(&self) -> Result<(), StoreError> {
        for thread in self.puts.iter().filter_map(|put| put.header().thread.as_ref()) {
            let invocation = thread.invocation.as_deref().unwrap_or_default();
            if thread.id.is_empty() {
                return Err(StoreError::Rules("the id of a position in a thread is empty"));
            }
            if thread.id.len() > THREAD_ID_LIMIT || invocation.len() > THREAD_ID_LIMIT {
                return Err(StoreError::Rules("an id of a position in a thread is too long"));
            }
            if thread.namespace.len() > NAMESPACE_LIMIT {
                return Err(StoreError::Rules("the namespace of a position in a thread is too long"));
            }
            if [thread.id.as_str(), &thread.namespace, invocation].iter().any(|text| text.contains('\0')) {
                return Err(StoreError::Rules("a position in a thread contains a zero byte"));
            }
        }
        Ok(())
    }

    /// Checks that sequence numbers and stamps start at the view's slot and increase.
    fn validate_slots(&self, run: &RunId, view: &RunView) -> Result<(), StoreError> {
        let (mut sequence, mut stamp) = (view.slot.sequence(), view.slot.stamp());
        for put in &self.puts {
            let header = put.header();
            if header.run_id != *run {
                return Err(StoreError::Rules("a checkpoint belongs to another run"));
            }
            if header.sequence < sequence {
                return Err(StoreError::Rules("a sequence is taken or out of order"));
            }
            if header.stamp < stamp {
                return Err(StoreError::Rules("a stamp is taken or out of order"));
            }
            stamp = header.stamp.saturating_add(1);
            sequence = header.sequence.checked_add(1).ok_or(StoreError::Rules("a sequence is too large"))?;
        }
        Ok(())
    }
}

/// The result of a decision.
#[derive(Debug, Clone)]
pub enum WriteDecision {
    /// Apply this commit.
    Commit(Box<Commit>),
    /// Change nothing.
    NoChange,
    /// Fill in `RunView::details` and call the decision again.
    NeedDetails,
}

/// A pure decision about one run. A store may call it more than once; only the last result counts.
pub type Decide<'a> = dyn FnMut(&RunView) -> WriteDecision + 'a;

/// The result of a write.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Receipt {
    /// The file of the last checkpoint added, in stores that use one file per checkpoint.
    pub file: Option<PathBuf>,
    /// Files of removed checkpoints that could not be deleted, and why. No commit refers to them any more.
    pub left: Vec<(PathBuf, std::io::ErrorKind)>,
}
