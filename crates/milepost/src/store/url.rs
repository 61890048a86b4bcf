//! Addresses of stores: `sqlite:PATH`, `files:DIR`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Where a store is and of which kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreUrl {
    /// A SQLite file.
    Sqlite(PathBuf),
    /// A folder of JSON files.
    Files(PathBuf),
}

/// An address that names no store.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is not a store's address: sqlite:PATH or files:DIR")]
pub struct UrlError(pub String);

impl FromStr for StoreUrl {
    type Err = UrlError;

    fn from_str(url: &str) -> Result<Self, UrlError> {
        let wrong = || UrlError(url.to_owned());
        match url.split_once(':') {
            Some((_, "")) => Err(wrong()),
            Some(("sqlite", path)) => Ok(Self::Sqlite(path.into())),
            Some(("files", path)) => Ok(Self::Files(path.into())),
            Some((scheme, rest)) if rest.starts_with("//") || scheme.len() > 1 => Err(wrong()),
            _ if url.is_empty() => Err(wrong()),
            // A bare path is a SQLite file.
            _ => Ok(Self::Sqlite(url.into())),
        }
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
            Self::Files(path) => write!(f, "files:{}", path.display()),
        }
    }
}
