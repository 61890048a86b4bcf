//! Deleting a run takes all it has, and nothing of any other.

use milepost::store::{EventQuery, Find, HeaderQuery, Store};

use crate::chance::text;
use crate::doc;
use crate::ledger::Ledger;

fn filled<'a>(store: &'a dyn Store, name: &str) -> Ledger<'a> {
    let mut ledger = Ledger::begin(store, name);
    for n in 0..5 {
        let doc = ledger.doc(n).state(text(4000, 1)).imported(&format!("{name}-foreign"));
        ledger.put_tagged(&doc, &format!("{name}-tag"));
    }
    let run = ledger.run().clone();
    ledger.commit(|_, commit| {
        commit.push.push(doc::item("pending"));
        commit.events.push(doc::event(&run, 1));
    });
    ledger.check();
    ledger
}

/// Nothing of a deleted run is left, and a second delete says so.
pub fn takes_all_of_a_run(store: &dyn Store) {
    let mut ledger = filled(store, "delete-all");
    ledger.delete();
    ledger.check();
    ledger.delete();
    ledger.check();
    let none = |find| store.headers(&HeaderQuery { find, ..HeaderQuery::default() }).unwrap().is_empty();
    assert!(none(Find::Name("delete-all-tag")), "tags");
    assert!(none(Find::Name("delete-all-foreign")), "foreign ids");
    assert!(none(Find::Prefix("cp_delete-all_")), "ids");
    let events = store.events(&EventQuery::default()).unwrap().events;
    assert!(events.iter().all(|(_, event)| event.run_id != *ledger.run()), "events");
    // Only looked at, never committed: there is nothing to delete.
    ledger.view();
    assert!(!store.delete_run(ledger.run(), None).unwrap());
}

/// A run that was written to since its stamp was read stays whole.
pub fn not_where_it_was_written_to(store: &dyn Store) {
    let mut ledger = filled(store, "delete-moved");
    let stamp = |ledger: &Ledger<'_>| store.run(ledger.run()).unwrap().unwrap().row.stamp;
    let before = stamp(&ledger);
    ledger.commit(|_, _| {});
    assert!(!store.delete_run(ledger.run(), Some(before)).unwrap(), "written to meanwhile");
    ledger.check();
    let now = stamp(&ledger);
    assert!(store.delete_run(ledger.run(), Some(now)).unwrap());
    assert!(!store.delete_run(ledger.run(), Some(now)).unwrap(), "gone");
    assert!(store.run(ledger.run()).unwrap().is_none());
}

/// Other runs stay as they are, also those whose names begin alike.
pub fn leaves_others_alone(store: &dyn Store) {
    let names = ["delete-others", "delete-others-1", "delete-others.1", "delete-other"];
    let mut ledgers: Vec<_> = names.iter().map(|name| filled(store, name)).collect();
    ledgers[0].delete();
    for ledger in &ledgers {
        ledger.check();
    }
    ledgers[1].put_many(1);
    ledgers[2].delete();
    for ledger in &ledgers {
        ledger.check();
    }
}

/// A run of the same name begins anew; ids and tags may be used again, here and elsewhere.
pub fn frees_ids_and_tags(store: &dyn Store) {
    let mut ledger = filled(store, "delete-frees");
    let mut other = Ledger::begin(store, "delete-frees-other");
    for _ in 0..3 {
        ledger.delete();
        let doc = other.doc("x").id("cp_delete-frees_0");
        other.put_tagged(&doc, "delete-frees-tag");
        other.check();
        other.delete();
        ledger = filled(store, "delete-frees");
        assert_eq!(ledger.sequences(), [1, 2, 3, 4, 5]);
    }
    // A dropped checkpoint's id is free as well.
    ledger.drop_all(&[1]);
    let doc = ledger.doc(0);
    ledger.put(&doc);
    ledger.check();
}
