//! Every kind of change, odd names and permissions.

use super::*;

#[test]
fn every_kind_of_change_is_made() {
    let w = World::new();
    w.write("modified", "old");
    w.write("deleted", "gone");
    w.write("bit", "run me");
    w.write("deep/in/folders/deleted", "gone");
    w.write("kept/deleted", "gone");
    w.write("kept/other", "stays");
    w.write("to-link", "file");
    w.link("to-file", "nowhere");
    w.link("link", "one");
    let outcome = w
        .apply(
            "1",
            vec![
                change("modified", w.file("old"), w.file("new")),
                change("deleted", w.file("gone"), ABSENT),
                change("bit", w.file("run me"), w.executable("run me")),
                change("deep/in/folders/deleted", w.file("gone"), ABSENT),
                change("kept/deleted", w.file("gone"), ABSENT),
                change("created", ABSENT, w.file("created")),
                change("new/folders/created", ABSENT, w.executable("script")),
                change("new/link", ABSENT, symlink_to("../anywhere")),
                change("to-link", w.file("file"), symlink_to("x")),
                change("to-file", symlink_to("nowhere"), w.file("file")),
                change("link", symlink_to("one"), symlink_to("two")),
            ],
        )
        .unwrap();
    assert_eq!(outcome.conflicts, []);
    assert_eq!((outcome.changed.len(), outcome.undo_point), (11, true));
    let file = |text: &str, executable| Entry::File(text.as_bytes().to_vec(), executable);
    let link = |target: &str| Entry::Symlink(target.as_bytes().to_vec());
    let expected = [
        ("modified", file("new", false)),
        ("bit", file("run me", true)),
        ("kept", Entry::Folder),
        ("kept/other", file("stays", false)),
        ("created", file("created", false)),
        ("new", Entry::Folder),
        ("new/folders", Entry::Folder),
        ("new/folders/created", file("script", true)),
        ("new/link", link("../anywhere")),
        ("to-link", link("x")),
        ("to-file", file("file", false)),
        ("link", link("two")),
    ];
    assert_eq!(w.tree(), expected.into_iter().map(|(path, e)| (path.as_bytes().to_vec(), e)).collect());
    assert!(w.recover().unwrap().is_none());
}

#[test]
fn a_file_becomes_a_folder_and_a_folder_a_file() {
    for no_exchange in [false, true] {
        let w = World::new();
        w.target.ops.faults.set_no_exchange(no_exchange);
        w.write("x/a", "file");
        w.write("y/b/c/d", "inner");
        w.write("y/b/e", "inner");
        let before = w.tree();
        let changes = vec![
            change("x/a", w.file("file"), ABSENT),
            change("x/a/b/c", ABSENT, w.file("deep")),
            change("x/a/d", ABSENT, w.file("other")),
            change("y/b/c/d", w.file("inner"), ABSENT),
            change("y/b/e", w.file("inner"), ABSENT),
            change("y/b", ABSENT, w.file("flat")),
        ];
        let outcome = w.apply("1", changes).unwrap();
        assert_eq!(outcome.conflicts, [], "{no_exchange}");
        assert_eq!(
            (w.text("x/a/b/c"), w.text("x/a/d"), w.text("y/b")),
            ("deep".into(), "other".into(), "flat".into())
        );
        assert_eq!(w.tree().len(), 7);
        assert_eq!(w.undo("1", "2").unwrap().conflicts, []);
        assert_eq!(w.tree(), before);
    }
}

#[test]
fn a_folder_with_other_files_stays_a_folder() {
    let w = World::new();
    w.write("a/b", "inner");
    w.write("a/mine", "untracked");
    let before = w.tree();
    let outcome =
        w.apply("1", vec![change("a/b", w.file("inner"), w.file("2")), change("a", ABSENT, w.file("x"))]);
    assert!(matches!(outcome, Err(RestoreError::InvalidPlan { .. })));
    let changes = vec![change("a/b", w.file("inner"), ABSENT), change("a", ABSENT, w.file("flat"))];
    let outcome = w.apply("1", changes).unwrap();
    assert_eq!(reasons(&outcome), [("a".to_owned(), ConflictReason::FolderNotEmpty)]);
    assert_eq!(w.text("a/mine"), "untracked");
    assert_eq!(w.undo("1", "2").unwrap().conflicts, []);
    assert_eq!(w.tree(), before);
    // If the file cannot be deleted, what should be created below it is a conflict too.
    w.write("f", "changed");
    let changes = vec![change("f", w.file("f"), ABSENT), change("f/g", ABSENT, w.file("g"))];
    let outcome = w.apply("3", changes).unwrap();
    let changed = ConflictReason::Changed;
    assert_eq!(
        reasons(&outcome),
        [("f".to_owned(), changed), ("f/g".to_owned(), ConflictReason::ParentNotFolder)]
    );
    assert!(!outcome.undo_point);
    w.write("f", "f");
    fs::remove_file(w.at("f")).unwrap();
    assert_eq!(w.tree(), before, "nothing of the staged folder remains");
}

