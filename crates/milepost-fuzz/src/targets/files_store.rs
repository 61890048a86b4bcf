//! The file layout: the files of a small store are damaged as the input describes, then read, repaired and written to.
//! The input is a list of changes: a byte that selects the file, a byte that selects the change, two bytes of its
//! position, a byte of its length, and the new bytes.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use milepost::store::StoreUrl;

use super::stored_runs::{self, Documents};
use crate::scratch;

/// The files of the undamaged store and its documents.
type Original = (Vec<(PathBuf, Vec<u8>)>, Documents);

pub(super) fn run(mut data: &[u8]) {
    let (files, documents) = original();
    let mut files = files.clone();
    while let [file, kind, high, low, len, rest @ ..] = data {
        let (new, rest) = rest.split_at(usize::from(*len % 64).min(rest.len()));
        data = rest;
        let count = files.len();
        let (_, content) = &mut files[usize::from(*file) % count];
        let at = (usize::from(*high) << 8 | usize::from(*low)) % (content.len() + 1);
        match kind % 4 {
            0 => content.truncate(at),
            1 => drop(content.splice(at..at, new.iter().copied())),
            2 => drop(content.drain(at..(at + new.len()).min(content.len()))),
            _ => content.iter_mut().skip(at).zip(new).for_each(|(old, new)| *old = *new),
        }
    }
    let folder = scratch::folder();
    let store = folder.path().join("store");
    let borrowed: Vec<_> = files.iter().map(|(path, content)| (path.clone(), content.as_slice())).collect();
    assert!(scratch::write_files(&store, &borrowed));
    stored_runs::check(&StoreUrl::files(&store), documents, &store);
    let is_inside = |path: &Path| path.starts_with(&store);
    assert!(scratch::read_files(folder.path()).keys().all(|path| is_inside(path)));
}

fn original() -> &'static Original {
    static ORIGINAL: OnceLock<Original> = OnceLock::new();
    ORIGINAL.get_or_init(|| {
        let folder = scratch::folder();
        let documents = stored_runs::create(&StoreUrl::files(folder.path()));
        let files = scratch::read_files(folder.path()).into_iter();
        let relative = files
            .filter_map(|(path, content)| Some((path.strip_prefix(folder.path()).ok()?.to_owned(), content)));
        (relative.filter(|(_, content)| !content.is_empty()).collect(), documents)
    })
}
