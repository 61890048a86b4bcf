//! Tests of blobs in a store of files: damaged, missing and stray files, roots and the counter of bytes.

use super::*;
use crate::model::BlobId;
use crate::store::LiveBlobs;

fn contents() -> Vec<Vec<u8>> {
    (0..6_u8).map(|n| [b"a blob of text ".repeat(20), vec![n; 9]].concat()).collect()
}

/// A store with six blobs.
fn with_blobs(dir: &Path) -> (FilesStore, Vec<Vec<u8>>, Vec<BlobId>) {
    let (store, contents) = (open(dir), contents());
    store.put_blobs(&contents.iter().map(Vec::as_slice).collect::<Vec<_>>()).unwrap();
    let ids = contents.iter().map(|content| BlobId::of(content)).collect();
    (store, contents, ids)
}

fn is_damaged(read: Result<Vec<u8>, StoreError>, id: &BlobId) -> bool {
    matches!(read, Err(StoreError::Damaged(d)) if d.part == Part::Blob && d.expected == id.to_string())
}

fn kinds(store: &FilesStore) -> Vec<ProblemKind> {
    store.maintain(Maintenance::Inspect).unwrap().problems.into_iter().map(|problem| problem.kind).collect()
}

#[test]
fn a_damaged_file_is_reported_for_its_blob() {
    let dir = tempfile::tempdir().unwrap();
    let (store, contents, ids) = with_blobs(dir.path());
    let path = store.blob_folder().path(&ids[2]);
    let name = ids[2].to_string();
    assert_eq!(path, dir.path().join(".store/blobs").join(&name[..2]).join(&name));
    let whole = fs::read(&path).unwrap();
    for at in 0..whole.len() {
        let mut flipped = whole.clone();
        flipped[at] ^= 1 << (at % 8);
        overwrite(&path, &flipped);
        // Some bits of a zstd frame have no effect on the content.
        match store.blob(&ids[2]) {
            Ok(content) => assert_eq!(content, contents[2], "byte {at}"),
            damaged => assert!(is_damaged(damaged, &ids[2]), "byte {at}"),
        }
        overwrite(&path, &whole[..at]);
        match at {
            0 => assert!(matches!(store.blob(&ids[2]), Err(StoreError::NoBlob(_))), "an evicted blob"),
            _ => assert!(is_damaged(store.blob(&ids[2]), &ids[2]), "{at} bytes"),
        }
        for n in [0, 1, 3, 4, 5] {
            assert_eq!(store.blob(&ids[n]).unwrap(), contents[n]);
        }
    }
    fs::remove_file(&path).unwrap();
    assert!(matches!(store.blob(&ids[2]), Err(StoreError::NoBlob(_))));
    assert_eq!(store.missing_blobs(&ids).unwrap(), [ids[2]]);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        assert!(is_damaged(store.blob(&ids[2]), &ids[2]), "symbolic links are not followed");
        fs::remove_file(&path).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let (file, folder) = (store.blob_folder().path(&ids[0]), store.blob_folder().root().to_owned());
        assert_eq!((mode(&file), mode(file.parent().unwrap()), mode(&folder)), (0o600, 0o700, 0o700));
    }
    store.maintain(Maintenance::Repair).unwrap();
    store.put_blobs(&[&contents[2]]).unwrap();
    assert_eq!(fs::read(&path).unwrap(), whole);
    assert_eq!(kinds(&open(dir.path())), []);
}

#[test]
fn a_run_may_be_called_blobs() {
    let dir = tempfile::tempdir().unwrap();
    let (store, contents, ids) = with_blobs(dir.path());
    put(&store, &run("blobs"), "a");
    change(&store, &run("blobs"), |_, commit| {
        commit.blobs.clone_from(&ids);
        commit.roots = vec![("a root".into(), ids[0])];
    })
    .unwrap();
    let store = open(dir.path());
    assert_eq!(store.run_ids().unwrap(), [run("blobs")]);
    assert!(store.delete_run(&run("blobs"), None).unwrap());
    for (id, content) in ids.iter().zip(&contents) {
        assert_eq!(store.blob(id).unwrap(), *content, "a deleted run leaves its blobs to the collection");
    }
    assert_eq!(store.blob_roots().unwrap(), [("a root".to_owned(), ids[0])]);
}

