//! Adds the texts of runs to an index and removes them. Each call is one transaction. The same text of a run is
//! stored once, with the checkpoints that contain it.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension as _, Transaction, TransactionBehavior, named_params, params};

use super::spans::Spans;
use super::{IndexError, SearchIndex};
use crate::model::RunId;
use crate::search::document::Origin;
use crate::search::tokens::IndexedText;

/// What an index has of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IndexedRun {
    /// The time of the run's start in milliseconds. A run that was deleted and created again has another one.
    pub(crate) started_at: i64,
    /// The stamp of the last write that was read.
    pub(crate) stamp: u64,
    /// The highest sequence number that was read.
    pub(crate) sequence: u64,
    /// The number of checkpoints of the run at that time.
    pub(crate) checkpoints: u64,
    /// The number of messages that were read.
    pub(crate) messages: u64,
}

/// The run of a batch, as it is after the batch.
#[derive(Debug, Clone)]
pub(crate) struct RunUpdate {
    pub(crate) id: RunId,
    pub(crate) state: IndexedRun,
    pub(crate) is_foreign: bool,
    pub(crate) agent: Option<String>,
    pub(crate) project_id: Option<String>,
    pub(crate) about: Option<String>,
}

/// A redacted text, and the checkpoints that contain it.
#[derive(Debug, Clone)]
struct Entry {
    origin: Origin,
    at: i64,
    spans: Spans,
    text: String,
}

type Digest = [u8; 16];

/// What a batch adds to one run.
pub(crate) struct PreparedRun {
    pub(crate) update: RunUpdate,
    /// What the index has of the run. If that has changed meanwhile, the batch is not applied.
    pub(crate) before: Option<IndexedRun>,
    /// The sequence numbers that still exist, if some of those in the index were removed from the store.
    pub(crate) remaining: Option<Vec<u64>>,
    /// New checkpoints: number and time. Earlier texts without a checkpoint belong to the next one.
    pub(crate) checkpoints: Vec<(u64, i64)>,
    /// The last checkpoint that the index already has.
    pub(crate) after: u64,
    entries: HashMap<Digest, Entry>,
}

impl PreparedRun {
    pub(crate) fn new(update: RunUpdate, before: Option<IndexedRun>) -> Self {
        Self { update, before, remaining: None, checkpoints: Vec::new(), after: 0, entries: HashMap::new() }
    }

    /// Adds a redacted text. `sequence` is 0 if no checkpoint contains it.
    pub(crate) fn add(&mut self, origin: Origin, at: i64, sequence: u64, text: &str) {
        let mut hasher = blake3::Hasher::new();
        hasher.update(origin.as_str().as_bytes()).update(b"\n").update(text.as_bytes());
        let mut digest = Digest::default();
        hasher.finalize_xof().fill(&mut digest);
        let before = self.checkpoints.iter().rev().find(|(before, _)| *before < sequence);
        let previous = before.map_or(self.after, |(before, _)| *before);
        let entry = self.entries.entry(digest).or_insert_with(|| Entry {
            origin,
            at,
            spans: Spans::default(),
            text: text.to_owned(),
        });
        entry.at = entry.at.min(at);
        if sequence > 0 {
            entry.spans.add(sequence, previous);
        }
    }
}

impl SearchIndex {
    /// What the index has of a run.
    pub(crate) fn indexed_run(&self, run: &RunId) -> Result<Option<IndexedRun>, IndexError> {
        Ok(read_run(&self.connection, run)?.map(|(_, state)| state))
    }

