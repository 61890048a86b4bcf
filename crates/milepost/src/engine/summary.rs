//! Summary: an overview of a run: its checkpoints, sessions, tasks, touched files, memory use and failures,
//! including what was recorded since the newest checkpoint. Reads all documents of the run.

use derive_getters::Getters;
use std::collections::{BTreeSet, HashMap};

use jiff::Timestamp;
use serde::Serialize;

use super::Milepost;
use super::bookkeeping::started_at;
use super::since::{PendingCounts, RecentChanges};
use crate::Error;
use crate::failures::{OpenFailures, is_failure};
use crate::model::{
    Body, CheckpointId, GitFacts, Outcome, OutcomeResult, PathText, RunId, RunRecord, Source, Status, Task,
};
use crate::store::CheckpointEntry;

/// Number of paths in each of git's lists.
#[derive(Getters, Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct GitCounts {
    /// Paths that differ from the index.
    pub(crate) modified: u64,
    /// Paths whose index entry differs from the commit.
    pub(crate) staged: u64,
    /// Paths that git does not track.
    pub(crate) untracked: u64,
}

/// One checkpoint in a summary.
#[derive(Getters, Debug, Clone, PartialEq, Serialize)]
pub struct SummaryLine {
    /// The sequence number.
    pub(crate) number: u64,
    /// When it was saved.
    #[getter(copy)]
    pub(crate) timestamp: Timestamp,
    /// Milliseconds since its session began.
    pub(crate) duration: u64,
    /// Number of files touched by then.
    pub(crate) files_modified: u64,
    /// Number of paths in git's lists.
    #[getter(copy)]
    pub(crate) git_status: GitCounts,
    /// Number of files in the watched folders.
    pub(crate) aiwg_files: u64,
    /// The checkpoint id.
    pub(crate) snapshot_id: CheckpointId,
    /// The session id.
    pub(crate) session_id: String,
    /// The source that triggered it.
    #[getter(copy)]
    pub(crate) source: Source,
    /// The status of the work.
    #[getter(copy)]
    pub(crate) status: Status,
    /// Resident bytes of the watched processes.
    #[getter(copy)]
    pub(crate) rss: Option<u64>,
}

/// One session of a run.
#[derive(Getters, Debug, Clone, PartialEq, Serialize)]
pub struct SessionSummary {
    /// The session id.
    pub(crate) session_id: String,
    /// Number of its checkpoints that still exist.
    pub(crate) total: u64,
    /// Its duration in milliseconds.
    pub(crate) total_duration: u64,
    /// When it began.
    #[getter(copy)]
    pub(crate) started_at: Timestamp,
    /// When its newest checkpoint was saved.
    #[getter(copy)]
    pub(crate) last_at: Timestamp,
    /// Sequence number of its first checkpoint that still exists.
    pub(crate) first: u64,
    /// Sequence number of its newest checkpoint.
    pub(crate) last: u64,
}

/// A failed outcome.
#[derive(Getters, Debug, Clone, PartialEq, Serialize)]
pub struct FailedOutcome {
    /// Sequence number of the checkpoint that contains it; 0 if it is newer than every checkpoint.
    pub(crate) number: u64,
    /// Whether the command was seen to succeed since; `None` if that is unknown, or if it needs no fix, like
    /// exit code 1 of `grep`.
    #[getter(copy)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fixed: Option<bool>,
    /// The outcome.
    #[serde(flatten)]
    pub(crate) outcome: Outcome,
}

/// A file, and the number of checkpoints in which git listed it.
#[derive(Getters, Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TouchedFile {
    /// The file.
    pub(crate) path: PathText,
    /// Number of checkpoints.
    pub(crate) checkpoints: u64,
}

/// An overview of a run.
#[derive(Getters, Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// The run id.
    pub(crate) run_id: RunId,
    /// The run's status; null for a run that does not exist yet.
    #[getter(copy)]
    pub(crate) status: Option<Status>,
    /// Number of checkpoints.
    pub(crate) total: u64,
    /// Total duration of all sessions, in milliseconds.
    pub(crate) total_duration: u64,
    /// All files that the run has touched: captured ones, and those that were reported as written.
    pub(crate) files_modified: Vec<PathText>,
    /// The checkpoints, oldest first.
    pub(crate) checkpoints: Vec<SummaryLine>,
    /// The sessions, oldest first.
    pub(crate) sessions: Vec<SessionSummary>,
    /// Failed outcomes, oldest first, including those since the newest checkpoint.
    pub(crate) failed: Vec<FailedOutcome>,
    /// Commands that failed, here or in a run that this one continues, and were not seen to succeed since.
    pub(crate) unfixed: Vec<Outcome>,
    /// The tasks, as they are now.
    pub(crate) tasks: Vec<Task>,
    /// The number of changes since the newest checkpoint.
    #[getter(skip)]
    pub(crate) pending: PendingCounts,
    /// The files that git listed in the most checkpoints.
    pub(crate) most_touched: Vec<TouchedFile>,
    /// The largest observed resident set size, in bytes.
    #[getter(copy)]
    pub(crate) peak_rss: Option<u64>,
    /// Sequence numbers of damaged checkpoints, which the summary omits.
    pub(crate) damaged: Vec<u64>,
}

