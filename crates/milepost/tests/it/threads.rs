//! Threads on both embedded stores: order, replacement, removal with what is derived from ancestors, copies, keys,
//! space.

use milepost::interop::Format;
use milepost::{
    Error, ExportOptions, ImportOptions, Milepost, NewThreadCheckpoint, PruneOptions, ReasonCode, Save,
    ThreadKey, ThreadQuery, ThreadWrite, Threads, TypedValue, VerifyScope,
};
use rstest::rstest;

use crate::engine::{Kind, World, run};

fn text(value: &str) -> TypedValue {
    TypedValue::new("text", value)
}

pub(crate) fn checkpoint(thread: &str, id: &str) -> NewThreadCheckpoint {
    NewThreadCheckpoint::new(thread, id, text(&format!("checkpoint {id}")), text("{}"))
}

/// The ids of a namespace, or of all namespaces, as listed.
fn ids(threads: &Threads, thread: &str, namespace: Option<&str>) -> Vec<String> {
    let mut query = ThreadQuery::default().thread(thread.to_owned());
    if let Some(namespace) = namespace {
        query = query.namespace(namespace.to_owned());
    }
    threads.list(query).unwrap().map(|entry| entry.unwrap().position().id.clone()).collect()
}

fn value(threads: &Threads, thread: &str, id: &str, name: &str) -> Option<Vec<u8>> {
    let entry = threads.find(thread, "", Some(id)).unwrap().unwrap();
    threads.value(&entry, name).unwrap().map(|value| value.into_parts().1)
}

fn write(threads: &Threads, thread: &str, id: &str, channel: &str, written: &str) {
    let one = ThreadWrite::new("", format!("task-{id}"), 0, channel, text(written));
    threads.put_writes(thread, "", id, &[one], false).unwrap();
}

pub(crate) fn assert_intact(mp: &Milepost) {
    let report = mp.verify(&VerifyScope::Store, &mut |_| {}).unwrap();
    assert!(report.damaged().is_empty() && report.damaged_files().is_empty(), "{report:?}");
}

/// Bytes that do not repeat.
pub(crate) fn noise(len: usize, seed: u64) -> Vec<u8> {
    milepost_testkit::rng::text(len, seed).into_bytes()
}

/// A list that grows by 200 bytes with each of its versions.
fn growing(steps: u64) -> Vec<u8> {
    let mut list = vec![0xdd];
    list.extend((steps as u32).to_be_bytes());
    for step in 0..steps {
        list.extend(noise(200, step));
    }
    list
}

#[rstest]
fn the_greatest_id_is_the_newest(#[values(Kind::Sqlite, Kind::Files)] kind: Kind) {
    let world = World::new(kind);
    let threads = world.mp.threads();
    assert!(threads.find("t", "", None).unwrap().is_none());
    for id in ["1b", "1d", "1a", "1c"] {
        threads.put(&checkpoint("t", id)).unwrap();
    }
    threads.put(&checkpoint("t", "9").namespace("child:1")).unwrap();
    threads.put(&checkpoint("other", "8")).unwrap();
    assert_eq!(ids(&threads, "t", Some("")), ["1d", "1c", "1b", "1a"]);
    assert_eq!(ids(&threads, "t", None), ["9", "1d", "1c", "1b", "1a"]);
    assert_eq!(ids(&threads, "t", Some("child")), Vec::<String>::new());
    let newest = threads.find("t", "", None).unwrap().unwrap();
    assert_eq!((newest.position().id.as_str(), newest.thread()), ("1d", "t"));
    assert_eq!(threads.checkpoint(&newest).unwrap(), text("checkpoint 1d"));
    let all: Vec<_> =
        threads.list(ThreadQuery::default()).unwrap().map(|one| one.unwrap().thread().to_owned()).collect();
    assert_eq!(all, ["t", "other", "t", "t", "t", "t"]);
    let before = ThreadQuery::default().thread("t".to_owned()).before("1c".to_owned());
    assert_eq!(threads.list(before).unwrap().count(), 2);
}

#[rstest]
fn a_checkpoint_with_the_same_id_replaces_the_earlier_one(#[values(Kind::Sqlite, Kind::Files)] kind: Kind) {
    let world = World::new(kind);
    let threads = world.mp.threads();
    for (n, id) in ["1", "2", "1", "1"].into_iter().enumerate() {
        threads.put(&checkpoint("t", id).values(vec![("n".to_owned(), text(&n.to_string()))])).unwrap();
    }
    write(&threads, "t", "1", "c", "kept");
    assert_eq!(ids(&threads, "t", None), ["2", "1"]);
    assert_eq!(value(&threads, "t", "1", "n").unwrap(), b"3");
    assert_eq!(threads.prune("t", 2).unwrap(), 2);
    assert_eq!(value(&threads, "t", "1", "n").unwrap(), b"3");
    let entry = threads.find("t", "", Some("1")).unwrap().unwrap();
    assert_eq!(threads.writes(&entry).unwrap().len(), 1);
}

