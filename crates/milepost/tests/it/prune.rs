//! Retention on real stores: saves that prune their own run, and `prune`, which handles all runs, ages,
//! compression and the store's size limit.

use std::sync::Arc;
use std::time::Duration;

use milepost::internal::engine::Pointer;
use milepost::internal::model::KeepCount;
use milepost::internal::model::StoreLimits;
use milepost::internal::store::ProjectPaths;
use milepost::model::{Profile, Status};
use milepost::{
    ListQuery, MarkChange, PruneAction, PruneOptions, PruneReport, Reference, Settings, VerifyScope,
};
use milepost::{Milepost, Save};
use rstest::rstest;

use crate::engine::{Kind, START, World, at, open, run, say};

const DAY: Duration = Duration::from_secs(86_400);

fn pruned(mp: &Milepost) -> PruneReport {
    let report = mp.prune(&PruneOptions::default(), &mut |_| {}).unwrap();
    assert!(report.failed().is_empty(), "{:?}", report.failed());
    report
}

fn planned(mp: &Milepost) -> PruneReport {
    mp.prune(&PruneOptions::default().dry_run(true), &mut |_| {}).unwrap()
}

fn summaries(mp: &Milepost, name: &str) -> Vec<String> {
    let listed = mp.list(&ListQuery::default().run(Some(run(name)))).unwrap();
    listed.checkpoints.into_iter().map(|l| l.entry().header.summary().clone().unwrap()).collect()
}

#[rstest]
fn sixty_saves_in_one_second_leave_the_last_fifty(#[values(Kind::Sqlite, Kind::Files)] kind: Kind) {
    let world = World::new(kind);
    for i in 0..3 {
        world.mp.save(&run("other"), say(&format!("{i}"))).unwrap();
    }
    for i in 1..=60 {
        world.mp.save(&run("r"), say(&format!("{i}"))).unwrap();
        world.wait(16);
    }
    let expected: Vec<_> = (11..=60).rev().map(|i| i.to_string()).collect();
    assert_eq!(summaries(&world.mp, "r"), expected);
    assert_eq!(world.latest("r"), "60");
    assert_eq!(world.count("other"), 3);
    assert_eq!(pruned(&world.mp).removed(), 0, "the saves have already pruned");
}

#[rstest]
fn the_latest_failed_and_completed_stay_beside_the_fifty(#[values(Kind::Sqlite, Kind::Files)] kind: Kind) {
    let world = World::new(kind);
    let all = world.mp.clone().with_settings(Settings::default().keep_last(Some(KeepCount::All)));
    for (text, status) in [("f0", Status::Failed), ("f1", Status::Failed), ("c", Status::Completed)] {
        all.save(&run("r"), say(text).status(status)).unwrap();
    }
    for i in 0..60 {
        all.save(&run("r"), say(&format!("{i}"))).unwrap();
    }
    let plan = planned(&world.mp);
    assert_eq!((plan.removed(), plan.kept()), (11, 52));
    assert_eq!(world.count("r"), 63, "a plan changes nothing");
    let report = pruned(&world.mp);
    assert_eq!((report.removed(), report.kept(), report.compressed()), (11, 52, 0));
    let left = summaries(&world.mp, "r");
    assert_eq!(left.len(), 52);
    assert_eq!(left[50..], ["c", "f1"]);
    assert_eq!(pruned(&world.mp).removed(), 0);
    assert!(world.mp.verify(&VerifyScope::Store, &mut |_| {}).unwrap().damaged().is_empty());
}