/// Maximum number of files in `most_touched`.
const MOST: usize = 10;

impl Milepost {
    /// Summarises a run by reading all its checkpoints. Damaged checkpoints are only listed as such, and
    /// checkpoints removed in the meantime are not counted.
    pub fn summary(&self, run: &RunId) -> Result<Summary, Error> {
        let detail = self.detail_of(self.stored_run(run)?);
        let mut summary = Summary::empty(run);
        let record = detail.summary.intact();
        summary.status = record.map(|record| record.status);
        summary.peak_rss = record.and_then(|record| record.captures.peak_rss);
        let mut files = BTreeSet::new();
        let mut counts: HashMap<PathText, u64> = HashMap::new();
        let mut open = OpenFailures::default();
        let mut newest = None;
        for entry in self.entries(run) {
            let entry = &entry?;
            let body = match self.body_if_there(entry) {
                Ok(None) => continue,
                Ok(body) => body,
                Err(Error::Damaged(_) | Error::Newer { .. }) => None,
                Err(e) => return Err(e),
            };
            summary.total += 1;
            summary.enter_session(entry);
            let Some(mut body) = body else {
                summary.damaged.push(entry.header.sequence);
                newest = None;
                continue;
            };
            summary.add(entry, &body, &mut counts);
            summary.add_outcomes(&body.command_outcomes, body.sequence, &mut open);
            if let Some(workspace) = body.workspace.take() {
                // Captured lists include all earlier files, but a list that a caller supplied may not.
                files.extend(workspace.files_modified);
            }
            newest = Some(body);
        }
        files.extend(counts.keys().cloned());
        // A checkpoint that was saved after the record was read contains the pending items.
        let latest = detail.summary.latest.as_ref().map_or(0, |entry| entry.header.sequence);
        if newest.as_ref().is_none_or(|body| body.sequence <= latest) {
            summary.add_outcomes(&detail.pending_outcomes, 0, &mut open);
            // Without the newest checkpoint, it is unknown what else is new.
            if newest.is_some() || summary.total == 0 {
                summary.pending = RecentChanges::of(&detail, newest.as_ref()).counts();
            }
        }
        if let Some(working) = record.map(|record| &record.working) {
            summary.mark_failures(open.close(&working.failures), None);
            summary.unfixed.clone_from(&working.failures);
            summary.tasks.clone_from(&working.tasks);
            files.extend(working.files.iter().map(|file| PathText::Text(file.path.clone())));
        }
        summary.files_modified = files.into_iter().collect();
        summary.most_touched = most(counts);
        summary.total_duration = total(record, &summary.sessions);
        Ok(summary)
    }

    /// The bodies of a run's checkpoints from sequence number `first` on, oldest first. Omits checkpoints
    /// that are removed in the meantime.
    pub fn bodies(&self, run: &RunId, first: u64) -> Result<Vec<Body>, Error> {
        let entries = self.entries(run).collect::<Result<Vec<_>, _>>()?;
        let wanted = entries.iter().filter(|entry| entry.header.sequence >= first);
        wanted.filter_map(|entry| self.body_if_there(entry).transpose()).collect()
    }
}

/// The run's duration. The record also counts sessions whose checkpoints are gone.
fn total(record: Option<&RunRecord>, sessions: &[SessionSummary]) -> u64 {
    let total = together(sessions);
    record.map_or(total, |record| record.total_ms().max(total))
}

/// Total duration of all sessions, in milliseconds. Saturates, because values from elsewhere can be
/// arbitrarily large.
fn together(sessions: &[SessionSummary]) -> u64 {
    sessions.iter().fold(0, |sum, session| sum.saturating_add(session.total_duration))
}

fn most(counts: HashMap<PathText, u64>) -> Vec<TouchedFile> {
    let mut all: Vec<_> =
        counts.into_iter().map(|(path, checkpoints)| TouchedFile { path, checkpoints }).collect();
    all.sort_unstable_by(|a, b| b.checkpoints.cmp(&a.checkpoints).then_with(|| a.path.cmp(&b.path)));
    all.truncate(MOST);
    all
}

