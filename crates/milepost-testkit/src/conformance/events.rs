//! Events are returned in order, each with a cursor from which a list can continue. A run keeps its newest
//! thousand.

use std::collections::HashSet;

use milepost::internal::store::EVENTS_KEPT;
use milepost::model::{Event, RunId};
use milepost::store::{EventCursor, EventQuery, Store};

use crate::fixtures;
use crate::oracle::Oracle;

/// Number of events beyond `EVENTS_KEPT` that a store may keep until it removes them.
pub const SLACK: u64 = EVENTS_KEPT / 4;

fn ask(
    store: &dyn Store,
    run: Option<&RunId>,
    after: Option<&EventCursor>,
    limit: usize,
) -> Vec<(EventCursor, Event)> {
    let page = store.events(&EventQuery::default().run(run).after(after).limit(limit)).unwrap();
    assert!(page.damaged.is_empty(), "damaged events on a healthy store");
    let cursors: HashSet<_> = page.events.iter().map(|(cursor, _)| cursor).collect();
    assert_eq!(cursors.len(), page.events.len(), "each event has its own cursor");
    page.events
}

/// The events without their cursors, whose text may depend on the query.
fn only_events(events: &[(EventCursor, Event)]) -> Vec<&Event> {
    events.iter().map(|(_, event)| event).collect()
}

fn numbers(run: &RunId, events: &[(EventCursor, Event)]) -> Vec<u64> {
    let own = only_events(events).into_iter().filter(|event| event.run_id == *run);
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
    let mut all = ask(store, None, None, 0);
    all.retain(|(_, event)| names.contains(&event.run_id));
    let seconds: Vec<_> = all.iter().map(|(_, event)| event.at).collect();
    assert!(seconds.is_sorted(), "events of several runs in the order of their writes");
    assert_eq!(seconds.len(), 18);
    for (run, oracle) in names.iter().zip(&oracles) {
        let own: Vec<_> = all.iter().filter(|(_, event)| event.run_id == *run).cloned().collect();
        let of_run = ask(store, Some(oracle.run()), None, 0);
        assert_eq!(only_events(&own), only_events(&of_run), "the same events for one run and for all");
    }
}

/// `after` excludes the event of a cursor and those before it. The cursors of a deleted run stay valid.
pub fn continue_after_a_cursor(store: &dyn Store) {
    let mut oracle = Oracle::begin(store, "events-after");
    add(&mut oracle, 0..10);
    let run = oracle.run().clone();
    let all = ask(store, Some(&run), None, 0);
    for (at, (cursor, _)) in all.iter().enumerate() {
        // A cursor may have been kept as text.
        let cursor: EventCursor = cursor.to_string().parse().unwrap();
        let later = ask(store, Some(&run), Some(&cursor), 0);
        assert_eq!(only_events(&later), only_events(&all[at + 1..]), "events after {cursor}");
    }
    let of_all_runs = ask(store, None, None, 0);
    let own: Vec<_> = of_all_runs.iter().filter(|(_, event)| event.run_id == run).collect();
    for (at, (cursor, _)) in own.iter().enumerate() {
        let later = numbers(&run, &ask(store, None, Some(cursor), 0));
        assert_eq!(later.len(), 9 - at, "events of all runs after {cursor}");
    }
    let last = all.last().unwrap().0.clone();
    oracle.delete();
    assert!(ask(store, Some(&run), None, 0).is_empty());
    add(&mut oracle, 20..21);
    assert_eq!(
        numbers(&run, &ask(store, Some(&run), Some(&last), 0)),
        [20],
        "a follower sees the events after a delete"
    );
    oracle.check();
}

