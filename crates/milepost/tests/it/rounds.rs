//! Rounds: a completed run stays completed, or starts over if the caller asks for a new round.

use std::sync::Arc;
use std::time::Duration;

use milepost::model::{CriterionStatus, EventType, StepChange, StepStatus, TaskStatus};
use milepost::store::{OpenOptions, StoreUrl};
use milepost::{Error, Milepost, ReasonCode, Reference, Run, Save, Status};
use milepost_testkit::fault::Faults;
use rstest::rstest;

use crate::engine::{Kind, World, open, run};
use crate::run::Full;

/// A run that worked through two tasks, a criterion and a step, and was completed.
fn completed(mp: &Milepost) -> Run {
    let r = mp.run("r").rejoin_or_start().unwrap();
    r.begin_task("a").unwrap().complete_with(&7).unwrap();
    r.begin_task("b").unwrap().complete().unwrap();
    r.criterion("tests", CriterionStatus::Completed, "all tests pass").unwrap();
    r.step(StepChange::new("1", StepStatus::InProgress)).unwrap();
    r.decide("SQLite is the default store").unwrap();
    r.finish(Status::Completed).unwrap();
    r
}

fn status(mp: &Milepost) -> Status {
    mp.run_detail(&run("r")).unwrap().summary().record().clone().unwrap().status()
}

fn events(mp: &Milepost, kind: EventType) -> Vec<String> {
    let all = mp.events(Some(&run("r")), None, 0).unwrap().events;
    all.into_iter().filter(|event| event.kind == kind).map(|event| event.data.get().to_owned()).collect()
}

#[rstest]
fn a_completed_run_stays_completed_until_work_begins(#[values(Kind::Sqlite, Kind::Files)] kind: Kind) {
    let world = World::new(kind);
    drop(completed(&world.mp));
    let again = world.mp.run("r").rejoin_or_start().unwrap();
    assert!(again.rejoined() && again.is_done("a") && again.is_done("b"));
    assert_eq!(again.state::<u64>().unwrap(), Some(7));
    assert_eq!(again.heartbeat(Duration::from_secs(1)).tick(), None);
    again.note("nothing to do").unwrap();
    drop(again);
    assert_eq!(status(&world.mp), Status::Completed, "also if the process ends without `finish`");
    let again = world.mp.run("r").rejoin_or_start().unwrap();
    std::mem::forget(again.begin_task("c").unwrap());
    assert_eq!(status(&world.mp), Status::InProgress, "a task that begins is unfinished work");
    again.finish(Status::Completed).unwrap();
    drop(again);
    let again = world.mp.run("r").rejoin_or_start().unwrap();
    again.save(Save::new().summary("more")).unwrap();
    assert_eq!(status(&world.mp), Status::InProgress);
    assert!(again.is_done("a"));
    assert_eq!(events(&world.mp, EventType::RoundStarted), [""; 0]);
}

