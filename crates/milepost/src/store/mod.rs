//! Where checkpoints live: the `Store` trait and its two embedded implementations.
//! In: a pure decision about one run. Out: that decision carried out in one transaction, durable when it returns.
//! A store gets headers and sealed bytes and never re-serialises a body; it holds no policy.

mod check;
mod error;
pub mod files;
pub mod frame;
pub mod identity;
mod lock;
pub mod project_paths;
mod repository;
pub mod sqlite;
mod url;

use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;

pub use check::{Damage, DamageKind, Part};
pub use error::StoreError;
pub use repository::Repository;
pub use url::{StoreUrl, UrlError};

use crate::model::{CheckpointId, Event, Item, Marks, RunId, RunRecord, Status};
use crate::seal::{Header, Sealed};
use crate::trust::UserState;

/// How long a writer waits for its turn unless told otherwise.
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

/// How a store is opened.
#[derive(Debug, Clone)]
pub struct OpenOptions {
    /// Makes the store if it is not there.
    pub create: bool,
    /// How long a writer waits for its turn.
    pub wait: Duration,
    /// The process ends with its work, so that memory and handles need not be put away one by one.
    pub one_shot: bool,
    /// Why the store is foreign, as the caller has decided: it is opened for reading alone, and every write fails with
    /// `StoreError::Untrusted`. `None` trusts it. `identity::check_trust` helps to decide.
    pub foreign: Option<identity::ForeignReason>,
    /// Where a store that is made is recorded as this user's own.
    pub user_state: Option<UserState>,
    /// How long a transaction may compute before it is interrupted; no limit unless given.
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

/// A place for one checkpoint: its number in the run and its stamp in the store. Stores give slots out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slot {
    sequence: u64,
    stamp: u64,
}

impl Slot {
    /// Gives a slot out. For implementers of `Store`, inside a write.
    pub fn issue(sequence: u64, stamp: u64) -> Self {
        Self { sequence, stamp }
    }

    /// The checkpoint's number within its run.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// The checkpoint's place among all writes of the store.
    pub fn stamp(&self) -> u64 {
        self.stamp
    }

    /// The slot after this one, for a decision that puts several checkpoints.
    #[must_use]
    pub fn next(&self) -> Self {
        Self { sequence: self.sequence + 1, stamp: self.stamp + 1 }
    }

    /// This slot under a later number, for copies and imports; earlier numbers are taken.
    #[must_use]
    pub fn at_sequence(&self, sequence: u64) -> Option<Self> {
        (sequence >= self.sequence).then_some(Self { sequence, stamp: self.stamp })
    }
}

/// A checkpoint as lists show it.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckpointEntry {
    /// Its header.
    pub header: Header,
    /// Its marks.
    pub marks: Marks,
}

/// One row of a list: an entry, or what is wrong with it.
#[derive(Debug, Clone, PartialEq)]
#[allow(clippy::large_enum_variant)]
pub enum Row {
    /// An intact entry.
    Intact(CheckpointEntry),
    /// A row whose header or marks do not fit their checksum.
    Damaged {
        /// What is wrong.
        damage: Damage,
        /// Where paging goes on.
        cursor: Cursor,
    },
}

impl Row {
    /// The entry, if it is intact.
    pub fn intact(self) -> Option<CheckpointEntry> {
        match self {
            Self::Intact(entry) => Some(entry),
            Self::Damaged { .. } => None,
        }
    }

    /// Where paging goes on after this row.
    pub fn cursor(&self) -> Cursor {
        match self {
            Self::Intact(entry) => Cursor { sequence: entry.header.sequence, stamp: entry.header.stamp },
            Self::Damaged { cursor, .. } => *cursor,
        }
    }
}

/// A position in a list of headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    /// Position within one run.
    pub sequence: u64,
    /// Position within the store.
    pub stamp: u64,
}

/// What a decision sees of a run. Reads no clock, touches no file: the same view gives the same decision.
#[derive(Debug, Clone)]
pub struct RunView {
    /// Its record; `None` for a new run, and for one whose record is damaged while `count` is above 0.
    pub record: Option<RunRecord>,
    /// Where the next checkpoint goes.
    pub slot: Slot,
    /// How many checkpoints there are.
    pub count: u64,
    /// The newest checkpoint; `None` also where its row is damaged.
    pub latest: Option<CheckpointEntry>,
    /// How many items wait, at most; those that cannot be read count too.
    pub waiting: u64,
    /// What costs more to show. A decision that needs it and is not shown it says `WriteDecision::NeedDetails`.
    pub details: Option<RunDetails>,
}

