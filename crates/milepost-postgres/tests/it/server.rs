//! What only a server has: concurrent creation of the schema, locks, indexes, recorded users, rights and versions.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use milepost::model::{BlobId, RunId};
use milepost::store::{
    CheckpointFilter, Commit, EventCursor, EventQuery, HeaderQuery, Maintenance, OpenOptions, RunQuery,
    Store, StoreError, WriteDecision,
};
use milepost_postgres::PostgresStore;
use milepost_testkit::{Oracle, TestCheckpoint, fixtures};

use crate::servers::{self, TestSchema};
use crate::sql::Sql;

fn run_id(name: &str) -> RunId {
    name.parse().unwrap()
}

fn new_store() -> Option<(TestSchema, PostgresStore)> {
    let settings = servers::new_schema(&servers::shared()?.url("postgres"));
    let store = servers::open(&settings);
    Some((settings, store))
}

#[test]
fn twenty_clients_create_the_schema_at_once() {
    let Some(server) = servers::shared() else { return };
    let settings = servers::new_schema(&server.url("postgres"));
    let start = Barrier::new(20);
    thread::scope(|scope| {
        for n in 0..20 {
            let (settings, start) = (&settings, &start);
            scope.spawn(move || {
                let store = servers::open(settings);
                start.wait();
                let run = run_id(&format!("client-{n}"));
                store
                    .write(&run, &mut |view| {
                        WriteDecision::Commit(Box::new(Commit::new(fixtures::next_record(&run, view))))
                    })
                    .unwrap_or_else(|e| panic!("client {n}: {e:?}"));
            });
        }
    });
    let store = servers::open(&settings);
    assert_eq!(store.runs(&RunQuery::default()).unwrap().len(), 20);
    assert_eq!(Sql::connect(&settings).number("SELECT count(*) FROM {s}.meta"), 1);
    store.create().unwrap();
}

#[test]
fn an_administrator_can_create_the_schema() {
    let Some(server) = servers::shared() else { return };
    let settings = servers::new_schema(&server.url("postgres"));
    let store = PostgresStore::open(&settings, &OpenOptions::new());
    assert!(matches!(store.runs(&RunQuery::default()), Err(StoreError::Missing { .. })));
    let sql = Sql::connect(&settings);
    for _ in 0..2 {
        sql.run(&PostgresStore::create_statements(&settings, None));
    }
    Oracle::begin(&store, "made-by-hand").put_many(3).check();
    assert!(!store.store_id().unwrap().is_empty());
}

#[test]
fn a_newer_schema_is_refused() {
    let Some((settings, store)) = new_store() else { return };
    store.create().unwrap();
    Sql::connect(&settings).run("UPDATE {s}.meta SET version = 2");
    let newer = servers::open(&settings).runs(&RunQuery::default());
    assert!(matches!(newer, Err(StoreError::Newer { found: 2, known: 1, .. })), "{newer:?}");
}

#[test]
fn the_server_records_who_wrote() {
    let Some((_schema, store)) = new_store() else { return };
    let mut oracle = Oracle::begin(&store, "who");
    oracle.put_many(2);
    let user = store.current_user().unwrap();
    assert!(user.is_some());
    let row = store.run(oracle.run()).unwrap().unwrap().row;
    assert_eq!(row.user, user);
    assert_eq!(row.users, [user.unwrap()]);
    assert!(row.age.unwrap() < Duration::from_secs(60));
    assert_eq!(store.runs(&RunQuery::default()).unwrap()[0].users, row.users);
}