#[rstest]
fn a_new_round_starts_over_and_keeps_state_and_history(#[values(Kind::Sqlite, Kind::Files)] kind: Kind) {
    let world = World::new(kind);
    drop(completed(&world.mp));
    world
        .mp
        .apply(&run("r"), vec![milepost::model::Change::Note("after the end".into())], Save::new())
        .unwrap();
    let before = world.count("r");
    let second = world.mp.run("r").new_round().rejoin_or_start().unwrap();
    assert!(second.rejoined() && !second.is_done("a") && second.tasks().unwrap().is_empty());
    assert_eq!((status(&world.mp), second.state().unwrap()), (Status::InProgress, Some(7)));
    assert_eq!(events(&world.mp, EventType::RoundStarted), [r#"{"criteria":1,"tasks":2}"#]);
    // What was pending is in the last checkpoint of the first round.
    assert_eq!(world.count("r"), before + 1);
    let last = world.mp.find(&Reference::Latest(0), Some(&run("r"))).unwrap();
    let body = world.mp.body(&last).unwrap();
    assert_eq!((body.status, body.tasks.len(), body.criteria.len()), (Status::Completed, 2, 1));
    assert!(body.log.iter().any(|line| line.text == "after the end"), "{body:?}");
    let record = world.mp.run_detail(second.id()).unwrap().summary().record().clone().unwrap();
    let working = record.working();
    assert!(working.criteria().is_empty() && working.step_state().is_none());
    assert!(working.open_steps().is_empty());
    assert_eq!((working.decisions().len(), record.sessions()), (1, 2));
    assert!(second.step(StepChange::new("1", StepStatus::Done)).is_err(), "the step has not begun");
    second.begin_task("a").unwrap().complete().unwrap();
    let saved = second.save(Save::new().summary("second round")).unwrap();
    assert!(saved.sequence() > body.sequence);
    assert_eq!(second.tasks().unwrap().len(), 1);
}

#[rstest]
fn unfinished_work_is_continued_by_a_new_round(
    #[values(Kind::Sqlite, Kind::Files)] kind: Kind,
    #[values(Status::InProgress, Status::Paused, Status::Failed)] end: Status,
) {
    let world = World::new(kind);
    let first = world.mp.run("r").new_round().rejoin_or_start().unwrap();
    first.begin_task("a").unwrap().complete().unwrap();
    first.task("b", TaskStatus::Pending).unwrap();
    if end != Status::InProgress {
        first.finish(end).unwrap();
    }
    drop(first);
    let second = world.mp.run("r").new_round().rejoin_or_start().unwrap();
    assert!(second.is_done("a") && !second.is_done("b"));
    assert_eq!(second.tasks().unwrap().len(), 2);
    assert_eq!(status(&world.mp), Status::InProgress);
    assert_eq!(events(&world.mp, EventType::RoundStarted), [""; 0]);
}

#[rstest]
fn a_round_starts_once_although_the_store_repeats_and_loses_writes(
    #[values(Kind::Sqlite, Kind::Files)] kind: Kind,
    #[values(1, 2, 3)] seed: u64,
) {
    let dir = tempfile::tempdir().unwrap();
    drop(completed(&Milepost::on(open(kind, dir.path()))));
    let note = milepost::model::Change::Note("pending".into());
    Milepost::on(open(kind, dir.path())).apply(&run("r"), vec![note], Save::new()).unwrap();
    let faults = Faults { seed, lost_replies: 250, lost_requests: 250 };
    let store = Full::new(open(kind, dir.path()), Arc::default());
    let mp = Milepost::on(Arc::new(faults.around(store)));
    let mut tries = 0;
    let opened = loop {
        tries += 1;
        assert!(tries < 50);
        match mp.run("r").new_round().rejoin_or_start() {
            Ok(opened) => break opened,
            Err(Error::Store(milepost::store::StoreError::Unknown { .. })) => {}
            Err(e) => panic!("{e}"),
        }
    };
    assert!(opened.tasks().unwrap().is_empty());
    let mp = Milepost::on(open(kind, dir.path()));
    assert_eq!(events(&mp, EventType::RoundStarted).len(), 1);
    assert_eq!(status(&mp), Status::InProgress);
}

#[test]
fn a_round_does_not_start_while_the_owner_of_the_last_one_works() {
    let dir = tempfile::tempdir().unwrap();
    for url in [StoreUrl::sqlite(dir.path().join("m.db")), StoreUrl::files(dir.path().join("store"))] {
        let mp = Milepost::at(&url, &OpenOptions::new().create(true)).unwrap();
        let owner = mp.run("r").rejoin_or_start().unwrap();
        // Something else ends the run, while its owner still holds it.
        mp.finish(owner.id(), Status::Completed, Save::new()).unwrap();
        for builder in [mp.run("r"), mp.run("r").new_round()] {
            assert_eq!(builder.rejoin_or_start().unwrap_err().reason(), ReasonCode::ResumeRunActive);
        }
        drop(owner);
        mp.run("r").new_round().rejoin_or_start().unwrap();
        assert_eq!(status(&mp), Status::InProgress);
    }
}
