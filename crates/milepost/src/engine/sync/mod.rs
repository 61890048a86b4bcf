//! Sync: sends runs that were written on this machine to the server of the store, each write once and in order.
//! Takes what waits in the local store of a `SyncedStore`. If someone else continued a run on the server meanwhile,
//! the part from this machine becomes a run of its own, which names the last common checkpoint as its parent.
//!
//! The server's record says what it has received (`SyncState`), in the same commit as the data, so that a send whose
//! reply was lost is not repeated. The local record only says what is known to have been received.

mod commit;
mod sender;

use std::sync::Arc;
use std::time::Instant;

use derive_getters::Getters;
use jiff::Timestamp;

use self::sender::Sender;
use super::Milepost;
use crate::Error;
use crate::model::RunId;
use crate::store::synced::is_waiting;
use crate::store::{HeaderQuery, RunQuery, Store, StoreUrl, SyncedStore};

/// What waits on this machine to be sent to the server.
#[derive(Getters, Debug, Clone, Default, PartialEq, Eq)]
pub struct Waiting {
    /// The runs of which some part was not sent yet, oldest write first.
    pub(crate) runs: Vec<RunId>,
    /// Number of checkpoints that were not sent yet.
    pub(crate) checkpoints: u64,
    /// The time of the oldest write that was not sent yet, as far as it is known.
    #[getter(copy)]
    pub(crate) since: Option<Timestamp>,
}

/// The result of sending what waited.
#[derive(Getters, Debug, Default)]
pub struct SyncReport {
    /// The runs that were sent.
    pub(crate) runs: Vec<RunId>,
    /// Number of checkpoints that were sent.
    pub(crate) checkpoints: u64,
    /// Runs that someone else continued on the server, and the runs that the parts from this machine became.
    pub(crate) split: Vec<(RunId, RunId)>,
    /// Runs that could not be sent, and why. They stay on this machine.
    pub(crate) failed: Vec<(RunId, Error)>,
    /// Number of file contents that were sent.
    pub(crate) files: u64,
    /// Number of file contents that stay on this machine because they contain secrets.
    pub(crate) files_with_secrets: u64,
}

impl Milepost {
    /// Uses a store on a server that has a copy on this machine.
    pub fn with_sync(store: SyncedStore) -> Self {
        let store = Arc::new(store);
        let local = store.local_url();
        let owners = local.and_then(StoreUrl::owners_folder);
        let address = local.map_or_else(String::new, |url| url.absolute().to_string());
        Self {
            synced: Some(Arc::clone(&store)),
            owners,
            address: address.into(),
            #[cfg(feature = "search")]
            search: super::search::SearchSlot::at(
                local.filter(|url| url.exists()).and_then(StoreUrl::search_index),
            ),
            ..Self::on(store)
        }
    }

    /// Uses this project for runs that are copied from a store that does not record projects.
    #[cfg_attr(feature = "internal", visibility::make(pub))]
    #[must_use]
    pub(crate) fn in_project(mut self, id: Option<String>) -> Self {
        self.location.project_id = id;
        self
    }

    /// The store with its copy on this machine, if there is one.
    pub fn synced(&self) -> Option<&SyncedStore> {
        self.synced.as_deref()
    }

    /// What waits on this machine to be sent. Does not contact the server.
    pub fn waiting(&self) -> Result<Waiting, Error> {
        let mut waiting = Waiting::default();
        let Some(local) = self.local_store()? else { return Ok(waiting) };
        for row in local.runs(&RunQuery::default())?.into_iter().rev().filter(is_waiting) {
            let known = row.record.as_ref().ok().and_then(|record| record.sync.clone()).unwrap_or_default();
            let query = HeaderQuery::default().run(&row.run_id).limit(super::lookup::PAGE);
            let new: Vec<_> = local.headers(&query)?;
            let new = new.iter().filter(|row| row.cursor().sequence > known.sequence);
            let entries: Vec<_> = new.filter_map(|row| row.clone().intact()).collect();
            let first = entries.iter().map(|entry| entry.header.created_at).min();
            let first = first.or_else(|| row.record.as_ref().ok().map(|record| record.updated_at));
            waiting.since = waiting.since.into_iter().chain(first).min();
            waiting.checkpoints += entries.len() as u64;
            waiting.runs.push(row.run_id);
        }
        Ok(waiting)
    }

    /// Copies a run from the server to this machine, so that it can be continued while the server is not used.
    #[cfg_attr(feature = "internal", visibility::make(pub))]
    pub(crate) fn fetch_run(&self, run: &RunId) -> Result<(), Error> {
        Ok(self.synced.as_ref().map_or(Ok(()), |synced| synced.fetch(run))?)
    }

    /// Sends what waits on this machine to the server, until `deadline` if there is one. A run that fails does not
    /// prevent others from being sent, unless the server cannot be reached.
    pub fn sync(
        &self,
        deadline: Option<Instant>,
        progress: &mut dyn FnMut(u64),
    ) -> Result<SyncReport, Error> {
        let mut report = SyncReport::default();
        let (Some(synced), Some(local)) = (&self.synced, self.local_store()?) else { return Ok(report) };
        let from = synced.local_url().map(crate::store::identity::read_id);
        let Some(Ok(Some(from))) = from else { return Ok(report) };
        let sender = Sender {
            local: Self { store: Arc::clone(&local), synced: None, ..self.clone() },
            server: Self { store: Arc::clone(synced.server()), synced: None, ..self.clone() },
            from: from.to_string(),
        };
        let rows = local.runs(&RunQuery::default())?;
        for row in rows.iter().rev().filter(|row| is_waiting(row)) {
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                break;
            }
            match sender.send(&row.run_id, &mut report) {
                Ok(()) => {
                    report.runs.push(row.run_id.clone());
                    progress(report.runs.len() as u64);
                }
                Err(Error::Store(e)) if synced.note_outage(&e) => return Err(e.into()),
                Err(e) => report.failed.push((row.run_id.clone(), e)),
            }
        }
        sender.remove_old(&rows)?;
        Ok(report)
    }

    fn local_store(&self) -> Result<Option<Arc<dyn Store>>, Error> {
        Ok(self.synced.as_ref().map_or(Ok(None), |synced| synced.local())?)
    }
}
