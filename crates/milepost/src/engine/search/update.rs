//! Brings an index up to date: finds the runs that were written since, reads their new checkpoints, messages and
//! pending items, redacts them and adds them in batches. A batch is one transaction.

use std::collections::{HashMap, HashSet};

use jiff::Timestamp;

use super::slot::{Access, OpenSlot};
use super::{Failure, Milepost};
use crate::Error;
use crate::model::{Body, Message, RunId, RunRecord};
use crate::parallel;
use crate::redact::{AllowList, without_cut_word};
use crate::seal::Header;
use crate::search::document::{self, Document};
use crate::search::index::{IndexedRun, PreparedRun, RunUpdate, SearchIndex};
use crate::store::{CheckpointEntry, Cursor, HeaderQuery, Row, RunQuery, RunRow, StoredRun};

/// Number of checkpoints in a batch.
const BATCH: usize = 512;
/// Number of runs that are listed at a time to find those that changed.
const RUNS: usize = 32;
/// Maximum number of bytes of a text that are redacted.
const MAX_TEXT: usize = 1 << 20;
/// Maximum number of redacted texts that are remembered while runs are read.
const REMEMBERED: usize = 50_000;

/// The runs of the store, if all of them were listed.
pub(super) enum Listing {
    /// All runs, by id.
    Complete(HashMap<RunId, RunRow>),
    /// Only those that changed.
    Newest,
}

/// The result of an update.
pub(super) struct Updated {
    pub(super) listing: Listing,
    /// Whether the index has everything that the store has.
    pub(super) is_complete: bool,
}

/// Texts after redaction, by their digest, because most checkpoints repeat the texts of the one before.
struct Redactor<'a> {
    allow: &'a AllowList,
    known: HashMap<blake3::Hash, Option<String>>,
}

impl Redactor<'_> {
    /// Adds a document to a run, redacted and then split.
    fn add(&mut self, prepared: &mut PreparedRun, document: &Document, at: Timestamp, sequence: u64) {
        if self.known.len() > REMEMBERED {
            self.known.clear();
        }
        let mut text = document.text.as_str();
        if text.len() > MAX_TEXT {
            text = without_cut_word(&text[..text.floor_char_boundary(MAX_TEXT)]);
        }
        let redacted = self.known.entry(blake3::hash(text.as_bytes()));
        let redacted = redacted.or_insert_with(|| self.allow.redact_text(text));
        let at = document.at.unwrap_or(at).as_millisecond();
        for part in document::parts(redacted.as_deref().unwrap_or(text)) {
            prepared.add(document.origin, at, sequence, part);
        }
    }
}

/// A run that changed, and what the index has of it.
struct ChangedRun {
    row: RunRow,
    before: Option<IndexedRun>,
    /// What of the index stays valid; `None` if the run has to be read from its start.
    valid: Option<IndexedRun>,
}

/// A new checkpoint, with its texts.
struct ReadCheckpoint {
    header: Header,
    documents: Vec<Document>,
}

impl Milepost {
    /// What an index depends on besides the store: the identity of the store and the rules of redaction.
    pub(super) fn index_fingerprint(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        let id =
            self.address.parse().ok().and_then(|url| crate::store::identity::read_id(&url).ok().flatten());
        hasher.update(id.map(|id| id.to_string()).unwrap_or_default().as_bytes());
        for entry in self.settings.redaction_allow.entries() {
            hasher.update(b"\n").update(entry.as_bytes());
        }
        hasher.update(env!("CARGO_PKG_VERSION").as_bytes());
        hasher.finalize().to_hex().to_string()
    }

    pub(super) fn update_index(
        &self,
        slot: &mut OpenSlot<'_>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Updated, Failure> {
        let access = slot.open(&self.index_fingerprint())?;
        let Some(index) = slot.index() else {
            return Ok(Updated { listing: Listing::Newest, is_complete: false });
        };
        let (changed, listing) = self.changed_runs(index)?;
        let is_complete = match &access {
            Access::Exclusive(_) => {
                self.add_runs(index, changed, progress)?;
                true
            }
            Access::Shared => changed.is_empty(),
        };
        drop(access);
        Ok(Updated { listing, is_complete })
    }

