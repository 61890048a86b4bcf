//! Decides whether a store is trusted. Every local store has a random id in a small file, and the user's
//! records list the ids of the stores that the user created or trusted. Takes a store's address and the
//! user's state, and returns trusted, new or foreign. Opens no store.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use super::StoreUrl;
use crate::clock::{Clock, SystemClock};
use crate::fs::{atomic, bounded, file_id};
use crate::model::id::StoreId;
use crate::owner;
use crate::trust::{StoreRecord, UserState, user_id};

/// Maximum size of an id file.
const ID_LIMIT: u64 = 256;

/// Whether a store may be written and its content passed to an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreTrust {
    /// This user created or trusted the store.
    Trusted,
    /// The store does not exist yet.
    New,
    /// The store is foreign.
    Foreign(ForeignReason),
}

/// Why a store is foreign.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ForeignReason {
    /// This user has no record of the store.
    NoRecord,
    /// The store is a copy of another store of this user, which still exists.
    Copy {
        /// The address of the original.
        original: String,
    },
    /// Another user owns the store.
    OtherOwner {
        /// The file or folder that the other user owns.
        path: PathBuf,
        /// That user's id.
        owner: u32,
    },
    /// The user's record of the store is from another machine.
    OtherMachine,
    /// Git tracks the store, so anyone who can push to the repository can change it.
    Tracked,
    /// The store is not a regular file or folder, or a symbolic link is on its path.
    NotRegular {
        /// The path and the problem, for messages.
        why: String,
    },
    /// The user's records cannot be read.
    NoState {
        /// Why they cannot be read.
        why: String,
    },
}

impl ForeignReason {
    /// Whether the store is safe to use once the user trusts it.
    pub fn is_adoptable(&self) -> bool {
        matches!(self, Self::NoRecord | Self::Copy { .. } | Self::OtherMachine)
    }
}

impl fmt::Display for ForeignReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRecord => f.write_str("you have neither created nor trusted it on this machine"),
            Self::Copy { original } => write!(f, "it is a copy of {original}"),
            Self::OtherOwner { path, owner } => {
                write!(f, "{} belongs to another user (uid {owner})", path.display())
            }
            Self::OtherMachine => f.write_str("you trusted it on another machine"),
            Self::Tracked => f.write_str("git tracks it, so it can change with every pull"),
            Self::NotRegular { why } => f.write_str(why),
            Self::NoState { why } => write!(f, "your records of trusted stores cannot be read: {why}"),
        }
    }
}

/// The file that contains a store's id.
fn id_file(url: &StoreUrl) -> io::Result<PathBuf> {
    let local = url.local().map(|(layout, path)| layout.id_file(path));
    local.ok_or_else(|| io::Error::new(io::ErrorKind::Unsupported, "the store has no files on this machine"))
}

/// Reads a store's id; `None` if it has no valid id.
pub fn read_id(url: &StoreUrl) -> io::Result<Option<StoreId>> {
    let Ok(file) = id_file(url) else { return Ok(None) };
    match bounded::read_text(&file, ID_LIMIT) {
        Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
        other => Ok(other?.trim().parse().ok()),
    }
}

/// Writes a new id for a store, durably.
pub fn write_id(url: &StoreUrl) -> io::Result<StoreId> {
    let id = StoreId::generate();
    atomic::write(&id_file(url)?, format!("{id}\n").as_bytes(), atomic::Mode::Private)?;
    Ok(id)
}

/// Writes the id of a new store, and records the store as this user's if `state` is writable.
pub(super) fn register(url: &StoreUrl, state: Option<&UserState>) -> io::Result<()> {
    let id = write_id(url)?;
    if let Some(state) = state {
        // Without a record, the next command treats the store as foreign and tells the user what to do.
        let _ = state.write_record(&StoreRecord::new(id, url.resolved().to_string(), SystemClock.now()));
    }
    Ok(())
}

/// Decides whether a store is trusted, and returns this user's record of it. `base` is a folder whose path
/// has no symbolic links; no symbolic link under it is followed. If the store was moved, its record is
/// updated. Does not detect `ForeignReason::Tracked`: the caller has to check with git.
pub fn check_trust(
    url: &StoreUrl,
    base: &Path,
    state: Result<&UserState, &str>,
) -> (StoreTrust, Option<StoreRecord>) {
    let foreign = |why| (StoreTrust::Foreign(why), None);
    let resolved = url.resolved();
    let (Some((layout, given)), Some((_, path))) = (url.local(), resolved.local()) else {
        // A store without local files has no id to look up. The user has to choose such a store explicitly.
        return foreign(ForeignReason::NoRecord);
    };
    if let Some(link) = link_below(base, &layout.marker(given)) {
        return foreign(ForeignReason::NotRegular { why: format!("{} is a symbolic link", link.display()) });
    }
    let marker = layout.marker(path);
    let metadata = match std::fs::symlink_metadata(&marker) {
        Err(_) if !layout.holds_unclaimed_data(path) => return (StoreTrust::New, None),
        // The folder contains runs but no store. Creating the store would adopt runs of unknown origin,
        // unless another process has just created the store and these are its runs, so check again.
        Err(_) => match std::fs::symlink_metadata(&marker) {
            Err(_) => return foreign(ForeignReason::NoRecord),
            Ok(metadata) => metadata,
        },
        Ok(metadata) => metadata,
    };
    if !(if layout.is_folder() { metadata.is_dir() } else { metadata.is_file() }) {
        let why = format!("{} has the wrong file type for a store", marker.display());
        return foreign(ForeignReason::NotRegular { why });
    }
    let owned_by = bounded::owner(&metadata);
    if let Some(owner) = owned_by.filter(|owner| Some(*owner) != user_id()) {
        return foreign(ForeignReason::OtherOwner { path: marker, owner });
    }
    // Completing the creation writes the store's id and its record.
    if layout.is_unfinished(path) {
        return (StoreTrust::New, None);
    }
    let id = match read_id(&resolved) {
        Ok(Some(id)) => id,
        Ok(None) => return foreign(ForeignReason::NoRecord),
        Err(e) => return foreign(ForeignReason::NotRegular { why: format!("its id cannot be read: {e}") }),
    };
    let state = match state {
        Ok(state) => state,
        Err(why) => return foreign(ForeignReason::NoState { why: why.to_owned() }),
    };
    match state.record(&id) {
        Ok(None) => foreign(ForeignReason::NoRecord),
        Err(e) => foreign(ForeignReason::NoState { why: e.to_string() }),
        Ok(Some(record)) => compare(&resolved, state, record),
    }
}