    /// The ids of all runs in the index, with the ids of their projects.
    pub(crate) fn indexed_runs(&self) -> Result<Vec<(String, Option<String>)>, IndexError> {
        let mut statement = self.connection.prepare_cached("SELECT id, project_id FROM run")?;
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Adds a batch in one transaction. Leaves out runs that another process has updated meanwhile, and those that
    /// `exists` no longer finds in the store: a run is removed from the store before it is removed from the index.
    pub(crate) fn apply(
        &mut self,
        batch: &[PreparedRun],
        mut exists: impl FnMut(&RunId) -> bool,
    ) -> Result<(), IndexError> {
        let tx = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        for prepared in batch {
            let now = read_run(&tx, &prepared.update.id)?;
            let is_unchanged = now.as_ref().map(|(_, state)| state) == prepared.before.as_ref();
            if is_unchanged && exists(&prepared.update.id) {
                write_run(&tx, prepared, now.map(|(n, _)| n))?;
            }
        }
        tx.commit()?;
        Ok(())
    }

    /// Removes a run with all of its texts.
    pub(crate) fn remove_run(&mut self, run: &str) -> Result<(), IndexError> {
        let tx = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let find = "SELECT n FROM run WHERE id = ?1";
        if let Some(n) = tx.query_row(find, [run], |row| row.get::<_, i64>(0)).optional()? {
            remove_documents(&tx, "run_n = ?1", params![n])?;
            tx.execute("DELETE FROM run WHERE n = ?1", [n])?;
        }
        tx.commit()?;
        Ok(())
    }

    /// Removes the texts of a run that none of the remaining checkpoints contains.
    pub(crate) fn retain_checkpoints(&mut self, run: &RunId, remaining: &[u64]) -> Result<(), IndexError> {
        let tx = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        if let Some((n, _)) = read_run(&tx, run)? {
            remove_dropped(&tx, n, remaining)?;
        }
        tx.commit()?;
        Ok(())
    }

    /// Removes paths for which `is_removed` returns true.
    pub(crate) fn remove_paths(&mut self, is_removed: impl Fn(&str) -> bool) -> Result<(), IndexError> {
        let tx = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let (file, changed) = (Origin::File as i64, Origin::ChangedFile as i64);
        let paths: Vec<(i64, String)> = {
            let sql = "SELECT n, text FROM document JOIN content USING (n) WHERE origin IN (?1, ?2)";
            let mut statement = tx.prepare(sql)?;
            let rows = statement.query_map([file, changed], |row| Ok((row.get(0)?, row.get(1)?)))?;
            rows.collect::<Result<_, _>>()?
        };
        for (n, _) in paths.iter().filter(|(_, path)| is_removed(path)) {
            remove_documents(&tx, "n = ?1", params![n])?;
        }
        tx.commit()?;
        Ok(())
    }

    /// Moves everything to the database file, so that removed text does not remain in the write-ahead log.
    pub(crate) fn flush(&self) -> Result<(), IndexError> {
        let sql = "PRAGMA wal_checkpoint(TRUNCATE)";
        // A reader can keep the log from being emptied.
        match self.connection.query_row(sql, [], |row| row.get::<_, i64>(0))? {
            0 => Ok(()),
            _ => Err(IndexError::Busy),
        }
    }
}

fn read_run(connection: &Connection, run: &RunId) -> Result<Option<(i64, IndexedRun)>, IndexError> {
    let sql = "SELECT n, started_at, stamp, sequence, checkpoints, messages FROM run WHERE id = ?1";
    let read = |row: &rusqlite::Row<'_>| {
        let state = IndexedRun {
            started_at: row.get(1)?,
            stamp: number(row, 2)?,
            sequence: number(row, 3)?,
            checkpoints: number(row, 4)?,
            messages: number(row, 5)?,
        };
        Ok((row.get(0)?, state))
    };
    Ok(connection.prepare_cached(sql)?.query_row([run.as_str()], read).optional()?)
}