#[rstest]
fn ages_are_by_the_hour_and_a_failed_one_never_ages(#[values(Kind::Sqlite, Kind::Files)] kind: Kind) {
    let world = World::new(kind);
    world.mp.save(&run("r"), say("failed").status(Status::Failed)).unwrap();
    world.clock.advance(400 * DAY);
    world.mp.save(&run("r"), say("14d1h")).unwrap();
    world.clock.advance(Duration::from_secs(2 * 3600));
    world.mp.save(&run("r"), say("13d23h")).unwrap();
    world.clock.advance(14 * DAY - Duration::from_secs(3600));
    // Only `prune` prunes runs that get no more saves.
    let report = pruned(&world.mp);
    assert_eq!(report.removed(), 1);
    let why: Vec<_> = report.plan().iter().map(|s| (s.action(), s.reasons()[0].to_string())).collect();
    assert_eq!(why[1], (PruneAction::Remove, "older than 14 days".into()));
    assert_eq!(summaries(&world.mp, "r"), ["13d23h", "failed"]);
    let failed = world.mp.show(&Reference::Numbered(run("r"), 1), None).unwrap();
    assert_eq!(failed.body().unwrap().status, Status::Failed);
    world.mp.save(&run("r"), say("now")).unwrap();
    assert_eq!(summaries(&world.mp, "r"), ["now", "13d23h", "failed"]);
}

#[rstest]
fn stamps_a_year_ahead_never_cost_what_was_just_written(#[values(Kind::Sqlite, Kind::Files)] kind: Kind) {
    let world = World::new(kind);
    let few = Settings::default().keep_last(Some(KeepCount::Last(3)));
    let mp = world.mp.clone().with_settings(few);
    world.clock.advance(365 * DAY);
    for i in 0..10 {
        mp.save(&run("r"), say(&format!("ahead{i}"))).unwrap();
    }
    world.clock.set(at(START));
    for i in 0..10 {
        let saved = mp.save(&run("r"), say(&format!("now{i}"))).unwrap();
        assert!(!saved.pruned().contains(saved.snapshot_id()));
        assert_eq!(world.latest("r"), format!("now{i}"));
        pruned(&mp);
        assert_eq!(world.latest("r"), format!("now{i}"));
    }
    assert_eq!(summaries(&mp, "r"), ["now9", "now8", "now7"]);
    // Ten years later, the run that was written last still keeps its newest checkpoint, although it has
    // ended.
    mp.save(&run("r"), say("done").status(Status::Completed)).unwrap();
    world.clock.advance(3650 * DAY);
    pruned(&mp);
    assert_eq!(summaries(&mp, "r"), ["done"]);
}

#[rstest]
fn buckets_add_to_what_saves_and_prunes_keep(#[values(Kind::Sqlite, Kind::Files)] kind: Kind) {
    let world = World::new(kind);
    let settings = Settings::default().keep_last(Some(KeepCount::Last(2))).keep_daily(3);
    let mp = world.mp.clone().with_settings(settings);
    for i in 0..130 {
        mp.save(&run("r"), say(&format!("{i}"))).unwrap();
        world.clock.advance(Duration::from_secs(6 * 3600));
    }
    let saved = summaries(&mp, "r").len();
    assert!(saved <= 2 + 3 + 32, "saves alone must limit a run, but it has {saved}");
    pruned(&mp);
    // Four saves per day, starting at noon: the last of each day is 1, 5, 9, …, 129.
    assert_eq!(summaries(&mp, "r"), ["129", "128", "125", "121"]);
    assert_eq!(planned(&mp).removed(), 0);
}

#[rstest]
fn pins_and_tags_stay_and_an_emptied_run_keeps_its_newest(#[values(Kind::Sqlite, Kind::Files)] kind: Kind) {
    let world = World::new(kind);
    for i in 0..6 {
        world.mp.save(&run("r"), say(&format!("{i}"))).unwrap();
    }
    let mark = |n, change: MarkChange| {
        let entry = world.mp.find(&Reference::Numbered(run("r"), n), None).unwrap();
        world.mp.mark(&entry, &change).unwrap();
    };
    mark(2, MarkChange::default().pin(Some(true)));
    mark(4, MarkChange::default().tag(vec!["t".into()]));
    world.clock.advance(30 * DAY);
    pruned(&world.mp);
    assert_eq!(summaries(&world.mp, "r"), ["5", "3", "1"]);
    for n in [2, 4, 6] {
        let shown = world.mp.show(&Reference::Numbered(run("r"), n), None).unwrap();
        assert_eq!(shown.body().unwrap().sequence, n);
    }
}