#[test]
fn damaged_roots_stop_no_save_but_stop_a_collection() {
    let dir = tempfile::tempdir().unwrap();
    let (store, contents, ids) = with_blobs(dir.path());
    let set = |name: &str, id: BlobId| {
        change(&store, &run("r"), |_, commit| commit.roots = vec![(name.to_owned(), id)]).unwrap();
    };
    for (name, id) in ["one", "two\nlines", "three"].into_iter().zip(&ids) {
        set(name, *id);
    }
    let path = dir.path().join(".store/blob-roots");
    let whole = fs::read(&path).unwrap();
    let roots = store.blob_roots().unwrap();
    assert_eq!(roots.len(), 3);
    let is_noticed = |bytes: &[u8], what: &str| {
        overwrite(&path, bytes);
        assert!(matches!(store.blob_roots(), Err(StoreError::Damaged(_))), "{what}");
        let refused = store.collect_blobs(&mut || store.blob_roots().map(|_| LiveBlobs::default()));
        assert!(refused.is_err(), "{what}");
    };
    for at in 0..whole.len() - 1 {
        let mut flipped = whole.clone();
        flipped[at] ^= 1;
        is_noticed(&flipped, &format!("byte {at}"));
    }
    let lines: Vec<_> = whole.split_inclusive(|byte| *byte == b'\n').collect();
    is_noticed(&lines[..3].concat(), "a missing line");
    assert_eq!(store.blob(&ids[5]).unwrap(), contents[5]);
    // A later commit does not hide the damage. The readable roots remain after a repair.
    set("four", ids[3]);
    assert!(store.blob_roots().is_err());
    assert_eq!(kinds(&store), [ProblemKind::Record]);
    assert_eq!(store.maintain(Maintenance::Repair).unwrap().done, 1);
    let names: Vec<_> = store.blob_roots().unwrap().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["four", "one", "three"]);
    assert_eq!(kinds(&store), []);
}

#[test]
fn the_counter_is_rebuilt_and_strays_are_removed() {
    let dir = tempfile::tempdir().unwrap();
    let (store, _, ids) = with_blobs(dir.path());
    let bytes = store.sum_blob_bytes().unwrap();
    assert_eq!(store.blob_bytes().unwrap(), bytes);
    let path = dir.path().join(".store/blob-bytes");
    let whole = fs::read(&path).unwrap();
    // An interrupted write leaves it empty. A crash of the machine may remove it.
    overwrite(&path, b"");
    assert_eq!((store.blob_bytes().unwrap(), kinds(&store)), (bytes, vec![]));
    fs::remove_file(&path).unwrap();
    assert_eq!((store.blob_bytes().unwrap(), kinds(&store)), (bytes, vec![]));
    overwrite(&path, &whole[1..]);
    assert_eq!((store.blob_bytes().unwrap(), kinds(&store)), (bytes, vec![ProblemKind::Derived]));
    store.set_counter(bytes + 1).unwrap();
    let stray = store.blob_folder().path(&ids[0]).with_file_name(".milepost-tmp-x");
    overwrite(&stray, b"half");
    assert_eq!(kinds(&store), [ProblemKind::StrayFile, ProblemKind::Derived]);
    assert_eq!(store.maintain(Maintenance::Repair).unwrap().done, 2);
    assert!(!stray.exists());
    assert_eq!((store.blob_bytes().unwrap(), kinds(&store)), (bytes, vec![]));
    assert!(store.info().unwrap().bytes > bytes);
}
