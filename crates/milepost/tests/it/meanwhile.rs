//! Changes by other processes between the steps of one call: retention removes listed checkpoints, a run is
//! deleted and recreated, a newer checkpoint is saved. Also a document that is missing although it was not
//! removed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use milepost::SessionEvent;
use milepost::internal::engine::Pointer;
use milepost::internal::store::ProjectPaths;
use milepost::interop::Format;
use milepost::model::{RunId, Status};
use milepost::store::{CheckpointFilter, Commit, HeaderQuery, Store, StoreError, WriteDecision};
use milepost::{Error, Milepost, ReasonCode, Session};
use milepost::{ExportOptions, Reference, Settings, VerifyScope};
use milepost_testkit::fault::Interleave;
use rstest::rstest;

use crate::engine::{Kind, World, open, run, say};

/// Number of checkpoints of the run `r`.
const SAVED: u64 = 6;

fn filled(kind: Kind) -> World {
    let world = World::new(kind);
    for n in 1..=SAVED {
        world.mp.save(&run("r"), say(&format!("s{n}")).state(&n).unwrap()).unwrap();
        world.wait(10_000);
    }
    world
}

/// Removes a checkpoint as retention does, if it exists.
fn remove(store: &dyn Store, run: &RunId, sequence: u64) {
    let query = HeaderQuery::default().run(run).find(CheckpointFilter::Sequence(sequence));
    if store.headers(&query).unwrap().is_empty() {
        return;
    }
    let removed = store.write(run, &mut |view| {
        let mut commit = Commit::new(view.record.clone().unwrap());
        commit.drops.push(sequence);
        WriteDecision::Commit(Box::new(commit))
    });
    removed.unwrap();
}

/// The world's store, in which another process removes these checkpoints just before one of them is read.
fn losing(world: &World, kind: Kind, gone: &'static [u64]) -> Milepost {
    let store = Interleave::new(open(kind, world.dir.path())).before_body(move |store, run, sequence| {
        if gone.contains(&sequence) {
            gone.iter().for_each(|sequence| remove(store, run, *sequence));
        }
        Ok(())
    });
    Milepost::on(Arc::new(store))
}

#[rstest]
fn what_is_removed_before_it_is_read_is_left_out(#[values(Kind::Sqlite, Kind::Files)] kind: Kind) {
    let r = run("r");
    let lost = |gone| {
        let world = filled(kind);
        (losing(&world, kind, gone), world)
    };
    let (mp, _world) = lost(&[1, 2]);
    let report = mp.verify(&VerifyScope::Store, &mut |_| ()).unwrap();
    assert_eq!((report.checked(), report.damaged()), (4, &Vec::new()));
    let (mp, _world) = lost(&[1, 2]);
    let report = mp.doctor(false, None, &mut |_| ()).unwrap();
    assert_eq!((report.checked, report.problems), (4, Vec::new()));
    let (mp, _world) = lost(&[1, 2]);
    let summary = mp.summary(&r).unwrap();
    assert_eq!((summary.total(), summary.checkpoints().len(), summary.damaged().len()), (4, 4, 0));
    assert_eq!(summary.sessions().iter().map(|session| session.total()).sum::<u64>(), 4);
    let (mp, _world) = lost(&[1, 2]);
    let numbers: Vec<_> = mp.bodies(&r, 0).unwrap().iter().map(|body| body.sequence).collect();
    assert_eq!(numbers, [3, 4, 5, 6]);
    let (mp, world) = lost(&[1, 2]);
    let what = ExportOptions::new(Format::Jsonl, r.clone(), world.dir.path().join("out.jsonl"));
    let exported = mp.export(&what, &mut |_| ()).unwrap();
    assert_eq!((exported.exported(), exported.skipped().len()), (4, 0));
    let (mp, _world) = lost(&[1, 2]);
    let other = World::new(kind);
    let copied = mp.copy_to(&other.mp, &mut |_| ()).unwrap();
    assert_eq!((copied.copied(), copied.skipped().len()), (4, 0));
    let compared = mp.compare_with(&other.mp, &mut |_| ()).unwrap();
    assert_eq!((compared.checked(), compared.differences()), (4, &Vec::new()));
    let (mp, _world) = lost(&[4]);
    let diff = mp.diff(&Reference::Numbered(r.clone(), 2), None, Some(&r)).unwrap();
    assert_eq!((diff.from().header.sequence(), diff.to().header.sequence()), (2, 6));
}

