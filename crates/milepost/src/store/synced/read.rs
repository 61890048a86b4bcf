//! Reads of a store on a server together with what waits on this machine. What waits takes the place of the same
//! run on the server, and comes first in lists. While the server cannot be reached, only the store on this machine
//! is read.

use std::collections::HashSet;
use std::sync::Arc;

use super::{SyncedStore, WAITING, is_waiting};
use crate::model::RunId;
use crate::store::query::arrange;
use crate::store::{
    CheckpointFilter, HeaderQuery, Row, RunQuery, RunRow, Store, StoreError, StoreInfo, StoredRun,
};

impl SyncedStore {
    /// The store on this machine, if the run waits there or the server is not used.
    pub(super) fn waiting_in(&self, run: &RunId) -> Result<Option<Arc<dyn Store>>, StoreError> {
        let found = self.local_run(run)?;
        Ok(found.filter(|(_, stored)| is_waiting(&stored.row)).map(|(local, _)| local))
    }

    /// Reads what belongs to one run: from this machine if the run waits there, else from the server.
    pub(super) fn read_of_run<T>(
        &self,
        run: &RunId,
        read: impl Fn(&dyn Store) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        if let Some(local) = self.waiting_in(run)? {
            return read(&*local);
        }
        match self.try_server(|server| read(server))? {
            Some(found) => Ok(found),
            None => match self.local()? {
                Some(local) => read(&*local),
                None => Err(StoreError::NoRun(run.clone())),
            },
        }
    }

    pub(super) fn read_run(&self, run: &RunId) -> Result<Option<StoredRun>, StoreError> {
        let local = self.local_run(run)?.map(|(_, stored)| stored);
        if let Some(stored) = local.clone().filter(|stored| is_waiting(&stored.row)) {
            return Ok(Some(waiting(stored)));
        }
        let Some(found) = self.try_server(|server| server.run(run))? else { return Ok(local.map(waiting)) };
        let Some(mut stored) = found else { return Ok(None) };
        self.mark_foreign(&mut stored.row)?;
        Ok(Some(stored))
    }

    pub(super) fn list_runs(&self, query: &RunQuery<'_>) -> Result<Vec<RunRow>, StoreError> {
        let local = self.local()?;
        let before_local = query.before.filter(|stamp| *stamp >= WAITING).map(|stamp| stamp - WAITING);
        let mut here = match &local {
            // Pages continue on the server after the last run that waits.
            Some(_) if query.before.is_some_and(|stamp| stamp < WAITING) => Vec::new(),
            Some(local) => local.runs(&RunQuery { before: before_local, limit: 0, ..*query })?,
            None => Vec::new(),
        };
        let of_server = RunQuery { before: query.before.filter(|stamp| *stamp < WAITING), ..*query };
        let mut rows = match self.try_server(|server| server.runs(&of_server))? {
            Some(mut rows) => {
                here.retain(is_waiting);
                let hidden = self.waiting_runs()?;
                rows.retain(|row| !hidden.contains(&row.run_id));
                for row in &mut rows {
                    self.mark_foreign(row)?;
                }
                rows
            }
            None => Vec::new(),
        };
        let mut all: Vec<RunRow> = here.into_iter().map(waiting_row).collect();
        all.append(&mut rows);
        if query.limit > 0 {
            all.truncate(query.limit);
        }
        Ok(all)
    }

    /// The runs that wait on this machine.
    pub(super) fn waiting_runs(&self) -> Result<HashSet<RunId>, StoreError> {
        let Some(local) = self.local()? else { return Ok(HashSet::new()) };
        let rows = local.runs(&RunQuery::default())?;
        Ok(rows.into_iter().filter(is_waiting).map(|row| row.run_id).collect())
    }

    pub(super) fn list_headers(&self, query: &HeaderQuery<'_>) -> Result<Vec<Row>, StoreError> {
        if let CheckpointFilter::Thread(filter) = query.find {
            return self.list_positions(query, filter);
        }
        match query.run {
            Some(run) => self.headers_of_run(run, query),
            None => self.headers_of_all(query),
        }
    }

