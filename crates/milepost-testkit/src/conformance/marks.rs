//! Marks change without their checkpoint; what they protect is passed over by the view's oldest.

use milepost::model::{Fields, Marks, Memory, Path};
use milepost::store::{Commit, OLDEST_SHOWN, Store, StoreError, Verdict};

use crate::doc;
use crate::ledger::{Ledger, shown};

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
        refreshed_at: Some(doc::at(7)),
        memory: Some(Memory { rss: Some(1), ..Memory::default() }),
        extra: Fields::parse("{\"zeta\":9007199254740993,\"Alpha\":-0.0}", &Path::Root).unwrap(),
    }
}

/// Marks may come with the checkpoint they are of.
pub fn set_with_a_put(store: &dyn Store) {
    let mut ledger = Ledger::begin(store, "marks-put");
    ledger.put_many(1);
    let doc = ledger.doc("marked");
    let sequence = ledger.put_marked(&doc, Some(full(1)));
    ledger.check();
    assert_eq!(ledger.view().latest.unwrap().marks, full(1));
    ledger.put_many(1);
    ledger.check();
    assert_eq!(ledger.entry(sequence).marks, full(1));
}

/// Two writers that read the same marks do not overwrite each other: a revision that is taken is refused.
pub fn refused_where_they_have_moved(store: &dyn Store) {
    let mut ledger = Ledger::begin(store, "marks-moved");
    ledger.put_many(3);
    ledger.mark(2, full(2));
    for revision in [0, 1, 2] {
        let run = ledger.run().clone();
        let stale = Marks { revision, pinned: false, ..Marks::default() };
        let refused = store.write(&run, &mut |view| {
            let mut commit = Commit::of(doc::next_record(&run, view));
            commit.marks.push((2, stale.clone()));
            Verdict::Commit(Box::new(commit))
        });
        assert!(matches!(refused, Err(StoreError::MarksMoved(_, 2))), "revision {revision}: {refused:?}");
        ledger.check();
    }
}

/// Marks may be replaced, each time as a whole, at the revision the decision gives.
pub fn replaced_later(store: &dyn Store) {
    let mut ledger = Ledger::begin(store, "marks-replaced");
    ledger.put_many(4);
    for revision in [1, 2, 3, 40] {
        for sequence in [1, 3, 4] {
            ledger.mark(sequence, full(revision));
        }
        ledger.check();
    }
    ledger.mark(3, Marks { revision: 41, ..Marks::default() });
    ledger.mark(4, Marks { revision: 41, tags: vec!["only".into()], ..Marks::default() });
    ledger.check();
    // Several at once, one of them of a checkpoint that comes with them.
    let doc = ledger.doc("with");
    ledger.commit(|view, commit| {
        commit.puts.push(doc.seal(&view.slot));
        commit.marks.push((view.slot.sequence(), full(1)));
        commit.marks.push((1, full(42)));
        commit.marks.push((2, pinned()));
    });
    ledger.check();
}

/// Marks go with their checkpoint; a later one has none of them.
pub fn gone_with_the_checkpoint(store: &dyn Store) {
    let mut ledger = Ledger::begin(store, "marks-gone");
    ledger.put_many(3);
    ledger.mark(3, full(1));
    ledger.mark(1, full(1));
    ledger.drop_all(&[1, 3]);
    ledger.check();
    ledger.put_many(1);
    ledger.check();
    assert_eq!(ledger.view().latest.unwrap().marks, Marks::default());
}

/// The view shows the oldest up to the last that is shown.
pub fn oldest_stops_at_the_last_shown(store: &dyn Store) {
    let mut ledger = Ledger::begin(store, "marks-oldest");
    for _ in 0..OLDEST_SHOWN + 3 {
        ledger.put_many(1);
        ledger.check();
    }
    assert_eq!(shown(&ledger.view()).oldest.len(), OLDEST_SHOWN);
    ledger.drop_all(&[2, 5]);
    ledger.check();
    // The two that went make room for the next two.
    assert_eq!(shown(&ledger.view()).oldest.last().unwrap().header.sequence, OLDEST_SHOWN as u64 + 2);
}

/// Protected ones at the start are shown beside the others, pinned and tagged alike.
pub fn oldest_passes_over_protected_ones(store: &dyn Store) {
    let mut ledger = Ledger::begin(store, "marks-protected");
    ledger.put_many(60);
    ledger.check();
    for sequence in 1..=30 {
        ledger.mark(sequence, if sequence % 2 == 0 { pinned() } else { full(1) });
    }
    ledger.mark(33, Marks { revision: 1, tags: vec!["kept".into()], ..Marks::default() });
    // Marks that protect nothing.
    ledger.mark(34, Marks { revision: 1, folded: 2, ..Marks::default() });
    ledger.check();
    assert_eq!(shown(&ledger.view()).oldest.len(), 30 + OLDEST_SHOWN + 1);
    ledger.mark(10, Marks { revision: 2, ..Marks::default() });
    ledger.check();
    ledger.drop_all(&[10, 31]);
    ledger.check();
}
