//! The high-water mark: the stamp of the newest acknowledged write, in a small file next to the database.
//! Writers update it after each commit while they hold the lock. It is never synced, so it may be behind the
//! database. It is ahead only if acknowledged commits are missing.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::sibling;
use crate::fs::{atomic, bounded};
use crate::model::id::StoreId;
use crate::store::check::{checksummed_line, parse_checksummed_line};
use crate::store::{Part, StoreUrl, identity};

/// Maximum size of the file in bytes.
const LIMIT: u64 = 256;

/// The state of the mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reading {
    /// The store has no mark, because it has no id or is on a network file system.
    Unused,
    /// The mark does not exist, is damaged, or belongs to another store.
    Missing,
    /// A sync failed after this stamp was acknowledged. Data that the database shows may not be on disk.
    Unsynced(u64),
    /// Every write up to this stamp was acknowledged.
    Acknowledged(u64),
}

impl Reading {
    /// Whether the WAL must be rewritten and synced before the next write, if the newest
    /// stamp in the database is `newest`.
    pub(super) fn is_behind(self, newest: u64) -> bool {
        match self {
            Self::Unused => false,
            Self::Missing | Self::Unsynced(_) => true,
            Self::Acknowledged(stamp) => stamp < newest,
        }
    }

    /// The acknowledged stamp, if it is newer than `newest`, the newest stamp in the database.
    pub(super) fn ahead_of(self, newest: u64) -> Option<u64> {
        match self {
            Self::Unsynced(stamp) | Self::Acknowledged(stamp) => (stamp > newest).then_some(stamp),
            Self::Unused | Self::Missing => None,
        }
    }
}

/// The file that stores the mark.
#[derive(Debug)]
pub(super) struct HighWaterMark {
    database: PathBuf,
    path: PathBuf,
    used: bool,
    id: OnceLock<Option<StoreId>>,
}

impl HighWaterMark {
    /// The mark of a database. It is not used on file systems where WAL is not safe.
    pub(super) fn new(database: &Path, used: bool) -> Self {
        Self { database: database.to_owned(), path: sibling(database, "-mark"), used, id: OnceLock::new() }
    }

    fn id(&self) -> Option<&StoreId> {
        if !self.used {
            return None;
        }
        let read = || identity::read_id(&StoreUrl::sqlite(&self.database)).ok().flatten();
        self.id.get_or_init(read).as_ref()
    }

    /// Reads the mark. A reader does this before it begins its transaction, so that the transaction cannot
    /// see a database older than the mark.
    pub(super) fn read(&self) -> Reading {
        let Some(id) = self.id() else { return Reading::Unused };
        let text = bounded::read_text(&self.path, LIMIT).unwrap_or_default();
        parse(&text, id).unwrap_or(Reading::Missing)
    }

    /// Records an acknowledged write. If the mark cannot be written, the next writer rewrites the WAL.
    pub(super) fn set(&self, stamp: u64) {
        self.write("acknowledged", stamp);
    }

    /// Records a failed sync, so that the next writer in any process first rewrites and syncs the WAL.
    pub(super) fn set_unsynced(&self) {
        let stamp = match self.read() {
            Reading::Unsynced(stamp) | Reading::Acknowledged(stamp) => stamp,
            Reading::Unused | Reading::Missing => 0,
        };
        self.write("unsynced", stamp);
    }

    fn write(&self, word: &str, stamp: u64) {
        let Some(id) = self.id() else { return };
        let line = checksummed_line(Part::Wal, b"mark", &format!("{id} {word:<12} {stamp:020}"));
        let mut options = OpenOptions::new();
        // A single write replaces the old text, which has the same length. If the process is killed, either
        // the old or the new text remains.
        let _ = atomic::open_private(&self.path, options.write(true).create(true).truncate(false))
            .and_then(|mut file| file.write_all(line.as_bytes()));
    }
}

fn parse(text: &str, id: &StoreId) -> Option<Reading> {
    let line = parse_checksummed_line(Part::Wal, b"mark", text.lines().next()?)?;
    let mut fields = line.split_ascii_whitespace();
    let (found, word, stamp) = (fields.next()?, fields.next()?, fields.next()?.parse().ok()?);
    match word {
        _ if found != id.as_str() => None,
        "acknowledged" => Some(Reading::Acknowledged(stamp)),
        "unsynced" => Some(Reading::Unsynced(stamp)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_counts_only_whole_and_for_its_own_store() {
        let dir = tempfile::tempdir().unwrap();
        let database = dir.path().join("milepost.db");
        assert_eq!(HighWaterMark::new(&database, true).read(), Reading::Unused, "no id");
        identity::write_id(&StoreUrl::sqlite(&database)).unwrap();
        let mark = HighWaterMark::new(&database, true);
        assert_eq!(mark.read(), Reading::Missing);
        mark.set(7);
        assert_eq!(mark.read(), Reading::Acknowledged(7));
        mark.set_unsynced();
        assert_eq!(mark.read(), Reading::Unsynced(7));
        mark.set(8);
        assert_eq!(mark.read(), Reading::Acknowledged(8));

        let file = dir.path().join("milepost.db-mark");
        let whole = std::fs::read(&file).unwrap();
        for at in 0..whole.len() - 1 {
            let mut flipped = whole.clone();
            flipped[at] ^= 4;
            atomic::write(&file, &flipped, atomic::Mode::Private).unwrap();
            assert_eq!(mark.read(), Reading::Missing, "byte {at}");
            atomic::write(&file, &whole[..at], atomic::Mode::Private).unwrap();
            assert_eq!(mark.read(), Reading::Missing, "truncated at {at}");
        }
        atomic::write(&file, &whole, atomic::Mode::Private).unwrap();
        assert_eq!(HighWaterMark::new(&database, false).read(), Reading::Unused, "a network file system");
        identity::write_id(&StoreUrl::sqlite(&database)).unwrap();
        assert_eq!(HighWaterMark::new(&database, true).read(), Reading::Missing, "another store");
    }

    #[test]
    fn a_mark_is_compared_with_the_database() {
        let is = |reading: Reading, newest| (reading.is_behind(newest), reading.ahead_of(newest));
        assert_eq!(is(Reading::Acknowledged(5), 5), (false, None));
        assert_eq!(is(Reading::Acknowledged(5), 6), (true, None));
        assert_eq!(is(Reading::Acknowledged(5), 4), (false, Some(5)));
        assert_eq!(is(Reading::Unsynced(5), 5), (true, None));
        assert_eq!(is(Reading::Unsynced(5), 3), (true, Some(5)));
        assert_eq!(is(Reading::Missing, 5), (true, None));
        assert_eq!(is(Reading::Unused, 5), (false, None));
    }
}
