//! Interrupted runs: why they stopped, and which other run may continue them. Uses real processes that die.

use std::process::{Child, Command};

use milepost::Settings;
use milepost::internal::engine::ResumePolicy;
use milepost::internal::engine::RunState;
use milepost::internal::engine::StartOptions;
use milepost::model::{EventType, Interruption, InterruptionKind, Owner, Status, TaskChange, TaskStatus};
use milepost::{Error, Milepost, ReasonCode, Redaction, Save};
use rstest::rstest;

use crate::engine::{Kind, World, run};

/// A process that owns a run until it is killed.
struct Worker(Child);

impl Worker {
    fn new() -> Self {
        Self(Command::new("sleep").arg("600").spawn().unwrap())
    }

    fn owner(&self) -> Owner {
        milepost::internal::owner::describe(self.0.id()).unwrap()
    }

    fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(name: &str, worker: &Worker) -> StartOptions {
    let mut start = StartOptions { run_id: Some(run(name)), ..StartOptions::default() };
    start.run_options.owner = Some(worker.owner());
    start
}

/// Creates a run with a checkpoint and kills its owner.
fn crashed(world: &World, name: &str) {
    let worker = Worker::new();
    world.mp.start(start(name, &worker)).unwrap();
    let save = Save::new().change(TaskChange::new("t1", TaskStatus::Pending));
    world.mp.save(&run(name), save.summary("half way")).unwrap();
    worker.kill();
}

fn reason(mp: &Milepost, name: &str) -> ReasonCode {
    mp.assess(&run(name), false).unwrap().decision.reason_code
}

#[rstest]
fn a_run_whose_id_is_a_secret_leaves_no_trace_in_the_one_that_it_would_continue(
    #[values(Kind::Sqlite, Kind::Files)] kind: Kind,
) {
    let world = World::new(kind);
    crashed(&world, "left");
    let mp = world.mp.clone().with_settings(Settings::default().redaction(Redaction::On));
    let secret = format!("ghp_{}", "a1B2c3D4e5F6".repeat(3));
    let before = mp.events(None, None, 0).unwrap().events;
    mp.run(&secret).continuing(&run("left")).start().unwrap_err();
    assert_eq!(mp.events(None, None, 0).unwrap().events, before);
    assert_eq!(reason(&mp, "left"), ReasonCode::ResumeAllowed);
    mp.run("next").continuing(&run("left")).start().unwrap();
}

#[rstest]
fn a_killed_owner_leaves_a_run_that_is_continued_once(#[values(Kind::Sqlite, Kind::Files)] kind: Kind) {
    let world = World::new(kind);
    crashed(&world, "a");
    let found = world.mp.candidates().unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].decision.class, found[0].decision.eligible), (InterruptionKind::ProcessCrash, true));
    let next = Worker::new();
    let continued = world.mp.continue_run(&run("a"), start("b", &next), false).unwrap();
    let record = &continued.started.record;
    let latest = continued.from.shown.unwrap().entry().header.snapshot_id().clone();
    assert_eq!(record.parent().as_ref(), Some(&latest), "the checkpoint that it continues");
    assert_eq!(record.working().tasks().len(), 1, "the tasks are carried over");
    assert_eq!(record.working().task_summary().as_deref(), Some("half way"));
    // A second attempt is refused and learns which run has the claim.
    let other = Worker::new();
    let refused = world.mp.continue_run(&run("a"), start("c", &other), false).unwrap_err();
    assert!(matches!(&refused, Error::NotResumable { why, .. } if why.contains("run b")), "{refused}");
    assert_eq!(refused.reason(), ReasonCode::ResumeClaimed);
    let saved = world.mp.save(&run("b"), Save::new().summary("on")).unwrap();
    let body = world.mp.show(&saved.snapshot_id().as_str().parse().unwrap(), None).unwrap();
    assert_eq!(body.body().unwrap().parent, Some(latest));
    next.kill();
    assert_eq!(
        reason(&world.mp, "a"),
        ReasonCode::ResumeClaimed,
        "b has a checkpoint, so its claim is permanent"
    );
    assert_eq!(reason(&world.mp, "b"), ReasonCode::ResumeAllowed);
    let events = world.mp.events(Some(&run("a")), None, 0).unwrap().events;
    let kinds: Vec<_> = events.iter().map(|event| event.kind).collect();
    assert!(kinds.contains(&EventType::Resumed) && kinds.contains(&EventType::ResumeRefused), "{kinds:?}");
}

