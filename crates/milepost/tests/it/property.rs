//! Random histories: after any sequence of puts, marks, drops, deletes, repairs and reopens, the store
//! matches the oracle. There are three runs, to check that deletes and ids of one run do not affect the
//! others.

use milepost::model::Marks;
use milepost::store::{Maintenance, Store, StoreError};
use milepost_testkit::fixtures::TestCheckpoint;
use milepost_testkit::oracle::shown;
use milepost_testkit::rng::{edited, text};
use milepost_testkit::{Oracle, fixtures};
use proptest::prelude::*;

use crate::stores::{Opener, files, files_asked_again, sqlite, sqlite_asked_again};

const RUNS: usize = 3;

/// One step of a history. Numbers select among what exists at that point, so that every history is valid.
#[derive(Debug, Clone)]
enum Step {
    Put { count: u64, size: usize, skip: u64, tagged: bool },
    Edit,
    PutAndPrune,
    Drop(Vec<usize>),
    Mark { which: usize, pinned: bool, tag: Option<u8> },
    Items { push: usize, consume: usize },
    Events(u64),
    UseAgain,
    Delete,
    Reopen,
    Maintenance(u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (1..4u64, 0..6000usize, 0..3u64, any::<bool>())
            .prop_map(|(count, size, skip, tagged)| Step::Put { count, size, skip: skip / 2, tagged }),
        6 => Just(Step::Edit),
        4 => Just(Step::PutAndPrune),
        3 => prop::collection::vec(any::<usize>(), 1..6).prop_map(Step::Drop),
        3 => (any::<usize>(), any::<bool>(), prop::option::of(0..3u8))
            .prop_map(|(which, pinned, tag)| Step::Mark { which, pinned, tag }),
        2 => (0..4usize, any::<usize>()).prop_map(|(push, consume)| Step::Items { push, consume }),
        1 => (1..5u64).prop_map(Step::Events),
        1 => Just(Step::UseAgain),
        1 => Just(Step::Delete),
        1 => Just(Step::Reopen),
        1 => (0..4u8).prop_map(Step::Maintenance),
    ]
}

fn marks(revision: u64, pinned: bool, tag: Option<u8>) -> Marks {
    let tags = tag.map(|n| format!("tag {n}")).into_iter().collect();
    Marks { revision, pinned, tags, ..Marks::default() }
}

/// The checkpoint with a position in a thread, unless the label is a multiple of three. Ids are not in the order of
/// the labels, and some occur twice.
fn positioned(doc: TestCheckpoint, label: u64) -> TestCheckpoint {
    if label.is_multiple_of(3) {
        return doc;
    }
    let namespace = ["", "child", "child:é'%"][(label % 8 % 3) as usize];
    let mut position = fixtures::position(namespace, &format!("{:03}", label * 31 % 64));
    position.invocation = (!label.is_multiple_of(4)).then(|| format!("invocation {}", label % 5));
    doc.thread(position)
}

/// The oracles of all runs, the newest label, and the text that edits start from.
struct History<'a> {
    ledgers: Vec<Oracle<'a>>,
    labels: u64,
    state: String,
}

