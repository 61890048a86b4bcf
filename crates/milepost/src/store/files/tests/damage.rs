//! Tests of a store of files with truncated, flipped and missing bytes, one byte at a time.

use std::collections::BTreeSet;

use super::*;
use crate::model::{AttachedValue, Attachment};
use crate::seal::verify;

#[test]
fn a_torn_tail_is_a_commit_that_never_was() {
    let dir = tempfile::tempdir().unwrap();
    let (store, r) = (open(dir.path()), run("r"));
    put(&store, &r, "a");
    let log = dir.path().join("r/log.jsonl");
    let before = fs::read(&log).unwrap();
    put(&store, &r, "b");
    let after = fs::read(&log).unwrap();
    // A line that lacks only its newline counts. Anything shorter does not.
    for cut in before.len() + 1..after.len() - 1 {
        overwrite(&log, &after[..cut]);
        assert_eq!(sequences(&store, &r), [1], "cut at {cut}");
        assert!(store.run(&r).unwrap().unwrap().row.record.is_ok());
    }
    overwrite(&log, &after[..after.len() - 2]);
    put(&store, &r, "c");
    assert_eq!(fs::read(&log).unwrap()[..before.len()], before);
    overwrite(&log, &fs::read(&log).unwrap()[..after.len() - 1]);
    put(&open(dir.path()), &r, "d");
    everything(&store, &r);
    assert_eq!(sequences(&store, &r), [1, 2, 3]);
}

#[test]
fn every_flipped_byte_of_a_log_is_found_or_harmless() {
    let dir = tempfile::tempdir().unwrap();
    let (store, r) = (open(dir.path()), run("r"));
    for id in ["a", "b", "c"] {
        put(&store, &r, id);
    }
    change(&store, &r, |_, commit| {
        commit.push = vec![note("x")];
        commit.marks = vec![(2, Marks { pinned: true, ..Marks::default() })];
        commit.drops = vec![1];
    })
    .unwrap();
    put(&store, &r, "d");
    let path = dir.path().join("r/log.jsonl");
    let log = fs::read(&path).unwrap();
    let whole = everything(&store, &r);
    let last = log[..log.len() - 1].iter().rposition(|b| *b == b'\n').unwrap() + 1;
    for at in 0..log.len() {
        let mut bytes = log.clone();
        bytes[at] ^= 1 << (at % 8);
        overwrite(&path, &bytes);
        // The next writer restores the final newline.
        if at < last || at + 1 == log.len() {
            assert_eq!(everything(&store, &r), whole, "byte {at}");
            continue;
        }
        // No line repeats the last one. Its checkpoint is reported as damaged; all others are unaffected.
        let found = rows(&store, &r);
        let Row::Damaged { damage, cursor } = &found[2] else { panic!("byte {at}: {found:?}") };
        assert_eq!(damage.snapshot_id.as_ref().unwrap().as_str(), "d");
        assert_eq!((damage.sequence, cursor.sequence), (Some(4), 4));
        assert_eq!(sequences(&store, &r), [2, 3]);
        let state = store.run(&r).unwrap().unwrap();
        assert!(state.row.record.is_err() && state.row.count == 3);
        for sequence in [2, 3, 4] {
            verify(store.body(&r, sequence).unwrap()).unwrap();
        }
    }
}