impl Summary {
    /// An empty summary.
    pub fn empty(run: &RunId) -> Self {
        Self {
            run_id: run.clone(),
            status: None,
            total: 0,
            total_duration: 0,
            files_modified: Vec::new(),
            checkpoints: Vec::new(),
            sessions: Vec::new(),
            failed: Vec::new(),
            unfixed: Vec::new(),
            tasks: Vec::new(),
            pending: PendingCounts::default(),
            most_touched: Vec::new(),
            peak_rss: None,
            damaged: Vec::new(),
        }
    }

    /// Limits the summary to checkpoints from sequence number `first` on, such as one session. The list of
    /// files still covers the whole run.
    #[must_use]
    pub fn from(mut self, first: u64) -> Self {
        if first == 0 {
            return self;
        }
        self.checkpoints.retain(|line| line.number >= first);
        self.failed.retain(|failure| failure.number >= first || failure.number == 0);
        self.sessions.retain(|session| session.first >= first);
        self.damaged.retain(|number| *number >= first);
        self.total = (self.checkpoints.len() + self.damaged.len()) as u64;
        self.total_duration = together(&self.sessions);
        self
    }

    /// Adds a checkpoint to its session. A new session begins when the id changes or the elapsed time
    /// starts over.
    fn enter_session(&mut self, entry: &CheckpointEntry) {
        let header = &entry.header;
        let goes_on = self.sessions.last().is_some_and(|session| {
            session.session_id == header.session_id && session.total_duration <= header.elapsed_ms
        });
        if !goes_on {
            self.sessions.push(SessionSummary {
                session_id: header.session_id.clone(),
                total: 0,
                total_duration: 0,
                started_at: started_at(header.created_at, header.elapsed_ms),
                last_at: header.created_at,
                first: header.sequence,
                last: header.sequence,
            });
        }
        if let Some(session) = self.sessions.last_mut() {
            session.total += 1;
            session.total_duration = header.elapsed_ms;
            session.last_at = header.created_at;
            session.last = header.sequence;
        }
    }

    fn add(&mut self, entry: &CheckpointEntry, body: &Body, counts: &mut HashMap<PathText, u64>) {
        let workspace = body.workspace.as_ref();
        let git = workspace.and_then(|workspace| workspace.git.as_ref());
        let memory = entry.marks.memory.as_ref().or(workspace.and_then(|w| w.memory.as_ref()));
        self.peak_rss = self.peak_rss.max(memory.and_then(|memory| memory.peak_rss.max(memory.rss)));
        let count = |n: usize| n as u64;
        self.checkpoints.push(SummaryLine {
            number: body.sequence,
            timestamp: body.created_at,
            duration: body.elapsed_ms,
            files_modified: workspace.map_or(0, |workspace| count(workspace.files_modified.len())),
            git_status: git.map_or_else(GitCounts::default, |git| GitCounts {
                modified: count(git.modified.len()),
                staged: count(git.staged.len()),
                untracked: count(git.untracked.len()),
            }),
            aiwg_files: workspace.and_then(|w| w.watched.as_ref()).map_or(0, |w| count(w.files.len())),
            snapshot_id: body.snapshot_id.clone(),
            session_id: body.session_id.clone(),
            source: body.source,
            status: body.status,
            rss: memory.and_then(|memory| memory.rss),
        });
        for path in git.map(changed_paths).unwrap_or_default() {
            *counts.entry(path.clone()).or_default() += 1;
        }
    }

    /// Adds the failed ones of a checkpoint's outcomes, and marks earlier failures that others fix.
    fn add_outcomes(&mut self, outcomes: &[Outcome], number: u64, open: &mut OpenFailures) {
        for outcome in outcomes {
            let fixed = open.add(outcome, self.failed.len());
            self.mark_failures(fixed, Some(true));
            if outcome.result == OutcomeResult::Fail {
                let fixed = is_failure(outcome).then_some(false);
                self.failed.push(FailedOutcome { number, fixed, outcome: outcome.clone() });
            }
        }
    }

    /// Sets whether failed outcomes, given by their indexes, were fixed.
    fn mark_failures(&mut self, indexes: Vec<usize>, fixed: Option<bool>) {
        for index in indexes {
            if let Some(failure) = self.failed.get_mut(index) {
                failure.fixed = fixed;
            }
        }
    }

    /// The number of changes since the newest checkpoint.
    #[cfg(feature = "internal")]
    pub fn pending(&self) -> PendingCounts {
        self.pending
    }
}

/// All paths in git's lists, without duplicates.
pub(super) fn changed_paths(git: &GitFacts) -> BTreeSet<&PathText> {
    git.modified.iter().chain(&git.staged).chain(&git.untracked).collect()
}