impl History<'_> {
    fn label(&mut self) -> u64 {
        self.labels += 1;
        self.labels
    }

    fn carry_out(&mut self, at: usize, step: &Step, open: &Opener) {
        let label = self.label();
        let oracle = &mut self.ledgers[at];
        let run = oracle.run().clone();
        let there = oracle.sequences();
        match step {
            Step::Put { count, size, skip, tagged } => {
                let docs: Vec<_> = (0..*count)
                    .map(|n| (n, oracle.doc(format!("{label}-{n}")).state(text(*size, label + n))))
                    .map(|(n, doc)| positioned(doc, label + n))
                    .collect();
                oracle.commit(|view, commit| {
                    let mut slot = view.slot.at_sequence(view.slot.sequence() + skip).unwrap();
                    for doc in &docs {
                        if *tagged {
                            commit.marks.push((slot.sequence(), marks(1, false, Some(0))));
                        }
                        commit.puts.push(doc.seal(&slot));
                        slot = slot.next();
                    }
                });
            }
            Step::Edit => {
                self.state = edited(&self.state, 5, label);
                let doc = positioned(oracle.doc(label).state(self.state.clone()), label);
                oracle.put(&doc);
            }
            Step::PutAndPrune => {
                let doc = positioned(oracle.doc(label).state(self.state.clone()), label);
                oracle.commit(|view, commit| {
                    commit.puts.push(doc.seal(&view.slot));
                    let open = shown(view).oldest.iter().filter(|entry| !entry.marks.protects());
                    commit.drops.extend(open.take(2).map(|entry| entry.header.sequence()));
                });
            }
            Step::Drop(which) if !there.is_empty() => {
                let mut drops: Vec<u64> = which.iter().map(|n| there[n % there.len()]).collect();
                drops.sort_unstable();
                drops.dedup();
                oracle.drop_all(&drops);
            }
            Step::Mark { which, pinned, tag } if !there.is_empty() => {
                let sequence = there[which % there.len()];
                let revision = oracle.entry(sequence).marks.revision + 1;
                oracle.mark(sequence, marks(revision, *pinned, *tag));
            }
            Step::Items { push, consume } => {
                let consume = consume % (oracle.items().len() + 1);
                oracle.commit(|_, commit| {
                    commit.consume = consume;
                    commit.push.extend((0..*push).map(|n| fixtures::item(format!("{label} {n}"))));
                });
            }
            Step::Events(count) => {
                oracle
                    .commit(|_, commit| commit.events.extend((0..*count).map(|n| fixtures::event(&run, n))));
            }
            Step::UseAgain if !there.is_empty() => {
                let taken = oracle.entry(there[0]).header.snapshot_id().clone();
                let oracle = &mut self.ledgers[(at + 1) % RUNS];
                let again = oracle.doc("again").id(taken.as_str());
                let answer = oracle.attempt(|view, commit| commit.puts.push(again.seal(&view.slot)));
                assert!(
                    matches!(answer, Err(StoreError::Exists(id)) if id == taken),
                    "a reused id must be refused"
                );
            }
            Step::Delete => {
                oracle.delete();
            }
            Step::Reopen => self.ledgers.iter().for_each(|oracle| oracle.check_on(&*open())),
            Step::Maintenance(kind) => {
                let what = match kind {
                    0 => Maintenance::Inspect,
                    1 => Maintenance::Repair,
                    2 => Maintenance::Compact,
                    _ => Maintenance::Compress { run: None, before: fixtures::at(1) },
                };
                let report = oracle.store().maintain(what).unwrap();
                assert_eq!(report.problems, [], "{what:?}");
            }
            Step::Drop(_) | Step::Mark { .. } | Step::UseAgain => {}
        }
    }
}

fn holds(open: &Opener, steps: &[(usize, Step)]) {
    let store: Box<dyn Store> = open();
    let ledgers = (0..RUNS).map(|n| Oracle::begin(&*store, &format!("property-{n}"))).collect();
    let mut history = History { ledgers, labels: 0, state: text(9000, 1) };
    for (at, (run, step)) in steps.iter().enumerate() {
        history.carry_out(*run, step, open);
        history.ledgers[*run].check();
        if at % 8 == 7 {
            history.ledgers.iter().for_each(Oracle::check);
        }
    }
    let again = open();
    history.ledgers.iter().for_each(|oracle| oracle.check_on(&*again));
}

/// Most steps apply to the first run, so that it grows long.
fn steps() -> impl Strategy<Value = Vec<(usize, Step)>> {
    let run = prop_oneof![6 => Just(0usize), 1 => Just(1), 1 => Just(2)];
    prop::collection::vec((run, step()), 1..50)
}

/// Few enough cases to stay fast on two cores.
fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, max_shrink_iters: 300, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases(12))]

    #[test]
    fn sqlite_keeps_any_history(steps in steps()) {
        holds(&sqlite(), &steps);
    }

    #[test]
    fn files_keep_any_history(steps in steps()) {
        holds(&files(), &steps);
    }
}

proptest! {
    #![proptest_config(cases(4))]

    #[test]
    fn sqlite_keeps_any_history_asked_again(steps in steps()) {
        holds(&sqlite_asked_again(), &steps);
    }

    #[test]
    fn files_keep_any_history_asked_again(steps in steps()) {
        holds(&files_asked_again(), &steps);
    }
}
