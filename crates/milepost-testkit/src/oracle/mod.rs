//! The expected content of a run, kept in memory. Applies each commit to the store and to the oracle, and
//! compares everything that the store returns about the run. Must stay simple enough to be obviously correct.

mod check;

use std::collections::BTreeMap;

use milepost::model::{Attachment, Event, Item, Marks, Message, RunId, RunRecord};
use milepost::store::Sealed;
use milepost::store::{
    CheckpointEntry, Commit, Header, Receipt, RunDetails, RunView, Store, StoreError, WriteDecision,
};

pub use check::good;

use crate::fixtures::{self, TestCheckpoint};

/// One run and its expected content.
pub struct Oracle<'a> {
    store: &'a dyn Store,
    run: RunId,
    record: Option<RunRecord>,
    rows: BTreeMap<u64, (Sealed, Marks)>,
    items: Vec<Item>,
    messages: Vec<Message>,
    /// Attachments by checkpoint, task and index.
    attachments: BTreeMap<(String, String, i64), Attachment>,
    events: Vec<Event>,
    next_sequence: u64,
    last_stamp: u64,
}

impl<'a> Oracle<'a> {
    /// Starts a run. Deletes a run of the same name that an earlier test left in a shared store.
    pub fn begin(store: &'a dyn Store, name: &str) -> Self {
        let run = fixtures::run_id(name);
        store.delete_run(&run, None).unwrap();
        Self {
            store,
            run,
            record: None,
            rows: BTreeMap::new(),
            items: Vec::new(),
            messages: Vec::new(),
            attachments: BTreeMap::new(),
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

    /// The expected sequence numbers, oldest first.
    pub fn sequences(&self) -> Vec<u64> {
        self.rows.keys().copied().collect()
    }

    /// The expected entries, oldest first.
    pub fn entries(&self) -> Vec<CheckpointEntry> {
        self.rows.values().map(|(sealed, marks)| entry(sealed, marks)).collect()
    }

    /// The expected entry of one checkpoint.
    pub fn entry(&self, sequence: u64) -> CheckpointEntry {
        let (sealed, marks) = &self.rows[&sequence];
        entry(sealed, marks)
    }

    /// The sequence number of the newest checkpoint at a position in a thread.
    pub fn sequence_at(&self, namespace: &str, id: &str) -> Option<u64> {
        let is_there = |header: &Header| {
            header.thread().as_ref().is_some_and(|thread| thread.namespace == namespace && thread.id == id)
        };
        let found = self.rows.iter().rev().find(|(_, (sealed, _))| is_there(sealed.header()));
        found.map(|(sequence, _)| *sequence)
    }

    /// The expected record.
    pub fn record(&self) -> Option<&RunRecord> {
        self.record.as_ref()
    }

    /// The expected messages.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// The expected attachments of one checkpoint, or of all, in the order in which a store lists them.
    pub fn attachments(&self, checkpoint: Option<&str>) -> Vec<&Attachment> {
        let wanted = |one: &&Attachment| checkpoint.is_none_or(|only| only == one.checkpoint());
        let mut found: Vec<_> = self.attachments.values().filter(wanted).collect();
        found.sort_by_key(|one| (one.checkpoint(), one.task_path(), one.task_id(), one.index()));
        found
    }

    /// The expected pending items.
    pub fn items(&self) -> &[Item] {
        &self.items
    }

    /// The highest stamp that this run has had.
    pub fn last_stamp(&self) -> u64 {
        self.last_stamp
    }

    /// The view that the store passes to a decision that changes nothing.
    pub fn view(&self) -> RunView {
        view(self.store, &self.run)
    }

    /// Applies a commit to the store and the oracle. Panics if the store refuses it.
    pub fn commit(&mut self, fill: impl FnMut(&RunView, &mut Commit)) -> &mut Self {
        if let Err(e) = self.attempt(fill) {
            panic!("{}: a valid commit was refused: {e}: {e:?}", self.run);
        }
        self
    }

    /// Panics unless the store refuses a commit that breaks the trait's rules, and changes nothing.
    pub fn expect_refusal(&mut self, fill: impl FnMut(&RunView, &mut Commit)) {
        refused_by_rules(self.attempt(fill));
        self.check();
    }

    /// Applies a commit to the store and the oracle. If the store refuses it, the oracle does not change.
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
        let (slot, commit) = last.expect("the store never called the decision");
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
            self.rows.get_mut(&sequence).expect("marks of an existing checkpoint").1 = marks;
        }
        for sequence in commit.drops {
            let (dropped, _) = self.rows.remove(&sequence).expect("a drop of an existing checkpoint");
            let id = dropped.header().snapshot_id().as_str();
            self.attachments.retain(|(checkpoint, ..), _| checkpoint != id);
        }
        self.attachments.retain(|(checkpoint, ..), _| !commit.detach.contains(checkpoint));
        for one in commit.attachments {
            let key = (one.checkpoint().clone(), one.task_id().clone(), one.index());
            if one.replace() || !self.attachments.contains_key(&key) {
                self.attachments.insert(key, one);
            }
        }
        self.items.drain(..commit.consume);
        self.items.extend(commit.push);
        self.messages.extend(commit.messages);
        self.events.extend(commit.events);
        self.record = Some(commit.record);
    }

