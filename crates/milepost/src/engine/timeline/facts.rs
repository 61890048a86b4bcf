//! Facts about checkpoints that only their documents contain: memory, changed files, failed commands. Takes the
//! sequence number after which to start, so that a caller who keeps earlier facts reads each document once.

use std::collections::HashMap;

use derive_getters::Getters;
use serde::Serialize;

use super::super::Milepost;
use super::super::lookup::LARGE_PAGE;
use super::super::summary::{FailedOutcome, changed_paths};
use crate::failures::{OpenFailures, is_failure};
use crate::model::{Body, Outcome, OutcomeResult, RunId};
use crate::redact::without_first_cut_word;
use crate::store::{CheckpointEntry, Cursor, HeaderQuery, Row};
use crate::{Error, parallel};

/// Number of documents that are read before their facts are kept and the documents dropped.
const CHUNK: usize = 256;
/// Maximum bytes of the output of a failed command.
const MAX_OUTPUT: usize = 600;

/// Facts about one checkpoint.
#[derive(Getters, Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct CheckpointFacts {
    /// The sequence number.
    pub(crate) sequence: u64,
    /// Resident bytes of the watched processes.
    #[getter(copy)]
    pub(crate) rss: Option<u64>,
    /// Number of files that git lists as changed; without git, the number of files touched since the previous
    /// checkpoint. `None` if the workspace was not captured.
    #[getter(copy)]
    pub(crate) files_changed: Option<u64>,
    /// The commands that failed since the previous checkpoint.
    pub(crate) failed: Vec<FailedOutcome>,
    /// Whether the document is damaged or of a newer format; then nothing else is known.
    pub(crate) damaged: bool,
}

/// Facts about the checkpoints of a run, oldest first.
#[derive(Getters, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct RunFacts {
    /// The facts about each checkpoint.
    pub(crate) checkpoints: Vec<CheckpointFacts>,
    /// Whether there are newer checkpoints, because the limit was reached.
    pub(crate) has_more: bool,
    /// Failures that nothing has fixed, as positions in `failures`.
    #[getter(skip)]
    #[serde(skip)]
    open: OpenFailures,
    /// Where each failure is: index of the checkpoint and index in its list.
    #[getter(skip)]
    #[serde(skip)]
    failures: Vec<(usize, usize)>,
    /// The distinct commands that succeeded. They fix failures of earlier facts.
    #[getter(skip)]
    #[serde(skip)]
    passed: HashMap<(String, Option<String>), Outcome>,
    /// The failures that the run lists as unfixed.
    #[getter(skip)]
    #[serde(skip)]
    unfixed: Vec<Outcome>,
}

/// What one document says.
struct DocumentFacts {
    facts: CheckpointFacts,
    outcomes: Vec<Outcome>,
    /// Number of files touched since the run began, if git does not list any.
    touched: Option<u64>,
}

impl Milepost {
    /// Reads facts about the checkpoints after sequence number `after`, oldest first, at most `limit` of them
    /// (0 = no limit). Reads their documents. Checkpoints that are removed in the meantime are omitted. To continue,
    /// pass the last sequence number as `after`, and [`RunFacts::append`] the result.
    pub fn checkpoint_facts(&self, run: &RunId, after: Option<u64>, limit: usize) -> Result<RunFacts, Error> {
        let detail = self.detail_of(self.stored_run(run)?);
        let mut facts = RunFacts::default();
        let mut touched_before = match after {
            Some(sequence) => self.touched_file_count(run, sequence)?,
            None => Some(0),
        };
        // The rows of a long run are not kept either.
        let mut chunk = Vec::with_capacity(CHUNK);
        let position = after.map(|sequence| Cursor { sequence, stamp: 0 });
        let query = HeaderQuery::default().run(run).oldest_first(true).after(position);
        for (count, row) in self.rows(query, LARGE_PAGE).enumerate() {
            if limit > 0 && count == limit {
                facts.has_more = true;
                break;
            }
            chunk.push(row?);
            if chunk.len() == CHUNK {
                self.add_documents(&mut facts, &chunk, &mut touched_before)?;
                chunk.clear();
            }
        }
        self.add_documents(&mut facts, &chunk, &mut touched_before)?;
        if let Some(record) = detail.summary.intact() {
            facts.unfixed.clone_from(&record.working.failures);
        }
        for outcome in &detail.pending_outcomes {
            if outcome.result != OutcomeResult::Fail {
                let fixed = facts.open.add(outcome, 0);
                facts.mark(&fixed, Some(true));
                facts.add_passed(outcome);
            }
        }
        facts.mark_unknown();
        Ok(facts)
    }

    /// Adds the facts from the documents of these rows.
    fn add_documents(
        &self,
        facts: &mut RunFacts,
        rows: &[Row],
        touched_before: &mut Option<u64>,
    ) -> Result<(), Error> {
        for document in parallel::map(rows, |row| self.document_facts(row)) {
            if let Some(document) = document? {
                facts.add(document, touched_before);
            }
        }
        Ok(())
    }

