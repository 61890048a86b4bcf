//! Pending items are durable without a checkpoint, and stay in order until a commit consumes them.

use milepost::internal::model::JsonPath;
use milepost::model::{Criterion, CriterionStatus, Item, Phase, RawObject};
use milepost::store::{Commit, Store, WriteDecision};

use crate::fixtures;
use crate::oracle::{Oracle, refused_by_rules, shown};

/// Adds an item for each number.
fn push(oracle: &mut Oracle<'_>, numbers: std::ops::Range<u64>) {
    oracle.commit(|_, commit| commit.push.extend(numbers.clone().map(|n| fixtures::item(n.to_string()))));
}

/// Items are returned in the order they were pushed, across commits and kinds.
pub fn come_in_order(store: &dyn Store) {
    let mut oracle = Oracle::begin(store, "items-order");
    // A run may start with items and without a checkpoint.
    oracle.commit(|_, commit| commit.push.push(fixtures::item("first"))).check();
    for n in 0..5 {
        oracle.commit(|_, commit| {
            let extra = RawObject::parse("{\"zeta\":9007199254740993}", &JsonPath::Root).unwrap();
            commit.push.push(fixtures::item(format!("é{n}\u{0}")));
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
        oracle.check();
    }
    oracle
        .commit(|_, commit| commit.push.extend((0..150).map(|n| fixtures::item(format!("many {n}")))))
        .check();
}

/// A commit consumes items from the front. The items that it pushes follow the remaining ones.
pub fn are_consumed_from_the_front(store: &dyn Store) {
    let mut oracle = Oracle::begin(store, "items-consumed");
    push(&mut oracle, 0..10);
    oracle.commit(|_, commit| commit.consume = 3).check();
    assert_eq!(oracle.items()[0], fixtures::item("3"));
    let doc = oracle.doc("folds");
    oracle.commit(|view, commit| {
        commit.puts.push(doc.seal(&view.slot));
        commit.consume = 4;
        commit.push.push(fixtures::item("behind"));
    });
    oracle.check();
    assert_eq!(oracle.items().len(), 4);
    oracle.commit(|view, commit| commit.consume = shown(view).items.len()).check();
    oracle.commit(|_, commit| commit.push.push(fixtures::item("again"))).check();
    oracle.commit(|_, commit| {
        commit.consume = 1;
        commit.push.push(fixtures::item("in its place"));
    });
    oracle.check();
    assert_eq!(oracle.items(), [fixtures::item("in its place")]);
}

/// Puts and drops do not change the items.
pub fn survive_other_commits(store: &dyn Store) {
    let mut oracle = Oracle::begin(store, "items-kept");
    push(&mut oracle, 0..3);
    oracle.put_many(3);
    oracle.drop_all(&[1, 3]).check();
    oracle.drop_all(&[2]).check();
    assert_eq!(oracle.items().len(), 3);
}

/// A decision that requests details gets them together with the same view, in one transaction. A second
/// request for details is refused. Items that were not shown cannot be consumed.
pub fn are_shown_with_details(store: &dyn Store) {
    let mut oracle = Oracle::begin(store, "items-asked");
    oracle.put_many(3);
    push(&mut oracle, 0..3);
    let mut seen = Vec::new();
    let asked = store.write(oracle.run(), &mut |view| {
        seen.push(view.clone());
        WriteDecision::NeedDetails
    });
    refused_by_rules(asked);
    let last = seen.last().expect("the store never called the decision");
    assert_eq!(shown(last).items, oracle.items());
    assert_eq!(shown(last).oldest.len(), 3);
    for view in &seen {
        assert_eq!((&view.record, &view.slot, view.count), (&last.record, &last.slot, last.count));
        assert_eq!((&view.latest, view.waiting), (&last.latest, 3));
    }
    oracle.check();
    let taken = store.write(oracle.run(), &mut |view| {
        let mut commit = Commit::new(fixtures::next_record(oracle.run(), view));
        commit.consume = view.details.as_ref().map_or(1, |details| details.items.len() + 1);
        WriteDecision::Commit(Box::new(commit))
    });
    refused_by_rules(taken);
    oracle.check();
}

/// A commit that consumes more items than the view shows is refused and writes nothing.
pub fn consuming_more_than_shown_is_refused(store: &dyn Store) {
    let mut oracle = Oracle::begin(store, "items-beyond");
    for count in 0..3 {
        let doc = oracle.doc(format!("never-{count}"));
        oracle.expect_refusal(|view, commit| {
            commit.puts.push(doc.seal(&view.slot));
            commit.push.push(fixtures::item("never"));
            commit.consume = shown(view).items.len() + 1;
        });
        oracle.commit(|_, commit| commit.push.push(fixtures::item(format!("{count}"))));
    }
    oracle.check();
}
