//! Whose store this is. Every store has a random id in a small file beside it; this user's records name the ids of the
//! stores that they created or trusted.
//! In: a store's address and the user's state. Out: trusted, new or foreign, with the reason. Opens no store.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use super::StoreUrl;
use crate::fs::{atomic, bounded};
use crate::model::StoreId;
use crate::owner;
use crate::trust::{StoreRecord, UserState, user_id};

/// Maximum size of the file that holds an id.
const ID_LIMIT: u64 = 256;

/// Whether a store may be written and its content given to an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreTrust {
    /// This user created or trusted it.
    Trusted,
    /// There is no store yet.
    New,
    /// It came from elsewhere.
    Foreign(ForeignReason),
}

/// Why a store is foreign.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ForeignReason {
    /// This user has no record of it.
    NoRecord,
    /// It is a copy of another store of this user's, which is still there.
    Copy {
        /// The original.
        original: String,
    },
    /// Another user owns it.
    OtherOwner {
        /// What is owned by somebody else.
        path: PathBuf,
        /// That user's id.
        owner: u32,
    },
    /// It was trusted on another machine.
    OtherMachine,
    /// Git tracks it: everybody who can push to the repository can change it.
    Tracked,
    /// It, or a folder on the way to it, is a symbolic link or no regular file.
    NotRegular {
        /// What is wrong.
        why: String,
    },
    /// The user's records cannot be read.
    NoState {
        /// Why.
        why: String,
    },
}

impl ForeignReason {
    /// Whether trust in the store makes it safe to use.
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

/// How the names of a database's own files end.
pub(super) const DATABASE_FILES: [&str; 9] =
    ["", "-wal", "-shm", "-journal", "-turn", "-lock", "-id", "-mark", "-owners"];

impl StoreUrl {
    /// Everything that the store consists of: the files and folders of a database, or the one folder.
    pub fn files(&self) -> Vec<PathBuf> {
        let ends: &[&str] = match self {
            Self::Sqlite(_) => &DATABASE_FILES,
            Self::Files(_) => &[""],
        };
        let named = |end: &&str| {
            let mut path = self.path().as_os_str().to_owned();
            path.push(end);
            PathBuf::from(path)
        };
        ends.iter().map(named).collect()
    }

    /// The database file or the folder.
    pub fn path(&self) -> &Path {
        match self {
            Self::Sqlite(path) | Self::Files(path) => path,
        }
    }

    /// The same address with the folder's links resolved, so that it reads the same from everywhere.
    pub fn resolved(&self) -> Self {
        match self {
            Self::Sqlite(path) => Self::Sqlite(resolved(path)),
            Self::Files(path) => Self::Files(resolved(path)),
        }
    }

    /// The kind of store, as addresses begin.
    fn kind(&self) -> &'static str {
        match self {
            Self::Sqlite(_) => "sqlite",
            Self::Files(_) => "files",
        }
    }

    /// The path whose existence means that the store exists: the database file, or the file layout's own folder.
    fn marker(&self) -> PathBuf {
        match self {
            Self::Sqlite(path) => path.clone(),
            Self::Files(folder) => folder.join(".store"),
        }
    }
}

/// The path with the links of its folder resolved; its last component stays as it is.
fn resolved(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    match (path.parent().and_then(|folder| std::fs::canonicalize(folder).ok()), path.file_name()) {
        (Some(folder), Some(name)) => folder.join(name),
        _ => path,
    }
}

/// The file that holds a store's id.
fn id_file(url: &StoreUrl) -> PathBuf {
    match url {
        StoreUrl::Sqlite(path) => {
            let mut name = path.as_os_str().to_owned();
            name.push("-id");
            PathBuf::from(name)
        }
        StoreUrl::Files(folder) => folder.join(".store").join("id"),
    }
}

/// Reads a store's id; `None` where it has none.
pub fn read_id(url: &StoreUrl) -> io::Result<Option<StoreId>> {
    match bounded::read_text(&id_file(url), ID_LIMIT) {
        Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
        other => Ok(other?.trim().parse().ok()),
    }
}

