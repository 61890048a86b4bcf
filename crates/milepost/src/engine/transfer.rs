//! Copy: copies every run, checkpoint, mark, message, attachment and event from one store to another, with
//! documents and seals unchanged. Skips checkpoints that already exist, so an interrupted copy can be continued. Stops at a
//! checkpoint that exists with different content.

use derive_getters::Getters;
use std::collections::{BTreeMap, BTreeSet};
use std::iter::Peekable;

use super::Milepost;
use crate::Error;
use crate::model::{Event, Item, Marks, Message, RunId, RunOrigin, RunRecord};
use crate::seal::{self, Verified};
use crate::store::{
    CheckpointEntry, Commit, EventQuery, HeaderQuery, MESSAGES_PER_COMMIT, Row, RunQuery, RunRow, StoreError,
    WriteDecision,
};

/// Maximum number of checkpoints in one transaction, and of rows read at a time.
const BATCH: usize = 64;

/// Number of checkpoints that were copied, and that already existed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct CopyProgress {
    pub(crate) copied: u64,
    pub(crate) unchanged: u64,
}

/// The result of a copy.
#[derive(Getters, Debug, Default)]
pub struct CopyReport {
    #[getter(skip)]
    pub(crate) count: CopyProgress,
    /// Number of runs examined.
    pub(crate) runs: u64,
    /// Runs whose record or one of whose checkpoints could not be copied, and why.
    pub(crate) skipped: Vec<(String, String)>,
    /// Number of file contents that were copied.
    pub(crate) files: u64,
    /// Number of file contents that were not copied because they contain secrets.
    pub(crate) files_with_secrets: u64,
}

impl CopyReport {
    /// Number of checkpoints that were copied.
    pub fn copied(&self) -> u64 {
        self.count.copied
    }

    /// Number of checkpoints that already existed.
    pub fn unchanged(&self) -> u64 {
        self.count.unchanged
    }
}

/// The result of comparing two stores.
#[derive(Getters, Debug, Default)]
pub struct CompareReport {
    /// Number of checkpoints compared.
    pub(crate) checked: u64,
    /// The differences: the run or checkpoint, and what differs.
    pub(crate) differences: Vec<(String, String)>,
}

/// A run to copy, and its remaining checkpoints, oldest first.
struct RunReader<R: Iterator> {
    record: RunRecord,
    rows: Peekable<R>,
}

/// The stamp of a row; 0 for an error, so that errors come first.
fn stamp(row: &Result<Row, StoreError>) -> u64 {
    row.as_ref().map_or(0, |row| row.cursor().stamp)
}

impl Milepost {
    /// Copies everything to another store that the caller also trusts, in the order it was written.
    pub fn copy_to(&self, to: &Milepost, progress: &mut dyn FnMut(u64)) -> Result<CopyReport, Error> {
        self.copy_with_origin(to, None, progress)
    }