#[rstest]
fn values_of_every_size_come_back(
    #[values(Kind::Sqlite, Kind::Files)] kind: Kind,
    #[values(false, true)] encrypted: bool,
) {
    let world = World::new(kind);
    let threads = if encrypted {
        world.mp.threads().with_key(ThreadKey::from_bytes([1; 32]))
    } else {
        world.mp.threads()
    };
    let sizes = [0, 1, 16, 1024, 1025, 70_000, 3_000_000];
    let values: Vec<_> =
        sizes.iter().map(|size| (format!("v{size}"), TypedValue::new("bytes", noise(*size, 5)))).collect();
    threads.put(&checkpoint("t", "1").values(values.clone())).unwrap();
    let writes: Vec<_> = sizes
        .iter()
        .enumerate()
        .map(|(n, size)| ThreadWrite::new("", "t", n as i64, "c", TypedValue::new("bytes", noise(*size, 6))))
        .collect();
    threads.put_writes("t", "", "1", &writes, false).unwrap();
    // A handle with an empty cache.
    let mut fresh = world.mp.threads();
    if encrypted {
        fresh = fresh.with_key(ThreadKey::from_bytes([1; 32]));
    }
    let entry = fresh.find("t", "", None).unwrap().unwrap();
    let mut sorted = values;
    sorted.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(fresh.values(&entry).unwrap(), sorted);
    assert_eq!(fresh.writes(&entry).unwrap(), writes);
    if encrypted {
        let wrong = world.mp.threads().with_key(ThreadKey::from_bytes([2; 32]));
        for threads in [world.mp.threads(), wrong] {
            let refused = threads.find("t", "", None).unwrap_err();
            assert_eq!(refused.reason(), ReasonCode::ThreadKeyInvalid);
        }
    }
}

#[rstest]
fn a_list_that_grows_is_stored_in_proportion_to_its_changes(#[values(Kind::Sqlite, Kind::Files)] kind: Kind) {
    let world = World::new(kind);
    let threads = world.mp.threads();
    for step in 1..=200_u64 {
        let values = vec![("messages".to_owned(), TypedValue::new("msgpack", growing(step)))];
        threads.put(&checkpoint("t", &format!("{step:04}")).values(values)).unwrap();
    }
    let whole: u64 = (1..=200).map(|step| 5 + 200 * step).sum();
    let stored = world.mp.store().blob_bytes().unwrap();
    assert!(stored < whole / 5, "{stored} bytes of blobs for values of {whole} bytes");
    assert_eq!(value(&threads, "t", "0100", "messages").unwrap(), growing(100));
    // Only the newest value is left.
    threads.prune("t", 1).unwrap();
    assert_eq!(value(&world.mp.threads(), "t", "0200", "messages").unwrap(), growing(200));
    let left = world.mp.store().blob_bytes().unwrap();
    assert!(left < 50_000, "{left} bytes are left of {stored}");
    assert!(threads.delete_thread("t").unwrap());
    threads.flush_removals().unwrap();
    assert_eq!(world.mp.store().blob_bytes().unwrap(), 0);
    assert!(!threads.delete_thread("t").unwrap());
}

/// Three checkpoints, of which only the first contains `d`. Each later one has writes to it.
fn derived_thread(threads: &Threads) {
    threads.put(&checkpoint("t", "0").values(vec![("plain".to_owned(), text("0"))])).unwrap();
    let seed = vec![("d".to_owned(), text("seed")), ("plain".to_owned(), text("1"))];
    threads.put(&checkpoint("t", "1").parent("0".to_owned()).values(seed)).unwrap();
    for (parent, id) in [("1", "2"), ("2", "3"), ("3", "4")] {
        write(threads, "t", parent, "d", &format!("from {parent}"));
        let new = checkpoint("t", id).parent(parent.to_owned()).derived(vec!["d".to_owned()]);
        threads.put(&new.values(vec![("plain".to_owned(), text(id))])).unwrap();
    }
    write(threads, "t", "4", "d", "pending");
}

