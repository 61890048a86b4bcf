//! The pointer file, which is a JSON file of the user: an update changes the one value at its key, or is refused and
//! changes nothing.

use milepost::internal::engine::{Pointer, PointerUpdate};
use milepost::internal::store::ProjectPaths;
use serde_json::Value;

use crate::scratch;

/// The id that the pointer is set to.
const ID: &str = "cp_20261115T100000000Z_0123456789ab";

pub(super) fn run(data: &[u8]) {
    let folder = scratch::folder();
    let file = folder.path().join("seed.json");
    assert!(scratch::write(&file, data));
    let project = ProjectPaths::find(folder.path()).expect("a folder is a project");
    let key = vec!["state".to_owned(), "checkpointRef".to_owned()];
    let pointer = Pointer { file: file.clone(), key, commit: false, project };
    let id = ID.parse().expect("a valid id");
    let updated = pointer.update(&|_| Ok(PointerUpdate::Name(Clone::clone(&id))));
    let after = std::fs::read(&file).expect("the file still exists");
    match updated {
        Err(_) => assert!(after == data, "a refused update changed the file"),
        Ok(()) => compare(data, &after),
    }
    let files: Vec<_> = scratch::read_files(folder.path()).into_keys().collect();
    assert_eq!(files, [file], "an update left a file");
}

/// Checks that two documents are the same except for the id.
fn compare(before: &[u8], after: &[u8]) {
    let mut before: Value = serde_json::from_slice(before).unwrap_or_default();
    let after: Value = serde_json::from_slice(after).expect("the file is still JSON");
    before["state"]["checkpointRef"] = ID.into();
    assert_eq!(after, before);
}
