//! Changes between checkpoints: steps, tasks, criteria, outcomes, notes, decisions and the context digest.

use std::sync::Arc;

use milepost::Reference;
use milepost::internal::model::{FromRawJson, JsonPath};
use milepost::model::{
    Body, Change, ContextChange, CriterionChange, CriterionStatus, Item, Outcome, OutcomeKind, OutcomeResult,
    Phase, Pressure, Profile, Source, Status, StepChange, StepStatus, Task, TaskChange, TaskStatus,
};
use milepost::{Error, Milepost, ReasonCode, Save, Saved};
use rstest::rstest;

use crate::engine::{Kind, World, at, run, say};

impl World {
    fn apply(&self, change: impl Into<Change>) -> Result<Option<Saved>, Error> {
        self.mp.apply(&run("r"), vec![change.into()], Save::new())
    }

    fn body(&self) -> Body {
        self.mp.show(&Reference::Latest(0), Some(&run("r"))).unwrap().body().unwrap()
    }

    fn step(&self, id: &str, status: StepStatus) -> Result<Option<Saved>, Error> {
        self.apply(StepChange::new(id, status))
    }

    fn pending(&self) -> usize {
        self.mp.store().run(&run("r")).unwrap().map_or(0, |state| state.items.len())
    }
}

fn outcome(name: &str) -> Outcome {
    Outcome {
        duration_ms: 1,
        kind: OutcomeKind::Shell,
        name: name.into(),
        reason_code: None,
        result: OutcomeResult::Pass,
        summary: String::new(),
        extra: Default::default(),
    }
}

#[rstest]
fn a_step_saves_when_it_begins_and_when_it_ends(#[values(Kind::Sqlite, Kind::Files)] kind: Kind) {
    let world = World::new(kind);
    let begin = StepChange {
        plan: Some("plan.md".into()),
        ordinal: Some(3),
        title: Some("Parse".into()),
        ..StepChange::new("parse", StepStatus::InProgress)
    };
    let saved = world.apply(begin).unwrap().unwrap();
    assert_eq!((saved.sequence(), saved.source(), saved.coalesced()), (1, Source::StepBoundary, false));
    let body = world.body();
    assert_eq!(body.source_details, ["step_boundary", "step_begin"]);
    for (n, status) in [(2, StepStatus::Done), (4, StepStatus::Failed), (5, StepStatus::Skipped)] {
        if status == StepStatus::Failed {
            world.step("print", StepStatus::InProgress).unwrap();
        }
        let id = if status == StepStatus::Done { "parse" } else { "print" };
        let saved = world.step(id, status).unwrap().unwrap();
        assert_eq!((saved.sequence(), saved.source()), (n, Source::StepBoundary));
        let step = world.body().step_state.unwrap();
        assert_eq!((step.step_id.as_deref(), step.step_status), (Some(id), Some(status)));
        assert_eq!(step.plan_path.as_deref(), Some("plan.md"), "the plan is kept");
        if id == "parse" {
            assert_eq!(step.step_ordinal, Some(3));
            assert_eq!(step.extra.get("step_title").unwrap().get(), "\"Parse\"");
        }
    }
}

#[rstest]
fn a_step_that_never_began_cannot_end(#[values(Kind::Sqlite, Kind::Files)] kind: Kind) {
    let world = World::new(kind);
    for status in [StepStatus::Done, StepStatus::Failed] {
        let refused = world.step("x", status).unwrap_err();
        assert_eq!(refused.reason(), ReasonCode::CheckpointSchemaInvalid);
        assert!(refused.to_string().contains("no step is in progress"), "{refused}");
    }
    assert!(world.mp.store().run(&run("r")).unwrap().is_none(), "the run was not created");
    for id in ["a", "b", "c"] {
        world.step(id, StepStatus::InProgress).unwrap();
    }
    // Steps may overlap and end in any order.
    world.step("a", StepStatus::Done).unwrap();
    let refused = world.step("x", StepStatus::Done).unwrap_err();
    assert!(refused.to_string().contains("in progress: b, c"), "{refused}");
    assert_eq!(world.count("r"), 4);
    // A retry after a lost reply returns the same result, without an error.
    assert!(world.step("a", StepStatus::Done).unwrap().unwrap().coalesced());
    assert!(world.step("a", StepStatus::Failed).is_err(), "it ended with another status");
    // A step can be skipped without having begun.
    world.step("d", StepStatus::Skipped).unwrap();
    world.step("b", StepStatus::Skipped).unwrap();
    assert!(world.step("b", StepStatus::Done).is_err());
    assert!(world.step("", StepStatus::InProgress).is_err());
}

