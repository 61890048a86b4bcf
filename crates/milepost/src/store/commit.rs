//! One write to a run: the view a decision gets, the commit it answers with, and the rules every commit keeps.
//! `Commit::validate` is the only place that checks these rules; every store calls it before it writes.
//! Nothing here touches a file.

use std::collections::HashSet;
use std::path::PathBuf;

use derive_getters::Getters;

use super::{CheckpointEntry, StoreError};
use crate::model::{CheckpointId, Event, Item, Marks, RunId, RunRecord};
use crate::seal::Sealed;

/// A place for one checkpoint: its number in the run and its stamp in the store. Stores give slots out.
#[derive(Getters, Debug, Clone, PartialEq, Eq)]
pub struct Slot {
    /// The checkpoint's number within its run.
    sequence: u64,
    /// The checkpoint's place among all writes of the store.
    stamp: u64,
}

impl Slot {
    /// Gives a slot out. For implementers of `Store`, inside a write.
    pub fn issue(sequence: u64, stamp: u64) -> Self {
        Self { sequence, stamp }
    }

    /// The slot after this one, for a decision that puts several checkpoints.
    #[must_use]
    pub fn next(&self) -> Self {
        Self { sequence: self.sequence + 1, stamp: self.stamp + 1 }
    }

    /// This slot under a later number, for copies and imports; earlier numbers are taken.
    #[must_use]
    pub fn at_sequence(&self, sequence: u64) -> Option<Self> {
        (sequence >= self.sequence).then_some(Self { sequence, stamp: self.stamp })
    }
}

/// What a decision sees of a run. Reads no clock, touches no file: the same view gives the same decision.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RunView {
    /// Its record; `None` for a new run, and for one whose record is damaged while `count` is above 0.
    pub record: Option<RunRecord>,
    /// Where the next checkpoint goes.
    pub slot: Slot,
    /// How many checkpoints there are.
    pub count: u64,
    /// The newest checkpoint; `None` also where its row is damaged.
    pub latest: Option<CheckpointEntry>,
    /// How many items wait, at most; those that cannot be read count too.
    pub waiting: u64,
    /// What costs more to show. A decision that needs it and is not shown it says `WriteDecision::NeedDetails`.
    pub details: Option<RunDetails>,
}

impl RunView {
    /// The view of a run that does not exist yet: it has no details to ask for.
    pub fn of_new_run(slot: Slot) -> Self {
        let details = Some(RunDetails::default());
        Self { record: None, slot, count: 0, latest: None, waiting: 0, details }
    }
}

/// What a view shows to a decision that asked for it.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct RunDetails {
    /// The oldest checkpoints without a gap, oldest first, up to and including the `OLDEST_SHOWN`-th that no mark protects.
    /// A damaged row ends the list.
    pub oldest: Vec<CheckpointEntry>,
    /// What was recorded since the newest checkpoint, oldest first.
    pub items: Vec<Item>,
}

/// What a decision wants done, in one transaction.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Commit {
    /// Checkpoints to add, in slots from the view on.
    pub puts: Vec<Sealed>,
    /// Marks to set, by sequence; also of a checkpoint in `puts`. A revision that is not above the stored one is refused
    /// with `MarksMoved`: two writers that read the same marks do not overwrite each other.
    pub marks: Vec<(u64, Marks)>,
    /// Sequences to remove.
    pub drops: Vec<u64>,
    /// The run's record from now on.
    pub record: RunRecord,
    /// Items to add.
    pub push: Vec<Item>,
    /// How many of the items that `RunDetails` showed to take away, from the front.
    pub consume: usize,
    /// Events to add.
    pub events: Vec<Event>,
    /// Names that nothing in the store may have yet, neither as its id nor as a tag or an imported id; where something
    /// does, the commit is refused with `Named`.
    pub new_names: Vec<String>,
}

/// What `Commit::validate` has to ask a store, inside the transaction that writes the commit.
pub trait CommitLookup {
    /// The revision of a checkpoint's stored marks; `None` if it has none.
    fn marks_revision(&self, sequence: u64) -> Result<Option<u64>, StoreError>;

    /// The first of these ids that a checkpoint of any run has.
    fn find_taken_id(&self, ids: &[&CheckpointId]) -> Result<Option<CheckpointId>, StoreError>;

    /// Whether a checkpoint of any run has this name as its id, a tag or an imported id.
    fn is_name_taken(&self, name: &str) -> Result<bool, StoreError>;
}

impl Commit {
    /// A commit that only rewrites the record.
    pub fn new(record: RunRecord) -> Self {
        Self {
            puts: Vec::new(),
            marks: Vec::new(),
            drops: Vec::new(),
            record,
            push: Vec::new(),
            consume: 0,
            events: Vec::new(),
            new_names: Vec::new(),
        }
    }

    /// Checks every rule of a commit to `run` that was decided on `view`. A store calls it before it writes anything.
    pub fn validate(&self, run: &RunId, view: &RunView, stored: &dyn CommitLookup) -> Result<(), StoreError> {
        if self.record.run_id != *run {
            return Err(StoreError::Rules("the record of another run"));
        }
        self.validate_slots(run, view)?;
        if self.consume > view.details.as_ref().map_or(0, |details| details.items.len()) {
            return Err(StoreError::Rules("more items consumed than there are"));
        }
        for (sequence, marks) in &self.marks {
            if stored.marks_revision(*sequence)?.is_some_and(|revision| marks.revision <= revision) {
                return Err(StoreError::MarksMoved(run.clone(), *sequence));
            }
        }
        let ids: Vec<_> = self.puts.iter().map(|put| &put.header().snapshot_id).collect();
        if ids.iter().collect::<HashSet<_>>().len() < ids.len() {
            return Err(StoreError::Rules("the same checkpoint twice"));
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
        Ok(())
    }

    /// Sequences and stamps start at the view's slot and grow.
    fn validate_slots(&self, run: &RunId, view: &RunView) -> Result<(), StoreError> {
        let (mut sequence, mut stamp) = (view.slot.sequence(), view.slot.stamp());
        for put in &self.puts {
            let header = put.header();
            if header.run_id != *run {
                return Err(StoreError::Rules("a checkpoint of another run"));
            }
            if header.sequence < sequence {
                return Err(StoreError::Rules("a sequence that is taken or out of order"));
            }
            if header.stamp < stamp {
                return Err(StoreError::Rules("a stamp that is taken"));
            }
            stamp = header.stamp.saturating_add(1);
            sequence =
                header.sequence.checked_add(1).ok_or(StoreError::Rules("a sequence without a next one"))?;
        }
        Ok(())
    }
}

/// The answer of a decision.
#[derive(Debug, Clone)]
pub enum WriteDecision {
    /// Do this.
    Commit(Box<Commit>),
    /// Change nothing.
    NoChange,
    /// Show `RunView::details` and ask again.
    NeedDetails,
}

/// A pure decision about one run. A store may call it more than once; only the last answer counts.
pub type Decide<'a> = dyn FnMut(&RunView) -> WriteDecision + 'a;

/// What a write left behind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Receipt {
    /// The file of the checkpoint put last, in stores that have one.
    pub file: Option<PathBuf>,
    /// Files of dropped checkpoints that could not be removed, and why; no commit speaks of them any more.
    pub left: Vec<(PathBuf, std::io::ErrorKind)>,
}