#[rstest]
fn latest_is_looked_up_again_and_a_number_is_not_found(#[values(Kind::Sqlite, Kind::Files)] kind: Kind) {
    let r = run("r");
    let latest = Reference::Latest(0);
    let lost = |gone| {
        let world = filled(kind);
        (losing(&world, kind, gone), world)
    };
    let (mp, _world) = lost(&[6]);
    assert_eq!(mp.show(&latest, Some(&r)).unwrap().entry().header.sequence(), 5);
    let (mp, _world) = lost(&[6]);
    assert_eq!(mp.state(&latest, Some(&r)).unwrap().state().get(), "5");
    let (mp, _world) = lost(&[5]);
    assert_eq!(mp.state(&Reference::Latest(1), Some(&r)).unwrap().state().get(), "4");
    let (mp, _world) = lost(&[6]);
    assert_eq!(mp.brief(&latest, Some(&r), None).unwrap().entry.header.sequence(), 5);
    let (mp, _world) = lost(&[5]);
    let diff = mp.diff(&Reference::Latest(1), Some(&latest), Some(&r)).unwrap();
    assert_eq!((diff.from().header.sequence(), diff.to().header.sequence()), (4, 6));
    let (mp, _world) = lost(&[6]);
    let examined = mp.assess(&r, false).unwrap();
    assert_eq!(examined.shown.as_ref().unwrap().entry().header.sequence(), 5);
    let (mp, _world) = lost(&[6]);
    assert_eq!(
        mp.verify(&VerifyScope::Checkpoint(latest, Some(r.clone())), &mut |_| ()).unwrap().checked(),
        1
    );
    let third = Reference::Numbered(r, 3);
    let (mp, _world) = lost(&[3]);
    assert!(matches!(mp.show(&third, None).unwrap_err(), Error::NotFound { .. }));
    let (mp, _world) = lost(&[3]);
    let refused = mp.verify(&VerifyScope::Checkpoint(third, None), &mut |_| ()).unwrap_err();
    assert!(matches!(refused, Error::NotFound { .. }), "{refused:?}");
}

#[rstest]
fn a_run_that_is_deleted_and_made_again_is_no_damage(#[values(Kind::Sqlite, Kind::Files)] kind: Kind) {
    let world = filled(kind);
    let again = AtomicBool::new(true);
    let other = Milepost::on(open(kind, world.dir.path()));
    let store = Interleave::new(open(kind, world.dir.path())).before_body(move |_, _, sequence| {
        if sequence == 4 && again.swap(false, Ordering::SeqCst) {
            other.delete(&run("r")).unwrap();
            (0..5).for_each(|n| drop(other.save(&run("r"), say(&format!("again {n}"))).unwrap()));
        }
        Ok(())
    });
    let report = Milepost::on(Arc::new(store)).verify(&VerifyScope::Store, &mut |_| ()).unwrap();
    assert_eq!(
        (report.checked(), report.damaged()),
        (2, &Vec::new()),
        "only 6 and 5, of the first run, were checked"
    );
}