/// A number that SQLite stores as a signed one.
pub(super) fn number(row: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<u64> {
    Ok(row.get::<_, i64>(column)?.cast_unsigned())
}

fn write_run(tx: &Transaction<'_>, prepared: &PreparedRun, n: Option<i64>) -> Result<(), IndexError> {
    let RunUpdate { id, state, is_foreign, agent, project_id, about } = &prepared.update;
    let is_same = prepared.before.as_ref().is_some_and(|before| before.started_at == state.started_at);
    if let (Some(n), false) = (n, is_same) {
        remove_documents(tx, "run_n = ?1", params![n])?;
    }
    let sql = "INSERT INTO run (id, started_at, stamp, sequence, checkpoints, messages, is_foreign, agent, project_id, \
               about) VALUES (:id, :started_at, :stamp, :sequence, :checkpoints, :messages, :is_foreign, :agent, \
               :project_id, :about) ON CONFLICT (id) DO UPDATE SET started_at = :started_at, stamp = :stamp, \
               sequence = :sequence, checkpoints = :checkpoints, messages = :messages, is_foreign = :is_foreign, \
               agent = :agent, project_id = :project_id, about = :about RETURNING n";
    let n: i64 = tx.prepare_cached(sql)?.query_row(
        named_params! {
            ":id": id.as_str(),
            ":started_at": state.started_at,
            ":stamp": state.stamp.cast_signed(),
            ":sequence": state.sequence.cast_signed(),
            ":checkpoints": state.checkpoints.cast_signed(),
            ":messages": state.messages.cast_signed(),
            ":is_foreign": is_foreign,
            ":agent": agent,
            ":project_id": project_id,
            ":about": about,
        },
        |row| row.get(0),
    )?;
    if let Some(remaining) = &prepared.remaining {
        remove_dropped(tx, n, remaining)?;
    }
    if !prepared.checkpoints.is_empty() {
        assign_waiting(tx, n, &prepared.checkpoints)?;
    }
    let mut entries: Vec<_> = prepared.entries.iter().collect();
    entries.sort_by_key(|(digest, entry)| (entry.at, entry.spans.first(), **digest));
    for (digest, entry) in entries {
        write_entry(tx, n, digest, entry, prepared)?;
    }
    Ok(())
}

/// Assigns texts that waited for a checkpoint to the next one.
fn assign_waiting(tx: &Transaction<'_>, run: i64, checkpoints: &[(u64, i64)]) -> Result<(), IndexError> {
    let waiting: Vec<(i64, i64)> = {
        let mut statement =
            tx.prepare_cached("SELECT n, at FROM document WHERE run_n = ?1 AND spans = ''")?;
        let rows = statement.query_map([run], |row| Ok((row.get(0)?, row.get(1)?)))?;
        rows.collect::<Result<_, _>>()?
    };
    let mut statement = tx.prepare_cached("UPDATE document SET spans = ?2 WHERE n = ?1")?;
    for (n, at) in waiting {
        if let Some(sequence) = next_checkpoint(checkpoints, at) {
            statement.execute(params![n, Spans::of(sequence).to_string()])?;
        }
    }
    Ok(())
}

/// The first checkpoint at or after a time.
fn next_checkpoint(checkpoints: &[(u64, i64)], at: i64) -> Option<u64> {
    checkpoints.iter().find(|(_, created)| *created >= at).map(|(sequence, _)| *sequence)
}

fn write_entry(
    tx: &Transaction<'_>,
    run: i64,
    digest: &Digest,
    entry: &Entry,
    prepared: &PreparedRun,
) -> Result<(), IndexError> {
    let mut spans = entry.spans.clone();
    if let (true, Some(next)) = (spans.is_empty(), next_checkpoint(&prepared.checkpoints, entry.at)) {
        spans = Spans::of(next);
    }
    let sql = "SELECT n, spans FROM document WHERE run_n = ?1 AND digest = ?2";
    let find = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?));
    if let Some((n, known)) = tx.prepare_cached(sql)?.query_row(params![run, digest], find).optional()? {
        let is_next = prepared.checkpoints.first().is_some_and(|(sequence, _)| *sequence == spans.first());
        let all =
            Spans::parse(&known)?.followed_by(&spans, if is_next { prepared.after } else { 0 }).to_string();
        if all != known {
            tx.prepare_cached("UPDATE document SET spans = ?2 WHERE n = ?1")?.execute(params![n, all])?;
        }
        return Ok(());
    }
    let sql = "INSERT INTO document (run_n, origin, at, spans, digest) VALUES (?1, ?2, ?3, ?4, ?5)";
    let values = params![run, entry.origin as i64, entry.at, spans.to_string(), digest];
    let n = tx.prepare_cached(sql)?.insert(values)?;
    tx.prepare_cached("INSERT INTO content (n, text) VALUES (?1, ?2)")?.execute(params![n, entry.text])?;
    let IndexedText { words, stems } = IndexedText::of(&entry.text);
    let sql = "INSERT INTO word (rowid, words, stems) VALUES (?1, ?2, ?3)";
    tx.prepare_cached(sql)?.execute(params![n, words, stems])?;
    Ok(())
}

/// Removes texts that belong to checkpoints of which none remains.
fn remove_dropped(tx: &Transaction<'_>, run: i64, remaining: &[u64]) -> Result<(), IndexError> {
    let mut sorted = remaining.to_vec();
    sorted.sort_unstable();
    let documents: Vec<(i64, i64, String)> = {
        let sql = "SELECT n, origin, spans FROM document WHERE run_n = ?1 AND spans <> ''";
        let mut statement = tx.prepare_cached(sql)?;
        let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
        statement.query_map([run], read)?.collect::<Result<_, _>>()?
    };
    for (n, origin, known) in documents {
        let left = Spans::parse(&known)?.that_contain(&sorted);
        let is_of_run = super::read::origin(origin).is_some_and(Origin::is_of_run);
        if left.is_empty() && !is_of_run {
            remove_documents(tx, "n = ?1", params![n])?;
        } else if !left.is_empty() && left.to_string() != known {
            tx.prepare_cached("UPDATE document SET spans = ?2 WHERE n = ?1")?
                .execute(params![n, left.to_string()])?;
        }
    }
    Ok(())
}

/// Removes documents and every trace of their words.
fn remove_documents(
    tx: &Transaction<'_>,
    which: &str,
    values: impl rusqlite::Params + Copy,
) -> Result<(), IndexError> {
    let documents: Vec<(i64, String)> = {
        let sql = format!("SELECT n, text FROM document JOIN content USING (n) WHERE {which}");
        let mut statement = tx.prepare_cached(&sql)?;
        let rows = statement.query_map(values, |row| Ok((row.get(0)?, row.get(1)?)))?;
        rows.collect::<Result<_, _>>()?
    };
    for (n, text) in documents {
        let IndexedText { words, stems } = IndexedText::of(&text);
        let sql = "INSERT INTO word (word, rowid, words, stems) VALUES ('delete', ?1, ?2, ?3)";
        tx.prepare_cached(sql)?.execute(params![n, words, stems])?;
        tx.prepare_cached("DELETE FROM content WHERE n = ?1")?.execute([n])?;
        tx.prepare_cached("DELETE FROM document WHERE n = ?1")?.execute([n])?;
    }
    Ok(())
}
