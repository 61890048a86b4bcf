//! Writers whose requests and replies get lost: what they write by compare-and-set is stored exactly once.

use milepost::model::RunId;
use milepost::store::{Commit, Store, StoreError, WriteDecision};
use milepost_testkit::fixtures::{self, TestCheckpoint};

use crate::stores::{Opener, files_losing, sqlite_losing};

/// Writes until the store acknowledges the checkpoint, and returns the number of lost replies.
/// A decision that finds its own checkpoint changes nothing.
fn write_once(store: &dyn Store, run: &RunId, label: u64) -> u64 {
    let doc = TestCheckpoint::new(run, label);
    let mut lost = 0;
    loop {
        let answer = store.write(run, &mut |view| {
            if view.latest.as_ref().is_some_and(|latest| *latest.header.snapshot_id() == *doc.snapshot_id()) {
                return WriteDecision::NoChange;
            }
            let mut commit = Commit::new(fixtures::next_record(run, view));
            commit.puts.push(doc.seal(&view.slot));
            WriteDecision::Commit(Box::new(commit))
        });
        match answer {
            Ok(_) => return lost,
            Err(StoreError::Unknown { .. }) => lost += 1,
            Err(e) => panic!("{e}"),
        }
    }
}

fn nothing_is_lost_or_twice(open: &Opener) {
    const WRITES: u64 = 60;
    let store = open();
    let run = fixtures::run_id("lost");
    let lost: u64 = (1..=WRITES).map(|label| write_once(&*store, &run, label)).sum();
    assert!(lost > WRITES / 4, "only {lost} replies were lost");
    let state = store.run(&run).unwrap().unwrap();
    assert_eq!(state.row.count, WRITES);
    assert_eq!(state.row.record.unwrap().attempts(), WRITES);
}

#[test]
fn sqlite() {
    for seed in 0..3 {
        nothing_is_lost_or_twice(&sqlite_losing(seed));
    }
}

#[test]
fn files() {
    for seed in 0..3 {
        nothing_is_lost_or_twice(&files_losing(seed));
    }
}
