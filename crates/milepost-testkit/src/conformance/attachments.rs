//! Attachments belong to a checkpoint by its name. They are kept until the checkpoint or the run is removed.

use milepost::model::{AttachedValue, Attachment, BlobId};
use milepost::store::{ATTACHED_PER_COMMIT, MAX_ATTACHED_VALUE, Maintenance, Store};

use crate::fixtures::{self, attachment};
use crate::oracle::{Oracle, refused_by_rules};

/// Attachments are returned verbatim, sorted by task path, task id and index, for one checkpoint and for all.
pub fn come_in_order(store: &dyn Store) {
    let mut oracle = Oracle::begin(store, "attachments-order");
    oracle.put_many(2);
    let ids: Vec<_> = oracle.entries().iter().map(|entry| entry.header.snapshot_id().to_string()).collect();
    // A task id is no prefix of the order: the task path comes first.
    let paths = ["", "~pull, b", "~pull, a"];
    oracle.commit(|_, commit| {
        for (n, path) in paths.iter().enumerate() {
            for index in [2, -1, 0, 10, i64::MIN, i64::MAX, -4, 1] {
                let one = attachment(&ids[n % 2], &format!("task-{n}"), index, &format!("{path} {index}"));
                commit.attachments.push(one.with_task_path(*path));
            }
        }
    });
    oracle.check();
    let whole = [
        attachment(&ids[0], "", 0, ""),
        attachment(&ids[0], "日本語\u{0}\n\"quoted\"", 0, "\u{0}"),
        Attachment::new(&ids[0], "t", 3, "", "", AttachedValue::Bytes((0..=255).collect())),
        Attachment::new(&ids[1], "t", 4, "c", "msgpack", AttachedValue::Bytes(vec![7; MAX_ATTACHED_VALUE])),
    ];
    oracle.commit(|_, commit| commit.attachments.extend(whole.clone()));
    oracle.check();
    assert_eq!(oracle.attachments(None).len(), 28);
}

/// The first attachment with a key stays, unless a later one replaces it, within one commit too.
pub fn first_stays_unless_replaced(store: &dyn Store) {
    let mut oracle = Oracle::begin(store, "attachments-replace");
    let add = |oracle: &mut Oracle<'_>, all: &[Attachment]| {
        oracle.commit(|_, commit| commit.attachments.extend_from_slice(all)).check();
    };
    add(&mut oracle, &[attachment("cp", "t", 0, "first"), attachment("cp", "t", -1, "first")]);
    add(&mut oracle, &[attachment("cp", "t", 0, "second"), attachment("cp", "t", -1, "second").replacing()]);
    add(&mut oracle, &[attachment("cp", "t", -1, "third")]);
    add(
        &mut oracle,
        &[
            attachment("cp", "u", 0, "first"),
            attachment("cp", "u", 0, "second"),
            attachment("cp", "u", 1, "first"),
            attachment("cp", "u", 1, "second").replacing(),
        ],
    );
    let expected = ["second", "first", "first", "second"];
    for (found, expected) in store.attachments(oracle.run(), Some("cp")).unwrap().into_iter().zip(expected) {
        assert_eq!(*found.unwrap().value(), AttachedValue::Bytes(expected.into()));
    }
}

/// A commit can remove the attachments of a checkpoint, and add others for it.
pub fn can_be_removed(store: &dyn Store) {
    let mut oracle = Oracle::begin(store, "attachments-detach");
    oracle.commit(|_, commit| {
        commit.attachments.extend(["a", "b", "c"].map(|checkpoint| attachment(checkpoint, "t", 0, "first")));
        commit.attachments.push(attachment("a", "u", 1, "second"));
    });
    oracle.commit(|_, commit| commit.detach = vec!["a".into(), "c".into(), "unknown".into()]).check();
    assert_eq!(oracle.attachments(None).len(), 1);
    oracle
        .commit(|_, commit| {
            commit.detach = vec!["b".into()];
            commit.attachments.push(attachment("b", "t", 0, "after the removal"));
        })
        .check();
    let found = store.attachments(oracle.run(), Some("b")).unwrap().remove(0).unwrap();
    assert_eq!(*found.value(), AttachedValue::Bytes("after the removal".into()));
    // In the same commit as a checkpoint, and after other writes.
    oracle.put_many(1);
    oracle.commit(|_, commit| commit.detach = vec!["b".into()]).check();
    assert_eq!(oracle.attachments(None).len(), 0);
}

/// An attachment may precede its checkpoint, and may name one that never exists.
pub fn may_precede_the_checkpoint(store: &dyn Store) {
    let mut oracle = Oracle::begin(store, "attachments-early");
    let doc = oracle.doc("late");
    let id = doc.snapshot_id().to_string();
    // The run does not exist yet either.
    oracle.commit(|_, commit| {
        commit.attachments.push(attachment(&id, "t", 0, "early"));
        commit.attachments.push(attachment("1ef4f797-8335-6428-8001-8a1503f9b875", "t", 0, "elsewhere"));
    });
    oracle.check();
    oracle.put(&doc);
    oracle.check();
    let next = oracle.doc("with-its-own");
    oracle.commit(|view, commit| {
        commit.puts.push(next.seal(&view.slot));
        commit.attachments.push(attachment(next.snapshot_id().as_str(), "t", 0, "same commit"));
    });
    oracle.check();
}

