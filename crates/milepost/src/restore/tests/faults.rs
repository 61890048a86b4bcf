//! Faults at every file operation: an error, errors from there on, or a killed process. After a recovery all
//! files are old or all are new, and no content is lost.

use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::ops::fault::{FaultKind, Stopped};
use super::*;

/// Contents that are stored nowhere but in the worktree.
const PRECIOUS: [&str; 2] = ["precious", "precious too"];

fn is_temporary(path: &[u8]) -> bool {
    path.split(|b| *b == b'/').any(|part| part.starts_with(b".milepost-restore-"))
}

/// A world with every kind of change.
fn large() -> (World, Vec<FileChange>) {
    let (w, mut changes) = small();
    w.write("bit", "run me");
    w.write("to-link", "file");
    w.write("x", "becomes a folder");
    w.write("y/a/b", "in a folder that becomes a file");
    w.write("y/c", "in a folder that becomes a file");
    w.write("kept", "edited");
    w.write("unsaved-deleted", PRECIOUS[1]);
    changes.extend([
        change("bit", w.file("run me"), w.executable("run me")),
        change("to-link", w.file("file"), symlink_to("x")),
        change("x", w.file("becomes a folder"), ABSENT),
        change("x/in/it", ABSENT, w.file("new")),
        change("y/a/b", w.file("in a folder that becomes a file"), ABSENT),
        change("y/c", w.file("in a folder that becomes a file"), ABSENT),
        change("y", ABSENT, w.file("new")),
        change("kept", w.file("something else"), w.file("new")),
        w.unsaved("unsaved-deleted", ABSENT),
    ]);
    (w, changes)
}

/// A world with a few changes.
fn small() -> (World, Vec<FileChange>) {
    let w = World::new();
    w.write("modified", "old");
    w.write("f/deleted", "gone");
    w.write("unsaved", PRECIOUS[0]);
    let changes = vec![
        change("modified", w.file("old"), w.file("new")),
        change("f/deleted", w.file("gone"), ABSENT),
        change("g/h/created", ABSENT, w.file("new")),
        w.unsaved("unsaved", w.file("new")),
    ];
    (w, changes)
}

/// How file systems differ: whether they exchange files, and whether the journal is on the same one.
const SYSTEMS: [(bool, bool); 4] = [(false, false), (true, false), (false, true), (true, true)];

fn set_system(w: &World, (no_exchange, elsewhere): (bool, bool)) {
    w.target.ops.faults.set_no_exchange(no_exchange);
    w.target.ops.faults.set_aside_elsewhere(elsewhere);
}

/// Runs an operation with a fault at operation `n`. Returns `None` if it was stopped.
fn with_fault<T>(w: &World, n: usize, kind: FaultKind, run: impl FnOnce() -> T) -> (Option<T>, bool) {
    w.target.ops.faults.set(n, kind);
    let result = match catch_unwind(AssertUnwindSafe(run)) {
        Ok(result) => Some(result),
        Err(payload) => {
            assert!(payload.is::<Stopped>(), "{n}: a real panic");
            None
        }
    };
    let was_reached = w.target.ops.faults.count() > n;
    w.target.ops.faults.clear();
    (result, was_reached)
}

/// Checks a world after a recovery.
fn check(w: &World, before: &Tree, after: &Tree, precious: &[&str], context: &str) {
    let found = w.tree();
    assert!(!found.keys().any(|path| is_temporary(path)), "{context}: a temporary file remains");
    assert!(&found == before || &found == after, "{context}: neither old nor new: {:?}", found.keys());
    check_precious(w, precious, context);
    assert!(unfinished(&w.journals).unwrap().is_none(), "{context}: a journal remains");
    assert!(w.recover().unwrap().is_none());
}

fn check_precious(w: &World, precious: &[&str], context: &str) {
    let contents = w.contents();
    for content in precious {
        assert!(contents.iter().any(|found| found == content.as_bytes()), "{context}: {content} is lost");
    }
}

/// The worktree before and after the changes of a world without faults.
fn expected(make: fn() -> (World, Vec<FileChange>)) -> (Tree, Tree) {
    let (w, changes) = make();
    let before = w.tree();
    w.apply("1", changes).unwrap();
    (before, w.tree())
}

const KINDS: [FaultKind; 4] = [
    FaultKind::Stop,
    FaultKind::Error(ErrorKind::StorageFull),
    FaultKind::ErrorsFrom(ErrorKind::StorageFull),
    FaultKind::Error(ErrorKind::Other),
];

