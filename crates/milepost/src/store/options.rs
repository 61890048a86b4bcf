//! How a store is opened.

use std::time::Duration;

use super::DEFAULT_WAIT;
use super::identity::ForeignReason;
use crate::trust::UserState;

/// How a store is opened. Without settings it must exist, is trusted, and writers wait `DEFAULT_WAIT`.
#[derive(Debug, Clone)]
#[non_exhaustive]
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

    /// Creates the store if it does not exist.
    #[must_use]
    pub fn create(self, create: bool) -> Self {
        Self { create, ..self }
    }

    /// Sets how long a writer waits for the lock.
    #[must_use]
    pub fn wait(self, wait: Duration) -> Self {
        Self { wait, ..self }
    }

    /// Says that the process ends with its work.
    #[must_use]
    pub fn one_shot(self, one_shot: bool) -> Self {
        Self { one_shot, ..self }
    }

    /// Opens the store read-only, because it came from elsewhere.
    #[must_use]
    pub fn foreign(self, foreign: Option<ForeignReason>) -> Self {
        Self { foreign, ..self }
    }

    /// Sets where a created store is recorded as this user's own.
    #[must_use]
    pub fn user_state(self, user_state: Option<UserState>) -> Self {
        Self { user_state, ..self }
    }

    /// Limits how long a transaction may compute.
    #[must_use]
    pub fn time_limit(self, time_limit: Option<Duration>) -> Self {
        Self { time_limit, ..self }
    }
}
