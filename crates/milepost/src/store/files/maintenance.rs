//! Maintenance of a store of files: finds and repairs the results of crashes and damage, and compacts logs.
//! Takes an operation and returns what was found and done, with paths relative to the store. Removes only
//! files that no commit refers to, and keeps a copy of a damaged log next to the repaired one.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::blobs::Counter;
use super::history::{self, History};
use super::opener::OWN_FOLDER;
use super::state::{Live, RowRef, RunLog};
use super::{FilesStore, read_error, size_of_tree};
use crate::fs::atomic::{self, Mode};
use crate::model::{CheckpointId, RunId, RunRecord, Status};
use crate::seal::{Header, Verified};
use crate::store::{Maintenance, MaintenanceReport, Problem, ProblemKind, StoreError};

/// One inspection of the store.
struct Round<'a> {
    store: &'a FilesStore,
    /// Whether to repair the problems found.
    mend: bool,
    report: MaintenanceReport,
}

impl FilesStore {
    /// Runs a maintenance operation.
    pub(super) fn run_maintenance(&self, what: Maintenance<'_>) -> Result<MaintenanceReport, StoreError> {
        match what {
            Maintenance::Compress { run, before } => return self.compress(run, before),
            Maintenance::Compact => return self.compact_all(),
            Maintenance::Inspect | Maintenance::Repair => {}
        }
        let lock = match (self.acquire(), what) {
            // A store that is not writable can still be inspected.
            (Err(StoreError::ReadOnly { .. } | StoreError::Write { .. }), Maintenance::Inspect) => None,
            (lock, _) => Some(lock?),
        };
        let mut round =
            Round { store: self, mend: what == Maintenance::Repair, report: MaintenanceReport::default() };
        round.inspect()?;
        drop(lock);
        Ok(round.report)
    }

    /// Compacts all logs. Releases the lock after each log, to let other writers continue.
    fn compact_all(&self) -> Result<MaintenanceReport, StoreError> {
        let mut report = MaintenanceReport::default();
        for run in self.run_ids()? {
            let _lock = self.acquire()?;
            let Some(log) = self.load(&run)? else { continue };
            let freed = self.compact(&run, &log)?;
            report.bytes_freed += freed;
            report.done += u64::from(freed > 0);
        }
        Ok(report)
    }
}