/// Dropping a checkpoint removes its attachments and no others. They can be attached again afterwards.
pub fn are_removed_with_the_checkpoint(store: &dyn Store) {
    let mut oracle = Oracle::begin(store, "attachments-dropped");
    oracle.put_many(4);
    let ids: Vec<_> = oracle.entries().iter().map(|entry| entry.header.snapshot_id().to_string()).collect();
    oracle.commit(|_, commit| {
        commit.attachments.extend(ids.iter().map(|id| attachment(id, "t", 0, "kept")));
        commit.attachments.push(attachment("elsewhere", "t", 0, "kept"));
    });
    oracle.drop_all(&[1]).check();
    // Retention drops a checkpoint while it puts another.
    let doc = oracle.doc("next");
    oracle.commit(|view, commit| {
        commit.puts.push(doc.seal(&view.slot));
        commit.drops.push(2);
    });
    oracle.check();
    oracle.commit(|_, commit| commit.attachments.push(attachment(&ids[1], "t", 0, "again"))).check();
    // A commit drops before it attaches.
    oracle.commit(|_, commit| {
        commit.drops.push(3);
        commit.attachments.push(attachment(&ids[2], "t", 1, "after the drop"));
    });
    oracle.put_many(12).check();
    assert_eq!(oracle.attachments(None).len(), 4);
}

/// A drop of a checkpoint before the run's first attachment does not affect later attachments.
pub fn survive_earlier_drops(store: &dyn Store) {
    let mut oracle = Oracle::begin(store, "attachments-after-drops");
    oracle.put_many(3);
    let id = oracle.entry(1).header.snapshot_id().to_string();
    let doc = oracle.doc("drops");
    oracle.commit(|view, commit| {
        commit.puts.push(doc.seal(&view.slot));
        commit.drops.push(1);
    });
    let doc = oracle.doc("attaches");
    oracle.commit(|view, commit| {
        commit.puts.push(doc.seal(&view.slot));
        commit.attachments.push(attachment(&id, "t", 0, "after its checkpoint"));
    });
    oracle.check();
    oracle.put_many(12).check();
    store.maintain(Maintenance::Compact).unwrap();
    oracle.check();
}

/// Deleting a run deletes its attachments and no others.
pub fn are_deleted_with_the_run(store: &dyn Store) {
    let mut oracles = [Oracle::begin(store, "attachments-gone"), Oracle::begin(store, "attachments-left")];
    for oracle in &mut oracles {
        oracle.commit(|_, commit| commit.attachments.push(attachment("cp", "t", 0, "here")));
    }
    oracles[0].delete().check();
    oracles[0].commit(|_, _| {}).check();
    oracles[1].check();
}

/// Puts, items, messages and maintenance do not change the attachments.
pub fn survive_other_commits(store: &dyn Store) {
    let mut oracle = Oracle::begin(store, "attachments-kept");
    for n in 0..40 {
        oracle.put_many(2);
        let id = oracle.entry(2 * n + 2).header.snapshot_id().to_string();
        oracle.commit(|_, commit| {
            commit.push.push(fixtures::item("passing"));
            commit.messages.push(fixtures::message("passing"));
            commit.attachments.push(attachment(&id, "t", 0, &format!("value {n}")));
        });
        oracle.drop_all(&[2 * n + 1]);
    }
    oracle.check();
    store.maintain(Maintenance::Compact).unwrap();
    oracle.check();
    assert_eq!(oracle.attachments(None).len(), 40);
}

/// Attachments that break a rule are refused, and nothing is written.
pub fn invalid_ones_are_refused(store: &dyn Store) {
    let mut oracle = Oracle::begin(store, "attachments-refused");
    oracle.put_many(1);
    let value = |bytes| AttachedValue::Bytes(vec![7; bytes]);
    let blob = AttachedValue::Blob(BlobId::of(b"a blob that the commit does not name"));
    let many = ATTACHED_PER_COMMIT / MAX_ATTACHED_VALUE;
    let cases: [Vec<Attachment>; 5] = [
        vec![attachment("", "t", 0, "without a checkpoint")],
        vec![attachment(&"x".repeat(20 << 10), "t", 0, "a long name")],
        vec![Attachment::new("cp", "t", 0, "c", "bytes", value(MAX_ATTACHED_VALUE + 1))],
        vec![Attachment::new("cp", "t", 0, "c", "bytes", blob)],
        (0..many as i64)
            .map(|n| Attachment::new("cp", "t", n, "c", "b", value(MAX_ATTACHED_VALUE)))
            .collect(),
    ];
    for case in cases {
        let answer = oracle.attempt(|_, commit| {
            commit.push.push(fixtures::item("never"));
            commit.attachments.push(attachment("cp", "valid", 0, "never"));
            commit.attachments.extend_from_slice(&case);
        });
        refused_by_rules(answer);
        oracle.check();
    }
}

/// Another handle on the same store sees attachments and their removal.
pub fn another_handle_sees_attachments(one: &dyn Store, two: &dyn Store) {
    let mut oracle = Oracle::begin(one, "attachments-two-handles");
    oracle.put_many(1);
    let id = oracle.entry(1).header.snapshot_id().to_string();
    oracle.commit(|_, commit| commit.attachments.push(attachment(&id, "t", 0, "value")));
    oracle.check_on(two);
    oracle.drop_all(&[1]);
    oracle.check_on(two);
}