/// A follower that always passes back the last cursor it received sees each event once and in order, with and
/// without a limit, for one run and for all runs.
pub fn follow_by_cursor(store: &dyn Store) {
    let mut oracles = [Oracle::begin(store, "events-follow-a"), Oracle::begin(store, "events-follow-b")];
    let runs = [oracles[0].run().clone(), oracles[1].run().clone()];
    let start = EventCursor::default();
    let mut followers = [(Some(&runs[0]), start.clone(), vec![]), (Some(&runs[1]), start.clone(), vec![])];
    let mut of_all = (start, Vec::new());
    for n in 0..12_u64 {
        let size = [1, 3, 0, 2][n as usize % 4];
        add(&mut oracles[n as usize % 2], n * 10..n * 10 + size);
        for (run, cursor, seen) in &mut followers {
            for (next, event) in ask(store, *run, Some(cursor), 3) {
                *cursor = next;
                seen.push(event);
            }
        }
        for (next, event) in ask(store, None, Some(&of_all.0), 0) {
            of_all.0 = next;
            of_all.1.push(event);
        }
    }
    for (run, cursor, seen) in &followers {
        let all = ask(store, *run, None, 0);
        assert_eq!(seen.iter().collect::<Vec<_>>(), only_events(&all), "each event once and in order");
        assert!(ask(store, *run, Some(cursor), 0).is_empty(), "no event after the last one");
        let own = of_all.1.iter().filter(|event| Some(&event.run_id) == *run);
        assert_eq!(own.collect::<Vec<_>>(), only_events(&all), "each event of all runs once and in order");
    }
}

/// A cursor that the store did not create, and one whose event was removed long ago, do not fail and skip no
/// event that is kept.
pub fn unknown_and_old_cursors_are_accepted(store: &dyn Store) {
    let mut oracle = Oracle::begin(store, "events-unknown-cursor");
    add(&mut oracle, 0..2);
    let run = oracle.run().clone();
    let all = ask(store, Some(&run), None, 0);
    for text in ["0", "no-such-cursor", "-1", "x=1,y=2"] {
        let found = ask(store, Some(&run), Some(&EventCursor::new(text)), 0);
        assert_eq!(only_events(&found), only_events(&all), "events after {text}");
    }
    let old = all[0].0.clone();
    for n in 1..15 {
        add(&mut oracle, n * 100..n * 100 + 100);
    }
    let kept = ask(store, Some(&run), None, 0);
    assert!(!numbers(&run, &kept).contains(&0), "the first event is removed");
    let found = ask(store, Some(&run), Some(&old), 0);
    assert_eq!(only_events(&found), only_events(&kept), "events after a removed one");
}

/// `limit` selects the newest events, still ordered oldest first, even when combined with `after`.
pub fn limit_takes_the_newest(store: &dyn Store) {
    let mut oracle = Oracle::begin(store, "events-limit");
    add(&mut oracle, 0..7);
    add(&mut oracle, 7..20);
    let run = oracle.run().clone();
    let all = ask(store, Some(&run), None, 0);
    for limit in [1, 2, 19, 20, 21, 1000] {
        let from = 20usize.saturating_sub(limit);
        let found = ask(store, Some(&run), None, limit);
        assert_eq!(only_events(&found), only_events(&all[from..]), "limit {limit}");
    }
    for (after, from, which) in [(4, 15, "newest 5 after a cursor"), (17, 18, "fewer than the limit")] {
        let found = ask(store, Some(&run), Some(&all[after].0), 5);
        assert_eq!(only_events(&found), only_events(&all[from..]), "{which}");
    }
    assert_eq!(ask(store, None, None, 3).len(), 3, "limit over all runs");
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
    assert_eq!(ask(store, Some(other.run()), None, 0).len(), 5, "another run's events");
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
    let kept = numbers(run, &ask(store, Some(run), None, 0));
    let count = kept.len() as u64;
    assert!(count >= written.min(EVENTS_KEPT), "only {count} of {written} events are kept");
    assert!(count <= EVENTS_KEPT + SLACK, "{count} of {written} events are kept");
    let astray = kept.iter().zip(written - count..written).find(|(is, should)| *is != should);
    assert_eq!(astray, None, "the newest are kept, in order: actual and expected");
}
