//! Marks change without their checkpoint. Protected checkpoints do not count towards the number of oldest
//! checkpoints that a view shows.

use milepost::internal::model::JsonPath;
use milepost::internal::store::OLDEST_SHOWN;
use milepost::model::{Marks, MemoryUsage, RawObject};
use milepost::store::{Commit, Store, StoreError, WriteDecision};

use crate::fixtures::{self, tagged};
use crate::oracle::{Oracle, shown};

fn pinned() -> Marks {
    Marks { revision: 1, pinned: true, ..Marks::default() }
}

/// Marks with every member set.
fn full(revision: u64) -> Marks {
    Marks {
        revision,
        completed: Some(true),
        sources: vec!["timer".into(), "manual".into()],
        reasons: vec!["größer".into()],
        folded: 3,
        pinned: true,
        tags: vec![format!("marks full {revision}"), "é\u{1F600}'\"%_\\".into()],
        refreshed_at: Some(fixtures::at(7)),
        memory: Some(MemoryUsage { rss: Some(1), ..MemoryUsage::default() }),
        extra: RawObject::parse("{\"zeta\":9007199254740993,\"Alpha\":-0.0}", &JsonPath::Root).unwrap(),
    }
}

/// A commit can set the marks of the checkpoint that it puts.
pub fn set_with_a_put(store: &dyn Store) {
    let mut oracle = Oracle::begin(store, "marks-put");
    oracle.put_many(1);
    let doc = oracle.doc("marked");
    let sequence = oracle.put_marked(&doc, Some(full(1)));
    oracle.check();
    assert_eq!(oracle.view().latest.unwrap().marks, full(1));
    oracle.put_many(1).check();
    assert_eq!(oracle.entry(sequence).marks, full(1));
}

/// Two writers that read the same marks do not overwrite each other: an old or equal revision is refused.
pub fn stale_revision_is_refused(store: &dyn Store) {
    let mut oracle = Oracle::begin(store, "marks-moved");
    oracle.put_many(3);
    oracle.mark(2, full(2));
    for revision in [0, 1, 2] {
        let run = oracle.run().clone();
        let stale = tagged(revision, &[]);
        let refused = store.write(&run, &mut |view| {
            let mut commit = Commit::new(fixtures::next_record(&run, view));
            commit.marks.push((2, stale.clone()));
            WriteDecision::Commit(Box::new(commit))
        });
        assert!(matches!(refused, Err(StoreError::MarksMoved(_, 2))), "revision {revision}: {refused:?}");
        oracle.check();
    }
}

/// Marks can be replaced, always completely, with the revision from the decision.
pub fn replaced_later(store: &dyn Store) {
    let mut oracle = Oracle::begin(store, "marks-replaced");
    oracle.put_many(4);
    for revision in [1, 2, 3, 40] {
        for sequence in [1, 3, 4] {
            oracle.mark(sequence, full(revision));
        }
        oracle.check();
    }
    oracle.mark(3, tagged(41, &[]));
    oracle.mark(4, tagged(41, &["only"])).check();
    // Several marks in one commit, one of them for a checkpoint in the same commit.
    let doc = oracle.doc("with");
    oracle.commit(|view, commit| {
        commit.puts.push(doc.seal(&view.slot));
        commit.marks.push((view.slot.sequence(), full(1)));
        commit.marks.push((1, full(42)));
        commit.marks.push((2, pinned()));
    });
    oracle.check();
}

/// Marks are removed with their checkpoint. A later checkpoint does not inherit them.
pub fn gone_with_the_checkpoint(store: &dyn Store) {
    let mut oracle = Oracle::begin(store, "marks-gone");
    oracle.put_many(3);
    oracle.mark(3, full(1));
    oracle.mark(1, full(1));
    oracle.drop_all(&[1, 3]).check();
    oracle.put_many(1).check();
    assert_eq!(oracle.view().latest.unwrap().marks, Marks::default());
}

/// The view shows at most `OLDEST_SHOWN` of the oldest unprotected checkpoints.
pub fn oldest_stops_at_the_last_shown(store: &dyn Store) {
    let mut oracle = Oracle::begin(store, "marks-oldest");
    for _ in 0..OLDEST_SHOWN + 3 {
        oracle.put_many(1).check();
    }
    assert_eq!(shown(&oracle.view()).oldest.len(), OLDEST_SHOWN);
    oracle.drop_all(&[2, 5]).check();
    // The two dropped checkpoints make room for the next two.
    assert_eq!(shown(&oracle.view()).oldest.last().unwrap().header.sequence(), OLDEST_SHOWN as u64 + 2);
}

/// Old protected checkpoints, pinned or tagged, are shown in addition to the unprotected ones.
pub fn oldest_includes_protected_ones(store: &dyn Store) {
    let mut oracle = Oracle::begin(store, "marks-protected");
    oracle.put_many(60).check();
    for sequence in 1..=30 {
        oracle.mark(sequence, if sequence % 2 == 0 { pinned() } else { full(1) });
    }
    oracle.mark(33, tagged(1, &["kept"]));
    // Marks that do not protect the checkpoint.
    oracle.mark(34, Marks { revision: 1, folded: 2, ..Marks::default() }).check();
    assert_eq!(shown(&oracle.view()).oldest.len(), 30 + OLDEST_SHOWN + 1);
    oracle.mark(10, tagged(2, &[])).check();
    oracle.drop_all(&[10, 31]).check();
}
