//! Decides why a run does not go on, and whether it may be continued. Pure. In: a run's record, the liveness of its
//! owner, and whether another run has claimed it. Out: a decision with its reason.

pub(crate) mod session;
#[cfg(test)]
mod tests;

use std::time::Duration;

use jiff::Timestamp;

use crate::ReasonCode;
use crate::clock;
use crate::model::{InterruptionKind, Outcome, OutcomeResult, RunRecord, Status, StepStatus};
use crate::owner::Liveness;

/// What resuming goes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResumePolicy {
    /// How often a run may be continued.
    pub attempts: u64,
    /// How long after one attempt the next may follow.
    pub cooldown: Duration,
    /// How long a live owner may be silent before it counts as stalled.
    pub stalled: Duration,
}

impl Default for ResumePolicy {
    fn default() -> Self {
        Self { attempts: 3, cooldown: Duration::ZERO, stalled: Duration::from_secs(15 * 60) }
    }
}

/// The state of a run, judged by its record and its owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunState {
    /// Its owner lives and works.
    Active,
    /// Its owner lives and waits: for a person, a limit, the model.
    Waiting,
    /// Its owner lives and has been silent for long.
    Stalled,
    /// Its owner cannot be seen.
    Unseen,
    /// It stopped before its end.
    Stopped,
    /// It is kept by hand and has not ended.
    Open,
    /// It reached its end.
    Ended,
}

impl RunState {
    /// Whether it is something to continue.
    pub fn is_stopped(self) -> bool {
        matches!(self, Self::Stopped | Self::Open)
    }
}

/// Which run has claimed a run in order to continue it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClaimState {
    /// Nobody, or one that never began.
    Unclaimed,
    /// The run of this id.
    ClaimedBy(String),
}

/// What a decision rests on.
#[derive(Debug, Clone)]
pub(crate) struct ResumeInput<'a> {
    /// The run's record, with what was recorded since its newest checkpoint.
    pub record: &'a RunRecord,
    /// The outcomes of its newest checkpoint and since, oldest first.
    pub outcomes: &'a [Outcome],
    /// Its owner; `None` for a run kept by hand.
    pub owner: Option<Liveness>,
    /// Whether it has a checkpoint that is intact.
    pub has_checkpoint: bool,
    /// Which run has claimed it.
    pub claim: ClaimState,
    /// The time.
    pub now: Timestamp,
}

/// Whether a run may be continued, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct ResumeDecision {
    /// The reason: `resume_allowed`, or what stands against it.
    pub reason_code: ReasonCode,
    /// Why the run does not go on.
    pub class: InterruptionKind,
    /// How it stands.
    #[serde(skip)]
    pub run_state: RunState,
    /// Whether it may be continued.
    pub eligible: bool,
}

impl ResumeInput<'_> {
    /// How the run stands, and why it does not go on.
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
            // Nobody has said that it is over, and nobody is there who could have crashed.
            (Status::InProgress, None) => (RunState::Open, noted.unwrap_or(InterruptionKind::CleanStop)),
        }
    }

    fn is_silent(&self, policy: &ResumePolicy) -> bool {
        clock::age(self.record.updated_at, self.now).is_some_and(|age| age > policy.stalled)
    }

    /// What made the work fail: the last thing that did.
    fn failure_kind(&self) -> InterruptionKind {
        let last = self.outcomes.iter().rfind(|outcome| outcome.result == OutcomeResult::Fail);
        match last.and_then(|outcome| outcome.reason_code.as_deref()) {
            Some(code) if code.contains("timeout") => InterruptionKind::Timeout,
            _ => InterruptionKind::ToolFailure,
        }
    }

    /// Decides. `take_over` sets aside that an owner lives, unless it is at work.
    pub(crate) fn decide(&self, policy: &ResumePolicy, take_over: bool) -> ResumeDecision {
        let (run_state, class) = self.run_state(policy);
        let reason_code =
            self.blocking_reason(policy, run_state, take_over).unwrap_or(ReasonCode::ResumeAllowed);
        ResumeDecision { reason_code, class, run_state, eligible: reason_code == ReasonCode::ResumeAllowed }
    }

    /// What stands against continuing it.
    fn blocking_reason(
        &self,
        policy: &ResumePolicy,
        run_state: RunState,
        take_over: bool,
    ) -> Option<ReasonCode> {
        let record = self.record;
        match run_state {
            RunState::Active => return Some(ReasonCode::ResumeRunActive),
            // No checkpoint of it is incomplete.
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
