//! A store of plain files that any program can read. Each run has a folder `<root>/<run_id>` with
//! `latest.json`, `log.jsonl` and the sealed documents as `history/<snapshot_id>.json[.gz]`.
//! A line in `log.jsonl` is the commit point; `latest.json` is derived. Readers take no lock and write
//! nothing, except that they repair `latest.json` if no writer holds the lock.

mod attachments;
mod blobs;
mod cache;
mod compress;
mod document_ids;
mod history;
mod list;
mod log;
mod maintenance;
mod opener;
mod roots;
mod stamp;
mod state;
mod tail;
mod thread_positions;
mod write;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use self::cache::Cached;
use self::document_ids::DocumentIds;
use self::history::{History, Unread};
pub(super) use self::opener::FILES;
use self::opener::OWN_FOLDER;
use self::state::{RowRef, RunLog};
use super::identity::{self, ForeignReason};
use super::lock::{FairLock, FairLockGuard, LockError};
use super::{
    BlobEntry, CollectReport, DETAILS_WERE_SHOWN, Damage, Decide, EventCursor, EventPage, EventQuery,
    FindLiveBlobs, HeaderQuery, Maintenance, MaintenanceReport, OpenOptions, Part, Receipt, RetentionEntry,
    Row, RunQuery, RunRow, Store, StoreError, StoreInfo, StoreUrl, StoredRun, WriteDecision,
};
use crate::fs::atomic::{self, Mode};
use crate::fs::bounded;
use crate::model::{Attachment, BlobId, Message, RunId};
use crate::seal::Verified;
use crate::trust::UserState;

/// The newest layout that this program reads and writes.
const FORMAT: u64 = 1;

/// A store of plain files.
#[derive(Debug)]
pub struct FilesStore {
    root: PathBuf,
    lock: FairLock,
    wait: Duration,
    /// Why the store is foreign, in which case it is not written; `None` if it is trusted.
    foreign: Option<ForeignReason>,
    runs: Mutex<HashMap<RunId, Cached>>,
    documents: Mutex<DocumentIds>,
}

