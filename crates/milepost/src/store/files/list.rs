//! Lists of headers, within a run and over all of them.
//! In: a query. Out: rows in order, intact or named as damaged. Opens no document.

use std::cmp::Reverse;
use std::sync::Arc;

use super::FilesStore;
use super::state::{RowRef, RunLog};
use crate::model::RunId;
use crate::store::{CheckpointFilter, Cursor, HeaderQuery, Row, StoreError};

impl FilesStore {
    /// Lists what `query` asks for.
    pub(super) fn list(&self, query: &HeaderQuery<'_>) -> Result<Vec<Row>, StoreError> {
        if matches!(query.find, CheckpointFilter::Sequence(_)) && query.run.is_none() {
            return Err(StoreError::Rules("a sequence names a checkpoint only within a run"));
        }
        let logs: Vec<(RunId, Arc<RunLog>)> = match query.run {
            Some(run) => self.load(run)?.map(|log| (run.clone(), log)).into_iter().collect(),
            None => self.load_all()?,
        };
        let oldest_first = query.oldest_first && query.run.is_some();
        let place = |cursor: Cursor| if query.run.is_some() { cursor.sequence } else { cursor.stamp };
        let beyond = |cursor: Cursor| match query.after.map(place) {
            Some(after) if oldest_first => place(cursor) > after,
            Some(after) => place(cursor) < after,
            None => true,
        };
        let mut found: Vec<(&RunId, RowRef<'_>)> = Vec::new();
        for (run, log) in &logs {
            let rows = log.rows().into_iter().filter(|row| beyond(row.cursor()) && matches(row, query.find));
            found.extend(rows.map(|row| (run, row)));
        }
        // Rows of one run come in order already; over runs only stamps compare.
        if query.run.is_none() {
            found.sort_by_key(|(_, row)| Reverse(row.cursor().stamp));
        } else if !oldest_first {
            found.reverse();
        }
        if query.limit > 0 {
            found.truncate(query.limit);
        }
        Ok(found.iter().map(|(run, row)| row.row(run)).collect())
    }
}

fn matches(row: &RowRef<'_>, find: CheckpointFilter<'_>) -> bool {
    let id = match row {
        RowRef::Live(live) => live.entry.header.snapshot_id.as_str(),
        RowRef::Unexplained(found) => found.id.as_str(),
    };
    match find {
        CheckpointFilter::All => true,
        // A folder without a log is a run of its own here.
        CheckpointFilter::Orphaned => false,
        CheckpointFilter::Sequence(sequence) => row.cursor().sequence == sequence,
        CheckpointFilter::Id(wanted) => id == wanted,
        CheckpointFilter::Prefix(start) => id.starts_with(start),
        CheckpointFilter::Name(name) => match row {
            RowRef::Live(live) => {
                live.entry.marks.tags.iter().any(|tag| tag == name)
                    || live.entry.header.imported_id.as_deref() == Some(name)
            }
            RowRef::Unexplained(_) => false,
        },
    }
}