impl Round<'_> {
    fn inspect(&mut self) -> Result<(), StoreError> {
        let own = self.store.root.join(OWN_FOLDER);
        self.sweep_strays(&self.store.root.clone())?;
        self.sweep_strays(&own)?;
        for entry in fs::read_dir(&own).map_err(|e| read_error(&own, e))? {
            let path = entry.map_err(|e| read_error(&own, e))?.path();
            if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("trash-")) {
                self.sweep_folder(&path);
            }
        }
        self.inspect_blobs()?;
        for run in self.store.run_ids()? {
            let history = self.store.history(&run);
            if history.folder().is_dir() {
                self.inspect_run(&run, &history)?;
            }
        }
        Ok(())
    }

    fn inspect_blobs(&mut self) -> Result<(), StoreError> {
        let folder = self.store.blob_folder();
        let strays = folder.leftover_temp_files().map_err(|e| read_error(folder.root(), e))?;
        for path in strays {
            let message = format!("{} is a temporary file left by an interrupted write", self.name(&path));
            if self.found(ProblemKind::StrayFile, message, true) {
                self.remove(&path);
            }
        }
        let total = self.store.sum_blob_bytes()?;
        let is_wrong = match self.store.blob_counter() {
            Counter::Known(counted) => counted != total,
            Counter::Unknown => false,
            Counter::Damaged => true,
        };
        let message = format!("{OWN_FOLDER}/blob-bytes does not contain the size of all blobs");
        if is_wrong && self.found(ProblemKind::Derived, message, true) {
            self.store.set_counter(total)?;
            self.report.done += 1;
        }
        let is_damaged = !self.store.read_roots()?.damaged.is_empty();
        let message = format!("{OWN_FOLDER}/blob-roots has damaged lines; repairing removes them");
        if is_damaged && self.found(ProblemKind::Record, message, true) {
            self.store.change_roots(|roots| roots.damaged.clear())?;
            self.report.done += 1;
        }
        Ok(())
    }

    fn inspect_run(&mut self, run: &RunId, history: &History) -> Result<(), StoreError> {
        self.sweep_strays(history.folder())?;
        if history.documents().is_dir() {
            self.sweep_strays(&history.documents())?;
        }
        let Some(log) = self.store.load(run)? else {
            self.sweep_orphans(run, history, &RunLog::default())?;
            if self.mend {
                // Left over from an interrupted first commit. Folders that are not empty stay.
                let _ = fs::remove_dir(history.documents());
                history::remove(&history.log());
                let _ = fs::remove_dir(history.folder());
            }
            return Ok(());
        };
        self.inspect_log(run, history, &log)?;
        let log = self.store.load(run)?.unwrap_or(log);
        self.sweep_orphans(run, history, &log)?;
        self.inspect_latest(run, history, &log);
        Ok(())
    }

    /// Records a problem. Returns whether it should be repaired now.
    fn found(&mut self, kind: ProblemKind, message: String, repairable: bool) -> bool {
        self.report.problems.push(Problem { kind, message, repairable });
        self.mend && repairable
    }

    fn name<'p>(&self, path: &'p Path) -> std::path::Display<'p> {
        path.strip_prefix(&self.store.root).unwrap_or(path).display()
    }

    fn sweep_strays(&mut self, folder: &Path) -> Result<(), StoreError> {
        for path in atomic::leftover_temp_files(folder).map_err(|e| read_error(folder, e))? {
            let message = format!("{} is a temporary file left by an interrupted write", self.name(&path));
            if self.found(ProblemKind::StrayFile, message, true) {
                self.remove(&path);
            }
        }
        Ok(())
    }

    fn sweep_folder(&mut self, path: &Path) {
        let message = format!("{} is left over from a deleted run", self.name(path));
        if self.found(ProblemKind::StrayFile, message, true) {
            let size = size_of_tree(path).unwrap_or(0);
            if fs::remove_dir_all(path).is_ok() {
                self.report.bytes_freed += size;
                self.report.done += 1;
            }
        }
    }

    fn remove(&mut self, path: &Path) {
        let size = history::remove(path);
        self.report.bytes_freed += size;
        self.report.done += u64::from(!path.exists());
    }

    fn sweep_orphans(&mut self, run: &RunId, history: &History, log: &RunLog) -> Result<(), StoreError> {
        let mut files = history.files().map_err(|e| read_error(&history.documents(), e))?;
        files.sort();
        let live: HashMap<&CheckpointId, &Live> =
            log.entries.values().map(|live| (&live.entry.header.snapshot_id, live)).collect();
        for (id, path) in files {
            if log.unexplained.iter().any(|found| found.id == id) {
                continue;
            }
            if let Some(live) = live.get(&id) {
                let packed = path == history.compressed(&id);
                // If both forms exist, the one that the log names stays. The other is removed only if that
                // one is intact.
                let spare = packed != live.gz.is_some() && self.is_intact(run, history, live);
                if !spare {
                    continue;
                }
            }
            let message = format!("{} is a document that no commit refers to", self.name(&path));
            if self.found(ProblemKind::Orphan, message, true) {
                self.remove(&path);
            }
        }
        Ok(())
    }

    /// Whether the form of the document that the log names is intact.
    fn is_intact(&self, run: &RunId, history: &History, live: &Live) -> bool {
        let id = &live.entry.header.snapshot_id;
        let named = if live.gz.is_some() {
            history.unpacked_of(run, live)
        } else {
            history::read(&history.plain(id)).ok()
        };
        named.is_some_and(|bytes| Verified::read(bytes, &live.entry.header).is_ok())
    }

    fn inspect_log(&mut self, run: &RunId, history: &History, log: &RunLog) -> Result<(), StoreError> {
        let path = history.log();
        if log.bad == 0 && log.lost == 0 {
            if log.record.is_none() {
                let message = format!("{} has no readable record of the run", self.name(&path));
                self.found(ProblemKind::Record, message, false);
            }
            return Ok(());
        }
        let count = log.bad.max(log.lost);
        let lines = if count == 1 { "line" } else { "lines" };
        let message = match log.is_lossy() {
            false => format!(
                "{} has {count} damaged {lines}; the following lines repeat the lost changes",
                self.name(&path)
            ),
            true => format!(
                "{} has {count} damaged {lines}; {} checkpoints are known only from history/",
                self.name(&path),
                log.unexplained.len()
            ),
        };
        if self.found(ProblemKind::Record, message, true) {
            self.keep_damaged(&path)?;
            let (whole, record) = rebuilt(log);
            self.store.rewrite(run, &whole, record.as_ref())?;
            self.report.done += 1;
            let unreadable = log.unexplained.iter().filter(|found| found.header.is_none());
            for path in unreadable.flat_map(|found| [history.plain(&found.id), history.compressed(&found.id)])
            {
                // The document and its line are both damaged, so no header can be rebuilt. Keep the file
                // under another name.
                if path.exists() {
                    let aside = PathBuf::from(format!("{}.damaged", path.display()));
                    let message = format!("{} is damaged, and so is its line in the log", self.name(&path));
                    self.found(ProblemKind::Orphan, message, false);
                    fs::rename(&path, &aside).map_err(|e| self.store.write_error(&path, e))?;
                }
            }
        }
        Ok(())
    }

    /// Keeps a copy of a damaged log under another name, because more of it may be recoverable by hand.
    fn keep_damaged(&self, path: &Path) -> Result<(), StoreError> {
        let Ok(bytes) = history::read(path) else { return Ok(()) };
        let mut copies = (1..).map(|n| PathBuf::from(format!("{}.damaged-{n}", path.display())));
        let copy = copies.find(|copy| !copy.exists()).unwrap_or_else(|| path.with_extension("damaged"));
        atomic::write(&copy, &bytes, Mode::Private).map_err(|e| self.store.write_error(&copy, e))
    }

    fn inspect_latest(&mut self, run: &RunId, history: &History, log: &RunLog) {
        let path = history.latest();
        let Some(RowRef::Live(live)) = log.newest() else { return };
        let header = &live.entry.header;
        let good = |bytes: Option<Vec<u8>>| bytes.and_then(|bytes| Verified::read(bytes, header).ok());
        let body = good(history.bytes(run, live).ok());
        let latest = good(history::read(&path).ok());
        match (body, latest) {
            (Some(body), None) => {
                let message = format!("{} does not contain the newest checkpoint", self.name(&path));
                if self.found(ProblemKind::Derived, message, true) {
                    self.mended(&path, body.bytes());
                }
            }
            (None, Some(latest)) => {
                let body = history.plain(&header.snapshot_id);
                let message =
                    format!("{} is damaged; {} contains an intact copy", self.name(&body), self.name(&path));
                if self.found(ProblemKind::Derived, message, true) {
                    self.mended(&body, latest.bytes());
                }
            }
            // If both are damaged, so is the checkpoint itself, which `verify` reports.
            _ => {}
        }
    }

    fn mended(&mut self, path: &Path, bytes: &[u8]) {
        self.report.done += u64::from(atomic::write(path, bytes, Mode::Private).is_ok());
    }
}

