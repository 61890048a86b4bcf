//! Queries to a store and the rows that they return.
//! Contains only plain values; nothing here touches a file.

use std::cmp::Reverse;
use std::time::Duration;

use derive_getters::Getters;
use jiff::Timestamp;

use super::{Damage, EventCursor};
use crate::model::{CheckpointId, Event, Item, Marks, RunId, RunRecord, Status};
use crate::seal::Header;

/// A checkpoint in a list, without its body.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct CheckpointEntry {
    /// The checkpoint's header.
    pub header: Header,
    /// The checkpoint's marks.
    pub marks: Marks,
}

impl CheckpointEntry {
    /// Whether the checkpoint has this tag or imported id.
    #[cfg_attr(feature = "internal", visibility::make(pub))]
    pub(crate) fn has_name(&self, name: &str) -> bool {
        self.marks.tags.iter().any(|tag| tag == name) || self.header.imported_id.as_deref() == Some(name)
    }

    /// An entry with this header and these marks.
    pub fn new(header: Header, marks: Marks) -> Self {
        Self { header, marks }
    }
}

/// One row of a list: an intact entry, or the damage to it.
#[derive(Debug, Clone, PartialEq)]
#[allow(clippy::large_enum_variant)]
pub enum Row {
    /// An intact entry.
    Intact(CheckpointEntry),
    /// A row whose header or marks are damaged.
    Damaged {
        /// The damage.
        damage: Damage,
        /// The row's position, to continue paging from.
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

    /// The row's position, to continue paging from.
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

/// A run in a list.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RunRow {
    /// The run's id.
    pub run_id: RunId,
    /// The run's record, or the damage to it.
    pub record: Result<Box<RunRecord>, Damage>,
    /// The stamp of the last write to the run.
    pub stamp: u64,
    /// Number of checkpoints.
    pub count: u64,
    /// The newest checkpoint.
    pub latest: Option<Row>,
    /// Time since the last write, by the store's clock; `None` if the store has no clock of its own. The clocks
    /// of two machines that use the same store may differ, so a store on a server should set it.
    pub age: Option<Duration>,
    /// The user that wrote to the run last, as the store's server authenticated it; `None` if the store has no
    /// server. Unlike the user in the record, no client can choose it.
    pub user: Option<String>,
    /// The users that have written to the run, sorted, as the store's server authenticated them.
    pub users: Vec<String>,
    /// The network address from which the run was written last, as the store's server saw it. A connection
    /// pooler shows its own address.
    pub host: Option<String>,
}

impl RunRow {
    /// A run without checkpoints, last written at `stamp`.
    pub fn new(run_id: RunId, record: Result<Box<RunRecord>, Damage>, stamp: u64) -> Self {
        Self {
            run_id,
            record,
            stamp,
            count: 0,
            latest: None,
            age: None,
            user: None,
            users: Vec::new(),
            host: None,
        }
    }
}

/// A run with its pending items.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct StoredRun {
    /// The run.
    pub row: RunRow,
    /// The pending items, oldest first.
    pub items: Vec<Item>,
    /// Pending items that cannot be read.
    pub damaged: Vec<Damage>,
}

impl StoredRun {
    /// A run without pending items.
    pub fn new(row: RunRow) -> Self {
        Self { row, items: Vec::new(), damaged: Vec::new() }
    }
}

options! {
    /// Which runs to list. The run with the newest write comes first.
    #[derive(Debug, Clone, Copy, Default)]
    pub struct RunQuery<'a> {
        /// Only runs of the project with this id. Runs without a project id, and those whose record is
        /// damaged, are listed only if this is missing.
        pub project: Option<&'a str>,
        /// Only runs whose last write is before this stamp.
        pub before: Option<u64>,
        /// Maximum number to list; 0 for no limit.
        pub limit: usize [number],
    }
}

impl RunQuery<'_> {
    /// Whether the query lists a run with this record; `None` if the record is damaged.
    #[cfg_attr(feature = "internal", visibility::make(pub))]
    pub(crate) fn lists(&self, record: Option<&RunRecord>) -> bool {
        let id = || record.and_then(|record| record.project_id.as_deref());
        self.project.is_none_or(|project| id() == Some(project))
    }
}