/// What a view shows to a decision that asked for it.
#[derive(Debug, Clone, Default)]
pub struct RunDetails {
    /// The oldest checkpoints without a gap, oldest first, up to and including the `OLDEST_SHOWN`-th that no mark protects.
    /// A damaged row ends the list.
    pub oldest: Vec<CheckpointEntry>,
    /// What was recorded since the newest checkpoint, oldest first.
    pub items: Vec<Item>,
}

/// What a decision wants done, in one transaction.
#[derive(Debug, Clone)]
pub struct Commit {
    /// Checkpoints to add, in slots from the view on.
    pub puts: Vec<Sealed>,
    /// Marks to set, by sequence; also of a checkpoint in `puts`. A revision that is not above the stored one is refused
    /// with `MarksMoved`: two writers that read the same marks do not overwrite each other.
    pub marks: Vec<(u64, Marks)>,
    /// Sequences to remove.
    pub drops: Vec<u64>,
    /// The run's record from now on.
    pub record: RunRecord,
    /// Items to add.
    pub push: Vec<Item>,
    /// How many of the items that `RunDetails` showed to take away, from the front.
    pub consume: usize,
    /// Events to add.
    pub events: Vec<Event>,
    /// Names that nothing in the store may have yet, neither as its id nor as a tag or an imported id; where something
    /// does, the commit is refused with `Named`.
    pub new_names: Vec<String>,
}

impl Commit {
    /// A commit that only rewrites the record.
    pub fn new(record: RunRecord) -> Self {
        Self {
            puts: Vec::new(),
            marks: Vec::new(),
            drops: Vec::new(),
            record,
            push: Vec::new(),
            consume: 0,
            events: Vec::new(),
            new_names: Vec::new(),
        }
    }
}

/// The answer of a decision.
#[derive(Debug, Clone)]
pub enum WriteDecision {
    /// Do this.
    Commit(Box<Commit>),
    /// Change nothing.
    NoChange,
    /// Show `RunView::details` and ask again.
    NeedDetails,
}

/// A pure decision about one run. A store may call it more than once; only the last answer counts.
pub type Decide<'a> = dyn FnMut(&RunView) -> WriteDecision + 'a;

/// What a write left behind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Receipt {
    /// The file of the checkpoint put last, in stores that have one.
    pub file: Option<PathBuf>,
    /// Files of dropped checkpoints that could not be removed, and why; no commit speaks of them any more.
    pub left: Vec<(PathBuf, std::io::ErrorKind)>,
}

/// A run as the store has it.
#[derive(Debug, Clone)]
pub struct RunRow {
    /// Its id.
    pub run_id: RunId,
    /// Its record, or what is wrong with it.
    pub record: Result<Box<RunRecord>, Damage>,
    /// The stamp of its last write.
    pub stamp: u64,
    /// How many checkpoints it has.
    pub count: u64,
    /// Its newest checkpoint.
    pub latest: Option<Row>,
}

/// A run and what was recorded since its newest checkpoint.
#[derive(Debug, Clone)]
pub struct StoredRun {
    /// The run.
    pub row: RunRow,
    /// Its pending items, oldest first.
    pub items: Vec<Item>,
    /// Pending items that cannot be read.
    pub damaged: Vec<Damage>,
}

/// Which runs to list: newest write first.
#[derive(Debug, Clone, Copy, Default)]
pub struct RunQuery {
    /// Only runs whose last write is before this stamp.
    pub before: Option<u64>,
    /// At most this many; 0 for all.
    pub limit: usize,
}

/// Which headers to list.
#[derive(Debug, Clone, Copy, Default)]
pub struct HeaderQuery<'a> {
    /// Only of this run.
    pub run: Option<&'a RunId>,
    /// Only these.
    pub find: CheckpointFilter<'a>,
    /// Oldest first instead of newest first; only within a run.
    pub oldest_first: bool,
    /// Only beyond this position.
    pub after: Option<Cursor>,
    /// At most this many; 0 for all.
    pub limit: usize,
}