impl FilesStore {
    /// Opens the store in a folder. Opening an existing store writes nothing.
    pub fn open(dir: &Path, options: &OpenOptions) -> Result<Self, StoreError> {
        // Returned paths must be valid in any working directory.
        let dir = std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned());
        let own = dir.join(OWN_FOLDER);
        let store = Self {
            root: dir,
            lock: FairLock::new(own.join("turn"), own.join("write")),
            wait: options.wait,
            foreign: options.foreign.clone(),
            runs: Mutex::default(),
            documents: Mutex::default(),
        };
        match store.check_format() {
            Err(StoreError::Missing { .. }) if options.create => {
                atomic::create_folder(&own).map_err(|e| store.write_error(&own, e))?;
                store.make(options.user_state.as_ref())?;
            }
            other => other?,
        }
        Ok(store)
    }

    /// Creates the store, unless another process has just created it. The format is written last: if it
    /// exists, so do the id and its record.
    fn make(&self, state: Option<&UserState>) -> Result<(), StoreError> {
        let _lock = self.lock_for_writing()?;
        if self.check_format().is_ok() {
            return Ok(());
        }
        let format = self.root.join(OWN_FOLDER).join("format");
        identity::register(&StoreUrl::files(&self.root), state)
            .and_then(|()| atomic::write(&format, format!("{FORMAT}\n").as_bytes(), Mode::Private))
            .map_err(|e| self.write_error(&format, e))
    }

    /// Refuses the store of a newer program. Every write checks again, because the format can change while
    /// the store is open.
    fn check_format(&self) -> Result<(), StoreError> {
        let path = self.root.join(OWN_FOLDER).join("format");
        let text = match bounded::read(&path, 64) {
            // If a component of the path is not a folder, there is no store either.
            Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Err(StoreError::Missing { location: self.location() });
            }
            Err(e) => {
                let denied = StoreError::denied(self.location(), &path, &e);
                return Err(denied.unwrap_or_else(|| read_error(&path, e)));
            }
            Ok(text) => text,
        };
        let text = String::from_utf8_lossy(&text);
        match text.trim().parse::<u64>() {
            Ok(found) if found > FORMAT => {
                Err(StoreError::Newer { location: self.location(), found, known: FORMAT })
            }
            Ok(FORMAT) => Ok(()),
            _ => Err(Damage::integrity(
                Part::Pages,
                format!("{FORMAT} in .store/format"),
                format!("\"{}\"", text.trim_end()),
            )
            .into()),
        }
    }

    fn location(&self) -> String {
        self.root.display().to_string()
    }

    /// The files of one run.
    fn history(&self, run: &RunId) -> History {
        History::new(self.root.join(run.as_str()))
    }

    /// Checks the format and waits for the write lock.
    fn acquire(&self) -> Result<FairLockGuard, StoreError> {
        self.check_format()?;
        self.lock_for_writing()
    }

    fn lock_for_writing(&self) -> Result<FairLockGuard, StoreError> {
        if let Some(why) = &self.foreign {
            return Err(StoreError::Untrusted { location: self.location(), why: why.clone() });
        }
        self.lock.acquire(self.wait).map_err(|e| match e {
            LockError::Busy(waited) => StoreError::Busy { location: self.location(), waited },
            LockError::Io(path, e) => self.write_error(&path, e),
        })
    }

    fn write_error(&self, path: &Path, e: io::Error) -> StoreError {
        match e.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                StoreError::ReadOnly { location: self.location(), source: Box::new(e) }
            }
            _ => StoreError::Write { location: path.display().to_string(), source: Box::new(e) },
        }
    }

    /// The ids of all runs that have a folder.
    fn run_ids(&self) -> Result<Vec<RunId>, StoreError> {
        let mut ids = Vec::new();
        let folder = fs::read_dir(&self.root).map_err(|e| read_error(&self.root, e))?;
        for entry in folder {
            let entry = entry.map_err(|e| read_error(&self.root, e))?;
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if let (true, Ok(id)) = (is_folder, entry.file_name().to_string_lossy().parse()) {
                ids.push(id);
            }
        }
        ids.sort();
        Ok(ids)
    }

    /// The document of one row; `None` if the run has no such row.
    fn document(&self, run: &RunId, log: &RunLog, sequence: u64) -> Result<Option<Vec<u8>>, Unread> {
        let history = self.history(run);
        if let Some(live) = log.entries.get(&sequence) {
            return history.bytes(run, live).map(Some);
        }
        let found = log.unexplained.iter().find(|found| found.sequence() == Some(sequence));
        Ok(found.and_then(|found| history.any_bytes(&found.id)))
    }

    /// Rewrites `latest.json` if `bytes` is the newest document and the file differs. Best effort: the file
    /// is derived, and the next reader tries again.
    fn repair_latest(&self, run: &RunId, log: &RunLog, sequence: u64, bytes: &[u8]) {
        let (Some(RowRef::Live(newest)), latest) = (log.newest(), self.history(run).latest()) else { return };
        let header = &newest.entry.header;
        if header.sequence != sequence || history::read(&latest).is_ok_and(|found| found == bytes) {
            return;
        }
        let unfit = || Verified::read(bytes.to_vec(), header).is_err() || self.check_format().is_err();
        if self.foreign.is_some() || unfit() {
            return;
        }
        let Some(_lock) = self.lock.try_acquire() else { return };
        // Another process may have written since.
        let now = self.load(run).ok().flatten();
        if now
            .is_some_and(|now| now.newest().is_some_and(|row| row.cursor() == RowRef::Live(newest).cursor()))
        {
            let _ = atomic::write_derived(&latest, bytes);
        }
    }
}

fn read_error(path: &Path, e: io::Error) -> StoreError {
    StoreError::Read { location: path.display().to_string(), source: Box::new(e) }
}

