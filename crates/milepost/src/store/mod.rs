//! Where checkpoints live: the `Store` trait and its two embedded implementations.
//! In: a pure decision about one run. Out: that decision carried out in one transaction, durable when it returns.
//! A store gets headers and sealed bytes and never re-serialises a body; it holds no policy.

mod check;
mod commit;
mod error;
pub(crate) mod files;
#[cfg(feature = "sqlite")]
pub(crate) mod frame;
pub(crate) mod identity;
mod lock;
mod maintenance;
mod opener;
mod options;
pub(crate) mod project_paths;
mod query;
mod reader;
mod repository;
#[cfg(feature = "sqlite")]
pub(crate) mod sqlite;
mod url;

use std::time::Duration;

pub use crate::seal::{Header, SealError, Sealed};
pub use crate::trust::UserState;
pub(crate) use check::DamageKind;
pub use check::{Damage, Part};
pub use commit::{Commit, CommitLookup, Decide, Receipt, RunDetails, RunView, Slot, WriteDecision};
pub use error::StoreError;
pub use identity::{ForeignReason, StoreTrust, check_trust};
pub use maintenance::{Maintenance, MaintenanceReport, Problem, ProblemKind, StoreInfo};
pub use opener::{LocalLayout, StoreOpener, register};
pub use options::OpenOptions;
use query::arrange;
pub use query::{
    CheckpointEntry, CheckpointFilter, Cursor, EventPage, EventQuery, HeaderQuery, RetentionEntry, Row,
    RunQuery, RunRow, StoredRun,
};
pub use reader::StoreReader;
pub(crate) use repository::Repository;
pub use url::StoreUrl;

use crate::model::RunId;

/// How long a writer waits for the lock unless told otherwise.
pub const DEFAULT_WAIT: Duration = Duration::from_secs(10);

/// How many of the oldest unprotected headers a write shows to the decision: five may be kept for what they are (first,
/// latest failed, completed, with a state and with a workspace), and one more can always go for the one that comes.
pub const OLDEST_SHOWN: usize = 6;

/// What is wrong with a decision that was shown all and asks for more.
const DETAILS_WERE_SHOWN: &str = "a decision that asks for more than there is";

/// What makes acknowledged writes disappear, in words for people.
pub(crate) const LOSS_CAUSES: &str =
    "the write-ahead log was damaged, or an older copy of the database was put in its place";

/// How many events a run keeps.
pub const EVENTS_KEPT: u64 = 1000;

/// A place for checkpoints. Blocking and object-safe; every method is durable or read-only.
///
/// Rules every implementation keeps, and the conformance suite checks:
/// - `write` shows the decision a consistent view and carries its answer out in one transaction, or not at all.
/// - Sequences grow within a run, stamps within the store; neither goes back, whatever the clock does.
/// - Damage to one row is reported for that row and leaves every other usable.
pub trait Store: Send + Sync {
    /// Decides about one run and carries the decision out. The run is made if it is not there. A decision that asks for
    /// more is shown it in the same transaction; one that was shown all and asks again breaks the rules.
    fn write(&self, run: &RunId, decide: &mut Decide<'_>) -> Result<Receipt, StoreError>;

    /// Reads one run.
    fn run(&self, run: &RunId) -> Result<Option<StoredRun>, StoreError>;

    /// Lists runs, newest write first.
    fn runs(&self, query: &RunQuery) -> Result<Vec<RunRow>, StoreError>;

    /// Lists headers with their marks, never bodies.
    fn headers(&self, query: &HeaderQuery<'_>) -> Result<Vec<Row>, StoreError>;

    /// Reads one sealed document; its seal is checked by the caller.
    fn body(&self, run: &RunId, sequence: u64) -> Result<Vec<u8>, StoreError>;

    /// Lists events.
    fn events(&self, query: &EventQuery<'_>) -> Result<EventPage, StoreError>;

    /// All intact checkpoints of a run in outline, oldest first. Retention goes through long runs by it. With `newest`,
    /// only so many of the newest need their headers proven: the fate of those before depends on nothing in them.
    fn retention_entries(&self, run: &RunId, newest: Option<u64>) -> Result<Vec<RetentionEntry>, StoreError>;

    /// Removes a run with all it has, or nothing. Says whether it was removed: it is not where it is not there, nor where
    /// a stamp is given that is no longer that of its last write.
    fn delete_run(&self, run: &RunId, only_at: Option<u64>) -> Result<bool, StoreError>;

    /// Runs maintenance.
    fn maintain(&self, what: Maintenance<'_>) -> Result<MaintenanceReport, StoreError>;

    /// How many writes were acknowledged, are missing, and were not handled by `Maintenance::Repair` yet. 0 for stores that
    /// cannot tell.
    fn lost_writes(&self) -> Result<u64, StoreError> {
        Ok(0)
    }

    /// Says what and where the store is.
    fn info(&self) -> Result<StoreInfo, StoreError>;
}
