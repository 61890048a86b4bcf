//! The stores under test. Each function creates a store and returns a closure that opens handles on it.

use std::path::Path;
use std::time::Duration;

use milepost::internal::store::FilesStore;
use milepost::internal::store::SqliteStore;
use milepost::store::{OpenOptions, Store};
use milepost_testkit::fault::Faults;

/// Opens a handle on one store, which has its own folder.
pub(crate) type Opener = Box<dyn Fn() -> Box<dyn Store>>;

/// Waits longer than any test holds a lock, so that tests do not fail on a slow machine.
fn options() -> OpenOptions {
    OpenOptions::new().create(true).wait(Duration::from_secs(60))
}

fn open_sqlite(dir: &Path) -> SqliteStore {
    SqliteStore::open(&dir.join("milepost.db"), &options()).unwrap()
}

fn open_files(dir: &Path) -> FilesStore {
    FilesStore::open(&dir.join("store"), &options()).unwrap()
}

/// Opens stores in a temporary folder that lives as long as the closure.
fn in_folder<S: Store + 'static>(open: impl Fn(&Path) -> S + 'static) -> Opener {
    let dir = tempfile::tempdir().unwrap();
    Box::new(move || Box::new(open(dir.path())))
}

pub(crate) fn sqlite() -> Opener {
    in_folder(open_sqlite)
}

/// Calls each decision callback more than once, like a store that retries.
pub(crate) fn sqlite_asked_again() -> Opener {
    in_folder(|dir| Faults { seed: 11, ..Faults::default() }.around(open_sqlite(dir)))
}

/// Loses requests and replies of commits.
pub(crate) fn sqlite_losing(seed: u64) -> Opener {
    let faults = Faults { seed, lost_replies: 250, lost_requests: 250 };
    in_folder(move |dir| faults.around(open_sqlite(dir)))
}

pub(crate) fn files() -> Opener {
    in_folder(open_files)
}

/// Calls each decision callback more than once, like a store that retries.
pub(crate) fn files_asked_again() -> Opener {
    in_folder(|dir| Faults { seed: 12, ..Faults::default() }.around(open_files(dir)))
}

/// Loses requests and replies of commits.
pub(crate) fn files_losing(seed: u64) -> Opener {
    let faults = Faults { seed, lost_replies: 250, lost_requests: 250 };
    in_folder(move |dir| faults.around(open_files(dir)))
}
