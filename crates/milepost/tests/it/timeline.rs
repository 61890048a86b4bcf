//! The timeline of a run: sessions, gaps and failures, clocks that jump, damage, and facts that are read in parts.

use std::time::Duration;

use jiff::Timestamp;
use milepost::internal::engine::{RunOptions, StartOptions};
use milepost::model::{
    Change, Interruption, InterruptionKind, Item, MemoryUsage, Outcome, OutcomeKind, OutcomeResult, Source,
    Status, Task, Workspace,
};
use milepost::{CheckpointFacts, MessageKind, Profile, RunFacts, Save, Settings, Timeline};
use proptest::prelude::*;
use rstest::rstest;

use crate::engine::{Kind, START, World, at, run, say};

fn outcome(name: &str, code: u8) -> Outcome {
    Outcome {
        duration_ms: 5,
        kind: OutcomeKind::Shell,
        name: name.to_owned(),
        reason_code: (code > 0).then(|| format!("exit_{code}")),
        result: if code > 0 { OutcomeResult::Fail } else { OutcomeResult::Pass },
        summary: String::new(),
        extra: Default::default(),
    }
}

fn record(world: &World, changes: &[Change]) {
    world.mp.record_changes(&run("r"), changes, &RunOptions::default(), None).unwrap();
}

fn start(world: &World, session: &str) {
    let start = StartOptions {
        run_id: Some(run("r")),
        session_id: Some(session.to_owned()),
        ..StartOptions::default()
    };
    world.mp.start(start).unwrap();
}

fn timeline(world: &World) -> Timeline {
    let timeline = world.mp.timeline(&run("r")).unwrap();
    check_order(&timeline);
    timeline
}

/// Everything is in order and between the beginning and the end.
fn check_order(timeline: &Timeline) {
    let (from, to) = (timeline.started_at(), timeline.ended_at());
    let checkpoints: Vec<_> = timeline.checkpoints().iter().map(|checkpoint| checkpoint.at()).collect();
    let messages: Vec<_> = timeline.messages().iter().map(|message| message.at()).collect();
    let sessions: Vec<_> = timeline.sessions().iter().map(|session| session.started_at()).collect();
    let gaps: Vec<_> = timeline.gaps().iter().flat_map(|gap| [gap.from(), gap.to()]).collect();
    for times in [&checkpoints, &messages, &sessions, &gaps] {
        assert!(times.is_sorted(), "{times:?}");
        assert!(times.iter().all(|at| from <= *at && *at <= to), "{times:?} is not within {from} and {to}");
    }
    assert!(
        timeline.sessions().iter().all(|s| s.ended_at().is_none_or(|end| s.started_at() <= end && end <= to))
    );
}

#[rstest]
fn a_timeline_shows_sessions_gaps_and_messages(#[values(Kind::Sqlite, Kind::Files)] kind: Kind) {
    let world = World::new(kind);
    start(&world, "one");
    record(&world, &[Change::Prompt("Port the parser.\nNever touch billing.".into())]);
    world.wait(60_000);
    world.mp.save(&run("r"), say("first").session("one").source(Source::Timer)).unwrap();
    world.wait(60_000);
    let cause = Interruption { class: InterruptionKind::UsageLimit, at: world.mp.now(), detail: None };
    world.mp.interrupt(&run("r"), &cause, &[], None).unwrap();
    world.clock.advance(Duration::from_secs(3600));
    start(&world, "two");
    world.wait(60_000);
    let save = say("second").session("two").pin(true).tag("good").source(Source::StepBoundary);
    world.mp.save(&run("r"), save).unwrap();
    world.clock.advance(Duration::from_secs(45 * 60));
    world.mp.finish(&run("r"), Status::Completed, Save::new().session("two")).unwrap();

    let timeline = timeline(&world);
    assert_eq!(timeline.status(), Some(Status::Completed));
    assert_eq!((timeline.started_at(), timeline.is_live()), (at(START), false));
    let [first, second, ..] = timeline.checkpoints().as_slice() else { panic!("{timeline:?}") };
    assert_eq!(
        (first.sequence(), first.source(), first.session_id().as_str()),
        (1, Some(Source::Timer), "one")
    );
    assert_eq!((second.pinned(), second.tags().as_slice()), (true, &["good".to_owned()][..]));
    let [message] = timeline.messages().as_slice() else { panic!("{timeline:?}") };
    assert_eq!((message.kind(), message.text().as_str()), (MessageKind::Prompt, "Port the parser."));
    let [one, two] = timeline.sessions().as_slice() else { panic!("{:?}", timeline.sessions()) };
    assert_eq!((one.ended_by(), one.checkpoints()), (Some(InterruptionKind::UsageLimit), 1));
    assert_eq!(one.ended_at().unwrap().duration_since(at(START)).as_secs(), 120);
    assert_eq!(two.ended_by(), Some(InterruptionKind::CleanStop));
    let gaps: Vec<_> = timeline.gaps().iter().map(|gap| gap.between_sessions()).collect();
    assert_eq!(gaps, [true, false], "an hour between sessions, and 45 minutes of silence");
}

#[rstest]
fn a_new_run_has_a_timeline(#[values(Kind::Sqlite, Kind::Files)] kind: Kind) {
    let world = World::new(kind);
    start(&world, "one");
    record(&world, &[Change::Item(Item::Task(Task::new("a", "pending", None).unwrap()))]);
    let timeline = timeline(&world);
    assert!(timeline.checkpoints().is_empty());
    assert_eq!(timeline.sessions().len(), 1);
    assert_eq!((timeline.pending().tasks, timeline.pending().changes), (1, 1));
    assert!(world.mp.timeline(&run("missing")).is_err());
}