    /// Copies everything to another store. Runs without an origin get `origin`.
    #[cfg_attr(feature = "internal", visibility::make(pub))]
    pub(crate) fn copy_with_origin(
        &self,
        to: &Milepost,
        origin: Option<&RunOrigin>,
        progress: &mut dyn FnMut(u64),
    ) -> Result<CopyReport, Error> {
        let mut report = CopyReport::default();
        let mut rows = self.store.runs(&RunQuery::default())?;
        rows.reverse();
        let mut readers = Vec::new();
        for row in &rows {
            report.runs += 1;
            match &row.record {
                Ok(record) => {
                    let mut record = portable(record);
                    record.origin = record.origin.or_else(|| origin.cloned());
                    record.project_id = record.project_id.or_else(|| to.location.project_id.clone());
                    readers.push(RunReader { record, rows: self.rows_of(&row.run_id).peekable() });
                }
                Err(damage) => report.skipped.push((row.run_id.to_string(), damage.to_string())),
            }
        }
        // Copy in write order across all runs: always take the remaining checkpoint that was written first.
        let mut queue = BTreeSet::new();
        for (at, reader) in readers.iter_mut().enumerate() {
            queue.extend(reader.rows.peek().map(|row| (stamp(row), at)));
        }
        let mut seen = 0;
        while let Some((_, at)) = queue.pop_first() {
            let until = queue.first().map_or(u64::MAX, |(stamp, _)| *stamp);
            let mut batch = Vec::new();
            let reader = &mut readers[at];
            while batch.len() < BATCH
                && let Some(row) = reader.rows.next_if(|row| stamp(row) <= until)
            {
                seen += 1;
                progress(seen);
                match self.read_row(row?) {
                    Ok(read) => batch.extend(read.map(|(entry, verified)| (verified, entry.marks))),
                    Err(e @ (Error::Damaged(_) | Error::Newer { .. })) => {
                        report.skipped.push((reader.record.run_id.to_string(), e.to_string()));
                    }
                    Err(e) => return Err(e),
                }
            }
            queue.extend(reader.rows.peek().map(|row| (stamp(row), at)));
            to.copy_checkpoints(&reader.record, batch, &mut report.count)?;
        }
        // Run records come last, in the order the runs were written.
        for RunReader { record, .. } in &readers {
            let items = self.items_of(&record.run_id)?;
            to.copy_run_record(record, items, self.events_of(&record.run_id)?)?;
            to.copy_messages(&record.run_id, &self.messages_of(&record.run_id)?)?;
            let skipped = self.copy_attachments_to(to, &record.run_id)?;
            if skipped > 0 {
                let why = format!("attachments whose blob cannot be read: {skipped}");
                report.skipped.push((record.run_id.to_string(), why));
            }
        }
        self.copy_files(to, &mut report)?;
        Ok(report)
    }

    fn rows_of<'a>(&'a self, run: &'a RunId) -> impl Iterator<Item = Result<Row, StoreError>> + 'a {
        self.rows(HeaderQuery::default().run(run).oldest_first(true), BATCH)
    }

    /// The pending items of a run.
    fn items_of(&self, run: &RunId) -> Result<Vec<Item>, Error> {
        Ok(self.store.run(run)?.map(|state| state.items).unwrap_or_default())
    }

    /// Adds checkpoints unchanged, each under its own sequence number.
    pub(super) fn copy_checkpoints(
        &self,
        record: &RunRecord,
        batch: Vec<(Verified, Marks)>,
        count: &mut CopyProgress,
    ) -> Result<(), Error> {
        let run = &record.run_id;
        let mut fresh = Vec::new();
        for (verified, marks) in batch {
            let body = verified.body().map_err(|e| validation_error(&e))?;
            match self.row_at(run, body.sequence)? {
                Some(Row::Intact(there)) if there.header.checksum == verified.checksum() => {
                    count.unchanged += 1;
                    if there.marks != marks && marks.revision > there.marks.revision {
                        self.mark_as(record, body.sequence, marks)?;
                    }
                }
                Some(_) => {
                    let reference = format!("{run}@{}", body.sequence);
                    return Err(Error::Conflict { reference });
                }
                None => fresh.push((body.sequence, verified, marks)),
            }
        }
        if fresh.is_empty() {
            return Ok(());
        }
        let mut failed = None;
        self.write(run, &mut |view| {
            failed = None;
            let mut there_record = view.record.clone().unwrap_or_else(|| record.clone());
            // A local run that receives checkpoints from elsewhere becomes foreign.
            there_record.origin = there_record.origin.or_else(|| record.origin.clone());
            let mut commit = Commit::new(there_record);
            let mut slot = view.slot.clone();
            for (sequence, verified, marks) in &fresh {
                let placed = slot.at_sequence(*sequence);
                let sealed = placed.as_ref().and_then(|slot| verified.clone().into_sealed(slot).ok());
                let (Some(placed), Some(sealed)) = (placed, sealed) else {
                    // The run in this store already has later checkpoints.
                    failed = Some(format!("{run}@{sequence}"));
                    return WriteDecision::NoChange;
                };
                if *marks != Marks::default() {
                    commit.marks.push((*sequence, marks.clone()));
                }
                commit.puts.push(sealed);
                slot = placed.next();
            }
            WriteDecision::Commit(Box::new(commit))
        })?;
        if let Some(reference) = failed {
            return Err(Error::Conflict { reference });
        }
        count.copied += fresh.len() as u64;
        Ok(())
    }

