//! How a store is opened.

use std::time::Duration;

use super::DEFAULT_WAIT;
use super::identity::ForeignReason;
use crate::trust::UserState;

options! {
    /// How a store is opened. Without settings it must exist, is trusted, and writers wait `DEFAULT_WAIT`.
    #[derive(Debug, Clone)]
    pub struct OpenOptions {
        /// Creates the store if it does not exist.
        pub create: bool,
        /// Maximum time a writer waits for the lock.
        pub wait: Duration,
        /// The process ends with its work, so that memory and handles need not be released one by one.
        pub one_shot: bool,
        /// Why the store is foreign: it is opened read-only, and every write fails with `StoreError::Untrusted`.
        /// `None` trusts it. `identity::check_trust` helps to decide.
        pub foreign: Option<ForeignReason>,
        /// Where a created store is recorded as this user's own.
        pub user_state: Option<UserState>,
        /// Maximum time a transaction may compute before it is interrupted; no limit by default.
        pub time_limit: Option<Duration>,
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
        }
    }
}

impl OpenOptions {
    /// The default options.
    pub fn new() -> Self {
        Self::default()
    }
}
