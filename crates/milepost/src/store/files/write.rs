//! Writes commits: the roots and documents, then one line in the log, then `latest.json`. Then removes dropped files.
//! A commit becomes durable completely or not at all. The caller must hold the lock.
//! Steps after the log line may fail: `latest.json` is derived, and `Repair` removes leftover files.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::attachments::ATTACHMENTS_PER_LINE;
use super::cache::LOG_LIMIT;
use super::history::{self, History, NotAppended};
use super::log::{Change, Totals, line};
use super::opener::OWN_FOLDER;
use super::state::{RowRef, RunLog};
use super::tail::{Base, Tail};
use super::{FilesStore, read_error};
use crate::fs::atomic::{self, Mode};
use crate::model::{BlobId, CheckpointId, RunId, RunRecord};
use crate::seal::{Sealed, Verified};
use crate::store::{
    CheckpointFilter, Commit, CommitLookup, HeaderQuery, Receipt, RunView, Store, StoreError,
};

/// A log is compacted if it has more lines than this, in addition to two per live checkpoint. Few, because a save that
/// removes a checkpoint replays the log.
const SPARE_LINES: u64 = 64;
/// A save that does not replay the log checks every so many lines whether it must be compacted.
const COMPACTION_CHECK: u64 = 256;
/// A log larger than this, in bytes, is compacted much earlier.
const LONG_LOG: u64 = 8 << 20;
/// Number of event positions per stamp.
const EVENTS_PER_STAMP: u64 = 256;
/// Number of events, and of messages, per line in a rewritten log.
const EVENTS_PER_LINE: usize = 50;
const MESSAGES_PER_LINE: usize = 8;

impl FilesStore {
    /// Validates and applies a commit to a replayed log; `None` for a new run.
    pub(super) fn commit(
        &self,
        run: &RunId,
        log: Option<Arc<RunLog>>,
        base: &Base,
        view: &RunView,
        commit: Commit,
    ) -> Result<Receipt, StoreError> {
        let empty = RunLog::default();
        let state = log.as_deref().unwrap_or(&empty);
        commit.validate(run, view, &FileLookup::new(self, run, state, view, &commit))?;
        let dropped = dropped_ids(state, &commit);
        let newest = state.newest().map(|row| row.cursor().sequence);
        let drops_newest = newest.is_some_and(|newest| commit.drops.contains(&newest));
        let receipt = self.apply(run, base, view, commit, &dropped, drops_newest)?;
        // Drop this reference, so that the cached log can be extended without a copy.
        drop(log);
        self.compact_if_long(run);
        Ok(receipt)
    }

    /// Validates and applies a commit for which the end of the log is sufficient.
    pub(super) fn commit_to_tail(
        &self,
        run: &RunId,
        tail: &Tail,
        view: &RunView,
        commit: Commit,
    ) -> Result<Receipt, StoreError> {
        commit.validate(run, view, &FileLookup::new(self, run, &tail.newest_alone(), view, &commit))?;
        let receipt = self.apply(run, &tail.base, view, commit, &[], false)?;
        if tail.base.n.is_multiple_of(COMPACTION_CHECK) {
            self.compact_if_long(run);
        }
        Ok(receipt)
    }

