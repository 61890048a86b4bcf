//! Concurrent writers, through one handle and through two: each decision sees all commits before its own.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use milepost::internal::seal::Verified;
use milepost::model::RunId;
use milepost::store::{CheckpointEntry, Commit, HeaderQuery, Store, StoreError, WriteDecision};

use crate::fixtures::{self, TestCheckpoint};
use crate::oracle::{Oracle, good, shown, view};
use crate::rng::text;

const WRITERS: usize = 8;
const WRITES: usize = 25;

/// One write that increments the counter in the record and puts one checkpoint.
fn count_one(store: &dyn Store, run: &RunId, label: &str) {
    let doc = TestCheckpoint::new(run, label).state(text(500, label.len() as u64));
    let receipt = store.write(run, &mut |view| {
        let mut commit = Commit::new(fixtures::next_record(run, view));
        commit.puts.push(doc.seal(&view.slot));
        commit.push.push(fixtures::item(label));
        commit.events.push(fixtures::event(run, view.count));
        WriteDecision::Commit(Box::new(commit))
    });
    receipt.unwrap_or_else(|e| panic!("{run}: write {label}: {e}"));
}

/// Checks that exactly `writes` writes were made to a run. Returns their stamps.
fn all_counted(store: &dyn Store, run: &RunId, writes: usize) -> Vec<u64> {
    let seen = view(store, run);
    assert_eq!(seen.record.as_ref().unwrap().attempts(), writes as u64, "{run}: the counter in the record");
    assert_eq!(seen.count, writes as u64, "{run}: count");
    assert_eq!(shown(&seen).items.len(), writes, "{run}: items");
    let entries = entries(store, run);
    let sequences: Vec<_> = entries.iter().map(|entry| entry.header.sequence()).collect();
    assert_eq!(sequences, (1..=writes as u64).collect::<Vec<_>>(), "{run}: sequences");
    assert!(entries.is_sorted_by(|a, b| a.header.stamp() < b.header.stamp()), "{run}: stamps");
    for entry in &entries {
        let bytes = store.body(run, entry.header.sequence()).unwrap();
        Verified::read(bytes, &entry.header).unwrap();
    }
    entries.iter().map(|entry| entry.header.stamp()).collect()
}

/// Runs several concurrent writers on these runs, each through one of the handles.
fn write_at_once(handles: &[&dyn Store], runs: &[RunId]) {
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let store = handles[writer % handles.len()];
            scope.spawn(move || {
                for n in 0..WRITES {
                    count_one(store, &runs[(writer + n) % runs.len()], &format!("{writer}-{n}"));
                }
            });
        }
    });
}

fn one_run(handles: &[&dyn Store], name: &str) {
    let run = Oracle::begin(handles[0], name).run().clone();
    write_at_once(handles, std::slice::from_ref(&run));
    for store in handles {
        all_counted(*store, &run, WRITERS * WRITES);
    }
}

fn many_runs(handles: &[&dyn Store], name: &str) {
    let runs: Vec<_> =
        (0..3).map(|n| Oracle::begin(handles[0], &format!("{name}-{n}")).run().clone()).collect();
    write_at_once(handles, &runs);
    let writes_to = |at: usize| {
        let all = (0..WRITERS).flat_map(|writer| (0..WRITES).map(move |n| writer + n));
        all.filter(|sum| sum % runs.len() == at).count()
    };
    let stamps: Vec<u64> =
        runs.iter().enumerate().flat_map(|(at, run)| all_counted(handles[0], run, writes_to(at))).collect();
    let distinct: HashSet<_> = stamps.iter().collect();
    assert_eq!(distinct.len(), stamps.len(), "no stamp is issued twice");
}

/// The headers of a run, which must all be intact, oldest first.
fn entries(store: &dyn Store, run: &RunId) -> Vec<CheckpointEntry> {
    let query = HeaderQuery::default().run(run).oldest_first(true);
    store.headers(&query).unwrap().into_iter().map(|row| good(run, row)).collect()
}

