//! Runs: one or several, started or deleted; as JSON, and as lines for people.

use milepost::model::{
    CheckpointId, ContextDigest, Criterion, Decision, LogLine, Outcome, Phase, RunId, Status, StepState, Task,
};
use milepost::{Liveness, RunDetail, RunSummary};
use serde::Serialize;

use super::{Document, Output, format};
use crate::error::Result;

/// A run that was started, or a new session of one.
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
            output.message(&format!("{} was there already: a new session of it begins", self.run_id));
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
            return output.write_text(&format!("Run {run} is deleted with {n}; {freed} freed.\n"));
        }
        let line = |id| format!("{id}  would go: it belongs to run {run}\n");
        let lines: String = self.removed.iter().map(line).collect();
        output.write_text(&format!("{lines}Run {run} would be deleted with {n}.\n"))
    }

    fn change(&self) -> Option<String> {
        (!self.dry_run).then(|| format!("run {} was deleted", self.run_id))
    }
}

/// One run as programs see it.
#[derive(Debug, Serialize)]
pub(crate) struct RunDocument {
    #[serde(flatten)]
    pub(crate) summary: RunSummary,
    /// Only of a run in full.
    #[serde(flatten)]
    pub(crate) parts: Option<RunParts>,
}

/// What only a run in full tells.
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
    /// How commands ended since the newest checkpoint.
    outcomes: Vec<Outcome>,
}

impl RunParts {
    /// The parts of a run.
    pub(crate) fn of(detail: &RunDetail) -> Self {
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
        }
    }
}

/// A short name for the state of a run, from its record and its owner.
pub(crate) fn state_name(summary: &RunSummary) -> &'static str {
    let Ok(record) = &summary.record() else { return "damaged" };
    match (record.status(), summary.owner()) {
        (Status::Completed, _) => "completed",
        (Status::Failed, _) => "failed",
        (_, Some(Liveness::Alive)) => "live",
        (_, Some(Liveness::Dead)) => "stopped",
        (_, Some(Liveness::PresumedDead)) => "presumed dead",
        (Status::Paused, _) => "paused",
        (Status::InProgress, _) => "open",
    }
}

/// Whether the owner of a run lives, for people.
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

/// A phase for people: its number and its name.
pub(crate) fn phase(phase: &Phase) -> String {
    match (&phase.name, phase.number) {
        (Some(name), 0) => name.clone(),
        (Some(name), number) => format!("{number} {name}"),
        (None, number) => number.to_string(),
    }
}