#[rstest]
fn a_program_continues_an_interrupted_run(#[values(Kind::Sqlite, Kind::Files)] kind: Kind) {
    let world = World::new(kind);
    let worker = Worker::new();
    world.mp.start(start("a", &worker)).unwrap();
    let save = Save::new().change(TaskChange::new("t1", TaskStatus::Done)).state(&[1, 2, 3]).unwrap();
    world.mp.save(&run("a"), save).unwrap();
    assert!(world.mp.resumable_runs().unwrap().is_empty(), "its owner is alive");
    worker.kill();
    let found = world.mp.resumable_runs().unwrap();
    assert_eq!(found.iter().map(|summary| summary.run_id().as_str()).collect::<Vec<_>>(), ["a"]);
    let handle = world.mp.run("b").continuing(found[0].run_id()).start().unwrap();
    assert!(handle.is_done("t1"));
    assert_eq!(handle.state::<Vec<u64>>().unwrap(), Some(vec![1, 2, 3]));
    assert!(matches!(world.mp.new_run().continuing(&run("a")).start(), Err(Error::NotResumable { .. })));
    handle.save(Save::new().summary("on")).unwrap();
    assert_eq!(
        world.mp.state_of::<Vec<u64>>(&run("b")).unwrap(),
        Some(vec![1, 2, 3]),
        "the new run saves the state"
    );
    assert!(world.mp.resumable_runs().unwrap().is_empty(), "another run continues it");
}

#[rstest]
fn an_imported_run_is_not_offered_to_programs(#[values(Kind::Sqlite, Kind::Files)] kind: Kind) {
    let world = World::new(kind);
    crashed(&world, "a");
    assert_eq!(world.mp.resumable_runs().unwrap().len(), 1);
    let origin = r#"{"kind":"bundle","from":"elsewhere","at":"2026-01-01T00:00:00Z"}"#;
    let adopt = |view: &milepost::store::RunView| {
        let record = milepost_testkit::fixtures::set_member(view.record.as_ref().unwrap(), "origin", origin);
        milepost::store::WriteDecision::Commit(Box::new(milepost::store::Commit::new(record)))
    };
    world.mp.raw_store().write(&run("a"), &mut { adopt }).unwrap();
    assert!(world.mp.resumable_runs().unwrap().is_empty());
    world.mp.run("b").continuing(&run("a")).start().unwrap();
}

#[rstest]
fn one_that_starts_and_ends_without_a_checkpoint_uses_nothing_up(
    #[values(Kind::Sqlite, Kind::Files)] kind: Kind,
) {
    let world = World::new(kind);
    crashed(&world, "a");
    for i in 0..5 {
        let next = Worker::new();
        world.mp.continue_run(&run("a"), start(&format!("b{i}"), &next), false).unwrap();
        assert_eq!(reason(&world.mp, "a"), ReasonCode::ResumeClaimed);
        next.kill();
        assert_eq!(reason(&world.mp, "a"), ReasonCode::ResumeAllowed, "round {i}");
    }
}

#[rstest]
fn one_whose_run_somebody_else_holds_takes_nothing(#[values(Kind::Sqlite, Kind::Files)] kind: Kind) {
    let world = World::new(kind);
    crashed(&world, "a");
    let (holder, other) = (Worker::new(), Worker::new());
    world.mp.start(start("b", &holder)).unwrap();
    let refused = world.mp.continue_run(&run("a"), start("b", &other), false).unwrap_err();
    assert!(matches!(refused, Error::OwnerAlive { .. }), "{refused}");
    assert_eq!(reason(&world.mp, "a"), ReasonCode::ResumeAllowed, "the refused attempt left no claim");
    // A run keeps its claim when another process tries to start that run.
    world.mp.continue_run(&run("a"), start("c", &holder), false).unwrap();
    world.mp.continue_run(&run("a"), start("c", &other), false).unwrap_err();
    assert_eq!(reason(&world.mp, "a"), ReasonCode::ResumeClaimed);
}

