//! Maintenance of a healthy store finds no problem and loses no data.

use milepost::store::{CheckpointFilter, HeaderQuery, Maintenance, RetentionEntry, Row, Store};

use crate::fixtures;
use crate::oracle::Oracle;
use crate::rng::{edited, text};

fn used<'a>(store: &'a dyn Store, name: &str) -> Oracle<'a> {
    let mut oracle = Oracle::begin(store, name);
    let mut state = text(6000, 1);
    for n in 0..24 {
        state = edited(&state, 5, n);
        oracle.put(&oracle.doc(n).state(state.clone()).made_at(n as i64 * 3600));
    }
    oracle.mark(3, fixtures::tagged(1, &[&format!("{name}-tag")]));
    oracle.drop_all(&[1, 2, 7, 8, 9, 20]);
    let run = oracle.run().clone();
    oracle.commit(|_, commit| {
        commit.push.push(fixtures::item("pending"));
        commit.events.push(fixtures::event(&run, 1));
    });
    oracle
}

/// `Inspect` finds no problem, before and after every kind of change.
pub fn finds_nothing_on_a_healthy_store(store: &dyn Store) {
    let inspect = |when: &str| {
        let report = store.maintain(Maintenance::Inspect).unwrap();
        assert_eq!(report.problems, [], "{when}");
        let stray = store.headers(&HeaderQuery::default().find(CheckpointFilter::Orphaned)).unwrap();
        assert_eq!(stray, [], "rows without a run, {when}");
    };
    let mut oracle = Oracle::begin(store, "maintenance-inspect");
    inspect("a new store");
    oracle.view();
    inspect("after a decision without a change");
    oracle.commit(|_, _| {});
    inspect("a run without checkpoints");
    let oracle_2 = used(store, "maintenance-inspect-2");
    inspect("a used store");
    let mut oracle_3 = used(store, "maintenance-inspect-3");
    oracle_3.delete();
    inspect("after a delete");
    let all = oracle_2.sequences();
    let mut oracle_2 = oracle_2;
    oracle_2.drop_all(&all);
    inspect("after dropping everything");
    oracle_2.check();
    oracle.check();
}

/// `Repair`, `Compact` and `Compress` change no data and leave the store usable.
pub fn keeps_all_data(store: &dyn Store) {
    let mut oracle = used(store, "maintenance-loses");
    let mut gone = used(store, "maintenance-loses-gone");
    gone.delete();
    let kinds = [
        Maintenance::Inspect,
        Maintenance::Repair,
        Maintenance::Compact,
        Maintenance::Compress { run: None, before: fixtures::at(0) },
        Maintenance::Compress { run: None, before: fixtures::at(12 * 3600) },
        Maintenance::Compress { run: None, before: fixtures::at(1_000_000_000) },
        Maintenance::Inspect,
        Maintenance::Repair,
        Maintenance::Compact,
    ];
    for (n, what) in kinds.into_iter().enumerate() {
        let report = store.maintain(what).unwrap();
        if what == Maintenance::Repair {
            assert_eq!(report.done, 0, "a healthy store has nothing to repair");
        }
        assert_eq!(report.problems, [], "{what:?}");
        oracle.check();
        oracle.put(&oracle.doc(format!("between-{n}")).state(text(3000, n as u64)));
        let oldest = oracle.sequences()[0];
        oracle.drop_all(&[oldest]).check();
    }
    gone.check();
    let all = oracle.sequences();
    oracle.drop_all(&all[..all.len() - 1]).check();
}

/// Each checkpoint has a retention entry with a size. `Compress` skips the newest checkpoint and those that
/// are already packed.
pub fn retention_entries_match_headers(store: &dyn Store) {
    let mut oracle = used(store, "maintenance-weighs");
    let other = used(store, "maintenance-weighs-other");
    let sequences = |oracle: &Oracle<'_>| -> Vec<u64> {
        let outlines = store.retention_entries(oracle.run(), None).unwrap();
        assert!(outlines.iter().all(|outline| outline.bytes() > 0), "{outlines:?}");
        let query = HeaderQuery::default().run(oracle.run()).oldest_first(true);
        let entries = store.headers(&query).unwrap().into_iter().filter_map(Row::intact);
        for (outline, entry) in outlines.iter().zip(entries) {
            let expected = RetentionEntry::of(&entry).with_size(outline.bytes(), outline.packed());
            assert_eq!(*outline, expected, "the entry matches the header");
        }
        let few = store.retention_entries(oracle.run(), Some(2)).unwrap();
        let told = |outline: &RetentionEntry| {
            (outline.sequence(), outline.snapshot_id().clone(), outline.created_at())
        };
        assert!(few.iter().map(told).eq(outlines.iter().map(told)), "{few:?}");
        assert!(few.iter().rev().take(2).eq(outlines.iter().rev().take(2)), "the newest are verified");
        outlines.iter().map(|outline| outline.sequence()).collect()
    };
    assert_eq!(sequences(&oracle), oracle.sequences());
    let loose = |oracle: &Oracle<'_>| {
        let outlines = store.retention_entries(oracle.run(), None).unwrap();
        outlines
            .iter()
            .filter(|outline| !outline.packed())
            .map(|outline| outline.sequence())
            .collect::<Vec<_>>()
    };
    let (before, untouched) = (loose(&oracle), loose(&other));
    let compress = Maintenance::Compress { run: Some(oracle.run()), before: fixtures::at(1_000_000_000) };
    let newest = oracle.sequences().last().copied();
    let expected = before.iter().filter(|sequence| Some(**sequence) != newest).count() as u64;
    assert_eq!(store.maintain(compress).unwrap().done, expected);
    assert_eq!(store.maintain(compress).unwrap().done, 0, "the second time, nothing remains to compress");
    assert_eq!(loose(&other), untouched, "another run");
    assert!(loose(&oracle).iter().all(|sequence| Some(*sequence) == newest));
    oracle.check();
    other.check();
    let oldest = oracle.sequences()[0];
    oracle.drop_all(&[oldest]);
    assert_eq!(sequences(&oracle), oracle.sequences());
    assert_eq!(store.retention_entries(&fixtures::run_id("maintenance-weighs-nobody"), None).unwrap(), []);
}

/// A store reports its address and its size.
pub fn info_names_address_and_size(store: &dyn Store) {
    let mut oracle = Oracle::begin(store, "maintenance-info");
    oracle.put_many(1);
    let info = store.info().unwrap();
    assert!(!info.url().is_empty(), "the address");
    assert!(info.bytes() > 0, "a store with a checkpoint takes space");
}
