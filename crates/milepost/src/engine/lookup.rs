//! Lookups that several verbs share: a run that must exist, its record, its rows page by page, a single
//! row. Takes ids and queries; returns what the store has, or an error that names what is missing. Reads no
//! documents.

use super::Milepost;
use crate::Error;
use crate::model::{CheckpointId, Event, RunId, RunRecord};
use crate::store::{CheckpointEntry, CheckpointFilter, EventQuery, HeaderQuery, Row, StoreError, StoredRun};

/// Page size if the first rows may be enough.
pub(super) const PAGE: usize = 256;
/// Page size if all rows are needed.
pub(super) const LARGE_PAGE: usize = 2048;

impl Milepost {
    /// Reads a run that must exist.
    pub(super) fn stored_run(&self, run: &RunId) -> Result<StoredRun, Error> {
        self.store.run(run)?.ok_or_else(|| Error::NoRun(run.to_string()))
    }

    /// Reads a run's record. Returns `None` if it is missing or damaged. The next write repairs a damaged
    /// record.
    pub(crate) fn record_of(&self, run: &RunId) -> Result<Option<Box<RunRecord>>, Error> {
        Ok(self.store.run(run)?.and_then(|stored| stored.row.record.ok()))
    }

    /// The events of a run, oldest first.
    pub(super) fn events_of(&self, run: &RunId) -> Result<Vec<Event>, Error> {
        let page = self.store.events(&EventQuery::default().run(run))?;
        Ok(page.events.into_iter().map(|(_, event)| event).collect())
    }

    /// The row of a run's checkpoint with this sequence number.
    pub(super) fn row_at(&self, run: &RunId, sequence: u64) -> Result<Option<Row>, StoreError> {
        let query = HeaderQuery::default().run(run).find(CheckpointFilter::Sequence(sequence));
        Ok(self.store.headers(&query)?.into_iter().next())
    }

    /// The row of the checkpoint with this id, in any run.
    pub(super) fn row_of(&self, id: &CheckpointId) -> Result<Option<Row>, StoreError> {
        let query = HeaderQuery::default().find(CheckpointFilter::Id(id.as_str())).limit(1);
        Ok(self.store.headers(&query)?.into_iter().next())
    }

    /// All rows of a query, read `page_size` at a time. If the query has a limit, it is the size of the
    /// first page. Stops after the first error.
    pub(super) fn rows<'a>(
        &'a self,
        mut query: HeaderQuery<'a>,
        page_size: usize,
    ) -> impl Iterator<Item = Result<Row, StoreError>> + 'a {
        query.limit = if query.limit == 0 { page_size } else { query.limit };
        let (mut page, mut is_last_page) = (Vec::new().into_iter(), false);
        std::iter::from_fn(move || {
            if page.len() == 0 && !is_last_page {
                is_last_page = true;
                match self.store.headers(&query) {
                    Ok(rows) => {
                        is_last_page = rows.len() < query.limit;
                        query = query.after(rows.last().map(Row::cursor)).limit(page_size);
                        page = rows.into_iter();
                    }
                    Err(e) => return Some(Err(e)),
                }
            }
            page.next().map(Ok)
        })
    }

    /// All intact entries of a run, oldest first.
    pub(super) fn entries<'a>(
        &'a self,
        run: &'a RunId,
    ) -> impl Iterator<Item = Result<CheckpointEntry, StoreError>> + 'a {
        let rows = self.rows(HeaderQuery::default().run(run).oldest_first(true), LARGE_PAGE);
        rows.filter_map(|row| row.map(Row::intact).transpose())
    }
}

/// Whether a run with this record was recorded in this store. Without a record, its origin is unknown.
pub(super) fn is_own(record: Option<&RunRecord>) -> bool {
    record.is_some_and(|record| !record.is_foreign())
}

/// The entry of a row; an error if the row is damaged.
pub(super) fn intact(row: Row) -> Result<CheckpointEntry, Error> {
    match row {
        Row::Intact(entry) => Ok(entry),
        Row::Damaged { damage, .. } => Err(Error::Damaged(Box::new(damage))),
    }
}
