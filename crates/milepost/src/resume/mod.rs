//! Decides why a run stopped, and whether it may be continued. Takes the run's record, the liveness of its
//! owner and the claim on it; returns a decision with its reason. Pure: must not read the store or the clock.

pub(crate) mod rank;
pub(crate) mod session;
#[cfg(test)]
mod tests;

use std::time::Duration;

use jiff::Timestamp;

use crate::ReasonCode;
use crate::clock;
use crate::model::{InterruptionKind, Outcome, OutcomeResult, RunRecord, Status, StepStatus};
use crate::owner::Liveness;

/// The limits for resuming a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResumePolicy {
    /// Maximum number of attempts to continue a run.
    pub attempts: u64,
    /// Minimum time between two attempts.
    pub cooldown: Duration,
    /// How long a live owner may be silent before it counts as stalled.
    pub stalled: Duration,
}

impl Default for ResumePolicy {
    fn default() -> Self {
        Self { attempts: 3, cooldown: Duration::ZERO, stalled: Duration::from_secs(15 * 60) }
    }
}

/// Whether a run is active, stopped or ended, judged by its record and its owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunState {
    /// Its owner is alive and working.
    Active,
    /// Its owner is alive and waiting: for the user, a limit or the model.
    Waiting,
    /// Its owner is alive but has been silent for too long.
    Stalled,
    /// It is unknown whether its owner is alive.
    Unseen,
    /// It stopped before it was completed.
    Stopped,
    /// It has no owner process and has not ended.
    Open,
    /// It was completed.
    Ended,
}

impl RunState {
    /// Whether the run stopped without being completed, so that it could be continued.
    pub fn is_stopped(self) -> bool {
        matches!(self, Self::Stopped | Self::Open)
    }

    /// Whether the owner is alive.
    pub fn is_live(self) -> bool {
        matches!(self, Self::Active | Self::Waiting | Self::Stalled)
    }
}

/// The claim on a run by another run that continues it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClaimState {
    /// No run has claimed it, or the one that did never started.
    Unclaimed,
    /// The run with this id has claimed it.
    ClaimedBy(String),
}

/// The input of a decision.
#[derive(Debug, Clone)]
pub(crate) struct ResumeInput<'a> {
    /// The run's record, including changes since its newest checkpoint.
    pub record: &'a RunRecord,
    /// The outcomes in its newest checkpoint and since then, oldest first.
    pub outcomes: &'a [Outcome],
    /// The liveness of its owner; `None` for a run without an owner.
    pub owner: Option<Liveness>,
    /// Time since the last write that was part of the work, by the store's clock; `None` if the store has none.
    pub age: Option<Duration>,
    /// Whether it has an intact checkpoint.
    pub has_checkpoint: bool,
    /// The claim on the run.
    pub claim: ClaimState,
    /// The current time.
    pub now: Timestamp,
}

/// Whether a run may be continued, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct ResumeDecision {
    /// `resume_allowed`, or the reason that prevents it.
    pub reason_code: ReasonCode,
    /// Why the run stopped.
    pub class: InterruptionKind,
    /// Whether the run is active, stopped or ended.
    #[serde(skip)]
    pub run_state: RunState,
    /// Whether it may be continued.
    pub eligible: bool,
}

impl ResumeInput<'_> {
    /// Whether the run is active, stopped or ended, and why it stopped.
    pub(crate) fn run_state(&self, policy: &ResumePolicy) -> (RunState, InterruptionKind) {
        let record = self.record;
        let noted = record.interruption.as_ref().map(|noted| noted.class);
        match (record.status, self.owner) {
            (Status::Completed, _) => (RunState::Ended, InterruptionKind::CleanStop),
            (Status::Failed, _) => (RunState::Stopped, noted.unwrap_or_else(|| self.failure_kind())),
            (_, Some(Liveness::Alive)) => match noted {
                Some(class) => (RunState::Waiting, class),
                None if self.is_silent(policy) => (RunState::Stalled, InterruptionKind::Stalled),
                None => (RunState::Active, InterruptionKind::Unknown),
            },
            (_, Some(Liveness::Unknown)) => (RunState::Unseen, InterruptionKind::Unknown),
            (Status::Paused, _) => (RunState::Stopped, noted.unwrap_or(InterruptionKind::CleanStop)),
            (Status::InProgress, Some(Liveness::Dead | Liveness::PresumedDead)) => {
                (RunState::Stopped, noted.unwrap_or(InterruptionKind::ProcessCrash))
            }
            // The run was not ended, and it has no owner that could have crashed.
            (Status::InProgress, None) => (RunState::Open, noted.unwrap_or(InterruptionKind::CleanStop)),
        }
    }

    fn is_silent(&self, policy: &ResumePolicy) -> bool {
        let age = self.age.or_else(|| clock::age(self.record.updated_at, self.now));
        age.is_some_and(|age| age > policy.stalled)
    }

    /// Classifies a failure by the last failed outcome.
    fn failure_kind(&self) -> InterruptionKind {
        let last = self.outcomes.iter().rfind(|outcome| outcome.result == OutcomeResult::Fail);
        match last.and_then(|outcome| outcome.reason_code.as_deref()) {
            Some(code) if code.contains("timeout") => InterruptionKind::Timeout,
            _ => InterruptionKind::ToolFailure,
        }
    }

    /// Decides whether the run may be continued. `take_over` allows it even if the owner is alive or its
    /// liveness is unknown, but never while the run is active.
    pub(crate) fn decide(&self, policy: &ResumePolicy, take_over: bool) -> ResumeDecision {
        let (run_state, class) = self.run_state(policy);
        let reason_code =
            self.blocking_reason(policy, run_state, take_over).unwrap_or(ReasonCode::ResumeAllowed);
        ResumeDecision { reason_code, class, run_state, eligible: reason_code == ReasonCode::ResumeAllowed }
    }

    /// The reason that prevents the run from being continued.
    fn blocking_reason(
        &self,
        policy: &ResumePolicy,
        run_state: RunState,
        take_over: bool,
    ) -> Option<ReasonCode> {
        let record = self.record;
        match run_state {
            RunState::Active => return Some(ReasonCode::ResumeRunActive),
            // A completed run has no checkpoint of unfinished work.
            RunState::Ended => return Some(ReasonCode::ResumeMissingCheckpoint),
            RunState::Waiting | RunState::Stalled if !take_over => return Some(ReasonCode::ResumeRunActive),
            RunState::Unseen if !take_over => return Some(ReasonCode::ResumeUnknownInterruptionClass),
            _ => {}
        }
        if self.claim != ClaimState::Unclaimed {
            return Some(ReasonCode::ResumeClaimed);
        }
        if !self.has_checkpoint {
            return Some(ReasonCode::ResumeMissingCheckpoint);
        }
        if record.attempts >= policy.attempts {
            return Some(ReasonCode::ResumeAttemptLimitReached);
        }
        let since = record.attempted_at.and_then(|at| clock::age(at, self.now));
        if since.is_some_and(|since| since < policy.cooldown) {
            return Some(ReasonCode::ResumeBlockedCooldown);
        }
        let steps = record.working.open_steps.iter().chain(&record.working.step_state);
        let refused = |step: &crate::model::StepState| {
            step.step_status == Some(StepStatus::InProgress) && step.resume_hints.eligible == Some(false)
        };
        steps.into_iter().any(refused).then_some(ReasonCode::ResumeNonIdempotentStep)
    }
}
