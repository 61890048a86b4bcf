//! Store addresses: `sqlite:PATH`, `files:DIR`, or another registered scheme followed by a location.
//! Parses text into a `StoreUrl`, which delegates to the opener of its scheme.
//! Opens stores, but does not read their content.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::files::FILES;
use super::opener::{LocalLayout, StoreOpener, find_opener};
#[cfg(feature = "sqlite")]
use super::sqlite::SQLITE;
use super::{OpenOptions, Store, StoreError};

/// The address of a store: its kind and its location.
#[derive(Clone)]
pub struct StoreUrl {
    opener: &'static dyn StoreOpener,
    location: OsString,
}

impl StoreUrl {
    /// The address of a store in a SQLite file.
    #[cfg(feature = "sqlite")]
    pub fn sqlite(file: impl Into<PathBuf>) -> Self {
        Self { opener: &SQLITE, location: file.into().into() }
    }

    /// The address of a store in a folder of JSON files.
    pub fn files(folder: impl Into<PathBuf>) -> Self {
        Self { opener: &FILES, location: folder.into().into() }
    }

    /// The part of the address before the colon, which names the kind of store.
    pub fn scheme(&self) -> &'static str {
        self.opener.scheme()
    }

    /// The part of the address after the colon. It may contain a password; `Display` shows it without.
    pub fn location(&self) -> &OsStr {
        &self.location
    }

    /// Opens the store.
    pub fn open(&self, options: &OpenOptions) -> Result<Box<dyn Store>, StoreError> {
        self.opener.open(&self.location, options)
    }

    /// The path of the store's file or folder; `None` for a store without local files.
    pub fn path(&self) -> Option<&Path> {
        self.local().map(|(_, path)| path)
    }

    /// Whether the path is a folder that only the store uses.
    pub fn is_folder(&self) -> bool {
        self.local().is_some_and(|(layout, _)| layout.is_folder())
    }

    /// All files and folders of the store; empty for a store without local files.
    pub fn local_files(&self) -> Vec<PathBuf> {
        self.local().map_or_else(Vec::new, |(layout, path)| layout.files(path))
    }

    /// The folder that contains the lock files of run owners.
    pub fn owners_folder(&self) -> Option<PathBuf> {
        self.local().map(|(layout, path)| layout.owners_folder(path))
    }

    /// The file of the index for searches; `None` for a store without local files.
    pub(crate) fn search_index(&self) -> Option<PathBuf> {
        self.local().and_then(|(layout, path)| layout.search_index(path))
    }

    /// Whether documents are compressed when they are saved.
    pub fn compresses_on_save(&self) -> bool {
        self.opener.compresses_on_save()
    }

    /// Whether the store exists or might exist. Also true if permissions hide it or it has no path.
    pub fn may_exist(&self) -> bool {
        let denied = |e: std::io::Error| e.kind() == std::io::ErrorKind::PermissionDenied;
        self.path().is_none_or(|path| path.try_exists().unwrap_or_else(denied))
    }

    /// Whether the store exists and is complete. Always true for a store without local files.
    pub fn exists(&self) -> bool {
        self.local().is_none_or(|(layout, path)| layout.marker(path).exists() && !layout.is_unfinished(path))
    }

    /// The same address with an absolute path, with symbolic links in the parent folder resolved.
    #[must_use]
    pub fn resolved(&self) -> Self {
        self.map_path(resolve_folder)
    }

    /// The folder beside the store for files that belong to single worktrees; `None` if the store is not local.
    pub(crate) fn own_files(&self) -> Option<PathBuf> {
        let path = self.path()?;
        if self.is_folder() {
            return Some(path.join(".store").join("files"));
        }
        let mut folder = path.as_os_str().to_owned();
        folder.push("-files");
        Some(folder.into())
    }

    /// The same address with an absolute path.
    #[must_use]
    pub fn absolute(&self) -> Self {
        self.map_path(|path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned()))
    }

    /// The address with its path replaced by the result of `change`; unchanged if its location is not a path.
    #[must_use]
    pub fn map_path(&self, change: impl FnOnce(&Path) -> PathBuf) -> Self {
        match self.path() {
            Some(path) => Self { opener: self.opener, location: change(path).into() },
            None => self.clone(),
        }
    }

    /// The layout and the path of a store with local files.
    pub(super) fn local(&self) -> Option<(&dyn LocalLayout, &Path)> {
        self.opener.layout().map(|layout| (layout, Path::new(&self.location)))
    }
}

/// Replaces the password in an address such as `scheme://user:password@host`, for messages. A password that is not
/// percent-encoded may contain any character, so it ends at the last `@`.
fn without_password(url: &str) -> String {
    let shown = url.split_once("://").and_then(|(scheme, rest)| {
        let (user_info, host) = rest.rsplit_once('@')?;
        let (user, _) = user_info.split_once(':')?;
        Some(format!("{scheme}://{user}:***@{host}"))
    });
    shown.unwrap_or_else(|| url.to_owned())
}

/// Makes a path absolute and resolves the symbolic links of its parent folder, but not of its last component.
fn resolve_folder(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    match (path.parent().and_then(|folder| crate::fs::canonicalize(folder).ok()), path.file_name()) {
        (Some(folder), Some(name)) => folder.join(name),
        _ => path,
    }
}

impl PartialEq for StoreUrl {
    /// Two addresses are equal if they name the same store, even with another password.
    fn eq(&self, other: &Self) -> bool {
        self.scheme() == other.scheme()
            && (self.location == other.location
                || self.local().is_none() && self.to_string() == other.to_string())
    }
}

impl Eq for StoreUrl {}

impl FromStr for StoreUrl {
    type Err = StoreError;

    fn from_str(url: &str) -> Result<Self, StoreError> {
        let wrong = || StoreError::Address(without_password(url));
        match url.split_once(':') {
            _ if url.is_empty() => Err(wrong()),
            Some((_, "")) => Err(wrong()),
            Some((scheme, location)) if scheme.len() > 1 || location.starts_with("//") => {
                let opener = find_opener(scheme).ok_or_else(wrong)?;
                Ok(Self { opener, location: location.into() })
            }
            // A bare path names a SQLite file. A single letter before the colon is a Windows drive.
            _ => {
                let opener = find_opener("sqlite").ok_or_else(wrong)?;
                Ok(Self { opener, location: url.into() })
            }
        }
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.scheme(), self.opener.shown_location(&self.location))
    }
}

impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreUrl({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_scheme_does_not_show_its_password() {
        let shown = |url: &str| url.parse::<StoreUrl>().unwrap_err().to_string();
        let unknown = shown("nosuch://me:s3cret@db.example/x?y=z");
        assert!(
            !unknown.contains("s3cret") && unknown.contains("nosuch://me:***@db.example/x?y=z"),
            "{unknown}"
        );
        let unencoded = shown("nosuch://me:s3/cr?e@t@db.example/x");
        assert!(unencoded.contains("nosuch://me:***@db.example/x"), "{unencoded}");
        assert!(shown("nosuch://db.example/x").contains("nosuch://db.example/x"));
    }
}
