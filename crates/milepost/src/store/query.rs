//! What a store is asked for and what it answers: queries and the rows of their results.
//! Plain values; nothing here touches a file.

use std::cmp::Reverse;

use derive_getters::Getters;
use jiff::Timestamp;

use super::Damage;
use crate::model::{CheckpointId, Event, Item, Marks, RunId, RunRecord, Status};
use crate::seal::Header;

/// A checkpoint as lists show it.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct CheckpointEntry {
    /// Its header.
    pub header: Header,
    /// Its marks.
    pub marks: Marks,
}

impl CheckpointEntry {
    /// Whether it has this tag, or was imported under this id.
    pub(super) fn has_name(&self, name: &str) -> bool {
        self.marks.tags.iter().any(|tag| tag == name) || self.header.imported_id.as_deref() == Some(name)
    }

    /// An entry of a list.
    pub fn new(header: Header, marks: Marks) -> Self {
        Self { header, marks }
    }
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

/// A run as the store has it.
#[derive(Debug, Clone)]
#[non_exhaustive]
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

impl RunRow {
    /// A run without checkpoints, last written at `stamp`.
    pub fn new(run_id: RunId, record: Result<Box<RunRecord>, Damage>, stamp: u64) -> Self {
        Self { run_id, record, stamp, count: 0, latest: None }
    }
}

/// A run and what was recorded since its newest checkpoint.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct StoredRun {
    /// The run.
    pub row: RunRow,
    /// Its pending items, oldest first.
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
    /// Which runs to list: newest write first.
    #[derive(Debug, Clone, Copy, Default)]
    pub struct RunQuery {
        /// Only runs whose last write is before this stamp.
        pub before: Option<u64>,
        /// At most this many; 0 for all.
        pub limit: usize [number],
    }
}

options! {
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
        pub limit: usize [number],
    }
}

/// Puts rows in the order of a query and leaves out those before its cursor and beyond its limit. Within a run the
/// position is the sequence, over all runs it is the stamp, newest first.
pub(super) fn arrange<T>(mut rows: Vec<T>, query: &HeaderQuery<'_>, cursor: impl Fn(&T) -> Cursor) -> Vec<T> {
    let position = |at: Cursor| if query.run.is_some() { at.sequence } else { at.stamp };
    let oldest_first = query.oldest_first && query.run.is_some();
    if let Some(after) = query.after.map(position) {
        rows.retain(|row| {
            let at = position(cursor(row));
            if oldest_first { at > after } else { at < after }
        });
    }
    if query.run.is_none() {
        // Only rows of a damaged store have the same stamp; they stay in the order of their runs.
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

/// How a checkpoint is named.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
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
    /// By the start of its short id ([`CheckpointId::short`]).
    ShortId(&'a str),
    /// By a tag, or the id it was imported under.
    Name(&'a str),
    /// Rows that belong to no run: damage that no list of a run shows.
    Orphaned,
}

options! {
    /// Which events to list, oldest first.
    #[derive(Debug, Clone, Copy, Default)]
    pub struct EventQuery<'a> {
        /// Only of this run.
        pub run: Option<&'a RunId>,
        /// Only after this position.
        pub after: u64 [number],
        /// At most this many of the newest; 0 for all.
        pub limit: usize [number],
    }
}

/// Events, and where to go on from.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct EventPage {
    /// Each with its position.
    pub events: Vec<(u64, Event)>,
    /// What could not be read.
    pub damaged: Vec<Damage>,
}

/// What retention looks at: the few facts of one checkpoint that it decides by.
#[derive(Getters, Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RetentionEntry {
    /// Its number.
    pub(crate) sequence: u64,
    /// Its id.
    pub(crate) snapshot_id: CheckpointId,
    /// When it was made.
    #[getter(copy)]
    pub(crate) created_at: Timestamp,
    /// How the work stood; `None` where the header was not proven, and then only number, id and marks are sure.
    #[getter(copy)]
    pub(crate) status: Option<Status>,
    /// Whether a state was given.
    pub(crate) holds_state: bool,
    /// Whether it holds what was seen of the workspace.
    pub(crate) holds_workspace: bool,
    /// Whether it is pinned.
    pub(crate) pinned: bool,
    /// Whether it has a tag.
    pub(crate) tagged: bool,
    /// Bytes that the store holds for it.
    pub(crate) bytes: u64,
    /// Whether its document is as small as the store makes it; `Maintenance::Compress` leaves it alone.
    pub(crate) packed: bool,
}

impl RetentionEntry {
    /// The facts of a checkpoint whose document is stored uncompressed.
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

    /// The same, with the bytes that the store holds for it and whether they are compressed.
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