    /// Applies a valid commit. `dropped` are the ids of the documents that it removes.
    fn apply(
        &self,
        run: &RunId,
        base: &Base,
        view: &RunView,
        commit: Commit,
        dropped: &[CheckpointId],
        drops_newest: bool,
    ) -> Result<Receipt, StoreError> {
        let history = self.history(run);
        let first = view.slot.stamp();
        let stamps = (commit.puts.len() as u64).max(1 + commit.events.len() as u64 / EVENTS_PER_STAMP);
        let mut change = Change { n: base.n, stamp: first + stamps - 1, ..Change::default() };
        // Sequences that lost lines used must not be reused after a repair.
        change.last = commit.puts.last().map_or(view.slot.sequence() - 1, |put| put.header().sequence);
        change.puts = commit.puts.iter().map(|put| put.header().clone()).collect();
        for (header, stamp) in change.puts.iter_mut().zip(first..) {
            header.stamp = stamp;
        }
        change.marks = commit.marks;
        change.drops = commit.drops;
        change.consume = commit.consume;
        change.push = commit.push;
        change.messages = commit.messages;
        change.attachments = commit.attachments;
        change.detach = commit.detach;
        change.events = (first * EVENTS_PER_STAMP..).zip(commit.events).collect();
        change.totals = Some(Totals {
            checkpoints: (base.totals.checkpoints + change.puts.len() as u64)
                .saturating_sub(dropped.len() as u64),
            items: base.totals.items.saturating_sub(change.consume as u64) + change.push.len() as u64,
        });

        let fresh = !history.folder().exists();
        let result = self.reserve(change.stamp).and_then(|()| {
            // If the commit fails after this, a root keeps a blob longer than necessary, which is harmless.
            if !commit.roots.is_empty() {
                self.change_roots(|roots| roots.by_name.extend(commit.roots.iter().cloned()))?;
            }
            self.put_documents(&history, &commit.puts)?;
            self.append(run, &change, Some(&commit.record), base)
        });
        if let Err(error) = result {
            if !matches!(error, StoreError::NotAcknowledged { .. }) {
                for put in &commit.puts {
                    history.remove(&put.header().snapshot_id);
                }
                if fresh {
                    // Only empty folders are removed.
                    let _ =
                        fs::remove_dir(history.documents()).and_then(|()| fs::remove_dir(history.folder()));
                }
            }
            return Err(error);
        }

        // The commit is acknowledged from here on.
        let newest = commit.puts.last().filter(|put| !change.drops.contains(&put.header().sequence));
        match newest {
            Some(put) => {
                let _ = atomic::write_derived(&history.latest(), put.bytes());
            }
            None if drops_newest || !commit.puts.is_empty() => self.refresh_latest(run),
            None => {}
        }
        let left = history.remove_all(dropped);
        self.ids_of_documents().note(first, change.stamp, &change.puts);
        Ok(Receipt { file: newest.map(|put| history.plain(&put.header().snapshot_id)), left })
    }

    /// Writes the documents durably.
    fn put_documents(&self, history: &History, puts: &[crate::seal::Sealed]) -> Result<(), StoreError> {
        let folder = history.documents();
        atomic::create_folder(&folder).map_err(|e| self.write_error(&folder, e))?;
        for put in puts {
            let path = history.plain(&put.header().snapshot_id);
            // A compressed file left by a failed attempt could be mistaken for this document.
            history::remove(&history.compressed(&put.header().snapshot_id));
            atomic::write_without_folder_sync(&path, put.bytes(), Mode::Private)
                .map_err(|e| self.write_error(&path, e))?;
        }
        if puts.is_empty() {
            return Ok(());
        }
        atomic::sync_folder(&folder).map_err(|e| self.write_error(&folder, e))
    }

    /// Appends one line to the log, which is the commit point.
    pub(super) fn append(
        &self,
        run: &RunId,
        change: &Change,
        record: Option<&RunRecord>,
        base: &Base,
    ) -> Result<(), StoreError> {
        let path = self.history(run).log();
        let mut bytes = line(run, change, record, base.previous.as_ref())
            .map_err(|e| self.write_error(&path, e.into()))?;
        let end = base.end;
        if end.open {
            bytes.insert(0, b'\n');
        }
        self.check_log_size(&path, end.at + bytes.len() as u64)?;
        history::append(&path, end.at, &bytes).map_err(|e| match e {
            NotAppended::Unchanged(e) => self.write_error(&path, e),
            NotAppended::NotSynced(e) => StoreError::NotAcknowledged {
                location: path.display().to_string(),
                may_appear: change.puts.iter().map(|header| header.snapshot_id.clone()).collect(),
                source: e.into(),
            },
        })
    }

    /// Refuses to make a log so large that it could not be read again.
    fn check_log_size(&self, path: &Path, size: u64) -> Result<(), StoreError> {
        if size <= LOG_LIMIT {
            return Ok(());
        }
        let why = format!("the log of the run would be larger than {LOG_LIMIT} bytes");
        Err(self.write_error(path, io::Error::new(io::ErrorKind::FileTooLarge, why)))
    }

