//! Compression of old documents: `history/<id>.json` becomes `<id>.json.gz`, and both checksums are kept, the seal inside
//! and that of the compressed bytes in the log.
//! In: a time. Out: how many were compressed and the bytes that came back. Order: compressed files, the line that names
//! them, removal of the plain ones; whatever a crash leaves of that reads as before. The lock is released after a few, so that savers
//! are not kept waiting.

use jiff::Timestamp;

use super::FilesStore;
use super::history::{self, History};
use super::log::Change;
use super::state::{Live, RunLog};
use crate::fs::atomic;
use crate::model::{CheckpointId, RunId};
use crate::seal::Verified;
use crate::store::{MaintenanceReport, StoreError};

/// Documents that are compressed before the lock is released.
const PER_LOCK: usize = 32;

impl FilesStore {
    /// Compresses documents made before a time, of one run or all.
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
                // Looking takes no lock.
                let Some(log) = self.load(&run)? else { break };
                self.sweep_plain(&run, &log, &mut report)?;
                if candidates(&log, before).next().is_none() {
                    break;
                }
                let _lock = self.acquire()?;
                let Some(log) = self.load(&run)? else { break };
                if self.compress_some(&run, &log, before, &mut report)? < PER_LOCK {
                    break;
                }
            }
        }
        Ok(report)
    }

    /// Compresses at most `PER_LOCK` documents; returns how many.
    fn compress_some(
        &self,
        run: &RunId,
        log: &RunLog,
        before: Timestamp,
        report: &mut MaintenanceReport,
    ) -> Result<usize, StoreError> {
        let history = self.history(run);
        let mut change =
            Change { n: log.next_n(), stamp: log.stamp, last: log.last_sequence, ..Change::default() };
        let mut packed = Vec::new();
        let result =
            self.pack(run, &history, candidates(log, before), &mut change, &mut packed).and_then(|()| {
                if packed.is_empty() { Ok(()) } else { self.append(run, &change, log.record.as_ref(), log) }
            });
        if let Err(error) = result {
            // Where it is not sure that the line is missing, both forms stay.
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

    /// Compresses documents, durable when it returns. Adds each to `change`, and to `packed` with the bytes it saves.
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
            // A damaged document stays as it is, for others to look at.
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

    /// Removes plain documents that a crash left beside their compressed form, where that is good.
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

/// What is old enough and not compressed yet; never the newest, which `latest.json` is made from.
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
