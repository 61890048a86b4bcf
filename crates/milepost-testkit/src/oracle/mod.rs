//! What a run should hold, kept in plain memory beside the store.
//! In: commits, carried out on both. Out: a comparison of everything a store can be asked about the run.
//! The oracle is the specification in its simplest form: it must stay too simple to be wrong.

mod check;

use std::collections::BTreeMap;

use milepost::model::{Event, Item, Marks, RunId, RunRecord};
use milepost::store::Sealed;
use milepost::store::{
    CheckpointEntry, Commit, Receipt, RunDetails, RunView, Store, StoreError, WriteDecision,
};

pub use check::good;

use crate::fixtures::{self, TestCheckpoint};

/// One run, and what should be in it.
pub struct Oracle<'a> {
    store: &'a dyn Store,
    run: RunId,
    record: Option<RunRecord>,
    rows: BTreeMap<u64, (Sealed, Marks)>,
    items: Vec<Item>,
    events: Vec<Event>,
    next_sequence: u64,
    last_stamp: u64,
}

impl<'a> Oracle<'a> {
    /// Begins a run. One of the same name that an earlier run of the suite left in a shared store goes first.
    pub fn begin(store: &'a dyn Store, name: &str) -> Self {
        let run = fixtures::run_id(name);
        store.delete_run(&run, None).unwrap();
        Self {
            store,
            run,
            record: None,
            rows: BTreeMap::new(),
            items: Vec::new(),
            events: Vec::new(),
            next_sequence: 1,
            last_stamp: 0,
        }
    }

    /// The run.
    pub fn run(&self) -> &RunId {
        &self.run
    }