    /// Copies the newest document to `latest.json` if it is intact. Removes the file if there are no
    /// checkpoints. Best effort.
    pub(super) fn refresh_latest(&self, run: &RunId) {
        let history = self.history(run);
        let Ok(Some(log)) = self.load(run) else { return };
        match log.newest() {
            Some(RowRef::Live(live)) => {
                let bytes = history.bytes(run, live).ok();
                let intact = bytes.and_then(|bytes| Verified::read(bytes, &live.entry.header).ok());
                if let Some(intact) = intact {
                    let _ = atomic::write_derived(&history.latest(), intact.bytes());
                }
            }
            Some(RowRef::Unexplained(_)) => {}
            None => {
                history::remove(&history.latest());
            }
        }
    }

    fn compact_if_long(&self, run: &RunId) {
        let Ok(Some((log, end))) = self.load_with_end(run) else { return };
        let spare = log.lines.saturating_sub(2 * log.entries.len() as u64 + list_lines(&log) as u64);
        if spare > SPARE_LINES || (end.at > LONG_LOG && spare > SPARE_LINES / 8) {
            // On failure the old log stays valid, and the next writer tries again.
            let _ = self.compact(run, &log);
        }
    }

    /// Rewrites a log without obsolete lines, and returns the number of bytes freed. Skips damaged logs,
    /// which need `Repair`.
    pub(super) fn compact(&self, run: &RunId, log: &RunLog) -> Result<u64, StoreError> {
        // The number of lines that `rewrite` produces. A log of this size cannot shrink.
        let fewest = log.entries.len() + list_lines(log) + 2;
        if log.bad > 0 || log.lost > 0 || log.record.is_none() || log.lines <= fewest as u64 {
            return Ok(0);
        }
        self.rewrite(run, log, log.record.as_ref())
    }

    /// Replaces a log with one that has the same content in fewer lines. Each checkpoint has its own line, to
    /// limit the effect of damage.
    pub(super) fn rewrite(
        &self,
        run: &RunId,
        log: &RunLog,
        record: Option<&RunRecord>,
    ) -> Result<u64, StoreError> {
        let path = self.history(run).log();
        let mut changes: Vec<Change> = Vec::new();
        for live in log.entries.values() {
            let header = live.entry.header.clone();
            changes.push(Change {
                marks: vec![(header.sequence, live.entry.marks.clone())],
                gz: live.gz.iter().map(|check| (header.sequence, check.clone())).collect(),
                puts: vec![header],
                ..Change::default()
            });
        }
        let events: Vec<_> = log.events.iter().cloned().collect();
        changes.extend(
            events.chunks(EVENTS_PER_LINE).map(|c| Change { events: c.to_vec(), ..Change::default() }),
        );
        changes.extend(
            log.messages
                .chunks(MESSAGES_PER_LINE)
                .map(|c| Change { messages: c.to_vec(), ..Change::default() }),
        );
        let attachments: Vec<_> = log.attachments.list(None).into_iter().cloned().collect();
        changes.extend(
            attachments
                .chunks(ATTACHMENTS_PER_LINE)
                .map(|c| Change { attachments: c.to_vec(), ..Change::default() }),
        );
        changes.push(Change { push: log.items.iter().cloned().collect(), ..Change::default() });
        // The last line repeats the line before it and adds only the record.
        changes.push(Change::default());
        let count = changes.len();
        let (mut bytes, mut previous) = (Vec::new(), None::<Change>);
        for (i, mut change) in changes.into_iter().enumerate() {
            change.n = i as u64 + 1;
            change.stamp = log.stamp;
            change.last = log.last_sequence;
            change.totals = (i + 1 == count).then(|| log.totals());
            let record = record.filter(|_| i + 1 == count);
            let line = line(run, &change, record, previous.as_ref())
                .map_err(|e| self.write_error(&path, e.into()))?;
            bytes.extend_from_slice(&line);
            previous = Some(change);
        }
        self.check_log_size(&path, bytes.len() as u64)?;
        let before = fs::metadata(&path).map_or(0, |meta| meta.len());
        atomic::write(&path, &bytes, Mode::Private).map_err(|e| self.write_error(&path, e))?;
        if log.bad == 0 && log.lost == 0 {
            self.remember(run, log.written_anew(previous), &bytes);
        }
        Ok(before.saturating_sub(bytes.len() as u64))
    }