#[rstest]
fn what_ended_stays_for_good_unless_asked(#[values(Kind::Sqlite, Kind::Files)] kind: Kind) {
    let world = World::new(kind);
    for (name, status) in [("failed", Status::Failed), ("completed", Status::Completed)] {
        for i in 0..3 {
            world.mp.save(&run(name), say(&format!("{i}"))).unwrap();
        }
        world.mp.save(&run(name), say("end").status(status)).unwrap();
    }
    world.clock.advance(3650 * DAY);
    world.mp.save(&run("new"), say("n")).unwrap();
    let report = pruned(&world.mp);
    assert!(report.runs_removed().is_empty());
    assert_eq!((world.count("failed"), world.count("completed")), (1, 1), "the others were too old");
    assert_eq!((world.latest("failed").as_str(), world.latest("completed").as_str()), ("end", "end"));
}

#[rstest]
fn ended_runs_go_as_a_whole_where_asked_for(#[values(Kind::Sqlite, Kind::Files)] kind: Kind) {
    let store_limits = StoreLimits { ended_after: Some(90 * DAY), ..StoreLimits::default() };
    let world = World::new(kind).with(Settings::default().store_limits(store_limits));
    let mp = &world.mp;
    for name in ["done", "pinned", "brief", "open"] {
        let profile = if name == "brief" { Profile::Brief } else { Profile::Run };
        for i in 0..3 {
            mp.save(&run(name), say(&format!("{i}")).profile(profile)).unwrap();
        }
        let mut end = say("end").status(if name == "open" { Status::Paused } else { Status::Completed });
        end = end.pin(name == "pinned");
        mp.save(&run(name), end).unwrap();
    }
    world.clock.advance(90 * DAY);
    mp.save(&run("new"), say("n")).unwrap();
    assert!(pruned(mp).runs_removed().is_empty(), "exactly 90 days is not more than 90 days");
    world.wait(1);
    let plan = planned(mp);
    assert_eq!(*plan.runs_removed(), [run("done")]);
    let report = pruned(mp);
    assert_eq!(*report.runs_removed(), [run("done")]);
    let gone: Vec<_> = report.plan().iter().filter(|step| step.action() == PruneAction::Remove).collect();
    assert!(
        gone.iter().all(|s| *s.run_id() == run("done") && s.reasons()[0].to_string().contains("90 days ago"))
    );
    assert!(mp.run_detail(&run("done")).is_err());
    assert_eq!((world.count("pinned"), world.count("brief"), world.count("open")), (1, 4, 1));
    let order: Vec<_> =
        mp.runs(&Default::default()).unwrap().into_iter().map(|r| r.run_id().clone()).collect();
    assert_eq!(order, ["new", "open", "brief", "pinned"].map(run), "pruning does not reorder runs in lists");
}