#[test]
fn a_writer_never_waits_for_the_writer_of_another_run() {
    let Some((settings, store)) = new_store() else { return };
    let (mut held, mut free) = (Oracle::begin(&store, "held"), Oracle::begin(&store, "free"));
    held.put_many(1);
    free.put_many(1);
    let sql = Sql::connect(&settings);
    // A writer of the run "held" that never ends.
    sql.run("BEGIN; UPDATE {s}.run SET count = count WHERE run_id = 'held'");
    let waiting = "SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid \
                   WHERE NOT l.granted AND a.query LIKE '%{s}%'";
    free.put_many(20).check();
    let mut new = Oracle::begin(&store, "new");
    new.put_many(3).check();
    assert_eq!(sql.number(waiting), 0, "nothing waits for a lock");
    thread::scope(|scope| {
        let blocked = scope.spawn(|| held.put_many(1).check());
        let deadline = Instant::now() + Duration::from_secs(5);
        while sql.number(waiting) == 0 {
            assert!(Instant::now() < deadline, "the writer of the held run does not wait");
            thread::sleep(Duration::from_millis(10));
        }
        free.put_many(5).check();
        sql.run("COMMIT");
        blocked.join().unwrap();
    });
}

#[test]
fn a_late_commit_is_not_skipped_by_a_follower() {
    let Some((settings, store)) = new_store() else { return };
    let other = servers::open(&settings);
    let (late, early) = (run_id("late"), run_id("early"));
    let add = |store: &dyn Store, run: &RunId, number: u64, meanwhile: &mut dyn FnMut()| {
        let write = store.write(run, &mut |view| {
            // The stamp is already taken here.
            meanwhile();
            let mut commit = Commit::new(fixtures::next_record(run, view));
            commit.events.push(fixtures::event(run, number));
            WriteDecision::Commit(Box::new(commit))
        });
        write.unwrap();
    };
    add(&store, &late, 1, &mut || {});
    let (mut cursor, mut seen) = (EventCursor::default(), Vec::new());
    let mut follow = || {
        for (next, event) in store.events(&EventQuery::default().after(&cursor)).unwrap().events {
            cursor = next;
            seen.push(event);
        }
        seen.len()
    };
    assert_eq!(follow(), 1);
    let mut followed = 0;
    add(&store, &late, 2, &mut || {
        add(&other, &early, 3, &mut || {});
        followed = follow();
    });
    assert_eq!(followed, 2, "the follower has seen the event with the higher stamp");
    assert_eq!(follow(), 3);
    assert_eq!(follow(), 3);
    assert_eq!(seen.last().unwrap().run_id, late);
}

/// Fills a store with a run of many checkpoints, each with marks and many with a tag.
fn fill(store: &dyn Store, checkpoints: usize) -> RunId {
    let run = run_id("large");
    for batch in 0..checkpoints / 500 {
        let write = store.write(&run, &mut |view| {
            let mut commit = Commit::new(fixtures::next_record(&run, view));
            let mut slot = view.slot.clone();
            for n in 0..500 {
                let id = format!("cp_20260102T030405006Z_{:012}", batch * 500 + n);
                commit.puts.push(TestCheckpoint::new(&run, "x").id(&id).seal(&slot));
                let tag = format!("tag-{batch}-{n}");
                let tags: &[&str] = if n % 5 == 0 { &[&tag] } else { &[] };
                commit.marks.push((slot.sequence(), fixtures::tagged(1, tags)));
                slot = slot.next();
            }
            commit.events.push(fixtures::event(&run, batch as u64));
            WriteDecision::Commit(Box::new(commit))
        });
        write.unwrap();
    }
    run
}

