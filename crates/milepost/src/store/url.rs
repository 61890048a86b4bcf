//! Addresses of stores: `sqlite:PATH`, `files:DIR`, or the scheme of a registered kind and a location.
//! In: text or a path. Out: an address that answers for its kind. Opens a store, but reads none of its content.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::files::FILES;
use super::opener::{LocalLayout, StoreOpener, find_opener};
#[cfg(feature = "sqlite")]
use super::sqlite::SQLITE;
use super::{OpenOptions, Store, StoreError};

/// Where a store is and of which kind.
#[derive(Clone)]
pub struct StoreUrl {
    opener: &'static dyn StoreOpener,
    location: OsString,
}

impl StoreUrl {
    /// The store in a SQLite file.
    #[cfg(feature = "sqlite")]
    pub fn sqlite(file: impl Into<PathBuf>) -> Self {
        Self { opener: &SQLITE, location: file.into().into() }
    }

    /// The store in a folder of JSON files.
    pub fn files(folder: impl Into<PathBuf>) -> Self {
        Self { opener: &FILES, location: folder.into().into() }
    }

    /// The kind of store, as the address begins.
    pub fn scheme(&self) -> &'static str {
        self.opener.scheme()
    }

    /// What follows the scheme.
    pub fn location(&self) -> &OsStr {
        &self.location
    }

    /// Opens the store.
    pub fn open(&self, options: &OpenOptions) -> Result<Box<dyn Store>, StoreError> {
        self.opener.open(&self.location, options)
    }

    /// The database file or the folder; `None` for a store that is not on this machine's disk.
    pub fn path(&self) -> Option<&Path> {
        self.local().map(|(_, path)| path)
    }

    /// Whether the path is a folder that belongs to the store alone.
    pub fn is_folder(&self) -> bool {
        self.local().is_some_and(|(layout, _)| layout.is_folder())
    }

    /// Every file and folder that the store consists of.
    pub fn local_files(&self) -> Vec<PathBuf> {
        self.local().map_or_else(Vec::new, |(layout, path)| layout.files(path))
    }

    /// Where owners of runs hold their lock files.
    pub fn owners_folder(&self) -> Option<PathBuf> {
        self.local().map(|(layout, path)| layout.owners_folder(path))
    }

    /// Whether documents are compressed as they are saved.
    pub fn compresses_on_save(&self) -> bool {
        self.opener.compresses_on_save()
    }

    /// Whether the store exists, or may: a folder that cannot be entered does not say.
    pub fn may_exist(&self) -> bool {
        let denied = |e: std::io::Error| e.kind() == std::io::ErrorKind::PermissionDenied;
        self.path().is_none_or(|path| path.try_exists().unwrap_or_else(denied))
    }

    /// Whether the store exists and is complete.
    pub fn exists(&self) -> bool {
        self.local().is_none_or(|(layout, path)| layout.marker(path).exists() && !layout.is_unfinished(path))
    }

    /// The same address with the folder's links resolved, so that it reads the same from everywhere.
    #[must_use]
    pub fn resolved(&self) -> Self {
        self.map_path(resolve_folder)
    }

    /// The same address with an absolute path.
    #[must_use]
    pub fn absolute(&self) -> Self {
        self.map_path(|path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned()))
    }

    /// The same store at another path; an address that is no path stays as it is.
    #[must_use]
    pub fn map_path(&self, change: impl FnOnce(&Path) -> PathBuf) -> Self {
        match self.path() {
            Some(path) => Self { opener: self.opener, location: change(path).into() },
            None => self.clone(),
        }
    }

    /// The layout of a store on this machine's disk, and its path.
    pub(super) fn local(&self) -> Option<(&dyn LocalLayout, &Path)> {
        self.opener.layout().map(|layout| (layout, Path::new(&self.location)))
    }
}

/// The path with the links of its folder resolved; its last component stays as it is.
fn resolve_folder(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    match (path.parent().and_then(|folder| std::fs::canonicalize(folder).ok()), path.file_name()) {
        (Some(folder), Some(name)) => folder.join(name),
        _ => path,
    }
}

impl PartialEq for StoreUrl {
    fn eq(&self, other: &Self) -> bool {
        self.scheme() == other.scheme() && self.location == other.location
    }
}

impl Eq for StoreUrl {}

impl FromStr for StoreUrl {
    type Err = StoreError;

    fn from_str(url: &str) -> Result<Self, StoreError> {
        let wrong = || StoreError::Address(url.to_owned());
        match url.split_once(':') {
            _ if url.is_empty() => Err(wrong()),
            Some((_, "")) => Err(wrong()),
            Some((scheme, location)) if scheme.len() > 1 || location.starts_with("//") => {
                let opener = find_opener(scheme).ok_or_else(wrong)?;
                Ok(Self { opener, location: location.into() })
            }
            // A bare path is a SQLite file; a single letter before the colon is a Windows drive.
            _ => {
                let opener = find_opener("sqlite").ok_or_else(wrong)?;
                Ok(Self { opener, location: url.into() })
            }
        }
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.scheme(), self.location.display())
    }
}

impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreUrl({self})")
    }
}