    pub(super) fn mark_as(&self, record: &RunRecord, sequence: u64, marks: Marks) -> Result<(), Error> {
        self.write(&record.run_id, &mut |view| {
            let mut commit = Commit::new(view.record.clone().unwrap_or_else(|| record.clone()));
            commit.marks.push((sequence, marks.clone()));
            WriteDecision::Commit(Box::new(commit))
        })?;
        Ok(())
    }

    /// Copies a run's record, its pending items and its events, unless they were copied before.
    pub(super) fn copy_run_record(
        &self,
        record: &RunRecord,
        items: Vec<Item>,
        events: Vec<Event>,
    ) -> Result<(), Error> {
        let run = &record.run_id;
        let there = self.store.run(run)?;
        let known = self.store.events(&EventQuery::default().run(run).limit(1))?;
        let settled = there.as_ref().is_some_and(|state| {
            values(&state.items) == values(&items)
                && state.row.record.as_ref().is_ok_and(|there| same(there, record))
        });
        if settled && (events.is_empty() || !known.events.is_empty()) {
            return Ok(());
        }
        let with_events = known.events.is_empty();
        self.write(run, &mut |view| {
            let Some(details) = &view.details else { return WriteDecision::NeedDetails };
            let mut record = record.clone();
            let before = view.record.as_ref().and_then(|before| before.origin.clone());
            record.origin = before.or(record.origin);
            let mut commit = Commit::new(record);
            commit.consume = details.items.len();
            commit.push.clone_from(&items);
            if with_events {
                commit.events.clone_from(&events);
            }
            WriteDecision::Commit(Box::new(commit))
        })?;
        Ok(())
    }

    /// The readable messages of a run.
    pub(super) fn messages_of(&self, run: &RunId) -> Result<Vec<Message>, Error> {
        Ok(self.store.messages(run)?.into_iter().filter_map(Result::ok).collect())
    }

    /// Adds the messages that the run in this store does not have yet. The run must exist.
    pub(super) fn copy_messages(&self, run: &RunId, messages: &[Message]) -> Result<(), Error> {
        let known = self.messages_of(run)?;
        let new: Vec<_> = messages.iter().filter(|message| !known.contains(message)).cloned().collect();
        for batch in new.chunks(MESSAGES_PER_COMMIT) {
            self.write(run, &mut |view| {
                let Some(record) = &view.record else { return WriteDecision::NoChange };
                let mut commit = Commit::new(record.clone());
                commit.messages = batch.to_vec();
                WriteDecision::Commit(Box::new(commit))
            })?;
        }
        Ok(())
    }