/// Reads a run repeatedly while it is written and pruned. Every read must be consistent.
fn read_until(store: &dyn Store, run: &RunId, stop: &AtomicBool) {
    let mut last = 0;
    while !stop.load(Ordering::Relaxed) {
        let Some(state) = store.run(run).unwrap() else { continue };
        let record = state.row.record.unwrap();
        assert!(record.attempts() >= last, "{run}: a read returned an older record");
        last = record.attempts();
        let latest = good(run, state.row.latest.expect("a run that always has a checkpoint"));
        assert_eq!(latest.header.sequence(), record.attempts(), "{run}: record and latest are of one commit");
        let entries = entries(store, run);
        let falling = entries.windows(2).any(|two| two[0].header.sequence() + 1 != two[1].header.sequence());
        assert!(!falling, "{run}: headers of two commits in one result");
        for entry in entries.iter().step_by(3) {
            match store.body(run, entry.header.sequence()) {
                Ok(bytes) => drop(Verified::read(bytes, &entry.header).unwrap()),
                Err(StoreError::NoCheckpoint(..)) => {}
                Err(e) => panic!("{run}@{}: {e}", entry.header.sequence()),
            }
        }
    }
}

fn prune_and_read(handles: &[&dyn Store], name: &str) {
    let mut oracle = Oracle::begin(handles[0], name);
    let run = oracle.run().clone();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for store in handles.iter().chain(handles) {
            let (run, stop) = (&run, &stop);
            scope.spawn(move || read_until(*store, run, stop));
        }
        // The readers must also stop if the writer panics.
        let wrote = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for n in 0..60 {
                let doc = oracle.doc(n).state(text(3000, n));
                oracle.commit(|view, commit| {
                    commit.puts.push(doc.seal(&view.slot));
                    if view.count >= 10 {
                        commit.drops.push(shown(view).oldest[0].header.sequence());
                    }
                });
            }
        }));
        stop.store(true, Ordering::Relaxed);
        wrote.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
    for store in handles {
        oracle.check_on(*store);
    }
}

/// Eight concurrent writers to one run lose nothing.
pub fn many_writers_one_run(store: &dyn Store) {
    one_run(&[store], "concurrency-one");
}

/// Eight concurrent writers to three runs share no stamp.
pub fn many_writers_many_runs(store: &dyn Store) {
    many_runs(&[store], "concurrency-many");
}

/// Readers always see a consistent state while a writer prunes.
pub fn readers_beside_a_pruning_writer(store: &dyn Store) {
    prune_and_read(&[store], "concurrency-read");
}

/// A commit through one handle is immediately visible through the other.
pub fn two_handles_see_each_other(a: &dyn Store, b: &dyn Store) {
    let mut oracle = Oracle::begin(a, "handles-see");
    let other = Oracle::begin(a, "handles-see-other").run().clone();
    oracle.check_on(b);
    for n in 0..10 {
        oracle.put_many(2);
        oracle.check_on(b);
        count_one(b, &other, &format!("{n}"));
        let seen = view(a, &other);
        assert_eq!(seen.record.as_ref().unwrap().attempts(), seen.count);
        assert_eq!(seen.count, n + 1);
        if n % 3 == 2 {
            let oldest = oracle.sequences()[0];
            oracle.drop_all(&[oldest]);
            oracle.check_on(b);
        }
    }
    assert!(b.delete_run(&other, None).unwrap());
    assert!(a.run(&other).unwrap().is_none());
    oracle.delete();
    oracle.check_on(b);
}

/// Eight concurrent writers to one run lose nothing over two handles.
pub fn two_handles_one_run(a: &dyn Store, b: &dyn Store) {
    one_run(&[a, b], "handles-one");
}

/// Eight concurrent writers to three runs share no stamp over two handles.
pub fn two_handles_many_runs(a: &dyn Store, b: &dyn Store) {
    many_runs(&[a, b], "handles-many");
}

/// Readers on two handles see a consistent state while a writer prunes.
pub fn two_handles_prune_and_read(a: &dyn Store, b: &dyn Store) {
    prune_and_read(&[a, b], "handles-read");
}
