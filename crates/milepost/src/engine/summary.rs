//! Summary: a run at a glance: its checkpoints, its sessions, the files it touched, its memory, what failed.

use derive_getters::Getters;
use std::collections::{BTreeSet, HashMap};

use jiff::Timestamp;
use serde::Serialize;

use super::Milepost;
use super::bookkeeping::started_at;
use crate::Error;
use crate::model::{
    Body, CheckpointId, GitFacts, Outcome, OutcomeResult, PathText, RunId, RunRecord, Source, Status,
};
use crate::store::CheckpointEntry;

/// How many paths of each kind stood in git's lists.
#[derive(Getters, Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct GitCounts {
    /// Differ from the index.
    pub(crate) modified: u64,
    /// Differ from the commit.
    pub(crate) staged: u64,
    /// Unknown to git.
    pub(crate) untracked: u64,
}

/// One checkpoint of a summary.
#[derive(Getters, Debug, Clone, PartialEq, Serialize)]
pub struct SummaryLine {
    /// Its number.
    pub(crate) number: u64,
    /// When it was made.
    #[getter(copy)]
    pub(crate) timestamp: Timestamp,
    /// Milliseconds since its session began.
    pub(crate) duration: u64,
    /// How many files were touched by then.
    pub(crate) files_modified: u64,
    /// How many paths stood in git's lists.
    #[getter(copy)]
    pub(crate) git_status: GitCounts,
    /// How many files stood in the watched folders.
    pub(crate) aiwg_files: u64,
    /// Its id.
    pub(crate) snapshot_id: CheckpointId,
    /// Its session.
    pub(crate) session_id: String,
    /// What made it happen.
    #[getter(copy)]
    pub(crate) source: Source,
    /// How the work stood.
    #[getter(copy)]
    pub(crate) status: Status,
    /// Resident bytes of the watched processes.
    #[getter(copy)]
    pub(crate) rss: Option<u64>,
}

/// One session of a run.
#[derive(Getters, Debug, Clone, PartialEq, Serialize)]
pub struct SessionSummary {
    /// Its id.
    pub(crate) session_id: String,
    /// How many of its checkpoints are there.
    pub(crate) total: u64,
    /// Milliseconds it lasted.
    pub(crate) total_duration: u64,
    /// When it began.
    #[getter(copy)]
    pub(crate) started_at: Timestamp,
    /// When its newest checkpoint was made.
    #[getter(copy)]
    pub(crate) last_at: Timestamp,
    /// Number of its first checkpoint that is there.
    pub(crate) first: u64,
    /// Number of its newest.
    pub(crate) last: u64,
}

/// An outcome that failed.
#[derive(Getters, Debug, Clone, PartialEq, Serialize)]
pub struct FailedOutcome {
    /// The checkpoint that holds it.
    pub(crate) number: u64,
    /// The outcome.
    #[serde(flatten)]
    pub(crate) outcome: Outcome,
}

/// A file and in how many checkpoints it stood in git's lists.
#[derive(Getters, Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TouchedFile {
    /// The file.
    pub(crate) path: PathText,
    /// How many checkpoints.
    pub(crate) checkpoints: u64,
}

/// A run at a glance.
#[derive(Getters, Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// The run.
    pub(crate) run_id: RunId,
    /// How it stands; null for a run that is not there yet.
    #[getter(copy)]
    pub(crate) status: Option<Status>,
    /// How many checkpoints there are.
    pub(crate) total: u64,
    /// Milliseconds over all sessions.
    pub(crate) total_duration: u64,
    /// Every file touched.
    pub(crate) files_modified: Vec<PathText>,
    /// The checkpoints, oldest first.
    pub(crate) checkpoints: Vec<SummaryLine>,
    /// The sessions, oldest first.
    pub(crate) sessions: Vec<SessionSummary>,
    /// Outcomes that failed, oldest first.
    pub(crate) failed: Vec<FailedOutcome>,
    /// The files that stood in git's lists most often.
    pub(crate) most_touched: Vec<TouchedFile>,
    /// The largest resident set seen.
    #[getter(copy)]
    pub(crate) peak_rss: Option<u64>,
    /// Numbers of checkpoints that are damaged and could not be summed up.
    pub(crate) damaged: Vec<u64>,
}

/// How many files are named as the most touched.
const MOST: usize = 10;

impl Milepost {
    /// Sums a run up. Reads every checkpoint of it; what is damaged is named and left out, and what is removed meanwhile
    /// is not counted.
    pub fn summary(&self, run: &RunId) -> Result<Summary, Error> {
        let state = self.stored_run(run)?;
        let mut summary = Summary::empty(run);
        let record = state.row.record.ok();
        summary.status = record.as_ref().map(|record| record.status);
        summary.peak_rss = record.as_ref().and_then(|record| record.captures.peak_rss);
        let mut files = BTreeSet::new();
        let mut counts: HashMap<PathText, u64> = HashMap::new();
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
            let Some(body) = body else {
                summary.damaged.push(entry.header.sequence);
                continue;
            };
            summary.add(entry, &body, &mut counts);
            if let Some(workspace) = body.workspace {
                // Each list holds those before it; the newest is the longest. What only a caller gave is added.
                files.extend(workspace.files_modified);
            }
        }
        files.extend(counts.keys().cloned());
        summary.files_modified = files.into_iter().collect();
        summary.most_touched = most(counts);
        summary.total_duration = total(record.as_deref(), &summary.sessions);
        Ok(summary)
    }

    /// The bodies of a run's checkpoints from a number on, oldest first. What is removed meanwhile is left out.
    pub fn bodies(&self, run: &RunId, first: u64) -> Result<Vec<Body>, Error> {
        let entries = self.entries(run).collect::<Result<Vec<_>, _>>()?;
        let wanted = entries.iter().filter(|entry| entry.header.sequence >= first);
        wanted.filter_map(|entry| self.body_if_there(entry).transpose()).collect()
    }
}

/// How long the run lasted: by its record, which also knows sessions whose checkpoints are gone.
fn total(record: Option<&RunRecord>, sessions: &[SessionSummary]) -> u64 {
    let total = together(sessions);
    record.map_or(total, |record| record.total_ms().max(total))
}

/// Milliseconds of all sessions. The numbers may be a stranger's, so that their sum may have no end.
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
    /// A summary of nothing.
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
            most_touched: Vec::new(),
            peak_rss: None,
            damaged: Vec::new(),
        }
    }

    /// The part from a checkpoint on, such as one session; the files are all that the run has touched.
    #[must_use]
    pub fn from(mut self, first: u64) -> Self {
        if first == 0 {
            return self;
        }
        self.checkpoints.retain(|line| line.number >= first);
        self.failed.retain(|failure| failure.number >= first);
        self.sessions.retain(|session| session.first >= first);
        self.damaged.retain(|number| *number >= first);
        self.total = (self.checkpoints.len() + self.damaged.len()) as u64;
        self.total_duration = together(&self.sessions);
        self
    }

    /// A session begins where the id is another, or where its time begins anew.
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
        for path in git.map(named).unwrap_or_default() {
            *counts.entry(path.clone()).or_default() += 1;
        }
        let failed = body.command_outcomes.iter().filter(|outcome| outcome.result == OutcomeResult::Fail);
        self.failed
            .extend(failed.map(|outcome| FailedOutcome { number: body.sequence, outcome: outcome.clone() }));
    }
}

/// Every path of git's lists, once.
fn named(git: &GitFacts) -> BTreeSet<&PathText> {
    git.modified.iter().chain(&git.staged).chain(&git.untracked).collect()
}