#[test]
fn reads_and_saves_use_indexes_only() {
    let Some((settings, store)) = new_store() else { return };
    let run = fill(&store, 5000);
    let sql = Sql::connect(&settings);
    for table in ["run", "checkpoint", "frame", "marks", "name", "item", "event", "write_log"] {
        sql.run(&format!("ANALYZE {{s}}.{table}"));
    }
    let scans = || {
        sql.run("SELECT pg_stat_clear_snapshot()");
        ["checkpoint", "frame", "marks", "name"].map(|table| {
            let scans = "SELECT seq_scan FROM pg_stat_user_tables WHERE schemaname = '{s}' AND relname = ";
            (table, sql.number(&format!("{scans} '{table}'")))
        })
    };
    let headers = |find| store.headers(&HeaderQuery::default().find(find).limit(20)).unwrap().len();
    // A server process reports its scans with the first statement that follows after a second.
    let settled = || {
        thread::sleep(Duration::from_millis(1200));
        store.blob_bytes().unwrap();
        scans()
    };
    let before = settled();
    for _ in 0..3 {
        assert_eq!(headers(CheckpointFilter::Id("cp_20260102T030405006Z_000000000007")), 1);
        assert_eq!(headers(CheckpointFilter::Prefix("cp_20260102T030405006Z_00000000001")), 10);
        assert_eq!(headers(CheckpointFilter::ShortId("00000000002")), 10);
        assert_eq!(headers(CheckpointFilter::Name("tag-3-50")), 1);
        assert_eq!(headers(CheckpointFilter::All), 20);
        assert_eq!(store.headers(&HeaderQuery::default().run(&run).limit(20)).unwrap().len(), 20);
        assert_eq!(
            store.headers(&HeaderQuery::default().run(&run).oldest_first(true).limit(20)).unwrap().len(),
            20
        );
        assert!(store.run(&run).unwrap().unwrap().row.latest.is_some());
        assert_eq!(store.runs(&RunQuery::default().limit(10)).unwrap().len(), 1);
        store.body(&run, 4321).unwrap();
        let doc = TestCheckpoint::new(
            &run,
            format!("{:?}", Instant::now()).replace(|c: char| !c.is_ascii_alphanumeric(), ""),
        );
        let write = store.write(&run, &mut |view| {
            if view.details.is_none() {
                return WriteDecision::NeedDetails;
            }
            let mut commit = Commit::new(fixtures::next_record(&run, view));
            commit.puts.push(doc.seal(&view.slot));
            commit.drops.push(view.details.as_ref().unwrap().oldest[0].header.sequence());
            commit.new_names.push("a-new-name".to_owned());
            WriteDecision::Commit(Box::new(commit))
        });
        write.unwrap();
    }
    assert_eq!(settled(), before, "sequential scans of large tables");
}

#[test]
fn a_collection_that_ends_early_leaves_every_blob_usable() {
    let Some((settings, store)) = new_store() else { return };
    let content = b"a blob that a collection was about to remove";
    let id = BlobId::of(content);
    store.put_blobs(&[content]).unwrap();
    let mut calls = 0;
    let stopped = store.collect_blobs(&mut || {
        calls += 1;
        if calls == 2 { Err(StoreError::NoBlob(id)) } else { Ok(milepost::store::LiveBlobs::default()) }
    });
    assert!(matches!(stopped, Err(StoreError::NoBlob(_))));
    assert_eq!(Sql::connect(&settings).number("SELECT count(*) FROM {s}.blob WHERE doomed IS NOT NULL"), 1);
    assert_eq!(store.blob(&id).unwrap(), content);
    assert_eq!(store.missing_blobs(&[id]).unwrap(), []);
    let mut oracle = Oracle::begin(&store, "doomed");
    let refused = oracle.attempt(|_, commit| commit.blobs.push(id));
    assert!(matches!(refused, Err(StoreError::BlobsMissing(ref ids)) if *ids == [id]), "{refused:?}");
    store.put_blobs(&[content]).unwrap();
    oracle.commit(|_, commit| commit.blobs.push(id)).check();
}

#[test]
fn compaction_removes_the_contents_of_removed_checkpoints() {
    let Some((settings, store)) = new_store() else { return };
    let mut oracle = Oracle::begin(&store, "compacted");
    for n in 0..40 {
        let doc = oracle.doc(n).state(milepost_testkit::rng::text(5000, n / 8));
        oracle.put(&doc);
    }
    let drops: Vec<u64> = (1..=40).filter(|n| n % 5 != 0).collect();
    oracle.drop_all(&drops).check();
    let sql = Sql::connect(&settings);
    assert!(sql.number("SELECT count(*) FROM {s}.frame") > 8, "frames of removed checkpoints are kept");
    let report = store.maintain(Maintenance::Compact).unwrap();
    assert!(report.bytes_freed > 0);
    assert_eq!(sql.number("SELECT count(*) FROM {s}.frame"), 8);
    oracle.check();
    oracle.put_many(3).check();
    assert_eq!(store.maintain(Maintenance::Compact).unwrap().bytes_freed, 0);
}
