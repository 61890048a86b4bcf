//! Compresses old documents: `history/<id>.json` becomes `<id>.json.gz`, and the log stores its checksum.
//! The steps are: write compressed files, append the log line that names them, remove the plain files.
//! A crash between steps leaves every document readable.
//! The lock is released after every `PER_LOCK` documents, to let other writers continue.

use jiff::Timestamp;

use super::FilesStore;
use super::cache::End;
use super::history::{self, History};
use super::log::Change;
use super::state::{Live, RunLog};
use crate::fs::atomic;
use crate::model::{CheckpointId, RunId};
use crate::seal::Verified;
use crate::store::{MaintenanceReport, StoreError};

/// Number of documents that are compressed before the lock is released.
const PER_LOCK: usize = 32;

impl FilesStore {
    /// Compresses documents created before a time, of one run or of all runs.
    pub(super) fn compress(
        &self,
        run: Option<&RunId>,
        before: Timestamp,
    ) -> Result<MaintenanceReport, StoreError> {
        let runs = match run {
            Some(run) => vec![run.clone()],
            None => self.run_ids()?,
        };
        let mut report = MaintenanceReport::default();
        for run in runs {
            loop {
                // Finding candidates needs no lock.
                let Some(log) = self.load(&run)? else { break };
                self.sweep_plain(&run, &log, &mut report)?;
                if candidates(&log, before).next().is_none() {
                    break;
                }
                let _lock = self.acquire()?;
                let Some((log, end)) = self.load_with_end(&run)? else { break };
                if self.compress_some(&run, &log, end, before, &mut report)? < PER_LOCK {
                    break;
                }
            }
        }
        Ok(report)
    }

    /// Compresses at most `PER_LOCK` documents and returns their number.
    fn compress_some(
        &self,
        run: &RunId,
        log: &RunLog,
        end: End,
        before: Timestamp,
        report: &mut MaintenanceReport,
    ) -> Result<usize, StoreError> {
        let history = self.history(run);
        let mut change =
            Change { n: log.next_n(), stamp: log.stamp, last: log.last_sequence, ..Change::default() };
        change.totals = Some(log.totals());
        let mut packed = Vec::new();
        let result =
            self.pack(run, &history, candidates(log, before), &mut change, &mut packed).and_then(|()| {
                if packed.is_empty() {
                    return Ok(());
                }
                self.append(run, &change, log.record.as_ref(), &log.base(end))
            });
        if let Err(error) = result {
            // If the line may have been written, keep both forms.
            if !matches!(error, StoreError::NotAcknowledged { .. }) {
                for (id, _) in &packed {
                    history::remove(&history.compressed(id));
                }
            }
            return Err(error);
        }
        for (id, freed) in &packed {
            history::remove(&history.plain(id));
            report.done += 1;
            report.bytes_freed += freed;
        }
        Ok(packed.len())
    }

    /// Writes compressed documents durably. Adds each to `change`, and to `packed` with the bytes saved.
    fn pack<'a>(
        &self,
        run: &RunId,
        history: &History,
        candidates: impl Iterator<Item = &'a Live>,
        change: &mut Change,
        packed: &mut Vec<(CheckpointId, u64)>,
    ) -> Result<(), StoreError> {
        for live in candidates {
            let header = &live.entry.header;
            // Leave a damaged document unchanged for inspection.
            let Ok(bytes) = history.bytes(run, live) else { continue };
            let Ok(intact) = Verified::read(bytes, header) else { continue };
            let path = history.compressed(&header.snapshot_id);
            let (check, size) = history
                .compress(run, &header.snapshot_id, intact.bytes())
                .map_err(|e| self.write_error(&path, e))?;
            change.gz.push((header.sequence, check));
            packed.push((header.snapshot_id.clone(), header.size.saturating_sub(size)));
            if packed.len() == PER_LOCK {
                break;
            }
        }
        if packed.is_empty() {
            return Ok(());
        }
        let folder = history.documents();
        atomic::sync_folder(&folder).map_err(|e| self.write_error(&folder, e))
    }

    /// Removes plain documents that a crash left in addition to an intact compressed form.
    fn sweep_plain(
        &self,
        run: &RunId,
        log: &RunLog,
        report: &mut MaintenanceReport,
    ) -> Result<(), StoreError> {
        let history = self.history(run);
        let both = |live: &&Live| live.gz.is_some() && history.plain(&live.entry.header.snapshot_id).exists();
        for live in log.entries.values().filter(both) {
            let good = history
                .unpacked_of(run, live)
                .is_some_and(|bytes| Verified::read(bytes, &live.entry.header).is_ok());
            if good {
                let _lock = self.acquire()?;
                report.bytes_freed += history::remove(&history.plain(&live.entry.header.snapshot_id));
            }
        }
        Ok(())
    }
}

/// Documents that are old enough and not compressed yet, except the newest: `latest.json` is copied from it.
fn candidates(log: &RunLog, before: Timestamp) -> impl Iterator<Item = &Live> {
    let newest = log.next_sequence() - 1;
    let last_live = log.entries.keys().next_back().copied();
    log.entries.values().filter(move |live| {
        let header = &live.entry.header;
        live.gz.is_none()
            && Some(header.sequence) != last_live
            && header.sequence != newest
            && header.created_at < before
    })
}