#[rstest]
fn a_store_that_is_too_large_reduces_its_oldest_ended_runs(#[values(Kind::Sqlite, Kind::Files)] kind: Kind) {
    let world = World::new(kind);
    // Text that does not compress.
    let mut seed = 7u64;
    let mut noise = || {
        let mut byte = || {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            char::from(b'!' + 1 + (seed >> 33) as u8 % 90)
        };
        (0..60_000).map(|_| byte()).filter(|c| *c != '\\').collect::<String>()
    };
    for (name, status) in
        [("a", Status::Completed), ("b", Status::InProgress), ("c", Status::Failed), ("d", Status::Completed)]
    {
        let save = Save::new().summary(name).state(&noise()).unwrap();
        world.mp.save(&run(name), save.status(status)).unwrap();
        // Two more checkpoints per run. Retention always keeps the latest failed and the latest completed
        // one.
        for status in [Status::Failed, status] {
            let save = Save::new().summary(format!("{name} {status}")).state("0").unwrap();
            world.mp.save(&run(name), save.status(status)).unwrap();
        }
        world.clock.advance(DAY);
    }
    assert_eq!(pruned(&world.mp).too_large(), None);
    let bytes = world.mp.store().info().unwrap().bytes();
    let store_limits = StoreLimits { max_bytes: bytes - 30_000, ..StoreLimits::default() };
    let mp = world.mp.clone().with_settings(Settings::default().store_limits(store_limits));
    let goes = |report: &PruneReport| -> Vec<String> {
        let gone = report.plan().iter().filter(|step| step.action() == PruneAction::Remove);
        gone.map(|step| format!("{}@{}", step.run_id(), step.sequence())).collect()
    };
    assert_eq!(goes(&planned(&mp)), ["a@1"]);
    let report = pruned(&mp);
    assert_eq!(goes(&report), ["a@1"], "from the oldest run, and no more than needed");
    assert!(report.plan()[0].reasons()[0].to_string().contains("the store is larger than"));
    assert!(report.runs_removed().is_empty());
    assert!(report.bytes_freed() > 30_000, "{}", report.bytes_freed());
    assert_eq!(summaries(&mp, "a"), ["a completed", "a failed"]);
    let tiny = Settings::default().store_limits(StoreLimits { max_bytes: 1000, ..StoreLimits::default() });
    let report = pruned(&world.mp.clone().with_settings(tiny));
    assert_eq!(goes(&report), ["c@1", "c@2"], "open runs and the run written last are kept");
    assert!(report.too_large().is_some(), "and the report says so");
    assert_eq!(world.mp.runs(&Default::default()).unwrap().len(), 4);
}

#[rstest]
fn the_pointer_leaves_what_went(#[values(Kind::Sqlite, Kind::Files)] kind: Kind) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("seed.json");
    let project = ProjectPaths::find(dir.path()).unwrap();
    let pointer = Pointer { file: file.clone(), key: vec!["ref".into()], commit: false, project };
    let store_limits = StoreLimits { ended_after: Some(90 * DAY), ..StoreLimits::default() };
    let world = World::new(kind).with(Settings::default().pointer(Some(pointer)).store_limits(store_limits));
    world.mp.save(&run("a"), say("1").status(Status::Failed)).unwrap();
    let plain = Milepost::on(open(kind, world.dir.path())).with_clock(Arc::new(world.clock.clone()));
    world.clock.advance(91 * DAY);
    plain.save(&run("b"), say("newer")).unwrap();
    let read = || std::fs::read_to_string(&file).unwrap();
    assert!(read().contains("cp_"));
    planned(&world.mp);
    assert!(read().contains("cp_"));
    assert_eq!(pruned(&world.mp).removed(), 1);
    assert_eq!(read(), "{\"ref\": null}\n");
}