    /// Compares all runs and checkpoints with those of another store.
    #[cfg_attr(feature = "internal", visibility::make(pub))]
    pub(crate) fn compare_with(
        &self,
        other: &Milepost,
        progress: &mut dyn FnMut(u64),
    ) -> Result<CompareReport, Error> {
        let mut report = CompareReport::default();
        let ours = self.store.runs(&RunQuery::default())?;
        let theirs: BTreeMap<RunId, RunRow> = other
            .store
            .runs(&RunQuery::default())?
            .into_iter()
            .map(|row| (row.run_id.clone(), row))
            .collect();
        for row in &ours {
            let mut differ = |subject: String, how: &str| report.differences.push((subject, how.to_owned()));
            let name = row.run_id.to_string();
            let Some(there) = theirs.get(&row.run_id) else {
                differ(name, "is missing from the other store");
                continue;
            };
            match (&row.record, &there.record) {
                (Ok(a), Ok(b)) if same(a, b) => {}
                (Err(_), _) => differ(name.clone(), "its record is damaged in this store"),
                _ => differ(name.clone(), "the record differs"),
            }
            if row.count != there.count {
                differ(
                    name.clone(),
                    &format!("{} checkpoints in this store, {} in the other", row.count, there.count),
                );
            }
            if values(&self.events_of(&row.run_id)?) != values(&other.events_of(&row.run_id)?) {
                differ(name.clone(), "the events differ");
            }
            if values(&self.items_of(&row.run_id)?) != values(&other.items_of(&row.run_id)?) {
                differ(name.clone(), "the pending items differ");
            }
            if self.messages_of(&row.run_id)? != other.messages_of(&row.run_id)? {
                differ(name.clone(), "the messages differ");
            }
            if self.attachments_of(&row.run_id)? != other.attachments_of(&row.run_id)? {
                differ(name.clone(), "the attachments differ");
            }
            self.compare_run(other, &row.run_id, &mut report, progress)?;
        }
        for run in theirs.keys().filter(|run| !ours.iter().any(|row| row.run_id == **run)) {
            report.differences.push((run.to_string(), "exists only in the other store".into()));
        }
        Ok(report)
    }

    fn compare_run(
        &self,
        other: &Milepost,
        run: &RunId,
        report: &mut CompareReport,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(), Error> {
        for row in self.rows_of(run) {
            let row = row?;
            let sequence = row.cursor().sequence;
            let mut differ =
                |how: &str| report.differences.push((format!("{run}@{sequence}"), how.to_owned()));
            let (entry, document) = match self.read_row(row) {
                Ok(Some(read)) => read,
                // Removed since it was listed: treat it as removed before the comparison began.
                Ok(None) => continue,
                Err(Error::Damaged(_)) => {
                    report.checked += 1;
                    differ("is damaged in this store");
                    continue;
                }
                Err(e) => return Err(e),
            };
            report.checked += 1;
            progress(report.checked);
            let (there, copy) = match other.row_at(run, sequence)?.map(|row| other.read_row(row)) {
                Some(Ok(Some(read))) => read,
                Some(Err(Error::Damaged(_))) => {
                    differ("is damaged in the other store");
                    continue;
                }
                Some(Err(e)) => return Err(e),
                None | Some(Ok(None)) => {
                    differ("is missing from the other store");
                    continue;
                }
            };
            if header(&entry) != header(&there) {
                differ("the header differs");
            }
            if entry.marks != there.marks {
                differ("the marks differ");
            }
            if document.bytes() != copy.bytes() {
                differ("the document differs");
            }
        }
        Ok(())
    }
}

/// A header without its stamp, which is specific to one store.
fn header(entry: &CheckpointEntry) -> crate::seal::Header {
    crate::seal::Header { stamp: 0, ..entry.header.clone() }
}

/// A record without the fields that are meaningful only in its own store.
pub(super) fn portable(record: &RunRecord) -> RunRecord {
    RunRecord { maintenance: None, sync: None, ..record.clone() }
}

/// Whether two records have the same content, regardless of their origin, of their project and of JSON whitespace.
fn same(a: &RunRecord, b: &RunRecord) -> bool {
    let plain = |record: &RunRecord| RunRecord { origin: None, project_id: None, ..portable(record) };
    values(&plain(a)) == values(&plain(b))
}

fn values<T: serde::Serialize>(value: &T) -> Option<serde_json::Value> {
    serde_json::to_value(value).ok()
}

/// Converts a seal error to an error of the input.
pub(super) fn validation_error(e: &seal::SealError) -> crate::model::ValidationError {
    crate::model::ValidationError::document(e.to_string())
}