#[test]
fn a_restore_that_fails_anywhere_is_recovered() {
    let (before, after) = expected(large);
    for system in SYSTEMS {
        for kind in KINDS {
            // Errors are handled alike on all systems.
            if kind != FaultKind::Stop && system != SYSTEMS[0] {
                continue;
            }
            for n in 0.. {
                let (w, changes) = large();
                set_system(&w, system);
                let (result, was_reached) = with_fault(&w, n, kind, || w.apply("1", changes));
                let context = format!("{system:?} {kind:?} at {n}");
                w.recover().unwrap();
                match result {
                    // Without space to move a file aside, that file is kept.
                    Some(Ok(outcome)) if outcome.conflicts.len() > 1 => {
                        let no_space = |c: &Conflict| c.reason == ConflictReason::NoSpaceAside;
                        assert_eq!(outcome.conflicts.iter().filter(|c| no_space(c)).count(), 1);
                        check_precious(&w, &PRECIOUS, &context);
                    }
                    Some(Ok(_)) => check(&w, &after, &after, &PRECIOUS, &context),
                    Some(Err(e)) if !matches!(e, RestoreError::Interrupted { .. }) => {
                        check(&w, &before, &before, &PRECIOUS, &context);
                    }
                    _ => check(&w, &before, &after, &PRECIOUS, &context),
                }
                if !was_reached {
                    break;
                }
            }
        }
    }
}

#[test]
fn an_undo_that_fails_anywhere_is_recovered() {
    let (before, after) = expected(large);
    let error = FaultKind::Error(ErrorKind::Other);
    let cases = [(SYSTEMS[0], FaultKind::Stop), (SYSTEMS[0], error), (SYSTEMS[3], FaultKind::Stop)];
    for (system, kind) in cases {
        for n in 0.. {
            let (w, changes) = large();
            set_system(&w, system);
            w.apply("1", changes).unwrap();
            let plan = undo_plan(&w.target, "1").unwrap();
            let (_, was_reached) = with_fault(&w, n, kind, || w.apply("2", plan.changes));
            let context = format!("undo {system:?} {kind:?} at {n}");
            w.recover().unwrap();
            check(&w, &before, &after, &PRECIOUS, &context);
            // The undo itself can be undone, or tried again.
            if w.tree() == before {
                w.undo("2", "3").unwrap();
                check(&w, &after, &after, &PRECIOUS, &context);
            } else {
                w.undo("1", "3").unwrap();
                check(&w, &before, &before, &PRECIOUS, &context);
            }
            if !was_reached {
                break;
            }
        }
    }
}

#[test]
fn a_recovery_that_is_interrupted_is_recovered() {
    const STRIDE: usize = 5;
    let (before, after) = expected(small);
    for (system, kind) in SYSTEMS.into_iter().zip([
        FaultKind::Stop,
        FaultKind::Stop,
        FaultKind::Error(ErrorKind::Other),
        FaultKind::ErrorsFrom(ErrorKind::StorageFull),
    ]) {
        for n in 0.. {
            let mut was_reached = true;
            // Each interruption of the restore is combined with a part of the interruptions of the recovery.
            for m in (n % STRIDE..).step_by(STRIDE) {
                let (w, changes) = small();
                set_system(&w, system);
                (_, was_reached) = with_fault(&w, n, FaultKind::Stop, || w.apply("1", changes));
                let (_, again) = with_fault(&w, m, kind, || w.recover());
                w.recover().unwrap();
                check(&w, &before, &after, &PRECIOUS[..1], &format!("{system:?} {kind:?} at {n}, then {m}"));
                if !again {
                    break;
                }
            }
            if !was_reached {
                break;
            }
        }
    }
}

#[test]
fn what_is_edited_before_a_recovery_is_kept() {
    let paths = ["modified", "f/deleted", "g/h/created", "unsaved"];
    for system in SYSTEMS {
        for n in 0.. {
            let (w, changes) = small();
            set_system(&w, system);
            let (_, was_reached) = with_fault(&w, n, FaultKind::Stop, || w.apply("1", changes));
            // If the restore did not take the file, the edit itself replaces its content.
            let is_unchanged = w.at("unsaved").exists() && w.text("unsaved") == PRECIOUS[0];
            for path in paths {
                w.write(path, format!("edited {path}"));
            }
            let recovery = w.recover().unwrap();
            let context = format!("{system:?} at {n}: {recovery:?}");
            for path in paths {
                assert_eq!(w.text(path), format!("edited {path}"), "{context}");
            }
            assert!(!w.tree().keys().any(|path| is_temporary(path)), "{context}");
            if !is_unchanged {
                check_precious(&w, &PRECIOUS[..1], &context);
            }
            if !was_reached {
                break;
            }
        }
    }
}

#[test]
fn a_recovery_without_the_new_contents_rolls_back() {
    let (before, after) = expected(large);
    let mut rolled_back = 0;
    for system in SYSTEMS {
        for n in 0.. {
            let (w, changes) = large();
            set_system(&w, system);
            let (_, was_reached) = with_fault(&w, n, FaultKind::Stop, || w.apply("1", changes));
            for (path, entry) in w.tree() {
                if is_temporary(&path) && entry == Entry::File(b"new".to_vec(), false) {
                    fs::remove_file(w.at(path)).unwrap();
                }
            }
            w.blobs.0.lock().unwrap().clear();
            let recovery = w.recover().unwrap();
            if recovery.is_some_and(|r| r.result == RecoveryResult::RolledBack) {
                rolled_back += 1;
            }
            check(&w, &before, &after, &PRECIOUS, &format!("{system:?} at {n}"));
            if !was_reached {
                break;
            }
        }
    }
    assert!(rolled_back > 40, "{rolled_back}");
}
