//! House-keeping on a healthy store finds nothing and loses nothing.

use milepost::model::Marks;
use milepost::store::{Find, HeaderQuery, Outline, Row, Store, Upkeep};

use crate::chance::{edited, text};
use crate::doc;
use crate::ledger::Ledger;

fn used<'a>(store: &'a dyn Store, name: &str) -> Ledger<'a> {
    let mut ledger = Ledger::begin(store, name);
    let mut state = text(6000, 1);
    for n in 0..24 {
        state = edited(&state, 5, n);
        let doc = ledger.doc(n).state(state.clone()).made_at(n as i64 * 3600);
        ledger.put(&doc);
    }
    ledger.mark(3, Marks { revision: 1, tags: vec![format!("{name}-tag")], ..Marks::default() });
    ledger.drop_all(&[1, 2, 7, 8, 9, 20]);
    let run = ledger.run().clone();
    ledger.commit(|_, commit| {
        commit.push.push(doc::item("pending"));
        commit.events.push(doc::event(&run, 1));
    });
    ledger
}

/// `Inspect` finds no problem, before and after everything a store goes through.
pub fn finds_nothing_on_a_healthy_store(store: &dyn Store) {
    let inspect = |when: &str| {
        let report = store.upkeep(Upkeep::Inspect).unwrap();
        assert_eq!(report.problems, [], "{when}");
        let stray = store.headers(&HeaderQuery { find: Find::Stray, ..HeaderQuery::default() }).unwrap();
        assert_eq!(stray, [], "rows without a run, {when}");
    };
    let mut ledger = Ledger::begin(store, "upkeep-inspect");
    inspect("a new store");
    ledger.view();
    inspect("after a decision for nothing");
    ledger.commit(|_, _| {});
    inspect("a run without checkpoints");
    let ledger_2 = used(store, "upkeep-inspect-2");
    inspect("a used store");
    let mut ledger_3 = used(store, "upkeep-inspect-3");
    ledger_3.delete();
    inspect("after a delete");
    let all = ledger_2.sequences();
    let mut ledger_2 = ledger_2;
    ledger_2.drop_all(&all);
    inspect("after dropping everything");
    ledger_2.check();
    ledger.check();
}

/// `Repair`, `Compact` and `Compress` leave everything as it was, and the store usable.
pub fn loses_nothing(store: &dyn Store) {
    let mut ledger = used(store, "upkeep-loses");
    let mut gone = used(store, "upkeep-loses-gone");
    gone.delete();
    let kinds = [
        Upkeep::Inspect,
        Upkeep::Repair,
        Upkeep::Compact,
        Upkeep::Compress { run: None, before: doc::at(0) },
        Upkeep::Compress { run: None, before: doc::at(12 * 3600) },
        Upkeep::Compress { run: None, before: doc::at(1_000_000_000) },
        Upkeep::Inspect,
        Upkeep::Repair,
        Upkeep::Compact,
    ];
    for (n, what) in kinds.into_iter().enumerate() {
        let report = store.upkeep(what).unwrap();
        if what == Upkeep::Repair {
            assert_eq!(report.done, 0, "a healthy store has nothing to mend");
        }
        assert_eq!(report.problems, [], "{what:?}");
        ledger.check();
        let doc = ledger.doc(format!("between-{n}")).state(text(3000, n as u64));
        ledger.put(&doc);
        let oldest = ledger.sequences()[0];
        ledger.drop_all(&[oldest]);
        ledger.check();
    }
    gone.check();
    let all = ledger.sequences();
    ledger.drop_all(&all[..all.len() - 1]);
    ledger.check();
}

/// Each checkpoint is in the outline and takes space, and what is packed is left alone by `Compress`, as is the newest and what is young.
pub fn weighs_what_it_holds(store: &dyn Store) {
    let mut ledger = used(store, "upkeep-weighs");
    let other = used(store, "upkeep-weighs-other");
    let sequences = |ledger: &Ledger<'_>| -> Vec<u64> {
        let outlines = store.outline(ledger.run(), None).unwrap();
        assert!(outlines.iter().all(|outline| outline.bytes > 0), "{outlines:?}");
        let query = HeaderQuery { run: Some(ledger.run()), oldest_first: true, ..HeaderQuery::default() };
        let entries = store.headers(&query).unwrap().into_iter().filter_map(Row::good);
        for (outline, entry) in outlines.iter().zip(entries) {
            let Outline { bytes, packed, .. } = *outline;
            assert_eq!(*outline, Outline { bytes, packed, ..Outline::of(&entry) }, "as the header says");
        }
        let few = store.outline(ledger.run(), Some(2)).unwrap();
        let told = |outline: &Outline| (outline.sequence, outline.snapshot_id.clone(), outline.created_at);
        assert!(few.iter().map(told).eq(outlines.iter().map(told)), "{few:?}");
        assert!(few.iter().rev().take(2).eq(outlines.iter().rev().take(2)), "the newest are proven");
        outlines.iter().map(|outline| outline.sequence).collect()
    };
    assert_eq!(sequences(&ledger), ledger.sequences());
    let loose = |ledger: &Ledger<'_>| {
        let outlines = store.outline(ledger.run(), None).unwrap();
        outlines.iter().filter(|outline| !outline.packed).map(|outline| outline.sequence).collect::<Vec<_>>()
    };
    let (before, untouched) = (loose(&ledger), loose(&other));
    let compress = Upkeep::Compress { run: Some(ledger.run()), before: doc::at(1_000_000_000) };
    let newest = ledger.sequences().last().copied();
    let expected = before.iter().filter(|sequence| Some(**sequence) != newest).count() as u64;
    assert_eq!(store.upkeep(compress).unwrap().done, expected);
    assert_eq!(store.upkeep(compress).unwrap().done, 0, "a second time there is nothing left");
    assert_eq!(loose(&other), untouched, "another run");
    assert!(loose(&ledger).iter().all(|sequence| Some(*sequence) == newest));
    ledger.check();
    other.check();
    let oldest = ledger.sequences()[0];
    ledger.drop_all(&[oldest]);
    assert_eq!(sequences(&ledger), ledger.sequences());
    assert_eq!(store.outline(&doc::run_id("upkeep-weighs-nobody"), None).unwrap(), []);
}

/// A store says where it is.
pub fn info_speaks(store: &dyn Store) {
    let mut ledger = Ledger::begin(store, "upkeep-info");
    ledger.put_many(1);
    let info = store.info().unwrap();
    assert!(!info.url.is_empty(), "the address");
    assert!(info.bytes > 0, "a store with a checkpoint takes space");
}
