//! Foreign formats: a folder of files of another tool is imported, or refused, and nothing is written but the store. The
//! imported runs are intact, and importing the same files again adds nothing.

use std::path::Path;

use milepost::internal::preview_import;
use milepost::interop::Format;
use milepost::store::{OpenOptions, StoreUrl};
use milepost::{ImportOptions, Milepost, VerifyScope};

use crate::scratch;

pub(super) fn run(data: &[u8]) {
    let Some(files) = scratch::parse_files(data) else { return };
    let folder = scratch::folder();
    let source = folder.path().join("source");
    if files.is_empty() || !scratch::write_files(&source, &files) {
        return;
    }
    import(folder.path(), &source);
}

/// Imports a file or folder below `folder`.
pub(super) fn import(folder: &Path, source: &Path) {
    let before = scratch::read_files(folder);
    let mut detected = false;
    for format in
        [None, Some(Format::Pai), Some(Format::Snapshot), Some(Format::Aiwg), Some(Format::Markdown)]
    {
        if detected {
            break;
        }
        let options = ImportOptions::new(source).format(format);
        let preview = preview_import(None, &options, &mut |_, _| {});
        detected = format.is_none() && preview.is_ok();
        let found = preview.is_ok_and(|preview| preview.imported() > 0);
        assert_eq!(scratch::read_files(folder), before, "a preview changed a file");
        if found {
            import_into_store(&folder.join("store"), &options);
            let after = scratch::read_files(folder);
            assert!(before.iter().all(|(path, content)| after.get(path) == Some(content)));
            assert!(
                after.keys().all(|path| before.contains_key(path) || path.starts_with(folder.join("store")))
            );
            return;
        }
    }
}

fn import_into_store(store: &Path, options: &ImportOptions) {
    let url = StoreUrl::files(store);
    let mp = Milepost::at(&url, &OpenOptions::new().create(true)).expect("a store can be created");
    let Ok(report) = mp.import(options, &mut |_, _| {}) else { return };
    let verified = mp.verify(&VerifyScope::Store, &mut |_| {}).expect("a new store can be verified");
    assert!(verified.damaged().is_empty(), "an imported run is damaged");
    let again = mp.import(options, &mut |_, _| {}).expect("an import can be repeated");
    assert_eq!(again.imported(), 0, "{} checkpoints were imported twice", report.imported());
}
