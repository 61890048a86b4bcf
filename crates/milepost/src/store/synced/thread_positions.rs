//! Lists checkpoints by their positions in threads: those that wait on this machine, merged with those of the server
//! in the order of the ids. Sends nothing.

use std::collections::HashSet;

use super::read::add_offset;
use super::{SyncedStore, WAITING};
use crate::model::RunId;
use crate::store::query::merge_positions;
use crate::store::{CheckpointFilter, HeaderQuery, Row, Store, StoreError, ThreadFilter};

impl SyncedStore {
    pub(super) fn list_positions(
        &self,
        query: &HeaderQuery<'_>,
        filter: ThreadFilter<'_>,
    ) -> Result<Vec<Row>, StoreError> {
        let waiting = match query.run {
            Some(run) if self.waiting_in(run)?.is_some() => HashSet::from([run.clone()]),
            Some(run) => return self.read_of_run(run, |store| store.headers(query)),
            None => self.waiting_runs()?,
        };
        let there = self.positions_of_server(query, &waiting)?;
        let Some(local) = self.local()? else { return Ok(there.unwrap_or_default()) };
        // Positions of the server have lower stamps than all that wait.
        let after = filter.after.map(|(id, stamp)| (id, stamp.saturating_sub(WAITING)));
        let local_query = query.find(CheckpointFilter::Thread(ThreadFilter { after, ..filter }));
        let mut here = match &there {
            None => local.headers(&local_query)?,
            // A run that was sent is listed as the server has it.
            Some(_) => waiting.iter().try_fold(Vec::new(), |found, run| {
                let of_run = local.headers(&local_query.run(run))?;
                Ok::<_, StoreError>(merge_positions(found, of_run, query.limit))
            })?,
        };
        here.iter_mut().for_each(add_offset);
        Ok(merge_positions(here, there.unwrap_or_default(), query.limit))
    }

    /// The positions that only the server has; `None` if it cannot be reached.
    fn positions_of_server(
        &self,
        query: &HeaderQuery<'_>,
        waiting: &HashSet<RunId>,
    ) -> Result<Option<Vec<Row>>, StoreError> {
        let local = self.local()?;
        let mut limit = query.limit;
        loop {
            let Some(mut rows) = self.try_server(|server| server.headers(&query.limit(limit)))? else {
                return Ok(None);
            };
            let is_complete = limit == 0 || rows.len() < limit;
            if let Some(local) = &local {
                let mut only_there = Vec::new();
                for row in rows {
                    if !is_copied(&**local, waiting, &row)? {
                        only_there.push(row);
                    }
                }
                rows = only_there;
            }
            if is_complete || rows.len() >= query.limit {
                return Ok(Some(rows));
            }
            limit = limit.saturating_mul(2);
        }
    }
}

/// Whether a checkpoint of the server is also in the store on this machine, in a run that waits.
fn is_copied(local: &dyn Store, waiting: &HashSet<RunId>, row: &Row) -> Result<bool, StoreError> {
    let Row::Intact(entry) = row else { return Ok(false) };
    if !waiting.contains(&entry.header.run_id) {
        return Ok(false);
    }
    let find = CheckpointFilter::Sequence(entry.header.sequence);
    let found = local.headers(&HeaderQuery::default().run(&entry.header.run_id).find(find))?;
    Ok(!found.is_empty())
}