    /// Puts one checkpoint and returns its sequence number.
    pub fn put(&mut self, doc: &TestCheckpoint) -> u64 {
        self.put_marked(doc, None)
    }

    /// Puts one checkpoint with a tag and returns its sequence number.
    pub fn put_tagged(&mut self, doc: &TestCheckpoint, tag: &str) -> u64 {
        self.put_marked(doc, Some(fixtures::tagged(1, &[tag])))
    }

    /// Puts one checkpoint with marks and returns its sequence number.
    pub fn put_marked(&mut self, doc: &TestCheckpoint, marks: Option<Marks>) -> u64 {
        self.commit(|view, commit| {
            commit.puts.push(doc.seal(&view.slot));
            commit.marks.extend(marks.clone().map(|marks| (view.slot.sequence(), marks)));
        });
        self.next_sequence - 1
    }

    /// Puts `count` small checkpoints, one per commit.
    pub fn put_many(&mut self, count: u64) -> &mut Self {
        for _ in 0..count {
            self.put(&self.doc(self.next_sequence));
        }
        self
    }

    /// Sets the marks of one checkpoint.
    pub fn mark(&mut self, sequence: u64, marks: Marks) -> &mut Self {
        self.commit(|_, commit| commit.marks.push((sequence, marks.clone())))
    }

    /// Removes checkpoints.
    pub fn drop_all(&mut self, sequences: &[u64]) -> &mut Self {
        self.commit(|_, commit| commit.drops.extend(sequences))
    }

    /// Deletes the run and resets the oracle, except for stamps, which never decrease.
    pub fn delete(&mut self) -> &mut Self {
        let existed = self.store.delete_run(&self.run, None).unwrap();
        assert_eq!(existed, self.record.is_some(), "{}: delete_run returns whether a run existed", self.run);
        self.record = None;
        self.rows.clear();
        self.items.clear();
        self.messages.clear();
        self.attachments.clear();
        self.events.clear();
        self.next_sequence = 1;
        self
    }
}

/// The view that a store passes to a decision about `run` that changes nothing.
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
    seen.expect("the store never called the decision")
}

/// The details in a view that was passed to a decision which requested them.
pub fn shown(view: &RunView) -> &RunDetails {
    view.details.as_ref().expect("the store did not provide the requested details")
}

/// Panics unless a commit was refused because it breaks the trait's rules.
pub fn refused_by_rules(answer: Result<Receipt, StoreError>) {
    assert!(
        matches!(answer, Err(StoreError::Rules(_))),
        "a commit that breaks the rules returned {answer:?}"
    );
}

fn entry(sealed: &Sealed, marks: &Marks) -> CheckpointEntry {
    CheckpointEntry::new(sealed.header().clone(), marks.clone())
}
