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

impl RecentChanges {
    /// Compares a run with its newest checkpoint. Without one, everything is new.
    pub(super) fn of(detail: &RunDetail, newest: Option<&Body>) -> Self {
        let Ok(record) = &detail.summary.record else { return Self::default() };
        let working = &record.working;
        let is_new_file = |file: &&FileRef| {
            detail.pending_files.contains(file)
                || newest.is_none_or(|body| !body.files.iter().any(|known| known.path == file.path))
        };
        Self {
            phase: changed(&working.phase, newest.map(|body| &body.phase)),
            step_state: changed(&working.step_state, newest.map(|body| &body.step_state)),
            tasks: added(&working.tasks, newest.map(|body| &body.tasks)),
            criteria: added(&working.criteria, newest.map(|body| &body.criteria)),
            outcomes: detail.pending_outcomes.clone(),
            files: working.files.iter().filter(is_new_file).cloned().collect(),
            decisions: added(&working.decisions, newest.map(|body| &body.decisions)),
            log: added(&working.log, newest.map(|body| &body.log)),
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
fn added<T: Clone + PartialEq>(now: &[T], before: Option<&Vec<T>>) -> Vec<T> {
    now.iter().filter(|value| before.is_none_or(|before| !before.contains(value))).cloned().collect()
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
