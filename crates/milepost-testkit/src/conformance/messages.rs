//! Messages are only ever added. They stay in order, whatever else happens to the run.

use milepost::store::{MESSAGES_PER_COMMIT, Store};

use crate::fixtures;
use crate::oracle::{Oracle, refused_by_rules};

/// Messages are returned verbatim and in order, with and without a checkpoint in the same commit.
pub fn are_appended_in_order(store: &dyn Store) {
    let mut oracle = Oracle::begin(store, "messages-order");
    // A run may start with a message and without a checkpoint.
    oracle.commit(|_, commit| commit.messages.push(fixtures::message("first"))).check();
    let doc = oracle.doc(1);
    oracle
        .commit(|view, commit| {
            commit.puts.push(doc.seal(&view.slot));
            commit.messages.extend(["\u{0}\n\"quoted\"", "日本語", ""].map(fixtures::message));
        })
        .check();
    let many: Vec<_> = (0..MESSAGES_PER_COMMIT).map(|n| fixtures::message(&n.to_string())).collect();
    oracle.commit(|_, commit| commit.messages.clone_from(&many)).check();
    oracle.commit(|_, commit| commit.messages.push(fixtures::message(&"x".repeat(16 << 10)))).check();
    assert_eq!(oracle.messages().len(), 5 + MESSAGES_PER_COMMIT);
}

/// Puts, drops, items and maintenance do not change the messages.
pub fn survive_other_commits(store: &dyn Store) {
    let mut oracle = Oracle::begin(store, "messages-kept");
    oracle.commit(|_, commit| commit.messages.push(fixtures::message("kept")));
    for n in 0..40 {
        oracle.put_many(2);
        oracle.commit(|_, commit| {
            commit.push.push(fixtures::item("passing"));
            commit.messages.push(fixtures::message(&format!("message {n}")));
        });
        oracle.drop_all(&[2 * n + 1]);
    }
    oracle.check();
    store.maintain(milepost::store::Maintenance::Compact).unwrap();
    oracle.check();
    assert_eq!(oracle.messages().len(), 41);
}

/// Deleting a run deletes its messages and no others.
pub fn are_deleted_with_the_run(store: &dyn Store) {
    let mut oracles = [Oracle::begin(store, "messages-gone"), Oracle::begin(store, "messages-left")];
    for oracle in &mut oracles {
        oracle.commit(|_, commit| commit.messages.push(fixtures::message("here")));
    }
    oracles[0].delete().check();
    oracles[0].commit(|_, _| {}).check();
    oracles[1].check();
}

/// A commit with more messages than allowed is refused and writes nothing.
pub fn too_many_at_once_are_refused(store: &dyn Store) {
    let oracle = {
        let mut oracle = Oracle::begin(store, "messages-many");
        oracle.put_many(1);
        oracle
    };
    let run = oracle.run().clone();
    let answer = store.write(&run, &mut |view| {
        let mut commit = milepost::store::Commit::new(view.record.clone().unwrap());
        commit.messages = vec![fixtures::message("x"); MESSAGES_PER_COMMIT + 1];
        milepost::store::WriteDecision::Commit(Box::new(commit))
    });
    refused_by_rules(answer);
    oracle.check();
}
