//! Sequences increase within a run, stamps within the store. Neither ever decreases.

use milepost::store::{CheckpointFilter, HeaderQuery, Slot, Store};

use crate::oracle::Oracle;

/// The store issues the sequence numbers 1, 2, 3 and so on in every run.
pub fn sequences_count_from_one(store: &dyn Store) {
    for name in ["order-count-a", "order-count-b"] {
        let mut oracle = Oracle::begin(store, name);
        for expected in 1..=5 {
            assert_eq!(oracle.put(&oracle.doc(expected)), expected);
        }
        oracle.check();
    }
}

/// Copies and imports may skip sequence numbers, even at the start. The next slot follows the last number.
pub fn sequences_may_have_gaps(store: &dyn Store) {
    let mut oracle = Oracle::begin(store, "order-gaps");
    for sequence in [7, 8, 20, 1_000_000, 5_000_000_000] {
        let doc = oracle.doc(sequence);
        oracle.commit(|view, commit| {
            assert_eq!(view.slot.at_sequence(view.slot.sequence() - 1), None);
            commit.puts.push(doc.seal(&view.slot.at_sequence(sequence).unwrap()));
        });
        oracle.check();
    }
    let docs: Vec<_> = (0..4).map(|n| oracle.doc(format!("jump-{n}"))).collect();
    oracle.commit(|view, commit| {
        let mut slot = view.slot.clone();
        for doc in &docs {
            slot = slot.at_sequence(slot.sequence() + 3).unwrap();
            commit.puts.push(doc.seal(&slot));
            slot = slot.next();
        }
    });
    oracle.check();
    oracle.put_many(1);
    oracle.drop_all(&[8, 1_000_000]).check();
}

/// A used or skipped sequence number is refused, and nothing is written.
pub fn earlier_sequences_are_refused(store: &dyn Store) {
    let mut oracle = Oracle::begin(store, "order-refused");
    let doc = oracle.doc("zero");
    oracle.expect_refusal(|view, commit| commit.puts.push(doc.seal(&Slot::issue(0, view.slot.stamp()))));
    oracle.put_many(2);
    let gap = oracle.doc("gap");
    oracle.commit(|view, commit| commit.puts.push(gap.seal(&view.slot.at_sequence(10).unwrap())));
    for sequence in [0, 1, 2, 5, 10] {
        let doc = oracle.doc(format!("early-{sequence}"));
        oracle.expect_refusal(|view, commit| {
            commit.puts.push(doc.seal(&Slot::issue(sequence, view.slot.stamp())))
        });
    }
    let docs = [oracle.doc("first"), oracle.doc("second")];
    // Equal and decreasing sequence numbers within one commit.
    oracle.expect_refusal(|view, commit| {
        commit.puts.push(docs[0].seal(&view.slot));
        commit.puts.push(docs[1].seal(&Slot::issue(view.slot.sequence(), view.slot.stamp() + 1)));
    });
    oracle.expect_refusal(|view, commit| {
        commit.puts.push(docs[0].seal(&view.slot.next()));
        commit.puts.push(docs[1].seal(&Slot::issue(view.slot.sequence(), view.slot.stamp() + 2)));
    });
    oracle.put(&docs[1]);
    oracle.check();
}

/// A stamp that was issued before, in the store or within the commit, is refused, and nothing is written.
pub fn earlier_stamps_are_refused(store: &dyn Store) {
    let mut oracle = Oracle::begin(store, "order-refused-stamps");
    oracle.put_many(2);
    let docs = [oracle.doc("first"), oracle.doc("second")];
    for back in [1, 2] {
        oracle.expect_refusal(|view, commit| {
            let slot = Slot::issue(view.slot.sequence(), view.slot.stamp() - back);
            commit.puts.push(docs[0].seal(&slot));
        });
    }
    oracle.expect_refusal(|view, commit| {
        commit.puts.push(docs[0].seal(&view.slot));
        commit.puts.push(docs[1].seal(&Slot::issue(view.slot.sequence() + 1, view.slot.stamp())));
    });
    oracle.put(&docs[1]);
    oracle.check();
}

/// A sequence number is never issued twice, even after drops.
pub fn sequences_are_never_used_again(store: &dyn Store) {
    let mut oracle = Oracle::begin(store, "order-reuse");
    oracle.put_many(5);
    oracle.drop_all(&[5]).check();
    oracle.put_many(1);
    assert_eq!(oracle.sequences(), [1, 2, 3, 4, 6]);
    oracle.drop_all(&[4, 6, 1]).check();
    oracle.put_many(2);
    assert_eq!(oracle.sequences(), [2, 3, 7, 8]);
    oracle.drop_all(&[2, 3, 7, 8]).check();
    oracle.put_many(1);
    assert_eq!(oracle.sequences(), [9]);
    oracle.check();
    // A put and the drop of the checkpoint before it in one commit.
    let doc = oracle.doc("swap");
    oracle.commit(|view, commit| {
        commit.drops.push(9);
        commit.puts.push(doc.seal(&view.slot));
    });
    assert_eq!(oracle.sequences(), [10]);
    oracle.check();
}

/// Every write has a higher stamp than all earlier writes to any run.
pub fn stamps_grow_across_runs(store: &dyn Store) {
    let mut oracles: Vec<_> = (0..3).map(|n| Oracle::begin(store, &format!("order-stamps-{n}"))).collect();
    let mut last = 0;
    for round in 0..12 {
        let oracle = &mut oracles[[0, 1, 0, 2, 2, 1][round % 6]];
        if round % 4 == 3 {
            oracle.commit(|_, _| {});
        } else {
            oracle.put_many(1);
        }
        assert!(oracle.last_stamp() > last, "stamp {} after {last}", oracle.last_stamp());
        last = oracle.last_stamp();
        let row = store.run(oracle.run()).unwrap().unwrap().row;
        assert!(row.stamp >= last, "the run's stamp is that of its last write");
    }
    for oracle in &oracles {
        oracle.check();
    }
}

/// Deleting the run that was written last does not free its stamps.
pub fn stamps_grow_after_delete(store: &dyn Store) {
    let mut last = 0;
    for round in 0..4 {
        let mut oracle = Oracle::begin(store, "order-stamps-delete");
        if round == 3 {
            let view = oracle.view();
            assert!(view.slot.stamp() > last);
        }
        oracle.put_many(2);
        assert!(oracle.last_stamp() > last + 1, "stamp {} after {last}", oracle.last_stamp());
        last = oracle.last_stamp();
        oracle.delete().check();
    }
}

/// Sequences and stamps define the order. The creation time of a checkpoint does not matter.
pub fn clock_going_back_changes_no_order(store: &dyn Store) {
    let mut oracle = Oracle::begin(store, "order-clock");
    for (n, seconds) in [0, 86_400, -86_400, 5, 5, -400_000_000].into_iter().enumerate() {
        oracle.put(&oracle.doc(n).made_at(seconds));
        oracle.check();
    }
    let query = HeaderQuery::default().find(CheckpointFilter::Prefix("cp_order-clock_"));
    let rows = store.headers(&query).unwrap();
    let sequences: Vec<u64> = rows.iter().map(|row| row.cursor().sequence).collect();
    assert_eq!(sequences, [6, 5, 4, 3, 2, 1]);
}