impl Store for FilesStore {
    fn write(&self, run: &RunId, decide: &mut Decide<'_>) -> Result<Receipt, StoreError> {
        let _lock = self.acquire()?;
        // Most commits need only the end of the log.
        if let Some(tail) = self.read_tail(run)? {
            let view = tail.view(self.next_stamp(tail.last_stamp)?);
            match decide(&view) {
                WriteDecision::NoChange => return Ok(Receipt::default()),
                WriteDecision::Commit(commit) if tail.is_sufficient_for(&commit) => {
                    return self.commit_to_tail(run, &tail, &view, *commit);
                }
                WriteDecision::Commit(_) | WriteDecision::NeedDetails => {}
            }
        }
        let (log, end) = self.load_with_end(run)?.unzip();
        let stamp = self.next_stamp(log.as_deref().map_or(0, RunLog::highest_stamp))?;
        let empty = RunLog::default();
        let state = log.as_deref().unwrap_or(&empty);
        let (view, base) = (state.view(stamp), state.base(end.unwrap_or_default()));
        match decide(&view) {
            WriteDecision::NoChange => Ok(Receipt::default()),
            WriteDecision::NeedDetails => Err(StoreError::Rules(DETAILS_WERE_SHOWN)),
            WriteDecision::Commit(commit) => self.commit(run, log, &base, &view, *commit),
        }
    }

    fn run(&self, run: &RunId) -> Result<Option<StoredRun>, StoreError> {
        Ok(self.load(run)?.map(|log| StoredRun {
            row: log.run_row(run),
            items: log.items.iter().cloned().collect(),
            damaged: Vec::new(),
        }))
    }

    fn runs(&self, query: &RunQuery<'_>) -> Result<Vec<RunRow>, StoreError> {
        let mut logs = self.load_all()?;
        logs.retain(|(_, log)| {
            query.before.is_none_or(|before| log.highest_stamp() < before) && query.lists(log.record.as_ref())
        });
        logs.sort_by_key(|(_, log)| std::cmp::Reverse(log.highest_stamp()));
        if query.limit > 0 {
            logs.truncate(query.limit);
        }
        Ok(logs.iter().map(|(run, log)| log.run_row(run)).collect())
    }

    fn headers(&self, query: &HeaderQuery<'_>) -> Result<Vec<Row>, StoreError> {
        self.list(query)
    }

    fn body(&self, run: &RunId, sequence: u64) -> Result<Vec<u8>, StoreError> {
        let mut log: Arc<RunLog> = self.load(run)?.ok_or_else(|| StoreError::NoRun(run.clone()))?;
        let mut document = self.document(run, &log, sequence);
        if matches!(document, Err(Unread::Gone)) {
            // The document may have been dropped or compressed since the log was read.
            log = self.load(run)?.ok_or_else(|| StoreError::NoRun(run.clone()))?;
            document = self.document(run, &log, sequence);
        }
        match document {
            Ok(Some(bytes)) => {
                self.repair_latest(run, &log, sequence, &bytes);
                Ok(bytes)
            }
            Ok(None) => Err(StoreError::NoCheckpoint(run.clone(), sequence)),
            Err(Unread::Gone) => {
                let header = log.entries.get(&sequence).map(|live| &live.entry.header);
                let expected = header.map(|h| h.checksum.clone()).unwrap_or_default();
                let id = header.map(|h| h.snapshot_id.clone());
                Err(Damage::integrity(Part::Body, expected, "no file")
                    .at(Some(run), Some(sequence))
                    .named(id)
                    .into())
            }
            Err(Unread::Damaged(damage)) => Err(StoreError::Damaged(damage)),
            Err(Unread::Io(path, e)) => Err(read_error(&path, e)),
        }
    }