#[rstest]
fn of_many_who_try_at_once_one_gets_it(#[values(Kind::Sqlite, Kind::Files)] kind: Kind) {
    let world = World::new(kind);
    crashed(&world, "a");
    let worker = Worker::new();
    let won: Vec<bool> = std::thread::scope(|scope| {
        let tries: Vec<_> = (0..6)
            .map(|i| {
                let (mp, start) = (world.mp.clone(), start(&format!("b{i}"), &worker));
                scope.spawn(move || match mp.continue_run(&run("a"), start, false) {
                    Ok(_) => true,
                    Err(e) => {
                        assert_eq!(e.reason(), ReasonCode::ResumeClaimed, "{e}");
                        false
                    }
                })
            })
            .collect();
        tries.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(won.iter().filter(|won| **won).count(), 1, "{won:?}");
}

#[test]
fn a_live_owner_is_never_offered_and_a_silent_one_is_taken_over_on_request() {
    let world = World::new(Kind::Sqlite);
    let worker = Worker::new();
    world.mp.start(start("a", &worker)).unwrap();
    world.mp.save(&run("a"), Save::new().summary("at work")).unwrap();
    let standing = || world.mp.candidates().unwrap()[0].decision;
    assert_eq!((standing().run_state, standing().eligible), (RunState::Active, false));
    let note =
        Interruption { class: InterruptionKind::UsageLimit, at: world.mp.now(), detail: Some("5 h".into()) };
    world.mp.interrupt(&run("a"), &note, &[], None).unwrap();
    assert_eq!((standing().run_state, standing().class), (RunState::Waiting, InterruptionKind::UsageLimit));
    world.mp.save(&run("a"), Save::new().summary("again")).unwrap();
    assert_eq!(standing().run_state, RunState::Active, "a save clears the interruption");
    world.wait(16 * 60 * 1000);
    assert_eq!((standing().run_state, standing().class), (RunState::Stalled, InterruptionKind::Stalled));
    let other = Worker::new();
    let refused = world.mp.continue_run(&run("a"), start("b", &other), false).unwrap_err();
    assert_eq!(refused.reason(), ReasonCode::ResumeRunActive);
    world.mp.continue_run(&run("a"), start("b", &other), true).unwrap();
}

#[test]
fn a_chain_that_gets_nowhere_ends_at_the_limit() {
    let policy = ResumePolicy { attempts: 2, ..ResumePolicy::default() };
    let world = World::new(Kind::Sqlite).with(Settings::default().resume(policy));
    crashed(&world, "r0");
    let mut refused = None;
    for i in 0..5 {
        let next = Worker::new();
        let name = format!("r{}", i + 1);
        match world.mp.continue_run(&run(&format!("r{i}")), start(&name, &next), false) {
            Ok(_) => {
                world.wait(10_000);
                world.mp.save(&run(&name), Save::new().summary("crashes at once")).unwrap();
                next.kill();
            }
            Err(e) => {
                refused = Some((i, e.reason()));
                break;
            }
        }
    }
    assert_eq!(refused, Some((3, ReasonCode::ResumeAttemptLimitReached)));
}

#[test]
fn a_dismissed_run_is_not_offered_until_it_goes_on() {
    let world = World::new(Kind::Sqlite);
    crashed(&world, "a");
    world.mp.dismiss(&run("a")).unwrap();
    assert!(!world.mp.candidates().unwrap()[0].decision.eligible);
    assert!(matches!(world.mp.dismiss(&run("nobody")), Err(Error::NoRun(_))));
    let worker = Worker::new();
    world.mp.start(start("a", &worker)).unwrap();
    worker.kill();
    assert!(world.mp.candidates().unwrap()[0].decision.eligible);
}

#[test]
fn a_run_by_hand_is_open_and_a_finished_one_is_over() {
    let world = World::new(Kind::Sqlite);
    world.mp.save(&run("hand"), Save::new().summary("by hand")).unwrap();
    world.mp.save(&run("done"), Save::new().summary("done").status(Status::Completed)).unwrap();
    world.mp.save(&run("broken"), Save::new().summary("broken").status(Status::Failed)).unwrap();
    let decision = |name| world.mp.assess(&run(name), false).unwrap().decision;
    assert_eq!((decision("hand").run_state, decision("hand").eligible), (RunState::Open, true));
    assert_eq!((decision("done").run_state, decision("done").eligible), (RunState::Ended, false));
    assert_eq!(
        (decision("broken").class, decision("broken").eligible),
        (InterruptionKind::ToolFailure, true)
    );
    assert!(matches!(world.mp.assess(&run("nobody"), false), Err(Error::NoRun(_))));
}