    /// Moves a run's folder into the trash in one step, then deletes it.
    pub(super) fn remove_run(&self, run: &RunId, only_at: Option<u64>) -> Result<bool, StoreError> {
        let Some(log) = self.load(run)? else { return Ok(false) };
        if only_at.is_some_and(|stamp| stamp != log.highest_stamp()) {
            return Ok(false);
        }
        let stamp = self.next_stamp(log.highest_stamp())?;
        self.raise_floor(stamp)?;
        self.reserve(stamp)?;
        let (folder, own) = (self.history(run).folder().to_owned(), self.root.join(OWN_FOLDER));
        let trash: PathBuf = own.join(format!("trash-{run}-{stamp}"));
        fs::rename(&folder, &trash).map_err(|e| self.write_error(&folder, e))?;
        for synced in [&self.root, &own] {
            atomic::sync_folder(synced).map_err(|e| read_error(synced, e))?;
        }
        self.runs.lock().unwrap_or_else(|e| e.into_inner()).remove(run);
        let _ = fs::remove_dir_all(&trash);
        Ok(true)
    }
}

/// Number of lines that events, messages and attachments take in a rewritten log.
fn list_lines(log: &RunLog) -> usize {
    log.events.len().div_ceil(EVENTS_PER_LINE)
        + log.messages.len().div_ceil(MESSAGES_PER_LINE)
        + log.attachments.len().div_ceil(ATTACHMENTS_PER_LINE)
}

/// The lookups that `Commit::validate` needs, in a store of files.
struct FileLookup<'a> {
    store: &'a FilesStore,
    run: &'a RunId,
    log: &'a RunLog,
    /// The last stamp before the commit.
    last_stamp: u64,
    generated_ids: bool,
}

impl<'a> FileLookup<'a> {
    fn new(store: &'a FilesStore, run: &'a RunId, log: &'a RunLog, view: &RunView, commit: &Commit) -> Self {
        let last_stamp = view.slot.stamp() - 1;
        Self { store, run, log, last_stamp, generated_ids: commit.generated_ids }
    }
}

impl CommitLookup for FileLookup<'_> {
    fn marks_revision(&self, sequence: u64) -> Result<Option<u64>, StoreError> {
        let revision = self.log.entries.get(&sequence).map(|live| live.entry.marks.revision);
        Ok(revision.filter(|revision| *revision > 0))
    }

    fn find_taken_id(&self, ids: &[&CheckpointId]) -> Result<Option<CheckpointId>, StoreError> {
        if self.generated_ids {
            return Ok(None);
        }
        let rows = self.log.rows();
        let ids_of_run: HashSet<&CheckpointId> = rows.iter().map(RowRef::id).collect();
        for id in ids {
            if ids_of_run.contains(*id) {
                return Ok(Some((*id).clone()));
            }
            for other in self.store.runs_with_document(id, self.last_stamp)? {
                // A file that is not in the log may be left over from a crash.
                let log = if other == *self.run { None } else { self.store.load(&other)? };
                if log.is_some_and(|log| log.rows().iter().any(|row| row.id() == *id)) {
                    return Ok(Some((*id).clone()));
                }
            }
        }
        Ok(None)
    }

    fn is_name_taken(&self, name: &str) -> Result<bool, StoreError> {
        let is_taken = |find| -> Result<bool, StoreError> {
            let query = HeaderQuery::default().find(find).limit(1);
            Ok(!self.store.headers(&query)?.is_empty())
        };
        Ok(is_taken(CheckpointFilter::Id(name))? || is_taken(CheckpointFilter::Name(name))?)
    }

    fn find_missing_blobs(&self, ids: &[BlobId]) -> Result<Vec<BlobId>, StoreError> {
        Ok(self.store.find_missing_blobs(ids))
    }
}

/// The ids of the documents that a commit drops, of which some may be its own.
fn dropped_ids(state: &RunLog, commit: &Commit) -> Vec<CheckpointId> {
    let put = |sequence: u64| {
        let headers = commit.puts.iter().map(Sealed::header);
        headers.into_iter().find(|header| header.sequence == sequence).map(|h| h.snapshot_id.clone())
    };
    let live = |sequence| state.entries.get(&sequence).map(|live| live.entry.header.snapshot_id.clone());
    let lost = |sequence| {
        let found = state.unexplained.iter().find(|found| found.sequence() == Some(sequence));
        found.map(|found| found.id.clone())
    };
    commit.drops.iter().filter_map(|s| live(*s).or_else(|| put(*s)).or_else(|| lost(*s))).collect()
}