#[test]
fn odd_names_are_ordinary() {
    let w = World::new();
    let long = "n".repeat(255);
    let deep = format!("{}deep", "folder/".repeat(100));
    let names: [&[u8]; 7] = [
        b"line\nbreak",
        b"not \xff utf-8",
        b"-rf",
        "💥 emoji/ü".as_bytes(),
        long.as_bytes(),
        deep.as_bytes(),
        b"back\\slash: \"quote\" *",
    ];
    let create = names.map(|name| change(name, ABSENT, w.file(name))).to_vec();
    assert_eq!(w.apply("1", create).unwrap().conflicts, []);
    for name in names {
        assert_eq!(fs::read(w.at(name)).unwrap(), name);
    }
    let modify = names.map(|name| change(name, w.file(name), w.file("second"))).to_vec();
    assert_eq!(w.apply("2", modify).unwrap().conflicts, []);
    let delete = names.map(|name| change(name, w.file("second"), ABSENT)).to_vec();
    assert_eq!(w.apply("3", delete).unwrap().conflicts, []);
    assert_eq!(w.tree(), Tree::new(), "empty folders are removed");
    for (id, new_id) in [("3", "4"), ("2", "5"), ("1", "6")] {
        assert_eq!(w.undo(id, new_id).unwrap().conflicts, []);
    }
    assert_eq!(w.tree(), Tree::new());
}

#[test]
fn a_replaced_file_keeps_its_permissions_apart_from_execution() {
    let w = World::new();
    let mode = |path: &str| fs::metadata(w.at(path)).unwrap().permissions().mode() & 0o7777;
    w.write("private", "1");
    w.write("script", "1");
    fs::set_permissions(w.at("private"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::set_permissions(w.at("script"), fs::Permissions::from_mode(0o4711)).unwrap();
    let changes = vec![
        change("private", w.file("1"), w.file("2")),
        change("script", w.executable("1"), w.executable("2")),
        change("new", ABSENT, w.file("3")),
    ];
    assert_eq!(w.apply("1", changes).unwrap().conflicts, []);
    assert_eq!((mode("private"), mode("script")), (0o600, 0o711));
    write_file(&w.at("reference"), b"");
    assert_eq!(mode("new"), mode("reference"));
    assert_eq!(w.apply("2", vec![change("private", w.file("2"), w.executable("2"))]).unwrap().conflicts, []);
    assert_eq!(mode("private"), 0o700);
    assert_eq!(w.apply("3", vec![change("script", w.executable("2"), w.file("2"))]).unwrap().conflicts, []);
    assert_eq!(mode("script"), 0o600);
}

#[test]
fn a_path_with_its_new_content_is_left_alone() {
    let w = World::new();
    w.write("same", "new");
    let changes = vec![
        change("same", w.file("old"), w.file("new")),
        change("missing", w.file("old"), ABSENT),
        change("no/folder", w.file("old"), ABSENT),
    ];
    let outcome = w.apply("1", changes).unwrap();
    assert_eq!((outcome.unchanged.len(), outcome.changed.len(), outcome.conflicts.len()), (3, 0, 0));
    assert!(!outcome.undo_point && w.has_no_journal());
}

#[test]
fn a_damaged_or_missing_content_changes_nothing() {
    let w = World::new();
    w.write("a", "old");
    let before = w.tree();
    let wrong = w.file("wrong");
    let FileState::File { blob, .. } = &wrong else { unreachable!() };
    w.blobs.0.lock().unwrap().insert(*blob, b"damaged".to_vec());
    let missing = FileState::File { blob: BlobId::of(b"?"), size: 1, executable: false };
    for content in [wrong, missing] {
        let changes = vec![
            change("a", w.file("old"), w.file("new")),
            change("sub/folder/b", ABSENT, content),
            change("a/../b", ABSENT, ABSENT),
        ];
        let error = w.apply("1", changes[..2].to_vec()).unwrap_err();
        assert!(matches!(error, RestoreError::Content { .. }), "{error}");
        assert!(w.apply("1", changes).is_err());
        assert_eq!(w.tree(), before);
        assert!(w.has_no_journal());
    }
}