#[test]
fn a_damaged_last_line_frees_no_number_and_is_mended() {
    let dir = tempfile::tempdir().unwrap();
    let (store, r) = (open(dir.path()), run("r"));
    for id in ["a", "b", "c"] {
        put(&store, &r, id);
    }
    let path = dir.path().join("r/log.jsonl");
    let mut bytes = fs::read(&path).unwrap();
    let at = bytes.len() - 20;
    bytes[at] ^= 1;
    overwrite(&path, &bytes);
    fs::remove_file(dir.path().join(".store/stamp")).unwrap();
    change(&store, &r, |view, commit| {
        assert!(view.record.is_none() && view.latest.is_none());
        assert_eq!(
            (view.slot.sequence(), view.count, view.details.as_ref().unwrap().oldest.len()),
            (4, 3, 2)
        );
        assert!(view.slot.stamp() > 3);
        commit.puts = vec![document(&r, "d", &view.slot)];
    })
    .unwrap();
    assert_eq!(sequences(&store, &r), [1, 2, 4]);
    assert!(store.run(&r).unwrap().unwrap().row.record.is_ok());
    let found = store.maintain(Maintenance::Inspect).unwrap();
    assert_eq!(found.problems.len(), 1, "{found:?}");
    assert_eq!(found.problems[0].kind, ProblemKind::Record);
    assert_eq!(store.maintain(Maintenance::Repair).unwrap().done, 1);
    assert_eq!(sequences(&store, &r), [1, 2, 3, 4]);
    assert_eq!(fs::read(dir.path().join("r/log.jsonl.damaged-1")).unwrap()[..bytes.len()], bytes);
    everything(&open(dir.path()), &r);
    assert_eq!(store.maintain(Maintenance::Inspect).unwrap(), MaintenanceReport::default());
    // A missing log is rebuilt too, except for the record.
    fs::remove_file(&path).unwrap();
    assert_eq!(rows(&store, &r).len(), 4);
    store.maintain(Maintenance::Repair).unwrap();
    assert_eq!(sequences(&store, &r), [1, 2, 3, 4]);
    assert!(store.run(&r).unwrap().unwrap().row.record.is_err());
}

#[test]
fn a_flipped_byte_of_a_document_harms_that_one_alone_and_never_gets_to_latest() {
    let dir = tempfile::tempdir().unwrap();
    let (store, r) = (open(dir.path()), run("r"));
    put(&store, &r, "a");
    put(&store, &r, "b");
    let path = dir.path().join("r/history/b.json");
    let bytes = fs::read(&path).unwrap();
    let entry = rows(&store, &r).pop().unwrap().intact().unwrap();
    for at in 0..bytes.len() {
        let mut flipped = bytes.clone();
        flipped[at] ^= 4;
        overwrite(&path, &flipped);
        let read = store.body(&r, 2).unwrap();
        assert!(Verified::read(read, &entry.header).is_err());
        assert!(verify(store.body(&r, 1).unwrap()).is_ok());
        assert_eq!(fs::read(dir.path().join("r/latest.json")).unwrap(), bytes);
    }
    assert_eq!(store.maintain(Maintenance::Inspect).unwrap().problems[0].kind, ProblemKind::Derived);
    assert_eq!(store.maintain(Maintenance::Repair).unwrap().done, 1);
    assert_eq!(fs::read(&path).unwrap(), bytes);
    fs::remove_file(&path).unwrap();
    let gone = store.body(&r, 2).unwrap_err();
    assert!(matches!(gone, StoreError::Damaged(d) if d.found == "no file" && d.sequence == Some(2)));
    assert!(matches!(store.body(&r, 9), Err(StoreError::NoCheckpoint(_, 9))));
}

#[test]
fn latest_is_mended_by_reading() {
    let dir = tempfile::tempdir().unwrap();
    let (store, r) = (open(dir.path()), run("r"));
    put(&store, &r, "a");
    let latest = dir.path().join("r/latest.json");
    let bytes = fs::read(&latest).unwrap();
    for wrong in [&b""[..], b"{}", b"\xff\xfe", &bytes[..bytes.len() / 2]] {
        overwrite(&latest, wrong);
        let held = store.lock.acquire(Duration::ZERO).unwrap();
        assert_eq!(store.body(&r, 1).unwrap(), bytes);
        assert_eq!(fs::read(&latest).unwrap(), wrong);
        drop(held);
        assert_eq!(store.body(&r, 1).unwrap(), bytes);
        assert_eq!(fs::read(&latest).unwrap(), bytes);
    }
    fs::remove_file(&latest).unwrap();
    store.body(&r, 1).unwrap();
    assert_eq!(fs::read(&latest).unwrap(), bytes);
}

