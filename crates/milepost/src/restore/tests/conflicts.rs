//! Paths that are kept, hostile paths, and restores that exclude each other.

use super::ops::fault::FaultKind;
use super::*;

#[test]
fn what_is_not_as_expected_is_kept_and_the_rest_is_applied() {
    use ConflictReason as R;
    let w = World::new();
    w.write("changed", "edited");
    w.write("changed-delete", "edited");
    w.write("exists", "mine");
    w.write("bit", "same");
    w.make_executable("bit");
    w.link("link", "elsewhere");
    w.write("folder/inner", "inner");
    w.write("file", "a file");
    w.link("other", "folder");
    w.write("good", "old");
    let before = w.tree();
    let pipe = |name: &str| {
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, w.at(name), kind, rustix::fs::Mode::RUSR, 0).unwrap();
    };
    pipe("pipe");
    let changes = vec![
        change("changed", w.file("old"), w.file("new")),
        change("changed-delete", w.file("old"), ABSENT),
        change("exists", ABSENT, w.file("new")),
        change("bit", w.file("same"), w.file("new")),
        change("gone", w.file("old"), w.file("new")),
        change("link", symlink_to("here"), w.file("new")),
        change("folder", w.file("old"), w.file("new")),
        change("pipe", w.file("old"), w.file("new")),
        w.unsaved("other/below", w.file("new")),
        change("file/below", ABSENT, w.file("new")),
        change("good", w.file("old"), w.file("new")),
    ];
    let outcome = w.apply("1", changes).unwrap();
    let mut found = reasons(&outcome);
    found.sort_by(|a, b| a.0.cmp(&b.0));
    let expected = [
        ("bit", R::Changed),
        ("changed", R::Changed),
        ("changed-delete", R::Changed),
        ("exists", R::Exists),
        ("file/below", R::ParentNotFolder),
        ("folder", R::NotAFile),
        ("gone", R::Gone),
        ("link", R::Changed),
        ("other/below", R::ParentNotFolder),
        ("pipe", R::NotAFile),
    ];
    assert_eq!(found, expected.map(|(path, reason)| (path.to_owned(), reason)));
    assert_eq!(w.text("good"), "new");
    fs::remove_file(w.at("pipe")).unwrap();
    w.write("good", "old");
    assert_eq!(w.tree(), before);
}

#[test]
fn a_symbolic_link_cannot_lead_outside() {
    let w = World::new();
    let outside = tempfile::tempdir().unwrap();
    write_file(&outside.path().join("x"), b"secret");
    symlink(outside.path(), w.at("link")).unwrap();
    let changes = vec![
        change("link/x", w.file("secret"), w.file("overwritten")),
        change("link/new", ABSENT, w.file("created")),
        change("link/sub/new", ABSENT, w.file("created")),
        change("link/gone", w.file("secret"), ABSENT),
    ];
    let outcome = w.apply("1", changes).unwrap();
    assert_eq!(outcome.conflicts.len(), 4);
    assert!(outcome.conflicts.iter().all(|c| c.reason == ConflictReason::ParentNotFolder));
    assert_eq!(tree(outside.path()).len(), 1);
    assert_eq!(fs::read(outside.path().join("x")).unwrap(), b"secret");
}

#[test]
fn hostile_paths_are_refused_before_anything_happens() {
    let w = World::new();
    w.write("a", "old");
    for path in ["../x", "/etc/x", "a/../../x", ".git/config", ".GIT/hooks/x", "sub/.git/x", "git~1/x", ""] {
        let changes =
            vec![change("a", w.file("old"), w.file("new")), change(path, ABSENT, w.file("hostile"))];
        assert!(matches!(w.apply("1", changes), Err(RestoreError::InvalidPath { .. })), "{path}");
    }
    let twice = vec![change("a", w.file("old"), ABSENT), change("a", w.file("old"), w.file("new"))];
    assert!(matches!(w.apply("1", twice), Err(RestoreError::InvalidPlan { .. })));
    for id in ["", "a/b", "..", "a b"] {
        assert!(matches!(w.apply(id, Vec::new()), Err(RestoreError::InvalidId { .. })), "{id}");
    }
    assert_eq!(w.text("a"), "old");
    assert!(w.has_no_journal());
}

