//! Attachments beyond the rules of a store: they are copied, bundled, verified and salvaged with their run.

use milepost::interop::Format;
use milepost::model::{AttachedValue, Attachment};
use milepost::store::{Commit, WriteDecision};
use milepost::{Error, ExportOptions, ImportOptions, Milepost, Save, VerifyScope};
use milepost_testkit::fixtures::attachment;
use rstest::rstest;

use crate::engine::{Kind, World, destroy, open, run};

fn attach(mp: &Milepost, name: &str, attachments: &[Attachment]) {
    let written = mp.raw_store().write(&run(name), &mut |view| {
        let mut commit = Commit::new(view.record.clone().unwrap());
        commit.attachments.extend_from_slice(attachments);
        WriteDecision::Commit(Box::new(commit))
    });
    written.unwrap();
}

fn attached(mp: &Milepost, name: &str) -> Vec<Attachment> {
    mp.store().attachments(&run(name), None).unwrap().into_iter().map(Result::unwrap).collect()
}

fn values(from: &str) -> Vec<Attachment> {
    let large = AttachedValue::Bytes(vec![7; 1 << 20]);
    vec![
        attachment("cp", "task", 0, from),
        attachment("cp", "task", -1, from).replacing(),
        Attachment::new("elsewhere", "task", 0, "channel", "msgpack", large).with_task_path("~pull"),
    ]
}

#[rstest]
fn attachments_are_copied_and_bundled(
    #[values((Kind::Sqlite, Kind::Files), (Kind::Files, Kind::Sqlite))] (from, to): (Kind, Kind),
) {
    let world = World::new(from);
    world.mp.save(&run("a"), Save::new()).unwrap();
    attach(&world.mp, "a", &values("first"));
    let other = World::new(to);
    world.mp.copy_to(&other.mp, &mut |_| ()).unwrap();
    assert_eq!(attached(&other.mp, "a"), attached(&world.mp, "a"));
    // The second copy brings what was replaced and added since.
    attach(&world.mp, "a", &values("second"));
    attach(&world.mp, "a", &[attachment("cp", "task", 5, "added")]);
    let differences = world.mp.compare_with(&other.mp, &mut |_| ()).unwrap();
    assert!(differences.differences().contains(&("a".into(), "the attachments differ".into())));
    world.mp.copy_to(&other.mp, &mut |_| ()).unwrap();
    assert_eq!(attached(&other.mp, "a"), attached(&world.mp, "a"));
    assert_eq!(world.mp.compare_with(&other.mp, &mut |_| ()).unwrap().differences(), &Vec::new());
    let bundle = world.dir.path().join("b.bundle");
    world.mp.export(&ExportOptions::new(Format::Bundle, run("a"), bundle.clone()), &mut |_| ()).unwrap();
    let third = World::new(to);
    third.mp.import(&ImportOptions::new(bundle), &mut |_, _| ()).unwrap();
    assert_eq!(attached(&third.mp, "a"), attached(&world.mp, "a"));
    let lines = world.dir.path().join("b.jsonl");
    let report = world.mp.export(&ExportOptions::new(Format::Jsonl, run("a"), lines), &mut |_| ()).unwrap();
    assert!(report.lost_fields().contains("attachments"));
}

#[rstest]
fn a_run_with_attachments_is_not_abandoned(#[values(Kind::Sqlite, Kind::Files)] kind: Kind) {
    let world = World::new(kind);
    for name in ["empty", "attached"] {
        world.mp.run(name).rejoin_or_start().unwrap();
    }
    attach(&world.mp, "attached", &values("value"));
    assert!(world.mp.abandon(&run("empty")).unwrap());
    assert!(!world.mp.abandon(&run("attached")).unwrap());
}

#[rstest]
#[case("run", 3)]
#[case("event", 3)]
#[case("attachment", 0)]
fn what_can_be_read_of_damaged_pages_is_kept(#[case] table: &str, #[case] readable: usize) {
    let world = World::new(Kind::Sqlite);
    for n in 0..3 {
        world.mp.save(&run("r"), Save::new().summary(format!("{n}"))).unwrap();
    }
    attach(&world.mp, "r", &values("value"));
    let before = attached(&world.mp, "r");
    let db = world.dir.path().join("m.db");
    drop(world.mp);
    destroy(&db, table);
    let mp = || Milepost::on(open(Kind::Sqlite, world.dir.path()));
    mp().doctor(true, None, &mut |_| {}).unwrap();
    assert_eq!(attached(&mp(), "r"), before[..readable]);
    assert_eq!(*mp().verify(&VerifyScope::Store, &mut |_| {}).unwrap().damaged(), vec![]);
}

#[test]
fn verify_names_a_damaged_attachment() {
    let world = World::new(Kind::Sqlite);
    let saved = world.mp.save(&run("r"), Save::new()).unwrap();
    attach(&world.mp, "r", &[attachment(saved.snapshot_id().as_str(), "task", 0, "value")]);
    let damage = "UPDATE attachment SET attachment = replace(attachment, 'channel', 'cXannel')";
    let db = rusqlite::Connection::open(world.dir.path().join("m.db")).unwrap();
    assert_eq!(db.execute(damage, []).unwrap(), 1);
    for scope in [VerifyScope::Store, VerifyScope::Run(run("r"))] {
        let report = world.mp.verify(&scope, &mut |_| {}).unwrap();
        let [damage] = &report.damaged()[..] else { panic!("{report:?}") };
        let expected = format!("attachment of checkpoint {} of run r is damaged", saved.snapshot_id());
        assert!(damage.to_string().starts_with(&expected), "{damage}");
    }
}

#[test]
fn a_secret_in_an_attachment_keeps_a_bundle_from_being_written() {
    let world = World::new(Kind::Files);
    world.mp.save(&run("a"), Save::new()).unwrap();
    let token = format!("ghp_{}", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8");
    attach(&world.mp, "a", &[attachment("cp", "task", 0, &format!("\u{0}binary\u{1} {token}"))]);
    let options = ExportOptions::new(Format::Bundle, run("a"), world.dir.path().join("b.bundle"));
    let refused = world.mp.export(&options, &mut |_| ());
    assert!(
        matches!(&refused, Err(Error::SecretsLeave { locations }) if locations == &["attachment channel of cp"]),
        "{refused:?}"
    );
}