/// Compares a record with the store that was found under its id.
fn compare(url: &StoreUrl, state: &UserState, mut record: StoreRecord) -> (StoreTrust, Option<StoreRecord>) {
    let foreign = |why| (StoreTrust::Foreign(why), None);
    if record.machine != owner::machine_id() {
        return foreign(ForeignReason::OtherMachine);
    }
    if record.store != url.to_string() {
        // Only a store of the same kind can be the one that was recorded.
        let before = match record.store.parse::<StoreUrl>() {
            Ok(before) if before.scheme() == url.scheme() => before,
            _ => return foreign(ForeignReason::NoRecord),
        };
        // The same folder under another path is not a copy. Nor is a store if another one is at its old path.
        if !before.path().zip(url.path()).is_some_and(|(before, now)| is_same(before, now)) {
            if is_still_there(&before, &record.id) {
                return foreign(ForeignReason::Copy { original: record.store });
            }
            record.store = url.to_string();
            // The store stays trusted even if the record cannot be written.
            let _ = state.write_record(&record);
        }
    }
    (StoreTrust::Trusted, Some(record))
}

/// Whether the store with this id is still at `url`. If the id there cannot be read, assumes that it is.
fn is_still_there(url: &StoreUrl, id: &StoreId) -> bool {
    read_id(url).map_or(true, |found| found.as_ref() == Some(id))
}

/// Records a store as trusted. A copy, or a store without an id, gets a new id.
pub fn adopt(url: &StoreUrl, state: &UserState) -> io::Result<StoreRecord> {
    let url = url.resolved();
    let found = read_id(&url)?;
    let record = found.as_ref().map(|id| state.record(id)).transpose()?.flatten();
    // If the store of the record is still at the recorded path, this store is a copy of it.
    let is_copy = record.as_ref().is_some_and(|record| {
        let before = record.store.parse::<StoreUrl>();
        record.store != url.to_string() && before.is_ok_and(|before| is_still_there(&before, &record.id))
    });
    let (id, before) = match found {
        Some(id) if !is_copy => (id, record),
        _ => (write_id(&url)?, None),
    };
    let mut record = StoreRecord::new(id, url.to_string(), SystemClock.now());
    if let Some(before) = before {
        (record.projects, record.users) = (before.projects, before.users);
    }
    state.write_record(&record)?;
    Ok(record)
}

/// Finds the first symbolic link between `base` and `path`. Also returns `None` if `path` is not under
/// `base`.
pub fn link_below(base: &Path, path: &Path) -> Option<PathBuf> {
    let mut at = base.to_owned();
    path.strip_prefix(base).ok()?.components().find_map(|part| {
        at.push(part);
        std::fs::symlink_metadata(&at).is_ok_and(|meta| meta.is_symlink()).then(|| at.clone())
    })
}

/// Refuses a path that contains a symbolic link under `base`: a write to it would end up elsewhere.
pub(crate) fn refuse_links(base: &Path, path: &Path) -> io::Result<()> {
    match link_below(base, path) {
        Some(link) => {
            let why = format!("{} is a symbolic link, which is not followed here", link.display());
            Err(io::Error::new(io::ErrorKind::InvalidInput, why))
        }
        None => Ok(()),
    }
}

fn is_same(a: &Path, b: &Path) -> bool {
    matches!((file_id::of_path(a), file_id::of_path(b)), (Ok(a), Ok(b)) if a == b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::OpenOptions;

    #[test]
    fn a_folder_that_is_being_made_into_a_store_is_new() {
        let dir = tempfile::tempdir().unwrap();
        let base = crate::fs::canonicalize(dir.path()).unwrap();
        let url = StoreUrl::files(base.join("store"));
        let state = UserState::at(base.join("state")).unwrap();
        let judged = || check_trust(&url, &base, Ok(&state)).0;
        let inside = |name: &str| url.path().unwrap().join(name);
        assert_eq!(judged(), StoreTrust::New);
        // The steps of creating a store, and what another process sees after each step.
        atomic::create_folder(&inside(".store")).unwrap();
        assert_eq!(judged(), StoreTrust::New);
        write_id(&url).unwrap();
        assert_eq!(judged(), StoreTrust::New, "without a record, too");
        let options = OpenOptions { create: true, user_state: Some(state.clone()), ..OpenOptions::default() };
        url.open(&options).unwrap();
        assert_eq!(judged(), StoreTrust::Trusted);
        // Runs in a folder that is not a store have an unknown origin.
        std::fs::remove_file(inside(".store/format")).unwrap();
        atomic::create_folder(&inside("r/history")).unwrap();
        state.remove_record(&read_id(&url).unwrap().unwrap()).unwrap();
        assert_eq!(judged(), StoreTrust::Foreign(ForeignReason::NoRecord));
    }
}