    /// The store.
    pub fn store(&self) -> &'a dyn Store {
        self.store
    }

    /// A checkpoint of this run.
    pub fn doc(&self, label: impl std::fmt::Display) -> TestCheckpoint {
        TestCheckpoint::new(&self.run, label)
    }

    /// The sequences that should be there, oldest first.
    pub fn sequences(&self) -> Vec<u64> {
        self.rows.keys().copied().collect()
    }

    /// The entries that should be there, oldest first.
    pub fn entries(&self) -> Vec<CheckpointEntry> {
        self.rows.values().map(|(sealed, marks)| entry(sealed, marks)).collect()
    }

    /// One entry.
    pub fn entry(&self, sequence: u64) -> CheckpointEntry {
        let (sealed, marks) = &self.rows[&sequence];
        entry(sealed, marks)
    }

    /// The record that should be there.
    pub fn record(&self) -> Option<&RunRecord> {
        self.record.as_ref()
    }

    /// The items that should be pending.
    pub fn items(&self) -> &[Item] {
        &self.items
    }

    /// The highest stamp this run has had.
    pub fn last_stamp(&self) -> u64 {
        self.last_stamp
    }

    /// What the store shows to a decision that changes nothing.
    pub fn view(&self) -> RunView {
        view(self.store, &self.run)
    }

    /// Carries a commit out on both; panics where the store refuses.
    pub fn commit(&mut self, fill: impl FnMut(&RunView, &mut Commit)) -> &mut Self {
        if let Err(e) = self.attempt(fill) {
            panic!("{}: a valid commit was refused: {e}: {e:?}", self.run);
        }
        self
    }

    /// Panics unless the store refuses a commit for breaking the trait's rules and changes nothing.
    pub fn expect_refusal(&mut self, fill: impl FnMut(&RunView, &mut Commit)) {
        refused_by_rules(self.attempt(fill));
        self.check();
    }

    /// Carries a commit out on both; where the store refuses, the oracle stays as it is.
    pub fn attempt(&mut self, mut fill: impl FnMut(&RunView, &mut Commit)) -> Result<Receipt, StoreError> {
        let mut last = None;
        let run = &self.run;
        let receipt = self.store.write(run, &mut |view| {
            if view.details.is_none() {
                return WriteDecision::NeedDetails;
            }
            let mut commit = Commit::new(fixtures::next_record(run, view));
            fill(view, &mut commit);
            last = Some((view.slot.clone(), commit.clone()));
            WriteDecision::Commit(Box::new(commit))
        })?;
        let (slot, commit) = last.expect("the store never asked for a decision");
        assert_eq!(slot.sequence(), self.next_sequence, "{run}: the slot's sequence");
        assert!(slot.stamp() > self.last_stamp, "{run}: stamp {} after {}", slot.stamp(), self.last_stamp);
        self.last_stamp = slot.stamp();
        self.apply(commit);
        Ok(receipt)
    }

    fn apply(&mut self, commit: Commit) {
        for sealed in commit.puts {
            let header = sealed.header();
            self.next_sequence = header.sequence() + 1;
            self.last_stamp = self.last_stamp.max(header.stamp());
            self.rows.insert(header.sequence(), (sealed, Marks::default()));
        }
        for (sequence, marks) in commit.marks {
            self.rows.get_mut(&sequence).expect("marks of a checkpoint that is there").1 = marks;
        }
        for sequence in commit.drops {
            self.rows.remove(&sequence).expect("a drop of a checkpoint that is there");
        }
        self.items.drain(..commit.consume);
        self.items.extend(commit.push);
        self.events.extend(commit.events);
        self.record = Some(commit.record);
    }

    /// Puts one checkpoint and gives its sequence.
    pub fn put(&mut self, doc: &TestCheckpoint) -> u64 {
        self.put_marked(doc, None)
    }

    /// Puts one checkpoint under a tag and gives its sequence.
    pub fn put_tagged(&mut self, doc: &TestCheckpoint, tag: &str) -> u64 {
        self.put_marked(doc, Some(fixtures::tagged(1, &[tag])))
    }

    /// Puts one checkpoint with marks and gives its sequence.
    pub fn put_marked(&mut self, doc: &TestCheckpoint, marks: Option<Marks>) -> u64 {
        self.commit(|view, commit| {
            commit.puts.push(doc.seal(&view.slot));
            commit.marks.extend(marks.clone().map(|marks| (view.slot.sequence(), marks)));
        });
        self.next_sequence - 1
    }

    /// Puts so many small checkpoints, one commit each.
    pub fn put_many(&mut self, count: u64) -> &mut Self {
        for _ in 0..count {
            self.put(&self.doc(self.next_sequence));
        }
        self
    }

    /// Sets marks of one checkpoint.
    pub fn mark(&mut self, sequence: u64, marks: Marks) -> &mut Self {
        self.commit(|_, commit| commit.marks.push((sequence, marks.clone())))
    }

    /// Removes checkpoints.
    pub fn drop_all(&mut self, sequences: &[u64]) -> &mut Self {
        self.commit(|_, commit| commit.drops.extend(sequences))
    }

    /// Deletes the run; the oracle begins again, but for stamps, which never go back.
    pub fn delete(&mut self) -> &mut Self {
        let existed = self.store.delete_run(&self.run, None).unwrap();
        assert_eq!(existed, self.record.is_some(), "{}: delete_run says whether the run was there", self.run);
        self.record = None;
        self.rows.clear();
        self.items.clear();
        self.events.clear();
        self.next_sequence = 1;
        self
    }
}

/// What a store shows to a decision about `run` that changes nothing.
pub fn view(store: &dyn Store, run: &RunId) -> RunView {
    let mut seen = None;
    let mut look = |view: &RunView| {
        if view.details.is_none() {
            return WriteDecision::NeedDetails;
        }
        seen = Some(view.clone());
        WriteDecision::NoChange
    };
    store.write(run, &mut look).unwrap();
    seen.expect("the store never asked for a decision")
}

/// What a view shows to a decision that asked for more.
pub fn shown(view: &RunView) -> &RunDetails {
    view.details.as_ref().expect("the store was asked for more and did not show it")
}

/// Panics unless a commit was refused for breaking the trait's rules.
pub fn refused_by_rules(answer: Result<Receipt, StoreError>) {
    assert!(matches!(answer, Err(StoreError::Rules(_))), "a commit against the rules gave {answer:?}");
}

fn entry(sealed: &Sealed, marks: &Marks) -> CheckpointEntry {
    CheckpointEntry::new(sealed.header().clone(), marks.clone())
}
