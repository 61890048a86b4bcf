//! A commit can be looked up by its token, so that a writer whose reply was lost knows whether it was applied.

use milepost::model::WriteToken;
use milepost::store::{CommittedWrite, Store, StoreError};

use crate::fixtures;
use crate::oracle::Oracle;

/// A token is found after its commit, with what the commit wrote, and not before.
pub fn found_after_the_commit(store: &dyn Store) {
    let mut oracle = Oracle::begin(store, "tokens-found");
    let run = oracle.run().clone();
    let tokens = [WriteToken::generate(), WriteToken::generate(), WriteToken::generate()];
    let found = |token| store.find_commit(&run, token).unwrap();
    assert_eq!(found(&tokens[0]), None, "a run that does not exist");
    let doc = oracle.doc(1);
    oracle.commit(|view, commit| {
        commit.puts.push(doc.seal(&view.slot));
        commit.set_token(&tokens[0], CommittedWrite::new(view.slot.sequence(), false));
    });
    assert_eq!(found(&tokens[0]), Some(CommittedWrite::new(1, false)), "a commit with a checkpoint");
    assert_eq!(found(&tokens[1]), None, "a token that was never used");
    oracle.commit(|_, commit| {
        commit.marks.push((1, fixtures::tagged(1, &["tokens-found"])));
        commit.set_token(&tokens[1], CommittedWrite::new(1, true));
    });
    oracle.commit(|_, commit| commit.set_token(&tokens[2], CommittedWrite::new(0, false)));
    oracle.put_many(1).check();
    assert_eq!(found(&tokens[0]), Some(CommittedWrite::new(1, false)), "an earlier commit");
    assert_eq!(found(&tokens[1]), Some(CommittedWrite::new(1, true)), "a coalesced commit");
    assert_eq!(found(&tokens[2]), Some(CommittedWrite::new(0, false)), "a commit without a checkpoint");
}

/// The token of a refused commit is not found.
pub fn not_found_after_a_refusal(store: &dyn Store) {
    let mut oracle = Oracle::begin(store, "tokens-refused");
    let taken = oracle.doc("taken");
    oracle.put(&taken);
    let token = WriteToken::generate();
    let answer = oracle.attempt(|view, commit| {
        commit.puts.push(taken.seal(&view.slot));
        commit.set_token(&token, CommittedWrite::new(view.slot.sequence(), false));
    });
    assert!(matches!(answer, Err(StoreError::Exists(_))), "a reused id returned {answer:?}");
    assert_eq!(store.find_commit(oracle.run(), &token).unwrap(), None);
}

/// A token is found only in the run of its commit, and no longer after that run was deleted.
pub fn belong_to_one_run(store: &dyn Store) {
    let mut oracle = Oracle::begin(store, "tokens-of-one-run");
    let mut other = Oracle::begin(store, "tokens-of-another");
    other.put_many(1);
    let token = WriteToken::generate();
    oracle.commit(|_, commit| commit.set_token(&token, CommittedWrite::new(0, false)));
    assert!(store.find_commit(oracle.run(), &token).unwrap().is_some());
    assert_eq!(store.find_commit(other.run(), &token).unwrap(), None, "another run");
    oracle.delete();
    assert_eq!(store.find_commit(oracle.run(), &token).unwrap(), None, "a deleted run");
    oracle.put_many(1);
    assert_eq!(store.find_commit(oracle.run(), &token).unwrap(), None, "a new run with the same name");
}

/// A token is found through another handle on the same store.
pub fn another_handle_finds_a_token(one: &dyn Store, two: &dyn Store) {
    let mut oracle = Oracle::begin(one, "tokens-two-handles");
    let token = WriteToken::generate();
    let doc = oracle.doc(1);
    oracle.commit(|view, commit| {
        commit.puts.push(doc.seal(&view.slot));
        commit.set_token(&token, CommittedWrite::new(view.slot.sequence(), false));
    });
    assert_eq!(two.find_commit(oracle.run(), &token).unwrap(), Some(CommittedWrite::new(1, false)));
    oracle.check_on(two);
}
