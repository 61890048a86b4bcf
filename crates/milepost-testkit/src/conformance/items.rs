//! Items are durable on their own, in order, until a decision takes them.

use milepost::model::{Criterion, CriterionStatus, Fields, Item, Path, Phase};
use milepost::store::{Commit, Store, Verdict};

use super::write::refused_by_rules;
use crate::doc;
use crate::ledger::{Ledger, shown};

/// Items come back in the order they were pushed, over commits and kinds.
pub fn come_in_order(store: &dyn Store) {
    let mut ledger = Ledger::begin(store, "items-order");
    // A run may begin with items and no checkpoint.
    ledger.commit(|_, commit| commit.push.push(doc::item("first")));
    ledger.check();
    for n in 0..5 {
        ledger.commit(|_, commit| {
            let extra = Fields::parse("{\"zeta\":9007199254740993}", &Path::Root).unwrap();
            commit.push.push(doc::item(format!("é{n}\u{0}")));
            commit.push.push(Item::Phase(Phase {
                name: Some("BUILD".into()),
                number: n,
                extra: extra.clone(),
            }));
            let status = CriterionStatus::Pending;
            commit.push.push(Item::Criterion(Criterion {
                id: "c".into(),
                status,
                subject: String::new(),
                extra,
            }));
        });
        ledger.check();
    }
    ledger.commit(|_, commit| commit.push.extend((0..150).map(|n| doc::item(format!("many {n}")))));
    ledger.check();
}

/// A decision takes items from the front; what it pushes comes behind those left.
pub fn are_consumed_from_the_front(store: &dyn Store) {
    let mut ledger = Ledger::begin(store, "items-consumed");
    ledger.commit(|_, commit| commit.push.extend((0..10).map(|n| doc::item(format!("{n}")))));
    ledger.commit(|_, commit| commit.consume = 3);
    ledger.check();
    assert_eq!(ledger.items()[0], doc::item("3"));
    let doc = ledger.doc("folds");
    ledger.commit(|view, commit| {
        commit.puts.push(doc.seal(&view.slot));
        commit.consume = 4;
        commit.push.push(doc::item("behind"));
    });
    ledger.check();
    assert_eq!(ledger.items().len(), 4);
    ledger.commit(|view, commit| commit.consume = shown(view).items.len());
    ledger.check();
    ledger.commit(|_, commit| commit.push.push(doc::item("again")));
    ledger.check();
    ledger.commit(|_, commit| {
        commit.consume = 1;
        commit.push.push(doc::item("in its place"));
    });
    ledger.check();
    assert_eq!(ledger.items(), [doc::item("in its place")]);
}

/// Puts, drops and marks leave items alone.
pub fn are_kept_otherwise(store: &dyn Store) {
    let mut ledger = Ledger::begin(store, "items-kept");
    ledger.commit(|_, commit| commit.push.extend((0..3).map(|n| doc::item(format!("{n}")))));
    ledger.put_many(3);
    ledger.drop_all(&[1, 3]);
    ledger.check();
    ledger.drop_all(&[2]);
    ledger.check();
    assert_eq!(ledger.items().len(), 3);
}

/// A decision that asks for more is shown it beside what it saw before, in one transaction; one that was shown all and
/// asks again is refused. What was not shown cannot be taken.
pub fn are_shown_when_asked_for(store: &dyn Store) {
    let mut ledger = Ledger::begin(store, "items-asked");
    ledger.put_many(3);
    ledger.commit(|_, commit| commit.push.extend((0..3).map(|n| doc::item(format!("{n}")))));
    let mut seen = Vec::new();
    let asked = store.write(ledger.run(), &mut |view| {
        seen.push(view.clone());
        Verdict::More
    });
    refused_by_rules(asked);
    let last = seen.last().expect("the store never asked for a decision");
    assert_eq!(shown(last).items, ledger.items());
    assert_eq!(shown(last).oldest.len(), 3);
    for view in &seen {
        assert_eq!((&view.record, &view.slot, view.count), (&last.record, &last.slot, last.count));
        assert_eq!((&view.latest, view.waiting), (&last.latest, 3));
    }
    ledger.check();
    let taken = store.write(ledger.run(), &mut |view| {
        let mut commit = Commit::of(doc::next_record(ledger.run(), view));
        commit.consume = view.more.as_ref().map_or(1, |more| more.items.len() + 1);
        Verdict::Commit(Box::new(commit))
    });
    refused_by_rules(taken);
    ledger.check();
}

/// More items than the view shows cannot be taken, and nothing of such a commit is written.
pub fn beyond_the_view_are_refused(store: &dyn Store) {
    let mut ledger = Ledger::begin(store, "items-beyond");
    for count in 0..3 {
        let doc = ledger.doc(format!("never-{count}"));
        refused_by_rules(ledger.attempt(|view, commit| {
            commit.puts.push(doc.seal(&view.slot));
            commit.push.push(doc::item("never"));
            commit.consume = shown(view).items.len() + 1;
        }));
        ledger.check();
        ledger.commit(|_, commit| commit.push.push(doc::item(format!("{count}"))));
    }
    ledger.check();
}
