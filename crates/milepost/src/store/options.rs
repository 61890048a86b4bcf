//! Options for opening a store.

use std::time::{Duration, Instant};

use super::DEFAULT_WAIT;
use super::identity::ForeignReason;
use crate::trust::UserState;

options! {
    /// Options for opening a store. By default it must exist, is trusted, and `wait` is `DEFAULT_WAIT`.
    #[derive(Debug, Clone)]
    pub struct OpenOptions {
        /// Creates the store if it does not exist.
        pub create: bool,
        /// Maximum time a writer waits for the lock.
        pub wait: Duration,
        /// The process exits right after using the store, so memory and handles need not be released.
        pub one_shot: bool,
        /// Why the store is foreign. It is then opened read-only, and every write fails with
        /// `StoreError::Untrusted`. `None` if the store is trusted. `check_trust` determines which.
        pub foreign: Option<ForeignReason>,
        /// Where a newly created store is recorded as this user's own.
        pub user_state: Option<UserState>,
        /// Maximum time for a transaction, not counting the wait for the lock. A longer transaction is
        /// interrupted. No limit by default.
        pub time_limit: Option<Duration>,
        /// The time at which a store on a server stops waiting, even if `wait` is longer. Other stores ignore it.
        pub deadline: Option<Instant>,
        /// The id of the project that the store is used for. A store on a server, which many projects share, then
        /// lists only the runs, checkpoints and events of this project, and keeps its blobs apart. Other stores
        /// ignore it. All projects by default.
        pub project: Option<String>,
    }
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            create: false,
            wait: DEFAULT_WAIT,
            one_shot: false,
            foreign: None,
            user_state: None,
            time_limit: None,
            deadline: None,
            project: None,
        }
    }
}

impl OpenOptions {
    /// The default options.
    pub fn new() -> Self {
        Self::default()
    }
}
