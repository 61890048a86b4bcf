//! The SQLite store: a small database is damaged as the input describes, then read, repaired and written to. Each 4 bytes
//! of the input replace one byte: 3 bytes of its position, and the new byte.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use milepost::store::StoreUrl;

use super::stored_runs::{self, Documents};
use crate::scratch;

/// The files of the undamaged store and its documents.
type Original = (Vec<(PathBuf, Vec<u8>)>, Documents);

pub(super) fn run(data: &[u8]) {
    let (files, documents) = original();
    let folder = scratch::folder();
    let size: usize = files.iter().map(|(_, content)| content.len()).sum();
    let mut all: Vec<u8> = files.iter().flat_map(|(_, content)| content.iter().copied()).collect();
    for change in data.chunks_exact(4) {
        let at = usize::from(change[0]) << 16 | usize::from(change[1]) << 8 | usize::from(change[2]);
        all[at % size] = change[3];
    }
    let mut rest = all.as_slice();
    for (name, content) in files {
        let (changed, after) = rest.split_at(content.len());
        assert!(scratch::write(&folder.path().join(name), changed));
        rest = after;
    }
    stored_runs::check(&address(folder.path()), documents, folder.path());
}

fn address(folder: &Path) -> StoreUrl {
    StoreUrl::sqlite(folder.join("milepost.db"))
}

fn original() -> &'static Original {
    static ORIGINAL: OnceLock<Original> = OnceLock::new();
    ORIGINAL.get_or_init(|| {
        let folder = scratch::folder();
        let documents = stored_runs::create(&address(folder.path()));
        let files = scratch::read_files(folder.path()).into_iter();
        let named = files.filter_map(|(path, content)| Some((PathBuf::from(path.file_name()?), content)));
        // The locks are empty, and SQLite creates its index of the WAL again.
        let named =
            named.filter(|(name, content)| !content.is_empty() && !name.to_string_lossy().ends_with("-shm"));
        (named.collect(), documents)
    })
}