#[rstest]
fn tasks_keep_their_members_and_save_when_they_end(#[values(Kind::Sqlite, Kind::Files)] kind: Kind) {
    let world = World::new(kind);
    let texts = [
        r#"{"id":"t1","agent":"MARS","n":1.0,"status":"pending","big":9007199254740993}"#,
        r#"{"z":{"b":1,"a":2},"id":"t2","status":"weird","subtasks":[{"id":"s","x":-0.0,"status":"ready"}]}"#,
    ];
    for text in texts {
        let task = Task::from_raw(text, &JsonPath::Root).unwrap();
        assert!(world.apply(Item::Task(task)).unwrap().is_none(), "an open task does not save");
    }
    let tasks = |w: &World| {
        w.mp.run_detail(&run("r")).unwrap().summary().record().clone().unwrap().working().tasks().clone()
    };
    assert!(world.apply(TaskChange::new("t1", TaskStatus::InProgress)).unwrap().is_none());
    assert_eq!((world.count("r"), world.pending()), (0, 3), "durable, but no checkpoint yet");
    let saved = world.apply(TaskChange::new("t1", TaskStatus::Done)).unwrap().unwrap();
    assert_eq!((saved.sequence(), saved.source()), (1, Source::StepBoundary));
    assert_eq!(world.body().source_details, ["step_boundary", "task_done"]);
    assert_eq!(world.pending(), 0);
    let saved = world.apply(TaskChange::new("t2/s", TaskStatus::Failed)).unwrap().unwrap();
    assert_eq!((saved.sequence(), saved.source()), (2, Source::ErrorBoundary));
    let saved = world.apply(TaskChange::new("t3/own", TaskStatus::Completed)).unwrap().unwrap();
    assert_eq!(saved.sequence(), 3);
    let all = tasks(&world);
    assert_eq!(serde_json::to_string(&all[0]).unwrap(), texts[0].replace("pending", "done"));
    assert_eq!(serde_json::to_string(&all[1]).unwrap(), texts[1].replace("ready", "failed"));
    assert_eq!(Task::ids(&all, Task::is_completed), ["t1", "t3/own"]);
    assert_eq!(Task::ids(&all, Task::is_failed), ["t2/s"]);
    assert_eq!(world.body().tasks, all);
}

#[test]
fn what_waits_is_taken_in_as_it_was_said_whatever_the_clock_does() {
    let world = World::new(Kind::Sqlite);
    let outbox = crate::engine::outbox(world.dir.path());
    let post = |id: &str, status| {
        let save = Save::new().change(StepChange::new(id, status));
        outbox.enqueue(&run("r"), save, &Default::default(), &world.clock).unwrap();
    };
    for n in 0..20 {
        // Always in the same millisecond, and from the second round on an hour earlier.
        post(&format!("s{n}"), StepStatus::InProgress);
        post(&format!("s{n}"), StepStatus::Done);
        world.clock.set(at("2026-11-15T11:00:00Z"));
    }
    let report = outbox.deliver(&world.mp).unwrap();
    assert!(report.refused.is_empty(), "{:?}", report.refused);
    assert_eq!(report.saved.len(), 40);
    let step = world.body().step_state.unwrap();
    assert_eq!((step.step_id.as_deref(), step.step_status), (Some("s19"), Some(StepStatus::Done)));
}

