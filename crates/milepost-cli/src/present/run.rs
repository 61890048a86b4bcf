//! The results of `start` and `delete`, and the parts of a run that several commands show.

use milepost::model::{
    CheckpointId, ContextDigest, Criterion, Decision, FileRef, LogLine, Message, Outcome, Phase, RunId,
    Status, StepState, Task,
};
use milepost::{Liveness, RunDetail, RunSummary};
use serde::Serialize;

use super::{Document, Output, format};
use crate::error::Result;

/// A new run, or a new session of an existing run.
#[derive(Serialize)]
#[serde(tag = "schema", rename = "milepost.start/1")]
pub(crate) struct StartDocument {
    pub(crate) run_id: RunId,
    pub(crate) status: Status,
    pub(crate) rejoined: bool,
}

impl Document for StartDocument {
    fn render(&self, output: &Output) -> Result<()> {
        if self.rejoined {
            output.message(&format!("{} already exists; starting a new session", self.run_id));
        }
        output.write_text(&format!("{}\n", self.run_id))
    }

    fn change(&self) -> Option<String> {
        Some(format!("run {} was started", self.run_id))
    }
}

/// A run that was deleted, or would be.
#[derive(Serialize)]
#[serde(tag = "schema", rename = "milepost.delete/1")]
pub(crate) struct DeleteDocument {
    pub(crate) run_id: RunId,
    pub(crate) checkpoints: u64,
    pub(crate) removed: Vec<CheckpointId>,
    pub(crate) bytes_freed: u64,
    pub(crate) dry_run: bool,
}

impl Document for DeleteDocument {
    fn render(&self, output: &Output) -> Result<()> {
        let run = &self.run_id;
        let n = format::counted(self.checkpoints, "checkpoint");
        if !self.dry_run {
            let freed = format::bytes(self.bytes_freed);
            return output.write_text(&format!("Deleted run {run} with {n}; {freed} freed.\n"));
        }
        let line = |id| format!("{id}  would be deleted with run {run}\n");
        let lines: String = self.removed.iter().map(line).collect();
        output.write_text(&format!("{lines}Run {run} would be deleted with {n}.\n"))
    }

    fn change(&self) -> Option<String> {
        (!self.dry_run).then(|| format!("run {} was deleted", self.run_id))
    }
}

/// The JSON form of a run.
#[derive(Debug, Serialize)]
pub(crate) struct RunDocument {
    #[serde(flatten)]
    pub(crate) summary: RunSummary,
    /// Present only for a run in full.
    #[serde(flatten)]
    pub(crate) parts: Option<RunParts>,
}

/// The fields that only a run in full has.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct RunParts {
    tasks: Vec<Task>,
    completed: Vec<String>,
    failed: Vec<String>,
    phase: Option<Phase>,
    log: Vec<LogLine>,
    criteria: Vec<Criterion>,
    step_state: Option<StepState>,
    context_digest: Option<ContextDigest>,
    decisions: Vec<Decision>,
    /// Outcomes since the newest checkpoint.
    outcomes: Vec<Outcome>,
    /// Commands that failed and were not seen to succeed since.
    failures: Vec<Outcome>,
    /// Files that tools wrote.
    files: Vec<FileRef>,
    /// What the user and the agent said, in this run and in those that it continues.
    messages: Vec<Message>,
}

impl RunParts {
    /// What the user and the agent said.
    pub(crate) fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Creates the parts from a run.
    pub(crate) fn of(detail: &RunDetail, messages: Vec<Message>) -> Self {
        let working = detail.summary().record().as_ref().map(|r| r.working().clone()).unwrap_or_default();
        Self {
            completed: Task::ids(working.tasks(), Task::is_completed),
            failed: Task::ids(working.tasks(), Task::is_failed),
            tasks: working.tasks().clone(),
            phase: working.phase().clone(),
            log: working.log().clone(),
            criteria: working.criteria().clone(),
            step_state: working.step_state().clone(),
            context_digest: working.context_digest().clone(),
            decisions: working.decisions().clone(),
            outcomes: detail.pending_outcomes().clone(),
            failures: working.failures().clone(),
            files: working.files().clone(),
            messages,
        }
    }
}

/// Whether the owner of a run is alive, with its process id.
pub(crate) fn owner(summary: &RunSummary) -> String {
    let pid = summary.record().as_ref().ok().and_then(|r| r.owner().as_ref()).map_or(0, |owner| owner.pid());
    match summary.owner() {
        None => "-".to_owned(),
        Some(Liveness::Alive) => format!("alive ({pid})"),
        Some(Liveness::Dead) => format!("dead ({pid})"),
        Some(Liveness::PresumedDead) => format!("presumed dead ({pid})"),
        Some(Liveness::Unknown) => format!("unknown ({pid})"),
    }
}

/// The number and name of a phase.
pub(crate) fn phase(phase: &Phase) -> String {
    match (&phase.name, phase.number) {
        (Some(name), 0) => name.clone(),
        (Some(name), number) => format!("{number} {name}"),
        (None, number) => number.to_string(),
    }
}