#[test]
fn compressed_history_is_like_any_other() {
    let world = World::new(Kind::Files);
    let store_limits = StoreLimits { compress_after: Some(DAY), ..StoreLimits::default() };
    let mp = world.mp.clone().with_settings(Settings::default().store_limits(store_limits));
    for i in 0..60 {
        let save = say(&format!("{i}")).state(&"x".repeat(2000)).unwrap();
        mp.save(&run("r"), save).unwrap();
        world.clock.advance(Duration::from_secs(3600));
    }
    let plan = planned(&mp);
    assert_eq!((plan.removed(), plan.compressed(), plan.kept()), (0, 26, 50));
    let report = pruned(&mp);
    assert_eq!((report.removed(), report.compressed(), report.kept()), (0, 26, 50));
    assert!(report.bytes_freed() > 26 * 1500, "{}", report.bytes_freed());
    let again = pruned(&mp);
    assert_eq!((again.removed(), again.compressed(), again.bytes_freed()), (0, 0, 0));
    let folder = world.dir.path().join("store/r");
    let ends = |end: &str| {
        let names = std::fs::read_dir(folder.join("history")).unwrap();
        names.filter(|f| f.as_ref().unwrap().file_name().to_string_lossy().ends_with(end)).count()
    };
    assert_eq!((ends(".gz"), ends(".json")), (26, 24));
    assert!(std::fs::read(folder.join("latest.json")).unwrap().starts_with(b"{"));
    // Compressed checkpoints are listed, shown, verified and counted, and their state can be read.
    assert_eq!(world.count("r"), 50);
    let oldest = mp.show(&Reference::Latest(49), Some(&run("r"))).unwrap();
    assert_eq!(oldest.body().unwrap().task_summary.as_deref(), Some("10"));
    assert!(mp.state(&Reference::Latest(49), Some(&run("r"))).is_ok());
    assert_eq!(mp.verify(&VerifyScope::Store, &mut |_| {}).unwrap().checked(), 50);
    mp.save(&run("r"), say("60")).unwrap();
    assert_eq!((world.count("r"), ends(".gz")), (50, 25), "a save counts and removes compressed checkpoints");
    // A crash can leave both forms. The next prune removes the plain one.
    let id = &mp.find(&Reference::Latest(49), Some(&run("r"))).unwrap().header.snapshot_id().clone();
    let document = mp.show(&Reference::Latest(49), Some(&run("r"))).unwrap().clone();
    let plain = folder.join(format!("history/{id}.json"));
    milepost::internal::fs::atomic::write(
        &plain,
        document.bytes(),
        milepost::internal::fs::atomic::Mode::Private,
    )
    .unwrap();
    let mended = pruned(&mp);
    assert_eq!((mended.removed(), mended.compressed()), (0, 0));
    assert!(!plain.exists());
    assert_eq!(mp.doctor(false, None, &mut |_| {}).unwrap().problems, vec![]);
    // One flipped byte is detected and reported.
    let packed = folder.join(format!("history/{id}.json.gz"));
    let mut bytes = std::fs::read(&packed).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    milepost::internal::fs::atomic::write(&packed, &bytes, milepost::internal::fs::atomic::Mode::Private)
        .unwrap();
    let damaged = mp.verify(&VerifyScope::Store, &mut |_| {}).unwrap().damaged().clone();
    assert_eq!(damaged.len(), 1);
    assert_eq!(damaged[0].snapshot_id().as_ref(), Some(id));
    let shown = mp.show(&Reference::Latest(49), Some(&run("r"))).unwrap_err();
    assert_eq!(shown.reason(), milepost::ReasonCode::CheckpointIntegrityMismatch);
    // Compressed checkpoints are pruned by age like any other, and so is the damaged one.
    world.clock.advance(14 * DAY);
    let report = pruned(&mp);
    // Retention keeps the newest checkpoint and the newest one with a state, which is now compressed.
    assert_eq!((report.removed(), report.compressed(), report.kept()), (48, 1, 2));
    assert_eq!((ends(".gz"), ends(".json")), (1, 1));
    assert!(mp.verify(&VerifyScope::Store, &mut |_| {}).unwrap().damaged().is_empty());
}

#[test]
fn compression_is_off_unless_asked_for_and_nothing_to_do_in_sqlite() {
    for kind in [Kind::Files, Kind::Sqlite] {
        let world = World::new(kind);
        for i in 0..5 {
            world.mp.save(&run("r"), say(&format!("{i}"))).unwrap();
        }
        world.clock.advance(2 * DAY);
        assert_eq!(pruned(&world.mp).compressed(), 0);
        let store_limits = StoreLimits { compress_after: Some(DAY), ..StoreLimits::default() };
        let mp = world.mp.clone().with_settings(Settings::default().store_limits(store_limits));
        let expected = if matches!(kind, Kind::Files) { 4 } else { 0 };
        assert_eq!((planned(&mp).compressed(), pruned(&mp).compressed()), (expected, expected), "{kind:?}");
    }
}