options! {
    /// Which headers to list.
    #[derive(Debug, Clone, Copy, Default)]
    pub struct HeaderQuery<'a> {
        /// Only headers of this run.
        pub run: Option<&'a RunId>,
        /// Only checkpoints that match this filter.
        pub find: CheckpointFilter<'a>,
        /// List the oldest first instead of the newest. Ignored without `run`.
        pub oldest_first: bool,
        /// Only rows after this position, in list order.
        pub after: Option<Cursor>,
        /// Maximum number to list; 0 for no limit.
        pub limit: usize [number],
    }
}

/// Sorts rows as the query requires, and applies its cursor and limit. Within a run, rows are ordered by
/// sequence number; across runs, by stamp and newest first.
#[cfg_attr(feature = "internal", visibility::make(pub))]
pub(crate) fn arrange<T>(mut rows: Vec<T>, query: &HeaderQuery<'_>, cursor: impl Fn(&T) -> Cursor) -> Vec<T> {
    let position = |at: Cursor| if query.run.is_some() { at.sequence } else { at.stamp };
    let oldest_first = query.oldest_first && query.run.is_some();
    if let Some(after) = query.after.map(position) {
        rows.retain(|row| {
            let at = position(cursor(row));
            if oldest_first { at > after } else { at < after }
        });
    }
    if query.run.is_none() {
        // Only a damaged store has rows with equal stamps. They stay in the order of their runs.
        rows.sort_by_key(|row| Reverse(cursor(row).stamp));
    } else {
        rows.sort_by_key(|row| cursor(row).sequence);
        if !oldest_first {
            rows.reverse();
        }
    }
    if query.limit > 0 {
        rows.truncate(query.limit);
    }
    rows
}

/// Which checkpoints a query matches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum CheckpointFilter<'a> {
    /// All checkpoints.
    #[default]
    All,
    /// The checkpoint with this sequence number. Requires a run.
    Sequence(u64),
    /// The checkpoint with this id.
    Id(&'a str),
    /// Checkpoints whose id starts with this text.
    Prefix(&'a str),
    /// By the start of its short id ([`CheckpointId::short`]).
    ShortId(&'a str),
    /// Checkpoints with this tag or imported id.
    Name(&'a str),
    /// Rows that belong to no run. Such damage appears in no run's list.
    Orphaned,
    /// Checkpoints with a position in a thread, sorted by the id of that position and then by stamp, both
    /// descending. Ids are compared byte by byte. `HeaderQuery::after` and `oldest_first` are ignored.
    Thread(ThreadFilter<'a>),
}

options! {
    /// Which positions in threads to list, and from where.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub struct ThreadFilter<'a> {
        /// Only positions in this namespace.
        pub namespace: Option<&'a str>,
        /// Only the position with this id.
        pub id: Option<&'a str>,
        /// Only positions that this invocation created.
        pub invocation: Option<&'a str>,
        /// Only positions after this one in the order of the list: with a smaller id, or with the same id and
        /// a smaller stamp.
        pub after: Option<(&'a str, u64)>,
    }
}

impl ThreadFilter<'_> {
    /// Whether a checkpoint with this header is in the list.
    pub fn matches(&self, header: &Header) -> bool {
        let Some(thread) = &header.thread else { return false };
        self.namespace.is_none_or(|namespace| thread.namespace == namespace)
            && self.id.is_none_or(|id| thread.id == id)
            && self.invocation.is_none_or(|invocation| thread.invocation.as_deref() == Some(invocation))
            && self.after.is_none_or(|after| (thread.id.as_str(), header.stamp) < after)
    }
}

/// Merges two lists of positions in threads. A damaged row states no position, so it keeps its place in its own
/// list.
pub(super) fn merge_positions(first: Vec<Row>, second: Vec<Row>, limit: usize) -> Vec<Row> {
    let position = |row: &Row| match row {
        Row::Intact(CheckpointEntry { header, .. }) => {
            header.thread.as_ref().map(|thread| (thread.id.clone(), header.stamp))
        }
        Row::Damaged { .. } => None,
    };
    let (mut first, mut second) = (first.into_iter().peekable(), second.into_iter().peekable());
    let mut merged = Vec::new();
    while limit == 0 || merged.len() < limit {
        let next = match (first.peek().map(position), second.peek().map(position)) {
            (Some(a), Some(b)) if a.is_none() || (b.is_some() && a >= b) => first.next(),
            (Some(_), None) => first.next(),
            (_, Some(_)) => second.next(),
            (None, None) => None,
        };
        let Some(next) = next else { break };
        merged.push(next);
    }
    merged
}

options! {
    /// Which events to list, oldest first.
    #[derive(Debug, Clone, Copy, Default)]
    pub struct EventQuery<'a> {
        /// Only events of this run.
        pub run: Option<&'a RunId>,
        /// Only events after this position; all events if it is missing.
        pub after: Option<&'a EventCursor>,
        /// Maximum number of the newest events to list; 0 for no limit.
        pub limit: usize [number],
    }
}

impl EventQuery<'_> {
    /// The number of the position to start after, in a store that numbers its events.
    pub(super) fn after_position(&self) -> u64 {
        self.after.map_or(0, EventCursor::position)
    }
}

/// The events that a query returns.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct EventPage {
    /// Events with their positions. To continue after this page, pass the last of them as
    /// `EventQuery::after`.
    pub events: Vec<(EventCursor, Event)>,
    /// Damage to events that could not be read.
    pub damaged: Vec<Damage>,
}