    fn events(&self, query: &EventQuery<'_>) -> Result<EventPage, StoreError> {
        let (mut page, mut events) = (EventPage::default(), Vec::new());
        let after = query.after_position();
        for (run, log) in &self.load_queried(query.run)? {
            events.extend(log.events.iter().filter(|(at, _)| *at > after).cloned());
            page.damaged.extend(attachments::lost_lines(run, log));
        }
        events.sort_by_key(|(at, _)| *at);
        if query.limit > 0 && events.len() > query.limit {
            events.drain(..events.len() - query.limit);
        }
        page.events = events.into_iter().map(|(at, event)| (EventCursor::at(at), event)).collect();
        Ok(page)
    }

    fn messages(&self, run: &RunId) -> Result<Vec<Result<Message, Damage>>, StoreError> {
        let Some(log) = self.load(run)? else { return Ok(Vec::new()) };
        Ok(log.messages.iter().cloned().map(Ok).collect())
    }

    fn attachments(
        &self,
        run: &RunId,
        checkpoint: Option<&str>,
    ) -> Result<Vec<Result<Attachment, Damage>>, StoreError> {
        Ok(self.load(run)?.map_or_else(Vec::new, |log| attachments::read(run, &log, checkpoint)))
    }

    fn retention_entries(&self, run: &RunId, _: Option<u64>) -> Result<Vec<RetentionEntry>, StoreError> {
        let history = self.history(run);
        let Some(log) = self.load(run)? else { return Ok(Vec::new()) };
        let outline = |live: &state::Live| RetentionEntry {
            bytes: history.weight(live),
            packed: live.gz.is_some(),
            ..RetentionEntry::of(&live.entry)
        };
        Ok(log.entries.values().map(outline).collect())
    }

    fn put_blobs(&self, contents: &[&[u8]]) -> Result<(), StoreError> {
        self.write_blobs(contents)
    }

    fn missing_blobs(&self, ids: &[BlobId]) -> Result<Vec<BlobId>, StoreError> {
        Ok(self.find_missing_blobs(ids))
    }

    fn blob(&self, id: &BlobId) -> Result<Vec<u8>, StoreError> {
        self.read_blob(id)
    }

    fn blobs(&self, after: Option<&BlobId>, limit: usize) -> Result<Vec<BlobEntry>, StoreError> {
        self.list_blobs(after, limit)
    }

    fn blob_bytes(&self) -> Result<u64, StoreError> {
        self.total_blob_bytes()
    }

    fn blob_roots(&self) -> Result<Vec<(String, BlobId)>, StoreError> {
        self.intact_roots()
    }

    fn collect_blobs(&self, find_live: &mut FindLiveBlobs<'_>) -> Result<CollectReport, StoreError> {
        self.collect(find_live)
    }

    fn delete_run(&self, run: &RunId, only_at: Option<u64>) -> Result<bool, StoreError> {
        let _lock = self.acquire()?;
        self.remove_run(run, only_at)
    }

    fn maintain(&self, what: Maintenance<'_>) -> Result<MaintenanceReport, StoreError> {
        self.run_maintenance(what)
    }

    fn info(&self) -> Result<StoreInfo, StoreError> {
        let bytes = size_of_tree(&self.root).map_err(|e| read_error(&self.root, e))?;
        // The index for searches is not part of the store.
        let index = |suffix: &str| self.root.join(OWN_FOLDER).join(format!("search{suffix}"));
        let index_bytes = ["", "-wal", "-shm", "-journal"].map(|suffix| fs::metadata(index(suffix)));
        let bytes = index_bytes.iter().flatten().fold(bytes, |bytes, meta| bytes.saturating_sub(meta.len()));
        Ok(StoreInfo::new(format!("files:{}", self.root.display()), bytes))
    }
}

/// Total size of all files under `folder`. Skips files that are removed in the meantime.
fn size_of_tree(folder: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let Ok(meta) = entry.metadata() else { continue };
        bytes += if meta.is_dir() { size_of_tree(&entry.path()).unwrap_or(0) } else { meta.len() };
    }
    Ok(bytes)
}