    /// `None` if the checkpoint was removed.
    fn document_facts(&self, row: &Row) -> Result<Option<DocumentFacts>, Error> {
        let entry = match row {
            Row::Intact(entry) => entry,
            Row::Damaged { cursor, .. } => return Ok(Some(DocumentFacts::damaged(cursor.sequence))),
        };
        match self.body_if_there(entry) {
            Ok(body) => Ok(body.map(|body| DocumentFacts::new(entry, body))),
            Err(Error::Damaged(_) | Error::Newer { .. }) => {
                Ok(Some(DocumentFacts::damaged(entry.header.sequence)))
            }
            Err(e) => Err(e),
        }
    }

    /// Number of files touched up to a checkpoint; `None` if it is not known.
    fn touched_file_count(&self, run: &RunId, sequence: u64) -> Result<Option<u64>, Error> {
        let row = self.row_at(run, sequence)?;
        let facts = row.map(|row| self.document_facts(&row)).transpose()?.flatten();
        Ok(facts.and_then(|document| document.touched))
    }
}

impl DocumentFacts {
    fn damaged(sequence: u64) -> Self {
        let facts =
            CheckpointFacts { sequence, rss: None, files_changed: None, failed: Vec::new(), damaged: true };
        Self { facts, outcomes: Vec::new(), touched: None }
    }

    fn new(entry: &CheckpointEntry, body: Body) -> Self {
        let workspace = body.workspace.as_ref();
        let git = workspace.and_then(|workspace| workspace.git.as_ref()).filter(|git| git.error.is_none());
        let memory = entry.marks.memory.as_ref().or(workspace.and_then(|w| w.memory.as_ref()));
        let facts = CheckpointFacts {
            sequence: body.sequence,
            rss: memory.and_then(|memory| memory.rss),
            files_changed: git.map(|git| changed_paths(git).len() as u64),
            failed: Vec::new(),
            damaged: false,
        };
        let touched = workspace.map(|workspace| workspace.files_modified.len() as u64);
        Self { facts, outcomes: body.command_outcomes, touched }
    }
}

impl RunFacts {
    /// Adds facts about newer checkpoints. Earlier failures that newer commands fixed are marked as fixed.
    pub fn append(&mut self, newer: Self) {
        for outcome in newer.passed.values() {
            let fixed = self.open.add(outcome, 0);
            self.mark(&fixed, Some(true));
        }
        let checkpoints = self.checkpoints.len();
        let failures = self.failures.len();
        self.checkpoints.extend(newer.checkpoints);
        self.failures.extend(newer.failures.into_iter().map(|(at, index)| (at + checkpoints, index)));
        self.open.append(newer.open, failures);
        self.passed.extend(newer.passed);
        self.unfixed = newer.unfixed;
        self.has_more = newer.has_more;
        self.mark_unknown();
    }

    /// The sequence number of the newest checkpoint, from which to continue.
    pub fn newest(&self) -> Option<u64> {
        self.checkpoints.last().map(|facts| facts.sequence)
    }

    fn add(&mut self, document: DocumentFacts, touched_before: &mut Option<u64>) {
        let DocumentFacts { mut facts, outcomes, touched } = document;
        if facts.files_changed.is_none() {
            facts.files_changed =
                touched.zip(*touched_before).map(|(now, before)| now.saturating_sub(before));
        }
        *touched_before = touched.or(*touched_before);
        let at = self.checkpoints.len();
        let number = facts.sequence;
        self.checkpoints.push(facts);
        for outcome in outcomes {
            let fixed = self.open.add(&outcome, self.failures.len());
            self.mark(&fixed, Some(true));
            if outcome.result != OutcomeResult::Fail {
                self.add_passed(&outcome);
            } else if let Some(checkpoint) = self.checkpoints.get_mut(at) {
                self.failures.push((at, checkpoint.failed.len()));
                let fixed = is_failure(&outcome).then_some(false);
                checkpoint.failed.push(FailedOutcome { number, fixed, outcome: shortened(outcome) });
            }
        }
    }

    fn add_passed(&mut self, outcome: &Outcome) {
        let key = (outcome.name.clone(), outcome.folder());
        self.passed.entry(key).or_insert_with(|| Outcome { summary: String::new(), ..outcome.clone() });
    }

    /// Marks failures that the run no longer lists, although no known command fixed them.
    fn mark_unknown(&mut self) {
        let unlisted = self.open.missing_from(&self.unfixed);
        self.mark(&unlisted, None);
    }

    fn mark(&mut self, failures: &[usize], fixed: Option<bool>) {
        for failure in failures {
            let place = self.failures.get(*failure);
            let place = place.and_then(|(at, index)| self.checkpoints.get_mut(*at)?.failed.get_mut(*index));
            if let Some(failed) = place {
                failed.fixed = fixed;
            }
        }
    }
}

/// An outcome without all but the end of its output.
fn shortened(mut outcome: Outcome) -> Outcome {
    let start = outcome.summary.len().saturating_sub(MAX_OUTPUT);
    if start > 0 {
        let end = &outcome.summary[outcome.summary.ceil_char_boundary(start)..];
        outcome.summary = without_first_cut_word(end).to_owned();
    }
    outcome
}