/// The facts about one checkpoint that retention uses.
#[derive(Getters, Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RetentionEntry {
    /// The checkpoint's sequence number.
    pub(crate) sequence: u64,
    /// The checkpoint's id.
    pub(crate) snapshot_id: CheckpointId,
    /// When the checkpoint was created.
    #[getter(copy)]
    pub(crate) created_at: Timestamp,
    /// The status of the work; `None` if the header was not verified. In that case only the sequence number,
    /// the id and the marks are reliable.
    #[getter(copy)]
    pub(crate) status: Option<Status>,
    /// Whether the checkpoint contains a state.
    pub(crate) holds_state: bool,
    /// Whether the checkpoint contains a capture of the workspace.
    pub(crate) holds_workspace: bool,
    /// Whether the checkpoint is pinned.
    pub(crate) pinned: bool,
    /// Whether the checkpoint has a tag.
    pub(crate) tagged: bool,
    /// Number of bytes that the store uses for the checkpoint.
    pub(crate) bytes: u64,
    /// Whether the document is already compressed, so that `Maintenance::Compress` skips it.
    pub(crate) packed: bool,
}

impl RetentionEntry {
    /// The facts about a checkpoint whose document is stored uncompressed.
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

    /// Sets the number of bytes that the store uses, and whether the document is compressed.
    #[must_use]
    pub fn with_size(self, bytes: u64, packed: bool) -> Self {
        Self { bytes, packed, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_without_a_stamp_of_their_own_stay_in_the_order_of_their_runs() {
        let rows = vec![("a@1", 1, 0), ("a@2", 2, 7), ("b@1", 1, 0), ("c@1", 1, 3)];
        let cursor = |(_, sequence, stamp): &(&str, u64, u64)| Cursor { sequence: *sequence, stamp: *stamp };
        let arranged = |query| {
            let names = arrange(rows.clone(), &query, cursor).into_iter().map(|(name, ..)| name);
            names.collect::<Vec<_>>()
        };
        assert_eq!(arranged(HeaderQuery::default()), ["a@2", "c@1", "a@1", "b@1"]);
        assert_eq!(arranged(HeaderQuery::default().limit(3)), ["a@2", "c@1", "a@1"]);
        let after = Cursor { sequence: 2, stamp: 7 };
        assert_eq!(arranged(HeaderQuery::default().after(after)), ["c@1", "a@1", "b@1"]);
        let run: RunId = "a".parse().unwrap();
        let of_run = HeaderQuery::default().run(&run);
        assert_eq!(arranged(of_run), ["a@2", "c@1", "b@1", "a@1"]);
        assert_eq!(arranged(of_run.oldest_first(true)), ["a@1", "b@1", "c@1", "a@2"]);
    }
}
