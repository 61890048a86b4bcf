//! Lists headers of one run or of all runs. Takes a query and returns its rows in order, intact or damaged.
//! Opens no documents.

use super::state::RowRef;
use super::{FilesStore, thread_positions};
use crate::model::RunId;
use crate::store::{CheckpointFilter, HeaderQuery, Row, StoreError, arrange};

impl FilesStore {
    /// Lists the rows that match `query`.
    pub(super) fn list(&self, query: &HeaderQuery<'_>) -> Result<Vec<Row>, StoreError> {
        if matches!(query.find, CheckpointFilter::Sequence(_)) && query.run.is_none() {
            return Err(StoreError::Rules("a query by sequence requires a run"));
        }
        let logs = self.load_queried(query.run)?;
        if let CheckpointFilter::Thread(filter) = query.find {
            return Ok(thread_positions::list(&logs, &filter, query.limit));
        }
        let mut found: Vec<(&RunId, RowRef<'_>)> = Vec::new();
        for (run, log) in &logs {
            let rows = log.rows().into_iter().filter(|row| matches(row, query.find));
            found.extend(rows.map(|row| (run, row)));
        }
        let found = arrange(found, query, |(_, row)| row.cursor());
        Ok(found.iter().map(|(run, row)| row.row(run)).collect())
    }
}

fn matches(row: &RowRef<'_>, find: CheckpointFilter<'_>) -> bool {
    let id = row.id().as_str();
    match find {
        CheckpointFilter::All => true,
        // This layout has no rows outside of runs: every folder is a run, even without a log.
        CheckpointFilter::Orphaned => false,
        CheckpointFilter::Sequence(sequence) => row.cursor().sequence == sequence,
        CheckpointFilter::Id(wanted) => id == wanted,
        CheckpointFilter::Prefix(start) => id.starts_with(start),
        CheckpointFilter::ShortId(start) => row.id().short().is_some_and(|short| short.starts_with(start)),
        CheckpointFilter::Thread(filter) => {
            matches!(row, RowRef::Live(live) if filter.matches(&live.entry.header))
        }
        CheckpointFilter::Name(name) => matches!(row, RowRef::Live(live) if live.entry.has_name(name)),
    }
}