#[test]
fn pending_changes_are_those_of_the_summary() {
    let world = World::new(Kind::Sqlite);
    let task = |status| Change::Item(Item::Task(Task::new("a", status, None).unwrap()));
    record(&world, &[task("pending"), Change::Item(Item::Outcome(outcome("make", 2)))]);
    world.mp.save(&run("r"), say("x")).unwrap();
    record(&world, &[task("in_progress"), task("done"), Change::Item(Item::Outcome(outcome("make a", 2)))]);
    let (timeline, summary) = (timeline(&world), world.mp.summary(&run("r")).unwrap());
    assert_eq!(timeline.pending(), summary.pending());
    let failures: Vec<_> =
        timeline.failures().iter().map(|f| (f.outcome().name.as_str(), f.fixed())).collect();
    assert_eq!(failures, [("make", Some(false)), ("make a", Some(false))]);
}

/// Saves checkpoints with outcomes and memory.
fn save_outcomes(world: &World, outcomes: &[(&str, u8)], rss: u64) {
    let mut save = say("x");
    save.draft_mut().command_outcomes = outcomes.iter().map(|(name, code)| outcome(name, *code)).collect();
    let memory = MemoryUsage { rss: Some(rss), ..MemoryUsage::default() };
    save.draft_mut().workspace = Some(Workspace { memory: Some(memory), ..Workspace::default() });
    world.mp.save(&run("r"), save).unwrap();
    world.wait(10_000);
}

fn failures(facts: &RunFacts) -> Vec<(u64, &str, Option<bool>)> {
    let failed = facts.checkpoints().iter().flat_map(CheckpointFacts::failed);
    failed.map(|failed| (failed.number(), failed.outcome().name.as_str(), failed.fixed())).collect()
}

#[rstest]
fn facts_in_parts_are_the_same_as_all_at_once(#[values(Kind::Sqlite, Kind::Files)] kind: Kind) {
    let world = World::new(kind).with(Settings::default().profile(Profile::Session));
    for (number, outcomes) in [
        &[("cargo test a", 1), ("make", 2)][..],
        &[("cargo test", 0)],
        &[("cargo test a", 1), ("grep x y", 1)],
        &[("make", 0)],
        &[("npm test", 1)],
    ]
    .into_iter()
    .enumerate()
    {
        save_outcomes(&world, outcomes, 1000 * (number as u64 + 1));
    }
    let all = world.mp.checkpoint_facts(&run("r"), None, 0).unwrap();
    let expected = [
        (1, "cargo test a", Some(true)),
        (1, "make", Some(true)),
        (3, "cargo test a", Some(false)),
        (3, "grep x y", None),
        (5, "npm test", Some(false)),
    ];
    assert_eq!(failures(&all), expected);
    assert_eq!(all.checkpoints()[2].rss(), Some(3000));
    for limit in 1..=3 {
        let mut parts = world.mp.checkpoint_facts(&run("r"), None, limit).unwrap();
        assert!(parts.has_more());
        while parts.has_more() {
            let newer = world.mp.checkpoint_facts(&run("r"), parts.newest(), limit).unwrap();
            parts.append(newer);
        }
        assert_eq!(failures(&parts), expected, "{limit}");
        assert_eq!(parts.checkpoints(), all.checkpoints(), "{limit}");
    }
    let none = world.mp.checkpoint_facts(&run("r"), all.newest(), 0).unwrap();
    assert!(none.checkpoints().is_empty() && !none.has_more());
    record(&world, &[Change::Item(Item::Outcome(outcome("npm test", 0)))]);
    let mut all = all;
    all.append(world.mp.checkpoint_facts(&run("r"), all.newest(), 0).unwrap());
    assert_eq!(failures(&all)[4].2, Some(true), "a pending outcome fixed it");
}

#[test]
fn damaged_checkpoints_are_listed() {
    let world = World::new(Kind::Sqlite);
    for text in ["a", "b", "c"] {
        world.mp.save(&run("r"), say(text)).unwrap();
        world.wait(60_000);
    }
    let database = rusqlite::Connection::open(world.dir.path().join("m.db")).unwrap();
    let sql = "UPDATE append_log SET header = replace(header, 'manual', 'mXnual') WHERE sequence = 2";
    assert_eq!(database.execute(sql, []).unwrap(), 1);
    let timeline = timeline(&world);
    let damaged: Vec<_> = timeline.checkpoints().iter().map(|c| (c.sequence(), c.damaged())).collect();
    assert_eq!(damaged, [(1, false), (2, true), (3, false)]);
    let facts = world.mp.checkpoint_facts(&run("r"), None, 0).unwrap();
    assert!(facts.checkpoints()[1].damaged());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn clocks_can_be_wrong(
        times in prop::collection::vec(
            prop_oneof![
                0..100_000i64,
                Just(Timestamp::MAX.as_second() - 1_780_000_000),
                Just(Timestamp::MIN.as_second() - 1_780_000_000),
                -3_000_000_000..3_000_000_000i64,
            ],
            1..12,
        )
    ) {
        let world = World::new(Kind::Sqlite);
        for (number, second) in times.iter().enumerate() {
            world.clock.set(Timestamp::from_second(1_780_000_000 + second).unwrap_or(Timestamp::MAX));
            record(&world, &[Change::Prompt(format!("prompt {number}"))]);
            world.mp.save(&run("r"), say(&number.to_string()).session(format!("s{}", number / 3))).unwrap();
        }
        let timeline = world.mp.timeline(&run("r")).unwrap();
        check_order(&timeline);
        prop_assert!(timeline.checkpoints().len() <= times.len());
        prop_assert_eq!(timeline.messages().len(), times.len());
    }
}
