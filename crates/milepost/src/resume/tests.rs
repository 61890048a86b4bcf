//! Decisions by tables.

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

fn case(record: &RunRecord, owner: Option<Liveness>) -> Case<'_> {
    Case { record, outcomes: &[], owner, has_checkpoint: true, taken: Taken::No, now: now() }
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
#[case(Status::InProgress, Some(Liveness::Dead), None, Standing::Stopped, Class::ProcessCrash)]
#[case(Status::InProgress, Some(Liveness::PresumedDead), None, Standing::Stopped, Class::ProcessCrash)]
#[case(Status::InProgress, Some(Liveness::Alive), None, Standing::Active, Class::Unknown)]
#[case(
    Status::InProgress,
    Some(Liveness::Alive),
    Some(Class::WaitingForUser),
    Standing::Waiting,
    Class::WaitingForUser
)]
#[case(
    Status::InProgress,
    Some(Liveness::Dead),
    Some(Class::UsageLimit),
    Standing::Stopped,
    Class::UsageLimit
)]
#[case(Status::InProgress, Some(Liveness::Unknown), None, Standing::Unseen, Class::Unknown)]
#[case(Status::InProgress, None, None, Standing::Open, Class::CleanStop)]
#[case(Status::Paused, None, None, Standing::Stopped, Class::CleanStop)]
#[case(Status::Paused, Some(Liveness::Dead), None, Standing::Stopped, Class::CleanStop)]
#[case(Status::Paused, Some(Liveness::Alive), None, Standing::Active, Class::Unknown)]
#[case(Status::Failed, Some(Liveness::Alive), None, Standing::Stopped, Class::ToolFailure)]
#[case(Status::Completed, Some(Liveness::Dead), None, Standing::Ended, Class::CleanStop)]
fn standings(
    #[case] status: Status,
    #[case] owner: Option<Liveness>,
    #[case] noted: Option<Class>,
    #[case] standing: Standing,
    #[case] class: Class,
) {
    let mut record = record();
    record.status = status;
    record.interruption = noted.map(|class| Interruption { class, at: now(), detail: None });
    assert_eq!(case(&record, owner).standing(&ResumePolicy::default()), (standing, class));
}

#[test]
fn silence_is_counted_to_the_quarter_of_an_hour() {
    let mut record = record();
    record.updated_at = now() - SignedDuration::from_mins(15);
    let alive = Some(Liveness::Alive);
    assert_eq!(case(&record, alive).standing(&ResumePolicy::default()).0, Standing::Active);
    record.updated_at = now() - SignedDuration::from_secs(15 * 60 + 1);
    assert_eq!(case(&record, alive).standing(&ResumePolicy::default()).0, Standing::Stalled);
    // A clock that went back makes nobody silent.
    record.updated_at = now() + SignedDuration::from_hours(24);
    assert_eq!(case(&record, alive).standing(&ResumePolicy::default()).0, Standing::Active);
}

#[test]
fn a_failure_is_classed_by_what_failed_last() {
    let mut record = record();
    record.status = Status::Failed;
    let outcomes = [failed("exit_1"), failed("timeout_after_60s")];
    let of = |outcomes| Case { outcomes, ..case(&record, None) }.standing(&ResumePolicy::default()).1;
    assert_eq!(of(&outcomes[..]), Class::Timeout);
    assert_eq!(of(&outcomes[..1]), Class::ToolFailure);
}

#[test]
fn what_stands_against_it_is_named() {
    use ReasonCode as R;
    let policy = ResumePolicy { cooldown: Duration::from_secs(60), ..ResumePolicy::default() };
    let dead = Some(Liveness::Dead);
    let stopped = record();
    let reason = |case: Case<'_>, take_over| case.decide(&policy, take_over).reason_code;
    assert_eq!(reason(case(&stopped, dead), false), R::ResumeAllowed);
    assert!(case(&stopped, dead).decide(&policy, false).eligible);
    let by = Taken::By("other".into());
    assert_eq!(reason(Case { taken: by, ..case(&stopped, dead) }, false), R::ResumeClaimed);
    let bare = Case { has_checkpoint: false, ..case(&stopped, dead) };
    assert_eq!(reason(bare, false), R::ResumeMissingCheckpoint);
    let alive = Some(Liveness::Alive);
    assert_eq!(reason(case(&stopped, alive), true), R::ResumeRunActive, "one at work is never taken over");
    let mut waiting = record();
    waiting.interruption = Some(Interruption { class: Class::ApiError, at: now(), detail: None });
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
