//! How often the engine calls its store: a save reads its run once, and prune reads each run's checkpoints
//! once.

use std::sync::Arc;

use milepost::internal::capture::CaptureOptions;
use milepost::internal::engine::SaveOptions;

use milepost::internal::model::KeepCount;
use milepost::internal::model::StoreLimits;
use milepost::model::Source;
use milepost::{Milepost, Profile, PruneOptions, Save, Settings, Status};
use milepost_testkit::fault::CountCalls;
use rstest::rstest;

use crate::engine::{Kind, World, open, run, say};

/// An engine on the world's store, and the store that counts its calls.
fn counted(world: &World, kind: Kind) -> (Arc<CountCalls>, Milepost) {
    let store = Arc::new(CountCalls::new(open(kind, world.dir.path())));
    let mp = Milepost::on(store.clone()).with_clock(Arc::new(world.clock.clone()));
    (store, mp)
}

#[rstest]
fn a_save_with_a_capture_reads_its_run_once(#[values(Kind::Sqlite, Kind::Files)] kind: Kind) {
    let world = World::new(kind);
    let options =
        SaveOptions { if_due: true, capture: Some(CaptureOptions::at(world.dir.path().join("project"))) };
    let save = |text: &str| {
        let mut save = Save::new().summary(text).profile(Profile::Session).source(Source::Timer);
        save = save.complete_phase(true);
        save
    };
    let (store, mp) = counted(&world, kind);
    mp.save_with(&run("r"), save("first"), &options).unwrap().unwrap();
    assert_eq!(store.take(), [("run", 1), ("write", 1)]);
    world.wait(60 * 60_000);
    mp.save_with(&run("r"), save("second"), &options).unwrap().unwrap();
    assert_eq!(store.take(), [("run", 1), ("write", 1)], "the engine caches the files of its newest capture");
    assert!(mp.save_with(&run("r"), save("not due"), &options).unwrap().is_none());
    assert_eq!(store.take(), [("run", 1)]);
    // A process without this cache has to read the newest capture, because the next one includes its files.
    let (store, mp) = counted(&world, kind);
    world.wait(60 * 60_000);
    mp.save_with(&run("r"), save("third"), &options).unwrap().unwrap();
    assert_eq!(store.take(), [("body", 1), ("run", 1), ("write", 1)]);
    mp.save(&run("r"), say("without a capture")).unwrap();
    assert_eq!(store.take(), [("write", 1)]);
}

#[rstest]
fn prune_reads_each_run_once(#[values(Kind::Sqlite, Kind::Files)] kind: Kind) {
    let world = World::new(kind);
    let all = Settings::default().keep_last(Some(KeepCount::All));
    let saver = world.mp.clone().with_settings(all);
    for name in ["ended", "open", "newest"] {
        for i in 0..5 {
            saver.save(&run(name), say(&format!("{i}"))).unwrap();
            world.wait(1000);
        }
        if name == "ended" {
            saver.save(&run(name), say("end").status(Status::Completed)).unwrap();
        }
    }
    let (store, mp) = counted(&world, kind);
    // A limit so small that ended runs are reduced as well.
    let store_limits = StoreLimits { max_bytes: 1, ..StoreLimits::default() };
    let settings = Settings::default().keep_last(Some(KeepCount::Last(3))).store_limits(store_limits);
    let mp = mp.with_settings(settings);
    let dry = mp.prune(&PruneOptions::default().dry_run(true), &mut |_| {}).unwrap();
    let reads = |calls: &[(&'static str, u64)]| {
        let of = |method| calls.iter().find(|(name, _)| *name == method).map_or(0, |(_, n)| *n);
        (of("runs"), of("retention_entries"), of("run"), of("headers"))
    };
    assert_eq!(reads(&store.take()), (1, 3, 0, 0));
    let done = mp.prune(&PruneOptions::default(), &mut |_| {}).unwrap();
    assert_eq!(reads(&store.take()), (1, 3, 0, 0));
    assert_eq!((dry.removed(), dry.plan()), (done.removed(), done.plan()));
    assert_eq!(done.removed(), 9, "two of each open run, and all but the newest of the ended one");
}

#[rstest]
fn a_timeline_reads_no_documents(#[values(Kind::Sqlite, Kind::Files)] kind: Kind) {
    let world = World::new(kind);
    for n in 0..5 {
        world.mp.save(&run("r"), say(&n.to_string())).unwrap();
        world.wait(10_000);
    }
    let (store, mp) = counted(&world, kind);
    assert_eq!(mp.timeline(&run("r")).unwrap().checkpoints().len(), 5);
    assert_eq!(store.take(), [("events", 1), ("headers", 1), ("messages", 1), ("run", 1)]);
    // A caller that has the first facts reads the documents of newer ones, and the one before them.
    mp.checkpoint_facts(&run("r"), Some(3), 0).unwrap();
    assert_eq!(store.take(), [("body", 3), ("headers", 2), ("run", 1)]);
}
