//! Undo points, undo of undo, and files that were moved aside.

use super::*;

#[test]
fn an_undo_can_be_undone() {
    for (no_exchange, elsewhere) in [(false, false), (true, false), (false, true), (true, true)] {
        let w = World::new();
        w.target.ops.faults.set_no_exchange(no_exchange);
        w.target.ops.faults.set_aside_elsewhere(elsewhere);
        w.write("saved", "old");
        w.write("unsaved", "precious");
        w.write("unsaved-deleted", "precious too");
        w.make_executable("unsaved-deleted");
        w.write("f/deleted", "old");
        let before = w.tree();
        let changes = vec![
            change("saved", w.file("old"), w.file("new")),
            w.unsaved("unsaved", w.file("new")),
            w.unsaved("unsaved-deleted", ABSENT),
            change("f/deleted", w.file("old"), ABSENT),
            change("g/created", ABSENT, w.file("new")),
        ];
        let outcome = w.apply("1", changes).unwrap();
        assert_eq!((outcome.conflicts.len(), outcome.aside.len()), (0, 2));
        let after = w.tree();
        let aside = tree(&w.journals.join("1/aside"));
        let contents: Vec<_> = aside.into_values().collect();
        let expected = [("precious", false), ("precious too", true)];
        for (content, executable) in expected {
            assert!(contents.contains(&Entry::File(content.as_bytes().to_vec(), executable)));
        }
        assert_eq!(w.undo("1", "2").unwrap().conflicts, []);
        assert_eq!(w.tree(), before, "{no_exchange} {elsewhere}");
        assert_eq!(tree(&w.journals.join("1/aside")).len(), 0, "files are put back, not copied");
        assert_eq!(w.undo("2", "3").unwrap().conflicts, []);
        assert_eq!(w.tree(), after);
        assert_eq!(w.undo("3", "4").unwrap().conflicts, []);
        assert_eq!(w.tree(), before);
        let points = undo_points(&w.target).unwrap();
        assert_eq!(points.iter().map(|p| p.meta.id.as_str()).collect::<Vec<_>>(), ["4", "3", "2", "1"]);
        assert_eq!((points[3].changed, points[3].aside, points[3].conflicts), (5, 2, 0));
        assert_eq!(undo_plan(&w.target, "1").unwrap().unavailable.len(), 2, "they were put back");
    }
}

#[test]
fn an_undo_keeps_what_was_edited_since() {
    let w = World::new();
    w.write("a", "old");
    w.write("b", "precious");
    w.apply("1", vec![change("a", w.file("old"), w.file("new")), w.unsaved("b", w.file("new"))]).unwrap();
    w.write("a", "edited");
    w.write("b", "edited");
    let outcome = w.undo("1", "2").unwrap();
    assert_eq!(outcome.conflicts.len(), 2);
    assert_eq!((w.text("a"), w.text("b")), ("edited".to_owned(), "edited".to_owned()));
    assert_eq!(fs::read(w.journals.join("1/aside/1")).unwrap(), b"precious", "it is still there");
    w.write("b", "new");
    assert_eq!(reasons(&w.undo("1", "3").unwrap()).len(), 1);
    assert_eq!(w.text("b"), "precious");
}

#[test]
fn the_aside_folder_cannot_be_a_symbolic_link() {
    let w = World::new();
    w.write("a", "old");
    w.apply("1", vec![w.unsaved("a", w.file("new"))]).unwrap();
    let outside = tempfile::tempdir().unwrap();
    write_file(&outside.path().join("0"), b"secret");
    fs::remove_dir_all(w.journals.join("1/aside")).unwrap();
    symlink(outside.path(), w.journals.join("1/aside")).unwrap();
    assert!(undo_plan(&w.target, "1").is_err());
    remove_undo_point(&w.target, "1").unwrap();
    assert_eq!(fs::read(outside.path().join("0")).unwrap(), b"secret");
}

#[test]
fn undo_points_are_removed_and_name_their_blobs() {
    let w = World::new();
    w.write("a", "old");
    w.apply("1", vec![w.unsaved("a", w.file("new"))]).unwrap();
    w.apply("2", vec![change("a", w.file("new"), w.file("newer"))]).unwrap();
    let blobs: Vec<_> = [b"new".as_slice(), b"newer"].map(BlobId::of).into();
    let referenced = referenced_blobs(&w.target).unwrap();
    assert!(referenced.len() == 2 && blobs.iter().all(|blob| referenced.contains(blob)));
    remove_undo_point(&w.target, "1").unwrap();
    assert!(matches!(remove_undo_point(&w.target, "1"), Err(RestoreError::UnknownUndoPoint { .. })));
    assert!(matches!(undo_plan(&w.target, "1"), Err(RestoreError::UnknownUndoPoint { .. })));
    assert!(matches!(undo_plan(&w.target, "../x"), Err(RestoreError::InvalidId { .. })));
    assert_eq!(undo_points(&w.target).unwrap().len(), 1);
    remove_undo_point(&w.target, "2").unwrap();
    assert!(w.has_no_journal());
}

#[test]
fn a_damaged_journal_is_refused() {
    let w = World::new();
    w.write("a", "old");
    w.apply("1", vec![change("a", w.file("old"), w.file("new"))]).unwrap();
    let path = w.journals.join("1/undo.json");
    let text = fs::read_to_string(&path).unwrap();
    serde_json::from_str::<serde_json::Value>(&text).unwrap();
    let hostile = text.replace("\"path\":\"a\"", "\"path\":\"../a\"");
    for damaged in [&text[1..], &text[..text.len() - 4], &hostile, &text.replace("\"fd\"", "\"f?\"")] {
        assert_ne!(damaged, text);
        write_file(&path, damaged.as_bytes());
        assert!(matches!(undo_points(&w.target), Err(RestoreError::DamagedJournal { .. })), "{damaged}");
        write_file(&w.journals.join("1/journal.json"), damaged.as_bytes());
        assert!(matches!(w.recover(), Err(RestoreError::DamagedJournal { .. })));
        fs::remove_file(w.journals.join("1/journal.json")).unwrap();
    }
}