    /// The checkpoints of one run. The server may have older ones than this machine.
    fn headers_of_run(&self, run: &RunId, query: &HeaderQuery<'_>) -> Result<Vec<Row>, StoreError> {
        let Some(local) = self.waiting_in(run)? else {
            return self.read_of_run(run, |store| store.headers(query));
        };
        let mut rows = local.headers(query)?;
        rows.iter_mut().for_each(add_offset);
        let known: HashSet<u64> = rows.iter().map(|row| row.cursor().sequence).collect();
        let there = self.try_server(|server| server.headers(query))?.unwrap_or_default();
        rows.extend(there.into_iter().filter(|row| !known.contains(&row.cursor().sequence)));
        Ok(arrange(rows, query, Row::cursor))
    }

    /// The checkpoints of all runs: those that wait first.
    fn headers_of_all(&self, query: &HeaderQuery<'_>) -> Result<Vec<Row>, StoreError> {
        let local = self.local()?;
        let is_server_page = query.after.is_some_and(|after| after.stamp < WAITING);
        let hidden = self.waiting_runs()?;
        let is_hidden = |row: &Row| match row {
            Row::Intact(entry) => hidden.contains(&entry.header.run_id),
            Row::Damaged { .. } => false,
        };
        let mut rows = Vec::new();
        let of_server = HeaderQuery { after: query.after.filter(|_| is_server_page), ..*query };
        let there = self.try_server(|server| server.headers(&of_server))?;
        if let (Some(local), false) = (&local, is_server_page) {
            let mut after = query.after;
            if let Some(cursor) = &mut after {
                cursor.stamp -= WAITING;
            }
            let mut here = local.headers(&HeaderQuery { after, ..*query })?;
            // A run that was sent is listed as the server has it.
            here.retain(|row| there.is_none() || is_hidden(row));
            here.iter_mut().for_each(add_offset);
            rows = here;
        }
        let known: HashSet<_> = rows.iter().filter_map(place).collect();
        rows.extend(
            there.into_iter().flatten().filter(|row| place(row).is_none_or(|at| !known.contains(&at))),
        );
        if query.limit > 0 {
            rows.truncate(query.limit);
        }
        Ok(rows)
    }

    pub(super) fn read_body(&self, run: &RunId, sequence: u64) -> Result<Vec<u8>, StoreError> {
        if let Some(local) = self.waiting_in(run)? {
            match local.body(run, sequence) {
                Err(StoreError::NoCheckpoint(..) | StoreError::NoRun(_)) => {}
                found => return found,
            }
        }
        match self.try_server(|server| server.body(run, sequence))? {
            Some(found) => Ok(found),
            None => match self.local()? {
                Some(local) => local.body(run, sequence),
                None => Err(StoreError::NoCheckpoint(run.clone(), sequence)),
            },
        }
    }

    /// Information about the store on the server, or about the one on this machine if it cannot be reached.
    pub(super) fn info_by(
        &self,
        read: impl Fn(&dyn Store) -> Result<StoreInfo, StoreError>,
    ) -> Result<StoreInfo, StoreError> {
        match (self.try_server(|server| read(server))?, self.local()?) {
            (Some(info), _) => Ok(info),
            (None, Some(local)) => read(&*local),
            (None, None) => read(&**self.server()),
        }
    }

    /// Reads lists of file contents: of the store on this machine, where files are stored, or of the server if
    /// there is none.
    pub(super) fn of_files<T: Default>(
        &self,
        read: impl FnOnce(&dyn Store) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        match (self.local()?, &self.local_address) {
            (Some(local), _) => read(&*local),
            (None, Some(_)) => Ok(T::default()),
            (None, None) => read(&**self.server()),
        }
    }
}

fn waiting(mut stored: StoredRun) -> StoredRun {
    stored.row = waiting_row(stored.row);
    stored
}

fn waiting_row(mut row: RunRow) -> RunRow {
    row.stamp = row.stamp.saturating_add(WAITING);
    row.latest.iter_mut().for_each(add_offset);
    row
}

pub(super) fn add_offset(row: &mut Row) {
    match row {
        Row::Intact(entry) => entry.header.stamp = entry.header.stamp.saturating_add(WAITING),
        Row::Damaged { cursor, .. } => cursor.stamp = cursor.stamp.saturating_add(WAITING),
    }
}

/// The run and sequence of an intact row.
fn place(row: &Row) -> Option<(RunId, u64)> {
    match row {
        Row::Intact(entry) => Some((entry.header.run_id.clone(), entry.header.sequence)),
        Row::Damaged { .. } => None,
    }
}
