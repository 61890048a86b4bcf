//! The opener for `files:DIR` addresses, and the layout of such a store's files.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use super::FilesStore;
use crate::store::{LocalLayout, OpenOptions, Store, StoreError, StoreOpener};

/// Stores in a folder of JSON files.
pub(crate) struct FilesOpener;

pub(crate) static FILES: FilesOpener = FilesOpener;

/// Name of the folder for the store's own files, inside the store's folder.
pub(super) const OWN_FOLDER: &str = ".store";

impl StoreOpener for FilesOpener {
    fn scheme(&self) -> &'static str {
        "files"
    }

    fn address_form(&self) -> Option<&'static str> {
        Some("files:DIR")
    }

    fn open(&self, location: &OsStr, options: &OpenOptions) -> Result<Box<dyn Store>, StoreError> {
        Ok(Box::new(FilesStore::open(Path::new(location), options)?))
    }

    fn layout(&self) -> Option<&dyn LocalLayout> {
        Some(self)
    }

    fn compresses_on_save(&self) -> bool {
        false
    }
}

impl LocalLayout for FilesOpener {
    fn is_folder(&self) -> bool {
        true
    }

    fn marker(&self, location: &Path) -> PathBuf {
        location.join(OWN_FOLDER)
    }

    fn id_file(&self, location: &Path) -> PathBuf {
        location.join(OWN_FOLDER).join("id")
    }

    fn owners_folder(&self, location: &Path) -> PathBuf {
        location.join(".owners")
    }

    fn search_index(&self, location: &Path) -> Option<PathBuf> {
        Some(location.join(OWN_FOLDER).join("search"))
    }

    fn files(&self, location: &Path) -> Vec<PathBuf> {
        vec![location.to_owned()]
    }

    /// The format file is written last. If it is missing, creation is in progress or was interrupted.
    fn is_unfinished(&self, location: &Path) -> bool {
        let format = location.join(OWN_FOLDER).join("format");
        let is_missing =
            std::fs::symlink_metadata(format).is_err_and(|e| e.kind() == io::ErrorKind::NotFound);
        is_missing && !self.holds_unclaimed_data(location)
    }

    fn holds_unclaimed_data(&self, location: &Path) -> bool {
        let entries = std::fs::read_dir(location).into_iter().flatten().flatten();
        let is_run = |path: PathBuf| {
            ["log.jsonl", "latest.json", "history"]
                .iter()
                .any(|name| path.join(name).symlink_metadata().is_ok())
        };
        entries.map(|entry| entry.path()).any(is_run)
    }
}