/// Gives a store a new id, durably.
pub fn write_id(url: &StoreUrl) -> io::Result<StoreId> {
    let id = StoreId::generate();
    atomic::write(&id_file(url), format!("{id}\n").as_bytes(), atomic::Mode::Private)?;
    Ok(id)
}

/// Gives a new store its id, and records it as this user's if their state can be written. Called by the store that is made.
pub(super) fn register(url: &StoreUrl, state: Option<&UserState>) -> io::Result<()> {
    let id = write_id(url)?;
    if let Some(state) = state {
        // Without a record the store is foreign from the next command on, which then says what to do.
        let _ = state.put(&StoreRecord::new(id, url.resolved().to_string(), now()));
    }
    Ok(())
}

fn now() -> jiff::Timestamp {
    use crate::clock::Clock;
    crate::clock::SystemClock.now()
}

/// Judges a store, and gives this user's record of it. Below `base`, a folder without links, no link is followed.
/// Does not detect `Tracked`: the caller has to ask git. A record whose store was moved is updated.
pub fn check_trust(
    url: &StoreUrl,
    base: &Path,
    state: Result<&UserState, &str>,
) -> (StoreTrust, Option<StoreRecord>) {
    let foreign = |why| (StoreTrust::Foreign(why), None);
    if let Some(link) = link_below(base, &url.marker()) {
        return foreign(ForeignReason::NotRegular { why: format!("{} is a symbolic link", link.display()) });
    }
    let url = url.resolved();
    let marker = || std::fs::symlink_metadata(url.marker());
    let metadata = match marker() {
        Err(_) if !holds_runs(&url) => return (StoreTrust::New, None),
        // Runs without a store around them came from elsewhere: making the store would adopt them. With a store that
        // another process made since the first look they did not.
        Err(_) => match marker() {
            Err(_) => return foreign(ForeignReason::NoRecord),
            Ok(metadata) => metadata,
        },
        Ok(metadata) => metadata,
    };
    if let Some(why) = irregular(&url, &metadata) {
        return foreign(ForeignReason::NotRegular { why });
    }
    if let StoreUrl::Sqlite(_) = url
        && metadata.len() == 0
    {
        return (StoreTrust::New, None);
    }
    let owned_by = bounded::owner(&metadata);
    if let Some(owner) = owned_by.filter(|owner| Some(*owner) != user_id()) {
        return foreign(ForeignReason::OtherOwner { path: url.marker(), owner });
    }
    // The format is written last: a folder without it is being made by another process, or its maker died. Making it to
    // the end gives it an id and a record.
    if let StoreUrl::Files(folder) = &url
        && !holds_runs(&url)
        && is_missing(&folder.join(".store").join("format"))
    {
        return (StoreTrust::New, None);
    }
    let id = match read_id(&url) {
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
        Ok(Some(record)) => compare(&url, state, record),
    }
}

fn is_missing(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_err_and(|e| e.kind() == io::ErrorKind::NotFound)
}

/// Whether a folder of the file layout holds what looks like runs.
fn holds_runs(url: &StoreUrl) -> bool {
    let StoreUrl::Files(folder) = url else { return false };
    let runs = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let is_run = |path: PathBuf| {
        ["log.jsonl", "latest.json", "history"].iter().any(|name| path.join(name).symlink_metadata().is_ok())
    };
    runs.map(|entry| entry.path()).any(is_run)
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
            Ok(before) if before.kind() == url.kind() => before,
            _ => return foreign(ForeignReason::NoRecord),
        };
        // The same folder under another name is not a copy, and a different store at the old path does not make this one.
        if !is_same(before.path(), url.path()) {
            if is_still_there(&before, &record.id) {
                return foreign(ForeignReason::Copy { original: record.store });
            }
            record.store = url.to_string();
            // A home that cannot be written does not make the store foreign.
            let _ = state.put(&record);
        }
    }
    (StoreTrust::Trusted, Some(record))
}

/// Whether the store of this id is still at its old place. Where that cannot be read, it is taken for there.
fn is_still_there(url: &StoreUrl, id: &StoreId) -> bool {
    read_id(url).map_or(true, |found| found.as_ref() == Some(id))
}

