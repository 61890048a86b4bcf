//! Events are returned in order, at positions that only increase. A run keeps its newest thousand.

use milepost::internal::store::EVENTS_KEPT;
use milepost::model::{Event, RunId};
use milepost::store::{EventQuery, Store};

use crate::fixtures;
use crate::oracle::Oracle;

/// Number of events beyond `EVENTS_KEPT` that a store may keep until it removes them.
pub const SLACK: u64 = EVENTS_KEPT / 4;

fn ask(store: &dyn Store, run: Option<&RunId>, after: u64, limit: usize) -> Vec<(u64, Event)> {
    let page = store.events(&EventQuery::default().run(run).after(after).limit(limit)).unwrap();
    assert!(page.damaged.is_empty(), "damaged events on a healthy store");
    assert!(page.events.is_sorted_by(|a, b| a.0 < b.0), "positions increase");
    page.events
}

fn numbers(run: &RunId, events: &[(u64, Event)]) -> Vec<u64> {
    let own = events.iter().map(|(_, event)| event).filter(|event| event.run_id == *run);
    own.map(|event| event.at.duration_since(fixtures::at(0)).as_secs() as u64).collect()
}

fn add(oracle: &mut Oracle<'_>, numbers: std::ops::Range<u64>) {
    let run = oracle.run().clone();
    oracle.commit(|_, commit| commit.events.extend(numbers.clone().map(|n| fixtures::event(&run, n))));
}

/// Events are returned verbatim and in order, for one run and for all runs.
pub fn come_in_order(store: &dyn Store) {
    let mut oracles = [Oracle::begin(store, "events-order-a"), Oracle::begin(store, "events-order-b")];
    for n in 0..6u64 {
        add(&mut oracles[n as usize % 2], n * 10..n * 10 + 3);
    }
    for oracle in &oracles {
        oracle.check();
    }
    let names: Vec<_> = oracles.iter().map(|oracle| oracle.run().clone()).collect();
    let mut all = ask(store, None, 0, 0);
    all.retain(|(_, event)| names.contains(&event.run_id));
    let seconds: Vec<_> = all.iter().map(|(_, event)| event.at).collect();
    assert!(seconds.is_sorted(), "events of several runs in the order of their writes");
    assert_eq!(seconds.len(), 18);
    for (run, oracle) in names.iter().zip(&oracles) {
        let own: Vec<_> = all.iter().filter(|(_, event)| event.run_id == *run).cloned().collect();
        assert_eq!(own, ask(store, Some(oracle.run()), 0, 0), "the same positions for one run and for all");
    }
}

/// `after` excludes events at or before a position. Positions are never reused.
pub fn page_by_position(store: &dyn Store) {
    let mut oracle = Oracle::begin(store, "events-after");
    add(&mut oracle, 0..10);
    let run = oracle.run().clone();
    let all = ask(store, Some(&run), 0, 0);
    for (at, (position, _)) in all.iter().enumerate() {
        assert_eq!(ask(store, Some(&run), *position, 0), all[at + 1..], "events after {position}");
        assert_eq!(
            numbers(&run, &ask(store, None, *position, 0)).len(),
            9 - at,
            "events of all runs after {position}"
        );
    }
    let last = all.last().unwrap().0;
    assert!(ask(store, Some(&run), u64::MAX, 0).is_empty());
    oracle.delete();
    assert!(ask(store, Some(&run), 0, 0).is_empty());
    add(&mut oracle, 20..21);
    assert_eq!(
        numbers(&run, &ask(store, Some(&run), last, 0)),
        [20],
        "a follower sees the events after a delete"
    );
    oracle.check();
}

/// `limit` selects the newest events, still ordered oldest first, even when combined with `after`.
pub fn limit_takes_the_newest(store: &dyn Store) {
    let mut oracle = Oracle::begin(store, "events-limit");
    add(&mut oracle, 0..7);
    add(&mut oracle, 7..20);
    let run = oracle.run().clone();
    let all = ask(store, Some(&run), 0, 0);
    for limit in [1, 2, 19, 20, 21, 1000] {
        let from = 20usize.saturating_sub(limit);
        assert_eq!(ask(store, Some(&run), 0, limit), all[from..], "limit {limit}");
    }
    assert_eq!(ask(store, Some(&run), all[4].0, 5), all[15..], "newest 5 after a position");
    assert_eq!(ask(store, Some(&run), all[17].0, 5), all[18..], "fewer than the limit after a position");
    assert_eq!(ask(store, None, 0, 3).len(), 3, "limit over all runs");
}

/// A run keeps its newest thousand events, and few more.
pub fn are_bounded(store: &dyn Store) {
    let mut oracle = Oracle::begin(store, "events-bounded");
    let mut other = Oracle::begin(store, "events-bounded-other");
    add(&mut other, 0..5);
    let run = oracle.run().clone();
    let mut written = 0;
    for size in [400, 400, 199, 1, 1, 1, 100, 400, 700, 30] {
        add(&mut oracle, written..written + size);
        written += size;
        bounded(store, &run, written);
    }
    oracle.check();
    other.check();
    assert_eq!(ask(store, Some(other.run()), 0, 0).len(), 5, "another run's events");
}

/// One commit may add more events than a run keeps.
pub fn are_bounded_in_one_commit(store: &dyn Store) {
    let mut oracle = Oracle::begin(store, "events-flood");
    let run = oracle.run().clone();
    add(&mut oracle, 0..1700);
    add(&mut oracle, 1700..1701);
    bounded(store, &run, 1701);
}

fn bounded(store: &dyn Store, run: &RunId, written: u64) {
    let kept = numbers(run, &ask(store, Some(run), 0, 0));
    let count = kept.len() as u64;
    assert!(count >= written.min(EVENTS_KEPT), "only {count} of {written} events are kept");
    assert!(count <= EVENTS_KEPT + SLACK, "{count} of {written} events are kept");
    let astray = kept.iter().zip(written - count..written).find(|(is, should)| *is != should);
    assert_eq!(astray, None, "the newest are kept, in order: actual and expected");
}
