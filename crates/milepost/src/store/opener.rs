//! Kinds of stores: each has a scheme, such as `sqlite`, and an opener. `StoreUrl` asks its opener for everything that
//! depends on the kind, so that no other code tells kinds apart.
//! A crate adds a kind of its own with [`register`]; addresses that are parsed afterwards may name it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::RwLock;

use super::files::FILES;
#[cfg(feature = "sqlite")]
use super::sqlite::SQLITE;
use super::{OpenOptions, Store, StoreError};

/// Opens stores of one kind.
pub trait StoreOpener: Send + Sync {
    /// How addresses of this kind begin, before the colon. At least two characters, as a single one is a Windows drive.
    fn scheme(&self) -> &'static str;

    /// Opens the store at a location: what follows the colon in its address.
    fn open(&self, location: &OsStr, options: &OpenOptions) -> Result<Box<dyn Store>, StoreError>;

    /// Where such stores keep their files; `None` for stores that are not files on this machine.
    fn layout(&self) -> Option<&dyn LocalLayout> {
        None
    }

    /// Whether documents are compressed as they are saved, so that `Maintenance::Compress` has nothing to do.
    fn compresses_on_save(&self) -> bool {
        true
    }
}

/// The files of a store whose location is a path.
pub trait LocalLayout: Send + Sync {
    /// Whether the location is a folder that belongs to the store alone, rather than a file with others beside it.
    fn is_folder(&self) -> bool;

    /// The path whose existence means that the store exists.
    fn marker(&self, location: &Path) -> PathBuf;

    /// The file that holds the store's id.
    fn id_file(&self, location: &Path) -> PathBuf;

    /// The folder in which owners of runs hold their lock files.
    fn owners_folder(&self, location: &Path) -> PathBuf;

    /// Everything that the store consists of.
    fn files(&self, location: &Path) -> Vec<PathBuf>;

    /// Whether the store is still being created, or its creator died: opening it finishes the creation.
    fn is_unfinished(&self, location: &Path) -> bool;

    /// Whether checkpoints lie here without a store around them.
    fn holds_unclaimed_data(&self, _location: &Path) -> bool {
        false
    }
}

/// Openers that other crates have registered. Process-wide, since addresses come from settings and flags as text.
static REGISTERED: RwLock<Vec<&'static dyn StoreOpener>> = RwLock::new(Vec::new());

/// Adds a kind of store. Returns false if the scheme is taken or too short; then nothing changes.
pub fn register(opener: &'static dyn StoreOpener) -> bool {
    let mut registered = REGISTERED.write().unwrap_or_else(|e| e.into_inner());
    let taken = |known: &&dyn StoreOpener| known.scheme() == opener.scheme();
    if opener.scheme().len() < 2
        || BUILT_IN.iter().any(taken)
        || registered.iter().any(|known| taken(&&**known))
    {
        return false;
    }
    registered.push(opener);
    true
}

static BUILT_IN: &[&dyn StoreOpener] = &[
    #[cfg(feature = "sqlite")]
    &SQLITE,
    &FILES,
];

/// The opener of a scheme.
pub(super) fn find_opener(scheme: &str) -> Option<&'static dyn StoreOpener> {
    let registered = REGISTERED.read().unwrap_or_else(|e| e.into_inner());
    BUILT_IN.iter().copied().chain(registered.iter().copied()).find(|opener| opener.scheme() == scheme)
}