#[test]
fn what_the_system_refuses_is_a_conflict() {
    // The number of the operation is unknown, so each is refused once. Nothing is ever lost.
    let w = World::new();
    let mut conflicts = 0;
    for n in 0.. {
        for path in ["one", "two"] {
            w.write(path, "old");
        }
        w.target.ops.faults.set(n, FaultKind::Error(std::io::ErrorKind::PermissionDenied));
        let changes =
            vec![change("one", w.file("old"), w.file("new")), change("two", w.file("old"), w.file("new"))];
        let result = w.apply(&format!("{n}"), changes);
        let is_past_the_end = w.target.ops.faults.count() <= n;
        w.target.ops.faults.clear();
        w.recover().unwrap();
        if is_past_the_end {
            break;
        }
        for path in ["one", "two"] {
            assert!(["old", "new"].contains(&w.text(path).as_str()), "{n}");
        }
        if let Ok(outcome) = result {
            conflicts += outcome.conflicts.len();
            let changed = outcome.changed.len() + outcome.conflicts.len();
            assert_eq!(changed, 2, "{n}");
            for conflict in &outcome.conflicts {
                // A file that cannot be read after it was taken counts as changed.
                let expected = [ConflictReason::PermissionDenied, ConflictReason::Changed];
                assert!(expected.contains(&conflict.reason), "{n}");
                assert_eq!(w.text(&conflict.path.key()), "old", "{n}");
            }
        }
        for path in w.tree().into_keys().filter(|path| path.starts_with(b".")) {
            fs::remove_file(w.at(path)).unwrap();
        }
    }
    assert!(conflicts > 10, "{conflicts}");
}

#[test]
fn two_names_of_one_file_are_a_conflict_but_hard_links_are_two_files() {
    let w = World::new();
    w.write("a", "old");
    fs::hard_link(w.at("a"), w.at("b")).unwrap();
    let changes = ["a", "b"].map(|path| change(path, w.file("old"), w.file(format!("new {path}")))).to_vec();
    assert_eq!(w.apply("1", changes).unwrap().conflicts, []);
    assert_eq!((w.text("a"), w.text("b")), ("new a".to_owned(), "new b".to_owned()));
    // Stands for a file system that ignores case.
    w.write("name", "old");
    fs::hard_link(w.at("name"), w.at("NAME")).unwrap();
    let changes = ["name", "NAME"].map(|path| change(path, w.file("old"), w.file("new"))).to_vec();
    let outcome = w.apply("2", changes).unwrap();
    assert_eq!(reasons(&outcome), [("name".to_owned(), ConflictReason::SameFile)]);
}

#[test]
fn restores_exclude_each_other() {
    let w = World::new();
    w.write("a", "old");
    let lock = Lock::acquire(&w.journals).unwrap();
    let changes = || vec![change("a", w.file("old"), w.file("new"))];
    assert!(matches!(w.apply("1", changes()), Err(RestoreError::Busy)));
    drop(lock);
    // A killed restore leaves its journal, and the next one waits for its recovery.
    w.target.ops.faults.set(6, FaultKind::Stop);
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| w.apply("1", changes()))).unwrap_err();
    w.target.ops.faults.clear();
    assert!(matches!(w.apply("2", changes()), Err(RestoreError::Unfinished { id }) if id == "1"));
    assert_eq!(w.recover().unwrap().unwrap().meta, meta("1"));
    assert!(w.recover().unwrap().is_none());
    w.write("a", "old");
    w.apply("2", changes()).unwrap();
    assert!(matches!(w.apply("2", Vec::new()), Err(RestoreError::InvalidId { .. })), "ids are not reused");
}

#[test]
fn a_folder_without_a_journal_is_removed_unless_it_holds_files() {
    let w = World::new();
    fs::create_dir_all(w.journals.join("1/aside")).unwrap();
    write_file(&w.journals.join("1/.milepost-tmp-x"), b"half a journal");
    fs::create_dir_all(w.journals.join("2/aside")).unwrap();
    write_file(&w.journals.join("2/aside/0"), b"precious");
    w.apply("3", Vec::new()).unwrap();
    assert!(!w.journals.join("1").exists() && !w.journals.join("3").exists());
    assert!(w.journals.join("2/aside/0").exists());
}