#[test]
fn what_cannot_be_removed_is_said_and_the_rest_is_pruned() {
    let world = World::new(Kind::Files);
    let mut ids = Vec::new();
    for name in ["a", "b", "c"] {
        ids.push(world.mp.save(&run(name), say("old")).unwrap().snapshot_id().clone());
        world.mp.save(&run(name), say("new")).unwrap();
    }
    world.clock.advance(20 * DAY);
    // A non-empty folder in place of the file cannot be removed.
    let path = world.dir.path().join(format!("store/b/history/{}.json", ids[1]));
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir_all(path.join("x")).unwrap();
    let report = world.mp.prune(&PruneOptions::default(), &mut |_| {}).unwrap();
    assert_eq!(report.failed().len(), 1);
    assert_eq!(*report.failed()[0].run_id(), Some(run("b")));
    assert_eq!(report.failed()[0].error().reason(), milepost::ReasonCode::CheckpointRetentionPruneFailed);
    assert_eq!(report.removed(), 3, "it is no longer listed anyway");
    assert_eq!(["a", "b", "c"].map(|name| world.count(name)), [1, 1, 1]);
}

#[rstest]
fn prunes_and_saves_at_once_are_fine(#[values(Kind::Sqlite, Kind::Files)] kind: Kind) {
    let world = World::new(kind);
    let keep = |n| Settings::default().keep_last(Some(n));
    let all = world.mp.clone().with_settings(keep(KeepCount::All));
    for i in 0..60 {
        all.save(&run("r"), say(&format!("{i}"))).unwrap();
        all.save(&run("s"), say(&format!("{i}"))).unwrap();
    }
    let handle = |settings: Settings| {
        Milepost::on(open(kind, world.dir.path()))
            .with_clock(Arc::new(world.clock.clone()))
            .with_settings(settings)
    };
    std::thread::scope(|scope| {
        for t in 0..2 {
            let saver = handle(keep(KeepCount::All));
            scope.spawn(move || {
                for i in 0..25 {
                    saver.save(&run("r"), say(&format!("t{t}-{i}"))).unwrap();
                }
            });
            let pruner = handle(keep(KeepCount::Last(5)));
            scope.spawn(move || {
                for _ in 0..6 {
                    pruned(&pruner);
                }
            });
        }
        let marker = handle(keep(KeepCount::All));
        scope.spawn(move || {
            for i in 0..10 {
                let entry = marker.find(&Reference::Latest(0), Some(&run("r"))).unwrap();
                let change = MarkChange::default().tag(vec![format!("m{i}")]);
                // The checkpoint may be pruned between the lookup and the mark. Once marked, it is kept.
                if marker.mark(&entry, &change).is_ok() {
                    assert!(marker.find(&Reference::Name(format!("m{i}")), None).is_ok());
                }
            }
        });
    });
    let mp = handle(keep(KeepCount::Last(5)));
    pruned(&mp);
    let left = mp.list(&ListQuery::default().run(Some(run("r")))).unwrap().checkpoints;
    let untagged = left.iter().filter(|l| l.entry().marks.tags.is_empty()).count();
    assert!(untagged <= 5, "{untagged}");
    assert_eq!(world.count("s"), 5);
    assert!(mp.verify(&VerifyScope::Store, &mut |_| {}).unwrap().damaged().is_empty());
    assert_eq!(mp.doctor(false, None, &mut |_| {}).unwrap().problems, vec![]);
}