#[test]
fn compressed_documents_are_as_good_and_as_guarded() {
    let dir = tempfile::tempdir().unwrap();
    let (store, r) = (open(dir.path()), run("r"));
    for id in ["a", "b", "c"] {
        put(&store, &r, id);
    }
    let bodies: Vec<_> = (1..=3).map(|s| store.body(&r, s).unwrap()).collect();
    assert_eq!(
        store.maintain(Maintenance::Compress { run: None, before: EARLY.parse().unwrap() }).unwrap().done,
        0
    );
    let later = Maintenance::Compress { run: None, before: "2027-01-01T00:00:00Z".parse().unwrap() };
    assert_eq!(store.maintain(later).unwrap().done, 2);
    assert_eq!(store.maintain(later).unwrap().done, 0);
    let names: BTreeSet<_> =
        fs::read_dir(dir.path().join("r/history")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert!(names.iter().eq(["a.json.gz", "b.json.gz", "c.json"]), "{names:?}");
    store.maintain(Maintenance::Compact).unwrap();
    let again: Vec<_> = (1..=3).map(|s| open(dir.path()).body(&r, s).unwrap()).collect();
    assert_eq!(again, bodies);
    let path = dir.path().join("r/history/a.json.gz");
    let packed = fs::read(&path).unwrap();
    for at in 0..packed.len() {
        let mut flipped = packed.clone();
        flipped[at] ^= 16;
        overwrite(&path, &flipped);
        let StoreError::Damaged(damage) = store.body(&r, 1).unwrap_err() else { panic!("byte {at}") };
        assert_eq!((damage.part, damage.sequence), (Part::Body, Some(1)));
        assert_eq!(damage.snapshot_id.unwrap().as_str(), "a");
    }
    overwrite(&path, &packed);
    change(&store, &r, |_, commit| commit.drops = vec![1, 3]).unwrap();
    assert!(!path.exists());
    assert_eq!(fs::read(dir.path().join("r/latest.json")).unwrap(), bodies[1]);
}

fn attachment(index: i64) -> Attachment {
    Attachment::new("cp", "task", index, "channel", "bytes", AttachedValue::Bytes(b"value".to_vec()))
}

#[test]
fn one_damaged_line_loses_no_attachment_and_two_are_reported() {
    let dir = tempfile::tempdir().unwrap();
    let (store, r) = (open(dir.path()), run("r"));
    put(&store, &r, "a");
    for index in 0..3 {
        change(&store, &r, |_, commit| commit.attachments = vec![attachment(index)]).unwrap();
    }
    put(&store, &r, "b");
    let path = dir.path().join("r/log.jsonl");
    let log = fs::read(&path).unwrap();
    let starts: Vec<_> = log.iter().enumerate().filter(|(_, b)| **b == b'\n').map(|(at, _)| at + 1).collect();
    let damage = |lines: &[usize]| {
        let mut bytes = log.clone();
        lines.iter().for_each(|line| bytes[starts[*line] + 50] ^= 1);
        overwrite(&path, &bytes);
        store.attachments(&r, Some("cp")).unwrap()
    };
    let all = [0, 1, 2].map(|index| Ok(attachment(index)));
    for line in 0..3 {
        assert_eq!(damage(&[line]), all, "line {line}");
    }
    let mut found = damage(&[1, 2]);
    assert_eq!(found.pop().unwrap().unwrap_err().part, Part::Log);
    assert_eq!(found, [Ok(attachment(0)), Ok(attachment(2))]);
    store.maintain(Maintenance::Repair).unwrap();
    assert_eq!(store.attachments(&r, Some("cp")).unwrap(), found, "after a repair");
}
