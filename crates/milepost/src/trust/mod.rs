//! The user's trust data on this machine: a secret key, and one small record per store that the user created
//! or trusted. Takes the path of the user's state folder, reads and writes the key and the records, and
//! refuses a folder that belongs to another user. It does not decide whether a store is trusted
//! (`store::identity` does) and reads no environment variables.

mod record;

use std::io;
use std::path::{Path, PathBuf};

pub use self::record::{StoreRecord, TrustedProject};
use crate::fs::{atomic, bounded, if_exists};
use crate::model::id::StoreId;

/// The name of the key file.
const KEY: &str = "key";
/// The name of the folder that contains the records.
const STORES: &str = "stores";
/// The maximum size of a record file in bytes.
const RECORD_LIMIT: u64 = 256 << 10;

/// The user's secret key. Checksums made with it cannot be computed without it.
#[derive(Clone)]
pub struct Key([u8; 32]);

impl Key {
    /// Returns a keyed checksum of `text`, as hexadecimal digits.
    pub fn checksum(&self, text: &[u8]) -> String {
        blake3::keyed_hash(&self.0, text).to_hex().to_string()
    }

    /// Returns true if `checksum` is the keyed checksum of `text`. The comparison takes constant time.
    pub fn verifies(&self, text: &[u8], checksum: &str) -> bool {
        blake3::Hash::from_hex(checksum).is_ok_and(|given| given == blake3::keyed_hash(&self.0, text))
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key(…)")
    }
}

/// The user's state folder, which contains the key and the records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserState {
    folder: PathBuf,
}

/// Returns the effective user id of this process, or `None` on platforms without user ids.
pub fn user_id() -> Option<u32> {
    #[cfg(unix)]
    return Some(rustix::process::geteuid().as_raw());
    #[cfg(not(unix))]
    return None;
}

impl UserState {
    /// Selects the folder. Fails if the folder, or its nearest existing ancestor, belongs to another user.
    /// For example, under `sudo` the calling user's folder does not belong to root.
    pub fn at(folder: impl Into<PathBuf>) -> io::Result<Self> {
        let folder = folder.into();
        let nearest = folder.ancestors().find_map(|at| std::fs::metadata(at).ok());
        let owner = nearest.as_ref().and_then(bounded::owner);
        if owner == user_id() {
            return Ok(Self { folder });
        }
        let why = format!("{} belongs to another user", folder.display());
        Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
    }

