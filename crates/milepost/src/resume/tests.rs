//! Tests of resume decisions.

use jiff::SignedDuration;
use rstest::rstest;

use super::*;
use crate::model::{Interruption, OutcomeKind, Profile, ResumeHints, StepState};

fn now() -> Timestamp {
    "2026-11-15T12:00:00Z".parse().unwrap()
}

fn record() -> RunRecord {
    let mut record = RunRecord::new("r".parse().unwrap(), Profile::Run, now());
    record.updated_at = now() - SignedDuration::from_mins(1);
    record
}

fn case(record: &RunRecord, owner: Option<Liveness>) -> ResumeInput<'_> {
    ResumeInput {
        record,
        outcomes: &[],
        owner,
        age: None,
        has_checkpoint: true,
        claim: ClaimState::Unclaimed,
        now: now(),
    }
}

fn failed(reason: &str) -> Outcome {
    Outcome {
        duration_ms: 1,
        kind: OutcomeKind::Shell,
        name: "make".into(),
        reason_code: Some(reason.into()),
        result: OutcomeResult::Fail,
        summary: String::new(),
        extra: Default::default(),
    }
}

#[rstest]
#[case(Status::InProgress, Some(Liveness::Dead), None, RunState::Stopped, InterruptionKind::ProcessCrash)]
#[case(
    Status::InProgress,
    Some(Liveness::PresumedDead),
    None,
    RunState::Stopped,
    InterruptionKind::ProcessCrash
)]
#[case(
    Status::InProgress,
    Some(Liveness::Dead),
    Some(InterruptionKind::Interrupted),
    RunState::Stopped,
    InterruptionKind::Interrupted
)]
#[case(Status::InProgress, Some(Liveness::Alive), None, RunState::Active, InterruptionKind::Unknown)]
#[case(
    Status::InProgress,
    Some(Liveness::Alive),
    Some(InterruptionKind::WaitingForUser),
    RunState::Waiting,
    InterruptionKind::WaitingForUser
)]
#[case(
    Status::InProgress,
    Some(Liveness::Dead),
    Some(InterruptionKind::UsageLimit),
    RunState::Stopped,
    InterruptionKind::UsageLimit
)]
#[case(Status::InProgress, Some(Liveness::Unknown), None, RunState::Unseen, InterruptionKind::Unknown)]
#[case(Status::InProgress, None, None, RunState::Open, InterruptionKind::CleanStop)]
#[case(Status::Paused, None, None, RunState::Stopped, InterruptionKind::CleanStop)]
#[case(Status::Paused, Some(Liveness::Dead), None, RunState::Stopped, InterruptionKind::CleanStop)]
#[case(Status::Paused, Some(Liveness::Alive), None, RunState::Active, InterruptionKind::Unknown)]
#[case(Status::Failed, Some(Liveness::Alive), None, RunState::Stopped, InterruptionKind::ToolFailure)]
#[case(Status::Completed, Some(Liveness::Dead), None, RunState::Ended, InterruptionKind::CleanStop)]
fn run_states(
    #[case] status: Status,
    #[case] owner: Option<Liveness>,
    #[case] noted: Option<InterruptionKind>,
    #[case] run_state: RunState,
    #[case] class: InterruptionKind,
) {
    let mut record = record();
    record.status = status;
    record.interruption = noted.map(|class| Interruption { class, at: now(), detail: None });
    assert_eq!(case(&record, owner).run_state(&ResumePolicy::default()), (run_state, class));
}

#[test]
fn silence_is_counted_to_the_quarter_of_an_hour() {
    let mut record = record();
    record.updated_at = now() - SignedDuration::from_mins(15);
    let alive = Some(Liveness::Alive);
    assert_eq!(case(&record, alive).run_state(&ResumePolicy::default()).0, RunState::Active);
    record.updated_at = now() - SignedDuration::from_secs(15 * 60 + 1);
    assert_eq!(case(&record, alive).run_state(&ResumePolicy::default()).0, RunState::Stalled);
    // The store's clock takes precedence over the times in the record.
    let by_store = |seconds| ResumeInput { age: Some(Duration::from_secs(seconds)), ..case(&record, alive) };
    assert_eq!(by_store(60).run_state(&ResumePolicy::default()).0, RunState::Active);
    assert_eq!(by_store(15 * 60 + 1).run_state(&ResumePolicy::default()).0, RunState::Stalled);
    // An owner does not count as silent if the clock went backwards.
    record.updated_at = now() + SignedDuration::from_hours(24);
    assert_eq!(case(&record, alive).run_state(&ResumePolicy::default()).0, RunState::Active);
}

#[test]
fn a_failure_is_classed_by_what_failed_last() {
    let mut record = record();
    record.status = Status::Failed;
    let outcomes = [failed("exit_1"), failed("timeout_after_60s")];
    let of = |outcomes| ResumeInput { outcomes, ..case(&record, None) }.run_state(&ResumePolicy::default()).1;
    assert_eq!(of(&outcomes[..]), InterruptionKind::Timeout);
    assert_eq!(of(&outcomes[..1]), InterruptionKind::ToolFailure);
}

#[test]
fn what_stands_against_it_is_named() {
    use ReasonCode as R;
    let policy = ResumePolicy { cooldown: Duration::from_secs(60), ..ResumePolicy::default() };
    let dead = Some(Liveness::Dead);
    let stopped = record();
    let reason = |case: ResumeInput<'_>, take_over| case.decide(&policy, take_over).reason_code;
    assert_eq!(reason(case(&stopped, dead), false), R::ResumeAllowed);
    assert!(case(&stopped, dead).decide(&policy, false).eligible);
    let by = ClaimState::ClaimedBy("other".into());
    assert_eq!(reason(ResumeInput { claim: by, ..case(&stopped, dead) }, false), R::ResumeClaimed);
    let bare = ResumeInput { has_checkpoint: false, ..case(&stopped, dead) };
    assert_eq!(reason(bare, false), R::ResumeMissingCheckpoint);
    let alive = Some(Liveness::Alive);
    assert_eq!(reason(case(&stopped, alive), true), R::ResumeRunActive, "an active run is never taken over");
    let mut waiting = record();
    waiting.interruption = Some(Interruption { class: InterruptionKind::ApiError, at: now(), detail: None });
    assert_eq!(reason(case(&waiting, alive), false), R::ResumeRunActive);
    assert_eq!(reason(case(&waiting, alive), true), R::ResumeAllowed);
    let unseen = Some(Liveness::Unknown);
    assert_eq!(reason(case(&stopped, unseen), false), R::ResumeUnknownInterruptionClass);
    assert_eq!(reason(case(&stopped, unseen), true), R::ResumeAllowed);
    let mut often = record();
    often.attempts = 3;
    assert_eq!(reason(case(&often, dead), false), R::ResumeAttemptLimitReached);
    let mut soon = record();
    soon.attempted_at = Some(now() - SignedDuration::from_secs(59));
    assert_eq!(reason(case(&soon, dead), false), R::ResumeBlockedCooldown);
    let mut step = record();
    step.working.open_steps.push(StepState {
        step_status: Some(StepStatus::InProgress),
        resume_hints: ResumeHints { eligible: Some(false), ..ResumeHints::default() },
        ..StepState::default()
    });
    assert_eq!(reason(case(&step, dead), false), R::ResumeNonIdempotentStep);
    step.working.open_steps[0].step_status = Some(StepStatus::Done);
    assert_eq!(reason(case(&step, dead), false), R::ResumeAllowed);
}
