//! Kinds of stores. Each kind has a scheme, such as `sqlite`, and an opener.
//! `StoreUrl` delegates everything that depends on the kind to its opener; no other code distinguishes kinds.
//! Another crate can add a kind with [`register`]. Addresses parsed after that can use its scheme.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::RwLock;

use super::files::FILES;
#[cfg(feature = "sqlite")]
use super::sqlite::SQLITE;
use super::{OpenOptions, Store, StoreError};

/// Opens stores of one kind.
pub trait StoreOpener: Send + Sync {
    /// The part of an address before the colon. At least two characters, as one letter is a Windows drive.
    fn scheme(&self) -> &'static str;

    /// The form of an address, such as `sqlite:PATH`, for messages; `None` if it need not be named.
    fn address_form(&self) -> Option<&'static str> {
        None
    }

    /// Opens the store at a location, which is the part of its address after the colon.
    fn open(&self, location: &OsStr, options: &OpenOptions) -> Result<Box<dyn Store>, StoreError>;

    /// The location as it may be shown and recorded: without a password, and the same for every way to write the
    /// address of one store.
    fn shown_location(&self, location: &OsStr) -> String {
        location.display().to_string()
    }

    /// The layout of the store's files; `None` if stores of this kind have no files on this machine.
    fn layout(&self) -> Option<&dyn LocalLayout> {
        None
    }

    /// Whether documents are compressed when they are saved, which makes `Maintenance::Compress` unnecessary.
    fn compresses_on_save(&self) -> bool {
        true
    }
}

/// The files of a store whose location is a path.
pub trait LocalLayout: Send + Sync {
    /// Whether the location is a folder that only the store uses, rather than a file in a shared folder.
    fn is_folder(&self) -> bool;

    /// The path whose existence means that the store exists.
    fn marker(&self, location: &Path) -> PathBuf;

    /// The file that contains the store's id.
    fn id_file(&self, location: &Path) -> PathBuf;

    /// The folder that contains the lock files of run owners.
    fn owners_folder(&self, location: &Path) -> PathBuf;

    /// The file of the index for searches, which is derived from the store; `None` to keep it in memory.
    fn search_index(&self, _location: &Path) -> Option<PathBuf> {
        None
    }

    /// All files and folders of the store.
    fn files(&self, location: &Path) -> Vec<PathBuf>;

    /// Whether the store's creation is in progress or was interrupted. Opening the store completes it.
    fn is_unfinished(&self, location: &Path) -> bool;

    /// Whether the location contains checkpoints but no store.
    fn holds_unclaimed_data(&self, _location: &Path) -> bool {
        false
    }
}

/// Openers registered by other crates. Process-wide, because addresses come as text from settings and flags.
static REGISTERED: RwLock<Vec<&'static dyn StoreOpener>> = RwLock::new(Vec::new());

/// Adds a kind of store. Returns false and changes nothing if the scheme is already taken or too short.
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

/// The forms of an address that are accepted, for messages.
pub(super) fn address_forms() -> String {
    let registered = REGISTERED.read().unwrap_or_else(|e| e.into_inner());
    let forms: Vec<_> =
        BUILT_IN.iter().chain(registered.iter()).filter_map(|opener| opener.address_form()).collect();
    match forms.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => forms.concat(),
    }
}

/// Finds the opener for a scheme.
pub(super) fn find_opener(scheme: &str) -> Option<&'static dyn StoreOpener> {
    let registered = REGISTERED.read().unwrap_or_else(|e| e.into_inner());
    BUILT_IN.iter().copied().chain(registered.iter().copied()).find(|opener| opener.scheme() == scheme)
}