    /// Returns the path of the folder.
    #[cfg_attr(feature = "internal", visibility::make(pub))]
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Creates the folder and makes it accessible to its owner only.
    pub fn create(&self) -> io::Result<()> {
        atomic::create_folder(&self.folder)?;
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = std::fs::metadata(&self.folder)?.permissions().mode();
            if mode & 0o077 != 0 {
                std::fs::set_permissions(&self.folder, PermissionsExt::from_mode(0o700))?;
            }
        }
        Ok(())
    }

    /// Appends to a file in the folder. The file is created if needed and is private to the user.
    pub fn append(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        use std::io::Write as _;
        self.create()?;
        let mut options = std::fs::OpenOptions::new();
        let mut file = atomic::open_private(&self.folder.join(name), options.append(true).create(true))?;
        file.write_all(bytes)
    }

    /// Reads a file of at most `limit` bytes in the folder. Fails if the file belongs to another user.
    #[cfg_attr(feature = "internal", visibility::make(pub))]
    pub(crate) fn read_file(&self, name: &str, limit: u64) -> io::Result<Vec<u8>> {
        self.read(&self.folder.join(name), limit)
    }

    /// Reads the key, if one exists.
    #[cfg_attr(feature = "internal", visibility::make(pub))]
    pub(crate) fn key(&self) -> io::Result<Option<Key>> {
        let Some(bytes) = if_exists(self.read(&self.folder.join(KEY), 64))? else { return Ok(None) };
        let key = bytes.try_into().map_err(|_| io::Error::other("the key file is not 32 bytes long"))?;
        Ok(Some(Key(key)))
    }

    /// Reads the key, or creates it if there is none. If several processes create it at the same time, all of
    /// them return the same key.
    #[cfg_attr(feature = "internal", visibility::make(pub))]
    pub(crate) fn create_key(&self) -> io::Result<Key> {
        if let Some(key) = self.key()? {
            return Ok(key);
        }
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).map_err(|e| io::Error::other(e.to_string()))?;
        self.create()?;
        match atomic::write_new(&self.folder.join(KEY), &bytes) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            other => other?,
        }
        self.key()?.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Reads the record of a store, if one exists.
    #[cfg_attr(feature = "internal", visibility::make(pub))]
    pub(crate) fn record(&self, id: &StoreId) -> io::Result<Option<StoreRecord>> {
        let bytes = if_exists(self.read(&self.record_file(id), RECORD_LIMIT))?;
        let record = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        Ok(record.filter(|record: &StoreRecord| record.id == *id))
    }

    /// Reads all records, in no particular order. Files that are not valid records are skipped.
    #[cfg_attr(feature = "internal", visibility::make(pub))]
    pub(crate) fn records(&self) -> io::Result<Vec<StoreRecord>> {
        let mut records = Vec::new();
        let entries = if_exists(std::fs::read_dir(self.folder.join(STORES)))?;
        let Some(entries) = entries else { return Ok(records) };
        for entry in entries {
            let bytes = self.read(&entry?.path(), RECORD_LIMIT);
            records.extend(bytes.ok().and_then(|bytes| serde_json::from_slice::<StoreRecord>(&bytes).ok()));
        }
        Ok(records)
    }

    /// Writes the record of a store, and the key if there is none yet.
    #[cfg_attr(feature = "internal", visibility::make(pub))]
    pub(crate) fn write_record(&self, record: &StoreRecord) -> io::Result<()> {
        self.create_key()?;
        atomic::create_folder(&self.folder.join(STORES))?;
        let text = serde_json::to_vec(record)?;
        atomic::write(&self.record_file(&record.id), &text, atomic::Mode::Private)
    }

    /// Removes the record of a store. Returns true if there was one.
    #[cfg_attr(feature = "internal", visibility::make(pub))]
    pub(crate) fn remove_record(&self, id: &StoreId) -> io::Result<bool> {
        Ok(if_exists(std::fs::remove_file(self.record_file(id)))?.is_some())
    }

    fn record_file(&self, id: &StoreId) -> PathBuf {
        self.folder.join(STORES).join(format!("{id}.json"))
    }

    /// Reads a file of at most `limit` bytes. Fails if it belongs to another user.
    fn read(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
        let (bytes, metadata) = bounded::read_with_metadata(path, limit)?;
        if bounded::owner(&metadata) != user_id() {
            let why = format!("{} belongs to another user", path.display());
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_is_made_once_and_stays_private() {
        let dir = tempfile::tempdir().unwrap();
        let state = UserState::at(dir.path().join("a/b")).unwrap();
        assert!(state.key().unwrap().is_none());
        let key = state.create_key().unwrap();
        let sum = key.checksum(b"text");
        assert!(state.create_key().unwrap().verifies(b"text", &sum));
        assert!(!key.verifies(b"texT", &sum) && !key.verifies(b"text", "") && !key.verifies(b"text", "zz"));
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
            assert_eq!((mode(&dir.path().join("a/b")), mode(&dir.path().join("a/b/key"))), (0o700, 0o600));
        }
    }

    #[test]
    fn records_are_found_by_the_id_of_their_store() {
        let dir = tempfile::tempdir().unwrap();
        let state = UserState::at(dir.path()).unwrap();
        let id = StoreId::generate();
        assert!(state.record(&id).unwrap().is_none() && state.records().unwrap().is_empty());
        let record = StoreRecord::new(id.clone(), "sqlite:/p/milepost.db".to_owned(), Default::default());
        state.write_record(&record).unwrap();
        assert_eq!(state.record(&id).unwrap(), Some(record));
        assert_eq!(state.records().unwrap().len(), 1);
        assert!(state.remove_record(&id).unwrap() && !state.remove_record(&id).unwrap());
    }

    #[cfg(unix)]
    #[test]
    fn a_folder_of_another_user_is_refused() {
        if user_id() == Some(0) {
            let dir = tempfile::tempdir().unwrap();
            std::os::unix::fs::chown(dir.path(), Some(12345), None).unwrap();
            assert!(UserState::at(dir.path()).is_err());
            assert!(UserState::at(dir.path().join("not/there")).is_err());
        } else {
            assert!(UserState::at("/not/there").is_err());
        }
    }
}