/// Trusts a store from now on. A copy, or a store without an id, gets an id of its own.
pub fn adopt(url: &StoreUrl, state: &UserState) -> io::Result<StoreRecord> {
    let url = url.resolved();
    let known = match read_id(&url)? {
        Some(id) => state.record(&id)?.map(|record| (id.clone(), Some(record))).or(Some((id, None))),
        None => None,
    };
    let (id, before) = match known {
        Some((id, None)) => (id, None),
        Some((id, Some(record))) if record.store == url.to_string() => (id, Some(record)),
        Some((id, Some(record))) => {
            let before = record.store.parse::<StoreUrl>();
            match before.is_ok_and(|before| is_still_there(&before, &id)) {
                true => (write_id(&url)?, None),
                false => (id, Some(record)),
            }
        }
        None => (write_id(&url)?, None),
    };
    let mut record = StoreRecord::new(id, url.to_string(), now());
    record.projects = before.map(|record| record.projects).unwrap_or_default();
    state.put(&record)?;
    Ok(record)
}

/// The first symbolic link on the way from `base` to `path`, if that is below it.
pub fn link_below(base: &Path, path: &Path) -> Option<PathBuf> {
    let mut at = base.to_owned();
    path.strip_prefix(base).ok()?.components().find_map(|part| {
        at.push(part);
        std::fs::symlink_metadata(&at).is_ok_and(|meta| meta.is_symlink()).then(|| at.clone())
    })
}

/// Refuses a path below `base` on which a symbolic link lies: what is written there would end up elsewhere.
pub(crate) fn refuse_links(base: &Path, path: &Path) -> io::Result<()> {
    match link_below(base, path) {
        Some(link) => {
            let why = format!("{} is a symbolic link, which is not followed here", link.display());
            Err(io::Error::new(io::ErrorKind::InvalidInput, why))
        }
        None => Ok(()),
    }
}

/// Why the files of a store cannot be used as they are.
fn irregular(url: &StoreUrl, marker: &std::fs::Metadata) -> Option<String> {
    let named = url.marker();
    let kind_fits = if matches!(url, StoreUrl::Sqlite(_)) { marker.is_file() } else { marker.is_dir() };
    (!kind_fits).then(|| format!("{} is neither a store's file nor its folder", named.display()))
}

fn is_same(a: &Path, b: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let number = |path: &Path| std::fs::symlink_metadata(path).ok().map(|m| (m.dev(), m.ino()));
        number(a).is_some() && number(a) == number(b)
    }
    #[cfg(not(unix))]
    {
        a == b
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{OpenOptions, open};

    #[test]
    fn a_folder_that_is_being_made_into_a_store_is_new() {
        let dir = tempfile::tempdir().unwrap();
        let base = std::fs::canonicalize(dir.path()).unwrap();
        let url = StoreUrl::Files(base.join("store"));
        let state = UserState::at(base.join("state")).unwrap();
        let judged = || check_trust(&url, &base, Ok(&state)).0;
        let inside = |name: &str| url.path().join(name);
        assert_eq!(judged(), StoreTrust::New);
        // The steps in which a store is made, and what another process may see after each.
        atomic::create_folder(&inside(".store")).unwrap();
        assert_eq!(judged(), StoreTrust::New);
        write_id(&url).unwrap();
        assert_eq!(judged(), StoreTrust::New, "without a record, too");
        let options = OpenOptions { create: true, user_state: Some(state.clone()), ..OpenOptions::default() };
        open(&url, &options).unwrap();
        assert_eq!(judged(), StoreTrust::Trusted);
        // Runs in a folder that nobody has made into a store came from elsewhere.
        std::fs::remove_file(inside(".store/format")).unwrap();
        atomic::create_folder(&inside("r/history")).unwrap();
        state.remove(&read_id(&url).unwrap().unwrap()).unwrap();
        assert_eq!(judged(), StoreTrust::Foreign(ForeignReason::NoRecord));
    }
}