/// The log with the headers rebuilt from `history/`, and the last known record updated by those headers.
fn rebuilt(log: &RunLog) -> (RunLog, Option<RunRecord>) {
    let mut whole = log.clone();
    let mut record = log.record.clone().or_else(|| log.stale.clone());
    whole.last_sequence = log.next_sequence() - 1;
    whole.stamp = log.highest_stamp();
    for header in log.unexplained.iter().filter_map(|found| found.header.clone()) {
        if let Some(record) = &mut record {
            adopt(record, &header);
        }
        whole.stamp = whole.stamp.max(header.stamp);
        whole.add(header);
    }
    (whole, record)
}

fn adopt(record: &mut RunRecord, header: &Header) {
    let sequence = header.sequence;
    match header.status {
        Status::Failed => record.latest_failed = record.latest_failed.max(sequence),
        Status::Completed => record.latest_completed = record.latest_completed.max(sequence),
        _ => {}
    }
    if header.holds_state {
        record.latest_state = record.latest_state.max(sequence);
    }
    if header.holds_workspace() {
        record.captures.latest = record.captures.latest.max(sequence);
    }
    if header.restore_points > 0 {
        record.captures.restore_points = record.captures.restore_points.max(sequence);
    }
    record.updated_at = record.updated_at.max(header.created_at);
}
