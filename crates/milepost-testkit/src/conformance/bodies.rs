//! Bodies are returned byte for byte, regardless of their age and of the checkpoints dropped around them.

use milepost::store::Store;

use crate::oracle::{Oracle, shown};
use crate::rng::{edited, text};

const LARGE: usize = 64 * 1024;

/// Puts checkpoints with these states and compares all bodies after several of the puts.
fn put_states(oracle: &mut Oracle<'_>, states: impl IntoIterator<Item = String>) {
    for (n, state) in states.into_iter().enumerate() {
        oracle.put(&oracle.doc(format!("body-{n}")).state(state));
        if [0, 1, 2, 15, 16, 17, 33].contains(&n) {
            oracle.check();
        }
    }
    oracle.check();
}

fn edits(count: usize, size: usize) -> impl Iterator<Item = String> {
    let first = text(size, 1);
    (0..count as u64).scan(first, |state, n| {
        *state = edited(state, 5, n + 100);
        Some(state.clone())
    })
}

/// 42 states of 64 KB, each of which differs by 5% from the previous one.
pub fn large_with_small_changes(store: &dyn Store) {
    put_states(&mut Oracle::begin(store, "bodies-large"), edits(42, LARGE));
}

/// 50 bodies of about 300 bytes.
pub fn tiny(store: &dyn Store) {
    put_states(&mut Oracle::begin(store, "bodies-tiny"), edits(50, 30));
}

/// Each state appends text to the previous one.
pub fn growing(store: &dyn Store) {
    let all = text(LARGE, 3);
    let states = (1..=40).map(|n| all[..n * LARGE / 40].to_owned());
    put_states(&mut Oracle::begin(store, "bodies-growing"), states);
}

/// Each state is a truncation of the previous one.
pub fn shrinking(store: &dyn Store) {
    let all = text(LARGE, 4);
    let states = (0..40).rev().map(|n| all[..n * LARGE / 40].to_owned());
    put_states(&mut Oracle::begin(store, "bodies-shrinking"), states);
}

/// Each state differs from the previous one in content and size.
pub fn alternating(store: &dyn Store) {
    let states = (0..40u64).map(|n| match n % 4 {
        0 => text(LARGE, n),
        1 => "é\u{1F600}\u{0}".repeat(2000),
        2 => String::new(),
        _ => text(5000, n),
    });
    put_states(&mut Oracle::begin(store, "bodies-alternating"), states);
}

/// Creates forty edited checkpoints and drops those that `choose` selects: half of them in one commit, the
/// others in one commit each.
fn drop_from(store: &dyn Store, name: &str, choose: impl Fn(&[u64]) -> Vec<u64>) {
    let mut oracle = Oracle::begin(store, name);
    put_states(&mut oracle, edits(40, 8 * 1024));
    let chosen = choose(&oracle.sequences());
    let (together, apart) = chosen.split_at(chosen.len() / 2);
    oracle.drop_all(together).check();
    for sequence in apart {
        oracle.drop_all(&[*sequence]);
    }
    oracle.check();
    let size = 8 * 1024;
    for n in 0..3 {
        oracle.put(&oracle.doc(format!("after-{n}")).state(text(size, n)));
        oracle.check();
    }
}

/// Drops the oldest, as retention does.
pub fn after_dropping_the_oldest(store: &dyn Store) {
    drop_from(store, "bodies-drop-oldest", |all| all[..25].to_vec());
}

/// Drops a range in the middle.
pub fn after_dropping_the_middle(store: &dyn Store) {
    drop_from(store, "bodies-drop-middle", |all| all[10..32].to_vec());
}

/// Drops every second checkpoint.
pub fn after_dropping_every_second(store: &dyn Store) {
    drop_from(store, "bodies-drop-second", |all| all.iter().copied().step_by(2).collect());
}

/// Drops all except the newest.
pub fn after_dropping_all_but_the_newest(store: &dyn Store) {
    drop_from(store, "bodies-drop-but-newest", |all| all[..all.len() - 1].to_vec());
}

/// Drops the newest, starting from the end.
pub fn after_dropping_the_newest(store: &dyn Store) {
    drop_from(store, "bodies-drop-newest", |all| all.iter().rev().copied().take(20).collect());
}

/// Each commit puts a checkpoint and drops the oldest unprotected one. Some pinned ones remain in between.
pub fn after_pruning_at_every_put(store: &dyn Store) {
    let mut oracle = Oracle::begin(store, "bodies-prune");
    for (n, state) in edits(60, 8 * 1024).enumerate() {
        let doc = oracle.doc(n).state(state);
        let pinned = n % 7 == 0;
        oracle.commit(|view, commit| {
            commit.puts.push(doc.seal(&view.slot));
            if pinned {
                let marks = milepost::model::Marks { revision: 1, pinned, ..Default::default() };
                commit.marks.push((view.slot.sequence(), marks));
            }
            if view.count >= 20 {
                let oldest = shown(view).oldest.iter().find(|entry| !entry.marks.protects());
                commit.drops.extend(oldest.map(|entry| entry.header.sequence()));
            }
        });
        if n % 10 == 9 {
            oracle.check();
        }
    }
    oracle.check();
}
