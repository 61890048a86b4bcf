//! Diff on real stores: checkpoints of the same run or of different ones, and damaged checkpoints.

use milepost::Reference;
use milepost::internal::engine::RunOptions;
use milepost::internal::model::{Draft, JsonPath};
use milepost::model::{Item, LogLine, Outcome, RawObject};
use milepost::{Error, ReasonCode, Save};
use rstest::rstest;

use crate::engine::{Kind, World, run, say};

fn number(name: &str, n: u64) -> Reference {
    Reference::Numbered(run(name), n)
}

fn save(text: &str) -> Save {
    let fields = RawObject::parse(text, &JsonPath::Root).unwrap();
    let mut save = Save::new();
    *save.draft_mut() = Draft::from_object(fields).unwrap();
    save
}

fn outcome(name: &str) -> String {
    format!(r#"{{"command_outcomes":[{{"kind":"shell","name":"{name}","result":"PASS"}}]}}"#)
}

#[rstest]
fn what_changed_is_found_by_path(#[values(Kind::Sqlite, Kind::Files)] kind: Kind) {
    let world = World::new(kind);
    let big = r#"{"status":"paused","state":{"n":9007199254740993,"f":1.0},"workspace":{"memory":{"rss":5},"files_modified":["a","b"]}}"#;
    world.mp.save(&run("r"), save(r#"{"state":{"f":1.0,"n":9007199254740992},"workspace":{"memory":{"rss":1},"files_modified":["a","c"]}}"#)).unwrap();
    world.mp.save(&run("other"), save(big)).unwrap();
    let diff = world.mp.diff(&number("r", 1), Some(&number("other", 1)), None).unwrap();
    let paths: Vec<_> = diff.difference().changed.iter().map(|c| c.path().as_str()).collect();
    assert_eq!(paths, ["/status", "/state/n"]);
    assert_eq!(
        serde_json::to_string(&diff.difference().files).unwrap(),
        r#"{"added":["b"],"removed":["c"]}"#
    );
    let same = world.mp.diff(&number("r", 1), Some(&number("r", 1)), None).unwrap();
    assert!(same.is_empty());
}

fn paths(world: &World, a: u64, b: u64) -> Vec<String> {
    let diff = world.mp.diff(&number("r", a), Some(&number("r", b)), None).unwrap();
    diff.difference().changed.iter().map(|change| change.path().clone()).collect()
}

#[test]
fn nothing_that_is_not_the_same_is_called_so() {
    let world = World::new(Kind::Sqlite);
    let bodies = [
        r#"{"filesystem":"ext4","state":[{"id":"a"},{"id":"b"}],"files":[{"path":"x","size":1}]}"#,
        r#"{"state":[{"id":"b"},{"id":"a"}],"files":[{"path":"x","size":1,"mode":"0644"}]}"#,
    ];
    for body in bodies {
        world.mp.save(&run("r"), save(body)).unwrap();
    }
    assert_eq!(paths(&world, 1, 2), ["/files[x]/mode", "/state[]", "/filesystem"]);
    world.mp.record(&run("r"), &[note(&world, "one")], &RunOptions::default()).unwrap();
    world.mp.save(&run("r"), save(bodies[1])).unwrap();
    assert_eq!((paths(&world, 2, 3), paths(&world, 3, 2)), (vec!["/log/0".into()], vec!["/log/0".into()]));
}

#[test]
fn what_came_first_is_told_item_by_item() {
    let world = World::new(Kind::Sqlite);
    world.mp.save(&run("r"), say("nothing yet")).unwrap();
    let body = r#"{"task_summary":"nothing yet","tasks":[{"id":"t","status":"done"}],"phase":{"number":2},"step_state":{"step_id":"s"}}"#;
    world.mp.save(&run("r"), save(body)).unwrap();
    assert_eq!(paths(&world, 1, 2), ["/phase/number", "/tasks[t]", "/step_state/step_id"]);
    assert_eq!(paths(&world, 2, 1), paths(&world, 1, 2));
}

fn note(world: &World, text: &str) -> Item {
    Item::Note(LogLine { at: world.mp.now(), text: text.into(), extra: RawObject::default() })
}

#[rstest]
fn outcomes_since_are_gathered_and_the_newest_is_the_default(
    #[values(Kind::Sqlite, Kind::Files)] kind: Kind,
) {
    let world = World::new(kind);
    world.mp.save(&run("r"), save(&outcome("zero"))).unwrap();
    for name in ["one", "two"] {
        world.mp.save(&run("r"), save(&outcome(name))).unwrap();
    }
    world.mp.save(&run("r"), say("three")).unwrap();
    world.mp.save(&run("later"), say("another run")).unwrap();
    let diff = world.mp.diff(&number("r", 1), None, None).unwrap();
    assert_eq!(diff.to().header.sequence(), 4, "the default is the newest of the same run");
    let names = |outcomes: &[Outcome]| outcomes.iter().map(|o| o.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(diff.outcomes()), ["one", "two"]);
    let back = world.mp.diff(&number("r", 2), Some(&number("r", 1)), None).unwrap();
    assert_eq!(names(back.outcomes()), ["zero"], "backwards: the outcomes of the target itself");
    assert!(!back.is_empty());
}

#[rstest]
fn a_damaged_one_is_named_whichever_it_is(#[values(0, 1)] side: u64) {
    let world = World::new(Kind::Files);
    let ids = ["a", "b"].map(|text| world.mp.save(&run("r"), say(text)).unwrap().snapshot_id().clone());
    let damaged = &ids[side as usize];
    let path = world.dir.path().join(format!("store/r/history/{damaged}.json"));
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[20] ^= 1;
    milepost::internal::fs::atomic::write(&path, &bytes, milepost::internal::fs::atomic::Mode::Private)
        .unwrap();
    for (a, b) in [(1, 2), (2, 1)] {
        let error = world.mp.diff(&number("r", a), Some(&number("r", b)), None).unwrap_err();
        assert_eq!(error.reason(), ReasonCode::CheckpointIntegrityMismatch);
        let Error::Damaged(damage) = error else { panic!("{error:?}") };
        assert_eq!(damage.snapshot_id().as_ref(), Some(damaged));
    }
}