/// How a checkpoint is named.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CheckpointFilter<'a> {
    /// All of them.
    #[default]
    All,
    /// By its number; needs a run.
    Sequence(u64),
    /// By its id.
    Id(&'a str),
    /// By the start of its id.
    Prefix(&'a str),
    /// By a tag, or the id it was imported under.
    Name(&'a str),
    /// Rows that belong to no run: damage that no list of a run shows.
    Orphaned,
}

/// Which events to list, oldest first.
#[derive(Debug, Clone, Copy, Default)]
pub struct EventQuery<'a> {
    /// Only of this run.
    pub run: Option<&'a RunId>,
    /// Only after this position.
    pub after: u64,
    /// At most this many of the newest; 0 for all.
    pub limit: usize,
}

/// Events, and where to go on from.
#[derive(Debug, Clone, Default)]
pub struct EventPage {
    /// Each with its position.
    pub events: Vec<(u64, Event)>,
    /// What could not be read.
    pub damaged: Vec<Damage>,
}

/// What retention looks at: the few facts of one checkpoint that it decides by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetentionEntry {
    /// Its number.
    pub sequence: u64,
    /// Its id.
    pub snapshot_id: CheckpointId,
    /// When it was made.
    pub created_at: Timestamp,
    /// How the work stood; `None` where the header was not proven, and then only number, id and marks are sure.
    pub status: Option<Status>,
    /// Whether a state was given.
    pub holds_state: bool,
    /// Whether it holds what was seen of the workspace.
    pub holds_workspace: bool,
    /// Whether it is pinned.
    pub pinned: bool,
    /// Whether it has a tag.
    pub tagged: bool,
    /// Bytes that the store holds for it.
    pub bytes: u64,
    /// Whether its document is as small as the store makes it; `Maintenance::Compress` leaves it alone.
    pub packed: bool,
}

impl RetentionEntry {
    /// The outline of an entry whose document the store holds as it is.
    pub fn of(entry: &CheckpointEntry) -> Self {
        let CheckpointEntry { header, marks } = entry;
        Self {
            sequence: header.sequence,
            snapshot_id: header.snapshot_id.clone(),
            created_at: header.created_at,
            status: Some(header.status),
            holds_state: header.holds_state,
            holds_workspace: header.holds_workspace(),
            pinned: marks.pinned,
            tagged: !marks.tags.is_empty(),
            bytes: header.size,
            packed: false,
        }
    }
}

/// House-keeping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Maintenance<'a> {
    /// Looks for what is wrong beside checkpoints: stray files, wrong counts, damaged pages. Changes nothing.
    Inspect,
    /// Mends what `Inspect` finds and can be mended without losing anything.
    Repair,
    /// Gives the space of removed checkpoints back to the disk.
    Compact,
    /// Compresses documents, in stores that keep them as files; never the newest of a run. Others may write meanwhile.
    Compress {
        /// Only of this run.
        run: Option<&'a RunId>,
        /// Only of checkpoints created before this time.
        before: Timestamp,
    },
}

/// Something `Maintenance` found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// What it is.
    pub kind: ProblemKind,
    /// One line for people.
    pub message: String,
    /// Whether `Repair` mends it, or has mended it.
    pub repairable: bool,
}

/// Kinds of problems beside damaged checkpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProblemKind {
    /// A temporary file that a crash left.
    StrayFile,
    /// A file that no commit speaks of.
    Orphan,
    /// A derived file that does not fit, such as `latest.json`.
    Derived,
    /// A run's record or counts that do not fit.
    Record,
    /// Damage to the database itself.
    Pages,
    /// Acknowledged writes are missing.
    Lost,
}

/// What `Maintenance` did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MaintenanceReport {
    /// What was found.
    pub problems: Vec<Problem>,
    /// How many were mended, or compressed.
    pub done: u64,
    /// Bytes given back.
    pub bytes_freed: u64,
}

/// What a store says about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreInfo {
    /// Its address.
    pub url: String,
    /// Bytes it takes on disk.
    pub bytes: u64,
    /// What the user should know, such as an unsafe file system.
    pub warning: Option<String>,
}

/// Refuses names that something has. `headers` answers a query inside the write.
fn check_names(
    names: &[String],
    headers: impl Fn(&HeaderQuery<'_>) -> Result<Vec<Row>, StoreError>,
) -> Result<(), StoreError> {
    for name in names {
        for find in [CheckpointFilter::Id(name), CheckpointFilter::Name(name)] {
            if !headers(&HeaderQuery { find, limit: 1, ..HeaderQuery::default() })?.is_empty() {
                return Err(StoreError::Named(name.clone()));
            }
        }
    }
    Ok(())
}

/// Opens the store at an address.
pub fn open(url: &StoreUrl, options: &OpenOptions) -> Result<Box<dyn Store>, StoreError> {
    Ok(match url {
        StoreUrl::Sqlite(path) => Box::new(sqlite::SqliteStore::open(path, options)?),
        StoreUrl::Files(folder) => Box::new(files::FilesStore::open(folder, options)?),
    })
}

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

    /// Keeps house.
    fn maintain(&self, what: Maintenance<'_>) -> Result<MaintenanceReport, StoreError>;

    /// How many writes were acknowledged, are missing, and were not dealt with by `Maintenance::Repair` yet. Stores that cannot
    /// tell say 0.
    fn lost_writes(&self) -> Result<u64, StoreError> {
        Ok(0)
    }

    /// Says what and where the store is.
    fn info(&self) -> Result<StoreInfo, StoreError>;
}