#[test]
fn damaged_rows_are_left_for_the_doctor_and_do_not_stop_a_prune() {
    let world = World::new(Kind::Sqlite);
    let all = world.mp.clone().with_settings(Settings::default().keep_last(Some(KeepCount::All)));
    for i in 0..12 {
        // Large enough to be stored as a delta against the next one.
        all.save(&run("r"), say(&format!("{i}")).state(&"x".repeat(5000 + i)).unwrap()).unwrap();
        all.save(&run("s"), say(&format!("{i}"))).unwrap();
    }
    let db = rusqlite::Connection::open(world.dir.path().join("m.db")).unwrap();
    // Retention relies on the sequence number and the stamp at the start of a header. Damage after them does
    // not matter.
    for (sequence, sound, hurt) in [(4, ":4,", ":9,"), (6, "\"manual\"", "\"manuaX\"")] {
        let update =
            "UPDATE checkpoint SET header = replace(header, ?2, ?3) WHERE sequence = ?1 AND run_n = 1";
        assert_eq!(db.execute(update, (sequence, sound, hurt)).unwrap(), 1);
    }
    assert_eq!(db.execute("UPDATE run SET record = replace(record, 's', 'z') WHERE n = 2", []).unwrap(), 1);
    drop(db);
    let few = Settings::default().keep_last(Some(KeepCount::Last(2)));
    let report = pruned(&world.mp.clone().with_settings(few));
    assert_eq!((report.removed(), report.kept()), (9 + 10, 4), "the damaged one is not counted and is kept");
    let damaged = world.mp.verify(&VerifyScope::Store, &mut |_| {}).unwrap().damaged().clone();
    assert_eq!(damaged.iter().map(|d| d.sequence()).collect::<Vec<_>>(), [Some(4)]);
    world.mp.doctor(true, None, &mut |_| {}).unwrap();
    assert_eq!(*world.mp.verify(&VerifyScope::Store, &mut |_| {}).unwrap().damaged(), vec![]);
    let saved = world.mp.show(&Reference::Numbered(run("r"), 4), None).unwrap();
    assert_eq!(saved.body().unwrap().task_summary.as_deref(), Some("3"), "its document is unchanged");
}

#[rstest]
fn lost_replies_prune_once(#[values(Kind::Sqlite, Kind::Files)] kind: Kind) {
    use milepost::internal::store::{FilesStore, SqliteStore};
    use milepost::store::{OpenOptions, Store};
    use milepost_testkit::fault::Faults;
    let dir = tempfile::tempdir().unwrap();
    let options = OpenOptions::new().create(true);
    let faults = Faults { seed: 3, lost_replies: 300, lost_requests: 300 };
    let store: Arc<dyn Store> = match kind {
        Kind::Sqlite => {
            Arc::new(faults.around(SqliteStore::open(&dir.path().join("m.db"), &options).unwrap()))
        }
        Kind::Files => {
            Arc::new(faults.around(FilesStore::open(&dir.path().join("store"), &options).unwrap()))
        }
    };
    let keep = |n| Settings::default().keep_last(Some(n));
    let plain = Milepost::on(open(kind, dir.path()));
    for name in ["a", "b", "c", "d"] {
        for i in 0..10 {
            plain.clone().with_settings(keep(KeepCount::All)).save(&run(name), say(&format!("{i}"))).unwrap();
        }
    }
    let mp = Milepost::on(store).with_settings(keep(KeepCount::Last(3)));
    // Replies can be lost more often than the engine retries. A second prune then removes what remains.
    let first = mp.prune(&PruneOptions::default(), &mut |_| {}).unwrap();
    let second = mp.prune(&PruneOptions::default(), &mut |_| {}).unwrap();
    assert!(first.removed() <= 28 && first.failed().len() + second.failed().len() <= 2, "{first:?}");
    let kept = plain.with_settings(keep(KeepCount::Last(3)));
    pruned(&kept);
    for name in ["a", "b", "c", "d"] {
        assert_eq!(summaries(&kept, name), ["9", "8", "7"]);
    }
}
