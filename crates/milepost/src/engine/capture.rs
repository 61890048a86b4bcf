//! Capture: looks at the workspace for a run, and joins what is seen with what the run knows already.
//! What a look costs does not grow with the checkpoints before it: it needs the run's record and its newest capture.

use super::reference::Reference;
use super::{Milepost, Save};
use crate::capture::{self, CaptureBaseline, CaptureOptions, Process, WorkspaceCapture};
use crate::model::{CaptureHistory, CaptureWhen, PathText, Profile, RunId, RunRecord, Source, Workspace};
use crate::owner::Liveness;
use crate::redact::{AllowList, Redaction};
use crate::{Error, trigger};

/// What a capture is joined with: a save that finds another newest capture begins anew.
#[derive(Debug, Clone, Default)]
pub(super) struct Before {
    /// Sequence of the newest capture.
    pub(super) latest: u64,
    /// The files touched up to it.
    files: Vec<PathText>,
    peak_rss: Option<u64>,
}

/// The files touched up to a capture.
pub(super) struct Touched {
    run: RunId,
    sequence: u64,
    files: Vec<PathText>,
}

impl Milepost {
    /// Looks at the workspace for a checkpoint of this source, if the run's profile wants that; `profile` is that of a run
    /// that is not there yet. Give the result to the save.
    pub fn capture_if_due(
        &self,
        run: &RunId,
        scope: &CaptureOptions,
        source: Source,
        profile: Option<Profile>,
    ) -> Result<Option<WorkspaceCapture>, Error> {
        let record = self.record_of(run)?;
        let profile = record.as_ref().map(|record| record.profile).or(profile).or(self.settings.profile);
        let captures = known_captures(record);
        let wanted = match profile.unwrap_or(Profile::Run).capture() {
            CaptureWhen::Never => false,
            CaptureWhen::Boundaries => source != Source::Timer,
            CaptureWhen::BoundariesAndEvery(interval) => {
                let due = |at| trigger::is_due(at, interval, self.now());
                source != Source::Timer || captures.at.is_none_or(due)
            }
            CaptureWhen::Always => true,
        };
        Ok(wanted.then(|| capture_since(scope, &captures)))
    }

    /// Looks at the workspace for a run, whatever its profile.
    pub fn capture_workspace(&self, run: &RunId, scope: &CaptureOptions) -> Result<WorkspaceCapture, Error> {
        Ok(capture_since(scope, &known_captures(self.record_of(run)?)))
    }

    /// The processes that work on a run, as far as its owner tells: what `run` has started, or the owner and all it has.
    pub fn process_of(&self, run: &RunId) -> Result<Process, Error> {
        let Some(record) = self.record_of(run)? else { return Ok(Process::Nobody) };
        let alive = self.liveness_by_process(&record) == Some(Liveness::Alive);
        Ok(match record.owner.filter(|_| alive) {
            Some(owner) => Process::Tree { pid: owner.pid, with_root: record.command.is_none() },
            None => Process::Nobody,
        })
    }

    /// A run's record; `None` also where it is damaged, which the next write mends.
    fn record_of(&self, run: &RunId) -> Result<Option<Box<RunRecord>>, Error> {
        Ok(self.store.run(run)?.and_then(|state| state.row.record.ok()))
    }

    /// What the next capture of a run adds to.
    pub(super) fn captured_before(&self, run: &RunId) -> Result<Before, Error> {
        let captures = self.record_of(run)?.map(|record| record.captures).unwrap_or_default();
        let mut before = Before { latest: captures.latest, files: Vec::new(), peak_rss: captures.peak_rss };
        let known = self.touched.lock().unwrap_or_else(|e| e.into_inner());
        let known = known.as_ref().filter(|known| known.run == *run && known.sequence == before.latest);
        if let Some(known) = known {
            before.files.clone_from(&known.files);
        } else if before.latest > 0 {
            before.files = match self.show(&Reference::Numbered(run.clone(), before.latest), Some(run)) {
                Ok(shown) => shown.verified.body().ok().and_then(|body| body.workspace),
                // What is gone or damaged can no longer be added to; its commits are found again.
                Err(Error::NotFound { .. } | Error::Damaged(_) | Error::Newer { .. }) => None,
                Err(e) => return Err(e),
            }
            .map(|workspace| workspace.files_modified)
            .unwrap_or_default();
        }
        Ok(before)
    }

    /// Remembers what the next capture of a run adds to.
    pub(super) fn note_touched(&self, run: &RunId, sequence: u64, workspace: Option<Workspace>) {
        let files = workspace.map(|workspace| workspace.files_modified).unwrap_or_default();
        let mut known = self.touched.lock().unwrap_or_else(|e| e.into_inner());
        *known = Some(Touched { run: run.clone(), sequence, files });
    }
}

/// What a run knows of earlier looks. A run from elsewhere does not decide which folders are watched here, nor which
/// commits are compared.
fn known_captures(record: Option<Box<RunRecord>>) -> CaptureHistory {
    record.filter(|record| !record.is_foreign()).map(|record| record.captures).unwrap_or_default()
}

fn capture_since(scope: &CaptureOptions, captures: &CaptureHistory) -> WorkspaceCapture {
    let mut scope = scope.clone();
    for folder in &captures.watch {
        if !scope.watch_in_run.iter().any(|known| known.as_os_str() == folder.as_str()) {
            scope.watch_in_run.push(folder.into());
        }
    }
    capture::capture_workspace(
        &scope,
        &CaptureBaseline { base: captures.base.clone(), head: captures.head.clone() },
    )
}

impl Before {
    /// Gives a save the workspace that was seen.
    pub(super) fn join(&self, save: &mut Save, capture: &WorkspaceCapture) {
        let bounds = capture::Bounds::default();
        save.draft.workspace = Some(capture.joined(&self.files, self.peak_rss, &bounds));
    }
}

/// What a run remembers of a look. A folder whose name holds a secret is watched by whoever names it, and not remembered:
/// nothing could be replaced in it.
pub(super) fn remember(
    captures: &mut CaptureHistory,
    capture: &WorkspaceCapture,
    redaction: Redaction,
    allow: &AllowList,
    now: jiff::Timestamp,
) {
    let may_stay = |folder: &str| redaction == Redaction::Off || allow.redact_text(folder).is_none();
    captures.at = Some(now);
    let seen = capture.memory.as_ref().and_then(|memory| memory.peak_rss.max(memory.rss));
    captures.peak_rss = captures.peak_rss.max(seen);
    for folder in &capture.watch {
        if !captures.watch.contains(folder) && may_stay(folder) {
            captures.watch.push(folder.clone());
        }
    }
    if capture.git.error.is_none() {
        let head = capture.git.head.clone();
        captures.base.get_or_insert_with(|| head.clone().unwrap_or_default());
        if capture.committed_known {
            captures.head = head;
        }
    }
}