#[rstest]
fn pruning_keeps_the_ancestors_of_derived_values(#[values(Kind::Sqlite, Kind::Files)] kind: Kind) {
    let world = World::new(kind);
    let threads = world.mp.threads();
    derived_thread(&threads);
    let history = |threads: &Threads| {
        let head = threads.find("t", "", None).unwrap().unwrap();
        let mut history = threads.history(&head, &["d", "plain", "unknown"]).unwrap();
        let (seed, writes) = history.remove("d").unwrap().into_parts();
        assert_eq!(history["unknown"].seed(), &None);
        let written: Vec<_> = writes
            .into_iter()
            .map(|write| String::from_utf8(write.value().bytes().clone()).unwrap())
            .collect();
        (seed, written)
    };
    let expected = (Some(text("seed")), vec!["from 1".to_owned(), "from 2".to_owned(), "from 3".to_owned()]);
    assert_eq!(history(&threads), expected);
    assert_eq!(threads.prune("t", 1).unwrap(), 1);
    assert_eq!(ids(&threads, "t", None), ["4", "3", "2", "1"]);
    assert_eq!(history(&threads), expected);
    // Retention of the store's settings does not apply.
    let settings = milepost::Settings::default().keep_newest(1);
    let report =
        world.mp.clone().with_settings(settings).prune(&PruneOptions::default(), &mut |_| {}).unwrap();
    assert_eq!(report.removed(), 0, "{report:?}");
    assert_eq!(history(&threads), expected);
    // A value that the newest checkpoint contains needs no ancestor.
    threads
        .put(&checkpoint("t", "5").parent("4".to_owned()).values(vec![("d".to_owned(), text("new"))]))
        .unwrap();
    assert_eq!(threads.prune("t", 1).unwrap(), 4);
    assert_eq!(ids(&threads, "t", None), ["5"]);
}

#[rstest]
fn invocations_are_deleted_in_all_threads(#[values(Kind::Sqlite, Kind::Files)] kind: Kind) {
    let world = World::new(kind);
    let threads = world.mp.threads();
    for thread in ["a", "b"] {
        for (id, invocation) in [("1", "x"), ("2", "y"), ("3", "x")] {
            threads.put(&checkpoint(thread, id).invocation(invocation.to_owned())).unwrap();
            write(&threads, thread, id, "c", "value");
        }
    }
    threads.put(&checkpoint("c", "1").namespace("n").invocation("x".to_owned())).unwrap();
    assert_eq!(threads.delete_invocations(&["x", "unknown"]).unwrap(), 5);
    assert_eq!(ids(&threads, "a", None), ["2"]);
    assert_eq!(ids(&threads, "b", None), ["2"]);
    // A thread without checkpoints is gone.
    assert!(world.mp.store().run(&Threads::run_of("c").unwrap()).unwrap().is_none());
    assert_eq!(world.mp.store().attachments(&Threads::run_of("a").unwrap(), None).unwrap().len(), 1);
    assert_eq!(threads.delete_invocations(&[]).unwrap(), 0);
}

#[rstest]
fn a_copied_thread_is_independent(
    #[values(Kind::Sqlite, Kind::Files)] kind: Kind,
    #[values(false, true)] encrypted: bool,
) {
    let world = World::new(kind);
    let threads = if encrypted {
        world.mp.threads().with_key(ThreadKey::from_bytes([1; 32]))
    } else {
        world.mp.threads()
    };
    let large = noise(100_000, 1);
    for n in 0..70 {
        let values = vec![("v".to_owned(), TypedValue::new("bytes", large.clone()))];
        let new = checkpoint("a", &format!("{n:03}")).values(values).invocation("x".to_owned());
        threads.put(&if n % 2 == 0 { new } else { new.namespace("child") }).unwrap();
    }
    write(&threads, "a", "000", "c", "written");
    let before = world.mp.store().blob_bytes().unwrap();
    assert_eq!(threads.copy_thread("a", "b").unwrap(), 70);
    let added = world.mp.store().blob_bytes().unwrap() - before;
    assert!(added < before, "values are shared: {added} bytes more than {before}");
    threads.delete_thread("a").unwrap();
    threads.flush_removals().unwrap();
    assert_eq!(ids(&threads, "b", None).len(), 70);
    assert_eq!(value(&threads, "b", "000", "v").unwrap(), large);
    let entry = threads.find("b", "", Some("000")).unwrap().unwrap();
    assert_eq!(threads.writes(&entry).unwrap()[0].value(), &text("written"));
    assert_eq!(entry.thread(), "b");
    assert_eq!(threads.copy_thread("unknown", "c").unwrap(), 0);
    assert_eq!(threads.copy_thread("b", "b").unwrap(), 0);
}

