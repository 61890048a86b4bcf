//! Since: what was recorded in a run since its newest checkpoint. Compares the checkpoint's content with
//! the run's working state, including pending items. Changes nothing.

use serde::Serialize;

use super::RunDetail;
#[cfg(feature = "internal")]
use super::{Milepost, ShownCheckpoint};
#[cfg(feature = "internal")]
use crate::Error;
use crate::model::{
    Body, Criterion, Decision, FileRef, LogLine, Message, Outcome, OutcomeResult, Phase, StepState, Task,
    WorkingState,
};

/// What was recorded in a run since its newest checkpoint.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct RecentChanges {
    /// The phase, if it changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// The current step, if it changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step_state: Option<StepState>,
    /// New tasks, and tasks that changed.
    pub tasks: Vec<Task>,
    /// New criteria, and criteria that changed.
    pub criteria: Vec<Criterion>,
    /// The outcomes of commands.
    pub outcomes: Vec<Outcome>,
    /// Files that were written.
    pub files: Vec<FileRef>,
    /// New decisions.
    pub decisions: Vec<Decision>,
    /// New lines of the log.
    pub log: Vec<LogLine>,
    /// What the user and the agent said.
    pub messages: Vec<Message>,
}

/// Number of changes since the newest checkpoint of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct PendingCounts {
    /// All changes.
    pub changes: u64,
    /// Outcomes of commands.
    pub outcomes: u64,
    /// Failed outcomes.
    pub failed: u64,
    /// Files that were written.
    pub files: u64,
    /// Tasks that are new or changed.
    pub tasks: u64,
    /// Decisions.
    pub decisions: u64,
    /// Lines of the log.
    pub notes: u64,
}

/// What the newest checkpoint contains.
pub(super) struct KnownWork<'a> {
    phase: &'a Option<Phase>,
    step_state: &'a Option<StepState>,
    tasks: &'a [Task],
    criteria: &'a [Criterion],
    files: &'a [FileRef],
    decisions: &'a [Decision],
    log: &'a [LogLine],
}

macro_rules! known_work_from {
    ($($source:ty),*) => { $(
        impl<'a> From<&'a $source> for KnownWork<'a> {
            fn from(source: &'a $source) -> Self {
                Self {
                    phase: &source.phase,
                    step_state: &source.step_state,
                    tasks: &source.tasks,
                    criteria: &source.criteria,
                    files: &source.files,
                    decisions: &source.decisions,
                    log: &source.log,
                }
            }
        }
    )* };
}
// The record of a run contains the same as its newest checkpoint, before the pending items are applied.
known_work_from![Body, WorkingState];

impl RecentChanges {
    /// Compares a run with its newest checkpoint. Without one, everything is new.
    pub(super) fn of<'a>(detail: &RunDetail, newest: Option<impl Into<KnownWork<'a>>>) -> Self {
        let newest = newest.map(Into::into);
        let Ok(record) = &detail.summary.record else { return Self::default() };
        let working = &record.working;
        let is_new_file = |file: &&FileRef| {
            detail.pending_files.contains(file)
                || newest
                    .as_ref()
                    .is_none_or(|known| !known.files.iter().any(|earlier| earlier.path == file.path))
        };
        Self {
            phase: changed(&working.phase, newest.as_ref().map(|known| known.phase)),
            step_state: changed(&working.step_state, newest.as_ref().map(|known| known.step_state)),
            tasks: added(&working.tasks, newest.as_ref().map(|known| known.tasks)),
            criteria: added(&working.criteria, newest.as_ref().map(|known| known.criteria)),
            outcomes: detail.pending_outcomes.clone(),
            files: working.files.iter().filter(is_new_file).cloned().collect(),
            decisions: added(&working.decisions, newest.as_ref().map(|known| known.decisions)),
            log: added(&working.log, newest.as_ref().map(|known| known.log)),
            messages: Vec::new(),
        }
    }

    /// Whether nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.counts().changes == 0 && self.messages.is_empty()
    }

    /// The number of changes, without messages.
    pub(super) fn counts(&self) -> PendingCounts {
        let n = |n: usize| n as u64;
        let failed = self.outcomes.iter().filter(|outcome| outcome.result == OutcomeResult::Fail).count();
        let mut counts = PendingCounts {
            changes: 0,
            outcomes: n(self.outcomes.len()),
            failed: n(failed),
            files: n(self.files.len()),
            tasks: n(self.tasks.len()),
            decisions: n(self.decisions.len()),
            notes: n(self.log.len()),
        };
        let others =
            n(self.criteria.len()) + u64::from(self.phase.is_some()) + u64::from(self.step_state.is_some());
        counts.changes =
            counts.outcomes + counts.files + counts.tasks + counts.decisions + counts.notes + others;
        counts
    }
}

/// The elements that an earlier list does not contain.
fn added<T: Clone + PartialEq>(now: &[T], before: Option<&[T]>) -> Vec<T> {
    let before = before.unwrap_or_default();
    // Most lists only grow.
    let same = now.iter().zip(before).take_while(|(now, before)| now == before).count();
    now[same..].iter().filter(|value| !before.contains(value)).cloned().collect()
}

/// The value, if it differs from an earlier one.
fn changed<T: Clone + PartialEq>(now: &Option<T>, before: Option<&Option<T>>) -> Option<T> {
    now.clone().filter(|_| before != Some(now))
}

#[cfg(feature = "internal")]
impl Milepost {
    /// The run of a checkpoint, and what was recorded in it since; `None` if the run has a newer checkpoint.
    pub fn changes_since(
        &self,
        shown: &ShownCheckpoint,
    ) -> Result<Option<(RunDetail, RecentChanges)>, Error> {
        let header = &shown.entry.header;
        let Some(state) = self.store.run(&header.run_id)? else { return Ok(None) };
        let detail = self.detail_of(state);
        let newest = detail.summary.latest.as_ref().map(|entry| &entry.header.snapshot_id);
        let (true, Ok(body)) = (newest == Some(&header.snapshot_id), shown.body()) else { return Ok(None) };
        let mut changes = RecentChanges::of(&detail, Some(&body));
        let said = self.messages_of(&header.run_id)?.into_iter();
        changes.messages = said.filter(|message| !message.is_before(body.created_at)).collect();
        Ok(Some((detail, changes)))
    }
}