#[rstest]
fn a_listed_checkpoint_without_a_document_is_damage(#[values(Kind::Sqlite, Kind::Files)] kind: Kind) {
    let world = filled(kind);
    let store =
        Interleave::new(open(kind, world.dir.path())).before_body(|_, run, sequence| match sequence {
            3 => Err(StoreError::NoCheckpoint(run.clone(), 3)),
            _ => Ok(()),
        });
    let mp = Milepost::on(Arc::new(store));
    let report = mp.verify(&VerifyScope::Store, &mut |_| ()).unwrap();
    assert_eq!(report.checked(), SAVED);
    assert_eq!(report.damaged().iter().map(|damage| damage.sequence()).collect::<Vec<_>>(), [Some(3)]);
    assert_eq!(mp.doctor(false, None, &mut |_| ()).unwrap().problems.len(), 1);
    let summary = mp.summary(&run("r")).unwrap();
    assert_eq!((summary.total(), summary.damaged()), (SAVED, &vec![3]));
    let refused = mp.show(&Reference::Numbered(run("r"), 3), None).unwrap_err();
    assert_eq!(refused.reason(), ReasonCode::CheckpointIntegrityMismatch);
}

#[test]
fn a_session_is_stopped_whatever_comes_of_its_summary() {
    let world = World::new(Kind::Sqlite);
    let broken = Arc::new(AtomicBool::new(false));
    let fails = broken.clone();
    let store = Interleave::new(open(Kind::Sqlite, world.dir.path())).before_body(move |_, _, _| {
        if fails.load(Ordering::SeqCst) {
            let source = std::io::Error::other("the disk is gone").into();
            return Err(StoreError::Read { location: "the store".into(), source });
        }
        Ok(())
    });
    let mp = Milepost::on(Arc::new(store));
    let session = Session::options().milepost(&mp).project_root(world.dir.path()).run("r").build().unwrap();
    session.start().unwrap();
    let events = session.events();
    broken.store(true, Ordering::SeqCst);
    let refused = session.stop().unwrap_err();
    assert!(matches!(refused, Error::Store(StoreError::Read { .. })), "{refused:?}");
    let told: Vec<_> = events.try_iter().collect();
    assert!(
        matches!(&told[..], [SessionEvent::Failed { message }] if message.contains("its summary failed")),
        "{told:?}"
    );
    let status = || world.mp.store().run(&run("r")).unwrap().unwrap().row.record.unwrap().status();
    assert_eq!(status(), Status::Completed, "its end is recorded");
    broken.store(false, Ordering::SeqCst);
    assert_eq!(session.stop().unwrap().total(), 2, "the summary is available later");
    assert_eq!(session.checkpoints().unwrap().len(), 2, "nothing was saved by the second stop");
    session.start().unwrap();
    assert_eq!(status(), Status::InProgress, "it is stopped, so it can be started again");
    session.stop().unwrap();
}

#[rstest]
#[case::saved("second", Status::InProgress)]
#[case::completed("second", Status::Completed)]
fn an_older_save_does_not_overwrite_a_newer_pointer(#[case] summary: &'static str, #[case] status: Status) {
    let world = World::new(Kind::Sqlite);
    let file = world.dir.path().join("seed.json");
    let project = ProjectPaths::find(world.dir.path()).unwrap();
    let pointer = Pointer { file: file.clone(), key: vec!["ref".into()], commit: false, project };
    let settings = Settings::default().pointer(Some(pointer));
    let open = || open(Kind::Sqlite, world.dir.path());
    let second = Milepost::on(open()).with_settings(settings.clone());
    // The second save begins and ends before the first one updates the pointer.
    let store = Interleave::new(open()).after_write(move |_, run| {
        second.save(run, say(summary).status(status)).unwrap();
    });
    let first = Milepost::on(Arc::new(store)).with_settings(settings);
    first.save(&run("r"), say("first")).unwrap();
    let newest = world.mp.find(&Reference::Latest(0), None).unwrap().header;
    assert_eq!(newest.summary().as_deref(), Some(summary));
    let expected = match status {
        Status::Completed => "{}\n".to_owned(),
        _ => format!("{{\"ref\": \"{}\"}}\n", newest.snapshot_id()),
    };
    let found = std::fs::read_to_string(&file).unwrap_or_else(|_| "{}\n".to_owned());
    assert_eq!(found, expected);
}
