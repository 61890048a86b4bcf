//! Deleting a run removes all its data, and nothing of any other run.

use milepost::store::{CheckpointFilter, EventQuery, HeaderQuery, Store};

use crate::fixtures;
use crate::oracle::Oracle;
use crate::rng::text;

fn filled<'a>(store: &'a dyn Store, name: &str) -> Oracle<'a> {
    let mut oracle = Oracle::begin(store, name);
    for n in 0..5 {
        oracle.put_tagged(
            &oracle.doc(n).state(text(4000, 1)).imported(&format!("{name}-foreign")),
            &format!("{name}-tag"),
        );
    }
    let run = oracle.run().clone();
    oracle.commit(|_, commit| {
        commit.push.push(fixtures::item("pending"));
        commit.events.push(fixtures::event(&run, 1));
    });
    oracle.check();
    oracle
}

/// Nothing of a deleted run remains, and a second delete finds no run.
pub fn removes_everything_of_a_run(store: &dyn Store) {
    let mut oracle = filled(store, "delete-all");
    oracle.delete().check();
    oracle.delete().check();
    let none = |find| store.headers(&HeaderQuery::default().find(find)).unwrap().is_empty();
    assert!(none(CheckpointFilter::Name("delete-all-tag")), "tags");
    assert!(none(CheckpointFilter::Name("delete-all-foreign")), "foreign ids");
    assert!(none(CheckpointFilter::Prefix("cp_delete-all_")), "ids");
    let events = store.events(&EventQuery::default()).unwrap().events;
    assert!(events.iter().all(|(_, event)| event.run_id != *oracle.run()), "events");
    // A run that was viewed but never committed cannot be deleted.
    oracle.view();
    assert!(!store.delete_run(oracle.run(), None).unwrap());
}

/// A run that was written to since its stamp was read is not deleted.
pub fn refused_after_a_newer_write(store: &dyn Store) {
    let mut oracle = filled(store, "delete-moved");
    let stamp = |oracle: &Oracle<'_>| store.run(oracle.run()).unwrap().unwrap().row.stamp;
    let before = stamp(&oracle);
    oracle.commit(|_, _| {});
    assert!(!store.delete_run(oracle.run(), Some(before)).unwrap(), "written to in the meantime");
    oracle.check();
    let now = stamp(&oracle);
    assert!(store.delete_run(oracle.run(), Some(now)).unwrap());
    assert!(!store.delete_run(oracle.run(), Some(now)).unwrap(), "gone");
    assert!(store.run(oracle.run()).unwrap().is_none());
}

/// Other runs do not change, even if their names start with the same characters.
pub fn leaves_other_runs_alone(store: &dyn Store) {
    let names = ["delete-others", "delete-others-1", "delete-others.1", "delete-other"];
    let mut oracles: Vec<_> = names.iter().map(|name| filled(store, name)).collect();
    oracles[0].delete();
    for oracle in &oracles {
        oracle.check();
    }
    oracles[1].put_many(1);
    oracles[2].delete();
    for oracle in &oracles {
        oracle.check();
    }
}

/// A run of the same name starts over. Its ids and tags can be used again, in this run and in others.
pub fn frees_ids_and_tags(store: &dyn Store) {
    let mut oracle = filled(store, "delete-frees");
    let mut other = Oracle::begin(store, "delete-frees-other");
    for _ in 0..3 {
        oracle.delete();
        other.put_tagged(&other.doc("x").id("cp_delete-frees_0"), "delete-frees-tag");
        other.check();
        other.delete();
        oracle = filled(store, "delete-frees");
        assert_eq!(oracle.sequences(), [1, 2, 3, 4, 5]);
    }
    // The id of a dropped checkpoint is also free.
    oracle.drop_all(&[1]);
    oracle.put(&oracle.doc(0));
    oracle.check();
}
