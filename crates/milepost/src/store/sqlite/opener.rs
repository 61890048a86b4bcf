//! The `sqlite` kind of store: opens it and lists the files that a database consists of. Takes the location
//! of a store. Does not read the tables.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::{SqliteStore, sibling};
use crate::store::{LocalLayout, OpenOptions, Store, StoreError, StoreOpener};

/// Stores in one SQLite file.
pub(crate) struct SqliteOpener;

pub(crate) static SQLITE: SqliteOpener = SqliteOpener;

/// Suffixes of all files and folders that belong to a database.
pub(super) const DATABASE_FILES: [&str; 15] = [
    "",
    "-wal",
    "-shm",
    "-journal",
    "-turn",
    "-lock",
    "-id",
    "-mark",
    "-owners",
    "-blobs",
    "-search",
    "-search-wal",
    "-search-shm",
    "-search-journal",
    "-search-lock",
];

impl StoreOpener for SqliteOpener {
    fn scheme(&self) -> &'static str {
        "sqlite"
    }

    fn address_form(&self) -> Option<&'static str> {
        Some("sqlite:PATH")
    }

    fn open(&self, location: &OsStr, options: &OpenOptions) -> Result<Box<dyn Store>, StoreError> {
        Ok(Box::new(SqliteStore::open(Path::new(location), options)?))
    }

    fn layout(&self) -> Option<&dyn LocalLayout> {
        Some(self)
    }
}

impl LocalLayout for SqliteOpener {
    fn is_folder(&self) -> bool {
        false
    }

    fn marker(&self, location: &Path) -> PathBuf {
        location.to_owned()
    }

    fn id_file(&self, location: &Path) -> PathBuf {
        sibling(location, "-id")
    }

    fn owners_folder(&self, location: &Path) -> PathBuf {
        sibling(location, "-owners")
    }

    fn search_index(&self, location: &Path) -> Option<PathBuf> {
        Some(sibling(location, "-search"))
    }

    fn files(&self, location: &Path) -> Vec<PathBuf> {
        DATABASE_FILES.iter().map(|suffix| sibling(location, suffix)).collect()
    }

    fn is_unfinished(&self, location: &Path) -> bool {
        std::fs::symlink_metadata(location).is_ok_and(|metadata| metadata.len() == 0)
    }
}