    /// The runs that were written since they were added to the index, oldest write first.
    fn changed_runs(&self, index: &mut SearchIndex) -> Result<(Vec<ChangedRun>, Listing), Failure> {
        // Stamps of a store on this machine increase with every write, so that the list ends at the first run that did
        // not change. A server assigns them before a commit, so all runs are compared.
        let is_ordered = !self.address.is_empty() && self.synced.is_none();
        let (mut changed, mut all) = (Vec::new(), HashMap::new());
        let mut query = RunQuery::default().limit(if is_ordered { RUNS } else { 0 });
        'pages: loop {
            let rows = self.store.runs(&query)?;
            let (count, last) = (rows.len(), rows.last().map(|row| row.stamp));
            for row in rows {
                let before = index.indexed_run(&row.run_id)?;
                let is_unchanged = before.as_ref().is_some_and(|before| before.stamp == row.stamp);
                if is_unchanged && is_ordered {
                    break 'pages;
                }
                if !is_ordered {
                    all.insert(row.run_id.clone(), row.clone());
                }
                if !is_unchanged {
                    let valid = before.clone().filter(|before| is_continuation(before, &row));
                    changed.push(ChangedRun { row, before, valid });
                }
            }
            if !is_ordered || count < RUNS {
                break;
            }
            query = query.before(last);
        }
        changed.reverse();
        if is_ordered {
            return Ok((changed, Listing::Newest));
        }
        self.remove_unlisted(index, &all)?;
        Ok((changed, Listing::Complete(all)))
    }

    /// Removes runs that are no longer in the store. Runs of a project of which nothing is listed stay, because this
    /// handle may not list them, and so does everything while a server cannot be reached.
    fn remove_unlisted(
        &self,
        index: &mut SearchIndex,
        listed: &HashMap<RunId, RunRow>,
    ) -> Result<(), Failure> {
        if self.synced.as_ref().is_some_and(|synced| synced.outage().is_some()) {
            return Ok(());
        }
        let project = |row: &RunRow| row.record.as_ref().ok().and_then(|record| record.project_id.clone());
        let projects: HashSet<Option<String>> = listed.values().map(project).collect();
        let names: HashSet<&str> = listed.keys().map(RunId::as_str).collect();
        for (run, project) in index.indexed_runs()? {
            let may_be_hidden = self.synced.is_some() && !projects.contains(&project);
            if !names.contains(run.as_str()) && !may_be_hidden {
                index.remove_run(&run)?;
            }
        }
        Ok(())
    }

    fn add_runs(
        &self,
        index: &mut SearchIndex,
        changed: Vec<ChangedRun>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<(), Failure> {
        let new = |run: &ChangedRun| {
            run.row.count.saturating_sub(run.valid.as_ref().map_or(0, |valid| valid.checkpoints))
        };
        let total: u64 = changed.iter().map(new).sum();
        let mut redactor = Redactor { allow: &self.settings.redaction_allow, known: HashMap::new() };
        let (mut done, mut batch, mut size) = (0, Vec::new(), 0);
        for mut run in changed {
            loop {
                let Some((prepared, read, is_last)) = self.prepare(&run, &mut redactor)? else { break };
                (done, size) = (done + read as u64, size + read.max(1));
                let state = prepared.update.state.clone();
                batch.push(prepared);
                if size >= BATCH || !is_last {
                    index.apply(&batch, |run| self.store.run(run).is_ok_and(|run| run.is_some()))?;
                    batch.clear();
                    size = 0;
                    progress(done, total.max(done));
                }
                if is_last {
                    break;
                }
                run.before = Some(state.clone());
                run.valid = Some(state);
            }
        }
        index.apply(&batch, |run| self.store.run(run).is_ok_and(|run| run.is_some()))?;
        progress(done, total.max(done));
        Ok(())
    }

    /// Reads what is new in a run. Returns it with the number of new checkpoints and whether that was all of them;
    /// `None` if the run was removed.
    fn prepare(
        &self,
        run: &ChangedRun,
        redactor: &mut Redactor<'_>,
    ) -> Result<Option<(PreparedRun, usize, bool)>, Failure> {
        let id = &run.row.run_id;
        let after = run.valid.as_ref().map_or(0, |valid| valid.sequence);
        let rows = self.rows_after(id, after)?;
        let (is_last, newest) = (rows.len() < BATCH, rows.last().map(|row| row.cursor().sequence));
        let new = rows.len();
        let entries: Vec<CheckpointEntry> = rows.into_iter().filter_map(Row::intact).collect();
        let read = parallel::map(&entries, |entry| self.read_checkpoint(entry));
        let read: Vec<ReadCheckpoint> = read.into_iter().flatten().collect();
        // Read after the checkpoints: items that became part of a checkpoint meanwhile are found in the next update.
        let Some(StoredRun { items, .. }) = self.store.run(id)? else { return Ok(None) };
        let messages = self.messages_of(id)?;
        let record = run.row.record.as_deref().ok();
        let update = RunUpdate {
            id: id.clone(),
            state: IndexedRun {
                started_at: record.map_or(0, |record| record.started_at.as_millisecond()),
                // Until all checkpoints are read, the run counts as changed.
                stamp: if is_last { run.row.stamp } else { 0 },
                sequence: newest.unwrap_or(after),
                checkpoints: if is_last { run.row.count } else { 0 },
                messages: messages.len() as u64,
            },
            is_foreign: record.is_none_or(RunRecord::is_foreign),
            agent: record.and_then(|record| record.agent.clone()),
            project_id: record.and_then(|record| record.project_id.clone()),
            about: record
                .and_then(RunRecord::about)
                .map(|about| redactor.allow.redact_text(&about).unwrap_or(about)),
        };
        let mut prepared = PreparedRun::new(update, run.before.clone());
        prepared.after = after;
        for checkpoint in &read {
            let (at, sequence) = (checkpoint.header.created_at, checkpoint.header.sequence);
            prepared.checkpoints.push((sequence, at.as_millisecond()));
            for document in &checkpoint.documents {
                redactor.add(&mut prepared, document, at, sequence);
            }
        }
        let at = record.map_or(Timestamp::UNIX_EPOCH, |record| record.updated_at);
        let pending = document::of_items(&items);
        let titles = record.map(document::of_record).unwrap_or_default();
        let inherited = record.filter(|_| run.row.count == 0).map(document::of_inherited).unwrap_or_default();
        for document in pending.iter().chain(&titles).chain(&inherited) {
            redactor.add(&mut prepared, document, at, 0);
        }
        let known =
            run.valid.as_ref().map_or(0, |valid| usize::try_from(valid.messages).unwrap_or(usize::MAX));
        for document in
            messages.iter().skip(known).flat_map(|message: &Message| document::of_message(message))
        {
            redactor.add(&mut prepared, &document, at, 0);
        }
        // Retention and pruning remove checkpoints.
        let kept = run.valid.as_ref().map_or(0, |valid| valid.checkpoints) + new as u64;
        if run.valid.is_some() && is_last && kept != run.row.count {
            prepared.remaining = Some(self.sequences(id)?);
        }
        Ok(Some((prepared, new, is_last)))
    }

    /// The next rows of a run after this number, oldest first.
    fn rows_after(&self, run: &RunId, after: u64) -> Result<Vec<Row>, Error> {
        let query = HeaderQuery::default().run(run).oldest_first(true).limit(BATCH);
        let query = query.after((after > 0).then_some(Cursor { sequence: after, stamp: 0 }));
        Ok(self.store.headers(&query)?)
    }

    /// The texts of a checkpoint; `None` if it was removed or is damaged, which `verify` reports.
    fn read_checkpoint(&self, entry: &CheckpointEntry) -> Option<ReadCheckpoint> {
        let body: Body = self.body(entry).ok()?;
        Some(ReadCheckpoint { header: entry.header.clone(), documents: document::of_checkpoint(&body) })
    }

    /// The numbers of all checkpoints of a run, damaged ones included.
    pub(super) fn sequences(&self, run: &RunId) -> Result<Vec<u64>, Error> {
        let query = HeaderQuery::default().run(run).oldest_first(true);
        let rows = self.rows(query, 2048);
        Ok(rows.map(|row| row.map(|row| row.cursor().sequence)).collect::<Result<_, _>>()?)
    }
}

/// Whether a run is the one that is in the index, so that only what is new has to be read.
fn is_continuation(before: &IndexedRun, row: &RunRow) -> bool {
    let started_at = row.record.as_ref().map_or(0, |record| record.started_at.as_millisecond());
    let newest = row.latest.as_ref().map_or(0, |row| row.cursor().sequence);
    before.started_at == started_at && before.sequence <= newest && before.stamp < row.stamp
}
