//! A write is applied completely or not at all.

use std::panic::{AssertUnwindSafe, catch_unwind};

use milepost::model::RunId;
use milepost::store::{EventQuery, HeaderQuery, Store, StoreError, WriteDecision};

use crate::fixtures::{self, TestCheckpoint};
use crate::oracle::Oracle;

/// A run exists after its first commit and not before.
pub fn run_appears_with_its_first_commit(store: &dyn Store) {
    let mut oracle = Oracle::begin(store, "write-appears");
    oracle.check();
    oracle.put_many(1).check();
}

/// `WriteDecision::NoChange` creates no run and changes none.
pub fn no_change_writes_nothing(store: &dyn Store) {
    let mut oracle = Oracle::begin(store, "write-nothing");
    for _ in 0..3 {
        oracle.view();
    }
    oracle.check();
    oracle.put_many(2);
    let before = store.run(oracle.run()).unwrap().unwrap().row.stamp;
    for _ in 0..3 {
        oracle.view();
    }
    oracle.check();
    assert_eq!(store.run(oracle.run()).unwrap().unwrap().row.stamp, before, "the run's stamp after NoChange");
}

/// One commit can put several checkpoints, together with drops, items and events.
pub fn several_puts_in_one_commit(store: &dyn Store) {
    let mut oracle = Oracle::begin(store, "write-several");
    oracle.put_many(2);
    let docs: Vec<TestCheckpoint> =
        (0..20).map(|n| oracle.doc(format!("several-{n}")).state("x".repeat(n * 100))).collect();
    let run = oracle.run().clone();
    oracle.commit(|view, commit| {
        let mut slot = view.slot.clone();
        for doc in &docs {
            commit.puts.push(doc.seal(&slot));
            slot = slot.next();
        }
        commit.drops.push(1);
        commit.push.push(fixtures::item("one"));
        commit.events.push(fixtures::event(&run, 1));
    });
    oracle.check();
    oracle.put_many(1).check();
}

/// A checkpoint or a record of another run is refused, and nothing is written.
pub fn foreign_run_is_refused(store: &dyn Store) {
    let mut oracle = Oracle::begin(store, "write-foreign");
    let other = Oracle::begin(store, "write-foreign-other");
    for _ in 0..2 {
        let foreign = other.doc(1);
        oracle.expect_refusal(|view, commit| commit.puts.push(foreign.seal(&view.slot)));
        let run: RunId = other.run().clone();
        oracle.expect_refusal(|_, commit| {
            commit.record = fixtures::set_member(&commit.record, "run_id", &format!("\"{run}\""));
        });
        other.check();
        oracle.put_many(1);
    }
}

/// An id is unique in the whole store. A commit that reuses an id writes nothing.
pub fn duplicate_id_is_refused(store: &dyn Store) {
    let mut first = Oracle::begin(store, "write-duplicate");
    let mut second = Oracle::begin(store, "write-duplicate-other");
    let taken = first.doc("taken");
    let id = taken.snapshot_id().clone();
    first.put(&taken);
    first.put_many(1);
    for round in 0..2 {
        for oracle in [&mut first, &mut second] {
            let fresh = oracle.doc(format!("fresh-{round}"));
            let again = oracle.doc("again").id(id.as_str());
            let run = oracle.run().clone();
            let answer = oracle.attempt(|view, commit| {
                commit.puts.push(fresh.seal(&view.slot));
                commit.puts.push(again.seal(&view.slot.next()));
                commit.push.push(fixtures::item("never"));
                commit.events.push(fixtures::event(&run, 9));
            });
            match answer {
                Err(StoreError::Exists(named)) => assert_eq!(named, id, "the id in Exists"),
                answer => panic!("a reused id returned {answer:?}"),
            }
        }
        first.check();
        second.check();
        second.put_many(1);
    }
    // The other ids of the refused commits are still free.
    second.put(&second.doc("fresh-0"));
    second.check();
}

/// A name that must be new is refused if a checkpoint of any run has it as its id or as a tag. Such a commit
/// writes nothing, and its checkpoint can be put without the name.
pub fn taken_name_is_refused(store: &dyn Store) {
    let mut first = Oracle::begin(store, "write-names-1");
    let mut second = Oracle::begin(store, "write-names-2");
    let tagged = first.doc("tagged").id("write-names-tagged");
    first.commit(|view, commit| {
        commit.puts.push(tagged.seal(&view.slot));
        commit.marks.push((view.slot.sequence(), fixtures::tagged(1, &["write-names-tag"])));
        commit.new_names.push("write-names-free".into());
    });
    for name in ["write-names-tag", "write-names-tagged"] {
        for oracle in [&mut first, &mut second] {
            let doc = oracle.doc(format!("never-{name}"));
            let answer = oracle.attempt(|view, commit| {
                commit.puts.push(doc.seal(&view.slot));
                commit.push.push(fixtures::item("never"));
                commit.new_names.extend(["write-names-free".to_owned(), name.to_owned()]);
            });
            assert!(matches!(&answer, Err(StoreError::Named(taken)) if taken == name), "{name}: {answer:?}");
            oracle.check();
            oracle.put(&doc);
            oracle.check();
        }
    }
}

/// An id must not occur twice in one commit.
pub fn duplicate_id_within_a_commit_is_refused(store: &dyn Store) {
    let mut oracle = Oracle::begin(store, "write-duplicate-within");
    let twice = oracle.doc("twice");
    for _ in 0..2 {
        let answer = oracle.attempt(|view, commit| {
            commit.puts.push(twice.seal(&view.slot));
            commit.puts.push(twice.seal(&view.slot.next()));
        });
        assert!(
            matches!(answer, Err(StoreError::Exists(_) | StoreError::Rules(_))),
            "an id twice in one commit returned {answer:?}"
        );
        oracle.check();
        oracle.put_many(1);
    }
}

/// A decision that panics leaves the store usable and unchanged.
pub fn panic_in_the_decision_changes_nothing(store: &dyn Store) {
    let mut oracle = Oracle::begin(store, "write-panic");
    for _ in 0..3 {
        let run = oracle.run().clone();
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            store.write(&run, &mut |_| -> WriteDecision {
                panic!("a decision that panics, as a test of the store")
            })
        }));
        assert!(panicked.is_err(), "the panic was swallowed");
        oracle.check();
        oracle.put_many(1).check();
    }
}

/// Unknown runs and checkpoints are reported as missing.
pub fn unknown_runs_and_checkpoints(store: &dyn Store) {
    let oracle = Oracle::begin(store, "write-unknown");
    let run = oracle.run();
    assert!(store.run(run).unwrap().is_none());
    assert!(matches!(store.body(run, 1), Err(StoreError::NoRun(of)) if of == *run));
    assert!(store.headers(&HeaderQuery::default().run(run)).unwrap().is_empty());
    assert!(store.events(&EventQuery::default().run(run)).unwrap().events.is_empty());
    assert!(!store.delete_run(run, None).unwrap());
    let mut known = Oracle::begin(store, "write-unknown-known");
    known.put_many(2);
    for sequence in [0, 3, u64::from(u32::MAX), i64::MAX as u64, u64::MAX] {
        let answer = store.body(known.run(), sequence);
        assert!(matches!(answer, Err(StoreError::NoCheckpoint(_, of)) if of == sequence), "{sequence}");
    }
    known.drop_all(&[1]);
    assert!(matches!(store.body(known.run(), 1), Err(StoreError::NoCheckpoint(_, 1))));
    known.check();
}