#[rstest]
fn threads_are_copied_bundled_and_verified(
    #[values((Kind::Sqlite, Kind::Files), (Kind::Files, Kind::Sqlite))] (from, to): (Kind, Kind),
) {
    let (world, other, third) = (World::new(from), World::new(to), World::new(to));
    let threads = world.mp.threads();
    let large = noise(100_000, 3);
    threads
        .put(&checkpoint("t", "1").values(vec![("v".to_owned(), TypedValue::new("bytes", large.clone()))]))
        .unwrap();
    write(&threads, "t", "1", "c", "written");
    world.mp.copy_to(&other.mp, &mut |_| {}).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let bundle = dir.path().join("thread.bundle");
    let name = Threads::run_of("t").unwrap();
    world.mp.export(&ExportOptions::new(Format::Bundle, name, bundle.clone()), &mut |_| ()).unwrap();
    third.mp.import(&ImportOptions::new(bundle), &mut |_, _| ()).unwrap();
    for mp in [&other.mp, &third.mp] {
        let threads = mp.threads();
        assert_eq!(value(&threads, "t", "1", "v").unwrap(), large);
        let entry = threads.find("t", "", None).unwrap().unwrap();
        assert_eq!(threads.writes(&entry).unwrap().len(), 1);
        assert_intact(mp);
    }
}

#[test]
fn a_secret_in_a_value_keeps_a_bundle_from_being_written() {
    let world = World::new(Kind::Sqlite);
    let secret = format!("token: ghp_{}", "a1B2".repeat(9));
    let values = vec![("start".to_owned(), text(&secret))];
    world.mp.threads().put(&checkpoint("t", "1").values(values)).unwrap();
    let bundle = world.dir.path().join("b.bundle");
    let options = ExportOptions::new(Format::Bundle, Threads::run_of("t").unwrap(), bundle.clone());
    let refused = world.mp.export(&options, &mut |_| ()).unwrap_err();
    assert_eq!(refused.reason(), ReasonCode::ConfirmationNeeded, "{refused}");
    assert!(!bundle.exists());
}

#[rstest]
fn other_runs_are_not_threads(#[values(Kind::Sqlite, Kind::Files)] kind: Kind) {
    let world = World::new(kind);
    world.mp.save(&run("thread-t"), Save::new()).unwrap();
    let threads = world.mp.threads();
    assert!(matches!(threads.put(&checkpoint("t", "1")), Err(Error::NoThread { .. })));
    let write = ThreadWrite::new("", "t", 0, "c", text("x"));
    assert!(matches!(threads.put_writes("t", "", "1", &[write], false), Err(Error::NoThread { .. })));
    assert!(matches!(threads.delete_thread("t"), Err(Error::NoThread { .. })));
    assert!(threads.find("t", "", None).unwrap().is_none());
    assert_eq!(threads.prune("t", 1).unwrap(), 0);
    assert_eq!(threads.put(&checkpoint("", "1")).unwrap_err().reason(), ReasonCode::CheckpointIdInvalid);
}

#[rstest]
fn notes_become_part_of_the_next_checkpoint(#[values(Kind::Sqlite, Kind::Files)] kind: Kind) {
    let world = World::new(kind);
    let threads = world.mp.threads();
    threads.put(&checkpoint("t", "1").summary("Step 1".to_owned())).unwrap();
    let name = Threads::run_of("t").unwrap();
    let note = milepost::model::Change::Note("a person looked".into());
    world.mp.record_changes(&name, &[note], &Default::default(), None).unwrap();
    threads.put(&checkpoint("t", "2")).unwrap();
    let shown = world.mp.show(&format!("{name}@2").parse().unwrap(), None).unwrap();
    let shown = shown.body().unwrap();
    assert!(shown.log.iter().any(|line| line.text == "a person looked"));
    assert_eq!(shown.thread.as_ref().unwrap().id, "2");
}

#[test]
fn a_collection_beside_writers_loses_no_value() {
    let dir = tempfile::tempdir().unwrap();
    let url = milepost::store::StoreUrl::sqlite(dir.path().join("m.db"));
    let open = || Milepost::at(&url, &milepost::store::OpenOptions::new().create(true)).unwrap();
    open().save(&run("r"), Save::new()).unwrap();
    std::thread::scope(|scope| {
        for writer in 0..3_u64 {
            scope.spawn(move || {
                let threads = open().threads();
                for n in 0..40_u64 {
                    let thread = format!("t{writer}");
                    // The same values again and again, so that they are removed while others begin to use them.
                    let values = vec![("v".to_owned(), TypedValue::new("bytes", noise(20_000, n % 4)))];
                    threads.put(&checkpoint(&thread, &format!("{n:03}")).values(values)).unwrap();
                    if n % 5 == 4 {
                        threads.prune(&thread, 1).unwrap();
                    }
                }
            });
        }
        scope.spawn(|| {
            let mp = open();
            for _ in 0..30 {
                mp.prune(&PruneOptions::default(), &mut |_| {}).unwrap();
            }
        });
    });
    let mp = open();
    for writer in 0..3 {
        assert_eq!(value(&mp.threads(), &format!("t{writer}"), "039", "v").unwrap(), noise(20_000, 3));
    }
    assert_intact(&mp);
}