#[test]
fn a_task_given_whole_saves_when_it_or_a_subtask_has_ended() {
    let world = World::new(Kind::Sqlite);
    let give = |text: &str| {
        let saved = world.apply(Item::Task(Task::from_raw(text, &JsonPath::Root).unwrap())).unwrap();
        saved.map(|_| world.body().source_details[1].clone())
    };
    let with = |status: &str| {
        give(&format!(
            r#"{{"id":"t","status":"in_progress","subtasks":[{{"id":"a","status":"pending"}},{{"id":"b","status":"{status}"}}]}}"#
        ))
    };
    assert_eq!(with("in_progress"), None);
    assert_eq!(with("done").as_deref(), Some("task_done"));
    assert_eq!(with("failed").as_deref(), Some("task_failed"));
    assert_eq!(with("skipped").as_deref(), Some("task_skipped"));
    assert_eq!(give(r#"{"id":"u","status":"skipped"}"#).as_deref(), Some("task_skipped"));
}

#[rstest]
fn what_is_recorded_is_in_the_next_checkpoint(#[values(Kind::Sqlite, Kind::Files)] kind: Kind) {
    let world = World::new(kind);
    let subject = CriterionChange {
        subject: Some("tests pass".into()),
        ..CriterionChange::new("c", CriterionStatus::Pending)
    };
    world.apply(subject).unwrap();
    world.apply(CriterionChange::new("c", CriterionStatus::Completed)).unwrap();
    world.apply(Change::Note("a line".into())).unwrap();
    world.apply(Change::Decision { text: "SQLite".into(), supersedes: Some("files".into()) }).unwrap();
    world.apply(outcome("make")).unwrap();
    world.apply(Phase { name: Some("BUILD".into()), number: 4, ..Phase::default() }).unwrap();
    let protect = |path: &str| ContextChange { protect: vec![path.into()], ..ContextChange::default() };
    world.apply(protect("a")).unwrap();
    world.apply(ContextChange { pressure: Some(Pressure::High), dropped: Some(7), ..protect("b") }).unwrap();
    world.apply(protect("a")).unwrap();
    assert_eq!(world.count("r"), 0);
    world.mp.save(&run("r"), Save::new()).unwrap();
    let body = world.body();
    assert_eq!(
        (body.criteria[0].subject.as_str(), body.criteria[0].status),
        ("tests pass", CriterionStatus::Completed)
    );
    assert_eq!(body.log[0].text, "a line");
    assert_eq!(body.decisions[0].supersedes.as_deref(), Some("files"));
    assert_eq!(body.command_outcomes[0].name, "make");
    assert_eq!(body.phase.unwrap().number, 4);
    let digest = body.context_digest.unwrap();
    assert_eq!((digest.window_pressure, digest.dropped_items), (Some(Pressure::High), 7));
    assert_eq!(digest.protected_artifacts, ["a", "b"]);
    // Outcomes belong to one checkpoint; the rest carries over.
    world.mp.save(&run("r"), say("next")).unwrap();
    assert_eq!((world.body().command_outcomes.len(), world.body().log.len()), (0, 1));
}

#[rstest]
fn what_waits_is_bounded_and_what_is_let_go_is_counted(#[values(Kind::Sqlite, Kind::Files)] kind: Kind) {
    let world = World::new(kind);
    for i in 0..260 {
        let (log, task) = (
            Change::Note(format!("note {i}")),
            TaskChange::new(format!("t{}", i % 7), TaskStatus::InProgress),
        );
        let all = vec![Change::from(outcome(&format!("o{i}"))), log, task.into()];
        world.mp.apply(&run("r"), all, Save::new()).unwrap();
        assert!(world.pending() <= 200, "{}", world.pending());
    }
    let detail = world.mp.run_detail(&run("r")).unwrap();
    let working = detail.summary().record().clone().unwrap().working().clone();
    assert_eq!((working.log().len(), working.tasks().len()), (200, 7));
    world.mp.save(&run("r"), Save::new()).unwrap();
    let body = world.body();
    assert_eq!((body.command_outcomes.len(), body.outcomes_dropped), (100, 160));
    assert_eq!(body.command_outcomes[0].name, "o160");
    assert_eq!((body.log.len(), body.log[199].text.as_str()), (200, "note 259"));
    world.mp.save(&run("r"), say("next")).unwrap();
    assert_eq!(world.body().outcomes_dropped, 0, "counted once");
    for _ in 0..10 {
        world.apply(Change::Note("x".repeat(50_000))).unwrap();
    }
    world.mp.save(&run("r"), Save::new()).unwrap();
    assert_eq!(world.body().log.len(), 2, "long lines are limited by their bytes");
}

#[rstest]
fn what_no_checkpoint_could_hold_is_refused_at_once(#[values(Kind::Sqlite, Kind::Files)] kind: Kind) {
    let world = World::new(kind);
    world.mp.save(&run("r"), say("x").profile(Profile::Pai)).unwrap();
    let long = Outcome { summary: "s".repeat(2049), ..outcome("o") };
    let wrong: [(Change, &str); 6] = [
        (long.into(), "2048"),
        (Change::Note("x".repeat(300_000)), "262144"),
        (Change::Note(" ".into()), "empty"),
        (Phase { number: 8, ..Phase::default() }.into(), "OBSERVE"),
        (TaskChange::new("t".repeat(257), TaskStatus::Done).into(), "256"),
        (
            TaskChange { title: Some("x".repeat(300_000)), ..TaskChange::new("t", TaskStatus::Done) }.into(),
            "262144",
        ),
    ];
    for (change, number) in wrong {
        let refused = world.apply(change).unwrap_err();
        assert_eq!(refused.reason(), ReasonCode::CheckpointSchemaInvalid);
        let Error::Schema(invalid) = &refused else { panic!("{refused:?}") };
        assert!(invalid.message.contains(number), "{invalid}");
    }
    assert_eq!((world.count("r"), world.pending()), (1, 0), "no pending item would make a later save fail");
    world.mp.save(&run("r"), say("y").status(Status::Paused)).unwrap();
}

#[rstest]
fn lost_replies_change_once(#[values(Kind::Sqlite, Kind::Files)] kind: Kind) {
    let opener = match kind {
        Kind::Sqlite => crate::stores::sqlite_losing(5),
        Kind::Files => crate::stores::files_losing(5),
    };
    let mp = Milepost::on(Arc::from(opener()));
    let r = run("r");
    let mut told = Vec::new();
    for i in 0..60 {
        let task = TaskChange::new(format!("t{i}"), TaskStatus::Done);
        let changes = [Change::Note(format!("{i}")), outcome(&format!("{i}")).into(), task.into()];
        let taken = if i % 3 == 0 { 3 } else { 2 };
        // Replies can be lost more often than the engine retries.
        if mp.apply(&r, changes[..taken].to_vec(), Save::new()).is_ok() {
            told.push(format!("{i}"));
        }
    }
    let log = mp.run_detail(&r).unwrap().summary().record().clone().unwrap().working().log().clone();
    let noted: Vec<_> = log.into_iter().map(|line| line.text).collect();
    let mut once = noted.clone();
    once.dedup();
    assert_eq!(noted, once, "no duplicates");
    assert!(told.len() > 50 && told.iter().all(|note| noted.contains(note)), "{told:?} {noted:?}");
}
